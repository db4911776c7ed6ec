//! What may differ from one start of a pool to the next.

pub use crate::canary::Canary;
use crate::lane::LaneLimits;
use crate::map::MapLimits;
use crate::reserve::Reserve;
use varve_units::{Nanos, PLANTS_BUGS};

/// Settings of a running engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Log lanes, one per shard.
    pub lanes: u16,
    /// Limits of each lane's batches.
    pub lane: LaneLimits,
    /// Limits of each shard's map.
    pub map: MapLimits,
    /// Bytes of log after which the fast tier is flushed without being asked, per lane.
    pub flush_bytes: u64,
    /// Records between checkpoints.
    pub checkpoint_records: u64,
    /// Bytes of log between checkpoints.
    pub checkpoint_bytes: u64,
    /// Checkpoints among which the full state of the slices is spread (W).
    pub window: u32,
    /// What hosts may not use, and what is left for them.
    pub reserve: Reserve,
    /// Age in LSNs at which a chain is merged: [`crate::CHAIN_AGE_MAX`], or less.
    pub chain_age: u64,
    /// After so long without commands of hosts the cleaner makes room for bursts; `None`: it never does.
    pub idle_after: Option<Nanos>,
    /// Long runs of writes in order may pass the log while hosts are slowed down.
    pub bypass: bool,
    /// User data are symbols (simulation and laboratory only).
    pub elided: bool,
    /// The bug planted for the simulator to find, if any.
    pub canary: Option<Canary>,
}

impl Config {
    /// True if this bug is planted. Always false in builds that can plant none.
    #[must_use]
    pub fn is_planted(&self, canary: Canary) -> bool {
        PLANTS_BUGS && self.canary == Some(canary)
    }
}
