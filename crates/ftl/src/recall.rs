//! Writes that nobody waits for any more.

use crate::shared::Shared;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Whether those who asked for writes still want them; clones are the same one. What waits before the log
/// when it is recalled is not written (design.md 4.10): its host is lost, and its next association waits for what
/// is left of this one.
#[derive(Clone, Default)]
pub struct Recall(Rc<State>);

#[derive(Default)]
struct State {
    is_recalled: Cell<bool>,
    /// Whose gates hold writes of it, or did.
    gates: RefCell<Vec<Weak<Shared>>>,
}

impl Recall {
    /// One that is recalled already.
    #[must_use]
    pub fn recalled() -> Self {
        let recall = Self::default();
        recall.recall();
        recall
    }

    /// Nobody wants these writes any more. Those in the log end as they would.
    pub fn recall(&self) {
        self.0.is_recalled.set(true);
        for gate in self.0.gates.take() {
            if let Some(shared) = gate.upgrade() {
                shared.sweep_gate();
            }
        }
    }

    /// True once they are recalled.
    #[must_use]
    pub fn is_recalled(&self) -> bool {
        self.0.is_recalled.get()
    }

    /// A write of it waits at a gate.
    pub(crate) fn waits_at(&self, shared: &Rc<Shared>) {
        let mut gates = self.0.gates.borrow_mut();
        let this = Rc::downgrade(shared);
        // Pools come and go while a host stays.
        gates.retain(|gate| gate.strong_count() > 0);
        if !gates.iter().any(|gate| gate.ptr_eq(&this)) {
            gates.push(this);
        }
    }
}
