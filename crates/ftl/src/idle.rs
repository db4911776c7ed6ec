//! Times without commands of hosts: the cleaner makes more room then than it does under load, so that bursts find it.
//!
//! 1. The first command of each span says that there was one.
//! 2. A timer looks at the end of each span. After one without commands it ends: the pool is *idle*, and the cleaner
//!    goes on until half of what hosts may fill of the log is free, or as far as it gets without more than that.
//! 3. The next command ends this and has the timer begin anew: no victim is begun any more, those in hand end.
//!
//! **Invariants**: an idle pool comes to do nothing. No timer runs; each victim holds blocks of hosts, of which fewer are
//! left in the log each time (a chunk of leaves alone would be written again as often as one could be had); a
//! victim that is not emptied ends it. No stripe is padded for it, and no group collected that would not be anyway.
//!
//! **Not here**: which victims (`victim_chunks`).

use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// Whether a pool is idle, on the first reactor.
#[derive(Default)]
pub(crate) struct Idle {
    /// The timer runs.
    is_watched: Cell<bool>,
    is_on: Cell<bool>,
}

impl Idle {
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
            self.end_idle();
        }
    }

    /// The pool is not idle, and is watched from now on. In a pool whose log is all it has, emptied chunks fill others:
    /// there is no room to be made.
    pub(crate) fn end_idle(&self) {
        self.hosts_came.store(true, Ordering::Relaxed);
        if self.dense.is_none() {
            return;
        }
        self.tell_control(|control, shared| {
            control.idle.end();
            if !control.idle.is_watched.replace(true) {
                // It was idle, whether there was anything left to be emptied or not.
                control.pace.pause();
                shared.watch();
            }
        });
    }

    /// Looks after a span whether hosts have sent something. Holds nothing of the engine meanwhile: an engine that is
    /// closed is gone at once.
    fn watch(&self) {
        let Some(span) = self.config.idle_after else {
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
        self.count("idle_times", 1);
        let control = self.control();
        control.idle.is_watched.set(false);
        control.idle.is_on.set(true);
        control.cleaner_wanted.notify();
    }
}
