//! What the blocks of one leaf promise together after a crash.
//!
//! All records of a leaf are in one lane, and a crash leaves a prefix of the lane: if write B was
//! invoked after write A was acknowledged and B survived, then A survived, or something later. A
//! record happens whole or not at all; a long write is several.
//!
//! **Not here**: what a single block may hold (`register`).

use crate::checker::register::{Cluster, Register};
use crate::content::WriteId;
use std::collections::BTreeSet;

/// A write that should have survived, because another did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The write that is missing.
    pub missing: WriteId,
    /// The write of the same leaf that survived.
    pub survivor: WriteId,
    /// Index of the block in the leaf.
    pub index: usize,
}

/// A record of a leaf: the write, and which of its records in that leaf.
pub type RecordId = (WriteId, u64);

/// What becomes of the blocks that a write has in one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records {
    /// So many of them, from the first on, are one record.
    pub blocks: u64,
    /// Records of a write reach the lane in order: one that survived shows that those before it did. Not where
    /// hosts send them as commands of their own.
    pub are_in_order: bool,
}

/// Checks the blocks of one leaf after a crash and a read of all of them. `record` tells which record of this
/// leaf brought a write to a block, by the block's index; none where the write is no record (a resize).
///
/// # Errors
/// The first gap.
pub fn check(
    leaf: &[Register],
    are_in_order: bool,
    record: impl Fn(WriteId, usize) -> Option<RecordId>,
) -> Result<(), Gap> {
    let mut survivors = BTreeSet::new();
    let mut newest: Option<&Cluster> = None;
    let seen: Vec<Vec<&Cluster>> = leaf.iter().map(Register::survivors_seen).collect();
    for (index, block) in seen.iter().enumerate() {
        if let [only] = block.as_slice()
            && let Some(record) = record(only.id, index)
        {
            // Of a write that was sent again an earlier effect may have survived, without the last.
            if !only.is_repeated() {
                survivors.insert(record);
            }
            if newest.is_none_or(|newest| newest.invoked < only.invoked) {
                newest = Some(only);
            }
        }
    }
    let Some(newest) = newest else {
        return Ok(());
    };
    for (index, (register, seen)) in leaf.iter().zip(&seen).enumerate() {
        for write in register.open() {
            let Some(record) = record(write.id, index) else {
                continue;
            };
            let (id, number) = record;
            let last = if are_in_order { u64::MAX } else { number };
            let has_survived = survivors.range(record..=(id, last)).next().is_some();
            let is_due = write.acknowledged < newest.invoked || has_survived;
            let is_missing = !seen.is_empty() && seen.iter().all(|held| held.is_before(write));
            let is_seen = seen.iter().any(|held| held.id == write.id);
            if is_due && is_missing && !is_seen {
                return Err(Gap {
                    missing: write.id,
                    survivor: newest.id,
                    index,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf() -> Vec<Register> {
        let mut leaf = vec![Register::new(1), Register::new(1)];
        for (block, id, at) in [(0, 1, 10), (1, 2, 20)] {
            leaf[block].invoke(id, false, at);
            leaf[block].acknowledge(id, at + 1, false, at, 0);
        }
        leaf.iter_mut().for_each(|block| block.crash(30, 0, 30, 30));
        leaf
    }

    /// Every write but the zeroes of the beginning is one record.
    fn whole(id: WriteId, _: usize) -> Option<RecordId> {
        (id > 0).then_some((id, 0))
    }

    /// The later write without the earlier is a gap; every prefix is fine.
    #[test]
    fn only_prefixes_survive() {
        for (first, second, is_legal) in [
            (true, true, true),
            (true, false, true),
            (false, false, true),
            (false, true, false),
        ] {
            let mut leaf = leaf();
            for (block, id, kept) in [(0, 1, first), (1, 2, second)] {
                let read = if kept {
                    leaf[block].returned(id, 31, 32)
                } else {
                    leaf[block].returned_zero(31, 32)
                };
                assert_eq!(read, Ok(()));
            }
            assert_eq!(
                check(&leaf, true, whole).is_ok(),
                is_legal,
                "{first} {second}"
            );
        }
    }

    /// Two blocks after a crash, of which this one alone holds a write of both.
    fn half(kept: usize, is_repeated: bool) -> Vec<Register> {
        let mut leaf = vec![Register::new(1), Register::new(1)];
        for block in &mut leaf {
            block.invoke(5, false, 10);
            if is_repeated {
                block.repeat(5, false);
            }
            block.acknowledge(5, 20, false, 10, 0);
            block.crash(30, 0, 30, 30);
        }
        assert_eq!(leaf[kept].returned(5, 31, 32), Ok(()));
        assert_eq!(leaf[1 - kept].returned_zero(31, 32), Ok(()));
        leaf
    }

    /// One record over two blocks is there whole or not at all.
    #[test]
    fn records_are_whole() {
        let gap = check(&half(0, false), true, whole).expect_err("half a record");
        assert_eq!((gap.missing, gap.index), (5, 1));
    }

    /// A long write is a record for each part: the first may be there without the second, none in part, and the
    /// second without the first only where they are not in order.
    #[test]
    fn parts_of_a_long_write_are_records() {
        let of_one_block = |id, index| Some((id, index as u64)).filter(|(id, _)| *id > 0);
        assert_eq!(check(&half(0, false), true, of_one_block), Ok(()));
        assert_eq!(check(&half(1, false), false, of_one_block), Ok(()));
        let gap = check(&half(1, false), true, of_one_block).expect_err("no prefix");
        assert_eq!((gap.missing, gap.index), (5, 0));
        let of_both = |id, index| Some((id, index as u64 / 2)).filter(|(id, _)| *id > 0);
        assert!(check(&half(0, false), true, of_both).is_err());
    }

    /// A write that was sent again is several records: of the last one nothing may have survived where
    /// another write came between.
    #[test]
    fn repeated_writes_are_several_records() {
        assert_eq!(check(&half(0, true), true, whole), Ok(()));
    }
}
