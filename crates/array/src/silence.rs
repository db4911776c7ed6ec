//! Reads that a drive does not answer, and what the others answer since.
//!
//! A drive that answers no read while others do is gone. Where none answers (a shelf or a network that fails) that says
//! nothing of a single one, and must not cost the one that is asked first: all come back with what they hold.
//!
//! **Not here**: writes, each of which tells by itself who fails it beside whom (`loss`).

use crate::join::{Part, Sent};
use crate::members::{Members, Phase};
use alloc::rc::Rc;
use core::cell::Cell;
use varve_io::IoError;

/// Of an array, over all members.
#[derive(Default)]
pub(crate) struct Silences {
    /// Times that a member fell silent.
    count: Cell<u64>,
    /// True if one may be silent.
    is_any: Cell<bool>,
}

/// That a drive did not answer the last read it was sent.
#[derive(Clone, Copy)]
pub(crate) struct Silent {
    /// Which of those times it was.
    number: u64,
    /// Another drive has answered what it was sent behind that.
    others_answer: bool,
}

impl Silences {
    /// Times that a member fell silent so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }
}

impl Members {
    /// Notes how a read ended: a drive that is gone while others are there is lost.
    pub(crate) fn note_read(self: &Rc<Self>, part: &Part) {
        let sent = &part.sent;
        match part.error() {
            Some(IoError::Gone) if self.is_silent_alone(sent) => {
                self.fail(sent.member, sent.incarnation, IoError::Gone);
            }
            None | Some(IoError::Media) if self.silences.is_any.get() => self.note_answer(sent),
            _ => {}
        }
    }

    /// Notes that a drive did not answer; true if it did not before, and others have since.
    fn is_silent_alone(&self, sent: &Sent) -> bool {
        let seat = &mut self.seats.borrow_mut()[sent.member];
        if seat.incarnation != sent.incarnation {
            return false;
        }
        if let Some(silent) = seat.silent {
            return silent.others_answer;
        }
        let number = self.silences.count.get() + 1;
        self.silences.count.set(number);
        self.silences.is_any.set(true);
        seat.silent = Some(Silent {
            number,
            others_answer: false,
        });
        false
    }

    /// A drive has answered: it is not silent, and whoever fell silent before it was asked is so without it. Of those that
    /// are not live any more nobody needs to know.
    fn note_answer(&self, sent: &Sent) {
        let mut is_any = false;
        for (index, seat) in self.seats.borrow_mut().iter_mut().enumerate() {
            let is_it = index == sent.member && seat.incarnation == sent.incarnation;
            if is_it || !matches!(seat.phase, Phase::Live) {
                seat.silent = None;
            }
            if let Some(silent) = &mut seat.silent {
                silent.others_answer |= silent.number <= sent.silences;
                is_any = true;
            }
        }
        self.silences.is_any.set(is_any);
    }
}
