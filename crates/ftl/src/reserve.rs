//! What a pool's sizes leave for hosts: reserves, capacity, the leaf cap, all derived in one place.
//!
//! **Fast tier** (engine.md 2). Two chunks per lane (the one it has open and the one it goes on
//! in), one pool-wide, one checkpoint interval, one of 64 for what garbage collection writes to the
//! log, one for leaves of chunks that hold nothing else, and what one whole checkpoint takes beyond the
//! chunks only it may open. A pool without a dense tier keeps the cleaner's victim twice: one chunk that is
//! read and one that is filled. Live leaves, the parts of checkpoints that a start would read, and the
//! reserve fit three quarters of the tier.
//!
//! **Dense tier**. A group for each stream that may be open, and three: one for garbage collection,
//! which can always finish the victim it has begun, one for what a crash costs that victim, and one
//! that compaction can then have. Where groups have few stripes, one more for garbage collection.
//!
//! **Not here**: bounds that are the same for every pool (`limits`).

use crate::geometry::Geometry;
use crate::limits::CHAIN_MAX;
use crate::map::NODE_DELTAS;
use crate::roles::owners;
use core::fmt;
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS};

/// Chunks of a fast tier at least (design.md 3: of one with a single lane).
pub const CHUNKS_MIN: u32 = 16;
/// Groups a dense tier has at least: twice the smallest reserve and more. Arbitrary.
pub const GROUPS_MIN: u32 = 12;
/// A dense tier may be so many times the fast one (engine.md 2: below 0.5 % refused).
pub const DENSE_RATIO_MAX: u64 = 200;
/// Groups per tenant that streams are made for: with fewer, tenants share streams. Arbitrary.
const GROUPS_PER_TENANT: u32 = 32;
/// Tenants with streams of their own. Arbitrary; drives can keep about that many zones open.
const TENANT_STREAMS_MAX: u32 = 8;
/// Writers of a tenant's streams: compaction (with bypass), garbage collection.
const WRITERS: u32 = 2;
/// Free groups that compaction leaves to garbage collection: one to go on in, and one for starts.
const GC_GROUPS: u32 = 2;
/// Stripes of a group below which one more is left: what is padded of its last stripe is too much of it.
/// Arbitrary.
const GROUP_STRIPES_FEW: u32 = 4;
/// Of so many chunks one more is reserved: for moves of garbage collection, and leaves they make long,
/// while the cleaner waits for groups. Arbitrary.
const SLACK_CHUNKS: u32 = 64;
/// Log that a live leaf takes: payload, record, its share of a header.
pub(crate) const LEAF_LOG_BYTES: u64 = 5120;
/// Bytes of a checkpoint for each leaf that exists: parent, key, head of its chain.
const LEAF_STATE_BYTES: u64 = 48;
/// Bytes of a checkpoint for each delta node: three deltas.
const NODE_STATE_BYTES: u64 = 48;
/// Bytes of a checkpoint for each unit, its bitmap apart.
const UNIT_STATE_BYTES: u64 = 96;
/// Volumes of a pool: one for so many bytes of the fast tier, within bounds. Arbitrary: the
/// catalogue takes 1/64 of the tier then.
const VOLUME_FAST_BYTES: u64 = 8 << 10;
/// Volumes of a pool. Arbitrary: as many as one checkpoint part of 256 KiB lists, times 8.
const VOLUMES_MAX: u64 = 16_384;
const ENTRY_BYTES: u64 = 128;
/// Leaves beyond the cap that sparse volumes of a small pool may have. Arbitrary.
const LEAVES_SPARE: u64 = 64;

/// What a start wants of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Log lanes.
    pub lanes: u16,
    /// Delta nodes of each owner's shard.
    pub delta_nodes: u64,
    /// Bytes of log between checkpoints.
    pub checkpoint_bytes: u64,
    /// Share of the dense tier that is not exported, per mille.
    pub over_provision_per_mille: u16,
}

/// What a pool's sizes leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    /// Chunks that host writes leave free.
    pub chunks: u32,
    /// Of these, chunks that only a checkpoint may open.
    pub urgent_chunks: u32,
    /// Of these, chunks that only leaves and a checkpoint may open: what a victim of the cleaner takes
    /// that holds nothing but leaves. It needs no group, so it ends while all others wait for groups.
    pub upkeep_chunks: u32,
    /// Chunks that live leaves fill at most.
    pub leaf_chunks: u32,
    /// Chunks that parts of checkpoints keep from being cleaned at most.
    pub part_chunks: u32,
    /// Groups that are not exported.
    pub groups: u32,
    /// Of these, free groups that compaction leaves to garbage collection.
    pub gc_groups: u32,
    /// Tenants with streams of their own at most; the others share these.
    pub tenant_streams: u32,
    /// Blocks that all volumes together may map.
    pub capacity_blocks: u64,
    /// Leaves that all volumes together may have.
    pub leaves_max: u64,
    /// Volumes.
    pub volumes_max: u64,
}

/// Why there is no pool of these sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReserveError {
    /// The fast tier has too few chunks for its lanes, or for leaves, checkpoints and reserve.
    FastTooSmall {
        /// Chunks it has.
        chunks: u64,
        /// Chunks it needs.
        needed: u64,
    },
    /// The fast tier is less than 0.5 % of the dense one.
    FastShare {
        /// Bytes of the fast tier.
        fast_bytes: u64,
        /// Bytes of data blocks of the dense tier.
        dense_bytes: u64,
    },
    /// The dense tier has too few groups.
    DenseTooSmall {
        /// Groups it has.
        groups: u64,
        /// Groups it needs.
        needed: u64,
    },
    /// The delta pool could deadlock: four deltas for each leaf (engine.md 2).
    DeltaPool {
        /// Nodes of one shard.
        nodes: u64,
        /// Nodes it needs.
        needed: u64,
    },
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FastTooSmall { chunks, needed } => {
                write!(f, "the fast tier has {chunks} chunks and needs {needed}")
            }
            Self::FastShare {
                fast_bytes,
                dense_bytes,
            } => write!(
                f,
                "a fast tier of {fast_bytes} bytes is less than 0.5 % of the dense tier's {dense_bytes}"
            ),
            Self::DenseTooSmall { groups, needed } => {
                write!(f, "the dense tier has {groups} groups and needs {needed}")
            }
            Self::DeltaPool { nodes, needed } => {
                write!(
                    f,
                    "the map has {nodes} delta nodes per lane and needs {needed}"
                )
            }
        }
    }
}

impl core::error::Error for ReserveError {}

impl Reserve {
    /// The reserve of a pool.
    ///
    /// # Errors
    /// [`ReserveError`] if a tier is too small for it, or the delta pool is.
    pub fn derive(geometry: &Geometry, demand: &Demand) -> Result<Self, ReserveError> {
        check_share(geometry)?;
        let too_small = |needed: u32| ReserveError::FastTooSmall {
            chunks: geometry.chunks.into(),
            needed: needed.into(),
        };
        if geometry.chunks < CHUNKS_MIN {
            return Err(too_small(CHUNKS_MIN));
        }
        let interval = demand.checkpoint_bytes.div_ceil(geometry.chunk_bytes) as u32;
        let kept = if geometry.groups == 0 { 2 } else { 0 };
        let tenant_streams = tenant_streams(geometry);
        let gc_groups = GC_GROUPS
            + u32::from(geometry.groups > 0 && geometry.group_stripes() < GROUP_STRIPES_FEW);
        let groups = WRITERS * tenant_streams + gc_groups + 1;
        // A log-only pool's leaves follow from what the smallest reserve leaves.
        // Whatever number of lanes a start has, the capacity is the same.
        let lanes_most = geometry.chunks / CHUNKS_MIN;
        let least = 2 * lanes_most + 1 + interval + kept;
        let capacity_blocks = capacity(geometry, groups, least, demand)?;
        let leaves_max = leaf_cap(capacity_blocks);
        let needed = node_min(leaves_max);
        if demand.delta_nodes < needed {
            let nodes = demand.delta_nodes;
            return Err(ReserveError::DeltaPool { nodes, needed });
        }
        let volumes_max = volumes_max(geometry);
        let state = state_bytes(geometry, demand, leaves_max, volumes_max);
        let whole = state.div_ceil(geometry.chunk_bytes) as u32;
        // One more: the whole may begin at the end of a chunk. Where checkpoints have a lane of their own, nothing
        // else goes to what is left of its chunks: one for that, and one for the leaves of a start.
        let apart = if demand.lanes > 1 { 2 } else { 0 };
        let urgent_chunks = whole + 1 + apart;
        let upkeep_chunks = u32::from(geometry.groups > 0);
        let slack = geometry.chunks / SLACK_CHUNKS + upkeep_chunks;
        let open = 2 * u32::from(owners(demand.lanes));
        let chunks = open + 1 + interval + kept + slack + (urgent_chunks - 2);
        let leaf_chunks = (leaves_max * LEAF_LOG_BYTES).div_ceil(geometry.chunk_bytes) as u32;
        // Beyond an eighth of the tier the next checkpoint holds the whole state (ADR 13).
        let part_chunks = geometry.chunks / 8 + whole + 1;
        let fixed = chunks + leaf_chunks + part_chunks;
        if fixed * 4 > geometry.chunks * 3 {
            return Err(too_small((fixed * 4).div_ceil(3)));
        }
        let room = u64::from(geometry.chunks - fixed) * u64::from(geometry.chunk_blocks());
        if geometry.groups == 0 && capacity_blocks > room {
            let data = capacity_blocks.div_ceil(u64::from(geometry.chunk_blocks()));
            return Err(too_small(fixed + data as u32));
        }
        Ok(Self {
            chunks,
            urgent_chunks,
            upkeep_chunks,
            leaf_chunks,
            part_chunks,
            groups: if geometry.groups == 0 { 0 } else { groups },
            gc_groups,
            tenant_streams,
            capacity_blocks,
            leaves_max,
            volumes_max,
        })
    }

    /// Delta nodes each owner needs in a pool of these sizes.
    ///
    /// # Errors
    /// [`ReserveError`] if a tier is too small.
    pub fn nodes_min(geometry: &Geometry, demand: &Demand) -> Result<u64, ReserveError> {
        let free = Demand {
            delta_nodes: 0,
            ..*demand
        };
        match Self::derive(geometry, &free) {
            Err(ReserveError::DeltaPool { needed, .. }) => Ok(needed),
            Err(error) => Err(error),
            Ok(_) => unreachable!("every pool needs delta nodes"),
        }
    }

    /// Delta nodes each owner may have: chains fill 1/32 of the tier in a checkpoint, so that two
    /// whole ones and what pins chunks stay within the tier's three quarters.
    #[must_use]
    pub const fn nodes_max(geometry: &Geometry, owners: u16) -> u64 {
        let tier = geometry.chunks as u64 * geometry.chunk_bytes;
        tier / 32 / NODE_STATE_BYTES / owners as u64
    }

    /// Delta nodes each owner can make use of in a pool of these sizes: a leaf whose chain is long is merged
    /// even if there is room, so more would only lengthen the checkpoints that log is kept for.
    ///
    /// # Errors
    /// [`ReserveError`] if a tier is too small.
    pub fn nodes_useful(geometry: &Geometry, demand: &Demand) -> Result<u64, ReserveError> {
        let least = Self::nodes_min(geometry, demand)?;
        let leaves = least * 3 / 4 / u64::from(owners(demand.lanes));
        let chain = CHAIN_MAX.div_ceil(NODE_DELTAS) as u64 + 1;
        Ok(least.max(leaves * chain))
    }

    /// Tenants with streams of their own on drives with so many placement handles: each of their writers
    /// has a handle.
    #[must_use]
    pub fn tenant_streams_on(&self, handles: u8) -> u32 {
        (u32::from(handles) / WRITERS).clamp(1, self.tenant_streams)
    }

    /// Panics unless the limits of engine.md 2 hold: whoever made this another way has a bug.
    pub(crate) fn assert_holds(&self, geometry: &Geometry) {
        let fixed = self.chunks + self.leaf_chunks + self.part_chunks;
        assert!(
            fixed * 4 <= geometry.chunks * 3,
            "leaves, checkpoints and reserve fit three quarters of the fast tier"
        );
        assert!(self.urgent_chunks < self.chunks, "lanes have a reserve too");
        if geometry.groups > 0 {
            let exported = u64::from(geometry.groups - self.groups) * group_user(geometry);
            assert!(
                self.capacity_blocks <= exported,
                "the dense tier holds everything and its reserve"
            );
            let streams = WRITERS * self.tenant_streams;
            assert!(
                self.groups > streams + self.gc_groups,
                "with every stream open, garbage collection and compaction go on"
            );
        }
    }
}

fn check_share(geometry: &Geometry) -> Result<(), ReserveError> {
    let fast_bytes = u64::from(geometry.chunks) * geometry.chunk_bytes;
    let dense_bytes = geometry.dense_blocks() * BLOCK_BYTES;
    if dense_bytes > fast_bytes * DENSE_RATIO_MAX {
        return Err(ReserveError::FastShare {
            fast_bytes,
            dense_bytes,
        });
    }
    if geometry.groups > 0 && geometry.groups < GROUPS_MIN {
        return Err(ReserveError::DenseTooSmall {
            groups: geometry.groups.into(),
            needed: GROUPS_MIN.into(),
        });
    }
    Ok(())
}

fn tenant_streams(geometry: &Geometry) -> u32 {
    (geometry.groups / GROUPS_PER_TENANT).clamp(1, TENANT_STREAMS_MAX)
}

fn volumes_max(geometry: &Geometry) -> u64 {
    let fast_bytes = u64::from(geometry.chunks) * geometry.chunk_bytes;
    (fast_bytes / VOLUME_FAST_BYTES).min(VOLUMES_MAX)
}

/// Blocks of user data of a group.
fn group_user(geometry: &Geometry) -> u64 {
    u64::from(geometry.group_stripes()) * u64::from(geometry.stripe_user_blocks())
}

/// Blocks that all volumes together may map.
fn capacity(
    geometry: &Geometry,
    reserve_groups: u32,
    reserve_chunks: u32,
    demand: &Demand,
) -> Result<u64, ReserveError> {
    if geometry.groups == 0 {
        // The log is all there is: half of what the reserve leaves, because headers, leaves and
        // checkpoints share it.
        let spare = geometry.chunks.checked_sub(reserve_chunks);
        let spare = spare.ok_or(ReserveError::FastTooSmall {
            chunks: geometry.chunks.into(),
            needed: reserve_chunks.into(),
        })?;
        return Ok(u64::from(spare) * u64::from(geometry.chunk_blocks()) / 2);
    }
    let spared = u64::from(demand.over_provision_per_mille.min(1000));
    let exported = u64::from(geometry.groups) * (1000 - spared) / 1000;
    let usable = u64::from(geometry.groups - reserve_groups);
    Ok(group_user(geometry) * exported.min(usable))
}

/// Leaves: 1.1 times what the capacity fills (engine.md 2).
const fn leaf_cap(capacity: u64) -> u64 {
    capacity / LEAF_BLOCKS * 11 / 10 + LEAVES_SPARE
}

/// Four deltas for each leaf: with every node taken the fullest chain has as many.
const fn node_min(leaves: u64) -> u64 {
    (4 * leaves).div_ceil(3)
}

/// Bytes of a checkpoint of the whole state at most.
fn state_bytes(geometry: &Geometry, demand: &Demand, leaves: u64, volumes: u64) -> u64 {
    let nodes = demand.delta_nodes * u64::from(owners(demand.lanes));
    let chunk_bits = u64::from(geometry.chunks) * u64::from(geometry.chunk_blocks());
    let units = u64::from(geometry.chunks) + u64::from(geometry.groups);
    leaves * LEAF_STATE_BYTES
        + nodes * NODE_STATE_BYTES
        + (chunk_bits + geometry.dense_blocks()) / 8
        + units * UNIT_STATE_BYTES
        + volumes * ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A generator good enough to draw geometries (splitmix64).
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % n
        }

        fn geometry(&mut self) -> Geometry {
            let stripe_blocks = 16 << self.below(6);
            let scale = 4 + self.below(10);
            let groups = match self.below(4) {
                0 => 0,
                1 => self.below(40) as u32,
                _ => self.below(2000) as u32,
            };
            Geometry {
                chunk_bytes: 1 << (20 + self.below(11)),
                chunks: self.below(1 << scale) as u32,
                lba_bytes: 512,
                group_blocks: stripe_blocks * (1 << self.below(12)),
                groups,
                stripe_blocks,
                p2l_copies: 1 + self.below(2) as u32,
                slices: 16,
            }
        }

        fn demand(&mut self, geometry: &Geometry) -> Demand {
            let fast = geometry.chunk_bytes * u64::from(geometry.chunks);
            let demand = Demand {
                lanes: 1 + self.below(8) as u16,
                delta_nodes: 0,
                checkpoint_bytes: (fast / 128).clamp(geometry.chunk_bytes, 14 << 30),
                over_provision_per_mille: self.below(400) as u16,
            };
            let least = Reserve::nodes_min(geometry, &demand).unwrap_or(0);
            let (more, nodes) = (self.below(2), self.below(1 << 14));
            let nodes = least + more * nodes;
            Demand {
                delta_nodes: nodes,
                ..demand
            }
        }
    }

    /// Whatever the sizes: refused with the sizes it would take, or every limit of engine.md 2 holds,
    /// by arithmetic of its own.
    #[test]
    fn limits_hold_for_all_geometries() {
        let mut draw = Draw(7);
        let mut seen = [0; 5];
        for _ in 0..20_000 {
            let geometry = draw.geometry();
            let demand = draw.demand(&geometry);
            let fast = u64::from(geometry.chunks) * geometry.chunk_bytes;
            let dense = geometry.dense_blocks() * BLOCK_BYTES;
            match Reserve::derive(&geometry, &demand) {
                Ok(reserve) => {
                    seen[0] += 1;
                    reserve.assert_holds(&geometry);
                    check(&geometry, &demand, &reserve);
                }
                Err(ReserveError::FastShare { .. }) => {
                    seen[1] += 1;
                    assert!(fast * 200 < dense);
                }
                Err(ReserveError::FastTooSmall { chunks, needed }) => {
                    seen[2] += 1;
                    assert!(chunks < needed && chunks == u64::from(geometry.chunks));
                }
                Err(ReserveError::DenseTooSmall { groups, needed }) => {
                    seen[3] += 1;
                    assert!(groups < needed);
                }
                Err(ReserveError::DeltaPool { nodes, needed }) => {
                    seen[4] += 1;
                    assert!(nodes < needed);
                }
            }
        }
        assert!(seen[..4].iter().all(|count| *count > 100), "{seen:?}");
    }

    fn check(geometry: &Geometry, demand: &Demand, reserve: &Reserve) {
        let owners = u32::from(owners(demand.lanes));
        let interval = demand.checkpoint_bytes.div_ceil(geometry.chunk_bytes) as u32;
        assert!(reserve.chunks > 2 * owners + interval);
        assert!(demand.delta_nodes * 3 >= reserve.leaves_max * 4);
        let taken = reserve.leaf_chunks + reserve.part_chunks + reserve.chunks;
        assert!(f64::from(taken) <= f64::from(geometry.chunks) * 0.75);
        let per_leaf = reserve.leaves_max * 4608;
        assert!(u64::from(reserve.leaf_chunks) * geometry.chunk_bytes >= per_leaf);
        let group = (0..geometry.group_blocks).filter(|block| geometry.is_user_block(*block));
        if geometry.groups > 0 && geometry.group_blocks <= 1 << 14 {
            let left = u64::from(geometry.groups - reserve.groups) * group.count() as u64;
            assert!(reserve.capacity_blocks <= left);
            assert!(reserve.groups >= 2 * reserve.tenant_streams + 2);
        }
        assert!(reserve.capacity_blocks > 0);
    }

    /// A pool's capacity does not change with the lanes of a start.
    #[test]
    fn capacity_is_the_same_for_all_lanes() {
        let mut draw = Draw(8);
        let mut compared = 0;
        for _ in 0..2_000 {
            let geometry = draw.geometry();
            let demand = draw.demand(&geometry);
            let with = |lanes| Reserve::derive(&geometry, &Demand { lanes, ..demand });
            let all: Vec<Reserve> = (1..=8).filter_map(|lanes| with(lanes).ok()).collect();
            for pair in all.windows(2) {
                assert_eq!(pair[0].capacity_blocks, pair[1].capacity_blocks);
                assert_eq!(pair[0].leaves_max, pair[1].leaves_max);
                compared += 1;
            }
        }
        assert!(compared > 1000);
    }

    /// 0.5 % of the dense tier is enough for its map, its checkpoints and a lane.
    #[test]
    fn the_smallest_share_works() {
        let geometry = Geometry {
            chunk_bytes: 256 << 20,
            chunks: 300,
            lba_bytes: 512,
            group_blocks: 18_874_368,
            groups: 200,
            stripe_blocks: 256,
            p2l_copies: 1,
            slices: 256,
        };
        let demand = Demand {
            lanes: 1,
            delta_nodes: 0,
            checkpoint_bytes: 600 << 20,
            over_provision_per_mille: 0,
        };
        let delta_nodes = Reserve::nodes_min(&geometry, &demand).unwrap();
        let demand = Demand {
            delta_nodes,
            ..demand
        };
        let reserve = Reserve::derive(&geometry, &demand).unwrap();
        assert!(reserve.capacity_blocks > 3 << 30);
        let less = Geometry {
            chunks: 287,
            ..geometry
        };
        let refused = Reserve::derive(&less, &demand);
        assert!(
            matches!(refused, Err(ReserveError::FastShare { .. })),
            "{refused:?}"
        );
    }
}
