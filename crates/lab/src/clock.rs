//! Time of the modelled pool: it passes with the bytes that drives move, not with the machine's
//! clock, so that what the engine decides by age depends on the seed alone.

use std::cell::Cell;
use std::rc::Rc;
use varve_io::{Blocks, Receiver, Supply, Task, World};
use varve_units::Nanos;

/// The time.
#[derive(Default)]
pub(crate) struct Clock(Cell<u64>);

impl Clock {
    /// Now.
    pub(crate) const fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }

    /// Lets `span` pass.
    pub(crate) fn pass(&self, span: Nanos) {
        self.0.set(self.0.get() + span.0);
    }
}

/// An executor whose flows see the modelled time.
pub(crate) struct Paced {
    pub(crate) inner: Rc<dyn World>,
    pub(crate) clock: Rc<Clock>,
}

impl World for Paced {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        self.clock.pass(span);
        self.inner.yield_now()
    }

    fn spawn(&self, task: Task) {
        self.inner.spawn(task);
    }

    fn yield_now(&self) -> Receiver<()> {
        self.inner.yield_now()
    }

    fn blocks(&self, count: usize, elided: bool) -> Blocks {
        self.inner.blocks(count, elided)
    }

    fn supply(&self) -> Supply {
        self.inner.supply()
    }
}
