//! A start while more drives of a tier are away than the pool can do without: it is refused, and the next start with all of
//! them finds the pool as it was.
//!
//! **Invariant**: what is drawn comes from a stream of its own. A seed that does not draw it is what it is without this.

use super::Machine;
use crate::drive::SimDrive;
use crate::executor::{Stop, Trigger};
use crate::rng::Rng;
use crate::shortage::Refusal;
use crate::subject::{Dense, SubjectError};
use std::rc::Rc;
use varve_io::{IoError, World};
use varve_units::Nanos;

/// Of so many starts one is tried without some drives first. Arbitrary.
const STARTS_ONE_IN: u64 = 8;
/// Actions within which the power may fail. Arbitrary: few such starts take more.
const CUT_ACTIONS: u64 = 64;
/// What a drive says that does not answer.
const ABSENCE: Refusal = Refusal {
    error: IoError::Gone,
    reads: true,
    is_whole: true,
};

impl Machine<'_> {
    /// Tries a start without some drives, if the life draws that.
    pub(super) fn start_without(&mut self) -> Result<(), String> {
        let mut rng = self.rng.split_at("start without", self.lives);
        let may = self.is_created && self.options.is_whole() && self.factory.knows_drives();
        if !may || !rng.chance(1, STARTS_ONE_IN) {
            return Ok(());
        }
        let away = self.too_many(&mut rng);
        for index in &away {
            self.drives[*index].run_out(ABSENCE, Nanos(u64::MAX));
        }
        let outcome = self.try_start(&mut rng);
        self.drives.iter().for_each(SimDrive::power_fail);
        outcome.map_err(|what| format!("a start without drives {away:?}: {what}"))
    }

    /// Drives of one tier, one more at least than that can do without.
    fn too_many(&self, rng: &mut Rng) -> Vec<usize> {
        let config = &self.plan.config;
        let fast: Vec<usize> = (0..config.fast).collect();
        let mut dense: Vec<usize> = (config.fast..config.drives()).collect();
        if dense.is_empty() || rng.chance(1, 3) {
            return fast;
        }
        if matches!(config.dense, Dense::Parity(_)) {
            let left = rng.below(dense.len() as u64 - 1);
            for _ in 0..left {
                dense.swap_remove(rng.index(dense.len()));
            }
        }
        dense
    }

    fn try_start(&mut self, rng: &mut Rng) -> Result<(), String> {
        let order = rng.split("order");
        let mut executor = self.executor(order);
        let reactor = executor.reactor();
        if rng.chance(1, 4) {
            let action = rng.magnitude(1, CUT_ACTIONS);
            reactor.arm(Trigger::Action(self.journal.actions() + action));
        }
        let config = self.plan.config.clone();
        reactor.seat(config.lanes);
        let drives = self.drives.iter().map(|drive| drive.attach(&reactor));
        let world: Rc<dyn World> = Rc::clone(&reactor) as Rc<dyn World>;
        let opening = self.factory.open(world, drives.collect(), config);
        let end = executor.run(async move { opening.await.map(drop) });
        self.now = executor.crash();
        match end {
            Ok(Err(SubjectError::Unusable)) | Err(Stop::Crash) => {
                self.shared.count("starts_refused");
                Ok(())
            }
            Ok(Ok(())) => Err("it serves".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(stop) => {
                let failure = self.journal.failure();
                Err(failure.unwrap_or_else(|| format!("no progress ({stop:?})")))
            }
        }
    }
}
