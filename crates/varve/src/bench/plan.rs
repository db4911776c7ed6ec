//! From what the user asks for to sizes of both tiers and the engine's settings.

use std::fmt;
use varve_ftl::lane::LaneLimits;
use varve_ftl::map::MapLimits;
use varve_ftl::{Config, Demand, Geometry, Reserve, ReserveError};
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS};

/// Data strips of a stripe of the dense tier; one parity strip beside them.
pub(super) const DATA_STRIPS: u64 = 4;
/// Blocks of a strip: 256 KiB, so that a stripe holds 1 MiB of data blocks.
pub(super) const STRIP_BLOCKS: u64 = 64;
const STRIPE_BLOCKS: u64 = DATA_STRIPS * STRIP_BLOCKS;
const STRIPE_BYTES: u64 = STRIPE_BLOCKS * BLOCK_BYTES;
/// Memory of the map's deltas: 60 % of the least budget of a pool, 64 MiB (engine.md 3).
const DELTA_BYTES: u64 = (64 << 20) * 6 / 10;
/// Bytes of a node of the delta pool, and deltas it holds.
const NODE_BYTES: u64 = 64;
const NODE_DELTAS: u64 = 3;
/// Deltas each leaf must have room for (engine.md 2), in a pool too large for [`DELTA_BYTES`].
const DELTAS_PER_LEAF: u64 = 8;
/// Checkpoints among which the full state is spread (engine.md U3).
const WINDOW: u64 = 32;

/// What the user asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanRequest {
    /// User data, in bytes.
    pub(crate) user_bytes: u64,
    /// Dense data blocks that are not exported, per cent of all.
    pub(crate) over_provision: u32,
    /// Fast tier, per cent of the dense tier.
    pub(crate) fast_per_cent: u32,
    /// The fast tier is two drives with the same content.
    pub(crate) is_mirrored: bool,
    /// Leaves whose images are cached, per cent of all.
    pub(crate) map_cache: u32,
    /// Bytes of one operation.
    pub(crate) io_bytes: u64,
    /// Reactors.
    pub(crate) cores: u16,
}

/// Why there is no such pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlanError {
    /// Operations do not divide the user data.
    UnevenSize { user: u64, io: u64 },
    /// A tier is too small for what the engine keeps back.
    Reserve(ReserveError),
    /// The dense tier's reserve leaves less than the user data.
    Capacity { user: u64, usable: u64 },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnevenSize { user, io } => {
                write!(
                    f,
                    "{user} bytes of user data are not a multiple of {io} bytes"
                )
            }
            Self::Reserve(error) => error.fmt(f),
            Self::Capacity { user, usable } => {
                write!(
                    f,
                    "{user} blocks of user data in a dense tier with room for {usable}"
                )
            }
        }
    }
}

/// Sizes and settings of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) geometry: Geometry,
    pub(crate) config: Config,
    pub(crate) is_mirrored: bool,
    /// Blocks of the volume.
    pub(crate) user_blocks: u64,
}

impl Plan {
    /// The pool that was asked for.
    pub(crate) fn new(request: &PlanRequest) -> Result<Self, PlanError> {
        if !request.user_bytes.is_multiple_of(request.io_bytes) {
            let (user, io) = (request.user_bytes, request.io_bytes);
            return Err(PlanError::UnevenSize { user, io });
        }
        let geometry = geometry(request);
        let user_blocks = request.user_bytes / BLOCK_BYTES;
        let config = config(request, &geometry, user_blocks).map_err(PlanError::Reserve)?;
        let usable = config.reserve.capacity_blocks;
        if user_blocks >= usable {
            let user = user_blocks;
            return Err(PlanError::Capacity { user, usable });
        }
        Ok(Self {
            config,
            geometry,
            is_mirrored: request.is_mirrored,
            user_blocks,
        })
    }

    /// Bytes of the fast tier.
    pub(crate) const fn fast_bytes(&self) -> u64 {
        self.geometry.chunk_bytes * self.geometry.chunks as u64
    }

    /// Bytes of data blocks of the dense tier.
    pub(crate) const fn dense_bytes(&self) -> u64 {
        self.geometry.dense_blocks() * BLOCK_BYTES
    }

    /// Memory the run will take: drives, map, oracle.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let fast = self.fast_bytes() * if self.is_mirrored { 2 } else { 1 };
        let dense = self.dense_bytes() * (DATA_STRIPS + 1) / DATA_STRIPS;
        let map = self.config.map;
        let map = map.images as u64 * 4608 + map.delta_nodes as u64 * NODE_BYTES;
        let map = map * u64::from(self.config.lanes);
        // Pieces of drives are taken whole; buffers and code are small beside that.
        fast + dense + map + self.user_blocks * 6 + (1 << 29)
    }
}

/// The largest power of two that goes `parts` times into `bytes`, within bounds.
fn unit_bytes(bytes: u64, parts: u64, least: u64) -> u64 {
    let unit = (bytes / parts).max(1);
    (1 << unit.ilog2()).clamp(least, 1 << 30)
}

fn geometry(request: &PlanRequest) -> Geometry {
    let raw = request.user_bytes * 100 / u64::from(100 - request.over_provision);
    // About 256 to 512 groups, as a real dense drive has erase units (targets: 200).
    let group_bytes = unit_bytes(raw, 256, 4 * STRIPE_BYTES);
    let groups = raw.div_ceil(group_bytes);
    let dense = groups * group_bytes;
    let fast = dense * u64::from(request.fast_per_cent) / 100;
    let chunk_bytes = unit_bytes(fast, 128, 1 << 20);
    let chunks = fast / chunk_bytes;
    Geometry {
        chunk_bytes,
        chunks: chunks as u32,
        lba_bytes: 512,
        group_blocks: (group_bytes / BLOCK_BYTES) as u32,
        groups: groups as u32,
        stripe_blocks: STRIPE_BLOCKS as u32,
        p2l_copies: 1,
        slices: if request.user_bytes < 16 << 30 {
            16
        } else {
            256
        },
    }
}

/// The pool exports all it can, of which the volume is a part. The rest is over-provision because
/// the volume is no larger, not because writes would be refused.
fn config(
    request: &PlanRequest,
    geometry: &Geometry,
    user_blocks: u64,
) -> Result<Config, ReserveError> {
    let fast = geometry.chunk_bytes * u64::from(geometry.chunks);
    let leaves = user_blocks.div_ceil(LEAF_BLOCKS);
    let nodes = (leaves * DELTAS_PER_LEAF / NODE_DELTAS).max(DELTA_BYTES / NODE_BYTES);
    let images = (leaves * u64::from(request.map_cache)).div_ceil(100);
    // Slices, and with them leaves, are dealt to reactors in turn.
    let cores = u64::from(request.cores);
    let (nodes, images) = (nodes.div_ceil(cores), images.div_ceil(cores) + 1);
    // W x interval is at most a quarter of the fast tier (engine.md U3).
    let checkpoint_bytes = fast / 4 / WINDOW;
    let demand = Demand {
        lanes: request.cores,
        delta_nodes: nodes,
        checkpoint_bytes,
        over_provision_per_mille: 0,
    };
    let demand = Demand {
        delta_nodes: nodes.max(Reserve::nodes_min(geometry, &demand)?),
        ..demand
    };
    let mut reserve = Reserve::derive(geometry, &demand)?;
    // What the volume cannot fill is there for streams of every reactor.
    reserve.capacity_blocks = reserve.capacity_blocks.min(user_blocks + user_blocks / 50);
    Ok(Config {
        lanes: request.cores,
        lane: LaneLimits {
            batch_blocks_max: 256,
            inflight_max: 4,
        },
        map: MapLimits {
            delta_nodes: demand.delta_nodes as usize,
            images: images as usize,
            leaves_max: reserve.leaves_max as usize,
        },
        flush_bytes: 4 << 20,
        checkpoint_records: (leaves / 4).clamp(64 << 10, 8 << 20),
        checkpoint_bytes,
        window: WINDOW as u32,
        reserve,
        elided: false,
        canary: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: PlanRequest = PlanRequest {
        user_bytes: 4 << 30,
        over_provision: 40,
        fast_per_cent: 23,
        is_mirrored: false,
        map_cache: 100,
        io_bytes: 4096,
        cores: 1,
    };

    #[test]
    fn over_provision_and_fast_tier_are_what_was_asked_for() {
        let plan = Plan::new(&REQUEST).unwrap();
        let exported = plan.user_blocks as f64 / plan.geometry.dense_blocks() as f64;
        assert!((exported - 0.6).abs() < 0.005, "{exported}");
        let fast = plan.fast_bytes() as f64 / plan.dense_bytes() as f64;
        assert!((fast - 0.23).abs() < 0.005, "{fast}");
        assert!(plan.memory_bytes() < 12 << 30);
    }

    #[test]
    fn pools_that_cannot_be_are_refused() {
        let uneven = PlanRequest {
            io_bytes: 3 * 4096,
            ..REQUEST
        };
        assert!(matches!(
            Plan::new(&uneven),
            Err(PlanError::UnevenSize { .. })
        ));
        let slow = PlanRequest {
            user_bytes: 64 << 20,
            fast_per_cent: 6,
            ..REQUEST
        };
        assert!(matches!(Plan::new(&slow), Err(PlanError::Reserve(_))));
        let full = PlanRequest {
            user_bytes: 256 << 20,
            over_provision: 5,
            fast_per_cent: 90,
            ..REQUEST
        };
        assert!(matches!(Plan::new(&full), Err(PlanError::Capacity { .. })));
    }
}
