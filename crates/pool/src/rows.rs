//! Which drive of a stripe is wrong where its parity does not fit.
//!
//! A row is one block of each drive at the same height. The map vouches for the blocks it needs only;
//! the stripe's P2L has the checksum of every other one, and of itself. If all of them pass, it is the
//! parity that is wrong; if one does not, it is that block, though nobody may need it.

use alloc::vec::Vec;
use varve_array::StripeSet;
use varve_format::{NarrowTail, P2l, P2lEntry, block_crc};
use varve_ftl::Geometry;
use varve_io::{Blocks, Drive};
use varve_units::{BLOCK, BLOCK_BYTES};

/// Looks at rows of a tier with parity.
pub(crate) struct Rows<'a> {
    set: &'a StripeSet,
    sizes: Geometry,
    /// The stripe that was looked at last, and its P2L.
    last: Option<(u64, Option<P2l>)>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(set: &'a StripeSet, sizes: Geometry) -> Self {
        let last = None;
        Self { set, sizes, last }
    }

    /// The drive that is wrong in the row of the data block at byte `offset`, every block of which that
    /// the map needs passes its check; nothing if that cannot be told.
    pub(crate) async fn wrong_member(&mut self, offset: u64) -> Option<usize> {
        let geometry = *self.set.geometry();
        let place = geometry.place(offset / BLOCK_BYTES);
        let parity = geometry.parity(place.stripe)?;
        let p2l = self.p2l(place.stripe).await?;
        let encoded = p2l.encode();
        let strip_blocks = geometry.strip_bytes() / BLOCK_BYTES;
        let first = place.stripe * u64::from(self.sizes.stripe_blocks);
        let mut wrong = Vec::new();
        for strip in 0..geometry.data_strips() {
            let at = strip as u64 * strip_blocks + place.block;
            let read = self.read(first + at, 1, 0).await;
            let is_good = match read {
                Some(block) => self.passes(at as u32, &block, &p2l, &encoded)?,
                None => false,
            };
            if !is_good {
                wrong.push(geometry.direct(place.stripe, strip));
            }
        }
        match wrong[..] {
            [] => Some(parity),
            [one] => Some(one),
            _ => None,
        }
    }

    /// Whether block `at` of a stripe is what was written there.
    /// Nothing if the P2L does not speak of it.
    fn passes(&self, at: u32, block: &Blocks, p2l: &P2l, encoded: &[u8]) -> Option<bool> {
        // Padding, and the rest of an area, are written as zeroes.
        let is_blank = || block.bytes().iter().all(|byte| *byte == 0);
        let (area, leading) = self.areas();
        let tail = p2l.narrow.map_or(NarrowTail::Data, |narrow| narrow.tail);
        if tail != NarrowTail::Data && at < area {
            let expected = encoded.chunks_exact(BLOCK).nth(at as usize);
            return Some(expected.map_or_else(is_blank, |area| block.bytes() == area));
        }
        let is_behind = tail != NarrowTail::Data && at >= self.sizes.stripe_blocks - area;
        if is_behind || self.sizes.is_user_block(at) {
            let entry = p2l.entries.get((at - leading) as usize);
            return match entry.copied().unwrap_or(P2lEntry::PADDING) {
                // It may be a part of the sum.
                P2lEntry::PADDING if tail == NarrowTail::Sum => None,
                P2lEntry::PADDING => Some(is_blank()),
                entry => Some(block_crc(block.block(0)) == entry.crc),
            };
        }
        let inside = match at < leading {
            true => at,
            false => at - (self.sizes.stripe_blocks - area),
        };
        match encoded.chunks_exact(BLOCK).nth(inside as usize) {
            Some(expected) => Some(block.bytes() == expected),
            None => Some(is_blank()),
        }
    }

    /// Blocks of a P2L area, and of the one in front of a stripe's data if there is one.
    fn areas(&self) -> (u32, u32) {
        let area = self.sizes.stripe_p2l_blocks() / self.sizes.p2l_copies;
        (area, area * (self.sizes.p2l_copies - 1))
    }

    /// The P2L of a stripe; nothing if none can be read, or they contradict one another.
    async fn p2l(&mut self, stripe: u64) -> Option<P2l> {
        if let Some((last, p2l)) = &self.last
            && *last == stripe
        {
            return p2l.clone();
        }
        let (area, leading) = self.areas();
        let first = stripe * u64::from(self.sizes.stripe_blocks);
        let end = first + u64::from(self.sizes.stripe_blocks - area);
        // A narrow stripe may have its only area in front.
        let starts = [(end, false), (first, leading == 0)];
        let user = self.sizes.stripe_user_blocks() as usize;
        let stripes = u64::from(self.sizes.group_blocks / self.sizes.stripe_blocks);
        let mut found: Vec<P2l> = Vec::new();
        for (start, leads) in starts {
            for copy in 0..self.set.geometry().copies() {
                let Some(blocks) = self.read(start, P2l::blocks_for(user), copy).await else {
                    continue;
                };
                let (group, inside) = ((stripe / stripes) as u32, (stripe % stripes) as u32);
                let decoded = P2l::decode(blocks.bytes(), group, inside).ok();
                let is_its = |p2l: &P2l| p2l.narrow.is_some_and(|one| one.leads()) == leads;
                found.extend(decoded.filter(|p2l| p2l.entries.len() == user && is_its(p2l)));
            }
        }
        found.dedup();
        let p2l = (found.len() == 1).then(|| found.remove(0));
        self.last = Some((stripe, p2l.clone()));
        p2l
    }

    async fn read(&self, block: u64, count: usize, copy: u8) -> Option<Blocks> {
        let into = Blocks::zeroed(count);
        let set: &dyn Drive = self.set;
        set.read_data(block * BLOCK_BYTES, into, copy).await.ok()
    }
}
