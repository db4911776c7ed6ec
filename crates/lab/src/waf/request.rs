//! What is to be run, and what cannot be.

use super::policies::Policy;
use super::workload::{Source, Workload};
use crate::fio::AreaError;
use crate::recovery::LabError;
use std::fmt;
use varve_ftl::ReserveError;
use varve_media::ShapeError;

/// Groups at least, and at most: as few as leave a choice, as many as streams and tables are made for.
const GROUPS: std::ops::RangeInclusive<u32> = 24..=10_000;
/// Blocks of the dense tier at most: numbers of places have 32 bits, with room for the fast tier.
const BLOCKS_MAX: u64 = 1 << 30;
/// Blocks of a unit at least. Arbitrary: below, chance decides.
const UNIT_BLOCKS_MIN: u64 = 16;

/// A run.
#[derive(Clone, PartialEq, Debug)]
pub struct WafRequest {
    /// What is written.
    pub workload: Workload,
    /// Where it is put.
    pub policy: Policy,
    /// Blocks of the dense tier that are not exported, per cent of all.
    pub over_provision: f64,
    /// Blocks of the fast tier, per cent of the user's; 0 for none.
    pub fast_tier: f64,
    /// Groups of the dense tier.
    pub groups: u32,
    /// Blocks of the dense tier.
    pub blocks: u64,
    /// Times the volume is overwritten before the measured window, and in it.
    pub warm_up: f64,
    /// See `warm_up`.
    pub measure: f64,
    /// Ranks of Zipf's law for each block: 1, or how many times smaller the run is than what it
    /// stands for.
    pub ranks_per_block: u32,
    /// Seed of the places written.
    pub seed: u64,
}

/// Why there is no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum WafError {
    /// Over-provisioning is 1 to 90 %.
    OverProvision(f64),
    /// The fast tier is 0 to 100 % of the user's blocks.
    FastTier(f64),
    /// So few blocks make no chunks of a fast tier.
    FastTierTooSmall,
    /// The engine acknowledges in its fast tier and has to have one.
    NoFastTier,
    /// 24 to 10,000 groups.
    Groups(u32),
    /// Too few blocks for the groups, or more than can be numbered.
    Blocks {
        /// Asked for.
        blocks: u64,
        /// Fewest, for these groups and this policy.
        min: u64,
        /// Most.
        max: u64,
    },
    /// The window has to be something, and both are at most 1000 overwrites.
    Window,
    /// A job of a file does not fit into its share of the volume.
    Area(AreaError),
    /// No drive below.
    Drive(ShapeError),
    /// A tier is too small for what the engine keeps back.
    Reserve(ReserveError),
    /// What the engine keeps back leaves less than the user's blocks.
    Capacity {
        /// Asked for.
        user: u64,
        /// What the engine can export.
        usable: u64,
    },
    /// The engine failed.
    Engine(LabError),
}

impl fmt::Display for WafError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverProvision(asked) => write!(f, "over-provisioning of {asked} %: 1 to 90 %"),
            Self::FastTier(asked) => write!(f, "a fast tier of {asked} %: 0 to 100 %"),
            Self::FastTierTooSmall => f.write_str("the fast tier has less than a block a chunk"),
            Self::NoFastTier => f.write_str("the engine cannot run without a fast tier"),
            Self::Groups(asked) => {
                write!(f, "{asked} groups: {} to {}", GROUPS.start(), GROUPS.end())
            }
            Self::Blocks { blocks, min, max } => {
                write!(
                    f,
                    "{blocks} blocks in the dense tier: {min} to {max} for these groups"
                )
            }
            Self::Window => {
                f.write_str("overwrites are above 0 (0 before the window), at most 1000")
            }
            Self::Area(error) => error.fmt(f),
            Self::Drive(error) => error.fmt(f),
            Self::Reserve(error) => error.fmt(f),
            Self::Capacity { user, usable } => {
                write!(
                    f,
                    "{user} blocks of the user, and the engine can export {usable}"
                )
            }
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WafError {}

/// Sizes of a run, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// Units of the dense tier.
    pub(super) units: u32,
    /// Blocks of a unit.
    pub(super) unit_blocks: u32,
    /// Blocks of the volume.
    pub(super) user: u64,
    /// Blocks of the fast tier.
    pub(super) fast: u64,
}

impl Sizes {
    /// Blocks of the dense tier.
    pub(super) fn dense(&self) -> u64 {
        u64::from(self.units) * u64::from(self.unit_blocks)
    }
}

impl WafRequest {
    /// How long it takes, roughly, in microseconds of one core: for progress, and for what is begun first. Measured in
    /// `waf-fast-tier` at an eighth, beside other work.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let writes = self.blocks as f64 * (1.0 + self.warm_up + self.measure);
        let cost = if self.policy == Policy::Varve {
            5.0
        } else {
            0.2
        };
        (writes * cost) as u64
    }

    /// Sizes that come nearest to what was asked for, in whole units.
    ///
    /// # Errors
    /// If there is no such run.
    pub(super) fn sizes(&self) -> Result<Sizes, WafError> {
        if !(1.0..=90.0).contains(&self.over_provision) {
            return Err(WafError::OverProvision(self.over_provision));
        }
        if !(0.0..=100.0).contains(&self.fast_tier) {
            return Err(WafError::FastTier(self.fast_tier));
        }
        if !GROUPS.contains(&self.groups) {
            return Err(WafError::Groups(self.groups));
        }
        let is_window =
            (0.0..=1000.0).contains(&self.warm_up) && self.measure > 0.0 && self.measure <= 1000.0;
        if !is_window {
            return Err(WafError::Window);
        }
        let units = self.groups * self.policy.units_per_group(self.groups);
        let (min, max) = (u64::from(units) * UNIT_BLOCKS_MIN, BLOCKS_MAX);
        if !(min..=max).contains(&self.blocks) {
            let blocks = self.blocks;
            return Err(WafError::Blocks { blocks, min, max });
        }
        let unit_blocks = (self.blocks / u64::from(units)) as u32;
        let dense = u64::from(units) * u64::from(unit_blocks);
        let user = (dense as f64 * (1.0 - self.over_provision / 100.0)) as u64;
        Ok(Sizes {
            units,
            unit_blocks,
            user,
            fast: (user as f64 * self.fast_tier / 100.0) as u64,
        })
    }

    /// The load.
    ///
    /// # Errors
    /// If a job of a file does not fit.
    pub(super) fn source(&self, sizes: &Sizes) -> Result<Source, WafError> {
        let ranks = self.ranks_per_block;
        Source::new(&self.workload, sizes.user, ranks, self.seed).map_err(WafError::Area)
    }

    /// Writes of the warm-up and of the window.
    pub(super) fn writes(&self, sizes: &Sizes) -> (u64, u64) {
        let times = |times: f64| (sizes.user as f64 * times) as u64;
        (times(self.warm_up), times(self.measure).max(1))
    }
}
