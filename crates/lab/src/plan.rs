//! Which pool has a capacity, and how much memory it may take.
//!
//! Sizes are those of the full pool; a run at 1/N has the same number of chunks, groups and
//! slices, each N times smaller, and N times fewer leaves, delta nodes, images, records and bytes
//! between checkpoints. So leaves per byte of memory, deltas per leaf, log per checkpoint and the
//! share of each tier are those of the full pool. What does not shrink is said in the report.

use std::fmt;
use varve_ftl::{Config, Demand, Geometry, Reserve, ReserveError};
use varve_pool::label::Owner;
use varve_pool::{Settings, Tuning, engine_config};
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS};

/// Data blocks of a stripe: 1 MiB.
const STRIPE_BLOCKS: u64 = 256;
const STRIPE_BYTES: u64 = STRIPE_BLOCKS * BLOCK_BYTES;
/// Groups at least: as many as a dense drive has erase units, as `pool create` makes them.
const GROUPS_MIN: u64 = 256;
/// Chunks of a fast tier at least: a window of 32 checkpoints, a chunk each, is then 1/32 of it.
const CHUNKS_MIN: u64 = 1024;
/// Data blocks of one batch at most: the same at every scale.
const BATCH_BLOCKS_MAX: u64 = 128;
/// Slices of the map.
const SLICES: u16 = 256;
/// Default of the memory limit: this share of the capacity, in parts per million.
const DRAM_PPM: u64 = 200;
/// The memory limit is at least this.
const DRAM_MIN: u64 = 96 << 20;
/// Share of the memory limit that deltas and images may take, per cent: the rest is for what must
/// be there (leaf heads, live bits, lifetimes, unit tables, buffers).
const MAP_PER_CENT: u64 = 60;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlanRequest {
    /// Exported bytes of the full pool.
    pub capacity: u64,
    /// Limit of all memory of the full pool; by default the larger of 96 MiB and 0.02 % of the
    /// capacity.
    pub dram: Option<u64>,
    /// The run is at 1/`scale`: a power of two.
    pub scale: u64,
    /// Dense data blocks that are not exported, per cent of all.
    pub over_provision: u32,
    /// Fast tier, per cent of the dense tier.
    pub fast_per_cent: u32,
}

/// Why there is no such pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// The scale is no power of two.
    Scale(u64),
    /// Units would be smaller than they may be.
    TooSmall {
        /// Bytes of a chunk.
        chunk: u64,
        /// Bytes of a group.
        group: u64,
    },
    /// Shares beyond their limits.
    Shares,
    /// A tier is too small for what the engine keeps back.
    Reserve(ReserveError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale(scale) => write!(f, "the scale is a power of two, not {scale}"),
            Self::TooSmall { chunk, group } => write!(
                f,
                "chunks of {chunk} bytes and groups of {group} bytes are too small"
            ),
            Self::Reserve(error) => error.fmt(f),
            Self::Shares => f.write_str("over-provision is 5 to 80 %, the fast tier 1 to 100 %"),
        }
    }
}

impl std::error::Error for PlanError {}

/// Sizes and settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What was asked for.
    pub request: PlanRequest,
    /// Limit of all memory, of this run.
    pub dram: u64,
    /// Geometry of this run.
    pub geometry: Geometry,
    /// Settings of this run.
    pub config: Config,
    /// Blocks of the volume of this run: it takes the whole capacity.
    pub user_blocks: u64,
}

impl Plan {
    /// The pool that was asked for.
    ///
    /// # Errors
    /// [`PlanError`] if there is none.
    pub fn new(request: &PlanRequest) -> Result<Self, PlanError> {
        let scale = request.scale;
        if !scale.is_power_of_two() {
            return Err(PlanError::Scale(scale));
        }
        let shares = (5..=80).contains(&request.over_provision)
            && (1..=100).contains(&request.fast_per_cent);
        if !shares {
            return Err(PlanError::Shares);
        }
        let full = full_geometry(request);
        let dram = request.dram.unwrap_or_else(|| dram_limit(request.capacity));
        let settings = Settings {
            owner: Owner::NOBODY,
            take_over: false,
            accept_loss: false,
            beat: None,
            lanes: 1,
            map_bytes: map_share(dram),
            elided: true,
            // A start is measured at the worst instant of a load: the pool's clock, which jumps, must not make it idle.
            tuning: Tuning {
                idle_after: None,
                ..Tuning::USUAL
            },
            bypass: true,
            canary: None,
        };
        let per_mille = request.over_provision as u16 * 10;
        let config = engine_config(&full, per_mille, &settings).map_err(PlanError::Reserve)?;
        let geometry = Geometry {
            chunk_bytes: full.chunk_bytes / scale,
            group_blocks: (u64::from(full.group_blocks) / scale) as u32,
            ..full
        };
        let group = u64::from(geometry.group_blocks) * BLOCK_BYTES;
        let chunk = geometry.chunk_bytes;
        if group < 2 * STRIPE_BYTES || chunk < 1 << 20 {
            return Err(PlanError::TooSmall { chunk, group });
        }
        let config = scaled(config, scale, &geometry).map_err(PlanError::Reserve)?;
        Ok(Self {
            request: *request,
            dram: dram / scale,
            geometry,
            config,
            user_blocks: config.reserve.capacity_blocks / LEAF_BLOCKS * LEAF_BLOCKS,
        })
    }

    /// Bytes of the fast tier of this run.
    #[must_use]
    pub const fn fast_bytes(&self) -> u64 {
        self.geometry.chunk_bytes * self.geometry.chunks as u64
    }

    /// Bytes of the dense tier of this run.
    #[must_use]
    pub const fn dense_bytes(&self) -> u64 {
        self.geometry.dense_blocks() * BLOCK_BYTES
    }

    /// Leaves of the volume of this run.
    #[must_use]
    pub const fn leaves(&self) -> u64 {
        self.user_blocks / LEAF_BLOCKS
    }
}

/// Memory that deltas and images may take by default, of a capacity in bytes.
pub(crate) fn map_bytes(capacity: u64) -> u64 {
    map_share(dram_limit(capacity))
}

const fn map_share(dram: u64) -> u64 {
    dram * MAP_PER_CENT / 100
}

/// Default of the memory limit of a capacity.
#[must_use]
pub fn dram_limit(capacity: u64) -> u64 {
    let share = u128::from(capacity) * u128::from(DRAM_PPM) / 1_000_000;
    DRAM_MIN.max(share as u64)
}

fn full_geometry(request: &PlanRequest) -> Geometry {
    let data = u128::from(request.capacity) * 100 / u128::from(100 - request.over_provision);
    let probe = Geometry {
        chunk_bytes: 0,
        chunks: 0,
        lba_bytes: 512,
        group_blocks: 0,
        groups: 0,
        stripe_blocks: STRIPE_BLOCKS as u32,
        p2l_copies: 1,
        slices: SLICES,
    };
    // The capacity is of user blocks; P2L areas come on top.
    let user = u128::from(probe.stripe_user_blocks());
    let data = (data * u128::from(STRIPE_BLOCKS) / user) as u64;
    let group_bytes = power_of_two(data / GROUPS_MIN).max(4 * STRIPE_BYTES);
    let groups = data.div_ceil(group_bytes);
    let fast = groups * group_bytes / 100 * u64::from(request.fast_per_cent);
    let chunk_bytes = power_of_two(fast / CHUNKS_MIN).clamp(1 << 20, 1 << 30);
    Geometry {
        chunk_bytes,
        chunks: (fast / chunk_bytes) as u32,
        group_blocks: (group_bytes / BLOCK_BYTES) as u32,
        groups: groups as u32,
        ..probe
    }
}

/// The largest power of two that is not above `bytes`.
fn power_of_two(bytes: u64) -> u64 {
    1 << bytes.max(1).ilog2()
}

/// The settings of a pool N times smaller: bounds of memory and intervals shrink with it.
fn scaled(full: Config, scale: u64, geometry: &Geometry) -> Result<Config, ReserveError> {
    let mut config = full;
    let parts = scale as usize;
    config.map.delta_nodes = full.map.delta_nodes / parts;
    config.map.images = (full.map.images / parts).max(32);
    config.map.leaves_max = full.map.leaves_max / parts;
    config.checkpoint_records = full.checkpoint_records / scale;
    config.checkpoint_bytes = full.checkpoint_bytes / scale;
    let demand = Demand {
        lanes: config.lanes,
        delta_nodes: config.map.delta_nodes as u64,
        checkpoint_bytes: config.checkpoint_bytes,
        over_provision_per_mille: 0,
    };
    config.reserve = Reserve {
        capacity_blocks: full.reserve.capacity_blocks / scale,
        ..Reserve::derive(geometry, &demand)?
    };
    config.lane.batch_blocks_max = BATCH_BLOCKS_MAX;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: PlanRequest = PlanRequest {
        capacity: 15_360_000_000_000,
        dram: None,
        scale: 1,
        over_provision: 20,
        fast_per_cent: 3,
    };

    #[test]
    fn a_pool_is_what_was_asked_for() {
        let plan = Plan::new(&REQUEST).unwrap();
        let exported = plan.user_blocks as f64 * 4096.0 / 15.36e12;
        assert!((exported - 1.0).abs() < 0.005, "{exported}");
        let share = plan.fast_bytes() as f64 / plan.dense_bytes() as f64;
        assert!((share - 0.03).abs() < 0.0005, "{share}");
        assert_eq!(plan.dram, 3_072_000_000);
        assert_eq!(dram_limit(1 << 30), 96 << 20);
    }

    #[test]
    fn a_scaled_pool_keeps_its_ratios() {
        let full = Plan::new(&REQUEST).unwrap();
        let part = Plan::new(&PlanRequest {
            scale: 64,
            ..REQUEST
        })
        .unwrap();
        assert_eq!(part.geometry.chunks, full.geometry.chunks);
        assert_eq!(part.geometry.groups, full.geometry.groups);
        assert_eq!(part.fast_bytes() * 64, full.fast_bytes());
        let per_leaf = |plan: &Plan| plan.config.map.delta_nodes as f64 / plan.leaves() as f64;
        assert!((per_leaf(&part) / per_leaf(&full) - 1.0).abs() < 0.01);
    }

    #[test]
    fn impossible_pools_are_refused() {
        let odd = PlanRequest {
            scale: 3,
            ..REQUEST
        };
        assert_eq!(Plan::new(&odd).err(), Some(PlanError::Scale(3)));
        let tiny = PlanRequest {
            scale: 1 << 30,
            ..REQUEST
        };
        assert!(matches!(Plan::new(&tiny), Err(PlanError::TooSmall { .. })));
        let full = PlanRequest {
            over_provision: 0,
            ..REQUEST
        };
        assert_eq!(Plan::new(&full).err(), Some(PlanError::Shares));
    }
}
