//! Which version of each block a read may return.
//!
//! A block that was written by overlapping operations may hold any of their versions; it is exact
//! again after the next write that overlaps no other.

use varve_units::Lba;

/// Set while writes of the block overlap, and after that until one does not.
const DISPUTED: u16 = 1 << 15;

/// Versions of all blocks.
pub(crate) struct Oracle {
    /// Newest version issued; 0 = never written.
    newest: Vec<u32>,
    /// Writes in flight, and [`DISPUTED`].
    marks: Vec<u16>,
    /// How far back the version of a disputed block may lie.
    depth: u32,
}

impl Oracle {
    /// `depth` operations in flight at most, below 2^15.
    pub(crate) fn new(blocks: u64, depth: u32) -> Self {
        assert!(depth < u32::from(DISPUTED), "writes in flight fit a mark");
        Self {
            newest: vec![0; blocks as usize],
            marks: vec![0; blocks as usize],
            depth,
        }
    }

    /// A write of a block begins; returns its version.
    pub(crate) fn begin(&mut self, lba: Lba) -> u32 {
        let index = lba.0 as usize;
        let others = self.marks[index] & !DISPUTED;
        self.marks[index] = (others + 1) | if others > 0 { DISPUTED } else { 0 };
        self.newest[index] += 1;
        self.newest[index]
    }

    /// A write of a block has ended.
    pub(crate) fn end(&mut self, lba: Lba) {
        self.marks[lba.0 as usize] -= 1;
    }

    /// The newest version issued.
    pub(crate) fn newest(&self, lba: Lba) -> u32 {
        self.newest[lba.0 as usize]
    }

    /// True if a read may return this version now.
    pub(crate) fn allows(&self, lba: Lba, version: u32) -> bool {
        let index = lba.0 as usize;
        let newest = self.newest[index];
        if self.marks[index] == 0 {
            version == newest
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
        oracle.end(lba);
        assert!(!oracle.allows(lba, 0) && oracle.allows(lba, 1));
    }

    #[test]
    fn overlapping_writes_leave_a_choice_until_the_next() {
        let mut oracle = Oracle::new(4, 8);
        let lba = Lba(0);
        oracle.begin(lba);
        oracle.begin(lba);
        oracle.end(lba);
        oracle.end(lba);
        assert!(oracle.allows(lba, 1) && oracle.allows(lba, 2));
        oracle.begin(lba);
        oracle.end(lba);
        assert!(!oracle.allows(lba, 2) && oracle.allows(lba, 3));
    }
}
