//! Where in its group a stripe's blocks lie.

use super::OpenGroup;
use crate::geometry::Geometry;
use core::ops::Range;
use varve_format::{Narrow, NarrowTail, P2lEntry};
use varve_io::LeftOut;

/// A stripe's place, and what of it is left out. Kept for all attempts to write the stripe, and for its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) open: OpenGroup,
    pub(crate) left_out: Option<LeftOut>,
}

impl Layout {
    /// A stripe of full width.
    pub(crate) const fn full(open: OpenGroup) -> Self {
        let left_out = None;
        Self { open, left_out }
    }

    /// What its P2L says of its width.
    pub(crate) fn narrow(&self, geometry: &Geometry) -> Option<Narrow> {
        let out = self.left_out?;
        let tail = match (out.is_sum, out.first + out.count == geometry.stripe_blocks) {
            (true, _) => NarrowTail::Sum,
            (false, true) => NarrowTail::Zeroes,
            (false, false) => NarrowTail::Data,
        };
        let member = out.member;
        Some(Narrow { member, tail })
    }

    /// Blocks of the stripe that may hold user data, in one run or two.
    fn user_runs(&self, geometry: &Geometry) -> [Range<u32>; 2] {
        let area = geometry.p2l_area_blocks();
        let first = geometry.stripe_first_user_block(0);
        let end = geometry.stripe_blocks - area;
        match self.left_out {
            None => [first..end, end..end],
            Some(out) if out.first + out.count == geometry.stripe_blocks => {
                [area..out.first, end..end]
            }
            Some(out) => [first..out.first, out.first + out.count..end],
        }
    }

    /// The first `count` blocks of user data, counted from the group's start.
    ///
    /// # Panics
    /// If it has less.
    pub(crate) fn runs(&self, geometry: &Geometry, count: u32) -> [Range<u32>; 2] {
        let [one, other] = self.user_runs(geometry);
        let start = self.open.next_stripe * geometry.stripe_blocks;
        let in_one = count.min(one.len() as u32);
        let in_other = count - in_one;
        assert!(in_other <= other.len() as u32, "blocks of one stripe");
        [
            start + one.start..start + one.start + in_one,
            start + other.start..start + other.start + in_other,
        ]
    }

    /// What the P2L says of the blocks of a stripe, as far as they hold what is told of `entries`.
    pub(super) fn entries(
        &self,
        geometry: &Geometry,
        mut entries: impl ExactSizeIterator<Item = P2lEntry>,
    ) -> impl Iterator<Item = P2lEntry> {
        let runs = self.user_runs(geometry);
        let mut at = geometry.stripe_first_user_block(0);
        core::iter::from_fn(move || {
            if entries.len() == 0 {
                return None;
            }
            let is_user = runs.iter().any(|run| run.contains(&at));
            at += 1;
            if is_user {
                entries.next()
            } else {
                Some(P2lEntry::PADDING)
            }
        })
    }

    /// Where each block of user data lies, by its index, counted from the group's start.
    pub(crate) fn places(&self, geometry: &Geometry) -> impl Fn(u32) -> u32 + use<> {
        let [one, other] = self.user_runs(geometry);
        let start = self.open.next_stripe * geometry.stripe_blocks;
        let (in_one, one, other) = (one.len() as u32, start + one.start, start + other.start);
        move |index| match index.checked_sub(in_one) {
            None => one + index,
            Some(index) => other + index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use varve_io::Handle;

    /// Strips of 5 blocks, four of them data.
    const GEOMETRY: Geometry = Geometry {
        chunk_bytes: 1 << 20,
        chunks: 16,
        lba_bytes: 512,
        group_blocks: 100,
        groups: 16,
        stripe_blocks: 20,
        p2l_copies: 1,
        slices: 1,
    };

    fn layout(left_out: Option<LeftOut>) -> Layout {
        let open = OpenGroup {
            group: 3,
            next_stripe: 2,
            handle: Handle::default(),
        };
        Layout { open, left_out }
    }

    /// Every block of user data has a place of its own, in order, outside of what is left out and of the P2L area.
    #[test]
    fn places_are_in_order_and_apart() {
        let strips = (0..4).map(|strip| (strip, false)).chain([(3, true)]);
        let outs = strips.map(|(strip, is_sum)| LeftOut {
            member: 1,
            first: 5 * strip,
            count: 5,
            is_sum,
        });
        for out in core::iter::once(None).chain(outs.map(Some)) {
            let layout = layout(out);
            let user = GEOMETRY.stripe_user_blocks() - out.map_or(0, |out| out.count);
            let places: Vec<u32> = (0..user).map(layout.places(&GEOMETRY)).collect();
            assert!(places.is_sorted_by(|one, next| one < next), "{out:?}");
            let leads = layout
                .narrow(&GEOMETRY)
                .is_some_and(|narrow| narrow.leads());
            let area = if leads { 40 } else { 59 };
            for at in &places {
                let is_out = out
                    .is_some_and(|out| (40 + out.first..40 + out.first + out.count).contains(at));
                assert!(
                    (40..60).contains(at) && *at != area && !is_out,
                    "{out:?} {at}"
                );
            }
            for count in 0..=user {
                let runs = layout.runs(&GEOMETRY, count);
                let all: Vec<u32> = runs.into_iter().flatten().collect();
                assert_eq!(all, places[..count as usize], "{out:?} {count}");
            }
        }
    }
}
