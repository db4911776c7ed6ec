//! The volatile write cache of a simulated drive: what was written and may yet be lost.
//!
//! Writes pass through three states: in flight (not visible yet), visible (perhaps not completed),
//! destaged (on the platter, durable). A power failure decides for each write of the first two
//! states, unit by unit and without regard to order, what reaches the platter.
//!
//! **Invariants**: `visible` is in the order in which reads came to see the writes; a write is
//! destaged only together with the earlier visible ones that it overlaps.

use crate::platter::{Cell, Platter, gather_bytes, gather_cell, noise_bytes, noise_cell};
use crate::rng::Rng;
use std::ops::Range;
use varve_io::{Gather, Segment};
use varve_units::{BLOCK_BYTES, SECTOR, SECTOR_BYTES};

/// Writes that wait for a flush before the drive destages some by itself. Arbitrary.
const VISIBLE_MAX: usize = 512;

/// What a write leaves behind.
#[derive(Clone)]
pub enum Body {
    /// These segments.
    Gather(Gather),
    /// These bytes of them: a write that was stored in part.
    Part(Gather, Range<u64>),
    /// This many bytes of zeroes (a discard that the drive honours).
    Zeroes(u64),
    /// This many bytes of nothing that was ever written, by this key (a discard that it honours otherwise).
    Noise(u64, u64),
}

impl Body {
    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Gather(gather) => gather.bytes(),
            Self::Part(_, part) => part.end - part.start,
            Self::Zeroes(bytes) | Self::Noise(bytes, _) => *bytes,
        }
    }

    /// The sector at byte `at`.
    #[must_use]
    pub fn cell(&self, at: u64) -> Cell {
        match self {
            Self::Gather(gather) => gather_cell(gather, at),
            Self::Part(gather, part) => gather_cell(gather, part.start + at),
            Self::Zeroes(_) => Cell::Bytes(Box::new([0; SECTOR])),
            Self::Noise(_, key) => noise_cell(*key, at / SECTOR_BYTES),
        }
    }

    /// The bytes from `at` on, whole sectors; filler for symbols.
    fn copy_to(&self, at: u64, into: &mut [u8]) {
        match self {
            Self::Gather(gather) => gather_bytes(gather, at, into),
            Self::Part(gather, part) => gather_bytes(gather, part.start + at, into),
            Self::Zeroes(_) => into.fill(0),
            Self::Noise(_, key) => noise_bytes(*key, at / SECTOR_BYTES, into),
        }
    }

    fn apply(&self, platter: &mut Platter, offset: u64, from: u64, to: u64) {
        match self {
            Self::Gather(gather) => platter.apply(offset, gather, from, to),
            Self::Part(gather, part) => {
                let (start, from, to) = (part.start, part.start + from, part.start + to);
                platter.apply(offset - start, gather, from, to);
            }
            Self::Zeroes(_) => platter.zero(offset + from, to - from),
            Self::Noise(_, key) => platter.scramble(offset, from, to, *key),
        }
    }
}

/// One write that is not durable.
pub struct Pending {
    /// Number of the command.
    pub id: u64,
    /// Byte offset.
    pub offset: u64,
    /// Content.
    pub body: Body,
    /// Order of completion, once completed.
    pub completed: Option<u64>,
}

impl Pending {
    /// The bytes it covers.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.body.bytes()
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.offset < range.end && range.start < self.offset + self.body.bytes()
    }
}

/// Everything written that is not durable.
#[derive(Default)]
pub struct Cache {
    in_flight: Vec<Pending>,
    visible: Vec<Pending>,
    completions: u64,
}

impl Cache {
    /// A write was submitted.
    pub fn begin(&mut self, id: u64, offset: u64, body: Body) {
        let completed = None;
        self.in_flight.push(Pending {
            id,
            offset,
            body,
            completed,
        });
    }

    /// Writes that reads do not see yet.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Reads see the write from now on. Returns it, unless it was forgotten meanwhile.
    pub fn show(&mut self, id: u64) -> Option<&Pending> {
        let index = self.in_flight.iter().position(|write| write.id == id)?;
        self.visible.push(self.in_flight.remove(index));
        self.visible.last()
    }

    /// Of the newest visible write the drive stored some units alone; which, as byte ranges of the drive.
    pub fn keep_some(&mut self, rng: &mut Rng, lba_bytes: u64) -> Vec<Range<u64>> {
        let write = self.visible.pop().expect("a write is visible");
        let Body::Gather(gather) = &write.body else {
            unreachable!("hints are not stored in part");
        };
        let parts = kept(&write.body, rng, lba_bytes);
        let stored = parts.iter().map(|part| Pending {
            id: write.id,
            offset: write.offset + part.start,
            body: Body::Part(gather.clone(), part.clone()),
            completed: None,
        });
        self.visible.extend(stored);
        let on_drive = |part: &Range<u64>| write.offset + part.start..write.offset + part.end;
        parts.iter().map(on_drive).collect()
    }

    /// The write is complete: the next flush covers it.
    pub fn complete(&mut self, id: u64) {
        self.completions += 1;
        for write in self.visible.iter_mut().rev() {
            if write.id == id {
                write.completed = Some(self.completions);
            }
        }
    }

    /// A flush submitted now covers completions up to this.
    #[must_use]
    pub const fn mark(&self) -> u64 {
        self.completions
    }

    /// Makes durable what was completed up to `mark`.
    pub fn destage(&mut self, platter: &mut Platter, mark: u64) {
        let is_covered = |write: &Pending| write.completed.is_some_and(|number| number <= mark);
        let mut chosen: Vec<bool> = self.visible.iter().map(is_covered).collect();
        let mut left: Vec<usize> = (0..chosen.len()).filter(|&index| !chosen[index]).collect();
        for later in (0..chosen.len()).rev() {
            if chosen[later] {
                let range = self.visible[later].range();
                left.retain(|&earlier| {
                    let pulled = earlier < later && self.visible[earlier].overlaps(&range);
                    chosen[earlier] |= pulled;
                    !pulled
                });
            }
        }
        let mut index = 0;
        self.visible.retain(|write| {
            let goes = chosen[index];
            index += 1;
            if goes {
                write
                    .body
                    .apply(platter, write.offset, 0, write.body.bytes());
            }
            !goes
        });
    }

    /// Destages the oldest half once too many wait, as real caches do.
    pub fn relieve(&mut self, platter: &mut Platter) {
        if self.visible.len() > VISIBLE_MAX {
            let middle = self.visible[VISIBLE_MAX / 2].completed;
            self.destage(platter, middle.unwrap_or(0));
        }
    }

    /// True if a visible write lies over a part of the range.
    #[must_use]
    pub fn covers(&self, range: &Range<u64>) -> bool {
        self.visible.iter().any(|write| write.overlaps(range))
    }

    /// Overlays what is visible on bytes read from the platter.
    pub fn overlay(&self, offset: u64, bytes: &mut [u8]) {
        let range = offset..offset + bytes.len() as u64;
        for write in self.visible.iter().filter(|write| write.overlaps(&range)) {
            let first = range.start.max(write.offset);
            let last = range.end.min(write.range().end);
            let into = &mut bytes[(first - offset) as usize..(last - offset) as usize];
            write.body.copy_to(first - write.offset, into);
        }
    }

    /// The sectors of `range` as reads see them.
    #[must_use]
    pub fn cells(&self, platter: &Platter, range: &Range<u64>) -> Vec<Cell> {
        cells(&self.visible, platter, range)
    }

    /// The sectors of `range` as reads saw them before the newest visible write.
    #[must_use]
    pub fn cells_below(&self, platter: &Platter, range: &Range<u64>) -> Vec<Cell> {
        let older = self.visible.len().saturating_sub(1);
        cells(&self.visible[..older], platter, range)
    }

    /// The power fails: each write that is not durable is kept, lost or torn, or all are lost.
    pub fn fail(
        &mut self,
        platter: &mut Platter,
        rng: &mut Rng,
        lba_bytes: u64,
        is_unflushed: bool,
    ) {
        let mut in_flight = std::mem::take(&mut self.in_flight);
        let mut writes = std::mem::take(&mut self.visible);
        while !in_flight.is_empty() {
            writes.push(in_flight.swap_remove(rng.index(in_flight.len())));
        }
        // Now and then the whole cache is lost or kept: both extremes find bugs of their own.
        let mood = if is_unflushed { 0 } else { rng.below(8) };
        for write in writes {
            match mood {
                0 => {}
                1 => write
                    .body
                    .apply(platter, write.offset, 0, write.body.bytes()),
                _ => {
                    for part in kept(&write.body, rng, lba_bytes) {
                        write
                            .body
                            .apply(platter, write.offset, part.start, part.end);
                    }
                }
            }
        }
    }

    /// Forgets everything (the drive was replaced).
    pub fn clear(&mut self) {
        self.in_flight.clear();
        self.visible.clear();
    }
}

/// The sectors of `range`: the newest of `visible` that covers it, or the platter.
fn cells(visible: &[Pending], platter: &Platter, range: &Range<u64>) -> Vec<Cell> {
    let mut over: Vec<&Pending> = Vec::new();
    over.extend(visible.iter().filter(|write| write.overlaps(range)));
    let sectors = range.start / SECTOR_BYTES..range.end / SECTOR_BYTES;
    sectors
        .map(|sector| {
            let at = sector * SECTOR_BYTES;
            let mut newest = over.iter().rev();
            match newest.find(|write| write.overlaps(&(at..at + 1))) {
                Some(write) => write.body.cell(at - write.offset),
                None => platter.cell(sector),
            }
        })
        .collect()
}

/// The parts of a write of which some units are stored and some are not.
fn kept(body: &Body, rng: &mut Rng, lba_bytes: u64) -> Vec<Range<u64>> {
    let units = units(body, lba_bytes);
    let count = units.len() as u64;
    let manner = rng.below(6);
    let cut = rng.within(0, count);
    let single = rng.below(count);
    let mut parts: Vec<Range<u64>> = Vec::new();
    for (index, unit) in (0_u64..).zip(units) {
        let is_kept = match manner {
            0 => false,
            1 => true,
            2 => index < cut,
            3 => index >= cut,
            4 => index != single,
            _ => rng.chance(1, 2),
        };
        match parts.last_mut() {
            _ if !is_kept => {}
            Some(last) if last.end == unit.start => last.end = unit.end,
            _ => parts.push(unit),
        }
    }
    parts
}

/// The units that a power failure keeps or loses as a whole: logical blocks of the drive, and
/// symbolic blocks, which have no parts.
fn units(body: &Body, lba_bytes: u64) -> Vec<Range<u64>> {
    let mut units = Vec::new();
    let (gather, part) = match body {
        Body::Gather(gather) => (gather, 0..gather.bytes()),
        Body::Part(gather, part) => (gather, part.clone()),
        Body::Zeroes(bytes) | Body::Noise(bytes, _) => {
            let zeroes = (0..*bytes).step_by(BLOCK_BYTES as usize);
            units.extend(zeroes.map(|at| at..(at + BLOCK_BYTES).min(*bytes)));
            return units;
        }
    };
    let mut symbolic: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    for segment in gather.segments() {
        if matches!(segment, Segment::Data(blocks, _) if blocks.is_elided()) {
            symbolic.push(at..at + segment.bytes());
        }
        at += segment.bytes();
    }
    let is_cut = |at: u64| {
        let mut inside = symbolic.iter().filter(|run| run.contains(&at));
        inside.all(|run| (at - run.start).is_multiple_of(BLOCK_BYTES))
    };
    let first = part.start;
    let mut start = first;
    for end in (first + lba_bytes..=part.end).step_by(lba_bytes as usize) {
        if end == part.end || is_cut(end) {
            units.push(start - first..end - first);
            start = end;
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use varve_io::{Blocks, Sectors};

    fn sector(value: u8) -> Gather {
        let mut gather = Gather::new();
        gather.push_meta(Sectors::from_bytes(&[value; SECTOR]));
        gather
    }

    fn write(cache: &mut Cache, id: u64, offset: u64, gather: Gather) {
        cache.begin(id, offset, Body::Gather(gather));
        cache.show(id);
        cache.complete(id);
    }

    fn first_byte(platter: &Platter, offset: u64) -> u8 {
        let mut bytes = [0; SECTOR];
        platter.read(offset, &mut bytes);
        bytes[0]
    }

    /// A flush keeps what was complete when it began; the rest meets every fate over some seeds.
    #[test]
    fn flushed_survives_the_rest_may_not() {
        let mut seen = BTreeSet::new();
        for seed in 0..60 {
            let (mut cache, mut platter) = (Cache::default(), Platter::default());
            write(&mut cache, 1, 0, sector(1));
            let mark = cache.mark();
            write(&mut cache, 2, 0, sector(2));
            write(&mut cache, 3, 512, sector(3));
            cache.destage(&mut platter, mark);
            cache.fail(&mut platter, &mut Rng::new(seed), 512, false);
            seen.insert((first_byte(&platter, 0), first_byte(&platter, 512)));
        }
        let all: BTreeSet<(u8, u8)> = [(1, 0), (1, 3), (2, 0), (2, 3)].into();
        assert_eq!(seen, all);
    }

    /// A completed write that hides an older one in flight never gives way to it.
    #[test]
    fn destaging_keeps_the_visible_order() {
        let (mut cache, mut platter) = (Cache::default(), Platter::default());
        cache.begin(1, 0, Body::Gather(sector(1)));
        cache.show(1);
        write(&mut cache, 2, 0, sector(2));
        let mark = cache.mark();
        cache.destage(&mut platter, mark);
        let mut bytes = [0; SECTOR];
        platter.read(0, &mut bytes);
        cache.overlay(0, &mut bytes);
        assert_eq!(bytes[0], 2);
    }

    /// Symbolic blocks are torn at block borders only, wherever they start.
    #[test]
    fn symbols_are_not_torn() {
        let mut gather = sector(1);
        gather.push_data(Blocks::elided(2));
        let cuts = units(&Body::Gather(gather), 512);
        assert_eq!(cuts, [0..512, 512..4608, 4608..8704]);
    }

    /// Of a write that is stored in part those sectors are seen, and survive a flush, that were stored; a power failure
    /// before that tears it once more.
    #[test]
    fn parts_of_a_write_are_stored() {
        let mut seen = BTreeSet::new();
        for seed in 0..60 {
            let (mut cache, mut platter) = (Cache::default(), Platter::default());
            let mut gather = sector(1);
            (2..=4).for_each(|value| gather.push(sector(value).segments()[0].clone()));
            cache.begin(1, 512, Body::Gather(gather));
            cache.show(1);
            let stored = cache.keep_some(&mut Rng::new(seed), 512);
            let mut bytes = [0; 6 * SECTOR];
            cache.overlay(0, &mut bytes);
            let is_stored = |at: u64| stored.iter().any(|range| range.contains(&at));
            for (value, at) in (0_u64..6).zip((0..).step_by(512)) {
                let held = if is_stored(at) { value as u8 } else { 0 };
                assert_eq!(bytes[at as usize], held, "seed {seed}, sector {value}");
            }
            let mut torn = Platter::default();
            let mut lost = Cache::default();
            std::mem::swap(&mut lost, &mut cache);
            if seed % 2 == 0 {
                lost.complete(1);
                let mark = lost.mark();
                lost.destage(&mut platter, mark);
                assert!(lost.visible.is_empty(), "all parts are complete");
                let on_platter: Vec<u8> = (0..6).map(|at| first_byte(&platter, at * 512)).collect();
                let first: Vec<u8> = bytes.iter().step_by(SECTOR).copied().collect();
                assert_eq!(on_platter, first);
                seen.insert(on_platter);
            } else {
                lost.fail(&mut torn, &mut Rng::new(seed), 512, false);
                let kept = |at: u64| first_byte(&torn, at) != 0;
                assert!((0..6).all(|at| is_stored(at * 512) || !kept(at * 512)));
            }
        }
        assert!(seen.contains([0; 6].as_slice()) && seen.contains([0, 1, 2, 3, 4, 0].as_slice()));
        assert!(seen.len() > 5, "{seen:?}");
    }
}
