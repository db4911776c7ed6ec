//! What may differ from one start of a pool to the next, and the engine's settings that follow.

use crate::label::Owner;
use varve_ftl::{Canary, Config, LaneLimits, MapLimits};
use varve_units::LEAF_BLOCKS;

/// Settings of a start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Who starts the pool.
    pub owner: Owner,
    /// Start it although another owner used it last.
    pub take_over: bool,
    /// Start it although data would be lost.
    pub accept_loss: bool,
    /// Log lanes.
    pub lanes: u16,
    /// Bytes of memory for the map.
    pub map_bytes: u64,
    /// User data are symbols (simulation and laboratory only).
    pub elided: bool,
    /// The bug planted for the simulator to find, if any.
    pub canary: Option<Canary>,
}

/// Bytes of a delta node.
const NODE_BYTES: u64 = 64;
/// Bytes of a cached image with its bookkeeping.
const IMAGE_BYTES: u64 = 4608 + 16;
/// Delta nodes of one shard at least: several whole records in flight.
const NODES_MIN: u64 = 2048;
/// Images of one shard at least: as many as merges may be in flight.
const IMAGES_MIN: u64 = 32;
/// State of the map below which every checkpoint is whole (engine.md U3).
const WINDOW_BYTES_MIN: u64 = 1 << 20;
/// Checkpoints among which the full state is spread otherwise (engine.md U3).
const WINDOW: u32 = 32;

/// Settings of the engine for a geometry.
#[must_use]
pub fn engine_config(
    geometry: &varve_ftl::Geometry,
    over_provision_per_mille: u16,
    settings: &Settings,
) -> Config {
    let lanes = settings.lanes.min(geometry.slices).max(1);
    let capacity_blocks = capacity(geometry, lanes, over_provision_per_mille);
    let leaves_max = capacity_blocks / LEAF_BLOCKS * 11 / 10 + 64;
    let share = settings.map_bytes / u64::from(lanes);
    // By pigeonhole the fullest chain then has at least four deltas (engine.md 2).
    let nodes = (share * 6 / 10 / NODE_BYTES)
        .max(NODES_MIN)
        .max(4 * leaves_max / 3);
    let images = (share * 4 / 10 / IMAGE_BYTES).max(IMAGES_MIN);
    let state = leaves_max * 32 + nodes * NODE_BYTES;
    let fast_bytes = geometry.chunk_bytes * u64::from(geometry.chunks);
    // The parts of a whole window must stay within a quarter of the tier.
    let spread = (geometry.chunks / 32).clamp(1, WINDOW);
    let window = if state < WINDOW_BYTES_MIN { 1 } else { spread };
    Config {
        lanes,
        lane: LaneLimits {
            batch_blocks_max: batch_blocks(geometry),
            inflight_max: 4,
        },
        map: MapLimits {
            delta_nodes: nodes as usize,
            images: images as usize,
            leaves_max: leaves_max as usize,
        },
        flush_bytes: (geometry.chunk_bytes / 4).clamp(256 << 10, 8 << 20),
        checkpoint_records: (leaves_max / 4).clamp(64 << 10, 8 << 20),
        checkpoint_bytes: (fast_bytes / 128 * if window == 1 { 8 } else { 1 })
            .clamp(geometry.chunk_bytes, 14 << 30),
        window,
        reserve_chunks: reserve_chunks(geometry, lanes),
        reserve_groups: reserve_groups(geometry),
        capacity_blocks,
        elided: settings.elided,
        canary: settings.canary,
    }
}

/// Data blocks of one batch, and of one record: half a chunk, at most a leaf.
const fn batch_blocks(geometry: &varve_ftl::Geometry) -> u64 {
    let half = geometry.chunk_bytes / 2 / 4096;
    if half < LEAF_BLOCKS {
        half
    } else {
        LEAF_BLOCKS
    }
}

/// Two chunks per lane, one for the pool, one for a checkpoint (engine.md 2).
const fn reserve_chunks(geometry: &varve_ftl::Geometry, lanes: u16) -> u32 {
    let most = geometry.chunks / 3;
    // Without a dense tier the cleaner writes back to the log: one victim more.
    let kept = if geometry.groups == 0 { 2 } else { 0 };
    let wanted = 2 * lanes as u32 + 2 + kept;
    if wanted < most { wanted } else { most }
}

/// Open groups of garbage collection, and two.
const fn reserve_groups(geometry: &varve_ftl::Geometry) -> u32 {
    if geometry.groups / 8 < 6 {
        geometry.groups / 8
    } else {
        6
    }
}

/// Blocks that all volumes together may map.
fn capacity(geometry: &varve_ftl::Geometry, lanes: u16, over_provision: u16) -> u64 {
    if geometry.groups == 0 {
        // The log is all there is: half of what the reserve leaves, because headers, leaves and
        // checkpoints share it.
        let spare = geometry.chunks - reserve_chunks(geometry, lanes);
        return u64::from(spare) * u64::from(geometry.chunk_blocks()) / 2;
    }
    let group = u64::from(geometry.group_stripes()) * u64::from(geometry.stripe_user_blocks());
    let usable = u64::from(geometry.groups - reserve_groups(geometry));
    let exported = u64::from(geometry.groups) * (1000 - u64::from(over_provision)) / 1000;
    group * exported.min(usable)
}
