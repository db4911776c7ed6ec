//! A die: one operation at a time; reads interrupt the long ones.

use super::rate::Picos;
use alloc::collections::VecDeque;

/// A program or an erase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Long {
    /// Programs data of the row with this number.
    Program(u32),
    /// Programs parity.
    Parity,
    /// Erases its part of an erase unit.
    Erase,
}

impl Long {
    /// Programs draw so much power that only some dies may program at once.
    pub(crate) fn is_program(self) -> bool {
        self != Self::Erase
    }
}

enum Busy {
    Idle,
    Read(u32),
    Long {
        long: Long,
        ends: Picos,
        pauses: u32,
    },
}

struct Paused {
    long: Long,
    left: Picos,
    pauses: u32,
}

/// Times of a die.
pub(crate) struct Times {
    pub(crate) read: Picos,
    pub(crate) program: Picos,
    pub(crate) erase: Picos,
    pub(crate) suspend: Picos,
    /// How often one operation may be interrupted.
    pub(crate) suspends_max: u32,
}

pub(crate) struct Die {
    busy: Busy,
    paused: Option<Paused>,
    /// Reads of hosts.
    reads: VecDeque<u32>,
    /// Reads of the drive itself; they interrupt nothing.
    moves: VecDeque<u32>,
    longs: VecDeque<Long>,
    /// Operations begun: the end of one that was interrupted is not the end of a later one.
    begun: u64,
    /// It stands in line to program.
    pub(crate) is_eager: bool,
}

/// What a die does next.
pub(crate) enum Begin {
    /// Nothing new.
    Nothing,
    /// Something that ends at this time, under this number.
    Ends {
        at: Picos,
        begun: u64,
        /// One more die programs.
        is_program: bool,
    },
    /// A program, if it may.
    WantsToProgram,
}

/// What a die has ended.
pub(crate) enum Ended {
    /// Something else, before.
    Stale,
    /// The read of this piece.
    Read(u32),
    /// A program or an erase.
    Long(Long),
}

impl Die {
    pub(crate) const fn new() -> Self {
        Self {
            busy: Busy::Idle,
            paused: None,
            reads: VecDeque::new(),
            moves: VecDeque::new(),
            longs: VecDeque::new(),
            begun: 0,
            is_eager: false,
        }
    }

    pub(crate) fn add_read(&mut self, piece: u32) {
        self.reads.push_back(piece);
    }

    pub(crate) fn add_move(&mut self, piece: u32) {
        self.moves.push_back(piece);
    }

    pub(crate) fn add_long(&mut self, long: Long) {
        self.longs.push_back(long);
    }

    /// What the die does next; `may_program` if one more die may.
    pub(crate) fn begin(&mut self, now: Picos, times: &Times, may_program: bool) -> Begin {
        match self.busy {
            Busy::Read(_) => return Begin::Nothing,
            Busy::Long { long, ends, pauses } => {
                let left = ends - now;
                let is_worth_it = pauses < times.suspends_max && left > times.suspend;
                if self.reads.is_empty() || !is_worth_it {
                    return Begin::Nothing;
                }
                let piece = self.reads.pop_front().expect("a read waits");
                let pauses = pauses + 1;
                // Going on costs as much as stopping.
                let left = left + times.suspend;
                self.paused = Some(Paused { long, left, pauses });
                return self.begin_read(now + times.suspend, piece, times);
            }
            Busy::Idle => {}
        }
        if let Some(piece) = self.reads.pop_front() {
            return self.begin_read(now, piece, times);
        }
        if let Some(Paused { long, left, pauses }) = self.paused.take() {
            return self.begin_long(long, now + left, pauses);
        }
        if let Some(piece) = self.moves.pop_front() {
            return self.begin_read(now, piece, times);
        }
        let Some(long) = self.longs.front().copied() else {
            return Begin::Nothing;
        };
        if long.is_program() && !may_program {
            return Begin::WantsToProgram;
        }
        self.longs.pop_front();
        let span = if long.is_program() {
            times.program
        } else {
            times.erase
        };
        self.begin_long(long, now + span, 0)
    }

    /// The operation begun under this number has ended.
    pub(crate) fn end(&mut self, begun: u64) -> Ended {
        if begun != self.begun {
            return Ended::Stale;
        }
        match core::mem::replace(&mut self.busy, Busy::Idle) {
            Busy::Idle => Ended::Stale,
            Busy::Read(piece) => Ended::Read(piece),
            Busy::Long { long, .. } => Ended::Long(long),
        }
    }

    fn begin_read(&mut self, from: Picos, piece: u32, times: &Times) -> Begin {
        self.busy = Busy::Read(piece);
        self.begun += 1;
        Begin::Ends {
            at: from + times.read,
            begun: self.begun,
            is_program: false,
        }
    }

    fn begin_long(&mut self, long: Long, ends: Picos, pauses: u32) -> Begin {
        self.busy = Busy::Long { long, ends, pauses };
        self.begun += 1;
        Begin::Ends {
            at: ends,
            begun: self.begun,
            is_program: long.is_program() && pauses == 0,
        }
    }
}
