//! The seeded executor: one thread, virtual time, an order drawn from the seed.
//!
//! Ready flows are polled one at a time. Which one comes next is drawn: bursts of first-in
//! first-out, last-in first-out and random order follow one another, because each finds other
//! bugs. A poll costs a little virtual time; when nothing is ready, time jumps to the next timer.
//!
//! Several reactors live in the one thread: they share flows' queue, timers and time, and differ in
//! what they keep. Jobs between them arrive after a delay that is drawn for each, in order for each
//! pair.
//!
//! Several machines can share one [`Timeline`]: queue, timers and time are the timeline's, and each flow
//! and timer belongs to one machine. A [`Reactor`] is a machine; an [`Executor`] runs all of them until
//! its own ends or crashes. So hosts outlive a crash of the pool that they talk to over a network.
//!
//! **Invariants**: after [`Executor::crash`] no flow of its machine runs again and no timer of it
//! fires; whatever outlives it (drives, checkers, other machines) was never owned by it.
//!
//! **Not here**: drives, hosts; they use [`Reactor`].

use crate::fingerprint::{Action, Fingerprint};
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use varve_io::{Desk, Job, ReactorId, Receiver, Sender, Task, World, slot};
use varve_units::Nanos;

/// Virtual time one poll takes. Arbitrary; above zero, so that flows that only yield see time pass.
const POLL_NS: u64 = 100;
/// Longest way of a job to another reactor. Arbitrary: beyond a write of a drive.
const JOB_NS_MAX: u64 = 100_000;
/// Polls without any progress of a host operation before a run counts as run away. Arbitrary.
const POLLS_MAX: u64 = 4_000_000;

/// When the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Never.
    Never,
    /// At this action of the run (counted over all restarts).
    Action(u64),
    /// At this time.
    Time(Nanos),
    /// After this many more completed drive writes.
    Writes(u64),
    /// After this many more completed drive flushes.
    Flushes(u64),
}

/// Why an executor stopped before its root flow ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The trigger fired.
    Crash,
    /// Nothing is ready, no timer runs, and the root flow waits.
    Deadlock,
    /// Too many polls without progress.
    Runaway,
    /// Too much virtual time without progress.
    Stuck,
    /// A checker stopped the run.
    Failed,
}

/// What a run accumulates over all its restarts.
#[derive(Default)]
pub struct Journal {
    fingerprint: Cell<Fingerprint>,
    actions: Cell<u64>,
    failure: RefCell<Option<String>>,
}

impl Journal {
    /// Mixes an action into the action hash.
    pub fn add(&self, action: Action, particulars: &[u64]) {
        let mut fingerprint = self.fingerprint.get();
        fingerprint.add(action, particulars);
        self.fingerprint.set(fingerprint);
        self.actions.set(self.actions.get() + 1);
    }

    /// The action hash.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.fingerprint.get().value()
    }

    /// Actions so far.
    #[must_use]
    pub fn actions(&self) -> u64 {
        self.actions.get()
    }

    /// Records the first failure; later ones are consequences.
    pub fn fail(&self, what: String) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = Some(what);
        }
    }

    /// The first failure, if there is one.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// True once a failure is recorded.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }
}

/// Indices of ready entries, in the order they became ready.
type Queue = Arc<Mutex<VecDeque<Ready>>>;

#[derive(Clone, Copy)]
enum Ready {
    Task(usize),
    Yield(u64),
}

struct TaskWaker {
    index: usize,
    is_queued: AtomicBool,
    queue: Queue,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            lock(&self.queue).push_back(Ready::Task(self.index));
        }
    }
}

fn lock(queue: &Queue) -> std::sync::MutexGuard<'_, VecDeque<Ready>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Slot {
    task: Option<Task>,
    waker: Arc<TaskWaker>,
    owner: Owner,
}

/// Whose a flow or a timer is.
type Owner = u64;

/// What a timer does when it is due.
type Alarm = Box<dyn FnOnce()>;

#[derive(Clone, Copy)]
enum Order {
    First,
    Last,
    Random,
}

/// Queue, timers and time of one or several machines.
pub struct Timeline {
    journal: Rc<Journal>,
    now: Cell<u64>,
    tasks: RefCell<Vec<Slot>>,
    vacant: RefCell<Vec<usize>>,
    queue: Queue,
    yields: RefCell<BTreeMap<u64, (Owner, Sender<()>)>>,
    timers: RefCell<BTreeMap<(u64, u64), (Owner, Alarm)>>,
    sequence: Cell<u64>,
    polls: Cell<u64>,
    progress_at: Cell<u64>,
    patience: Cell<u64>,
    machines: Cell<Owner>,
}

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

impl Timeline {
    /// One that begins at `start`, without a machine.
    #[must_use]
    pub fn new(journal: Rc<Journal>, start: Nanos) -> Rc<Self> {
        Rc::new(Self {
            journal,
            now: Cell::new(start.0),
            tasks: RefCell::default(),
            vacant: RefCell::default(),
            queue: Arc::default(),
            yields: RefCell::default(),
            timers: RefCell::default(),
            sequence: Cell::new(0),
            polls: Cell::new(0),
            progress_at: Cell::new(start.0),
            patience: Cell::new(Nanos::from_secs(60).0),
            machines: Cell::new(0),
        })
    }

    /// One more machine; what its reactors send one another is delayed as `rng` says.
    #[must_use]
    pub fn machine(self: &Rc<Self>, rng: Rng) -> Rc<Reactor> {
        let owner = self.machines.get();
        self.machines.set(owner + 1);
        let mail = Mail {
            rng,
            delay_max: 0,
            spell: 0,
            pairs: BTreeMap::new(),
        };
        Rc::new_cyclic(|itself| Reactor {
            timeline: Rc::clone(self),
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

    fn next(&self) -> u64 {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        sequence
    }

    /// Drops all flows and timers of a machine.
    fn drop_all_of(&self, owner: Owner) {
        // Destructors of flows may call back into the reactor, so nothing is borrowed meanwhile.
        let timers = extract(&mut self.timers.borrow_mut(), owner);
        let tasks: Vec<Slot> = {
            let mut tasks = self.tasks.borrow_mut();
            let mut vacant = self.vacant.borrow_mut();
            let mut dropped = Vec::new();
            for (index, slot) in tasks.iter_mut().enumerate() {
                if slot.owner == owner && slot.task.is_some() {
                    let (task, waker) = (slot.task.take(), Arc::clone(&slot.waker));
                    dropped.push(Slot { task, waker, owner });
                    vacant.push(index);
                }
            }
            dropped
        };
        let yields = extract(&mut self.yields.borrow_mut(), owner);
        let dead: std::collections::BTreeSet<u64> = yields.keys().copied().collect();
        drop((timers, tasks, yields));
        let tasks = self.tasks.borrow();
        lock(&self.queue).retain(|ready| match ready {
            Ready::Task(index) => tasks[*index].task.is_some(),
            Ready::Yield(key) => !dead.contains(key),
        });
    }

    /// Fires one timer that is due, if there is one.
    fn fire_due(&self) {
        let alarm = {
            let mut timers = self.timers.borrow_mut();
            match timers.first_key_value() {
                Some((&(at, _), _)) if at <= self.now.get() => timers.pop_first(),
                _ => None,
            }
        };
        if let Some((_, (_, alarm))) = alarm {
            alarm();
        }
    }

    /// Jumps to the next timer.
    fn jump(&self) -> Result<(), Stop> {
        let next = self.timers.borrow().first_key_value().map(|(key, _)| key.0);
        let at = next.ok_or(Stop::Deadlock)?;
        if at > self.now.get() {
            self.now.set(at);
            self.journal.add(Action::Jump, &[at]);
        }
        self.fire_due();
        Ok(())
    }

    fn run(&self, ready: Ready) {
        match ready {
            Ready::Task(index) => self.poll(index),
            Ready::Yield(key) => {
                let sender = self.yields.borrow_mut().remove(&key);
                sender.expect("a yield is queued once").1.send(());
            }
        }
    }

    /// Polls one flow and forgets it if it ended.
    fn poll(&self, index: usize) {
        let (task, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            let entry = &mut tasks[index];
            entry.waker.is_queued.store(false, Ordering::Relaxed);
            (entry.task.take(), Arc::clone(&entry.waker))
        };
        let Some(mut task) = task else {
            return;
        };
        self.journal.add(Action::Poll, &[index as u64]);
        let waker = Waker::from(waker);
        let outcome = task.as_mut().poll(&mut Context::from_waker(&waker));
        match outcome {
            Poll::Pending => {
                let mut tasks = self.tasks.borrow_mut();
                tasks[index].task = Some(task);
            }
            Poll::Ready(()) => {
                drop(task);
                self.vacant.borrow_mut().push(index);
            }
        }
    }
}

/// Takes out what belongs to a machine.
fn extract<K: Ord + Copy, V>(
    from: &mut BTreeMap<K, (Owner, V)>,
    owner: Owner,
) -> BTreeMap<K, (Owner, V)> {
    from.extract_if(.., |_, entry| entry.0 == owner).collect()
}

impl Reactor {
    /// The run's journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.timeline.journal
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
        let timeline = &self.timeline;
        let key = (at.0.max(timeline.now.get()), timeline.next());
        let entry: (Owner, Alarm) = (self.owner, Box::new(alarm));
        timeline.timers.borrow_mut().insert(key, entry);
    }

    /// Sets when the power fails.
    pub fn arm(&self, trigger: Trigger) {
        self.trigger.set(trigger);
    }

    /// Says that a host operation ended: the run is alive.
    pub fn progress(&self) {
        self.timeline.polls.set(0);
        self.timeline.progress_at.set(self.timeline.now.get());
    }

    /// Sets how long no progress is tolerated.
    pub fn set_patience(&self, span: Nanos) {
        self.timeline.patience.set(span.0);
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
    fn clear_desks(&self) {
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
        self.at(Nanos(self.timeline.now.get() + delay), move || {
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

    fn is_crash_due(&self) -> bool {
        self.is_crashing.get()
            || match self.trigger.get() {
                Trigger::Action(action) => self.journal().actions() >= action,
                Trigger::Time(time) => self.timeline.now.get() >= time.0,
                Trigger::Never | Trigger::Writes(_) | Trigger::Flushes(_) => false,
            }
    }
}

impl World for Reactor {
    fn now(&self) -> Nanos {
        Nanos(self.timeline.now.get())
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
        let timeline = &self.timeline;
        let mut tasks = timeline.tasks.borrow_mut();
        let vacant = timeline.vacant.borrow_mut().pop();
        let index = vacant.unwrap_or(tasks.len());
        let waker = Arc::new(TaskWaker {
            index,
            is_queued: AtomicBool::new(true),
            queue: Arc::clone(&timeline.queue),
        });
        let entry = Slot {
            task: Some(task),
            waker,
            owner: self.owner,
        };
        if index == tasks.len() {
            tasks.push(entry);
        } else {
            tasks[index] = entry;
        }
        lock(&timeline.queue).push_back(Ready::Task(index));
    }

    fn yield_now(&self) -> Receiver<()> {
        let (sender, receiver) = slot();
        let timeline = &self.timeline;
        let key = timeline.next();
        let entry = (self.owner, sender);
        timeline.yields.borrow_mut().insert(key, entry);
        lock(&timeline.queue).push_back(Ready::Yield(key));
        receiver
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

/// The executor of one life of the pool, from power-on to crash or clean end.
pub struct Executor {
    reactor: Rc<Reactor>,
    rng: Rng,
    order: Order,
    burst: u64,
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.reactor.clear_desks();
    }
}

impl Executor {
    /// An executor with nothing to do, whose clock starts at `start`.
    #[must_use]
    pub fn new(journal: Rc<Journal>, rng: Rng, start: Nanos) -> Self {
        Self::on(&Timeline::new(journal, start), rng)
    }

    /// An executor of one more machine on a timeline.
    #[must_use]
    pub fn on(timeline: &Rc<Timeline>, rng: Rng) -> Self {
        Self {
            reactor: timeline.machine(rng.split("mail")),
            rng,
            order: Order::First,
            burst: 0,
        }
    }

    /// What flows and drives see.
    #[must_use]
    pub fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.reactor)
    }

    /// Runs everything until `root` ends.
    ///
    /// # Errors
    /// Why it stopped before.
    pub fn run<T: 'static>(&mut self, root: impl Future<Output = T> + 'static) -> Result<T, Stop> {
        let world: &dyn World = &*self.reactor;
        let mut end = world.run(root);
        self.reactor.progress();
        loop {
            if self.reactor.journal().has_failed() {
                return Err(Stop::Failed);
            }
            if let Some(value) = end.try_take() {
                return Ok(value);
            }
            if self.reactor.is_crash_due() {
                return Err(Stop::Crash);
            }
            self.step()?;
        }
    }

    /// The power of the machine fails: every flow and timer of it is dropped. Returns the time.
    pub fn crash(self) -> Nanos {
        let reactor = &self.reactor;
        let now = reactor.now();
        reactor.journal().add(Action::Crash, &[now.0]);
        reactor.fail();
        now
    }

    /// Runs what is ready on the other machines, until nothing is or `polls` have been made; no time
    /// passes. What reached them before this one failed has an effect before anything that follows.
    pub fn settle_others(&mut self, polls: u64) {
        self.reactor.fail();
        for _ in 0..polls {
            let Some(ready) = self.choose() else { return };
            self.reactor.timeline.run(ready);
        }
    }

    fn step(&mut self) -> Result<(), Stop> {
        let timeline = Rc::clone(&self.reactor.timeline);
        timeline.fire_due();
        if let Some(ready) = self.choose() {
            timeline.now.set(timeline.now.get() + POLL_NS);
            timeline.polls.set(timeline.polls.get() + 1);
            timeline.run(ready);
        } else {
            timeline.jump()?;
        }
        let idle = timeline.now.get() - timeline.progress_at.get();
        if timeline.polls.get() > POLLS_MAX {
            return Err(Stop::Runaway);
        }
        if idle > timeline.patience.get() {
            return Err(Stop::Stuck);
        }
        Ok(())
    }

    fn choose(&mut self) -> Option<Ready> {
        let mut queue = lock(&self.reactor.timeline.queue);
        if queue.is_empty() {
            return None;
        }
        if self.burst == 0 {
            self.burst = self.rng.magnitude(1, 256);
            self.order = self.rng.pick(&[Order::First, Order::Last, Order::Random]);
        }
        self.burst -= 1;
        match self.order {
            Order::First => queue.pop_front(),
            Order::Last => queue.pop_back(),
            Order::Random => {
                let index = self.rng.index(queue.len());
                queue.swap_remove_back(index)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::Event;

    fn executor(seed: u64) -> (Executor, Rc<Journal>) {
        let journal = Rc::new(Journal::default());
        let executor = Executor::new(Rc::clone(&journal), Rng::new(seed), Nanos(0));
        (executor, journal)
    }

    /// Ten flows that yield and sleep leave their numbers in the order they ended.
    fn race(seed: u64) -> (Vec<u64>, u64) {
        let (mut executor, journal) = executor(seed);
        let reactor = executor.reactor();
        let ended = Rc::new(RefCell::new(Vec::new()));
        let left = Rc::new((Event::new(), Cell::new(10)));
        for number in 0..10 {
            let (reactor, ended) = (Rc::clone(&reactor), Rc::clone(&ended));
            let left = Rc::clone(&left);
            executor.reactor().spawn(Box::pin(async move {
                reactor.yield_now().await;
                reactor.sleep(Nanos(50)).await;
                reactor.yield_now().await;
                ended.borrow_mut().push(number);
                left.1.set(left.1.get() - 1);
                left.0.notify();
            }));
        }
        let waiting = Rc::clone(&left);
        let end = executor.run(async move {
            while waiting.1.get() > 0 {
                waiting.0.listen().await;
            }
        });
        assert_eq!(end, Ok(()));
        (ended.take(), journal.hash())
    }

    /// The same seed gives the same order and hash, another seed another order.
    #[test]
    fn order_is_a_function_of_the_seed() {
        assert_eq!(race(3), race(3));
        let orders: std::collections::BTreeSet<_> = (0..20).map(|seed| race(seed).0).collect();
        assert!(orders.len() > 5, "{} orders", orders.len());
    }

    /// Time jumps over idle spans and never runs backwards.
    #[test]
    fn time_jumps() {
        let (mut executor, _) = executor(1);
        let reactor = executor.reactor();
        let end = executor.run(async move {
            reactor.sleep(Nanos::from_secs(5)).await;
            reactor.now()
        });
        assert!(end.expect("ends") >= Nanos::from_secs(5));
    }

    /// A flow that waits for nothing is a deadlock; one that only yields is seen to run away; one
    /// that only sleeps is stuck.
    #[test]
    fn lack_of_progress_is_found() {
        let (mut first, _) = executor(1);
        let end = first.run(async {
            let (_sender, receiver) = slot::<()>();
            receiver.await;
        });
        assert_eq!(end, Err(Stop::Deadlock));
        let (mut second, _) = executor(1);
        let reactor = second.reactor();
        let end = second.run(async move {
            loop {
                reactor.yield_now().await;
            }
        });
        assert_eq!(end, Err::<(), _>(Stop::Runaway));
        let (mut third, _) = executor(1);
        let reactor = third.reactor();
        let end = third.run(async move {
            loop {
                reactor.sleep(Nanos::from_millis(1)).await;
            }
        });
        assert_eq!(end, Err::<(), _>(Stop::Stuck));
    }

    /// Ten jobs each from three reactors to one, which writes down who sent what and when.
    fn deliver(seed: u64) -> Vec<(ReactorId, u64, Nanos)> {
        const KEY: varve_io::Key = [7; 16];
        type Log = (RefCell<Vec<(ReactorId, u64, Nanos)>>, Event, Rc<dyn World>);
        let (mut executor, _) = executor(seed);
        let reactor = executor.reactor();
        reactor.seat(3);
        let world: Rc<dyn World> = Rc::clone(&reactor) as Rc<dyn World>;
        let log: Rc<Log> = Rc::new((RefCell::default(), Event::new(), Rc::clone(&world)));
        let keeper = world.beside(ReactorId(2)).unwrap();
        keeper
            .desk()
            .unwrap()
            .keep(KEY, Rc::clone(&log) as Rc<dyn std::any::Any>);
        for number in 0..10 {
            for from in (0..3).map(ReactorId) {
                let job = move |log: Rc<Log>| {
                    log.0.borrow_mut().push((from, number, log.2.now()));
                    log.1.notify();
                };
                world.beside(from).unwrap().tell(ReactorId(2), KEY, job);
            }
        }
        let waiting = Rc::clone(&log);
        let end = executor.run(async move {
            while waiting.0.borrow().len() < 30 {
                waiting.1.listen().await;
            }
        });
        assert_eq!(end, Ok(()));
        log.0.take()
    }

    /// Jobs of a pair keep their order; how pairs mix and how long jobs take is a function of the
    /// seed.
    #[test]
    fn jobs_arrive_in_order_and_late() {
        let mut mixes = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let log = deliver(seed);
            assert_eq!(log, deliver(seed));
            for from in (0..3).map(ReactorId) {
                let mine = log.iter().filter(|entry| entry.0 == from);
                assert!(mine.map(|entry| entry.1).eq(0..10));
            }
            mixes.insert(log);
        }
        assert!(mixes.len() > 15, "{} mixes", mixes.len());
    }

    /// A crash at an action drops all flows, and their destructors may still call the reactor.
    #[test]
    fn crash_drops_flows() {
        struct Guard(Rc<Reactor>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.spawn(Box::pin(async {}));
                drop(self.0.sleep(Nanos(1)));
            }
        }
        let (mut executor, journal) = executor(1);
        let reactor = executor.reactor();
        reactor.arm(Trigger::Action(5));
        let guard = Guard(Rc::clone(&reactor));
        let end = executor.run(async move {
            loop {
                guard.0.sleep(Nanos(10)).await;
            }
        });
        assert_eq!(end, Err::<(), _>(Stop::Crash));
        assert!(journal.actions() >= 5 && journal.actions() < 8);
        executor.crash();
        assert!(reactor.is_dead());
        assert_eq!(Rc::strong_count(&reactor), 1);
    }
}
