//! Writes and repairs of a stripe set.

use crate::geometry::{Content, Protection};
use crate::join::all;
use crate::parity;
use crate::ribbon::Ribbon;
use crate::stripe::StripeSet;
use crate::stripe_read::pieces;
use alloc::vec::Vec;
use varve_io::{Blocks, Command, Completion, Gather, Handle, IoError, Segment};
use varve_units::BLOCK_BYTES;

impl StripeSet {
    /// Writes whole stripes: one command per drive, because the strips of consecutive stripes
    /// are neighbours there.
    pub(crate) fn write(&self, offset: u64, gather: &Gather, handle: Handle) -> Completion {
        let geometry = &self.geometry;
        let stripe = geometry.stripe_bytes();
        assert!(
            offset.is_multiple_of(stripe) && gather.bytes().is_multiple_of(stripe),
            "write of {offset}+{} is not whole stripes of {stripe} bytes",
            gather.bytes()
        );
        let first = offset / stripe;
        let count = gather.bytes() / stripe;
        let mut columns = self.columns(first, count, gather);
        let start = first * geometry.strip_bytes();
        let range = start..start + count * geometry.strip_bytes();
        self.members.write(range, move |members| {
            members.broadcast(|member, base| Command::Write {
                offset: base + start,
                gather: core::mem::take(&mut columns[member]),
                handle,
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
                    handle: Handle::default(),
                })
            })
        });
        all(repairs.collect())
    }

    /// What each drive is to write for `count` stripes from `first` on.
    fn columns(&self, first: u64, count: u64, gather: &Gather) -> Vec<Gather> {
        let geometry = &self.geometry;
        let mut ribbon = Ribbon::new(gather);
        let mut strips: Vec<Vec<Segment>> = alloc::vec![Vec::new(); geometry.data_strips()];
        let mut columns = alloc::vec![Gather::new(); geometry.drives()];
        for stripe in first..first + count {
            for strip in &mut strips {
                ribbon.take(geometry.strip_bytes(), |segment| strip.push(segment));
            }
            for (drive, column) in columns.iter_mut().enumerate() {
                match geometry.content(stripe, drive) {
                    Content::Data(strip) if geometry.direct(stripe, strip) != drive => {
                        strips[strip]
                            .iter()
                            .for_each(|part| column.push(part.clone()));
                    }
                    Content::Data(_) => {}
                    Content::Parity => column.push_data(self.parity_strip(&strips)),
                }
            }
            for (index, strip) in strips.iter_mut().enumerate() {
                let column = &mut columns[geometry.direct(stripe, index)];
                strip.drain(..).for_each(|part| column.push(part));
            }
        }
        columns
    }

    /// The parity strip of one stripe.
    fn parity_strip(&self, strips: &[Vec<Segment>]) -> Blocks {
        let count = self.geometry.strip_bytes() / BLOCK_BYTES;
        let mut parity = self.members.world.blocks(count as usize, false);
        parity::compute(parity.bytes_mut(), strips);
        parity
    }
}
