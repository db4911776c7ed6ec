//! The drive below a dense tier, as an account of what its flash has to do.
//!
//! A policy owns whole erase units: there are as many as it has units. An IU is a block: policies write runs so long
//! that whole IUs are the rule at full size, and at the run's small scale they would not be.

use varve_media::{Counters, Shape, ShapeError, Ssd};
use varve_units::BLOCK_BYTES;

/// How many times the drive's user data fit into its flash, in millionths.
///
/// # Source
/// The sheet of the D5-P5316 (`media`, drive `qlc-p5316`), fitted there to its random writes.
pub(crate) const SPARE_MILLIONTHS: u64 = 1_078_000;
/// IUs written in part that can wait for their rest: none ever does here.
const MERGE_SLOTS: u32 = 32;

/// A drive below the dense tier.
pub(crate) struct Device {
    ssd: Ssd,
    /// Blocks behind one another that are not yet told to the drive.
    run: Option<(u64, u64)>,
}

impl Device {
    /// A fresh drive for `blocks` blocks.
    ///
    /// # Errors
    /// If there is no such drive.
    pub(crate) fn new(blocks: u64, erase_units: u64) -> Result<Self, ShapeError> {
        let bytes = blocks * BLOCK_BYTES;
        let iu = BLOCK_BYTES as u32;
        let shape = Shape::new(bytes, iu, erase_units, SPARE_MILLIONTHS, MERGE_SLOTS, true)?;
        Ok(Self {
            ssd: Ssd::new(shape),
            run: None,
        })
    }

    /// Blocks were written.
    pub(crate) fn write(&mut self, first: u64, count: u64) {
        match &mut self.run {
            Some((start, before)) if *start + *before == first => *before += count,
            _ => {
                self.settle();
                self.run = Some((first, count));
            }
        }
    }

    /// Blocks are no longer needed.
    pub(crate) fn discard(&mut self, first: u64, count: u64) {
        self.settle();
        self.ssd
            .deallocate(first * BLOCK_BYTES, count * BLOCK_BYTES);
    }

    /// What it has done.
    pub(crate) fn counters(&mut self) -> Counters {
        self.settle();
        *self.ssd.counters()
    }

    fn settle(&mut self) {
        if let Some((first, count)) = self.run.take() {
            self.ssd
                .write(first * BLOCK_BYTES, count * BLOCK_BYTES, &mut |_| {});
        }
    }
}
