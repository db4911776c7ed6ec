//! A single-threaded executor that draws the order of tasks and completions from a seed and can
//! stop after any step.

use super::Rng;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use varve_io::{Receiver, Task, World, slot};
use varve_units::Nanos;

type Ready = Arc<Mutex<VecDeque<usize>>>;

struct Waking(usize, Ready);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push_back(self.0);
    }
}

pub struct TestWorld {
    itself: Weak<TestWorld>,
    tasks: RefCell<Vec<Option<Task>>>,
    ready: Ready,
    completions: RefCell<Vec<Box<dyn FnOnce()>>>,
    rng: RefCell<Rng>,
    steps: Cell<u64>,
}

impl TestWorld {
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            tasks: RefCell::default(),
            ready: Ready::default(),
            completions: RefCell::default(),
            rng: RefCell::new(Rng::new(seed)),
            steps: Cell::new(0),
        })
    }

    /// Calls `completion` at some later step.
    pub fn complete_later(&self, completion: impl FnOnce() + 'static) {
        self.completions.borrow_mut().push(Box::new(completion));
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.rng.borrow_mut().one_in(n)
    }

    /// Runs `flow` to its end, or gives up (`None`) after `limit` steps: a crash.
    pub fn run<T: 'static>(
        self: &Rc<Self>,
        limit: u64,
        flow: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let result = Rc::new(RefCell::new(None));
        let into = Rc::clone(&result);
        self.spawn(Box::pin(async move {
            let value = flow.await;
            *into.borrow_mut() = Some(value);
        }));
        let end = self.steps.get().saturating_add(limit);
        loop {
            if let Some(value) = result.borrow_mut().take() {
                return Some(value);
            }
            if self.steps.get() >= end {
                return None;
            }
            assert!(
                self.step(),
                "nothing left to do, but the flow has not ended"
            );
        }
    }

    /// Does everything that is left to do.
    pub fn drain(&self) {
        while self.step() {}
    }

    /// Drops all flows and commands.
    pub fn clear(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        let completions = std::mem::take(&mut *self.completions.borrow_mut());
        drop((tasks, completions));
        self.ready.lock().unwrap().clear();
    }

    fn step(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        let completions = self.completions.borrow().len();
        let ready = self.ready.lock().unwrap().len();
        if ready > 0 && (completions == 0 || self.one_in(2)) {
            let index = self.ready.lock().unwrap().pop_front().unwrap();
            self.poll(index);
            return true;
        }
        if completions > 0 {
            let index = self.rng.borrow_mut().index(completions);
            let completion = self.completions.borrow_mut().swap_remove(index);
            completion();
            return true;
        }
        false
    }

    fn poll(&self, index: usize) {
        let Some(mut task) = self.tasks.borrow_mut()[index].take() else {
            return;
        };
        let waker = Waker::from(Arc::new(Waking(index, Arc::clone(&self.ready))));
        if task
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            self.tasks.borrow_mut()[index] = Some(task);
        }
    }
}

impl World for TestWorld {
    fn now(&self) -> Nanos {
        Nanos(self.steps.get())
    }

    /// Ends at some step; a long one later than what a drive that works is asked for.
    fn sleep(&self, span: Nanos) -> Receiver<()> {
        let (sender, receiver) = slot();
        let delay = match span {
            Nanos(10_000_000_000..) => 200,
            _ => 0,
        };
        let itself = self.itself.upgrade().expect("it runs this");
        super::ram::later(&itself, delay, Box::new(|| sender.send(())));
        receiver
    }

    fn spawn(&self, task: Task) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push(Some(task));
        self.ready.lock().unwrap().push_back(tasks.len() - 1);
    }

    fn yield_now(&self) -> Receiver<()> {
        self.sleep(Nanos(0))
    }
}
