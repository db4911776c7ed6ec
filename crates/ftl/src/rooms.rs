//! Room left in open groups, and how many free groups it takes to go on when it ends.

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
}
