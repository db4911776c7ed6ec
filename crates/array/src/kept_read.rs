//! Reads of what only a drive that was replaced may still hold: one way more, behind all others.
//!
//! While a seat is filled again its content is read from the others. Where what they give is wrong (a strip
//! of parity is rotten, say) the drive that sat there before may be all that has it: until the copy has ended
//! nobody may conclude that it is lost.

use crate::members::Members;
use crate::restore::Holding;
use crate::scatter;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_io::{Completion, Done, IoError, Target};

/// A part of a range, and the seats whose content it is.
pub(crate) struct KeptPiece {
    /// Byte inside the range.
    pub(crate) at: u64,
    /// Bytes of the seat.
    pub(crate) range: Range<u64>,
    /// Seats that have the same there.
    pub(crate) seats: Vec<usize>,
}

/// Reads all pieces from drives that are kept; `Gone` where none holds the whole of one.
pub(crate) fn read_kept(
    members: &Rc<Members>,
    pieces: Vec<KeptPiece>,
    mut into: Target,
) -> Completion {
    let mut found = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let mut seats = piece.seats.iter().copied();
        let Some(seat) = seats.find(|seat| members.holds_former(*seat, &piece.range)) else {
            return Completion::ready(Err(IoError::Gone));
        };
        found.push((piece, seat));
    }
    let members = Rc::clone(members);
    Completion::flow(async move {
        for (piece, seat) in found {
            let memory = scatter::piece(&into, piece.range.end - piece.range.start);
            let done = members.read_former(seat, &piece.range, memory).await?;
            let Done::Read(filled) = done else {
                unreachable!("a read returns its memory");
            };
            scatter::put(&mut into, piece.at, &filled);
        }
        Ok(Done::Read(into))
    })
}

impl Members {
    fn holds_former(&self, seat: usize, range: &Range<u64>) -> bool {
        self.former_holding(seat, range) == Holding::All
    }
}
