//! What a run accumulates over all its restarts: the hash of its actions and its first failure.

use crate::fingerprint::{Action, Fingerprint};
use std::cell::{Cell, RefCell};

/// What a run accumulates over all its restarts.
#[derive(Default)]
pub struct Journal {
    fingerprint: Cell<Fingerprint>,
    actions: Cell<u64>,
    failure: RefCell<Option<String>>,
}

impl Journal {
    /// Mixes an action into the action hash.
    pub fn add(&self, action: Action, particulars: &[u64]) {
        let mut fingerprint = self.fingerprint.get();
        fingerprint.add(action, particulars);
        self.fingerprint.set(fingerprint);
        self.actions.set(self.actions.get() + 1);
    }

    /// The action hash.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.fingerprint.get().value()
    }

    /// Actions so far.
    #[must_use]
    pub fn actions(&self) -> u64 {
        self.actions.get()
    }

    /// Records the first failure; later ones are consequences.
    pub fn fail(&self, what: String) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = Some(what);
        }
    }

    /// The first failure, if there is one.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// True once a failure is recorded.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }
}
