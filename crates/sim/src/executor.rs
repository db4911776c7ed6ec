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
//! **Invariants**: after [`Executor::crash`] no flow of it runs again and no timer fires; whatever
//! outlives it (drives, checkers) was never owned by it.
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
}

/// What a timer does when it is due.
type Alarm = Box<dyn FnOnce()>;

#[derive(Clone, Copy)]
enum Order {
    First,
    Last,
    Random,
}

/// The inside of an executor: what flows and drives see of it.
pub struct Reactor {
    journal: Rc<Journal>,
    now: Cell<u64>,
    is_dead: Cell<bool>,
    tasks: RefCell<Vec<Slot>>,
    vacant: RefCell<Vec<usize>>,
    queue: Queue,
    yields: RefCell<BTreeMap<u64, Sender<()>>>,
    timers: RefCell<BTreeMap<(u64, u64), Alarm>>,
    sequence: Cell<u64>,
    trigger: Cell<Trigger>,
    is_crashing: Cell<bool>,
    polls: Cell<u64>,
    progress_at: Cell<u64>,
    patience: Cell<u64>,
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
    /// The run's journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
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
        let key = (at.0.max(self.now.get()), self.next());
        self.timers.borrow_mut().insert(key, Box::new(alarm));
    }

    /// Sets when the power fails.
    pub fn arm(&self, trigger: Trigger) {
        self.trigger.set(trigger);
    }

    /// Says that a host operation ended: the run is alive.
    pub fn progress(&self) {
        self.polls.set(0);
        self.progress_at.set(self.now.get());
    }

    /// Sets how long no progress is tolerated.
    pub fn set_patience(&self, span: Nanos) {
        self.patience.set(span.0);
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
        self.at(Nanos(self.now.get() + delay), move || {
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
            reactor.journal.add(Action::Job, &pair);
            job(&reactor.world(to).expect("reactors do not go"));
        });
    }

    fn next(&self) -> u64 {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        sequence
    }

    fn is_crash_due(&self) -> bool {
        self.is_crashing.get()
            || match self.trigger.get() {
                Trigger::Action(action) => self.journal.actions() >= action,
                Trigger::Time(time) => self.now.get() >= time.0,
                Trigger::Never | Trigger::Writes(_) | Trigger::Flushes(_) => false,
            }
    }
}

impl World for Reactor {
    fn now(&self) -> Nanos {
        Nanos(self.now.get())
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        let (sender, receiver) = slot();
        self.at(Nanos(self.now.get()) + span, move || sender.send(()));
        receiver
    }

    fn spawn(&self, task: Task) {
        if self.is_dead.get() {
            return;
        }
        let mut tasks = self.tasks.borrow_mut();
        let index = self.vacant.borrow_mut().pop().unwrap_or(tasks.len());
        let waker = Arc::new(TaskWaker {
            index,
            is_queued: AtomicBool::new(true),
            queue: Arc::clone(&self.queue),
        });
        let entry = Slot {
            task: Some(task),
            waker,
        };
        if index == tasks.len() {
            tasks.push(entry);
        } else {
            tasks[index] = entry;
        }
        lock(&self.queue).push_back(Ready::Task(index));
    }

    fn yield_now(&self) -> Receiver<()> {
        let (sender, receiver) = slot();
        let key = self.next();
        self.yields.borrow_mut().insert(key, sender);
        lock(&self.queue).push_back(Ready::Yield(key));
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
        let mail = Mail {
            rng: rng.split("mail"),
            delay_max: 0,
            spell: 0,
            pairs: BTreeMap::new(),
        };
        let reactor = Rc::new_cyclic(|itself| Reactor {
            journal,
            now: Cell::new(start.0),
            is_dead: Cell::new(false),
            tasks: RefCell::default(),
            vacant: RefCell::default(),
            queue: Arc::default(),
            yields: RefCell::default(),
            timers: RefCell::default(),
            sequence: Cell::new(0),
            trigger: Cell::new(Trigger::Never),
            is_crashing: Cell::new(false),
            polls: Cell::new(0),
            progress_at: Cell::new(start.0),
            patience: Cell::new(Nanos::from_secs(60).0),
            itself: Weak::clone(itself),
            desk: Desk::default(),
            seats: RefCell::default(),
            mail: RefCell::new(mail),
        });
        Self {
            reactor,
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
            if self.reactor.journal.has_failed() {
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

    /// The power fails: every flow and timer is dropped. Returns the time.
    pub fn crash(self) -> Nanos {
        let reactor = &self.reactor;
        reactor.journal.add(Action::Crash, &[reactor.now.get()]);
        reactor.is_dead.set(true);
        // Destructors of flows may call back into the reactor, so nothing is borrowed meanwhile.
        let timers = reactor.timers.take();
        let tasks = reactor.tasks.take();
        let yields = reactor.yields.take();
        drop((timers, tasks, yields));
        reactor.clear_desks();
        lock(&reactor.queue).clear();
        Nanos(reactor.now.get())
    }

    fn step(&mut self) -> Result<(), Stop> {
        let reactor = Rc::clone(&self.reactor);
        self.fire_due(&reactor);
        if let Some(ready) = self.choose() {
            reactor.now.set(reactor.now.get() + POLL_NS);
            reactor.polls.set(reactor.polls.get() + 1);
            match ready {
                Ready::Task(index) => poll(&reactor, index),
                Ready::Yield(key) => {
                    let sender = reactor.yields.borrow_mut().remove(&key);
                    sender.expect("a yield is queued once").send(());
                }
            }
        } else {
            self.jump(&reactor)?;
        }
        let idle = reactor.now.get() - reactor.progress_at.get();
        if reactor.polls.get() > POLLS_MAX {
            return Err(Stop::Runaway);
        }
        if idle > reactor.patience.get() {
            return Err(Stop::Stuck);
        }
        Ok(())
    }

    /// Fires one timer that is due, if there is one.
    fn fire_due(&mut self, reactor: &Reactor) {
        let alarm = {
            let mut timers = reactor.timers.borrow_mut();
            match timers.first_key_value() {
                Some((&(at, _), _)) if at <= reactor.now.get() => timers.pop_first(),
                _ => None,
            }
        };
        if let Some((_, alarm)) = alarm {
            alarm();
        }
    }

    /// Jumps to the next timer.
    fn jump(&mut self, reactor: &Reactor) -> Result<(), Stop> {
        let next = reactor
            .timers
            .borrow()
            .first_key_value()
            .map(|(key, _)| key.0);
        let at = next.ok_or(Stop::Deadlock)?;
        if at > reactor.now.get() {
            reactor.now.set(at);
            reactor.journal.add(Action::Jump, &[at]);
        }
        self.fire_due(reactor);
        Ok(())
    }

    fn choose(&mut self) -> Option<Ready> {
        let mut queue = lock(&self.reactor.queue);
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

/// Polls one flow and forgets it if it ended.
fn poll(reactor: &Reactor, index: usize) {
    let (task, waker) = {
        let mut tasks = reactor.tasks.borrow_mut();
        let entry = &mut tasks[index];
        entry.waker.is_queued.store(false, Ordering::Relaxed);
        (entry.task.take(), Arc::clone(&entry.waker))
    };
    let Some(mut task) = task else {
        return;
    };
    reactor.journal.add(Action::Poll, &[index as u64]);
    let waker = Waker::from(waker);
    let outcome = task.as_mut().poll(&mut Context::from_waker(&waker));
    match outcome {
        Poll::Pending => {
            let mut tasks = reactor.tasks.borrow_mut();
            tasks[index].task = Some(task);
        }
        Poll::Ready(()) => {
            drop(task);
            reactor.vacant.borrow_mut().push(index);
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
