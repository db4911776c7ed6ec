//! What a simulated drive is made of: content, cache, flaws, and what the next write will meet.

use super::ailment::Ailments;
use super::misread::Misread;
use super::refusal::{Refusals, Sent};
use super::spell::Spells;
use super::{DriveSpec, WriteFault};
use crate::atlas::Atlas;
use crate::cache::{Body, Cache};
use crate::laps::Laps;
use crate::platter::{Cell, Platter, join};
use crate::rng::Rng;
use crate::shortage::Refusal;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use varve_format::LEAF_BYTES;
use varve_io::{Blocks, Command, Done, IoError, Outcome, Segment, Target};
use varve_pool::label::RESERVED_BYTES;
use varve_units::{BLOCK, BLOCK_BYTES, Nanos, SECTOR, SECTOR_BYTES};

/// Commands that a drive remembers for failure reports.
const TRACE_MAX: usize = 48;
/// Time until a drive that is gone fails a command. Arbitrary.
pub(super) const GONE_NS: u64 = 50_000;
/// How much slower a slow drive is.
const SLOW_FACTOR: u64 = 100;
/// How much longer a read takes that the drive tries again and again: as long as it takes deep
/// queues to write all free chunks, so that its own is reused under it.
const SLOW_READ_FACTOR: u64 = 60;
/// Of so many reads one, while reads are slow: the cleaner's must not all wait, or nothing is
/// reused under the others.
const SLOW_READS_ONE_IN: u64 = 12;
/// Of so many reads one, while reads hang: the others must go on, or nothing is reused under it.
const HUNG_READS_ONE_IN: u64 = 32;
/// Of so many reads as long as a leaf one, while those hang: the cleaner's must not all wait.
const HUNG_LEAVES_ONE_IN: u64 = 8;
/// Bytes of a read of one leaf: with whole sectors before it and behind.
const LEAF_READ: RangeInclusive<usize> = LEAF_BYTES..=LEAF_BYTES + 2 * BLOCK_BYTES as usize;
/// How long a read hangs: as long as hosts take to write the whole log, at least. Arbitrary.
const HUNG_NS: (u64, u64) = (8 << 20, 256 << 20);
/// How long a repair hangs: as long as it takes to empty, commit and reuse a chunk, and within one life. Arbitrary.
const HUNG_REPAIR_NS: (u64, u64) = (1 << 20, 32 << 20);

/// What hides the content of a sector until it is written again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Flaw {
    /// Reads fail.
    Media,
    /// Reads fail, and go on failing once it is written again.
    Bad {
        /// Writes fail too.
        refuses: bool,
        /// It was written since.
        is_rewritten: bool,
    },
    /// None any more: a read met one. Its claim stays, for who reads another copy because of it.
    Spent,
    /// One byte reads with bits flipped.
    Rot { byte: usize, mask: u8 },
    /// Reads give this instead: what a lost write left, or a misdirected one put there.
    Instead(Cell),
}

/// One command as the trace keeps it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace {
    pub(super) at: Nanos,
    pub(super) kind: &'static str,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) outcome: &'static str,
}

pub(super) struct State {
    pub(super) index: usize,
    pub(super) spec: DriveSpec,
    pub(super) rng: Rng,
    pub(super) platter: Platter,
    pub(super) cache: Cache,
    pub(super) flaws: BTreeMap<u64, Flaw>,
    pub(super) armed: Vec<WriteFault>,
    /// Reads that will go elsewhere.
    pub(super) misreads: Vec<Misread>,
    /// Writes in flight that will end with an error.
    pub(super) doomed: Vec<(u64, IoError)>,
    /// What its tier refuses, if it is one that may.
    pub(super) refusals: Option<Rc<RefCell<Refusals>>>,
    pub(super) atlas: Rc<RefCell<Atlas>>,
    pub(super) is_gone: bool,
    /// Another one is in its place: nothing but its labels may be read.
    pub(super) is_given_up: bool,
    /// What it will not do any more, as long as it is in use.
    pub(super) ailments: Ailments,
    /// True from when it answers again until it is lost or replaced again, or found whole.
    pub(super) has_returned: bool,
    /// Which physical drive this is: counts replacements.
    pub(super) incarnation: u64,
    pub(super) spells: Spells,
    pub(super) outage: Option<(Refusal, Nanos)>,
    pub(super) laps: Option<Rc<RefCell<Laps>>>,
    pub(super) next: u64,
    pub(super) trace: VecDeque<Trace>,
    pub(super) tally: BTreeMap<&'static str, u64>,
}

/// The sectors of a byte range.
pub(super) fn sectors(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR_BYTES..range.end / SECTOR_BYTES
}

impl State {
    pub(super) fn count(&mut self, name: &'static str) {
        *self.tally.entry(name).or_default() += 1;
    }

    /// A blank drive for the place of this one, which goes on outside the machine: what the machine counts and
    /// watches is the new one's.
    pub(super) fn successor(&mut self) -> Self {
        self.armed.clear();
        self.misreads.clear();
        self.doomed.clear();
        self.count("handed_over");
        Self {
            index: self.index,
            spec: self.spec,
            rng: self.rng.split("successor"),
            platter: Platter::default(),
            cache: Cache::default(),
            flaws: BTreeMap::new(),
            armed: Vec::new(),
            misreads: Vec::new(),
            doomed: Vec::new(),
            refusals: self.refusals.take(),
            atlas: Rc::clone(&self.atlas),
            is_gone: false,
            is_given_up: false,
            ailments: Ailments::default(),
            has_returned: false,
            incarnation: self.incarnation + 1,
            spells: Spells::default(),
            outage: self.outage,
            laps: self.laps.take(),
            next: self.next,
            trace: mem::take(&mut self.trace),
            tally: mem::take(&mut self.tally),
        }
    }

    pub(super) fn claim(&self, range: &Range<u64>) -> bool {
        self.atlas.borrow_mut().claim(self.index, range.clone())
    }

    /// A short range at a place that was written.
    pub(super) fn written_range(&self, rng: &mut Rng) -> Option<Range<u64>> {
        let lba = u64::from(self.spec.lba_bytes);
        let from = rng.below(self.spec.bytes);
        let page = self
            .platter
            .written_from(from)
            .or_else(|| self.platter.written_from(0))?;
        let start = page + rng.below(BLOCK_BYTES / lba) * lba;
        let end = (start + rng.magnitude(1, 32) * lba).min(self.spec.bytes);
        Some(start..end)
    }

    pub(super) fn latency(&mut self, now: Nanos, kind: Kind) -> u64 {
        let (low, high) = match kind {
            Kind::Read => (15_000, 90_000),
            Kind::Write => (8_000, 60_000),
            Kind::Flush => (30_000, 400_000),
        };
        let drawn = self.rng.within(low, high);
        let drawn = if self.rng.chance(1, 200) {
            drawn * 20
        } else {
            drawn
        };
        let is_read = matches!(kind, Kind::Read);
        let spells = &mut self.spells;
        let (name, latency) = if is_read
            && spells.hung_reads.is_on(now)
            && self.rng.chance(1, HUNG_READS_ONE_IN)
        {
            let hangs = self.rng.magnitude(HUNG_NS.0, HUNG_NS.1);
            (spells.hung_reads.strikes("hung_reads"), hangs)
        } else if is_read && spells.slow_reads.is_on(now) && self.rng.chance(1, SLOW_READS_ONE_IN) {
            let name = spells.slow_reads.strikes("slow_reads");
            (name, drawn * SLOW_READ_FACTOR)
        } else if spells.slow.is_on(now) {
            (spells.slow.strikes("slow"), drawn * SLOW_FACTOR)
        } else {
            (None, drawn)
        };
        name.into_iter().for_each(|name| self.count(name));
        latency
    }

    pub(super) fn read_latency(&mut self, now: Nanos, into: &Target) -> u64 {
        if self.spells.hung_leaves.is_on(now)
            && matches!(into, Target::Meta(into) if LEAF_READ.contains(&into.bytes().len()))
            && self.rng.chance(1, HUNG_LEAVES_ONE_IN)
        {
            let name = self.spells.hung_leaves.strikes("hung_leaf_reads");
            name.into_iter().for_each(|name| self.count(name));
            return self.rng.magnitude(HUNG_NS.0, HUNG_NS.1);
        }
        self.latency(now, Kind::Read)
    }

    /// Of what is written a single block of data and nothing else is a repair: arrays send it as any other write.
    pub(super) fn write_latency(&mut self, now: Nanos, body: &Body) -> u64 {
        let is_repair = || match body {
            Body::Gather(gather) => matches!(
                gather.segments(),
                [Segment::Data(_, blocks)] if blocks.len() == 1
            ),
            _ => false,
        };
        if self.spec.hangs_repairs && is_repair() {
            self.count("hung_repairs");
            return self.rng.magnitude(HUNG_REPAIR_NS.0, HUNG_REPAIR_NS.1);
        }
        self.latency(now, Kind::Write)
    }

    /// What becomes of a range that is discarded, if anything: half of the hints are taken.
    pub(super) fn take_hint(&mut self, length: u64) -> Option<Body> {
        if !self.rng.chance(1, 2) {
            return None;
        }
        if self.rng.chance(1, 2) {
            return Some(Body::Zeroes(length));
        }
        self.count("discarded_to_noise");
        Some(Body::Noise(length, self.rng.bits()))
    }

    /// How a command is refused, if the drive takes nothing now.
    pub(super) fn refusal(&self, now: Nanos, command: &Command) -> Option<Refusal> {
        let (refusal, until) = self.outage?;
        let (offset, is_refused) = match command {
            Command::Write { offset, .. } => (*offset, true),
            Command::Read { offset, .. } => (*offset, refusal.reads),
            // What is there already has its room.
            Command::Repair { offset, .. } | Command::Discard { offset, .. } => {
                (*offset, refusal.error != IoError::NoSpace)
            }
            Command::Flush => (RESERVED_BYTES, false),
        };
        let is_refused = refusal.is_whole || (is_refused && offset >= RESERVED_BYTES);
        (is_refused && now < until).then_some(refusal)
    }

    pub(super) fn record(&mut self, trace: Trace) {
        if self.trace.len() == TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back(trace);
    }

    /// A write was sent to it that its tier may refuse. Not one of labels: what those of a pool promise
    /// follows from how many drives take them.
    pub(super) fn note_sent(&mut self, at: Nanos, id: u64, range: &Range<u64>) {
        let Some(refusals) = &self.refusals else {
            return;
        };
        if range.start < RESERVED_BYTES || !refusals.borrow().is_armed() {
            return;
        }
        if !self.atlas.borrow().may_refuse(self.index, range) {
            return;
        }
        let sent = Sent {
            drive: self.index,
            id,
            at,
            offset: range.start,
            length: range.end - range.start,
        };
        refusals.borrow_mut().note(sent);
    }

    /// Reads see write `id` from now on; a fault may strike it.
    pub(super) fn show(&mut self, id: u64) {
        let Some(write) = self.cache.show(id) else {
            return;
        };
        let (range, body) = (write.range(), write.body.clone());
        let refusals = self.refusals.as_ref();
        let refused = refusals.and_then(|tier| tier.borrow_mut().take(self.index, id));
        if let Some(error) = refused {
            self.count("refused_stripe");
            self.store_some(id, error);
            return;
        }
        if matches!(body, Body::Gather(_)) && self.is_refused(&range) {
            self.count("bad_range_write");
            self.store_some(id, IoError::Media);
            return;
        }
        let fault = matches!(body, Body::Gather(_))
            .then(|| self.next_fault(&range))
            .flatten();
        if let Some(WriteFault::Refused(error)) = fault {
            self.count("refused_write");
            self.atlas.borrow_mut().lose(self.index);
            self.store_some(id, error);
            return;
        }
        let before = fault.map(|fault| (fault, self.cells_before(&range)));
        self.lift(&range);
        if let Some((fault, before)) = before {
            self.strike(fault, id, &range, &body, before);
        }
    }

    /// The fault that strikes a write to this range, if one may; it is spent.
    fn next_fault(&mut self, range: &Range<u64>) -> Option<WriteFault> {
        let refusals = self.refusals.as_ref();
        if let Some(tier) = refusals
            && tier.borrow().is_to_be_lost(self.index, range.start)
            && self.may_strike(WriteFault::Lost, range)
        {
            tier.borrow_mut().forget_loss();
            return Some(WriteFault::Lost);
        }
        let mut armed = self.armed.iter();
        let index = armed.position(|&fault| self.may_strike(fault, range))?;
        Some(self.armed.remove(index))
    }

    /// The write that became visible last is stored in part, and will be refused.
    fn store_some(&mut self, id: u64, error: IoError) {
        let lba_bytes = u64::from(self.spec.lba_bytes);
        for part in self.cache.keep_some(&mut self.rng, lba_bytes) {
            self.lift(&part);
        }
        self.doomed.push((id, error));
    }

    /// True if the atlas would let a fault strike a write. What it asks is how the other drives
    /// are, so the claims that the write itself ends do not matter.
    fn may_strike(&self, fault: WriteFault, range: &Range<u64>) -> bool {
        let atlas = self.atlas.borrow();
        match fault {
            WriteFault::Lost => atlas.may_claim(self.index, range),
            WriteFault::Misdirected(blocks) => {
                let other = self.misdirected(blocks, range);
                atlas.may_claim(self.index, range)
                    && other.is_some_and(|other| atlas.may_claim(self.index, &other))
            }
            WriteFault::Error | WriteFault::Refused(_) => atlas.may_lose(self.index),
        }
    }

    /// Where a misdirected write to a range goes, if that is apart from it and on the drive.
    pub(super) fn misdirected(&self, blocks: u64, range: &Range<u64>) -> Option<Range<u64>> {
        let lba = u64::from(self.spec.lba_bytes);
        let start = (range.start + blocks * lba) % self.spec.bytes;
        let other = start..start + (range.end - range.start);
        let is_apart = other.end <= range.start || range.end <= other.start;
        (is_apart && other.end <= self.spec.bytes).then_some(other)
    }

    /// The sectors of a range as they were before the write that became visible last.
    fn cells_before(&self, range: &Range<u64>) -> Vec<Cell> {
        let mut cells = self.cache.cells_below(&self.platter, range);
        for (sector, cell) in sectors(range).zip(&mut cells) {
            if let Some(Flaw::Instead(content)) = self.flaws.get(&sector) {
                *cell = content.clone();
            }
        }
        cells
    }

    /// The range was written: its flaws end, but for those that outlive that.
    fn lift(&mut self, range: &Range<u64>) {
        if self.flaws.is_empty() {
            return;
        }
        if self.mark_rewritten(range) {
            self.lift_around(range);
            return;
        }
        let hidden: Vec<u64> = self
            .flaws
            .range(sectors(range))
            .map(|(&key, _)| key)
            .collect();
        if !hidden.is_empty() {
            for sector in hidden {
                self.flaws.remove(&sector);
            }
            self.atlas.borrow_mut().release(self.index, range.clone());
        }
    }

    /// A fault strikes the write that became visible last; it was asked whether it may.
    fn strike(
        &mut self,
        fault: WriteFault,
        id: u64,
        range: &Range<u64>,
        body: &Body,
        before: Vec<Cell>,
    ) {
        let name = match fault {
            WriteFault::Misdirected(blocks) => {
                self.misdirect(blocks, range, body);
                "misdirected_write"
            }
            WriteFault::Lost => {
                let claimed = self.claim(range);
                assert!(claimed, "a fault within redundancy");
                "lost_write"
            }
            WriteFault::Error => {
                // Whoever sees it may stop using the drive: to the atlas the whole drive is lost.
                let lost = self.atlas.borrow_mut().lose(self.index);
                assert!(lost, "a fault within redundancy");
                self.doomed.push((id, IoError::Media));
                "write_error"
            }
            WriteFault::Refused(_) => unreachable!("stored in part"),
        };
        for (sector, cell) in sectors(range).zip(before) {
            self.put_flaw(sector, Flaw::Instead(cell));
        }
        self.count(name);
    }

    /// Puts the content of a write elsewhere as well.
    fn misdirect(&mut self, blocks: u64, range: &Range<u64>, body: &Body) {
        let other = self.misdirected(blocks, range).expect("a place elsewhere");
        let claimed = self
            .atlas
            .borrow_mut()
            .claim_both(self.index, range.clone(), other.clone());
        assert!(claimed, "a fault within redundancy");
        for sector in sectors(&other) {
            let cell = body.cell(sector * SECTOR_BYTES - other.start);
            self.put_flaw(sector, Flaw::Instead(cell));
        }
    }

    /// Completes write `id`; its outcome.
    pub(super) fn finish_write(&mut self, id: u64) -> Outcome {
        self.cache.complete(id);
        if !self.spec.volatile_cache {
            let mark = self.cache.mark();
            self.cache.destage(&mut self.platter, mark);
        }
        self.cache.relieve(&mut self.platter);
        if let Some(index) = self.doomed.iter().position(|&(doomed, _)| doomed == id) {
            let (_, error) = self.doomed.swap_remove(index);
            return Err(error);
        }
        Ok(Done::Nothing)
    }

    pub(super) fn read(&mut self, now: Nanos, offset: u64, into: Target) -> Outcome {
        let range = offset..offset + into.bytes();
        let misread = self.begin_misread(&range, now);
        if !self.flaws.is_empty() && self.flaws.range(sectors(&range)).next().is_some() {
            self.atlas.borrow_mut().note_hit(self.index, &range, now);
        }
        if self.is_unreadable(&range) {
            return Err(IoError::Media);
        }
        let done = Done::Read(match into {
            Target::Meta(mut sectors) => {
                self.read_bytes(offset, sectors.bytes_mut());
                Target::Meta(sectors)
            }
            Target::Data(mut blocks) if blocks.is_elided() => {
                self.read_symbols(offset, &mut blocks);
                Target::Data(blocks)
            }
            Target::Data(mut blocks) => {
                self.read_blocks(offset, &mut blocks);
                Target::Data(blocks)
            }
        });
        if let Some(misread) = misread {
            self.end_misread(misread, &range);
        }
        Ok(done)
    }

    fn read_bytes(&mut self, offset: u64, bytes: &mut [u8]) {
        self.platter.read(offset, bytes);
        self.hide(offset, bytes);
    }

    fn read_blocks(&mut self, offset: u64, blocks: &mut Blocks) {
        // Fresh memory: its zeroes take none before something else is put there.
        *blocks = Blocks::zeroed(blocks.len());
        self.platter.read_blocks(offset, blocks);
        let range = offset..offset + blocks.len() as u64 * BLOCK_BYTES;
        if self.is_hidden(&range) {
            self.hide(offset, blocks.bytes_mut());
        }
    }

    /// True if anything in the cache or any flaw lies over a part of the platter.
    fn is_hidden(&self, range: &Range<u64>) -> bool {
        self.cache.covers(range)
            || !self.flaws.is_empty() && self.flaws.range(sectors(range)).next().is_some()
    }

    /// Puts cache and flaws over bytes of the platter.
    fn hide(&mut self, offset: u64, bytes: &mut [u8]) {
        self.cache.overlay(offset, bytes);
        let range = offset..offset + bytes.len() as u64;
        let mut hits = 0;
        for (sector, flaw) in self.flaws.range(sectors(&range)) {
            let at = (sector * SECTOR_BYTES - offset) as usize;
            match flaw {
                Flaw::Media | Flaw::Bad { .. } => unreachable!("such reads have failed"),
                Flaw::Spent => continue,
                Flaw::Rot { byte, mask } => bytes[at + byte] ^= mask,
                Flaw::Instead(cell) => cell.copy_to(&mut bytes[at..at + SECTOR]),
            }
            hits += 1;
        }
        if hits > 0 {
            self.count("corruption_hit");
        }
    }

    fn read_symbols(&mut self, offset: u64, blocks: &mut Blocks) {
        let range = offset..offset + blocks.len() as u64 * BLOCK_BYTES;
        let mut cells = self.cache.cells(&self.platter, &range);
        let mut hits = 0;
        for (sector, flaw) in self.flaws.range(sectors(&range)) {
            let cell = &mut cells[(sector - range.start / SECTOR_BYTES) as usize];
            match flaw {
                Flaw::Media | Flaw::Bad { .. } => unreachable!("such reads have failed"),
                Flaw::Spent => continue,
                Flaw::Rot { byte, mask } => rot_cell(cell, *byte, *mask),
                Flaw::Instead(content) => *cell = content.clone(),
            }
            hits += 1;
        }
        let symbols = blocks.symbols_mut();
        for (symbol, parts) in symbols.iter_mut().zip(cells.chunks(BLOCK / SECTOR)) {
            *symbol = join(parts);
        }
        if hits > 0 {
            self.count("corruption_hit");
        }
    }
}

fn rot_cell(cell: &mut Cell, byte: usize, mask: u8) {
    match cell {
        Cell::Bytes(bytes) => bytes[byte] ^= mask,
        Cell::Symbol(symbol, _) => *symbol ^= u64::from(mask) << 40,
    }
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
}
