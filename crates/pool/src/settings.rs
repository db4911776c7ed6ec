//! What may differ from one start of a pool to the next, and the engine's settings that follow.

use crate::label::Owner;
use varve_ftl::{
    CHAIN_AGE_MAX, Canary, Config, Demand, Geometry, LaneLimits, MapLimits, Reserve, ReserveError,
    owners,
};
use varve_units::{LEAF_BLOCKS, Nanos};

/// Settings of a start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Who starts the pool.
    pub owner: Owner,
    /// Start it although another owner used it last.
    pub take_over: bool,
    /// Start it although data would be lost.
    pub accept_loss: bool,
    /// Time between heartbeats, if machines other than this one may reach the drives: labels are read again before any is
    /// written, and a pool that may be in use is taken over slowly. [`BEAT`] usually; `None` where nobody else can.
    pub beat: Option<Nanos>,
    /// Log lanes.
    pub lanes: u16,
    /// Bytes of memory for the map.
    pub map_bytes: u64,
    /// User data are symbols (simulation and laboratory only).
    pub elided: bool,
    /// Limits of the map.
    pub tuning: Tuning,
    /// Long runs of writes in order may pass the fast tier while hosts are slowed down.
    pub bypass: bool,
    /// The bug planted for the simulator to find, if any.
    pub canary: Option<Canary>,
}

/// Between heartbeats in the labels. All machines that may have a pool after one another have to agree on it. Arbitrary: a
/// 4 KiB write and two flushes a drive cost nothing at this pace, and taking over a pool takes five of them.
pub const BEAT: Nanos = Nanos::from_secs(10);

/// Limits that pools keep at their usual values and simulations lower, to meet them.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Age in LSNs at which changes are merged: [`CHAIN_AGE_MAX`], or less.
    pub chain_age: u64,
    /// Images of one shard at least.
    pub images_min: u64,
    /// After so long without commands of hosts room is made for bursts; `None`: never.
    pub idle_after: Option<Nanos>,
}

impl Tuning {
    /// As many images as merges may be in flight, twice over; an age that is reached after hours; idle after longer
    /// than applications pause between two commands.
    pub const USUAL: Self = Self {
        chain_age: CHAIN_AGE_MAX,
        images_min: 32,
        idle_after: Some(Nanos::from_secs(3)),
    };
}

/// Bytes of a delta node.
const NODE_BYTES: u64 = 64;
/// Bytes of a cached image with its bookkeeping.
const IMAGE_BYTES: u64 = 4608 + 16;
/// Delta nodes of one shard at least: several whole records in flight.
const NODES_MIN: u64 = 2048;
/// Checkpoints among which the full state is spread at most (engine.md U3).
const WINDOW: u32 = 32;
/// And in a small pool, if each interval may take so many chunks. One that holds the whole state takes most of
/// the chunk that it frees there: a full pool then stands still. Arbitrary.
const SMALL_WINDOW: u32 = 4;
const SMALL_INTERVAL: u32 = 3;

/// Settings of the engine for a geometry: as many lanes as were asked for and fit.
///
/// # Errors
/// The tiers are too small for what the engine keeps back with one lane.
pub fn engine_config(
    geometry: &Geometry,
    over_provision_per_mille: u16,
    settings: &Settings,
) -> Result<Config, ReserveError> {
    let most = settings.lanes.min(geometry.slices).max(1);
    let mut lanes = (1..=most).rev();
    loop {
        let lanes = lanes.next().expect("one lane is tried last");
        let config = config_with(geometry, over_provision_per_mille, settings, lanes);
        if config.is_ok() || lanes == 1 {
            return config;
        }
    }
}

/// Delta nodes of one shard at least, however few leaves it has: redo wants one for each change of a record,
/// and others hold some meanwhile.
fn nodes_of_records(geometry: &Geometry) -> u64 {
    2 * geometry.record_changes_max(batch_blocks(geometry))
}

fn config_with(
    geometry: &Geometry,
    over_provision_per_mille: u16,
    settings: &Settings,
    lanes: u16,
) -> Result<Config, ReserveError> {
    let fast_bytes = geometry.chunk_bytes * u64::from(geometry.chunks);
    let share = settings.map_bytes / u64::from(owners(lanes));
    let nodes = (share * 6 / 10 / NODE_BYTES)
        .max(NODES_MIN)
        .min(Reserve::nodes_max(geometry, owners(lanes)));
    let images = (share * 4 / 10 / IMAGE_BYTES).max(settings.tuning.images_min);
    // The parts of a whole window must stay within a quarter of the tier.
    let small = (geometry.chunks / 4 / SMALL_INTERVAL).min(SMALL_WINDOW);
    let window = (geometry.chunks / 32).clamp(small.max(1), WINDOW);
    let demand = Demand {
        lanes,
        delta_nodes: nodes,
        checkpoint_bytes: checkpoint_bytes(fast_bytes, window)
            .clamp(geometry.chunk_bytes, 14 << 30),
        over_provision_per_mille,
    };
    let useful = Reserve::nodes_useful(geometry, &demand)?;
    let least = Reserve::nodes_min(geometry, &demand)?;
    let demand = Demand {
        delta_nodes: nodes.min(useful).max(least).max(nodes_of_records(geometry)),
        ..demand
    };
    let reserve = Reserve::derive(geometry, &demand)?;
    Ok(Config {
        lanes,
        lane: LaneLimits {
            batch_blocks_max: batch_blocks(geometry),
            inflight_max: 4,
        },
        map: MapLimits {
            delta_nodes: demand.delta_nodes as usize,
            images: images as usize,
            leaves_max: reserve.leaves_max as usize,
        },
        flush_bytes: (geometry.chunk_bytes / 4).clamp(256 << 10, 8 << 20),
        checkpoint_records: (reserve.leaves_max / 4).clamp(64 << 10, 8 << 20),
        checkpoint_bytes: demand.checkpoint_bytes,
        window,
        reserve,
        chain_age: settings.tuning.chain_age,
        idle_after: settings.tuning.idle_after,
        bypass: settings.bypass,
        elided: settings.elided,
        canary: settings.canary,
    })
}

/// Bytes of log from one checkpoint to the next: as many as a whole window may take of the tier, a quarter
/// (engine.md U3), but no more than what can be kept free for one. Arbitrary: a sixteenth.
fn checkpoint_bytes(fast_bytes: u64, window: u32) -> u64 {
    (fast_bytes / 4 / u64::from(window)).min(fast_bytes / 16)
}

/// Data blocks of one batch, and of one record: half a chunk, at most a leaf.
const fn batch_blocks(geometry: &Geometry) -> u64 {
    let half = geometry.chunk_bytes / 2 / 4096;
    if half < LEAF_BLOCKS {
        half
    } else {
        LEAF_BLOCKS
    }
}

#[cfg(test)]
mod tests {
    use super::checkpoint_bytes;

    /// A window's log fits a quarter of the tier, and what is reserved for one interval stays small.
    #[test]
    fn intervals_follow_from_the_window() {
        let tier = 1 << 30;
        for window in 1..=32 {
            let interval = checkpoint_bytes(tier, window);
            assert!(interval * u64::from(window) <= tier / 4, "{window}");
            assert!(interval <= tier / 16, "{window}");
        }
        // Whole checkpoints, small pools, large ones.
        let intervals = [1, 4, 32].map(|window| tier / checkpoint_bytes(tier, window));
        assert_eq!(intervals, [16, 16, 128]);
    }
}
