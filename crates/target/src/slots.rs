//! Commands of a queue that are not answered yet, in a bounded slab.
//!
//! A slot's number is the tag of its R2T and of its action.

use crate::action::Tag;
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_nvme::Sqe;
use varve_nvme::fabrics::ConnectData;
use varve_units::Nanos;

/// Data that counts as progress of its host when all of it came: few bytes now and then would keep
/// room for hours. Arbitrary; every 10 s any line in use carries it.
pub(crate) const PROGRESS_BYTES: usize = 32 << 10;

/// A command that is not answered yet.
#[derive(Debug)]
pub(crate) struct Slot {
    pub sqe: Sqe,
    /// Bytes it holds of the connection's data budget.
    pub bytes: u32,
    pub state: State,
}

/// What a command waits for.
#[derive(Debug)]
pub(crate) enum State {
    /// Budget, to ask for its data.
    ParkedTransfer,
    /// Its data.
    Transfer {
        data: Vec<u8>,
        got: usize,
        /// When it was asked for.
        asked: Nanos,
        /// When some of it came last, or of what was asked for before it.
        since: Nanos,
        /// Bytes that have to be here to count as some of it.
        due: usize,
        /// A data digest was wrong.
        is_bad: bool,
    },
    /// Budget, to read.
    ParkedRead,
    /// The backend.
    Backend(Work),
    /// An event.
    AsyncEvent,
    /// The end of what an earlier association left at the backend.
    Connecting(Box<ConnectData>),
}

/// What is done with the backend's answer.
#[derive(Debug)]
pub(crate) enum Work {
    /// Its data goes to the host.
    Read,
    /// Its data is compared with this.
    Compare(Vec<u8>),
    /// A flush that this reading waits for (FUA).
    Commit(Reading),
    /// It has no data.
    Plain,
    /// The controller's shutdown is complete; no host waits for it.
    Shutdown,
}

/// What follows the flush of a reading with FUA.
#[derive(Debug)]
pub(crate) enum Reading {
    /// A read.
    Read,
    /// A compare with this.
    Compare(Vec<u8>),
}

impl Reading {
    /// What is done once the flush is.
    pub fn work(self) -> Work {
        match self {
            Self::Read => Work::Read,
            Self::Compare(expected) => Work::Compare(expected),
        }
    }
}

/// The slab.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    all: Vec<Option<Slot>>,
    free: Vec<u16>,
}

impl Slots {
    /// With room for `count` commands.
    pub fn new(count: u16) -> Self {
        Self {
            all: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
        }
    }

    /// Puts a command in; `None` if there is no room.
    pub fn insert(&mut self, slot: Slot) -> Option<Tag> {
        let index = self.free.pop()?;
        self.all[usize::from(index)] = Some(slot);
        Some(Tag(index))
    }

    pub fn get_mut(&mut self, tag: Tag) -> Option<&mut Slot> {
        self.all.get_mut(usize::from(tag.0))?.as_mut()
    }

    pub fn remove(&mut self, tag: Tag) -> Option<Slot> {
        let slot = self.all.get_mut(usize::from(tag.0))?.take()?;
        self.free.push(tag.0);
        Some(slot)
    }

    /// True if no further command is taken.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// First command that `wanted` names.
    pub fn find(&self, wanted: impl Fn(&Slot) -> bool) -> Option<Tag> {
        let is_wanted = |slot: &Option<Slot>| slot.as_ref().is_some_and(&wanted);
        let index = self.all.iter().position(is_wanted)?;
        Some(Tag(index as u16))
    }

    pub fn count(&self, wanted: impl Fn(&Slot) -> bool) -> usize {
        let used = self.all.iter().flatten();
        used.filter(|slot| wanted(slot)).count()
    }

    /// Bytes of commands at the backend.
    pub fn bytes_at_backend(&self) -> u64 {
        let used = self.all.iter().flatten();
        let there = used.filter(|slot| matches!(slot.state, State::Backend(_)));
        there.map(|slot| u64::from(slot.bytes)).sum()
    }

    /// So many bytes of a command's data are here. If that is a step, or all, neither it nor what was
    /// asked for later stands still. What was asked for before it may.
    pub fn note_progress(&mut self, tag: Tag, here: usize, now: Nanos) {
        let Some(slot) = self.get_mut(tag) else {
            return;
        };
        let is_whole = here == slot.bytes as usize;
        let State::Transfer { asked, due, .. } = &mut slot.state else {
            return;
        };
        if here < *due && !is_whole {
            return;
        }
        *due = here + PROGRESS_BYTES;
        let first = *asked;
        for slot in self.all.iter_mut().flatten() {
            if let State::Transfer { asked, since, .. } = &mut slot.state
                && *asked >= first
            {
                *since = now;
            }
        }
    }

    /// Since when the data of a host is awaited that stands still longest; `None` if none is.
    pub fn awaited_since(&self) -> Option<Nanos> {
        let since = self
            .all
            .iter()
            .flatten()
            .filter_map(|slot| match slot.state {
                State::Transfer { since, .. } => Some(since),
                _ => None,
            });
        since.min()
    }

    /// Commands at the backend.
    pub fn at_backend(&self) -> usize {
        self.count(|slot| matches!(slot.state, State::Backend(_)))
    }
}
