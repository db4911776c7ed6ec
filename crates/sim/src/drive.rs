//! The simulated drive: latency, a volatile cache, faults, a trace.
//!
//! A [`SimDrive`] outlives crashes; [`SimDrive::attach`] gives the [`Drive`] that one life of the
//! pool uses. Commands complete out of order. A write becomes visible to reads at some moment
//! between submission and completion.
//!
//! Faults lie over pristine content: a flaw hides a sector until the sector is written again.
//! Each flaw is claimed from the fault atlas first and released when it ends.
//!
//! **Not here**: whether a fault may strike (`atlas`), when (`scenario`).

use crate::atlas::Atlas;
use crate::cache::{Body, Cache};
use crate::executor::Reactor;
use crate::fingerprint::{Action, hash_bytes};
use crate::laps::Laps;
use crate::platter::{Cell, Platter, join};
use crate::rng::Rng;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use varve_io::{
    Blocks, Command, Completion, Done, Drive, DriveInfo, Gather, IoError, Outcome, Sectors,
    Segment, Sender, Target, World,
};
use varve_units::{BLOCK, BLOCK_BYTES, Nanos, SECTOR, SECTOR_BYTES};

/// Commands that a drive remembers for failure reports.
const TRACE_MAX: usize = 48;
/// Time until a drive that is gone fails a command. Arbitrary.
const GONE_NS: u64 = 50_000;
/// How much slower a slow drive is.
const SLOW_FACTOR: u64 = 100;
/// How much longer a read takes that the drive tries again and again: as long as it takes deep
/// queues to write all free chunks, so that its own is reused under it.
const SLOW_READ_FACTOR: u64 = 60;
/// Of so many reads one, while reads are slow: the cleaner's must not all wait, or nothing is
/// reused under the others.
const SLOW_READS_ONE_IN: u64 = 12;

/// What a drive is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveSpec {
    /// Size in bytes.
    pub bytes: u64,
    /// 512 or 4096.
    pub lba_bytes: u32,
    /// True if completed writes wait for a flush.
    pub volatile_cache: bool,
}

/// What hides the content of a sector until it is written again.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Flaw {
    /// Reads fail.
    Media,
    /// One byte reads with bits flipped.
    Rot { byte: usize, mask: u8 },
    /// Reads give this instead: what a lost write left, or a misdirected one put there.
    Instead(Cell),
}

/// A fault that strikes the next write the atlas lets it strike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WriteFault {
    /// Acknowledged, but nothing was written.
    Lost,
    /// Acknowledged, but written this many logical blocks further (modulo the drive).
    Misdirected(u64),
    /// Refused with a media error; nothing was written.
    Error,
}

/// One command as the trace keeps it.
#[derive(Clone, Copy, Debug)]
struct Trace {
    at: Nanos,
    kind: &'static str,
    offset: u64,
    length: u64,
    outcome: &'static str,
}

struct State {
    index: usize,
    spec: DriveSpec,
    rng: Rng,
    platter: Platter,
    cache: Cache,
    flaws: BTreeMap<u64, Flaw>,
    armed: Vec<WriteFault>,
    /// Writes in flight that will end with an error.
    doomed: Vec<u64>,
    atlas: Rc<RefCell<Atlas>>,
    is_gone: bool,
    /// True from when it answers again until it is lost or replaced again, or found whole.
    has_returned: bool,
    /// Which physical drive this is: counts replacements.
    incarnation: u64,
    slow_until: Nanos,
    slow_reads_until: Nanos,
    laps: Option<Rc<RefCell<Laps>>>,
    next: u64,
    trace: VecDeque<Trace>,
    tally: BTreeMap<&'static str, u64>,
}

/// A drive of the simulated machine, surviving the crashes of the pool.
#[derive(Clone)]
pub struct SimDrive(Rc<RefCell<State>>);

impl SimDrive {
    /// A blank drive, number `index` of the pool.
    #[must_use]
    pub fn new(index: usize, spec: DriveSpec, rng: Rng, atlas: Rc<RefCell<Atlas>>) -> Self {
        assert!(spec.bytes.is_multiple_of(BLOCK_BYTES), "whole blocks");
        Self(Rc::new(RefCell::new(State {
            index,
            spec,
            rng,
            platter: Platter::default(),
            cache: Cache::default(),
            flaws: BTreeMap::new(),
            armed: Vec::new(),
            doomed: Vec::new(),
            atlas,
            is_gone: false,
            has_returned: false,
            incarnation: 0,
            slow_until: Nanos(0),
            slow_reads_until: Nanos(0),
            laps: None,
            next: 0,
            trace: VecDeque::new(),
            tally: BTreeMap::new(),
        })))
    }

    /// From now on `laps` sees every write.
    pub fn watch(&self, laps: Rc<RefCell<Laps>>) {
        self.0.borrow_mut().laps = Some(laps);
    }

    /// The drive as one life of the pool sees it.
    #[must_use]
    pub fn attach(&self, reactor: &Rc<Reactor>) -> Rc<dyn Drive> {
        Rc::new(Attached {
            state: Rc::clone(&self.0),
            incarnation: self.0.borrow().incarnation,
            reactor: Rc::clone(reactor),
        })
    }

    /// The power fails: whatever was not durable is kept, lost or torn.
    pub fn power_fail(&self) {
        let state = &mut *self.0.borrow_mut();
        let lba_bytes = u64::from(state.spec.lba_bytes);
        state
            .cache
            .fail(&mut state.platter, &mut state.rng, lba_bytes);
        state.doomed.clear();
        state.slow_until = Nanos(0);
        state.slow_reads_until = Nanos(0);
    }

    /// Reads of a range near a random written place fail until it is rewritten. False if the
    /// atlas refuses.
    pub fn break_media(&self, rng: &mut Rng) -> bool {
        self.plant("media_error", rng, |_| Flaw::Media)
    }

    /// Bits flip in a range near a random written place. False if the atlas refuses.
    pub fn rot(&self, rng: &mut Rng) -> bool {
        self.plant("bit_rot", rng, |rng| Flaw::Rot {
            byte: rng.index(SECTOR),
            mask: 1 << rng.below(8),
        })
    }

    fn plant(&self, name: &'static str, rng: &mut Rng, flaw: impl Fn(&mut Rng) -> Flaw) -> bool {
        let state = &mut *self.0.borrow_mut();
        if state.is_gone {
            return false;
        }
        let Some(range) = state.written_range(rng) else {
            return false;
        };
        if !state.claim(&range) {
            return false;
        }
        for sector in sectors(&range) {
            state.flaws.insert(sector, flaw(rng));
        }
        state.count(name);
        true
    }

    /// The next write that the atlas lets it strike meets this fault.
    pub fn arm(&self, fault: WriteFault) {
        self.0.borrow_mut().armed.push(fault);
    }

    /// Forgets faults that have not struck yet.
    pub fn disarm(&self) {
        self.0.borrow_mut().armed.clear();
    }

    /// Every command fails from now on. False if the atlas refuses.
    pub fn lose(&self) -> bool {
        let state = &mut *self.0.borrow_mut();
        let index = state.index;
        if !state.atlas.borrow_mut().lose(index) {
            return false;
        }
        state.is_gone = true;
        state.count("gone");
        true
    }

    /// True while it does not answer.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.borrow().is_gone
    }

    /// Answers again, with what it held. The atlas still counts it as lost.
    pub fn come_back(&self) {
        let state = &mut *self.0.borrow_mut();
        assert!(state.is_gone, "only a lost drive comes back");
        state.is_gone = false;
        state.has_returned = true;
        state.count("came_back");
    }

    /// True if it answers again with what it held, and may have missed writes.
    #[must_use]
    pub fn has_returned(&self) -> bool {
        self.0.borrow().has_returned
    }

    /// The pool says that a drive that returned holds all it should: it never missed a write.
    pub fn found_whole(&self) {
        let state = &mut *self.0.borrow_mut();
        assert!(state.has_returned, "only what was away is found whole");
        state.has_returned = false;
        state.atlas.borrow_mut().found_whole(state.index);
        state.count("returned_whole");
    }

    /// A blank drive takes its place, reached by attaching anew: who attached before finds the old
    /// one gone. The atlas still counts it as lost.
    pub fn replace(&self) {
        let state = &mut *self.0.borrow_mut();
        state.platter = Platter::default();
        state.cache.clear();
        state.flaws.clear();
        state.doomed.clear();
        state.is_gone = false;
        state.has_returned = false;
        state.incarnation += 1;
        state.count("replaced");
    }

    /// Everything takes a hundred times as long until `until`.
    pub fn slow_down(&self, until: Nanos) {
        let state = &mut *self.0.borrow_mut();
        state.slow_until = until;
        state.count("slow");
    }

    /// Some reads take sixty times as long until `until`: much is moved and reused under them.
    pub fn slow_reads(&self, until: Nanos) {
        let state = &mut *self.0.borrow_mut();
        state.slow_reads_until = until;
        state.count("slow_reads");
    }

    /// Lifts all flaws: the content is pristine again.
    pub fn heal(&self) {
        let state = &mut *self.0.borrow_mut();
        let all = 0..state.spec.bytes;
        state.flaws.clear();
        state.armed.clear();
        state.atlas.borrow_mut().release(state.index, all);
    }

    /// Faults that struck, by name.
    #[must_use]
    pub fn tally(&self) -> BTreeMap<&'static str, u64> {
        self.0.borrow().tally.clone()
    }

    /// The last commands, oldest first, a line each.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        let state = self.0.borrow();
        let lines = state.trace.iter().map(|line| {
            format!(
                "drive {} at {}: {} {:#x}+{:#x} {}",
                state.index, line.at, line.kind, line.offset, line.length, line.outcome
            )
        });
        lines.collect()
    }
}

/// The sectors of a byte range.
fn sectors(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR_BYTES..range.end / SECTOR_BYTES
}

impl State {
    fn count(&mut self, name: &'static str) {
        *self.tally.entry(name).or_default() += 1;
    }

    fn claim(&self, range: &Range<u64>) -> bool {
        self.atlas.borrow_mut().claim(self.index, range.clone())
    }

    /// A short range at a place that was written.
    fn written_range(&self, rng: &mut Rng) -> Option<Range<u64>> {
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

    fn latency(&mut self, now: Nanos, kind: Kind) -> u64 {
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
        if is_read && now < self.slow_reads_until && self.rng.chance(1, SLOW_READS_ONE_IN) {
            drawn * SLOW_READ_FACTOR
        } else if now < self.slow_until {
            drawn * SLOW_FACTOR
        } else {
            drawn
        }
    }

    fn record(&mut self, trace: Trace) {
        if self.trace.len() == TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back(trace);
    }

    /// Reads see write `id` from now on; an armed fault may strike it.
    fn show(&mut self, id: u64) {
        let Some(write) = self.cache.show(id) else {
            return;
        };
        let (range, body) = (write.range(), write.body.clone());
        let fault = self.armed.first().copied();
        let fault = fault.filter(|_| matches!(body, Body::Gather(_)));
        let strikes = fault.is_some_and(|fault| self.may_strike(fault, &range));
        let before = strikes.then(|| self.cells_before(&range));
        self.lift(&range);
        if let Some(before) = before {
            self.strike(id, &range, &body, before);
        }
    }

    /// True if the atlas would let a fault strike a write. What it asks is how the other drives
    /// are, so the claims that the write itself ends do not matter.
    fn may_strike(&self, fault: WriteFault, range: &Range<u64>) -> bool {
        let atlas = self.atlas.borrow();
        match fault {
            WriteFault::Lost | WriteFault::Misdirected(_) => atlas.may_claim(self.index, range),
            WriteFault::Error => atlas.may_lose(self.index),
        }
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

    /// The range was written: its flaws end.
    fn lift(&mut self, range: &Range<u64>) {
        if self.flaws.is_empty() {
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

    /// The oldest armed fault strikes the write that became visible last, if it may.
    fn strike(&mut self, id: u64, range: &Range<u64>, body: &Body, before: Vec<Cell>) {
        let fault = self.armed[0];
        let name = match fault {
            WriteFault::Misdirected(blocks) => {
                if !self.misdirect(blocks, range, body) {
                    return;
                }
                "misdirected_write"
            }
            WriteFault::Lost => {
                if !self.claim(range) {
                    return;
                }
                "lost_write"
            }
            WriteFault::Error => {
                // Whoever sees it may stop using the drive: to the atlas the whole drive is lost.
                if !self.atlas.borrow_mut().lose(self.index) {
                    return;
                }
                self.doomed.push(id);
                "write_error"
            }
        };
        for (sector, cell) in sectors(range).zip(before) {
            self.flaws.insert(sector, Flaw::Instead(cell));
        }
        self.armed.remove(0);
        self.count(name);
    }

    /// Puts the content of a write elsewhere as well; false if that may not be.
    fn misdirect(&mut self, blocks: u64, range: &Range<u64>, body: &Body) -> bool {
        let length = range.end - range.start;
        let lba = u64::from(self.spec.lba_bytes);
        let start = (range.start + blocks * lba) % self.spec.bytes;
        let other = start..start + length;
        let is_apart = other.end <= range.start || range.end <= other.start;
        let mut atlas = self.atlas.borrow_mut();
        if other.end > self.spec.bytes
            || !is_apart
            || !atlas.claim_both(self.index, range.clone(), other.clone())
        {
            return false;
        }
        drop(atlas);
        for sector in sectors(&other) {
            let cell = body.cell(sector * SECTOR_BYTES - other.start);
            self.flaws.insert(sector, Flaw::Instead(cell));
        }
        true
    }

    /// Completes write `id`; its outcome.
    fn finish_write(&mut self, id: u64) -> Outcome {
        self.cache.complete(id);
        if !self.spec.volatile_cache {
            let mark = self.cache.mark();
            self.cache.destage(&mut self.platter, mark);
        }
        self.cache.relieve(&mut self.platter);
        if let Some(index) = self.doomed.iter().position(|&doomed| doomed == id) {
            self.doomed.swap_remove(index);
            return Err(IoError::Media);
        }
        Ok(Done::Nothing)
    }

    fn read(&mut self, offset: u64, into: Target) -> Outcome {
        let range = offset..offset + into.bytes();
        if !self.flaws.is_empty() {
            let mut hidden = self.flaws.range(sectors(&range));
            if hidden.any(|(_, flaw)| *flaw == Flaw::Media) {
                self.count("media_error_hit");
                return Err(IoError::Media);
            }
        }
        Ok(Done::Read(match into {
            Target::Meta(mut sectors) => {
                self.read_bytes(offset, sectors.bytes_mut());
                Target::Meta(sectors)
            }
            Target::Data(mut blocks) if blocks.is_elided() => {
                self.read_symbols(offset, &mut blocks);
                Target::Data(blocks)
            }
            Target::Data(mut blocks) => {
                self.read_bytes(offset, blocks.bytes_mut());
                Target::Data(blocks)
            }
        }))
    }

    fn read_bytes(&mut self, offset: u64, bytes: &mut [u8]) {
        self.platter.read(offset, bytes);
        self.cache.overlay(offset, bytes);
        let range = offset..offset + bytes.len() as u64;
        let mut hits = 0;
        for (sector, flaw) in self.flaws.range(sectors(&range)) {
            let at = (sector * SECTOR_BYTES - offset) as usize;
            match flaw {
                Flaw::Media => unreachable!("such reads have failed"),
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
                Flaw::Media => unreachable!("such reads have failed"),
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
enum Kind {
    Read,
    Write,
    Flush,
}

struct Attached {
    state: Rc<RefCell<State>>,
    incarnation: u64,
    reactor: Rc<Reactor>,
}

impl Attached {
    /// Ends a command: trace, action hash, answer.
    fn end(state: &mut State, reactor: &Reactor, mut trace: Trace, outcome: &Outcome) {
        trace.at = reactor.now();
        trace.outcome = match outcome {
            Ok(_) => "ok",
            Err(IoError::Media) => "media error",
            Err(IoError::Gone) => "gone",
            Err(_) => "error",
        };
        let code = u64::from(outcome.is_ok());
        let drive = state.index as u64;
        let particulars = [drive, trace.offset, trace.length, code];
        reactor.journal().add(Action::Complete, &particulars);
        state.record(trace);
    }

    /// Ends a command after its latency with what `outcome` gives then.
    fn later(
        &self,
        at: Nanos,
        trace: Trace,
        sender: Sender<Outcome>,
        outcome: impl FnOnce(&mut State) -> Outcome + 'static,
    ) {
        let (state, reactor) = (Rc::clone(&self.state), Rc::clone(&self.reactor));
        let incarnation = self.incarnation;
        self.reactor.at(at, move || {
            let outcome = {
                let state = &mut *state.borrow_mut();
                let outcome = if state.is_gone || state.incarnation != incarnation {
                    Err(IoError::Gone)
                } else {
                    outcome(state)
                };
                Self::end(state, &reactor, trace, &outcome);
                outcome
            };
            match trace.kind {
                "write" | "repair" => reactor.wrote(),
                "flush" => reactor.flushed(),
                _ => {}
            }
            sender.send(outcome);
        });
    }

    fn write(&self, now: Nanos, trace: Trace, body: Body, sender: Sender<Outcome>) {
        let (id, visible, complete) = {
            let state = &mut *self.state.borrow_mut();
            let id = state.next;
            state.next += 1;
            state.cache.begin(id, trace.offset, body);
            let span = state.latency(now, Kind::Write);
            (id, state.rng.within(0, span), span)
        };
        let state = Rc::clone(&self.state);
        // The later timer of the two is also the later one to fire if both are due at once.
        self.reactor.at(now + Nanos(visible), move || {
            let state = &mut *state.borrow_mut();
            if state.is_gone {
                let _ = state.cache.show(id);
            } else {
                state.show(id);
            }
        });
        self.later(now + Nanos(complete), trace, sender, move |state| {
            state.finish_write(id)
        });
    }

    fn is_gone(&self) -> bool {
        let state = self.state.borrow();
        state.is_gone || state.incarnation != self.incarnation
    }

    fn check(&self, offset: u64, length: u64) {
        let spec = self.state.borrow().spec;
        let lba = u64::from(spec.lba_bytes);
        assert!(length > 0, "an empty command");
        assert!(
            offset.is_multiple_of(lba) && length.is_multiple_of(lba),
            "misaligned command: {offset:#x}+{length:#x} on {lba} byte blocks"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= spec.bytes),
            "command beyond the end: {offset:#x}+{length:#x} of {:#x}",
            spec.bytes
        );
    }
}

/// Hash of what a gather holds: all of the metadata, the head of each block.
fn hash_gather(gather: &Gather) -> u64 {
    let mut hash = 0_u64;
    for segment in gather.segments() {
        let part = match segment {
            Segment::Meta(sectors) => hash_bytes(sectors.bytes()),
            Segment::Data(blocks, range) => hash_data(blocks, range),
        };
        hash = crate::fingerprint::mix(hash ^ part);
    }
    hash
}

fn hash_data(blocks: &Blocks, range: &Range<usize>) -> u64 {
    range.clone().fold(0, |hash, index| {
        let part = match blocks.block(index) {
            varve_io::BlockRef::Bytes(bytes) => hash_bytes(&bytes[..64]),
            varve_io::BlockRef::Symbol(symbol) => symbol,
        };
        crate::fingerprint::mix(hash ^ part)
    })
}

/// Name, offset, length and content hash of a command.
fn describe(command: &Command) -> (&'static str, u64, u64, u64) {
    match command {
        Command::Read { offset, into, copy } => ("read", *offset, into.bytes(), u64::from(*copy)),
        Command::Write { offset, gather } => {
            ("write", *offset, gather.bytes(), hash_gather(gather))
        }
        Command::Repair { offset, gather, .. } => {
            ("repair", *offset, gather.bytes(), hash_gather(gather))
        }
        Command::Flush => ("flush", 0, 0, 0),
        Command::Discard { offset, length } => ("discard", *offset, *length, 0),
    }
}

impl Drive for Attached {
    fn info(&self) -> DriveInfo {
        let spec = self.state.borrow().spec;
        DriveInfo {
            bytes: spec.bytes,
            lba_bytes: spec.lba_bytes,
            volatile_cache: spec.volatile_cache,
            copies: 1,
        }
    }

    fn submit(&self, command: Command) -> Completion {
        let (sender, completion) = Completion::waiting();
        if self.reactor.is_dead() {
            return completion;
        }
        let (kind, offset, length, content) = describe(&command);
        if kind != "flush" {
            self.check(offset, length);
        }
        let now = self.reactor.now();
        let drive = self.state.borrow().index as u64;
        let word = u64::from(kind.as_bytes()[0]);
        let particulars = [drive, word, offset, length, content];
        self.reactor.journal().add(Action::Submit, &particulars);
        let trace = Trace {
            at: now,
            kind,
            offset,
            length,
            outcome: "",
        };
        if self.is_gone() {
            let gone = |_: &mut State| Err(IoError::Gone);
            self.later(now + Nanos(GONE_NS), trace, sender, gone);
            return completion;
        }
        match command {
            Command::Read { offset, into, .. } => {
                let span = self.state.borrow_mut().latency(now, Kind::Read);
                self.later(now + Nanos(span), trace, sender, move |state| {
                    state.read(offset, into)
                });
            }
            Command::Write { gather, .. } | Command::Repair { gather, .. } => {
                if let Some(laps) = &self.state.borrow().laps {
                    laps.borrow_mut().note(offset, &gather);
                }
                self.write(now, trace, Body::Gather(gather), sender);
            }
            Command::Discard { length, .. } => {
                // Half of the hints are taken.
                if self.state.borrow_mut().rng.chance(1, 2) {
                    self.write(now, trace, Body::Zeroes(length), sender);
                } else {
                    let span = self.state.borrow_mut().latency(now, Kind::Write);
                    let nothing = |_: &mut State| Ok(Done::Nothing);
                    self.later(now + Nanos(span), trace, sender, nothing);
                }
            }
            Command::Flush => {
                let (span, mark) = {
                    let mut state = self.state.borrow_mut();
                    (state.latency(now, Kind::Flush), state.cache.mark())
                };
                self.later(now + Nanos(span), trace, sender, move |state| {
                    state.cache.destage(&mut state.platter, mark);
                    Ok(Done::Nothing)
                });
            }
        }
        completion
    }
}

/// Sectors of metadata as a gather of its own.
#[must_use]
pub fn gather_of(sectors: Sectors) -> Gather {
    let mut gather = Gather::new();
    gather.push_meta(sectors);
    gather
}
