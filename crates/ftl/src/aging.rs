//! Old chains: deltas keep 32 bits of their LSN, so a chain is merged before its oldest delta could
//! be taken for a young one.
//!
//! One leaf at a time on each reactor, beside everything else: after hours at full rate a large
//! pool may have millions of leaves that were written once and left alone since. A checkpoint only
//! says that it is time to look; nothing waits for the end of the round.

use crate::error::EngineError;
use crate::limits::{AGED_AT_ONCE, AGED_AWAY_MAX, AGED_MAX_SHORT};
use crate::map::LeafKey;
use crate::shard::Shard;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use varve_units::{Lsn, SliceId};

/// What one round has done.
#[derive(Default)]
struct Round {
    merged: usize,
    /// Leaves that a copy which is away holds: the next round tries again.
    away: Vec<LeafKey>,
}

impl Shard {
    /// Begins a round if there are old chains and none is under way. Called when a checkpoint has
    /// committed; a start's own does nothing, its leaves go to another lane than later ones.
    pub(crate) fn begin_aging(self: &Rc<Self>) {
        let is_ready = self.shared.is_serving.load(Ordering::SeqCst) && !self.is_aging.get();
        let limit = self.age_limit();
        if !is_ready || !self.own_slices().any(|slice| self.has_old(slice, limit)) {
            return;
        }
        self.is_aging.set(true);
        self.shared.spawn(Rc::clone(self).run_aging());
    }

    async fn run_aging(self: Rc<Self>) {
        let mut round = Round::default();
        for slice in self.own_slices() {
            if self.merge_old(slice, &mut round).await.is_err() {
                break;
            }
        }
        self.is_aging.set(false);
    }

    fn own_slices(&self) -> impl Iterator<Item = SliceId> {
        let all = (0..self.shared.units.geometry().slices).map(SliceId);
        all.filter(|slice| self.shared.owner_of(*slice) == self.shared.reactor)
    }

    /// True if the slice may have deltas from before `limit`.
    fn has_old(&self, slice: SliceId, limit: Lsn) -> bool {
        let oldest = self.map.borrow().oldest(slice);
        oldest.is_some_and(|oldest| oldest < limit)
    }

    /// Merges the old chains of a slice, those apart that `round` could not.
    ///
    /// # Errors
    /// The engine stopped.
    async fn merge_old(&self, slice: SliceId, round: &mut Round) -> Result<(), EngineError> {
        let limit = self.age_limit();
        if !self.has_old(slice, limit) {
            return Ok(());
        }
        loop {
            let old = self
                .map
                .borrow()
                .chains_older_than(slice, limit, &round.away, AGED_AT_ONCE);
            if old.is_empty() {
                self.map.borrow_mut().refresh_oldest(slice);
                return Ok(());
            }
            for key in old {
                let is_short = self.shared.is_log_for_upkeep() || self.shared.is_log_short();
                let is_enough = is_short && round.merged >= AGED_MAX_SHORT;
                if is_enough || round.away.len() >= AGED_AWAY_MAX {
                    return Ok(());
                }
                match self.merge_now(key).await {
                    Ok(()) => {
                        round.merged += 1;
                        self.shared.count("aged_merges", 1);
                    }
                    Err(EngineError::Stopped) => return Err(EngineError::Stopped),
                    Err(_) => round.away.push(key),
                }
                if self.shared.is_stopped() {
                    return Err(EngineError::Stopped);
                }
            }
        }
    }

    /// Deltas from before are old.
    fn age_limit(&self) -> Lsn {
        let next = self.lane.borrow().next_lsn();
        Lsn(next.0.saturating_sub(self.shared.config.chain_age))
    }
}
