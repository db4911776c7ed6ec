//! All drives of a dense tier with redundancy away at once, as behind a shelf or a network that fails, and back one after
//! the other.
//!
//! The pool can do without one of them, so it may give up whichever it misses first, and no other. Which one that is it
//! says itself; from then on the atlas counts that drive as lost, and it is replaced as others are.
//!
//! **Invariant**: nothing else goes wrong from the beginning until all are back and the pool has said whom it gave up.
//!
//! **Not here**: a tier of one drive (`shortage`), a second drive of a tier that lacks one (`second_loss`).

use crate::drive::SimDrive;
use crate::life::Life;
use crate::rng::Rng;
use crate::shortage::{Planned, Refusal};
use crate::subject::{Config, Dense, Subject};
use std::ops::Range;
use varve_io::{IoError, World};
use varve_units::Nanos;

/// Of so many lives with such a tier one. Arbitrary.
const LIVES_ONE_IN: u64 = 2;
/// How long after the last drive is back a command that it refused may be answered, and the pool give it up.
const AFTER: Nanos = Nanos::from_secs(1);
/// What drives say that do not answer. Arbitrary.
const ABSENCES: [IoError; 2] = [IoError::Gone, IoError::Timeout];

/// When in a life they go. Drawn apart: other seeds are what they are without this.
pub fn plan(seed: &Rng, life: u64, config: &Config) -> Option<Planned> {
    let mut rng = seed.split_at("tier outage", life);
    let is_redundant = matches!(config.dense, Dense::Mirror | Dense::Parity(_));
    if !is_redundant || !rng.chance(1, LIVES_ONE_IN) {
        return None;
    }
    let mut planned = Planned::draw_absence(&mut rng)?;
    if rng.chance(2, 3) {
        planned.refusal = Refusal {
            error: rng.pick(&ABSENCES),
            reads: true,
            is_whole: true,
        };
    }
    Some(planned)
}

impl Life {
    fn dense(&self) -> Range<usize> {
        self.first_dense..self.drives.len()
    }

    /// Lets all drives of the dense tier go away, if all are whole and the pool could do without any one. False if not.
    pub(crate) fn lose_tier(&self, planned: Planned, subject: &dyn Subject) -> bool {
        if !self.is_tier_whole(subject) {
            return false;
        }
        self.drives[self.dense()].iter().for_each(SimDrive::heal);
        let may = |index| self.atlas.borrow().may_lose(index);
        if !self.dense().all(may) {
            return false;
        }
        self.atlas.borrow_mut().shut();
        let now = self.reactor.now();
        let until = self.shared.shortage.begin(now, &planned);
        let rng = &mut *self.rng.borrow_mut();
        for drive in &self.drives[self.dense()] {
            // The first is back after half of it at least.
            let early = planned.span.map_or(0, |span| rng.below(span.0 / 2 + 1));
            drive.run_out(planned.refusal, Nanos(until.0 - early));
        }
        self.tier_known_at
            .set(Nanos(until.0.saturating_add(AFTER.0)));
        self.shared.count("tier_outages");
        true
    }

    fn is_tier_whole(&self, subject: &dyn Subject) -> bool {
        let is_replaced = !self.replacing.borrow().is_empty() || !self.replaced.borrow().is_empty();
        let is_whole = |index| !self.atlas.borrow().is_lost(index) && subject.is_whole(index);
        !is_replaced && !self.is_tier_out() && self.dense().all(is_whole)
    }

    /// True from when the drives go until it is known whom the pool gave up.
    pub(crate) fn is_tier_out(&self) -> bool {
        self.atlas.borrow().is_shut()
    }

    /// Asks the pool whom it gave up, once all drives have been back for long enough; at once behind a start, which does
    /// not know of what was refused before.
    ///
    /// # Errors
    /// It gave up more than one, in words.
    pub(crate) fn note_tier_back(&self, subject: &dyn Subject) -> Result<(), String> {
        if !self.is_tier_out() || self.reactor.now() < self.tier_known_at.get() {
            return Ok(());
        }
        let given_up: Vec<usize> = self
            .dense()
            .filter(|index| !subject.is_whole(*index))
            .collect();
        self.atlas.borrow_mut().open();
        match *given_up.as_slice() {
            [] => Ok(()),
            [index] => {
                self.drives[index].miss_writes();
                self.shared.count("tier_outages_cost_a_drive");
                Ok(())
            }
            _ => Err(format!("drives {given_up:?} were given up together")),
        }
    }
}
