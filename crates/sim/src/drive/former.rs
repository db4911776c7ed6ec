//! The drive that was in a bay before, with what it held when it was taken out.
//!
//! Once the pool says that another one is whole in its place it is given up for good, by labels that outlive any
//! crash: put back, it may be asked for its labels, and nothing else.

use super::state::State;
use std::cell::RefCell;
use std::rc::Rc;
use varve_io::Command;
use varve_pool::label::RESERVED_BYTES;

/// The drives that were in a bay.
#[derive(Default)]
pub(super) struct Former {
    /// Taken out; whether the pool has given it up only the pool knows.
    taken: RefCell<Option<Rc<RefCell<State>>>>,
    /// Given up.
    given_up: RefCell<Option<Rc<RefCell<State>>>>,
}

impl Former {
    pub(super) fn take_out(&self, state: Rc<RefCell<State>>) {
        self.taken.replace(Some(state));
    }

    pub(super) fn give_up(&self) {
        if let Some(state) = self.taken.take() {
            self.given_up.replace(Some(state));
        }
    }

    pub(super) fn put_back(&self) -> Option<Rc<RefCell<State>>> {
        let state = self.given_up.borrow().clone()?;
        let mut drive = state.borrow_mut();
        drive.is_given_up = true;
        drive.is_gone = false;
        drive.flaws.clear();
        drive.ailments = super::Ailments::default();
        drop(drive);
        Some(state)
    }

    /// The power fails.
    pub(super) fn power_fail(&self) {
        let (taken, given_up) = (self.taken.borrow(), self.given_up.borrow());
        for state in taken.iter().chain(given_up.iter()) {
            let state = &mut *state.borrow_mut();
            let lba_bytes = u64::from(state.spec.lba_bytes);
            let (platter, rng) = (&mut state.platter, &mut state.rng);
            state.cache.fail(platter, rng, lba_bytes, false);
            state.doomed.clear();
        }
    }
}

impl State {
    /// This drive, out of its bay, which is empty then.
    pub(super) fn taken_out(&mut self) -> Rc<RefCell<Self>> {
        let (laps, refusals) = (self.laps.clone(), self.refusals.clone());
        let (trace, tally) = (self.trace.clone(), self.tally.clone());
        let mut empty = self.successor();
        empty.incarnation = self.incarnation;
        empty.has_returned = self.has_returned;
        (empty.laps, empty.refusals) = (laps, refusals);
        (empty.trace, empty.tally) = (trace, tally);
        let taken = std::mem::replace(self, empty);
        Rc::new(RefCell::new(taken))
    }

    /// What is wrong with a command to a drive that was given up, if anything.
    pub(super) fn trespass(&self, command: &Command) -> Option<&'static str> {
        if !self.is_given_up {
            return None;
        }
        match command {
            Command::Read { offset, .. } if *offset < RESERVED_BYTES => None,
            Command::Read { .. } => Some("a drive that was given up is read from"),
            Command::Flush => None,
            _ => Some("a drive that was given up is written to"),
        }
    }
}
