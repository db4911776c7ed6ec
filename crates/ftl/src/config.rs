//! What may differ from one start of a pool to the next.

use crate::lane::LaneLimits;
use crate::map::MapLimits;

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
    /// Chunks kept back for the engine's own records.
    pub reserve_chunks: u32,
    /// Groups kept back for garbage collection.
    pub reserve_groups: u32,
    /// Blocks that all volumes together may map.
    pub capacity_blocks: u64,
    /// User data are symbols (simulation and laboratory only).
    pub elided: bool,
    /// The bug planted for the simulator to find, if any.
    pub canary: Option<Canary>,
}

/// Bugs planted on purpose: each must be found by the simulator (issue 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// A unit is freed when emptied, before the checkpoint that makes that durable.
    FreeBeforeFlush,
    /// A move is applied at redo whatever its predecessor is.
    UnconditionalMove,
    /// A deallocate changes the map and is not logged.
    DiscardNotLogged,
    /// A leaf record claims one LSN more than it holds.
    LeafThroughOffByOne,
    /// Recovery takes batches of an older epoch for its own.
    OldEpochAccepted,
    /// A read does not compare the unit's generation.
    GenerationIgnored,
    /// Garbage collection moves what the P2L names without asking the map or the checksum.
    P2lUnverified,
    /// The live bit of a block that was just moved is not set.
    LiveBlockWithZeroBit,
    /// Batches change the map in the order in which their writes complete.
    CompletionOrder,
    /// Of two versions of a block the one in the unit opened last wins (facts A9).
    PublishedConflictRule,
}

impl Config {
    /// True if this bug is planted. Always false outside builds with the `canary` feature.
    #[must_use]
    pub fn is_planted(&self, canary: Canary) -> bool {
        cfg!(feature = "canary") && self.canary == Some(canary)
    }
}
