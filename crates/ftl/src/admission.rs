//! Whether the pool has room for a host write: blocks and leaves. What it has in all is shown here
//! too.
//!
//! Asked by the owner of the leaf, which alone can look up what is mapped; room itself is the
//! pool's.
//!
//! **Not here**: room in the log, and whose turn it is (`gate`).

use crate::engine::Engine;
use crate::error::EngineError;
use crate::geometry::Tier;
use crate::map::{LeafKey, Lookup};
use crate::shard::Shard;
use crate::units::UnitState;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::sync::atomic::Ordering;
use varve_units::{Lba, VolumeId};

/// Chains merged at most to find room for one write near the limit. Arbitrary.
const TIGHTEN_MAX: usize = 4096;

impl Engine {
    /// Blocks that all volumes together map, at most (ADR 11).
    #[must_use]
    pub fn used_upper(&self) -> u64 {
        self.shared.used_upper()
    }

    /// Blocks that all volumes together may map.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.config.reserve.capacity_blocks
    }

    /// Leaves that all volumes together have.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        self.shared.leaves()
    }

    /// Leaves that all volumes together may have.
    #[must_use]
    pub fn capacity_leaves(&self) -> u64 {
        self.shared.config.map.leaves_max as u64
    }

    /// What is free and what is in use now, by name; what is local to a reactor is of those that
    /// share the caller's thread. To be asked on the first reactor.
    #[must_use]
    pub fn gauges(&self) -> BTreeMap<&'static str, u64> {
        let control = self.shared.control();
        let units = &self.shared.units;
        let mut gauges = BTreeMap::from([
            ("free_chunks", control.free_chunks() as u64),
            ("free_groups", control.free_groups() as u64),
            ("idle_groups", control.open_groups.idle().len() as u64),
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
        let views = self.shared.everyone();
        for view in views.unwrap_or_else(|| alloc::vec![self.shared.rc()]) {
            let shard = view.shard();
            let lane = shard.lane.borrow();
            let drained = u64::from(lane.is_drained());
            *gauges.entry("drained_lanes").or_insert(0) += drained;
            *gauges.entry("queued_records").or_insert(0) += lane.queued() as u64;
            *gauges.entry("queued_blocks").or_insert(0) += view.streams.queued() as u64;
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
}

/// What was set aside for a write.
#[derive(Clone, Copy, Default)]
pub(crate) struct Aside {
    /// Blocks that count as pending.
    pub(crate) blocks: u64,
    /// Those of them that may be without a place.
    pub(crate) fresh: u64,
    /// It makes its leaf.
    pub(crate) makes_leaf: bool,
}

impl Shard {
    /// Sets aside what a write of blocks of one leaf may newly map, and the leaf if it makes one.
    /// `before` is what the same write has set aside for other leaves; with `exact` only blocks
    /// without a place count, however much room there is.
    ///
    /// # Errors
    /// There is no room for new blocks or leaves, none beneath the dense tier, the engine stopped.
    pub(crate) async fn set_room_aside(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        before: Aside,
        exact: bool,
    ) -> Result<Aside, EngineError> {
        let fresh = self
            .reserve_blocks(volume, lba, blocks, before, exact)
            .await?;
        let leaf = lba.leaf();
        let made = self.reserve_leaf(LeafKey { volume, leaf }).await;
        match made {
            Ok(makes_leaf) => Ok(Aside {
                blocks,
                fresh,
                makes_leaf,
            }),
            Err(error) => {
                self.shared.unpend_blocks(blocks);
                Err(error)
            }
        }
    }

    /// Gives back what a write that will not be set aside.
    pub(crate) fn give_room_back(&self, key: LeafKey, blocks: u64, makes_leaf: bool) {
        self.shared.unpend_blocks(blocks);
        if makes_leaf {
            self.leaf_made(key);
        }
    }

    /// Refuses a write that would map more blocks than there is room for. Overwrites of mapped
    /// blocks always pass: near the limit the blocks are looked up.
    async fn reserve_blocks(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        before: Aside,
        exact: bool,
    ) -> Result<u64, EngineError> {
        let own = before.blocks - before.fresh;
        if let Some(fresh) = self.try_reserve_blocks(volume, lba, blocks, own, exact) {
            return Ok(fresh);
        }
        // Apart: what is rare must not make the flow of every write larger.
        Box::pin(self.reserve_fresh(volume, lba, blocks, own)).await
    }

    /// Sets blocks of one leaf aside if that needs no waiting: how many of them count as new. `own`
    /// blocks without need of room were set aside for the same write already.
    pub(crate) fn try_reserve_blocks(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        own: u64,
        exact: bool,
    ) -> Option<u64> {
        let shared = &self.shared;
        if !exact && shared.reserve_blocks(blocks, blocks, own) {
            return Some(blocks);
        }
        // Overwrites of a pool that is nearly full, mostly.
        if self.count_fresh(volume, lba, blocks) != Some(0) {
            return None;
        }
        shared.pend_blocks(blocks);
        Some(0)
    }

    /// Looks the blocks up: only those without a place need room.
    async fn reserve_fresh(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        own: u64,
    ) -> Result<u64, EngineError> {
        let shared = &self.shared;
        let leaf = lba.leaf();
        for _ in 0..TIGHTEN_MAX {
            if shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            // Before log is written to find room that would be of no use.
            shared.refuse_starved(blocks)?;
            // Looked up and compared without a pause: what was mapped a moment ago may not be now.
            let Some(fresh) = self.count_fresh(volume, lba, blocks) else {
                self.ensure_image(LeafKey { volume, leaf }).await?;
                continue;
            };
            if fresh == 0 {
                shared.pend_blocks(blocks);
                return Ok(0);
            }
            if shared.reserve_blocks(blocks, fresh, own) {
                return Ok(fresh);
            }
            let taken = shared.room_taken();
            let purged = shared.purged.listen();
            if shared.is_purging() {
                purged.await;
            } else if !self.tighten_all().await && shared.room_taken() == taken {
                // If others had made room meanwhile, it would be compared again.
                break;
            }
        }
        shared.count("full_rejections", 1);
        Err(EngineError::CapacityExceeded)
    }

    /// Blocks of a range without a place; `None` if an image must be loaded to tell.
    fn count_fresh(&self, volume: VolumeId, lba: Lba, blocks: u64) -> Option<u64> {
        let leaf = lba.leaf();
        let key = LeafKey { volume, leaf };
        let map = self.map.borrow();
        if map.is_full(key) {
            // The common case in a full pool: no image is read for it.
            return Some(0);
        }
        let mut fresh = 0;
        for block in (lba.0..lba.0 + blocks).map(Lba) {
            match map.lookup(key, block.index() as u16) {
                Lookup::Entry { .. } | Lookup::Lost => {}
                Lookup::Zeroes => fresh += 1,
                Lookup::NeedsImage => return None,
            }
        }
        Some(fresh)
    }

    /// Sets a leaf aside if a write makes it; true then.
    async fn reserve_leaf(&self, key: LeafKey) -> Result<bool, EngineError> {
        if self.map.borrow().is_kept(key) {
            return Ok(false);
        }
        Box::pin(self.reserve_new_leaf(key)).await
    }

    /// Sets a leaf aside that may not exist yet.
    async fn reserve_new_leaf(&self, key: LeafKey) -> Result<bool, EngineError> {
        let shared = &self.shared;
        for attempt in 0.. {
            // One that is vacant may be gone when the write arrives.
            if self.map.borrow().is_kept(key) {
                return Ok(false);
            }
            {
                let mut pending = self.pending_leaves.borrow_mut();
                let known = pending.get_mut(&key);
                if let Some(count) = known {
                    *count += 1;
                    return Ok(true);
                }
                if shared.reserve_leaf() {
                    pending.insert(key, 1);
                    return Ok(true);
                }
            }
            if shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            shared.refuse_starved(1)?;
            let purged = shared.purged.listen();
            if shared.is_purging() {
                purged.await;
            } else if attempt == 0 {
                // Leaves that became empty exist until the next checkpoint.
                shared.checkpoint_once().await;
            } else {
                break;
            }
        }
        shared.count("full_rejections", 1);
        Err(EngineError::CapacityExceeded)
    }

    /// A write that makes this leaf was acknowledged.
    pub(crate) fn leaf_made(&self, key: LeafKey) {
        let mut pending = self.pending_leaves.borrow_mut();
        let count = pending.get_mut(&key).expect("the leaf was set aside");
        *count -= 1;
        if *count == 0 {
            pending.remove(&key);
            self.shared.pending_leaves.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Brings the upper bound of mapped blocks closer to their number, in every shard: reads a base
    /// that a start has only guessed at, merges the longest chain, or waits for a merge that is under
    /// way. False if there was nothing of that.
    async fn tighten_all(&self) -> bool {
        let mut any = false;
        for to in self.shared.reactors() {
            let tighten = |there: alloc::rc::Rc<crate::shared::Shared>| async move {
                there.shard().tighten().await
            };
            any |= self.shared.call(to, tighten).await.unwrap_or(false);
        }
        any
    }

    async fn tighten(&self) -> bool {
        if self.shared.is_stopped() {
            return false;
        }
        // After a start. A read costs no log.
        let bound = self.map.borrow_mut().next_bound();
        if let Some(key) = bound
            && self.ensure_image(key).await.is_ok()
        {
            return true;
        }
        let fullest = self.map.borrow_mut().fullest();
        if let Some(key) = fullest {
            return self.merge(key).await.is_ok();
        }
        if self.map.borrow().has_merges() {
            self.nodes_freed.listen().await;
            return true;
        }
        false
    }
}
