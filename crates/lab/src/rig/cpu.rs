//! Processors that a system's software runs on: each charge goes to the one that is free first, whoever does the work.

use crate::comparators::PROCESSOR;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::World;
use varve_units::Nanos;

/// What goes on behind gives way to what waits after so long.
const SLICE: Nanos = PROCESSOR.slice;

/// Processors, each of which does one thing at a time. Before the start of time nothing costs anything.
pub(crate) struct Cpu {
    world: Rc<dyn World>,
    free_at: RefCell<Vec<Nanos>>,
    has_started: Cell<bool>,
}

impl Cpu {
    /// So many processors.
    pub(crate) fn new(world: Rc<dyn World>, cores: usize) -> Rc<Self> {
        Rc::new(Self {
            world,
            free_at: RefCell::new(vec![Nanos(0); cores]),
            has_started: Cell::new(false),
        })
    }

    /// From here on work takes time.
    pub(crate) fn start(&self) {
        self.has_started.set(true);
    }

    /// How many there are.
    pub(crate) fn cores(&self) -> usize {
        self.free_at.borrow().len()
    }

    /// Works for `span` on the processor that is free first, and ends when that is done.
    pub(crate) async fn work(&self, span: Nanos) {
        if !self.has_started.get() {
            return;
        }
        let now = self.world.now();
        let end = {
            let mut free_at = self.free_at.borrow_mut();
            let first = free_at.iter_mut().min().expect("there is a processor");
            *first = (*first).max(now) + span;
            *first
        };
        self.world.sleep(end.since(now)).await;
    }

    /// Works for `span` beside the caller, in slices: what comes meanwhile has its turn between two of them.
    pub(crate) fn work_behind(self: &Rc<Self>, span: Nanos) {
        if !self.has_started.get() {
            return;
        }
        let cpu = Rc::clone(self);
        self.world.spawn(Box::pin(async move {
            let mut left = span.0;
            while left > 0 {
                let slice = left.min(SLICE.0);
                cpu.work(Nanos(slice)).await;
                left -= slice;
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use varve_sim::executor::{Executor, Journal};
    use varve_sim::rng::Rng;

    /// A command that comes while a stripe is being made waits for a slice of that, not for all of it.
    #[test]
    fn what_goes_on_behind_gives_way() {
        let mut executor =
            Executor::new(Rc::new(Journal::default()), Rng::new(1), Nanos(0)).in_order();
        let world = executor.reactor() as Rc<dyn World>;
        let cpu = Cpu::new(Rc::clone(&world), 1);
        let ended = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&ended);
        let ran = executor.run(async move {
            cpu.work(SLICE).await;
            let begun = world.now();
            assert!(begun < Nanos(10), "nothing costs anything yet");
            cpu.start();
            let long = Nanos(10 * SLICE.0 + 7);
            cpu.work_behind(long);
            world.sleep(Nanos(1)).await;
            for _ in 0..12 {
                cpu.work(Nanos(2000)).await;
                log.borrow_mut().push(world.now().since(begun).0);
            }
        });
        ran.expect("it ends");
        // The first comes while a slice is worked on; each of ten behind another slice, but for the last.
        let expected: Vec<u64> = (1..=12)
            .map(|command| {
                command.min(10) * SLICE.0 + if command > 10 { 7 } else { 0 } + command * 2000
            })
            .collect();
        for (seen, expected) in ended.borrow().iter().zip(&expected) {
            // A step of the executor takes a nanosecond.
            assert!(
                (*expected..expected + 100).contains(seen),
                "{ended:?}, {expected:?}"
            );
        }
    }
}
