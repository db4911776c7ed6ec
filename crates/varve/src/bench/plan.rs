//! From what the user asks for to sizes of both tiers and the engine's settings.

use crate::load::Share;
use std::fmt;
use varve_ftl::{Config, Geometry, ReserveError, owners};
use varve_pool::label::Owner;
use varve_pool::{Settings, Tuning, engine_config};
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS};

/// Data strips of a stripe of the dense tier; one parity strip beside them.
pub(super) const DATA_STRIPS: u64 = 4;
/// Blocks of a strip: 256 KiB, so that a stripe holds 1 MiB of data blocks.
pub(super) const STRIP_BLOCKS: u64 = 64;
const STRIPE_BLOCKS: u64 = DATA_STRIPS * STRIP_BLOCKS;
const STRIPE_BYTES: u64 = STRIPE_BLOCKS * BLOCK_BYTES;
/// Memory of the map: the least budget of a pool (engine.md 3), or what eight deltas for each leaf
/// take in the 60 % of it that are for deltas (engine.md 2).
const MAP_BYTES: u64 = 64 << 20;
const LEAF_MAP_BYTES: u64 = (8_u64 * NODE_BYTES).div_ceil(3) * 10 / 6;
/// Bytes of a node of the delta pool.
const NODE_BYTES: u64 = 64;

/// Bytes of user data at most: 1 PiB. Arbitrary: more than any machine has memory for.
const USER_BYTES_MAX: u64 = 1 << 50;

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
    /// Payloads are symbols, and the dense tier has no parity.
    pub(crate) is_elided: bool,
    /// Long runs of writes in order may pass the fast tier.
    pub(crate) may_bypass: bool,
}

/// Why there is no such pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlanError {
    /// More user data than any machine has memory for.
    TooLarge { user: u64 },
    /// Operations do not divide the user data.
    UnevenSize { user: u64, io: u64 },
    /// The user data are too few for each generator to have operations of its own.
    Share { user: u64, io: u64 },
    /// A tier is too small for what the engine keeps back.
    Reserve(ReserveError),
    /// The pool has room for fewer lanes than there are reactors.
    Lanes { asked: u16, fit: u16 },
    /// The dense tier's reserve leaves less than the user data.
    Capacity { user: u64, usable: u64 },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { user } => {
                write!(f, "{user} bytes of user data: {USER_BYTES_MAX} at most")
            }
            Self::UnevenSize { user, io } => {
                write!(
                    f,
                    "{user} bytes of user data are not a multiple of {io} bytes"
                )
            }
            Self::Share { user, io } => write!(
                f,
                "{user} bytes of user data are too few for generators that write {io} bytes at once"
            ),
            Self::Reserve(error) => error.fmt(f),
            Self::Lanes { asked, fit } => {
                write!(
                    f,
                    "a pool of this size has room for {fit} lanes, not {asked}"
                )
            }
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
        if request.user_bytes > USER_BYTES_MAX {
            let user = request.user_bytes;
            return Err(PlanError::TooLarge { user });
        }
        if !request.user_bytes.is_multiple_of(request.io_bytes) {
            let (user, io) = (request.user_bytes, request.io_bytes);
            return Err(PlanError::UnevenSize { user, io });
        }
        let (owners, blocks) = (owners(request.cores), request.io_bytes / BLOCK_BYTES);
        let share = Share::new(0, owners.into(), blocks);
        if share.slots(blocks, request.user_bytes / BLOCK_BYTES) == 0 {
            let (user, io) = (request.user_bytes, request.io_bytes);
            return Err(PlanError::Share { user, io });
        }
        let geometry = geometry(request);
        let user_blocks = request.user_bytes / BLOCK_BYTES;
        let config = config(request, &geometry, user_blocks)?;
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
        let map = map * u64::from(self.config.owners());
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

/// Settings as `pool` takes them, with a cache and a volume of the sizes asked for. The pool exports
/// all it can, of which the volume is a part. The rest is over-provision because the volume is no
/// larger, not because writes would be refused.
fn config(
    request: &PlanRequest,
    geometry: &Geometry,
    user_blocks: u64,
) -> Result<Config, PlanError> {
    let leaves = user_blocks.div_ceil(LEAF_BLOCKS);
    let settings = Settings {
        owner: Owner::NOBODY,
        take_over: false,
        accept_loss: false,
        beat: None,
        lanes: request.cores,
        map_bytes: MAP_BYTES.max(leaves * LEAF_MAP_BYTES),
        elided: request.is_elided,
        tuning: Tuning::USUAL,
        bypass: request.may_bypass,
        canary: None,
    };
    let mut config = engine_config(geometry, 0, &settings).map_err(PlanError::Reserve)?;
    let (asked, fit) = (request.cores, config.lanes);
    if fit < asked {
        return Err(PlanError::Lanes { asked, fit });
    }
    // Slices, and with them leaves, are dealt to owners in turn.
    let images = (leaves * u64::from(request.map_cache)).div_ceil(100);
    config.map.images = images.div_ceil(config.owners().into()) as usize + 1;
    // What the volume cannot fill is there for streams of every reactor.
    let capacity = &mut config.reserve.capacity_blocks;
    *capacity = (*capacity).min(user_blocks + user_blocks / 50);
    Ok(config)
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
        is_elided: false,
        may_bypass: true,
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
