//! The scrub of a pool in use: the engine reads and mends, the arrays say what lies beneath.

use crate::error::PoolError;
use crate::pool::Pool;
use crate::tier::{Array, Tier};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use varve_array::{MemberState, Protection, StripeSet};
use varve_ftl::{Beneath, ScrubProgress, ScrubReport};
use varve_io::{Blocks, Event, Flow, IoError};

/// The scrub of a pool, if one is under way.
#[derive(Default)]
pub(crate) struct Scrubs {
    is_running: Cell<bool>,
    /// The pool is being closed.
    is_stopping: Cell<bool>,
    ended: Event,
}

impl Scrubs {
    /// Ends the one that is under way, and lets none begin any more.
    pub(crate) async fn stop(&self) {
        self.is_stopping.set(true);
        while self.is_running.get() {
            self.ended.listen().await;
        }
    }
}

impl Pool {
    /// Reads everything that lives in every way there is, and writes what is wrong again, parity too; hosts may go on
    /// meanwhile. It reads `limit` bytes a second of all drives at most, and ends early when `watch`, which is told how
    /// far it is, says so, or when the pool is closed. To be awaited to its end.
    ///
    /// # Errors
    /// One is under way; the engine stopped.
    pub fn scrub<'a>(
        &'a self,
        limit: Option<u64>,
        watch: &'a mut dyn FnMut(ScrubProgress) -> bool,
    ) -> Flow<'a, Result<ScrubReport, PoolError>> {
        Box::pin(async move {
            if self.scrubs.is_running.replace(true) {
                return Err(PoolError::Scrubbing);
            }
            let beneath = Arrays(&self.tiers);
            let mut watch = |progress| watch(progress) && !self.scrubs.is_stopping.get();
            let outcome = self.engine().scrub(&beneath, limit, &mut watch).await;
            self.scrubs.is_running.set(false);
            self.scrubs.ended.notify();
            Ok(outcome?)
        })
    }
}

/// The arrays of a pool's tiers.
struct Arrays<'a>(&'a [Rc<Tier>]);

impl Arrays<'_> {
    fn of(&self, tier: varve_ftl::Tier) -> Option<&Rc<Tier>> {
        match tier {
            varve_ftl::Tier::Fast => self.0.first(),
            varve_ftl::Tier::Dense => self.0.get(1),
        }
    }

    fn dense(&self) -> Option<&StripeSet> {
        match &self.of(varve_ftl::Tier::Dense)?.array {
            Array::Dense(set) => Some(set),
            Array::Fast(..) => None,
        }
    }

    /// The dense tier, and which of its stripes begins at a byte.
    fn stripe(&self, offset: u64) -> (&StripeSet, u64) {
        let set = self.dense().expect("a stripe lies on the dense tier");
        (set, offset / set.geometry().stripe_bytes())
    }
}

impl Beneath for Arrays<'_> {
    fn ways(&self, tier: varve_ftl::Tier) -> u8 {
        self.of(tier).map_or(0, |tier| tier.usual_ways() as u8)
    }

    fn is_whole(&self, tier: varve_ftl::Tier) -> bool {
        let live = |tier: &Rc<Tier>| {
            let mut slots = 0..tier.losses.slots();
            slots.all(|slot| tier.state(slot) == MemberState::Live)
        };
        self.of(tier).is_none_or(live)
    }

    fn parity_bytes(&self) -> u64 {
        let geometry = self.dense().map(StripeSet::geometry);
        let coded = geometry.filter(|geometry| {
            let protection = geometry.protection();
            matches!(protection, Protection::Parity { .. })
        });
        coded.map_or(0, varve_array::Geometry::strip_bytes)
    }

    fn wrong_parity<'a>(
        &'a self,
        offset: u64,
        stripe: &'a Blocks,
        is_known: &'a [bool],
    ) -> Flow<'a, Result<Vec<u64>, IoError>> {
        let (set, number) = self.stripe(offset);
        Box::pin(set.wrong_parity(number, stripe, is_known))
    }

    fn mend_parity<'a>(
        &'a self,
        offset: u64,
        stripe: &'a Blocks,
        rows: &'a [u64],
    ) -> Flow<'a, Result<(), IoError>> {
        let (set, number) = self.stripe(offset);
        Box::pin(set.mend_parity(number, stripe, rows))
    }
}
