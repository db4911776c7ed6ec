//! Reads of a stripe set: split by strip, joined again, or rebuilt from the other strips.

use crate::geometry::Geometry;
use crate::join::Part;
use crate::kept_read::{KeptPiece, read_kept};
use crate::members::Members;
use crate::scatter;
use crate::stripe::StripeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::iter;
use varve_gf::xor_many;
use varve_io::{Blocks, Command, Completion, Done, IoError, Outcome, Target};
use varve_units::{BLOCK, BLOCK_BYTES};

/// The part of a range that lies in one strip.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Byte inside the range.
    pub(crate) at: u64,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// The drive of copy 0.
    pub(crate) direct: usize,
    /// Byte on that drive, and on every other one the stripe's byte at the same height.
    pub(crate) start: u64,
}

/// The pieces of the data range, in order.
pub(crate) fn pieces(geometry: &Geometry, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    core::iter::from_fn(move || {
        if at >= bytes {
            return None;
        }
        let place = geometry.place((offset + at) / BLOCK_BYTES);
        let inside = place.block * BLOCK_BYTES;
        let piece = Piece {
            at,
            bytes: (geometry.strip_bytes() - inside).min(bytes - at),
            direct: geometry.direct(place.stripe, place.strip),
            start: place.stripe * geometry.strip_bytes() + inside,
        };
        at += piece.bytes;
        Some(piece)
    })
}

/// How one piece is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From this drive.
    From(usize),
    /// As the XOR of all drives but this one.
    Without(usize),
    /// As the XOR of all drives but the first one and the second one, which has zeroes there.
    Narrow(usize, usize),
}

impl StripeSet {
    pub(crate) fn read(&self, offset: u64, into: Target, copy: u8) -> Completion {
        if copy == self.geometry.copies() {
            return self.read_kept(offset, into);
        }
        assert!(
            copy < self.geometry.copies() || self.bare_member(copy).is_some(),
            "copy beyond the ways to read"
        );
        let mut pieces = pieces(&self.geometry, offset, into.bytes()).peekable();
        // Most reads lie in one strip: no lists for them.
        let whole = pieces.peek().filter(|piece| piece.bytes == into.bytes());
        if let Some(&piece) = whole
            && let Ok(Way::From(member)) = self.way(&piece, copy, false)
        {
            let members = Rc::clone(&self.members);
            let part = read_part(&members, member, &piece, into);
            return Completion::flow(async move {
                let part = members.one(part).await;
                members.note_read(&part);
                part.into_outcome()
            });
        }
        let pieces: Vec<_> = pieces.collect();
        let mut ways = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            match self.way(piece, copy, pieces.len() > 1) {
                Ok(way) => ways.push(way),
                Err(absence) => return Completion::ready(Err(absence)),
            }
        }
        let members = Rc::clone(&self.members);
        let mut parts = Vec::with_capacity(pieces.len());
        let mut counts = Vec::with_capacity(pieces.len());
        for (piece, way) in pieces.iter().zip(&ways) {
            let before = parts.len();
            self.start(piece, *way, &into, &mut parts);
            counts.push((*way, parts.len() - before));
        }
        Completion::flow(async move {
            let parts = members.join(parts).await;
            parts.iter().for_each(|part| members.note_read(part));
            assemble(into, &pieces, &counts, parts)
        })
    }

    /// As `kept_read` has it.
    fn read_kept(&self, offset: u64, into: Target) -> Completion {
        let geometry = &self.geometry;
        let kept = pieces(geometry, offset, into.bytes()).map(|piece| KeptPiece {
            at: piece.at,
            range: piece.start..piece.start + piece.bytes,
            seats: iter::once(piece.direct)
                .chain(geometry.partner(piece.direct))
                .collect(),
            addends: geometry.others(piece.direct).collect(),
        });
        read_kept(&self.members, kept.collect(), into)
    }

    /// How copy `copy` reads a piece, or that a member it needs is gone, or given up. In a read of
    /// several pieces copy 1 reads a piece directly if that is the only way left, so that one of
    /// the copies serves the whole read while no more is lost than the array can bear.
    fn way(&self, piece: &Piece, copy: u8, is_one_of_several: bool) -> Result<Way, IoError> {
        let (members, direct) = (&self.members, piece.direct);
        if let Some(bare) = self.bare_member(copy) {
            return self.narrow_way(direct, bare);
        }
        let is_direct_live = members.is_live(direct);
        if copy == 0 && is_direct_live {
            return Ok(Way::From(direct));
        }
        if copy == 0 {
            return Err(members.absence(direct));
        }
        let others = self.geometry.others(direct);
        match members.absence_of(others.filter(|other| !members.is_live(*other))) {
            None => {
                let partner = self.geometry.partner(direct);
                Ok(partner.map_or(Way::Without(direct), Way::From))
            }
            Some(_) if is_one_of_several && is_direct_live => Ok(Way::From(direct)),
            Some(absence) => Err(absence),
        }
    }

    /// How a piece of what was written narrow is read while `bare` has zeroes there.
    fn narrow_way(&self, direct: usize, bare: usize) -> Result<Way, IoError> {
        if direct == bare {
            // Nobody wrote anything there.
            return Err(IoError::Media);
        }
        let members = &self.members;
        let others = self.geometry.others(direct).filter(|other| *other != bare);
        match members.absence_of(others.filter(|other| !members.is_live(*other))) {
            None => Ok(Way::Narrow(direct, bare)),
            Some(absence) => Err(absence),
        }
    }

    fn start(&self, piece: &Piece, way: Way, like: &Target, parts: &mut Vec<Part>) {
        let (without, bare) = match way {
            Way::From(member) => {
                let memory = scatter::piece(like, piece.bytes);
                parts.push(read_part(&self.members, member, piece, memory));
                return;
            }
            Way::Without(member) => (member, None),
            Way::Narrow(member, bare) => (member, Some(bare)),
        };
        let others = self.geometry.others(without);
        for other in others.filter(|other| Some(*other) != bare) {
            let blocks = Blocks::zeroed(piece.bytes as usize / BLOCK);
            let memory = Target::Data(blocks);
            parts.push(read_part(&self.members, other, piece, memory));
        }
    }
}

fn read_part(members: &Members, member: usize, piece: &Piece, into: Target) -> Part {
    members.send(member, |base| Command::Read {
        offset: base + piece.start,
        into,
        copy: 0,
    })
}

/// Puts the answers of all pieces together; `counts` tells how many parts each piece has.
fn assemble(
    mut into: Target,
    pieces: &[Piece],
    counts: &[(Way, usize)],
    parts: Vec<Part>,
) -> Outcome {
    let mut parts = parts.into_iter();
    for (piece, (way, count)) in pieces.iter().zip(counts) {
        let mut filled = Vec::with_capacity(*count);
        for part in parts.by_ref().take(*count) {
            let Done::Read(target) = part.into_outcome()? else {
                unreachable!("a read returns its memory");
            };
            filled.push(target);
        }
        match way {
            Way::From(_) => scatter::put(&mut into, piece.at, &filled[0]),
            Way::Without(_) | Way::Narrow(..) => {
                let sources: Vec<_> = filled.iter().map(scatter::bytes).collect();
                let range = piece.at as usize..(piece.at + piece.bytes) as usize;
                xor_many(&mut scatter::bytes_mut(&mut into)[range], &sources);
            }
        }
    }
    Ok(Done::Read(into))
}
