//! Room left in open groups, and how many free groups it takes to go on when it ends.
//!
//! Streams that are written alike fill their groups in step: all of them want another one at the same
//! time, and what is free then has to last until garbage collection has made more. Streams that are
//! out of step want one after the other, as garbage collection makes them.

use alloc::vec::Vec;

/// Stripes left in the open group of each stream that can be written, least first.
pub(crate) struct Rooms {
    left: Vec<u32>,
    group_stripes: u32,
}

impl Rooms {
    /// Of groups of so many stripes; a stream without an open group has none left.
    pub(crate) fn new(mut left: Vec<u32>, group_stripes: u32) -> Self {
        left.sort_unstable();
        Self {
            left,
            group_stripes,
        }
    }

    /// Groups that are opened at most while `stripes` stripes are written, whichever streams they go to:
    /// the first stripe behind a full group opens another.
    pub(crate) fn opened_by(&self, stripes: u64) -> usize {
        let group = self.group_stripes;
        let mut rest = stripes;
        for (opened, left) in self.left.iter().enumerate() {
            let cost = u64::from((left + 1).min(group));
            if cost > rest {
                return opened;
            }
            rest -= cost;
        }
        self.left.len() + (rest / u64::from(group)) as usize
    }

    /// Stripes of free groups that there should be if all are written alike and a group is made for each
    /// that is filled: before the k-th of them opens one, each has written what was left to it.
    pub(crate) fn ahead(&self) -> u64 {
        let streams = self.left.len() as u64;
        let short = |(opened, left): (u64, &u32)| {
            let taken = opened * u64::from(self.group_stripes);
            taken.saturating_sub(streams * u64::from(*left))
        };
        (1..).zip(&self.left).map(short).max().unwrap_or(0)
    }

    /// Stripes left in all.
    pub(crate) fn left(&self) -> u64 {
        self.left.iter().copied().map(u64::from).sum()
    }

    /// Streams.
    pub(crate) fn streams(&self) -> u64 {
        self.left.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that any order of stripes opens, by trying all.
    fn tried(left: &mut [u32], group: u32, stripes: u64) -> usize {
        if stripes == 0 {
            return 0;
        }
        let mut most = 0;
        for stream in 0..left.len() {
            let before = left[stream];
            let opens = before == 0;
            left[stream] = if opens { group - 1 } else { before - 1 };
            most = most.max(usize::from(opens) + tried(left, group, stripes - 1));
            left[stream] = before;
        }
        most
    }

    #[test]
    fn no_order_of_stripes_opens_more() {
        for group in 1..=3 {
            for code in 0..(group + 1_u32).pow(3) {
                let mut left: Vec<_> = (0..3)
                    .map(|stream| code / (group + 1).pow(stream) % (group + 1))
                    .collect();
                for stripes in 0..=7 {
                    let opened = Rooms::new(left.clone(), group).opened_by(stripes);
                    let most = tried(&mut left, group, stripes);
                    let what = alloc::format!("{left:?} of {group}, {stripes} stripes");
                    assert!(opened >= most, "{what}: {opened}, {most}");
                    // A group without a stripe counts as one with a stripe.
                    let is_exact = left.iter().all(|left| *left < group);
                    assert!(!is_exact || opened == most, "{what}: {opened}, {most}");
                }
            }
        }
    }

    #[test]
    fn streams_in_step_want_groups_at_once() {
        let ahead = |left: &[u32]| Rooms::new(left.to_vec(), 64).ahead();
        assert_eq!((ahead(&[]), ahead(&[64]), ahead(&[16])), (0, 0, 48));
        assert_eq!(
            (ahead(&[64; 8]), ahead(&[32; 8]), ahead(&[0; 8])),
            (0, 256, 512)
        );
        // As far out of step as can be: never more than one group.
        assert_eq!(ahead(&[8, 16, 24, 32, 40, 48, 56, 64]), 0);
        assert_eq!(ahead(&[56, 48, 40, 32, 24, 16, 8, 0]), 64);
        assert_eq!(ahead(&[1, 64, 64, 64]), 60);
    }
}
