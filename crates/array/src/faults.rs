//! What a member's drive answered with an error, and what of it was wrong, for who looks after drives.
//!
//! **Not here**: what follows from an error (`loss`), and drives that are kept beside the array
//! (`former`).

use crate::join::Sent;
use crate::members::Members;
use varve_io::Command;

/// Faults of the drive in a seat since it took that, or since the array was assembled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Reads that it answered with an error.
    pub read_errors: u64,
    /// Writes and flushes that it answered with an error.
    pub write_errors: u64,
    /// Parts of it, of any length, that were written again from what another way to read gave: they could not
    /// be read, or did not pass their check.
    pub repairs: u64,
}

/// What a command asks of a drive, as far as its errors are counted.
#[derive(Clone, Copy)]
pub(crate) enum Ask {
    Read,
    Write,
    /// A hint: how it ends is of no consequence.
    Hint,
}

impl Ask {
    pub(crate) const fn of(command: &Command) -> Self {
        match command {
            Command::Read { .. } => Self::Read,
            Command::Write { .. } | Command::Repair { .. } | Command::Flush => Self::Write,
            Command::Discard { .. } => Self::Hint,
        }
    }
}

impl Members {
    /// What the drive in a seat answered badly.
    pub(crate) fn faults(&self, member: usize) -> Faults {
        self.seats.borrow()[member].faults
    }

    /// Counts an error of the drive that a command was sent to, if it still has its seat.
    pub(crate) fn note_error(&self, sent: &Sent) {
        self.count(sent.member, sent.incarnation, |faults| match sent.ask {
            Ask::Read => faults.read_errors += 1,
            Ask::Write => faults.write_errors += 1,
            Ask::Hint => {}
        });
    }

    /// Counts a part of a drive that was written again.
    pub(crate) fn note_repair(&self, member: usize, incarnation: u32) {
        self.count(member, incarnation, |faults| faults.repairs += 1);
    }

    fn count(&self, member: usize, incarnation: u32, add: impl FnOnce(&mut Faults)) {
        let seat = &mut self.seats.borrow_mut()[member];
        if seat.incarnation == incarnation {
            add(&mut seat.faults);
        }
    }
}
