//! A full pool without the writes that fill it, for the laboratory: at full size a fill would take
//! longer than all that is to be measured.
//!
//! Groups are declared written, leaves are appended to the log (`seed`). Everything from there on
//! (checkpoints, cleaning, garbage collection, starts) is the engine's own. The content of the groups
//! is up to the drive, which must answer reads as if it had been written.
//!
//! **Not here**: which block lies where (`lab`).

use crate::engine::Engine;
use crate::error::EngineError;
use crate::geometry::UnitId;
use crate::map::LeafKey;
use crate::placement::{StreamId, Writer};
use crate::shared::FIRST;
use varve_format::LeafImage;
use varve_units::{Generation, LeafIndex, TenantId, VolumeId};

impl Engine {
    /// Groups that can be preloaded before garbage collection begins.
    #[must_use]
    pub fn preload_room(&self) -> u32 {
        let control = self.shared.control();
        let free = control.free_groups() + control.discards.count();
        free.saturating_sub(self.shared.gc_target()) as u32
    }

    /// Takes a free group for compaction's blocks of a tenant, and closes it as if all its stripes
    /// had been written. `is_live` tells of each block of user data, by its number in the group,
    /// whether a leaf will refer to it. Returns the group and its generation.
    ///
    /// # Errors
    /// The engine stopped.
    ///
    /// # Panics
    /// If user data are not symbols, or the pool has several lanes.
    pub async fn preload_group(
        &self,
        tenant: TenantId,
        is_live: impl Fn(u32) -> bool,
    ) -> Result<(u32, Generation), EngineError> {
        self.assert_laboratory();
        let (shared, control) = (&self.shared, self.shared.control());
        let geometry = shared.units.geometry();
        let stream = StreamId {
            tenant: shared.stream_of(tenant),
            writer: Writer::Compaction,
        };
        let open = control.obtain_group(shared, FIRST, stream).await;
        let open = open.ok_or(EngineError::Stopped)?;
        assert_eq!(open.next_stripe, 0, "nothing was written before");
        let group = open.group;
        let blocks = 0..geometry.group_blocks;
        for block in blocks.filter(|block| geometry.is_user_block(*block) && is_live(*block)) {
            shared.units.append_run(geometry.dense_ppa(group, block), 1);
        }
        shared.close_written(group, geometry.group_blocks);
        Ok((group, shared.units.unit(UnitId::group(group)).generation()))
    }

    /// Appends the image of a leaf that does not exist yet, and has the map refer to it.
    ///
    /// # Errors
    /// The engine stopped.
    ///
    /// # Panics
    /// If the leaf exists; as [`Engine::preload_group`].
    pub async fn preload_leaf(
        &self,
        volume: VolumeId,
        leaf: LeafIndex,
        image: LeafImage,
    ) -> Result<(), EngineError> {
        self.assert_laboratory();
        self.shared
            .shard()
            .seed_leaf(LeafKey { volume, leaf }, image)
            .await
    }

    fn assert_laboratory(&self) {
        let config = &self.shared.config;
        assert!(config.elided, "only symbols can be made up");
        assert_eq!(config.lanes, 1, "slices of one reactor");
    }
}
