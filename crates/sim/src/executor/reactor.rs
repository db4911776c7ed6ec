//! A machine: what its flows and drives see of the executor.

use super::Trigger;
use super::journal::Journal;
use super::timeline::{Owner, Timeline};
use crate::fingerprint::Action;
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use varve_io::{Desk, Job, ReactorId, Receiver, Task, World, slot};
use varve_units::Nanos;

/// Longest way of a job to another reactor. Arbitrary: beyond a write of a drive.
const JOB_NS_MAX: u64 = 100_000;

/// A machine: what its flows and drives see of the executor.
pub struct Reactor {
    timeline: Rc<Timeline>,
    owner: Owner,
    is_dead: Cell<bool>,
    trigger: Cell<Trigger>,
    is_crashing: Cell<bool>,
    itself: Weak<Reactor>,
    desk: Desk,
    /// The other reactors, from 1 on.
    seats: RefCell<Vec<Rc<Seat>>>,
    mail: RefCell<Mail>,
}

/// Jobs on their way.
struct Mail {
    rng: Rng,
    /// Jobs between two reactors are slow or fast in spells.
    delay_max: u64,
    spell: u64,
    pairs: BTreeMap<(ReactorId, ReactorId), VecDeque<Job>>,
}

impl Mail {
    /// How long the next job takes.
    fn delay(&mut self) -> u64 {
        if self.spell == 0 {
            self.spell = self.rng.magnitude(1, 512);
            self.delay_max = self.rng.magnitude(1, JOB_NS_MAX);
        }
        self.spell -= 1;
        self.rng.below(self.delay_max)
    }
}

impl Reactor {
    pub(super) fn new(timeline: Rc<Timeline>, owner: Owner, rng: Rng) -> Rc<Self> {
        let mail = Mail {
            rng,
            delay_max: 0,
            spell: 0,
            pairs: BTreeMap::new(),
        };
        Rc::new_cyclic(|itself| Self {
            timeline,
            owner,
            is_dead: Cell::new(false),
            trigger: Cell::new(Trigger::Never),
            is_crashing: Cell::new(false),
            itself: Weak::clone(itself),
            desk: Desk::default(),
            seats: RefCell::default(),
            mail: RefCell::new(mail),
        })
    }

    /// The run's journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        self.timeline.journal()
    }

    /// Where it runs, and others beside it.
    #[must_use]
    pub fn timeline(&self) -> &Rc<Timeline> {
        &self.timeline
    }

    /// The machine fails: every flow and timer of it is dropped.
    pub fn fail(&self) {
        self.is_dead.set(true);
        self.timeline.drop_all_of(self.owner);
        self.clear_desks();
    }

    /// True after a crash: nothing that is asked of it happens any more.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    /// Calls `alarm` at `at`, or as soon as nothing is ready if that is past.
    pub fn at(&self, at: Nanos, alarm: impl FnOnce() + 'static) {
        if self.is_dead.get() {
            return;
        }
        self.timeline.add_timer(self.owner, at, Box::new(alarm));
    }

    /// Sets when the power fails.
    pub fn arm(&self, trigger: Trigger) {
        self.trigger.set(trigger);
    }

    /// When the power fails; what it failed by once it has.
    #[must_use]
    pub fn armed(&self) -> Trigger {
        self.trigger.get()
    }

    /// Says that a host operation ended: the run is alive.
    pub fn progress(&self) {
        self.timeline.progress();
    }

    /// Sets how long no progress is tolerated.
    pub fn set_patience(&self, span: Nanos) {
        self.timeline.set_patience(span);
    }

    /// Says that a drive completed a write.
    pub fn wrote(&self) {
        if let Trigger::Writes(left) = self.trigger.get() {
            self.count_down(left, Trigger::Writes);
        }
    }

    /// Says that a drive completed a flush.
    pub fn flushed(&self) {
        if let Trigger::Flushes(left) = self.trigger.get() {
            self.count_down(left, Trigger::Flushes);
        }
    }

    fn count_down(&self, left: u64, trigger: fn(u64) -> Trigger) {
        if left <= 1 {
            self.is_crashing.set(true);
        } else {
            self.trigger.set(trigger(left - 1));
        }
    }

    /// Makes the reactors `count`: this one and others beside it.
    ///
    /// # Panics
    /// If there are more already.
    pub fn seat(&self, count: u16) {
        let mut seats = self.seats.borrow_mut();
        assert!(usize::from(count) > seats.len(), "reactors do not go");
        for id in seats.len() as u16 + 1..count {
            seats.push(Rc::new(Seat {
                id: ReactorId(id),
                reactor: Weak::clone(&self.itself),
                desk: Desk::default(),
            }));
        }
    }

    /// The world of one reactor.
    fn world(&self, id: ReactorId) -> Option<Rc<dyn World>> {
        match id.0.checked_sub(1) {
            None => Some(self.itself.upgrade()? as Rc<dyn World>),
            Some(index) => {
                let seats = self.seats.borrow();
                Some(Rc::clone(seats.get(usize::from(index))?) as Rc<dyn World>)
            }
        }
    }

    /// What reactors keep holds their worlds, which hold it.
    pub(super) fn clear_desks(&self) {
        let pairs = std::mem::take(&mut self.mail.borrow_mut().pairs);
        drop(pairs);
        self.desk.clear();
        let seats = self.seats.borrow().clone();
        seats.iter().for_each(|seat| seat.desk.clear());
    }

    fn carry(&self, from: ReactorId, to: ReactorId, job: Job) {
        if self.is_dead.get() {
            return;
        }
        assert!(
            to.0 < self.reactors(),
            "a job goes to a reactor that exists"
        );
        let delay = {
            let mut mail = self.mail.borrow_mut();
            mail.pairs.entry((from, to)).or_default().push_back(job);
            mail.delay()
        };
        let itself = Weak::clone(&self.itself);
        // Whichever job of the pair arrives when this one is due: the oldest.
        self.at(self.timeline.now() + Nanos(delay), move || {
            let Some(reactor) = itself.upgrade() else {
                return;
            };
            let job = reactor
                .mail
                .borrow_mut()
                .pairs
                .get_mut(&(from, to))
                .and_then(VecDeque::pop_front);
            let job = job.expect("as many jobs as arrivals");
            let pair = [u64::from(from.0), u64::from(to.0)];
            reactor.journal().add(Action::Job, &pair);
            job(&reactor.world(to).expect("reactors do not go"));
        });
    }

    pub(super) fn is_crash_due(&self) -> bool {
        self.is_crashing.get()
            || match self.trigger.get() {
                Trigger::Action(action) => self.journal().actions() >= action,
                Trigger::Time(time) => self.timeline.now() >= time,
                Trigger::Never | Trigger::Writes(_) | Trigger::Flushes(_) => false,
            }
    }
}

impl World for Reactor {
    fn now(&self) -> Nanos {
        self.timeline.now()
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        let (sender, receiver) = slot();
        self.at(self.now() + span, move || sender.send(()));
        receiver
    }

    fn spawn(&self, task: Task) {
        if self.is_dead.get() {
            return;
        }
        self.timeline.spawn(self.owner, task);
    }

    fn yield_now(&self) -> Receiver<()> {
        self.timeline.add_yield(self.owner)
    }

    fn reactors(&self) -> u16 {
        self.seats.borrow().len() as u16 + 1
    }

    fn post(&self, to: ReactorId, job: Job) {
        self.carry(ReactorId(0), to, job);
    }

    fn desk(&self) -> Option<&Desk> {
        Some(&self.desk)
    }

    fn beside(&self, reactor: ReactorId) -> Option<Rc<dyn World>> {
        self.world(reactor)
    }
}

/// One of the other reactors of the thread.
struct Seat {
    id: ReactorId,
    reactor: Weak<Reactor>,
    desk: Desk,
}

impl Seat {
    fn reactor(&self) -> Rc<Reactor> {
        self.reactor
            .upgrade()
            .expect("a reactor outlives its flows")
    }
}

impl World for Seat {
    fn now(&self) -> Nanos {
        self.reactor().now()
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        self.reactor().sleep(span)
    }

    fn spawn(&self, task: Task) {
        self.reactor().spawn(task);
    }

    fn yield_now(&self) -> Receiver<()> {
        self.reactor().yield_now()
    }

    fn reactor(&self) -> ReactorId {
        self.id
    }

    fn reactors(&self) -> u16 {
        self.reactor().reactors()
    }

    fn post(&self, to: ReactorId, job: Job) {
        // A destructor may still post when the executor is gone.
        if let Some(reactor) = self.reactor.upgrade() {
            reactor.carry(self.id, to, job);
        }
    }

    fn desk(&self) -> Option<&Desk> {
        Some(&self.desk)
    }

    fn beside(&self, reactor: ReactorId) -> Option<Rc<dyn World>> {
        self.reactor().world(reactor)
    }
}
