//! The drive below a dense tier, as an account of what its flash has to do.
//!
//! A policy owns whole erase units: its units are the drive's, block for block. Of units a block shorter, each would
//! soon hold parts of two of the policy's, which die at different times, and the drive would copy what that leaves. An IU
//! is a block: policies write runs so long that whole IUs are the rule at full size, and at the run's small scale they
//! would not be.

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
    /// A fresh drive for so many units of a policy of `unit_blocks` blocks. A drive has units of some least size, and
    /// some at least: where those of the policy are smaller or fewer, the drive has what comes next.
    ///
    /// # Errors
    /// If there is no such drive.
    pub(crate) fn new(units: u64, unit_blocks: u64) -> Result<Self, ShapeError> {
        let iu = BLOCK_BYTES as u32;
        let Tiers {
            spare_millionths: spare,
            merge_slots,
            ..
        } = TIERS;
        let alike = Shape::of_units(iu, (units, unit_blocks), spare, merge_slots, true);
        let shape = match alike {
            Err(ShapeError::TooSmall { .. }) => {
                let bytes = units * unit_blocks * BLOCK_BYTES;
                Shape::new(bytes, iu, units, spare, merge_slots, true)
            }
            alike => alike,
        };
        Ok(Self {
            ssd: Ssd::new(shape?),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit after unit, in any order of units and each as a whole: what a drive erases holds one of them, so it has
    /// nothing to copy, however unevenly they die.
    #[test]
    fn whole_units_of_a_policy_cost_the_drive_nothing() {
        let (units, blocks) = (60, 333);
        let mut device = Device::new(units, blocks).unwrap();
        let fill = |device: &mut Device, unit: u64| {
            device.discard(unit * blocks, blocks);
            (0..blocks).for_each(|block| device.write(unit * blocks + block, 1));
        };
        (0..units).for_each(|unit| fill(&mut device, unit));
        for turn in 0..6 * units {
            // Some are hot, some are left for long, not so long that the drive would level their wear.
            fill(&mut device, turn * turn % units);
        }
        let counters = device.counters();
        assert_eq!(counters.media_bytes, counters.host_bytes);
    }

    /// What no drive can have, it does not have: units of a few blocks, or a few units.
    #[test]
    fn small_units_have_a_drive_too() {
        for (units, blocks) in [(2000, 5), (12, 100)] {
            assert!(Device::new(units, blocks).is_ok(), "{units} of {blocks}");
        }
        assert!(Device::new(10, 3).is_err());
    }
}
