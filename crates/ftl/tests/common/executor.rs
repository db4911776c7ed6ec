//! A seeded single-threaded executor: what runs next, and in which order drives answer, is drawn.

use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::vec::Vec;
use varve_io::{Desk, Job, ReactorId, Receiver, Task, World, slot};
use varve_units::Nanos;

/// Turns after which a run is taken to be stuck.
const TURNS_MAX: u64 = 3_000_000;

/// Reactors, as many as a pool of these tests has lanes.
const REACTORS: u16 = 2;

pub struct Executor {
    state: Cell<u64>,
    tasks: RefCell<Vec<Option<Task>>>,
    ready: Arc<Mutex<Vec<usize>>>,
    events: RefCell<Vec<Box<dyn FnOnce()>>>,
    turns: Cell<u64>,
    /// Time that turns do not count: what sleepers slept.
    slept: Cell<u64>,
    itself: Weak<Executor>,
    desk: Desk,
    seats: RefCell<Vec<Rc<Seat>>>,
    mail: RefCell<BTreeMap<(ReactorId, ReactorId), VecDeque<Job>>>,
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
        Rc::new_cyclic(|itself| Self {
            state: Cell::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x1234_5678_9abc_def1),
            tasks: RefCell::default(),
            ready: Arc::default(),
            events: RefCell::default(),
            turns: Cell::new(0),
            slept: Cell::new(0),
            itself: Weak::clone(itself),
            desk: Desk::default(),
            seats: RefCell::new(
                (1..REACTORS)
                    .map(|id| {
                        Rc::new(Seat {
                            id: ReactorId(id),
                            executor: Weak::clone(itself),
                            desk: Desk::default(),
                        })
                    })
                    .collect(),
            ),
            mail: RefCell::default(),
        })
    }

    fn carry(&self, from: ReactorId, to: ReactorId, job: Job) {
        let mut mail = self.mail.borrow_mut();
        mail.entry((from, to)).or_default().push_back(job);
        let itself = Weak::clone(&self.itself);
        self.later(move || {
            let executor = itself.upgrade().expect("it runs this");
            let job = executor
                .mail
                .borrow_mut()
                .get_mut(&(from, to))
                .and_then(VecDeque::pop_front)
                .expect("as many jobs as arrivals");
            job(&executor.beside(to).expect("it was posted to"));
        });
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

    /// At most so many turns until something holds; whether it does. Fewer if there is nothing to do.
    pub fn turns(&self, most: usize, mut until: impl FnMut() -> bool) -> bool {
        for _ in 0..most {
            if until() {
                return true;
            }
            if !self.turn() {
                break;
            }
        }
        until()
    }

    /// Runs everything until `future` ends.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let mut receiver = (self as &dyn World).run(future);
        loop {
            if let Some(value) = receiver.try_take() {
                return value;
            }
            assert!(self.turn(), "deadlock: nothing is ready");
        }
    }

    /// Drops every task: the power fails.
    pub fn crash(&self) {
        self.tasks
            .borrow_mut()
            .iter_mut()
            .for_each(|task| drop(task.take()));
        self.ready.lock().unwrap().clear();
        self.events.borrow_mut().clear();
        self.mail.borrow_mut().clear();
        self.desk.clear();
        self.seats
            .borrow()
            .iter()
            .for_each(|seat| seat.desk.clear());
    }

    /// Runs everything until nothing is left to do.
    pub fn drain(&self) {
        while self.turn() {}
    }
}

/// One of several reactors that the executor runs. Jobs between two of them take place in order.
struct Seat {
    id: ReactorId,
    executor: Weak<Executor>,
    desk: Desk,
}

impl Seat {
    fn executor(&self) -> Rc<Executor> {
        self.executor.upgrade().expect("it outlives its flows")
    }
}

impl World for Seat {
    fn now(&self) -> Nanos {
        self.executor().now()
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        self.executor().sleep(span)
    }

    fn spawn(&self, task: Task) {
        self.executor().spawn(task);
    }

    fn yield_now(&self) -> Receiver<()> {
        self.executor().yield_now()
    }

    fn reactor(&self) -> ReactorId {
        self.id
    }

    fn reactors(&self) -> u16 {
        REACTORS
    }

    fn post(&self, to: ReactorId, job: Job) {
        if let Some(executor) = self.executor.upgrade() {
            executor.carry(self.id, to, job);
        }
    }

    fn desk(&self) -> Option<&Desk> {
        Some(&self.desk)
    }

    fn beside(&self, reactor: ReactorId) -> Option<Rc<dyn World>> {
        self.executor().beside(reactor)
    }
}

impl World for Executor {
    fn reactors(&self) -> u16 {
        REACTORS
    }

    fn post(&self, to: ReactorId, job: Job) {
        self.carry(ReactorId(0), to, job);
    }

    fn desk(&self) -> Option<&Desk> {
        Some(&self.desk)
    }

    fn beside(&self, reactor: ReactorId) -> Option<Rc<dyn World>> {
        match reactor.0.checked_sub(1) {
            None => Some(self.itself.upgrade()?),
            Some(index) => {
                let seats = self.seats.borrow();
                Some(Rc::clone(seats.get(usize::from(index))?) as Rc<dyn World>)
            }
        }
    }

    fn now(&self) -> Nanos {
        Nanos(self.turns.get() + self.slept.get())
    }

    /// Ends at a drawn turn; it is then as late as it has to be, so waiting costs no turns.
    fn sleep(&self, span: Nanos) -> Receiver<()> {
        let until = self.now().0 + span.0;
        let (sender, receiver) = slot();
        let itself = Weak::clone(&self.itself);
        self.later(move || {
            let executor = itself.upgrade().expect("it runs this");
            let ahead = until.saturating_sub(executor.now().0);
            executor.slept.set(executor.slept.get() + ahead);
            sender.send(());
        });
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
