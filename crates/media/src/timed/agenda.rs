//! What happens next.

use super::rate::Picos;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Something that happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Event {
    /// A command has passed the controller and its firmware.
    Understood(u32),
    /// The die's operation of this number ends.
    Die(u32, u64),
    /// A piece has crossed the channel of its die.
    Crossed(u32),
    /// A part of a command's data has crossed the link.
    Linked(u32),
    /// A command is done.
    Done(u32),
}

/// Events in order of time; those of one time in the order they were added.
#[derive(Default)]
pub(crate) struct Agenda {
    events: BinaryHeap<Reverse<(Picos, u64, Event)>>,
    added: u64,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Picos, event: Event) {
        self.added += 1;
        self.events.push(Reverse((at, self.added, event)));
    }

    /// When the next one happens.
    pub(crate) fn next(&self) -> Option<Picos> {
        self.events.peek().map(|Reverse((at, _, _))| *at)
    }

    /// The next one, if it happens until `now`.
    pub(crate) fn pop(&mut self, now: Picos) -> Option<(Picos, Event)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((at, _, event)) = self.events.pop()?;
        Some((at, event))
    }
}
