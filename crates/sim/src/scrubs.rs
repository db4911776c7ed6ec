//! Scrubs of a pool: while hosts work and faults strike, and at rest, when everything must be right behind one.
//!
//! **Checked**: no scrub finds a block that no drive gives, since faults stay within redundancy. Behind one at rest no
//! copy and no parity is wrong, as far as every drive is in use and none has a place that stays bad whatever is written
//! there.

use crate::drive::{SimDrive, WriteFault};
use crate::life::Life;
use crate::rng::Rng;
use crate::subject::{Scrubbed, Subject, SubjectError};
use std::cell::RefCell;
use std::rc::Rc;
use varve_io::World;
use varve_units::Nanos;

/// Of so many seeds one has scrubs. Arbitrary: such a seed is a fifth more work.
const SEEDS_ONE_IN: u64 = 4;
/// Host operations of a life before a scrub begins at most. Arbitrary.
const OPERATIONS_BEFORE: u64 = 300;
/// Bytes a second that it may read, if that is limited: what is read in a life, and much less.
const LIMITS: (u64, u64) = (1 << 22, 1 << 32);
/// Between two scrubs of a life.
const REST: Nanos = Nanos::from_millis(1);

/// Places that are spoilt before each scrub at most, so that it has something to mend. Arbitrary.
const SPOILT_MAX: u64 = 24;

/// Scrubs of one life.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Host operations of the life before the first.
    pub after: u64,
    /// Bytes a second that they may read.
    pub limit: Option<u64>,
    /// What is spoilt before each of them.
    spoil: RefCell<Rng>,
}

impl Planned {
    /// Whether a life has scrubs. Drawn apart: other seeds are what they are without this.
    #[must_use]
    pub fn draw(seed: &Rng, life: u64) -> Option<Self> {
        if !seed.split("scrubs").chance(1, SEEDS_ONE_IN) {
            return None;
        }
        let mut rng = seed.split_at("scrub", life);
        let (after, is_slow) = (rng.below(OPERATIONS_BEFORE), rng.chance(1, 2));
        Some(Self {
            after,
            limit: is_slow.then(|| rng.magnitude(LIMITS.0, LIMITS.1)),
            spoil: RefCell::new(rng.split("spoil")),
        })
    }
}

impl Life {
    /// Scrubs one after the other, from the planned number of operations on, until hosts have done their part.
    pub(crate) async fn scrub(self: Rc<Self>, subject: Rc<dyn Subject>) {
        let planned = self.scrubs.as_ref().expect("a life with scrubs");
        let begun = self.shared.operations.get();
        while !self.is_calm.get() && self.shared.operations.get() < begun + planned.after {
            self.reactor.sleep(REST).await;
        }
        while !self.is_calm.get() {
            self.spoil(planned);
            let calm = Rc::clone(&self.is_calm);
            let go_on = Rc::new(move || !calm.get());
            match subject.scrub(planned.limit, go_on).await {
                Ok(Some(scrubbed)) => self.judge(&scrubbed),
                Ok(None) | Err(SubjectError::Stopped) => return,
                Err(error) => self.reactor.journal().fail(format!("scrub: {error}")),
            }
            self.reactor.sleep(REST).await;
        }
    }

    /// Lets some of what drives hold be wrong, as far as the atlas permits, or what they are sent next get lost.
    fn spoil(&self, planned: &Planned) {
        if !self.has_faults {
            return;
        }
        let rng = &mut *planned.spoil.borrow_mut();
        for _ in 0..rng.within(1, SPOILT_MAX) {
            let drive = &self.drives[rng.index(self.drives.len())];
            match rng.below(8) {
                0 => drop(drive.break_media(rng)),
                1 if !self.is_calm.get() => drive.arm(WriteFault::Lost),
                _ => drop(drive.rot(rng)),
            }
        }
    }

    fn judge(&self, scrubbed: &Scrubbed) {
        if scrubbed.lost > 0 {
            let what = format!("scrub: {} blocks or stripes are lost", scrubbed.lost);
            self.reactor.journal().fail(what);
        }
    }

    /// Nothing else goes on: behind a scrub everything is right.
    pub(crate) async fn scrub_at_rest(&self, subject: &dyn Subject) -> Result<(), String> {
        let Some(planned) = &self.scrubs else {
            return Ok(());
        };
        self.spoil(planned);
        let reactor = Rc::clone(&self.reactor);
        let go_on = Rc::new(move || {
            reactor.progress();
            true
        });
        let scrubbed = subject.scrub(None, go_on).await;
        let scrubbed = scrubbed.map_err(|error| format!("scrub at rest: {error}"))?;
        let Some(scrubbed) = scrubbed else {
            return Ok(());
        };
        self.judge(&scrubbed);
        let is_whole = (0..self.drives.len()).all(|index| subject.is_whole(index));
        let can_be_mended = !self.drives.iter().any(SimDrive::has_bad_places);
        if !is_whole || !can_be_mended || !scrubbed.is_clean {
            return Ok(());
        }
        self.shared.count("scrubs_checked");
        self.reactor.progress();
        match subject.wrong_copies().await {
            Ok(0) => Ok(()),
            Ok(wrong) => Err(format!("scrub: {wrong} copies are wrong behind it")),
            Err(what) => Err(format!("audit behind a scrub: {what}")),
        }
    }
}
