//! What flows of one reactor wait for: to be told when the engine makes no progress.
//!
//! Numbers only, read without any await, so that it can be asked of an engine that stands still.

use crate::engine::Engine;
use crate::geometry::Tier;
use crate::shared::FIRST;
use crate::units::UnitState;
use alloc::collections::BTreeMap;
use core::sync::atomic::Ordering;

impl Engine {
    /// What waits on this reactor, and what all reactors have for it, by name. What is pool-wide is
    /// told by the first reactor alone.
    #[must_use]
    pub fn waits(&self) -> BTreeMap<&'static str, u64> {
        let shared = &self.shared;
        let shard = shared.shard();
        let lane = shard.lane.borrow();
        let map = shard.map.borrow();
        let mut waits = BTreeMap::from([
            ("flows", shared.flows() as u64),
            ("gate_writes", shared.gate.queued() as u64),
            ("lane_queued", lane.queued() as u64),
            ("lane_batches_in_flight", lane.in_flight() as u64),
            ("lane_has_chunk", u64::from(lane.open_chunk().is_some())),
            ("lane_holds", u64::from(lane.holds())),
            ("nodes_free", map.room() as u64),
            ("nodes_reserved", shard.nodes_reserved() as u64),
            ("node_waiters", shard.node_waiters.get() as u64),
            ("merges", shard.merges.get() as u64),
            ("leaves_being_read", shard.loads.borrow().len() as u64),
            ("stream_blocks", shared.streams.queued() as u64),
            ("commands_elsewhere", shared.crossings.open_calls() as u64),
        ]);
        drop((lane, map));
        if shared.reactor == FIRST {
            self.add_pool_wide(&mut waits);
        }
        waits
    }

    fn add_pool_wide(&self, waits: &mut BTreeMap<&'static str, u64>) {
        let shared = &self.shared;
        let control = shared.control();
        let work = &control.cleaner_work;
        let all = |counter: &core::sync::atomic::AtomicU32| counter.load(Ordering::SeqCst).into();
        waits.extend([
            ("pending_log", shared.pending_log()),
            ("pending_keeps", shared.pending_keeps.load(Ordering::SeqCst)),
            ("log_room", shared.log_room()),
            ("log_to_clean", shared.log_to_clean()),
            ("upkeep_chunks", shared.upkeep_chunks().into()),
            ("log_waiters", all(&shared.waiters)),
            (
                "pending_blocks",
                shared.pending_blocks.load(Ordering::SeqCst),
            ),
            (
                "pending_leaves",
                shared.pending_leaves.load(Ordering::SeqCst),
            ),
            ("dense_short", u64::from(shared.dense_shortage().is_some())),
            ("group_waiters", all(&shared.group_waiters)),
            ("streams_pausing", all(&shared.pausing)),
            ("free_chunks", control.free_chunks() as u64),
            ("reserve_chunks", shared.config.reserve.chunks.into()),
            ("freeable_chunks", control.freeable_chunks(shared) as u64),
            ("chunks_with_parts", control.chunks_with_parts() as u64),
            ("chunk_wanted", u64::from(control.is_chunk_wanted())),
            ("chunks_cleaned_now", work.running.get() as u64),
            ("chunks_settling", work.waiting.get() as u64),
            ("groups_collected_now", control.gc_work.running.get() as u64),
            ("groups_settling", control.gc_work.waiting.get() as u64),
            ("groups_spread", control.spread_victims() as u64),
            ("free_groups", control.free_groups() as u64),
            ("groups_to_discard", control.discards.count() as u64),
            ("reserve_groups", shared.config.reserve.groups.into()),
            ("emptied_groups", control.emptied_groups() as u64),
            ("checkpoint", control.checkpoint.get()),
        ]);
        for (state, chunks, groups) in [
            (UnitState::Open, "chunks_open", "groups_open"),
            (UnitState::Closed, "chunks_closed", "groups_closed"),
            (UnitState::Cleaning, "chunks_cleaning", "groups_cleaning"),
        ] {
            for (tier, name) in [(Tier::Fast, chunks), (Tier::Dense, groups)] {
                let units = shared.units.ids(tier);
                let of = units.filter(|id| shared.units.unit(*id).state() == state);
                waits.insert(name, of.count() as u64);
            }
        }
    }
}
