//! What happens next.

use super::rate::Picos;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Events in order of time; those of one time in the order they were added.
pub(crate) struct Agenda<E> {
    events: BinaryHeap<Reverse<(Picos, u64, E)>>,
    added: u64,
}

impl<E: Ord> Agenda<E> {
    pub(crate) const fn new() -> Self {
        Self {
            events: BinaryHeap::new(),
            added: 0,
        }
    }

    pub(crate) fn add(&mut self, at: Picos, event: E) {
        self.added += 1;
        self.events.push(Reverse((at, self.added, event)));
    }

    /// When the next one happens.
    pub(crate) fn next(&self) -> Option<Picos> {
        self.events.peek().map(|Reverse((at, _, _))| *at)
    }

    /// The next one, if it happens until `now`.
    pub(crate) fn pop(&mut self, now: Picos) -> Option<(Picos, E)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((at, _, event)) = self.events.pop()?;
        Some((at, event))
    }
}
