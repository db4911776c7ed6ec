//! What a scrub has seen and done.

use alloc::vec::Vec;
use varve_units::{Lba, VolumeId};

/// Losses that are named; of more than these only the number is told. Arbitrary.
const LOST_MAX: usize = 4096;

/// How far a scrub has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubProgress {
    /// Bytes of content that were looked at, or are no longer where they were.
    pub done: u64,
    /// Bytes of content there were when it began.
    pub total: u64,
}

/// Blocks of a volume that no way gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ScrubLoss {
    /// The volume.
    pub volume: VolumeId,
    /// The first of them.
    pub lba: Lba,
    /// How many; all of a leaf where its image is lost.
    pub blocks: u64,
}

/// What a scrub has seen and done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubReport {
    /// True if it was not told to end early.
    pub is_whole: bool,
    /// Bytes read from all drives, but for what was read again.
    pub bytes: u64,
    /// Blocks that were compared with their checksums.
    pub blocks: u64,
    /// Leaves of the map, headers of the log, parts of checkpoints and P2L areas that were.
    pub records: u64,
    /// Wrong copies of any of these that were written again.
    pub repairs: u64,
    /// Blocks of parity that were.
    pub parity_repairs: u64,
    /// Wrong copies and blocks of parity that could not be written.
    pub failures: u64,
    /// Blocks that hosts wrote and no way gives.
    pub lost_blocks: u64,
    /// The first of them, in the order they were met.
    pub lost: Vec<ScrubLoss>,
    /// Stripes and chunks that no copy says the content of, and parts of checkpoints that none gives.
    pub unknown: u64,
    /// Stripes and chunks that were not compared in all ways because a drive does not answer.
    pub away: u64,
}

impl ScrubReport {
    /// True if nothing is wrong any more, as far as it was looked at, and everything could be compared.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.failures == 0 && self.lost_blocks == 0 && self.unknown == 0 && self.away == 0
    }

    pub(super) const fn has_written(&self) -> bool {
        self.repairs + self.parity_repairs > 0
    }

    pub(super) fn note_lost(&mut self, volume: VolumeId, lba: Lba, blocks: u64) {
        self.lost_blocks += blocks;
        if let Some(last) = self.lost.last_mut()
            && (last.volume, last.lba.0 + last.blocks) == (volume, lba.0)
        {
            last.blocks += blocks;
        } else if self.lost.len() < LOST_MAX {
            self.lost.push(ScrubLoss {
                volume,
                lba,
                blocks,
            });
        }
    }
}
