//! Another drive of a dense tier that lacks one already.
//!
//! 1. While hosts work a second one is away for a while, or until the life ends. The pool cannot do without it, so it
//!    gives nobody up, and hosts are refused what only that drive could give or take.
//! 2. At rest a second one is away, and all that the pool said would bear that is read.
//!
//! **Invariants**: the first drive is lost to the pool too, nothing is wrong on the others, and the first one is not being
//! replaced meanwhile: the pool would give the second one up, which the atlas does not know.

use crate::life::Life;
use crate::rng::Rng;
use crate::shortage::{Planned, Refusal};
use crate::subject::{Config, Dense, Subject};
use varve_io::{IoError, World};
use varve_units::Nanos;

/// What at rest a drive says that is away.
const ABSENCE: Refusal = Refusal {
    error: IoError::Gone,
    reads: true,
    is_whole: false,
};

/// When in a life a second drive is away. Drawn apart: what becomes of it is up to whether one is lost by then.
pub fn plan(seed: &Rng, life: u64, config: &Config) -> Option<Planned> {
    let mut rng = seed.split_at("second loss", life);
    let is_with_parity = matches!(config.dense, Dense::Parity(_));
    is_with_parity
        .then(|| Planned::draw_absence(&mut rng))
        .flatten()
}

impl Life {
    /// The only drive of the dense tier that is lost, to the pool too, if all others are whole and it is not being replaced.
    fn lost_alone(&self, subject: &dyn Subject) -> Option<usize> {
        let atlas = self.atlas.borrow();
        let mut dense = self.first_dense..self.drives.len();
        let lost = dense.clone().find(|index| atlas.is_lost(*index))?;
        let is_whole = |index: usize| {
            index == lost
                || (!atlas.is_lost(index)
                    && atlas.claimed_sectors(index) == 0
                    && subject.is_whole(index))
        };
        let is_replaced =
            self.replacing.borrow().contains(&lost) || self.replaced.borrow().contains(&lost);
        let is_alone = dense.all(is_whole) && !subject.is_whole(lost) && !is_replaced;
        is_alone.then_some(lost)
    }

    /// Lets a second drive be away, if one is lost. False if none is.
    pub(crate) fn lose_second(&self, planned: Planned, subject: &dyn Subject) -> bool {
        let Some(lost) = self.lost_alone(subject) else {
            return false;
        };
        let second = self.second_of(lost, planned.after);
        let until = self.shared.shortage.begin(self.reactor.now(), &planned);
        self.drives[second].run_out(planned.refusal, until);
        self.second_until.set(until);
        self.shared.count("second_losses");
        true
    }

    /// True while a second drive is away: the first one is not to be replaced.
    pub(crate) fn lacks_two(&self) -> bool {
        self.reactor.now() < self.second_until.get()
    }

    /// A drive of the dense tier beside this one.
    fn second_of(&self, lost: usize, draw: u64) -> usize {
        let count = self.drives.len() - self.first_dense;
        let step = 1 + draw as usize % (count - 1);
        self.first_dense + (lost - self.first_dense + step) % count
    }

    /// At rest: what is to bear another loss does.
    pub(crate) async fn read_without_two(&self, subject: &dyn Subject) -> Result<(), String> {
        if !self.has_dense_parity {
            return Ok(());
        }
        let Some(lost) = self.lost_alone(subject) else {
            return Ok(());
        };
        let second = self.second_of(lost, self.shared.operations.get());
        self.drives[second].run_out(ABSENCE, Nanos(u64::MAX));
        let read = subject.read_narrow().await;
        self.drives[second].disarm();
        let blocks = read.map_err(|what| format!("without drives {lost} and {second}: {what}"))?;
        if blocks > 0 {
            self.shared.count("read_without_two");
        }
        Ok(())
    }
}
