//! The stripes of a group: their blocks, P2L and parity.

use super::Scrub;
use super::settle::{Check, Run, Settled};
use crate::candidate::Candidate;
use crate::geometry::{Geometry, Tier, UnitId};
use alloc::vec::Vec;
use varve_format::{NarrowTail, P2l, P2lEntry};
use varve_io::{Blocks, Command, Gather, IoError, Sectors, Segment};
use varve_units::{BLOCK, BLOCK_BYTES, Generation, SECTOR};

/// A stripe in one use of its group.
#[derive(Clone, Copy)]
struct Stripe {
    unit: UnitId,
    generation: Generation,
    stripe: u32,
}

/// The blocks of a stripe that are no P2L area.
struct Span {
    /// The first of them, counted from the stripe's start.
    first: u32,
    count: usize,
    /// Entry of the P2L that speaks of the first one.
    entry: usize,
}

impl Span {
    fn of(geometry: &Geometry, p2l: &P2l) -> Self {
        let leads = p2l.narrow.is_some_and(|narrow| narrow.leads());
        let (first, entry) = match leads {
            true => (geometry.p2l_area_blocks(), geometry.p2l_area_blocks()),
            false => (geometry.stripe_first_user_block(0), 0),
        };
        Self {
            first,
            count: geometry.stripe_user_blocks() as usize,
            entry: entry as usize,
        }
    }

    /// What the P2L says of one of them; it has no entries for those in the place of an area that lies elsewhere.
    fn entry(&self, p2l: &P2l, at: usize) -> P2lEntry {
        let entry = p2l.entries.get(self.entry + at);
        entry.copied().unwrap_or(P2lEntry::PADDING)
    }

    /// What each of them must be, in a stripe that ends with a strip of so many blocks.
    fn checks(&self, p2l: &P2l, geometry: &Geometry, strip: usize) -> Vec<Check> {
        let has_sum = p2l.narrow.is_some_and(|one| one.tail == NarrowTail::Sum);
        let sum = if has_sum { strip } else { 0 };
        let sum = geometry.stripe_blocks as usize - sum;
        let check = |at| match self.entry(p2l, at) {
            P2lEntry::PADDING if self.first as usize + at >= sum => Check::Unsaid,
            P2lEntry::PADDING => Check::Zeroes,
            entry => Check::Crc(entry.crc),
        };
        (0..self.count).map(check).collect()
    }
}

impl Scrub<'_> {
    pub(super) async fn scrub_group(&self, id: UnitId) {
        let geometry = *self.shared.units.geometry();
        let unit = self.shared.units.unit(id);
        let generation = unit.generation();
        let stripes = unit.write_pointer() / geometry.stripe_blocks;
        for stripe in 0..stripes {
            if self.ends() || self.is_reused(id, generation) || !self.is_due(id) {
                return;
            }
            if self.shared.stripe_has_live(id.index, stripe) {
                let stripe = Stripe {
                    unit: id,
                    generation,
                    stripe,
                };
                self.scrub_stripe(stripe).await;
            }
            self.advance(u64::from(geometry.stripe_blocks) * BLOCK_BYTES);
        }
    }

    async fn scrub_stripe(&self, at: Stripe) {
        let (group, geometry) = (at.unit.index, *self.shared.units.geometry());
        let p2l = self.shared.newest_p2l(group, at.stripe).await;
        let is_needed = self.is_due(at.unit) && self.shared.stripe_has_live(group, at.stripe);
        if self.is_reused(at.unit, at.generation) || self.shared.is_stopped() || !is_needed {
            return;
        }
        let p2l = match p2l {
            Ok(p2l) => p2l,
            Err(ways) => {
                let mut report = self.report.borrow_mut();
                match ways.is_lost() {
                    true => report.unknown += 1,
                    false => report.away += 1,
                }
                return;
            }
        };
        let span = Span::of(&geometry, &p2l);
        let first = at.stripe * geometry.stripe_blocks + span.first;
        let strip = self.beneath.parity_bytes() as usize / BLOCK;
        let checks = span.checks(&p2l, &geometry, strip);
        let run = Run {
            unit: at.unit,
            generation: at.generation,
            offset: self.shared.place_offset(geometry.dense_ppa(group, first)),
            checks: &checks,
        };
        let Some(mut settled) = self.settle(&run).await else {
            return;
        };
        let area = self.area(&p2l);
        let mut is_away = settled.is_away;
        for place in geometry.areas_of((group, at.stripe), p2l.narrow) {
            is_away |= self.settle_area(at, place * BLOCK_BYTES, &area).await;
        }
        self.note_losses(&run, (first, &span), &p2l, &mut settled)
            .await;
        if self.beneath.parity_bytes() > 0 {
            is_away |= self.settle_parity(at, &span, (&p2l, &area), &settled).await;
        }
        if is_away || !self.beneath.is_whole(Tier::Dense) {
            self.report.borrow_mut().away += 1;
        }
    }

    /// The bytes of a stripe's P2L area.
    fn area(&self, p2l: &P2l) -> Sectors {
        let geometry = self.shared.units.geometry();
        let blocks = geometry.stripe_p2l_blocks() / geometry.p2l_copies;
        let mut area = Sectors::zeroed(blocks as usize * (BLOCK / SECTOR));
        // As it lies there: the epoch is folded.
        let folded = P2l {
            epoch: self.shared.identity.tag(p2l.epoch),
            ..p2l.clone()
        };
        folded.encode_into(area.bytes_mut());
        area
    }

    /// Compares a P2L area in every plain way with what it is to be, and writes it where it is not. True if a way could
    /// not be asked.
    async fn settle_area(&self, at: Stripe, offset: u64, area: &Sectors) -> bool {
        let dense = self.shared.drive_of(at.unit);
        let mut is_away = false;
        for copy in 0..self.plain_ways(Tier::Dense) {
            self.pace(area.bytes().len() as u64).await;
            let into = Sectors::zeroed(area.len());
            match dense.read_meta(offset, into, copy).await {
                Ok(found) if found.bytes() == area.bytes() => continue,
                Ok(_) | Err(IoError::Media) => {}
                Err(_) => {
                    is_away = true;
                    continue;
                }
            }
            if !self.pin(at.unit, at.generation) {
                return is_away;
            }
            let mut gather = Gather::new();
            gather.push_meta(area.clone());
            let command = Command::Repair {
                offset,
                gather,
                copy,
            };
            let done = dense.submit(command).await;
            self.unpin(at.unit);
            self.note_repair(1, done.is_ok());
        }
        self.report.borrow_mut().records += 1;
        is_away
    }

    /// Tells of blocks that no way gives, if the map needs them. Of one that nobody needs parity is to cover what lies
    /// there: the others of its row have it.
    async fn note_losses(
        &self,
        run: &Run<'_>,
        (first, span): (u32, &Span),
        p2l: &P2l,
        settled: &mut Settled,
    ) {
        for at in core::mem::take(&mut settled.lost) {
            let entry = span.entry(p2l, at);
            let bit = first + at as u32;
            let geometry = self.shared.units.geometry();
            let ppa = geometry.dense_ppa(run.unit.index, bit);
            let candidate = Candidate::listed(&entry, ppa);
            if self.is_needed(run, bit, candidate).await {
                let mut report = self.report.borrow_mut();
                report.note_lost(entry.volume, entry.lba, 1);
                settled.lost.push(at);
                continue;
            }
            let into = Blocks::new(1, self.shared.config.elided);
            let offset = run.offset + at as u64 * BLOCK_BYTES;
            let drive = self.shared.drive_of(run.unit);
            if let Ok(block) = drive.read_data(offset, into, 0).await {
                settled.blocks.copy_from(at, &block, 0, 1);
                settled.is_known[at] = true;
            }
        }
    }

    /// True if the map perhaps refers to a block that no way gives.
    pub(super) async fn is_needed(&self, run: &Run<'_>, bit: u32, candidate: Candidate) -> bool {
        let is_user = candidate.volume.0 != 0;
        is_user
            && self.shared.units.unit(run.unit).is_set(bit)
            && !self.is_reused(run.unit, run.generation)
            && !self
                .shared
                .perhaps_live(run.unit, alloc::vec![candidate])
                .await
                .is_empty()
            && !self.is_reused(run.unit, run.generation)
    }

    /// Compares the parity of a stripe with all of its blocks that are known, and writes it where it does not fit. True
    /// if its drive does not answer.
    async fn settle_parity(
        &self,
        at: Stripe,
        span: &Span,
        (p2l, area): (&P2l, &Sectors),
        settled: &Settled,
    ) -> bool {
        let geometry = *self.shared.units.geometry();
        let (count, user) = (geometry.stripe_blocks as usize, settled.blocks.len());
        let first = span.first as usize;
        let mut stripe = self.shared.world.blocks(count, false);
        let mut is_known = alloc::vec![true; count];
        stripe.copy_from(first, &settled.blocks, 0, user);
        is_known[first..first + user].copy_from_slice(&settled.is_known);
        let bytes = stripe.bytes_mut();
        if first + user < count {
            bytes[(first + user) * BLOCK..].copy_from_slice(area.bytes());
        }
        bytes[..first * BLOCK].copy_from_slice(&area.bytes()[..first * BLOCK]);
        if p2l.narrow.is_some_and(|one| one.tail == NarrowTail::Sum) {
            self.settle_sum(at, &mut stripe, &mut is_known).await;
        }
        let offset = geometry.dense_ppa(at.unit.index, at.stripe * geometry.stripe_blocks);
        let offset = self.shared.place_offset(offset);
        self.pace(self.beneath.parity_bytes()).await;
        let compared = self.beneath.wrong_parity(offset, &stripe, &is_known).await;
        let Ok(rows) = compared else {
            return true;
        };
        if rows.is_empty() || !self.pin(at.unit, at.generation) {
            return false;
        }
        let mended = self.beneath.mend_parity(offset, &stripe, &rows).await;
        self.unpin(at.unit);
        let mut report = self.report.borrow_mut();
        match mended {
            Ok(()) => report.parity_repairs += rows.len() as u64,
            Err(_) => report.failures += rows.len() as u64,
        }
        false
    }

    /// Compares the sum that a narrow stripe ends with with what its other blocks add up to, and writes it where it
    /// differs: without it parity would be made to fit whatever was read there, and the stripe bear no loss in the
    /// way of the member that it did without.
    async fn settle_sum(&self, at: Stripe, stripe: &mut Blocks, is_known: &mut [bool]) {
        let strip = self.beneath.parity_bytes() as usize / BLOCK;
        let rest = stripe.len() - strip;
        let dense = self.shared.drive_of(at.unit);
        let mut before = Gather::new();
        before.push_data(stripe.extract(0, rest));
        let whole = dense.complete(before);
        let Some(Segment::Data(sum, range)) = whole.segments().last() else {
            unreachable!("a sum is data")
        };
        let geometry = self.shared.units.geometry();
        let start = at.stripe * geometry.stripe_blocks + rest as u32;
        for (row, from) in range.clone().enumerate() {
            let here = rest + row;
            let is_told = (row..rest).step_by(strip).all(|block| is_known[block]);
            let is_right = stripe.block(here) == sum.block(from);
            if is_told && is_known[here] && !is_right && self.pin(at.unit, at.generation) {
                let place = geometry.dense_ppa(at.unit.index, start + row as u32);
                let mut gather = Gather::new();
                gather.push_data(sum.extract(from, 1));
                let command = Command::Repair {
                    offset: self.shared.place_offset(place),
                    gather,
                    copy: 0,
                };
                let done = dense.submit(command).await;
                self.unpin(at.unit);
                self.note_repair(1, done.is_ok());
                stripe.copy_from(here, sum, from, 1);
            }
            is_known[here] &= is_told;
        }
    }
}
