//! Geometry and settings of a pool that is small enough to be run whole.

use crate::comparators::CSAL;
use crate::plan::map_bytes;
use varve_ftl::{Config, Geometry, ReserveError};
use varve_pool::label::Owner;
use varve_pool::{Settings, Tuning, engine_config};
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS};

/// Blocks of a stripe on one drive: 1 MiB of data.
pub(crate) const STRIPE_BLOCKS: u32 = 256;
/// Chunks of a fast tier, about.
const CHUNKS: u64 = 512;
/// Bytes of a chunk at least where writes are long: smaller ones hold few of them.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;
/// The same where writes are short: a small tier has as many chunks as a large one, and what is kept back of them
/// is the same share.
pub(crate) const CHUNK_BYTES_MIN: u64 = 1 << 18;
/// Slices of the map: as many as small pools have on drives.
pub(crate) const SLICES: u16 = 16;
/// Where nobody waits: one reactor deals them to nobody, and each has records of moves and parts of checkpoints of its own.
/// With four a host's write costs 7 % less than with 16. In time what they are cut in shows: 0.045 ms for 0.037 at 99.9 %.
pub(crate) const SLICES_UNTIMED: u16 = 4;
/// Bytes that a table has for a block, by which shares of a map are counted for every system.
const TABLE_ENTRY_BYTES: u64 = CSAL.entry_bytes;
/// Room that the pool has for users beyond the volumes: one part in so many.
const SLACK: u64 = 50;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PoolRequest {
    /// Groups of the dense tier.
    pub(crate) groups: u32,
    /// Blocks of a group, about: whole stripes are made of it.
    pub(crate) group_blocks: u32,
    /// Data blocks of a stripe.
    pub(crate) stripe_blocks: u32,
    /// Bytes of a chunk at least.
    pub(crate) chunk_bytes_min: u64,
    /// Slices of the map.
    pub(crate) slices: u16,
    /// Dense data blocks that are not exported, per cent of all.
    pub(crate) over_provision: f64,
    /// Fast tier, per cent of what is exported.
    pub(crate) fast_tier: f64,
    /// Volumes, all alike.
    pub(crate) volumes: u64,
    /// Memory for the map, per cent of what a table of it takes; with 100 all of it is resident.
    pub(crate) map_cache: f64,
}

impl PoolRequest {
    /// Memory for deltas and images of the map of `user` blocks.
    fn map_bytes(&self, user: u64) -> u64 {
        let resident = map_bytes(user * BLOCK_BYTES);
        if self.map_cache >= 100.0 {
            return resident;
        }
        resident.min(((user * TABLE_ENTRY_BYTES) as f64 * self.map_cache / 100.0) as u64)
    }
}

/// Why there is no such pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolError {
    /// A tier is too small for what the engine keeps back.
    Reserve(ReserveError),
    /// The volumes do not fit.
    Capacity {
        /// Blocks of the volumes.
        user: u64,
        /// Blocks there is room for.
        usable: u64,
    },
}

/// Geometry and settings of such a pool.
pub(crate) struct SmallPool {
    pub(crate) geometry: Geometry,
    pub(crate) config: Config,
    /// Blocks of each volume.
    pub(crate) volume_blocks: u64,
    /// Blocks of all volumes.
    pub(crate) user_blocks: u64,
    /// User data blocks of a group.
    pub(crate) group_data_blocks: u32,
}

impl SmallPool {
    /// Plans a pool.
    pub(crate) fn new(request: &PoolRequest) -> Result<Self, PoolError> {
        let stripe_blocks = request.stripe_blocks;
        let stripes = ((request.group_blocks + stripe_blocks / 2) / stripe_blocks).max(2);
        let mut geometry = Geometry {
            chunk_bytes: 0,
            chunks: 0,
            lba_bytes: 512,
            group_blocks: stripes * stripe_blocks,
            groups: request.groups,
            stripe_blocks,
            p2l_copies: 1,
            slices: request.slices,
        };
        let data = u64::from(stripes) * u64::from(geometry.stripe_user_blocks());
        let dense = data * u64::from(request.groups);
        let user = (dense as f64 * (1.0 - request.over_provision / 100.0)) as u64;
        let volume_blocks = user / request.volumes / LEAF_BLOCKS * LEAF_BLOCKS;
        let user = volume_blocks * request.volumes;
        let fast = (user as f64 * request.fast_tier / 100.0) as u64 * BLOCK_BYTES;
        geometry.chunk_bytes = 1 << (fast / CHUNKS).max(request.chunk_bytes_min).ilog2();
        geometry.chunks = (fast / geometry.chunk_bytes) as u32;
        let settings = Settings {
            owner: Owner::NOBODY,
            take_over: false,
            accept_loss: false,
            beat: None,
            lanes: 1,
            map_bytes: request.map_bytes(user),
            elided: true,
            // Loads have no pauses: what the clock jumps over while a rig is filled is none.
            tuning: Tuning {
                idle_after: None,
                ..Tuning::USUAL
            },
            bypass: true,
            canary: None,
        };
        let mut config = engine_config(&geometry, 0, &settings).map_err(PoolError::Reserve)?;
        let usable = config.reserve.capacity_blocks;
        if user >= usable {
            return Err(PoolError::Capacity { user, usable });
        }
        config.reserve.capacity_blocks = usable.min(user + user / SLACK);
        Ok(Self {
            geometry,
            config,
            volume_blocks,
            user_blocks: user,
            group_data_blocks: data as u32,
        })
    }

    /// Bytes of the fast tier.
    pub(crate) fn fast_bytes(&self) -> u64 {
        self.geometry.chunk_bytes * u64::from(self.geometry.chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_format::LEAF_IMAGE_BYTES;

    /// An eighth of a table is split between deltas and images; all of it holds every leaf.
    #[test]
    fn less_memory_is_less_of_the_map() {
        let of = |map_cache| {
            let pool = SmallPool::new(&PoolRequest {
                groups: 200,
                group_blocks: 5120,
                stripe_blocks: STRIPE_BLOCKS,
                chunk_bytes_min: CHUNK_BYTES,
                slices: SLICES,
                over_provision: 20.0,
                fast_tier: 5.0,
                volumes: 1,
                map_cache,
            });
            let pool = pool.expect("there is such a pool");
            let (map, user) = (pool.config.map, pool.user_blocks);
            let bytes = map.images as u64 * LEAF_IMAGE_BYTES as u64 + map.delta_nodes as u64 * 64;
            (
                map.images as u64,
                bytes as f64 / (user * TABLE_ENTRY_BYTES) as f64,
                user,
            )
        };
        let (images, _, user) = of(100.0);
        assert!(images >= user / LEAF_BLOCKS, "{images}");
        for share in [12.5, 25.0] {
            let (_, taken, _) = of(share);
            assert!(
                (taken * 100.0 / share - 1.0).abs() < 0.02,
                "{share}: {taken}"
            );
        }
    }
}
