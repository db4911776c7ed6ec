//! When faults of the network strike.

use super::fabric::Fabric;
use crate::rng::Rng;
use std::rc::Rc;

/// Counts operations between faults of the network.
pub struct Cuts {
    fabric: Rc<Fabric>,
    rng: Rng,
    due: u64,
}

impl Cuts {
    /// Those of one life.
    #[must_use]
    pub fn new(fabric: &Rc<Fabric>, life: &Rng) -> Self {
        Self {
            fabric: Rc::clone(fabric),
            rng: life.split("cuts"),
            due: 0,
        }
    }

    /// Lets one strike if that is due after so many host operations.
    pub fn strike(&mut self, operations: u64) {
        if operations >= self.due {
            let distance = self.fabric.fault_distance();
            self.due = operations + self.rng.within(1, distance * 2);
            self.fabric.network().inject();
        }
    }
}
