//! Reads that go to another place of the drive: the command succeeds with what lies there.
//!
//! Once, or every read of the range until it is written again. The claim of one that went astray once stays
//! as long: who saw that it was not right must find another copy that is.

use super::state::{Flaw, State, sectors};
use crate::platter::Cell;
use std::ops::Range;
use varve_pool::label::RESERVED_BYTES;
use varve_units::{Nanos, SECTOR_BYTES};

/// Of so many reads of labels one may go elsewhere: its drive is lost for it.
const LABELS_ONE_IN: u64 = 8;

/// A read that will go elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misread {
    /// So many logical blocks further (modulo the drive).
    pub blocks: u64,
    /// The range reads so until it is written again; otherwise one command does.
    pub lasts: bool,
}

impl State {
    /// If a read of this range is to go elsewhere, that is what the range reads as from now on.
    pub(super) fn begin_misread(&mut self, range: &Range<u64>, now: Nanos) -> Option<Misread> {
        let mut armed = self.misreads.iter();
        let index = armed.position(|misread| self.may_misread(*misread, range, now))?;
        if range.start < RESERVED_BYTES && !self.rng.chance(1, LABELS_ONE_IN) {
            return None;
        }
        let misread = self.misreads.swap_remove(index);
        let other = self.misdirected(misread.blocks, range)?;
        let cells = self.cells_at(&other);
        let claimed = self.claim(range);
        assert!(claimed, "a fault within redundancy");
        for (sector, cell) in sectors(range).zip(cells) {
            self.flaws.insert(sector, Flaw::Instead(cell));
        }
        self.count("misdirected_read");
        Some(misread)
    }

    /// The read that went elsewhere is done.
    pub(super) fn end_misread(&mut self, misread: Misread, range: &Range<u64>) {
        if misread.lasts {
            self.count("misdirected_reads_lasting");
            return;
        }
        for sector in sectors(range) {
            self.flaws.insert(sector, Flaw::Spent);
        }
    }

    fn may_misread(&self, misread: Misread, range: &Range<u64>, now: Nanos) -> bool {
        let is_flawed = self.flaws.range(sectors(range)).next().is_some();
        !is_flawed
            && self.misdirected(misread.blocks, range).is_some()
            && self
                .atlas
                .borrow()
                .may_claim_for_a_read(self.index, range, now)
    }

    /// The sectors of a range as a read would see them if it saw them at all.
    fn cells_at(&self, range: &Range<u64>) -> Vec<Cell> {
        let mut cells = self.cache.cells(&self.platter, range);
        for (sector, flaw) in self.flaws.range(sectors(range)) {
            if let Flaw::Instead(content) = flaw {
                let at = sector - range.start / SECTOR_BYTES;
                cells[at as usize] = content.clone();
            }
        }
        cells
    }
}
