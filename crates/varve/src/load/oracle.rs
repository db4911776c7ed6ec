//! Which version of each block a read may return.
//!
//! A block that was written by overlapping operations may hold any of their versions; it is exact
//! again after the next write that overlaps no other. One whose write failed may hold that version or an
//! earlier one, until a write of it has ended well.

use varve_units::Lba;

/// Set while writes of the block overlap, and after that until one does not.
const DISPUTED: u32 = 1 << 31;
/// Set when a write of the block failed, until one that overlaps no other ends well.
const FAILED: u32 = 1 << 30;

/// Versions of all blocks.
pub(crate) struct Oracle {
    /// Newest version issued; 0 = never written.
    newest: Vec<u32>,
    /// Writes in flight, [`DISPUTED`] and [`FAILED`].
    marks: Vec<u32>,
    /// How far back the version of a disputed block may lie.
    depth: u32,
}

impl Oracle {
    /// `depth` operations in flight at most, below 2^30.
    pub(crate) fn new(blocks: u64, depth: u32) -> Self {
        assert!(depth < FAILED, "writes in flight fit a mark");
        Self {
            newest: vec![0; blocks as usize],
            marks: vec![0; blocks as usize],
            depth,
        }
    }

    /// A write of a block begins; returns its version.
    pub(crate) fn begin(&mut self, lba: Lba) -> u32 {
        let index = lba.0 as usize;
        let others = self.marks[index] & !(DISPUTED | FAILED);
        let has_failed = self.marks[index] & FAILED;
        self.marks[index] = (others + 1) | has_failed | if others > 0 { DISPUTED } else { 0 };
        self.newest[index] += 1;
        self.newest[index]
    }

    /// A write of a block has ended, well or not.
    pub(crate) fn end(&mut self, lba: Lba, is_well: bool) {
        let mark = &mut self.marks[lba.0 as usize];
        *mark -= 1;
        if !is_well {
            *mark |= FAILED;
        } else if *mark == FAILED {
            // It overlapped no other.
            *mark = 0;
        }
    }

    /// The newest version issued.
    pub(crate) fn newest(&self, lba: Lba) -> u32 {
        self.newest[lba.0 as usize]
    }

    /// True if a read may return this version now.
    pub(crate) fn allows(&self, lba: Lba, version: u32) -> bool {
        let index = lba.0 as usize;
        let newest = self.newest[index];
        let mark = self.marks[index];
        if mark == 0 {
            version == newest
        } else if mark & FAILED > 0 {
            version <= newest
        } else {
            version <= newest && newest - version <= self.depth
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undisputed_block_has_one_version() {
        let mut oracle = Oracle::new(4, 8);
        let lba = Lba(2);
        assert!(oracle.allows(lba, 0));
        assert_eq!(oracle.begin(lba), 1);
        assert!(oracle.allows(lba, 0) && oracle.allows(lba, 1) && !oracle.allows(lba, 2));
        oracle.end(lba, true);
        assert!(!oracle.allows(lba, 0) && oracle.allows(lba, 1));
    }

    #[test]
    fn overlapping_writes_leave_a_choice_until_the_next() {
        let mut oracle = Oracle::new(4, 8);
        let lba = Lba(0);
        oracle.begin(lba);
        oracle.begin(lba);
        oracle.end(lba, true);
        oracle.end(lba, true);
        assert!(oracle.allows(lba, 1) && oracle.allows(lba, 2));
        oracle.begin(lba);
        oracle.end(lba, true);
        assert!(!oracle.allows(lba, 2) && oracle.allows(lba, 3));
    }

    /// What a write that failed has left nobody knows; the next one that ends well does away with it.
    #[test]
    fn a_failed_write_leaves_a_choice_until_one_ends_well() {
        let mut oracle = Oracle::new(4, 1);
        let lba = Lba(1);
        oracle.begin(lba);
        oracle.end(lba, true);
        for _ in 0..5 {
            oracle.begin(lba);
            oracle.end(lba, false);
        }
        assert!((1..=6).all(|version| oracle.allows(lba, version)));
        assert!(!oracle.allows(lba, 7));
        // Two that overlap: whichever came last may be the one that failed.
        oracle.begin(lba);
        oracle.begin(lba);
        oracle.end(lba, false);
        oracle.end(lba, true);
        assert!(oracle.allows(lba, 1) && oracle.allows(lba, 8));
        oracle.begin(lba);
        oracle.end(lba, true);
        assert!(!oracle.allows(lba, 8) && oracle.allows(lba, 9));
    }
}
