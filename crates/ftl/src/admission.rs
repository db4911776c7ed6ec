//! When a host write may enter: room in the fast tier, room in the pool.
//!
//! The chunks below the reserve are the engine's own: merges, moves, checkpoints, deallocations
//! and the catalogue go on when hosts wait.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::geometry::Tier;
use crate::map::{LeafKey, Lookup};
use alloc::collections::BTreeMap;
use varve_units::{Lba, VolumeId};

/// Chains merged at most to find room for one write near the limit. Arbitrary.
const TIGHTEN_MAX: usize = 64;

impl Engine {
    /// Waits until `blocks` blocks may be written.
    pub(crate) async fn admit(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<(), EngineError> {
        let shared = &self.shared;
        let control = shared.control();
        while control.free_chunks() <= shared.config.reserve_chunks as usize {
            if shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            shared.count("admission_waits", 1);
            control.cleaner_wanted.notify();
            control.checkpoint_wanted.notify();
            control.freed.listen().await;
        }
        self.check_capacity(volume, lba, blocks).await
    }

    /// Blocks that all volumes together map, at most (ADR 11).
    #[must_use]
    pub fn used_upper(&self) -> u64 {
        self.shared
            .shards()
            .iter()
            .map(|shard| shard.map.borrow().used_upper())
            .sum()
    }

    /// Blocks that all volumes together may map.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.config.capacity_blocks
    }

    /// What is free and what is in use now, by name.
    #[must_use]
    pub fn gauges(&self) -> BTreeMap<&'static str, u64> {
        let control = self.shared.control();
        let units = &self.shared.units;
        let mut gauges = BTreeMap::from([
            ("free_chunks", control.free_chunks() as u64),
            ("free_groups", control.free_groups() as u64),
            ("emptied_units", control.emptied_count() as u64),
            ("used_upper_blocks", self.used_upper()),
            ("capacity_blocks", self.capacity()),
        ]);
        for (tier, name) in [
            (Tier::Fast, "live_fast_blocks"),
            (Tier::Dense, "live_dense_blocks"),
        ] {
            let live = units
                .ids(tier)
                .map(|id| u64::from(units.unit(id).live()))
                .sum();
            gauges.insert(name, live);
        }
        gauges
    }

    /// Leaves that all volumes together may have.
    #[must_use]
    pub fn capacity_leaves(&self) -> u64 {
        self.shared.config.map.leaves_max as u64
    }

    /// Refuses a write that would map more blocks than there is room for. Overwrites of mapped
    /// blocks always pass: near the limit the blocks are looked up.
    async fn check_capacity(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<(), EngineError> {
        let shared = &self.shared;
        let pending = shared.pending_blocks.get();
        if self.used_upper() + pending + blocks <= self.capacity() {
            return Ok(());
        }
        let mut fresh = 0;
        for block in lba.0..lba.0 + blocks {
            fresh += u64::from(!self.is_mapped(volume, Lba(block)).await?);
        }
        for _ in 0..TIGHTEN_MAX {
            let pending = shared.pending_blocks.get();
            if fresh == 0 || self.used_upper() + pending + fresh <= self.capacity() {
                return Ok(());
            }
            if !self.tighten().await {
                break;
            }
        }
        shared.count("full_rejections", 1);
        Err(EngineError::CapacityExceeded)
    }

    /// True if the block has a place now.
    async fn is_mapped(&self, volume: VolumeId, lba: Lba) -> Result<bool, EngineError> {
        let geometry = self.shared.units.geometry();
        let owner = self.shared.owner(geometry.slice_of(volume, lba.leaf()));
        let key = LeafKey {
            volume,
            leaf: lba.leaf(),
        };
        loop {
            let found = owner.map.borrow().lookup(key, lba.index() as u16);
            match found {
                Lookup::Entry { .. } | Lookup::Lost => return Ok(true),
                Lookup::Zeroes => return Ok(false),
                Lookup::NeedsImage => owner.ensure_image(key).await?,
            }
        }
    }

    /// Brings the upper bound of mapped blocks closer to their number: merges the longest chain
    /// of every shard. False if there was none.
    async fn tighten(&self) -> bool {
        let mut any = false;
        for shard in self.shared.shards() {
            let fullest = shard.map.borrow_mut().fullest();
            if let Some(key) = fullest {
                any = true;
                shard.merge(key).await;
            }
        }
        any
    }
}
