//! The drive below a dense tier, as an account of what its flash has to do.
//!
//! A policy owns whole erase units: there are as many as it has units. An IU is a block: policies write runs so long
//! that whole IUs are the rule at full size, and at the run's small scale they would not be.

use crate::comparators::{TIERS, Tiers};
use varve_media::{Counters, Shape, ShapeError, Ssd};
use varve_units::BLOCK_BYTES;

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
        let Tiers {
            spare_millionths: spare,
            merge_slots,
            ..
        } = TIERS;
        let shape = Shape::new(bytes, iu, erase_units, spare, merge_slots, true)?;
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
