//! All drives of a tier away at once, as behind a shelf or a network that fails.
//!
//! 1. Those of a dense tier with redundancy, which come back one after the other. The pool can do without one of them, so it
//!    may give up whichever it misses first, and no other.
//! 2. Those of the log. The pool may stop, hosts hear no more of it, and the power fails.
//!
//! Whom the pool gave up it says itself; from then on the atlas counts that drive as lost, and it is replaced as others are.
//!
//! **Invariants**: nothing else goes wrong from the beginning until all are back and the pool has said whom it gave up. What
//! is drawn comes from streams of its own: other seeds are what they are without this.
//!
//! **Not here**: a dense tier of one drive (`shortage`), a second drive of one that lacks one (`second_loss`).

use crate::drive::SimDrive;
use crate::executor::Trigger;
use crate::life::Life;
use crate::rng::Rng;
use crate::shortage::{Planned, Refusal};
use crate::subject::{Config, Dense, Subject};
use std::ops::Range;
use varve_io::{IoError, World};
use varve_units::Nanos;

/// Of so many lives with such a dense tier one. Arbitrary.
const DENSE_ONE_IN: u64 = 2;
/// Of so many lives one ends with its log. Arbitrary.
const LOG_ONE_IN: u64 = 3;
/// How long after the last drive is back a command that it refused may be answered, and the pool give it up.
const AFTER: Nanos = Nanos::from_secs(1);
/// How long the log is away before the power fails. Arbitrary.
const LOG_SPAN_NS: (u64, u64) = (1 << 16, 2 << 30);
/// What drives say that do not answer. Arbitrary.
const ABSENCES: [IoError; 2] = [IoError::Gone, IoError::Timeout];

/// When in a life the drives of the dense tier go.
pub fn plan(seed: &Rng, life: u64, config: &Config) -> Option<Planned> {
    let mut rng = seed.split_at("tier outage", life);
    let is_redundant = matches!(config.dense, Dense::Mirror | Dense::Parity(_));
    draw(&mut rng, is_redundant, DENSE_ONE_IN)
}

/// When in a life those of the log go.
pub fn plan_log(seed: &Rng, life: u64) -> Option<Planned> {
    let mut rng = seed.split_at("log outage", life);
    draw(&mut rng, true, LOG_ONE_IN)
}

fn draw(rng: &mut Rng, may: bool, lives_one_in: u64) -> Option<Planned> {
    if !may || !rng.chance(1, lives_one_in) {
        return None;
    }
    let mut planned = Planned::draw_absence(rng)?;
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
        if !self.shut(self.dense(), subject) {
            return false;
        }
        let until = self.shared.shortage.begin(self.reactor.now(), &planned);
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

    /// Lets all drives of the log go away until the power fails, which is soon. False if they cannot go now.
    pub(crate) fn lose_log(&self, planned: Planned, subject: &dyn Subject) -> bool {
        if !self.shut(0..self.first_dense, subject) {
            return false;
        }
        self.tier_known_at.set(Nanos(u64::MAX));
        self.is_closing.set(true);
        self.shared.is_log_away.set(true);
        for drive in &self.drives[..self.first_dense] {
            drive.run_out(planned.refusal, Nanos(u64::MAX));
        }
        let span = self
            .rng
            .borrow_mut()
            .magnitude(LOG_SPAN_NS.0, LOG_SPAN_NS.1);
        let fails_at = self.reactor.now() + Nanos(span);
        self.reactor.arm(Trigger::Time(fails_at));
        self.shared.count("log_outages");
        true
    }

    /// Lets nothing else go wrong, if no drive is lost and the pool could do without any one of a tier, or has only one
    /// there. A loss that no quorum of labels has yet could find none now.
    fn shut(&self, tier: Range<usize>, subject: &dyn Subject) -> bool {
        let is_replaced = !self.replacing.borrow().is_empty() || !self.replaced.borrow().is_empty();
        let is_whole = |index| !self.atlas.borrow().is_lost(index) && subject.is_whole(index);
        if is_replaced || self.is_tier_out() || !(0..self.drives.len()).all(is_whole) {
            return false;
        }
        self.drives[tier.clone()].iter().for_each(SimDrive::heal);
        let may = |index| self.atlas.borrow().may_lose(index);
        let may = tier.len() == 1 || tier.clone().all(may);
        if may {
            self.atlas.borrow_mut().shut(tier);
        }
        may
    }

    /// True from when drives go until it is known whom the pool gave up.
    pub(crate) fn is_tier_out(&self) -> bool {
        self.atlas.borrow().shut_for().is_some()
    }

    /// Asks the pool whom it gave up, once all drives have been back for long enough; at once behind a start, which does
    /// not know of what was refused before.
    ///
    /// # Errors
    /// It gave up more than one, in words.
    pub(crate) fn note_tier_back(&self, subject: &dyn Subject) -> Result<(), String> {
        if self.reactor.now() < self.tier_known_at.get() {
            return Ok(());
        }
        let Some(tier) = self.atlas.borrow_mut().open() else {
            return Ok(());
        };
        let given_up: Vec<usize> = tier.filter(|index| !subject.is_whole(*index)).collect();
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
