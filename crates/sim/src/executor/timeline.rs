//! Queue, timers and time of one or several machines.

use super::Stop;
use super::journal::Journal;
use super::reactor::Reactor;
use crate::fingerprint::Action;
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use varve_io::{Receiver, Sender, Task, slot};
use varve_units::Nanos;

/// Polls without any progress of a host operation before a run counts as run away. Arbitrary.
const POLLS_MAX: u64 = 4_000_000;

/// Indices of ready entries, in the order they became ready.
type Queue = Arc<Mutex<VecDeque<Ready>>>;

/// Something that is ready.
#[derive(Clone, Copy)]
pub(super) enum Ready {
    /// The flow of this number.
    Task(usize),
    /// The yield of this number.
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
pub(super) type Owner = u64;

/// What a timer does when it is due.
pub(super) type Alarm = Box<dyn FnOnce()>;

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
        Reactor::new(Rc::clone(self), owner, rng)
    }

    /// The time.
    pub(super) fn now(&self) -> Nanos {
        Nanos(self.now.get())
    }

    /// What runs on it leaves its traces there.
    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// One more flow, ready at once.
    pub(super) fn spawn(&self, owner: Owner, task: Task) {
        let mut tasks = self.tasks.borrow_mut();
        let vacant = self.vacant.borrow_mut().pop();
        let index = vacant.unwrap_or(tasks.len());
        let waker = Arc::new(TaskWaker {
            index,
            is_queued: AtomicBool::new(true),
            queue: Arc::clone(&self.queue),
        });
        let entry = Slot {
            task: Some(task),
            waker,
            owner,
        };
        if index == tasks.len() {
            tasks.push(entry);
        } else {
            tasks[index] = entry;
        }
        lock(&self.queue).push_back(Ready::Task(index));
    }

    /// Ends when its turn among what is ready comes.
    pub(super) fn add_yield(&self, owner: Owner) -> Receiver<()> {
        let (sender, receiver) = slot();
        let key = self.next();
        self.yields.borrow_mut().insert(key, (owner, sender));
        lock(&self.queue).push_back(Ready::Yield(key));
        receiver
    }

    /// Calls `alarm` at `at`, or as soon as nothing is ready if that is past.
    pub(super) fn add_timer(&self, owner: Owner, at: Nanos, alarm: Alarm) {
        let key = (at.0.max(self.now.get()), self.next());
        self.timers.borrow_mut().insert(key, (owner, alarm));
    }

    /// Says that the run is alive.
    pub(super) fn progress(&self) {
        self.polls.set(0);
        self.progress_at.set(self.now.get());
    }

    /// Sets how long no progress is tolerated.
    pub(super) fn set_patience(&self, span: Nanos) {
        self.patience.set(span.0);
    }

    /// Takes what `choose` wants of what is ready, which is not nothing.
    pub(super) fn take_ready(
        &self,
        choose: impl FnOnce(&mut VecDeque<Ready>) -> Option<Ready>,
    ) -> Option<Ready> {
        let mut queue = lock(&self.queue);
        if queue.is_empty() {
            return None;
        }
        choose(&mut queue)
    }

    /// Runs what is ready, which takes `span`.
    pub(super) fn run_for(&self, ready: Ready, span: Nanos) {
        self.now.set(self.now.get() + span.0);
        self.polls.set(self.polls.get() + 1);
        self.run(ready);
    }

    /// Whether the run is alive.
    pub(super) fn liveness(&self) -> Result<(), Stop> {
        let idle = self.now.get() - self.progress_at.get();
        if self.polls.get() > POLLS_MAX {
            return Err(Stop::Runaway);
        }
        if idle > self.patience.get() {
            return Err(Stop::Stuck);
        }
        Ok(())
    }

    fn next(&self) -> u64 {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        sequence
    }

    /// Drops all flows and timers of a machine.
    pub(super) fn drop_all_of(&self, owner: Owner) {
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
    pub(super) fn fire_due(&self) {
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
    pub(super) fn jump(&self) -> Result<(), Stop> {
        let next = self.timers.borrow().first_key_value().map(|(key, _)| key.0);
        let at = next.ok_or(Stop::Deadlock)?;
        if at > self.now.get() {
            self.now.set(at);
            self.journal.add(Action::Jump, &[at]);
        }
        self.fire_due();
        Ok(())
    }

    pub(super) fn run(&self, ready: Ready) {
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
