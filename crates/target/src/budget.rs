//! Data of all connections together: who may begin another command with data, and who is next.
//!
//! A connection counts for the data it holds: of writes on their way here, of commands at the backend,
//! of answers until they were sent. Commands that would go beyond the bound wait, their connections in
//! one line: the first one begins a single command when there is room for it and goes to the end of
//! the line, so one with much to do delays one with little by a command. Nobody passes the first one,
//! however large its command is, but who holds nothing: it begins one command while twice the bound is
//! not reached. What a backend does not answer could else keep the hosts of all others waiting.
//!
//! **Invariants**: `used` is the sum of what connections count for, those that are gone with commands
//! at the backend included; with nothing in use one command may begin, however small the bound; no
//! command that could wait begins beyond twice the bound.
//!
//! **Not here**: data that came in a capsule. It is here when it is seen, so it counts but cannot wait; a
//! connection whose capsules bring too much of it is left unread.

use crate::connection::ConnectionId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// See the module.
#[derive(Debug)]
pub(crate) struct Budget {
    max: u64,
    used: u64,
    line: VecDeque<ConnectionId>,
    /// How often a connection got in line.
    waits: u64,
    /// One that holds nothing had to wait all the same.
    has_refused_idle: bool,
}

impl Budget {
    pub fn new(max: u64) -> Self {
        Self {
            max,
            used: 0,
            line: VecDeque::new(),
            waits: 0,
            has_refused_idle: false,
        }
    }

    pub fn set_max(&mut self, max: u64) {
        self.max = max;
    }

    pub const fn used(&self) -> u64 {
        self.used
    }

    pub const fn waits(&self) -> u64 {
        self.waits
    }

    /// What a connection counts for has changed from `before` to `after`.
    pub fn count(&mut self, before: u64, after: u64) {
        self.used = self.used - before + after;
    }

    /// True if a command with so much data may begin; `is_first` if its connection's turn has come,
    /// `is_idle` if it holds nothing.
    pub fn has_room(&mut self, bytes: u64, is_first: bool, is_idle: bool) -> bool {
        let after = self.used + bytes;
        let is_next = is_first || self.line.is_empty();
        let has_room =
            is_next && (self.used == 0 || after <= self.max) || is_idle && after <= 2 * self.max;
        self.has_refused_idle |= is_idle && !has_room;
        has_room
    }

    /// Those in line, if the first one is not the only one to look at: somebody who holds nothing was
    /// refused, and there may be room for a command again.
    pub fn waiting_idle(&mut self) -> Vec<ConnectionId> {
        let is_due = self.has_refused_idle && self.used < 2 * self.max;
        if !is_due {
            return Vec::new();
        }
        self.has_refused_idle = false;
        self.line.iter().copied().collect()
    }

    /// Somebody who holds nothing was refused since [`Budget::waiting_idle`].
    pub const fn has_refused_idle(&self) -> bool {
        self.has_refused_idle
    }

    /// True if data in capsules is not to be taken.
    pub const fn is_full(&self) -> bool {
        self.used >= self.max
    }

    /// Somebody waits.
    pub fn is_wanted(&self) -> bool {
        !self.line.is_empty()
    }

    /// A connection that is not in line gets there.
    pub fn wait(&mut self, id: ConnectionId) {
        self.waits += 1;
        self.line.push_back(id);
    }

    /// The first in line.
    pub fn first(&self) -> Option<ConnectionId> {
        self.line.front().copied()
    }

    /// The first in line had its turn; it goes to the end if there `is_more`.
    pub fn next(&mut self, is_more: bool) {
        if let Some(id) = self.line.pop_front()
            && is_more
        {
            self.line.push_back(id);
        }
    }

    /// A connection is gone.
    pub fn leave(&mut self, id: ConnectionId) {
        self.line.retain(|other| *other != id);
    }
}
