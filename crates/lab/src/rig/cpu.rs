//! Processors that a system's software runs on.

use std::cell::RefCell;
use std::rc::Rc;
use varve_io::World;
use varve_units::Nanos;

/// Processors, each of which does one thing at a time.
pub(crate) struct Cpu {
    world: Rc<dyn World>,
    free_at: RefCell<Vec<Nanos>>,
}

impl Cpu {
    /// So many processors.
    pub(crate) fn new(world: Rc<dyn World>, cores: usize) -> Self {
        Self {
            world,
            free_at: RefCell::new(vec![Nanos(0); cores]),
        }
    }

    /// Works for `span` on the processor that is free first, and ends when that is done.
    pub(crate) async fn work(&self, span: Nanos) {
        let now = self.world.now();
        let end = {
            let mut free_at = self.free_at.borrow_mut();
            let first = free_at.iter_mut().min().expect("there is a processor");
            *first = (*first).max(now) + span;
            *first
        };
        self.world.sleep(end.since(now)).await;
    }
}
