//! A membership that records, commits at a later turn, and can be told to fail or to wait.

use super::Executor;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_array::Membership;
use varve_io::{Completion, Done, IoError, Outcome, Sender};

pub struct Recorder {
    executor: Rc<Executor>,
    /// Every call.
    pub asked: RefCell<Vec<(usize, IoError)>>,
    /// Members whose loss was committed, in order.
    pub committed: Rc<RefCell<Vec<usize>>>,
    /// So many commits fail first.
    pub failures: Cell<u32>,
    /// Commits wait for [`Recorder::release`].
    pub is_waiting: Cell<bool>,
    waiting: RefCell<Vec<(usize, Sender<Outcome>)>>,
}

impl Recorder {
    pub fn new(executor: &Rc<Executor>) -> Rc<Self> {
        Rc::new(Self {
            executor: Rc::clone(executor),
            asked: RefCell::default(),
            committed: Rc::default(),
            failures: Cell::new(0),
            is_waiting: Cell::new(false),
            waiting: RefCell::default(),
        })
    }

    /// Lets the waiting commits end.
    pub fn release(&self) {
        for (member, sender) in self.waiting.take() {
            self.committed.borrow_mut().push(member);
            sender.send(Ok(Done::Nothing));
        }
    }
}

impl Membership for Recorder {
    fn lost(&self, member: usize, why: IoError) -> Completion {
        self.asked.borrow_mut().push((member, why));
        let (sender, completion) = Completion::waiting();
        if self.is_waiting.get() {
            self.waiting.borrow_mut().push((member, sender));
            return completion;
        }
        let fails = self.failures.get() > 0;
        self.failures.set(self.failures.get().saturating_sub(1));
        let committed = Rc::clone(&self.committed);
        self.executor.later(move || {
            if fails {
                sender.send(Err(IoError::Timeout));
            } else {
                committed.borrow_mut().push(member);
                sender.send(Ok(Done::Nothing));
            }
        });
        completion
    }
}
