//! Times without commands of hosts: the cleaner makes more room then than it does under load, so that bursts find it.
//!
//! 1. The first command of each span says that there was one.
//! 2. A timer looks at the end of each span. After one without commands it ends: the pool is *at rest*, and the cleaner
//!    goes on until half of what hosts may fill of the log is free.
//! 3. The next command ends the rest and has the timer begin anew: no victim is begun any more, those in hand end.
//!
//! **Invariants**: a pool at rest comes to do nothing. No timer runs; each victim holds blocks of hosts, of which fewer are
//! left in the log each time (a chunk of leaves alone would be written again as often as one could be had); a
//! victim that is not emptied ends the rest. No stripe is padded for it.
//!
//! **Not here**: which victims (`victim_chunks`).

use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// Whether a pool is at rest, on the first reactor.
#[derive(Default)]
pub(crate) struct Rest {
    /// The timer runs.
    is_watched: Cell<bool>,
    is_on: Cell<bool>,
}

impl Rest {
    /// True if hosts have sent nothing for a span.
    pub(crate) const fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// No more is emptied before hosts have sent something.
    pub(crate) fn end(&self) {
        self.is_on.set(false);
    }
}

impl Shared {
    /// A host sends a command. All reactors: a word that seldom changes is read, nothing else.
    pub(crate) fn note_host(&self) {
        if !self.hosts_came.load(Ordering::Relaxed) {
            self.end_rest();
        }
    }

    /// The pool is not at rest, and is watched from now on. In a pool whose log is all it has, emptied chunks fill others:
    /// there is nothing to be made at rest.
    pub(crate) fn end_rest(&self) {
        self.hosts_came.store(true, Ordering::Relaxed);
        if self.dense.is_none() {
            return;
        }
        self.tell_control(|control, shared| {
            control.rest.end();
            if !control.rest.is_watched.replace(true) {
                shared.watch();
            }
        });
    }

    /// Looks after a span whether hosts have sent something. Holds nothing of the engine meanwhile: an engine that is
    /// closed is gone at once.
    fn watch(&self) {
        let Some(span) = self.config.rest else {
            return;
        };
        let itself = Rc::downgrade(&self.rc());
        let slept = self.world.sleep(span);
        self.world.spawn(Box::pin(async move {
            slept.await;
            if let Some(shared) = itself.upgrade() {
                shared.look_for_hosts();
            }
        }));
    }

    fn look_for_hosts(&self) {
        if self.is_stopped() {
            return;
        }
        if self.hosts_came.swap(false, Ordering::Relaxed) {
            self.watch();
            return;
        }
        self.count("rests", 1);
        let control = self.control();
        control.rest.is_watched.set(false);
        control.rest.is_on.set(true);
        control.cleaner_wanted.notify();
    }
}
