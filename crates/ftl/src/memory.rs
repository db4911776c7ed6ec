//! What the engine takes of memory, by structure.

use crate::engine::Engine;
use crate::geometry::Tier;
use crate::limits::LANE_QUEUE_MAX;
use crate::units::Unit;
use varve_units::BLOCK_BYTES;

/// Bytes by structure. Those of the map are what it holds now, buffers are their bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineMemory {
    /// Delta nodes.
    pub deltas: u64,
    /// Cached leaf images.
    pub images: u64,
    /// Leaf heads: parents and heads of chains.
    pub heads: u64,
    /// Lists of changed leaves and other small things of the map.
    pub lists: u64,
    /// Live bits of chunks and groups, and of the groups that are counted again at most.
    pub bitmaps: u64,
    /// State of chunks and groups.
    pub units: u64,
    /// How long blocks live: a class of each that lies in the log.
    pub lifetimes: u64,
    /// Where the parts of the newest checkpoints lie.
    pub parts: u64,
    /// Blocks and records on their way, at most.
    pub buffers: u64,
    /// Deltas in all chains.
    pub delta_count: u64,
}

impl EngineMemory {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.deltas
            + self.images
            + self.heads
            + self.lists
            + self.bitmaps
            + self.units
            + self.lifetimes
            + self.parts
            + self.buffers
    }
}

/// Bytes of a record on its way, with what goes with it. Measured by its type, rounded up.
const RECORD_BYTES: u64 = 512;

impl Engine {
    /// What the engine takes of memory now. Blocks count with their size, also if they are
    /// symbols. Maps and streams are those of reactors that share the caller's thread; to be asked
    /// on the first reactor.
    #[must_use]
    pub fn memory(&self) -> EngineMemory {
        let shared = &self.shared;
        let geometry = shared.units.geometry();
        let mut memory = EngineMemory::default();
        let views = shared.everyone();
        for view in views.unwrap_or_else(|| alloc::vec![shared.rc()]) {
            memory.buffers += view.streams.buffers(geometry);
            let map = view.shard().map.borrow().memory();
            memory.deltas += map.deltas as u64;
            memory.images += map.images as u64;
            memory.heads += map.heads as u64;
            memory.lists += map.lists as u64;
            memory.delta_count += map.delta_count;
        }
        let count = u64::from(geometry.chunks) + u64::from(geometry.groups);
        memory.units = count * size_of::<Unit>() as u64;
        memory.bitmaps = [Tier::Fast, Tier::Dense]
            .into_iter()
            .map(|tier| shared.units.bitmap_bytes(tier))
            .sum();
        memory.lifetimes = shared.lifetimes.bytes();
        memory.parts = shared.control().table_bytes();
        let lane = LANE_QUEUE_MAX as u64 * RECORD_BYTES
            + shared.config.lane.inflight_max as u64
                * shared.config.lane.batch_blocks_max
                * BLOCK_BYTES;
        // The live bits of a checkpoint's turn, as payloads and as sectors to be written.
        let turn = memory.bitmaps / u64::from(shared.config.window) * 2;
        memory.buffers += u64::from(shared.config.lanes) * lane + shared.cleaner_bytes() + turn;
        memory.bitmaps += crate::recount::count_bytes(geometry);
        memory
    }
}
