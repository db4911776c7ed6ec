//! A seeded single-threaded executor: what runs next, and in which order drives answer, is drawn.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use varve_io::{Receiver, Sender, Task, World, slot};
use varve_units::Nanos;

/// Turns after which a run is taken to be stuck.
const TURNS_MAX: u64 = 20_000_000;

pub struct Executor {
    state: Cell<u64>,
    tasks: RefCell<Vec<Option<Task>>>,
    ready: Arc<Mutex<Vec<usize>>>,
    events: RefCell<Vec<Box<dyn FnOnce()>>>,
    /// When who sleeps wakes: long after all that can happen before.
    alarms: RefCell<Vec<(Nanos, Sender<()>)>>,
    turns: Cell<u64>,
}

struct Ready {
    task: usize,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap();
        if !ready.contains(&self.task) {
            ready.push(self.task);
        }
    }
}

impl Executor {
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            state: Cell::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x1234_5678_9abc_def1),
            tasks: RefCell::default(),
            ready: Arc::default(),
            events: RefCell::default(),
            alarms: RefCell::default(),
            turns: Cell::new(0),
        })
    }

    /// A number below `limit`.
    pub fn below(&self, limit: usize) -> usize {
        let mut state = self.state.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.set(state);
        ((state >> 20) % limit as u64) as usize
    }

    /// Runs `event` at some later turn.
    pub fn later(&self, event: impl FnOnce() + 'static) {
        self.events.borrow_mut().push(Box::new(event));
    }

    /// One turn: polls a task or runs an event; false if there is nothing to do.
    pub fn turn(&self) -> bool {
        self.turns.set(self.turns.get() + 1);
        assert!(self.turns.get() < TURNS_MAX, "no end in sight");
        let ready = self.ready.lock().unwrap().len();
        let events = self.events.borrow().len();
        if ready + events == 0 {
            return false;
        }
        let at = self.below(ready + events);
        if at < ready {
            let task = self.ready.lock().unwrap().swap_remove(at);
            self.poll(task);
        } else {
            let event = self.events.borrow_mut().swap_remove(at - ready);
            event();
        }
        true
    }

    /// Polls tasks only, until none is ready: what happens while no drive answers.
    pub fn settle(&self) {
        loop {
            let Some(task) = self.ready.lock().unwrap().pop() else {
                return;
            };
            self.poll(task);
        }
    }

    fn poll(&self, id: usize) {
        let Some(mut task) = self.tasks.borrow_mut()[id].take() else {
            return;
        };
        let ready = Arc::clone(&self.ready);
        let waker = Waker::from(Arc::new(Ready { task: id, ready }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
            self.tasks.borrow_mut()[id] = Some(task);
        }
    }

    /// Wakes who sleeps the shortest; false if nobody does.
    fn pass_time(&self) -> bool {
        let mut alarms = self.alarms.borrow_mut();
        let first = (0..alarms.len()).min_by_key(|at| alarms[*at].0);
        let Some(first) = first else { return false };
        let (_, sender) = alarms.swap_remove(first);
        drop(alarms);
        sender.send(());
        true
    }

    /// Runs everything until `future` ends. Time passes where nothing else happens.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let mut receiver = (self as &dyn World).run(future);
        loop {
            if let Some(value) = receiver.try_take() {
                return value;
            }
            let goes_on = self.turn() || self.pass_time();
            assert!(goes_on, "deadlock: nothing is ready");
        }
    }

    /// Runs everything until nothing is left to do but to wait.
    pub fn drain(&self) {
        while self.turn() {}
    }
}

impl World for Executor {
    fn now(&self) -> Nanos {
        Nanos(self.turns.get())
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        let (sender, receiver) = slot();
        self.alarms.borrow_mut().push((self.now() + span, sender));
        receiver
    }

    fn spawn(&self, task: Task) {
        let mut tasks = self.tasks.borrow_mut();
        self.ready.lock().unwrap().push(tasks.len());
        tasks.push(Some(task));
    }

    fn yield_now(&self) -> Receiver<()> {
        let (sender, receiver) = slot();
        self.later(move || sender.send(()));
        receiver
    }
}
