//! One flush of a disk at a time, whichever reactors ask.
//!
//! The kernel tells of what a disk lost once: of two flushes in flight one hears of it, and the other one may end well,
//! first even. So whoever asks while a flush is in flight waits for its end, and shares the next one with all who
//! waited: that began after their writes, and its end is theirs.
//!
//! **Invariants**: at most one seat leads; a seat that leads or waits leaves once; a seat is told of a flush only if it
//! was taken before that was given to the kernel.

use crate::ring::Bell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use varve_io::IoError;

/// Who flushes a disk, and who waits for it.
#[derive(Default)]
pub(super) struct Gate(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// A seat leads.
    is_taken: bool,
    /// The seats that the leader's flush is for, beside its own.
    sharing: Vec<Arc<Seat>>,
    /// Those that came after it was given to the kernel.
    waiting: Vec<Arc<Seat>>,
}

/// One reactor's place in the queue.
pub(super) struct Seat {
    stand: Mutex<Stand>,
    /// Rung when the stand changes. `None` if the kernel had no descriptor for it: then the reactor looks again after a
    /// while.
    bell: Option<Bell>,
}

/// How far a seat has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stand {
    /// Another seat's flush is in flight, or is to be.
    Waits,
    /// It is this seat's turn to flush, for those that share it as well.
    Leads,
    /// The flush that it shared has ended.
    Ended(Result<(), IoError>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    fn new(stand: Stand, bell: Option<Bell>) -> Arc<Self> {
        let stand = Mutex::new(stand);
        Arc::new(Self { stand, bell })
    }

    pub(super) fn stand(&self) -> Stand {
        *lock(&self.stand)
    }

    pub(super) fn bell(&self) -> Option<&Bell> {
        self.bell.as_ref()
    }

    fn tell(&self, stand: Stand) {
        *lock(&self.stand) = stand;
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Gate {
    /// A seat for a flush, which leads if none is in flight.
    pub(super) fn enter(&self) -> Arc<Seat> {
        let mut queue = lock(&self.0);
        if !queue.is_taken {
            queue.is_taken = true;
            return Seat::new(Stand::Leads, None);
        }
        let seat = Seat::new(Stand::Waits, Bell::new().ok());
        queue.waiting.push(Arc::clone(&seat));
        seat
    }

    /// True if the flush that the seat will be told of has not begun, so that it is good for one more who asks now.
    pub(super) fn waits(&self, seat: &Arc<Seat>) -> bool {
        let queue = lock(&self.0);
        queue.waiting.iter().any(|other| Arc::ptr_eq(other, seat))
    }

    /// The leader's flush has ended: tells those that shared it, and lets the next one lead.
    pub(super) fn end(&self, outcome: Result<(), IoError>) {
        let mut queue = lock(&self.0);
        assert!(queue.is_taken, "a flush ends once");
        for seat in queue.sharing.drain(..) {
            seat.tell(Stand::Ended(outcome));
        }
        queue.pass_on();
    }

    /// Gives up a seat of which no flush was given to the kernel.
    pub(super) fn leave(&self, seat: &Arc<Seat>) {
        let mut queue = lock(&self.0);
        let is_other = |other: &Arc<Seat>| !Arc::ptr_eq(other, seat);
        queue.waiting.retain(is_other);
        queue.sharing.retain(is_other);
        if seat.stand() == Stand::Leads {
            // Those that would have shared its flush still want one.
            let mut waiting = std::mem::take(&mut queue.sharing);
            waiting.append(&mut queue.waiting);
            queue.waiting = waiting;
            queue.pass_on();
        }
    }
}

impl Queue {
    fn pass_on(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        let next = waiting.next();
        self.is_taken = next.is_some();
        self.sharing = waiting.collect();
        if let Some(next) = next {
            next.tell(Stand::Leads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_shares_the_next_flush() {
        let gate = Gate::default();
        let first = gate.enter();
        assert_eq!(first.stand(), Stand::Leads);
        let waiting: Vec<_> = (0..3).map(|_| gate.enter()).collect();
        assert!(waiting.iter().all(|seat| seat.stand() == Stand::Waits));
        assert!(!gate.waits(&first) && gate.waits(&waiting[2]));
        gate.end(Err(IoError::Gone));
        assert_eq!(waiting[0].stand(), Stand::Leads);
        assert_eq!(waiting[1].stand(), Stand::Waits, "of a flush of its own");
        assert!(!gate.waits(&waiting[1]), "too late for that one");
        let late = gate.enter();
        gate.end(Ok(()));
        assert_eq!(waiting[1].stand(), Stand::Ended(Ok(())));
        assert_eq!(waiting[2].stand(), Stand::Ended(Ok(())));
        assert_eq!(late.stand(), Stand::Leads);
        gate.end(Ok(()));
        assert_eq!(gate.enter().stand(), Stand::Leads, "nobody is left");
    }

    #[test]
    fn whoever_leaves_takes_no_flush_with_it() {
        let gate = Gate::default();
        let _first = gate.enter();
        let [second, third, fourth] = [gate.enter(), gate.enter(), gate.enter()];
        gate.leave(&third);
        gate.end(Ok(()));
        assert_eq!(second.stand(), Stand::Leads);
        let fifth = gate.enter();
        gate.leave(&second);
        assert_eq!(fourth.stand(), Stand::Leads, "it was to share that one");
        gate.end(Ok(()));
        assert_eq!(fifth.stand(), Stand::Ended(Ok(())));
        assert_eq!(third.stand(), Stand::Waits, "it has left");
    }
}
