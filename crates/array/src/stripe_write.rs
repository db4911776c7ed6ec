//! Writes and repairs of a stripe set.

use crate::geometry::{Content, Geometry, Protection};
use crate::join::all;
use crate::parity;
use crate::ribbon::Ribbon;
use crate::stripe::StripeSet;
use crate::stripe_read::pieces;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_io::{Blocks, Command, Completion, Gather, IoError, Segment};
use varve_units::{BLOCK, BLOCK_BYTES};

impl StripeSet {
    /// Writes whole stripes: one command per drive, because the strips of consecutive stripes
    /// are neighbours there.
    pub(crate) fn write(&self, offset: u64, gather: &Gather) -> Completion {
        let geometry = &self.geometry;
        let stripe = geometry.stripe_bytes();
        assert!(
            offset.is_multiple_of(stripe) && gather.bytes().is_multiple_of(stripe),
            "write of {offset}+{} is not whole stripes of {stripe} bytes",
            gather.bytes()
        );
        let first = offset / stripe;
        let count = gather.bytes() / stripe;
        let mut columns = columns(geometry, first, count, gather);
        let start = first * geometry.strip_bytes();
        let range = start..start + count * geometry.strip_bytes();
        self.members.write(range, move |members| {
            members.broadcast(|member, base| Command::Write {
                offset: base + start,
                gather: core::mem::take(&mut columns[member]),
            })
        })
    }

    /// Rewrites blocks of the strips that copy `copy` reads.
    pub(crate) fn repair(&self, offset: u64, gather: &Gather, copy: u8) -> Completion {
        let geometry = &self.geometry;
        let mirrored = geometry.protection() == Protection::Mirror;
        if copy > 0 && !mirrored {
            return Completion::ready(Err(IoError::Media));
        }
        let mut ribbon = Ribbon::new(gather);
        let mut repairs = Vec::new();
        for piece in pieces(geometry, offset, gather.bytes()) {
            let member = if copy == 0 {
                piece.direct
            } else {
                piece.direct ^ 1
            };
            if !self.members.is_live(member) {
                return Completion::ready(Err(IoError::Gone));
            }
            let mut cut = Gather::new();
            ribbon.take(piece.bytes, |segment| cut.push(segment));
            repairs.push((member, piece, cut));
        }
        let repairs = repairs.into_iter().map(|(member, piece, gather)| {
            let range = piece.start..piece.start + piece.bytes;
            self.members.repair(range, member, move |members| {
                members.send(member, |base| Command::Write {
                    offset: base + piece.start,
                    gather,
                })
            })
        });
        all(repairs.collect())
    }
}

/// What each drive is to write for `count` stripes from `first` on.
fn columns(geometry: &Geometry, first: u64, count: u64, gather: &Gather) -> Vec<Gather> {
    let width = geometry.data_strips();
    let mut ribbon = Ribbon::new(gather);
    let mut strips: Vec<Vec<Segment>> = Vec::with_capacity(count as usize * width);
    for _ in 0..count as usize * width {
        let mut strip = Vec::new();
        ribbon.take(geometry.strip_bytes(), |segment| strip.push(segment));
        strips.push(strip);
    }
    let parity = parity_strips(geometry, &strips);
    let strip_blocks = (geometry.strip_bytes() / BLOCK_BYTES) as usize;
    let mut columns = alloc::vec![Gather::new(); geometry.drives()];
    for (index, row) in strips.chunks(width).enumerate() {
        for (drive, column) in columns.iter_mut().enumerate() {
            match geometry.content(first + index as u64, drive) {
                Content::Data(strip) => {
                    row[strip]
                        .iter()
                        .cloned()
                        .for_each(|part| column.push(part));
                }
                Content::Parity => {
                    let blocks = index * strip_blocks..(index + 1) * strip_blocks;
                    let parity = parity.as_ref().expect("a parity strip was computed");
                    column.push(Segment::Data(Rc::clone(parity), blocks));
                }
            }
        }
    }
    columns
}

/// The parity strips of consecutive stripes, one after the other; `None` without parity.
fn parity_strips(geometry: &Geometry, strips: &[Vec<Segment>]) -> Option<Rc<Blocks>> {
    let Protection::Parity { data } = geometry.protection() else {
        return None;
    };
    let strip_bytes = geometry.strip_bytes() as usize;
    let mut parity = Blocks::zeroed(strips.len() / data * strip_bytes / BLOCK);
    let outs = parity.bytes_mut().chunks_mut(strip_bytes);
    for (out, row) in outs.zip(strips.chunks(data)) {
        parity::compute(out, row);
    }
    Some(Rc::new(parity))
}
