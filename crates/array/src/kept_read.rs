//! Reads of what only a drive that was replaced may still hold: one way more, behind all others.
//!
//! While a seat is filled again its content is read from the others. Where what they give is wrong (a strip
//! of parity is rotten, say) the drive that sat there before may be all that has it: until the copy has ended
//! nobody may conclude that it is lost. With parity the same goes for the strips of all others: what one of
//! them has lost is the sum of the rest and of what the drive that is kept holds.
//!
//! No such sum mixes what was there before a write with what the write left: a drive that is kept holds
//! nothing that was written since, and a range that a write was begun in while it was read gives no sum.
//! Discards and repairs are not noted: a discard is of what nobody reads, and a strip that is being repaired
//! was wrong before, when no right sum came of it either. Whoever reads has a checksum to tell by, so that a wrong
//! sum is one more way that failed, and writes nothing back that does not pass it; copies to a seat
//! that is filled do not read this way.

use crate::join::Part;
use crate::members::Members;
use crate::restore::{self, Holding};
use crate::scatter;
use alloc::rc::Rc;
use alloc::vec::{self, Vec};
use core::ops::Range;
use varve_io::{Command, Completion, Done, IoError, Outcome, Target};

/// A part of a range, and where its content is.
pub(crate) struct KeptPiece {
    /// Byte inside the range.
    pub(crate) at: u64,
    /// Bytes of the seat.
    pub(crate) range: Range<u64>,
    /// Seats that have the same there.
    pub(crate) seats: Vec<usize>,
    /// Seats of which the sum is the same, all of them; none if there is no such sum.
    pub(crate) addends: Vec<usize>,
}

/// How a piece is read, by the drive that is kept at a seat.
#[derive(Clone, Copy)]
enum Way {
    /// From it alone.
    From(usize),
    /// As the sum of it and of the other addends, which are live.
    With(usize),
}

/// Reads all pieces by drives that are kept. [`IoError::GivenUp`] where none helps to the whole of one; `Gone` where
/// one would, and does not answer or lacks another member that may be back.
pub(crate) fn read_kept(members: &Rc<Members>, pieces: Vec<KeptPiece>, into: Target) -> Completion {
    // Before anything is sent: what is under way is to be awaited.
    let mut found = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match members.way_kept(&piece) {
            Ok(way) => found.push((piece, way)),
            Err(absence) => return Completion::ready(Err(absence)),
        }
    }
    let mut parts = Vec::new();
    for (piece, way) in &found {
        if let Way::With(kept) = way {
            let live = piece.addends.iter().filter(|seat| *seat != kept);
            parts.extend(live.map(|&seat| read_part(members, seat, piece, &into)));
        }
    }
    let members = Rc::clone(members);
    Completion::flow(async move {
        let parts = members.join(parts).await;
        parts.iter().for_each(|part| members.note_read(part));
        let mut parts = parts.into_iter();
        let mut into = into;
        for (piece, way) in found {
            let filled = members.fill_kept(&piece, way, &mut parts, &into).await?;
            scatter::put(&mut into, piece.at, &filled);
        }
        Ok(Done::Read(into))
    })
}

fn read_part(members: &Members, seat: usize, piece: &KeptPiece, like: &Target) -> Part {
    members.send(seat, |base| Command::Read {
        offset: base + piece.range.start,
        into: scatter::piece(like, piece.range.end - piece.range.start),
        copy: 0,
    })
}

fn filled(outcome: Outcome) -> Result<Target, IoError> {
    match outcome? {
        Done::Read(target) => Ok(target),
        Done::Nothing => unreachable!("a read returns its memory"),
    }
}

impl Members {
    fn holds_former(&self, seat: usize, range: &Range<u64>) -> bool {
        self.former_holding(seat, range) == Holding::All
    }

    fn way_kept(&self, piece: &KeptPiece) -> Result<Way, IoError> {
        let holds = |seat: &usize| self.holds_former(*seat, &piece.range);
        if let Some(seat) = piece.seats.iter().copied().find(holds) {
            return Ok(Way::From(seat));
        }
        let missing = || {
            let addends = piece.addends.iter().copied();
            addends.filter(|&seat| !self.is_live(seat))
        };
        let kept = missing().find(holds).ok_or(IoError::GivenUp)?;
        match self.absence_of(missing().filter(|seat| *seat != kept)) {
            None => Ok(Way::With(kept)),
            Some(absence) => Err(absence),
        }
    }

    /// The content of a piece. `parts` are those that were sent to live addends, ended, this piece's first.
    async fn fill_kept(
        &self,
        piece: &KeptPiece,
        way: Way,
        parts: &mut vec::IntoIter<Part>,
        like: &Target,
    ) -> Result<Target, IoError> {
        let memory = scatter::piece(like, piece.range.end - piece.range.start);
        let (Way::From(kept) | Way::With(kept)) = way;
        let mut sum = filled(self.read_former(kept, &piece.range, memory).await)?;
        if matches!(way, Way::With(_)) {
            for part in parts.take(piece.addends.len() - 1) {
                restore::add(&mut sum, &filled(part.into_outcome())?);
            }
            if !self.holds_former(kept, &piece.range) {
                return Err(IoError::Gone);
            }
        }
        Ok(sum)
    }
}
