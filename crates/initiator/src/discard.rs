//! Ranges that are not needed any more, cut into what one command takes as it goes out.
//!
//! What a controller takes in a range may be a block: all pieces of a discard at once could need more
//! memory than there is. So a request keeps the ranges its caller gave, counted in blocks, and pieces
//! are made for the command that is sent.
//!
//! **Not here**: which command comes when (`requests`).

use crate::requests::Limits;
use alloc::vec::Vec;
use varve_nvme::Sqe;
use varve_nvme::dsm::{Dsm, DsmRange};
use varve_nvme::opcode::io;
use zerocopy::IntoBytes;

/// A range, and how many blocks those before it have.
struct Run {
    before: u64,
    lba: u64,
    blocks: u32,
}

/// Ranges of one request; empty ones are left out.
pub(crate) struct Discard {
    runs: Vec<Run>,
    blocks: u64,
}

impl Discard {
    pub fn new(ranges: &[(u64, u32)]) -> Self {
        let mut blocks = 0;
        let mut runs = Vec::with_capacity(ranges.len());
        for (lba, count) in ranges.iter().copied().filter(|(_, count)| *count > 0) {
            runs.push(Run {
                before: blocks,
                lba,
                blocks: count,
            });
            blocks += u64::from(count);
        }
        Self { runs, blocks }
    }

    /// Blocks of all ranges.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Pieces of at most `piece_max` blocks behind the first `at` blocks.
    fn pieces(&self, at: u64, piece_max: u32) -> impl Iterator<Item = (u64, u32)> {
        let behind = self.runs.partition_point(|run| run.before <= at);
        let mut runs = self.runs[behind.saturating_sub(1)..].iter();
        let mut run = runs.next();
        let mut at = at;
        core::iter::from_fn(move || {
            let current = run?;
            let from = (at - current.before) as u32;
            let count = (current.blocks - from).min(piece_max);
            if from + count == current.blocks {
                run = runs.next();
            }
            at += u64::from(count);
            Some((current.lba + u64::from(from), count))
        })
    }

    /// Blocks that one command takes behind the first `at`; 0 if the controller has no such command.
    pub fn command_blocks(&self, at: u64, limits: &Limits) -> u64 {
        if limits.range_blocks == 0 {
            return 0;
        }
        let pieces = self.pieces(at, limits.range_blocks);
        let pieces = pieces.take(limits.ranges as usize);
        let blocks: u64 = pieces.map(|(_, count)| u64::from(count)).sum();
        // A part counts in 32 bits.
        blocks.min(limits.discard_blocks).min(u32::MAX.into())
    }

    /// The command for `count` blocks behind the first `at`, and its data.
    pub fn command(&self, at: u64, count: u32, limits: &Limits) -> (Sqe, Vec<u8>) {
        let mut bytes = Vec::new();
        let (mut left, mut ranges) = (count, 0);
        for (lba, blocks) in self.pieces(at, limits.range_blocks) {
            let nlb = blocks.min(left);
            if nlb == 0 {
                break;
            }
            let range = DsmRange {
                attributes: 0.into(),
                nlb: nlb.into(),
                slba: lba.into(),
            };
            bytes.extend_from_slice(range.as_bytes());
            ranges += 1;
            left -= nlb;
        }
        let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, 0, limits.nsid);
        let deallocate = true;
        Dsm { ranges, deallocate }.fill(&mut sqe);
        (sqe, bytes)
    }
}
