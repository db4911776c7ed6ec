//! Room for data: which commands of a connection may begin, and when it is left unread.

use crate::action::Tag;
use crate::connection::{
    Connection, DATA_BYTES_MAX, OUTPUT_BYTES_ENTRY, OUTPUT_BYTES_UNCONNECTED, Phase,
};
use crate::io;
use crate::shared::Shared;
use crate::slots::{PROGRESS_BYTES, Reading, State};
use alloc::vec::Vec;
use varve_nvme::Sqe;
use varve_nvme::tcp::{Header, R2t};
use varve_units::Nanos;

/// Small output of a connection that does not count, in bytes: what the largest queue may leave unsent.
const OUTPUT_BYTES_FREE: usize = OUTPUT_BYTES_ENTRY * crate::QUEUE_ENTRIES_MAX as usize;

/// What became of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// A command has begun, or input is taken again.
    Used,
    /// There is nothing to begin.
    Idle,
    /// There is no room.
    Blocked,
}

impl<D: AsRef<[u8]>> Connection<D> {
    /// True if capsules of an I/O queue are to be left unread: all room is in use, and some of it by this
    /// queue. Data that was asked for may stand behind them, so not while any is.
    pub fn is_too_much(&mut self, shared: &mut Shared) -> bool {
        self.recount(shared);
        shared.budget.is_full()
            && self.queue.is_some_and(|queue| queue.qid > 0)
            && self.data_bytes > 0
            && self.decoder.is_between()
            && self.slots.awaited_since().is_none()
    }

    /// Brings what it counts for up to date.
    pub fn recount(&mut self, shared: &mut Shared) {
        let unsent = self.unsent();
        if self.was_sent && unsent > 0 {
            self.unsent_since = shared.clock.ran();
        }
        self.was_sent = unsent == 0;
        let held = self.data_bytes + unsent;
        shared.budget.count(self.counted, held);
        self.counted = held;
    }

    /// Data of answers: what is being sent, and what waits behind it. That may be a batch without
    /// data which the host does not read. Small data counts where it is more than what any queue may
    /// leave unread.
    fn unsent(&self) -> u64 {
        let small = self.unsent_small().saturating_sub(OUTPUT_BYTES_FREE);
        self.sending + (self.outgoing.data_bytes() + small) as u64
    }

    /// Bytes of headers and small data that are not sent.
    pub fn unsent_small(&self) -> usize {
        self.outgoing.small_bytes() + self.sending_small
    }

    /// With more of them unsent its input is left alone.
    pub fn output_max(&self) -> usize {
        match self.queue {
            Some(queue) => usize::from(queue.size) * OUTPUT_BYTES_ENTRY,
            None => OUTPUT_BYTES_UNCONNECTED,
        }
    }

    /// It is gone, but for commands at the backend: what they count for stays.
    pub fn leave(&mut self, shared: &mut Shared) -> u64 {
        let left = self.slots.bytes_at_backend();
        shared.budget.count(self.counted, left);
        if self.is_in_line {
            shared.budget.leave(self.id);
        }
        left
    }

    /// Since when, without progress, its host lets something wait that takes room: data that was asked
    /// for, or the reading of what is sent to it.
    pub fn stalled_since(&self) -> Option<Nanos> {
        let unsent = (self.unsent() > 0).then_some(self.unsent_since);
        self.slots.awaited_since().into_iter().chain(unsent).min()
    }

    /// Bytes have come in: a host that is slow is no host that stands still.
    pub fn note_progress(&mut self, shared: &Shared) {
        let missing = self.decoder.missing();
        if let Some((tag, until)) = self.coming
            && missing > 0
        {
            let ran = shared.clock.ran();
            self.slots.note_progress(tag, until - missing, ran);
        }
    }

    pub fn get_in_line(&mut self, shared: &mut Shared) {
        if !self.is_in_line {
            self.is_in_line = true;
            shared.budget.wait(self.id);
        }
    }

    /// It is the first in line.
    pub fn take_turn(&mut self, shared: &mut Shared) -> Turn {
        let turn = if self.is_paused && !shared.budget.is_full() {
            self.is_paused = false;
            self.is_resumed = true;
            Turn::Used
        } else {
            self.start_next(shared, true)
        };
        match turn {
            Turn::Idle if self.is_paused && self.phase == Phase::Open => Turn::Blocked,
            turn => turn,
        }
    }

    /// It had its turn. True if it stays in line; one that its own bound keeps waiting gets in line again
    /// when that allows.
    pub fn end_turn(&mut self, turn: Turn) -> bool {
        let has_more = self.is_paused || !self.parked.is_empty();
        self.is_in_line = has_more && turn == Turn::Used;
        self.is_in_line
    }

    pub fn park(&mut self, sqe: &Sqe, bytes: u32, state: State) {
        let tag = self.insert(sqe, bytes, state);
        self.parked.push_back(tag);
    }

    /// Starts parked commands while there is room, in order. True if anything comes of it that its connection has to
    /// be told.
    pub fn pump(&mut self, shared: &mut Shared) -> bool {
        // What it waits for may be in use for ever by others. It leaves the line at its turn.
        let mut has_begun = self.is_paused && self.data_bytes == 0;
        if has_begun {
            self.is_paused = false;
            self.is_resumed = true;
        }
        loop {
            match self.start_next(shared, false) {
                Turn::Used => has_begun = true,
                Turn::Idle => return has_begun,
                Turn::Blocked => {
                    self.get_in_line(shared);
                    return has_begun;
                }
            }
        }
    }

    /// Starts the first parked command if there is room for it, here and among all.
    fn start_next(&mut self, shared: &mut Shared, is_first: bool) -> Turn {
        self.recount(shared);
        let tag = loop {
            let Some(tag) = self
                .parked
                .front()
                .copied()
                .filter(|_| self.phase == Phase::Open)
            else {
                return Turn::Idle;
            };
            match self.slots.get_mut(tag) {
                Some(_) => break tag,
                // Aborted meanwhile.
                None => self.parked.pop_front(),
            };
        };
        let used = self.data_bytes + self.outgoing.data_bytes() as u64;
        let slot = self.slots.get_mut(tag).expect("just seen");
        let bytes = u64::from(slot.bytes);
        if used + bytes > DATA_BYTES_MAX {
            return Turn::Idle;
        }
        let is_idle = self.counted == 0;
        if !shared.budget.has_room(bytes, is_first, is_idle) {
            return Turn::Blocked;
        }
        self.parked.pop_front();
        self.data_bytes += bytes;
        self.start(shared, tag);
        self.recount(shared);
        Turn::Used
    }

    /// Starts a command that was parked.
    fn start(&mut self, shared: &mut Shared, tag: Tag) {
        let slot = self.slots.get_mut(tag).expect("a command that was parked");
        let sqe = slot.sqe;
        match core::mem::replace(&mut slot.state, State::AsyncEvent) {
            State::ParkedTransfer => {
                slot.state = State::Transfer {
                    data: Vec::new(),
                    got: 0,
                    asked: shared.clock.ran(),
                    since: shared.clock.ran(),
                    due: PROGRESS_BYTES,
                    is_bad: false,
                };
                let r2t = R2t::new(sqe.cid.get(), tag.0, 0, slot.bytes);
                self.outgoing.header(&Header::R2t(r2t));
            }
            State::ParkedRead => {
                let (operation, work) = io::reading(shared, &sqe, Reading::Read);
                slot.state = State::Backend(work);
                self.act(shared, tag, sqe.namespace(), operation);
            }
            other => panic!("{other:?} was parked"),
        }
    }
}
