//! Whether the pool has room for a host write: blocks and leaves. What it has in all is shown here
//! too.
//!
//! **Not here**: room in the log, and whose turn it is (`gate`).

use crate::engine::{Engine, pieces};
use crate::error::EngineError;
use crate::geometry::Tier;
use crate::map::{LeafKey, Lookup};
use crate::units::UnitState;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use varve_units::{Lba, LeafIndex, VolumeId};

/// Chains merged at most to find room for one write near the limit. Arbitrary.
const TIGHTEN_MAX: usize = 4096;

impl Engine {
    /// Blocks that all volumes together map, at most (ADR 11).
    #[must_use]
    pub fn used_upper(&self) -> u64 {
        self.shared
            .borrow_shards()
            .iter()
            .map(|shard| shard.map.borrow().used_upper())
            .sum()
    }

    /// Blocks that all volumes together may map.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.config.reserve.capacity_blocks
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
            ("reserve_chunks", self.reserve().chunks.into()),
            ("reserve_groups", self.reserve().groups.into()),
        ]);
        let states = [
            (UnitState::Open, "open_units"),
            (UnitState::Closed, "closed_units"),
            (UnitState::Cleaning, "cleaning_units"),
        ];
        for (state, name) in states {
            let all = units.ids(Tier::Fast).chain(units.ids(Tier::Dense));
            let count = all.filter(|id| units.unit(*id).state() == state).count();
            gauges.insert(name, count as u64);
        }
        gauges.insert("chunks_with_parts", control.chunks_with_parts() as u64);
        gauges.insert("queued_blocks", self.shared.streams.queued() as u64);
        for shard in self.shared.shards() {
            let lane = shard.lane.borrow();
            let drained = u64::from(lane.is_drained());
            *gauges.entry("drained_lanes").or_insert(0) += drained;
            *gauges.entry("queued_records").or_insert(0) += lane.queued() as u64;
            *gauges.entry("node_waiters").or_insert(0) += shard.node_waiters.get() as u64;
        }
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
    pub(crate) async fn check_capacity(
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
        for _ in 0..TIGHTEN_MAX {
            if shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            // Looked up and compared without a pause: what was mapped a moment ago may not be now.
            let Some(fresh) = self.count_fresh(volume, lba, blocks) else {
                self.load_images(volume, lba, blocks).await?;
                continue;
            };
            let pending = shared.pending_blocks.get();
            if fresh == 0 || self.used_upper() + pending + fresh <= self.capacity() {
                return Ok(());
            }
            if shared.purges.get() > 0 {
                shared.purged.listen().await;
            } else if !self.tighten().await {
                break;
            }
        }
        shared.count("full_rejections", 1);
        Err(EngineError::CapacityExceeded)
    }

    /// Blocks of a range without a place; `None` if an image must be loaded to tell.
    fn count_fresh(&self, volume: VolumeId, lba: Lba, blocks: u64) -> Option<u64> {
        let geometry = self.shared.units.geometry();
        let mut fresh = 0;
        for block in (lba.0..lba.0 + blocks).map(Lba) {
            let key = LeafKey {
                volume,
                leaf: block.leaf(),
            };
            let owner = self.shared.owner(geometry.slice_of(volume, key.leaf));
            let found = owner.map.borrow().lookup(key, block.index() as u16);
            match found {
                Lookup::Entry { .. } | Lookup::Lost => {}
                Lookup::Zeroes => fresh += 1,
                Lookup::NeedsImage => return None,
            }
        }
        Some(fresh)
    }

    async fn load_images(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<(), EngineError> {
        for piece in pieces(lba, blocks) {
            let leaf = piece.lba.leaf();
            let owner = self
                .shared
                .owner(self.shared.units.geometry().slice_of(volume, leaf));
            owner.ensure_image(LeafKey { volume, leaf }).await?;
        }
        Ok(())
    }

    /// Sets aside the leaves that a write makes; tells which.
    pub(crate) async fn reserve_leaves(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<Vec<LeafIndex>, EngineError> {
        let shared = &self.shared;
        for attempt in 0.. {
            let mut new = Vec::new();
            for piece in pieces(lba, blocks) {
                let leaf = piece.lba.leaf();
                let owner = shared.owner(shared.units.geometry().slice_of(volume, leaf));
                // One that is vacant may be gone when the write arrives.
                if !owner.map.borrow().is_kept(LeafKey { volume, leaf }) {
                    new.push(leaf);
                }
            }
            if new.is_empty() {
                return Ok(new);
            }
            let shards = shared.shards();
            let leaves: usize = shards.iter().map(|shard| shard.map.borrow().leaves()).sum();
            if self.set_leaves_aside(volume, leaves, &new) {
                return Ok(new);
            }
            if shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            if shared.purges.get() > 0 {
                shared.purged.listen().await;
            } else if attempt == 0 {
                // Leaves that became empty exist until the next checkpoint.
                shared.control().ask_checkpoint();
                shared.control().committed.listen().await;
            } else {
                break;
            }
        }
        shared.count("full_rejections", 1);
        Err(EngineError::CapacityExceeded)
    }

    /// Counts the leaves a write makes among the pending ones, if there is room for them beside
    /// `leaves` that exist.
    fn set_leaves_aside(&self, volume: VolumeId, leaves: usize, new: &[LeafIndex]) -> bool {
        let mut pending = self.shared.pending_leaves.borrow_mut();
        let keys = new.iter().map(|leaf| LeafKey {
            volume,
            leaf: *leaf,
        });
        let unseen = keys.clone().filter(|key| !pending.contains_key(key));
        let wanted = leaves + pending.len() + unseen.count();
        let fits = wanted as u64 <= self.capacity_leaves();
        if fits {
            keys.for_each(|key| *pending.entry(key).or_insert(0) += 1);
        }
        fits
    }

    /// Brings the upper bound of mapped blocks closer to their number: merges the longest chain
    /// of every shard, or waits for a merge that is under way. False if there was neither.
    async fn tighten(&self) -> bool {
        let mut any = false;
        for shard in self.shared.shards() {
            let fullest = shard.map.borrow_mut().fullest();
            if let Some(key) = fullest {
                any |= shard.merge(key).await.is_ok();
            } else if shard.map.borrow().has_merges() {
                shard.nodes_freed.listen().await;
                any = true;
            }
        }
        any
    }
}

/// Blocks of log that a record of `blocks` data blocks can take: a header of its own at worst.
pub(crate) const fn log_cost(blocks: u64) -> u64 {
    blocks + 1
}
