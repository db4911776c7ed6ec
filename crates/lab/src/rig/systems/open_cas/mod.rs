//! A write-back cache in front of the dense drive, as Open-CAS Linux makes it of OCF.
//!
//! 1. A write whose blocks have lines, or get free or clean ones, goes to the fast drive; where a
//!    line was not dirty before its page of the metadata is written too; then the host is told.
//! 2. A write that gets no lines has a batch of the lines used longest ago cleaned, one batch at a
//!    time, and itself goes to the dense drive; what the cache held of it is dropped, after it was
//!    cleaned.
//! 3. Cleaning reads lines, writes their blocks in order of address, adjacent ones together, flushes
//!    the dense drive, writes the lines' pages of the metadata and flushes the fast drive. Lines stay,
//!    clean.
//! 4. With a full cache requests of streams of 1 MiB and more go to the dense drive.
//! 5. Reads come from the cache if it has all blocks, else from the dense drive, and are then written
//!    to lines, if there are any to be had.
//!
//! # Invariants
//! Requests for a block exclude each other, but for reads of cached blocks and cleaning. A line that
//! is not dirty holds what the dense drive holds.
//!
//! # Not here
//! The cleaning policy ALRU acts when no request has come for ten seconds; a rig's load never
//! pauses. OCF has 32 lists, half of each of which is "hot" and keeps its order: here it is one list
//! in exact order. There is one queue, and no figure for what the kernel's processors do.
//!
//! # Source
//! `Open-CAS/ocf` b8b4b70: `src/engine/engine_wb.c`, `engine_wi.c`, `engine_rd.c`, `engine_pt.c`,
//! `engine_common.c`, `src/ocf_lru.c`, `src/utils/utils_cleaner.c`, `src/metadata/metadata_raw.c`;
//! `Open-CAS/open-cas-linux` e7ddd7b. Published: CSAL writes 8.28 times as much at uniformly random
//! places (document 002).

mod lines;
mod streams;
#[cfg(test)]
mod tests;

use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System};
use super::ledger::{Ledger, Place};
use super::locks::{Hold, Locks};
use crate::comparators::OPEN_CAS;
use lines::Lines;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use streams::Streams;
use varve_io::{Receiver, World};
use varve_media::timed::Ask;
use varve_units::BLOCK_BYTES;

/// Lines of a page of the metadata.
const PAGE_LINES: u64 = OPEN_CAS.page_lines();
const PAGE_BYTES: u64 = OPEN_CAS.page_bytes;

/// What happened, since the beginning.
#[derive(Default)]
struct Counts {
    cached: Cell<u64>,
    through: Cell<u64>,
    cut_off: Cell<u64>,
    cleaned: Cell<u64>,
    pages: Cell<u64>,
}

/// The cache.
pub(crate) struct OpenCas {
    world: Rc<dyn World>,
    fast: Rc<Station>,
    dense: Rc<Station>,
    /// Lines there are; their pages of the metadata come before them.
    count: u64,
    lines: RefCell<Lines>,
    streams: RefCell<Streams>,
    ledger: RefCell<Ledger>,
    blocks: Locks,
    /// A page of the metadata is written by one at a time (`src/concurrency/ocf_mio_concurrency.c`).
    pages: Locks,
    started: Cell<bool>,
    is_cleaning: Cell<bool>,
    counts: Counts,
}

impl OpenCas {
    /// An empty cache that fills the fast drive.
    ///
    /// # Panics
    /// If the fast drive has no room for a line and its page.
    pub(crate) fn create(
        world: Rc<dyn World>,
        (fast, dense): (Rc<Station>, Rc<Station>),
    ) -> Rc<Self> {
        let blocks = dense.bytes() / BLOCK_BYTES;
        let fast_blocks = fast.bytes() / BLOCK_BYTES;
        let count = fast_blocks * PAGE_LINES / (PAGE_LINES + 1);
        assert!(count > 0, "a cache has lines");
        Rc::new(Self {
            world,
            count,
            lines: RefCell::new(Lines::new(count, blocks)),
            streams: RefCell::default(),
            ledger: RefCell::new(Ledger::new(blocks, count, blocks)),
            blocks: Locks::default(),
            pages: Locks::default(),
            started: Cell::new(false),
            is_cleaning: Cell::new(false),
            counts: Counts::default(),
            fast,
            dense,
        })
    }

    /// True if the request belongs to a stream that is to bypass the cache.
    fn is_cut_off(&self, io: Io) -> bool {
        let mut streams = self.streams.borrow_mut();
        let is_full = self.lines.borrow().free() <= OPEN_CAS.full_margin + io.bytes / BLOCK_BYTES;
        let is_long = streams
            .bytes_with(io)
            .is_some_and(|bytes| bytes >= OPEN_CAS.cutoff_bytes);
        streams.note(io);
        add(&self.counts.cut_off, u64::from(is_full && is_long));
        is_full && is_long
    }

    async fn write(self: &Rc<Self>, io: Io) {
        let is_cut_off = self.is_cut_off(io);
        let (first, count) = blocks_of(io);
        self.blocks.lock(first, count, Hold::Alone).await;
        let claimed = if is_cut_off {
            None
        } else {
            self.claim(first, count).await
        };
        match claimed {
            Some(lines) => self.write_back(first, &lines).await,
            None => self.write_through(first, count).await,
        }
        self.blocks.unlock(first, count);
    }

    /// Lines for all blocks of a range, or, if there are too few, for none that had none; then a
    /// batch is cleaned.
    async fn claim(self: &Rc<Self>, first: u64, count: u64) -> Option<Vec<u32>> {
        let claimed = self.claim_at_once(first, count);
        if claimed.is_none() {
            self.clean_oldest().await;
        }
        claimed
    }

    fn claim_at_once(&self, first: u64, count: u64) -> Option<Vec<u32>> {
        let mut lines = self.lines.borrow_mut();
        let (mut found, mut new) = (Vec::new(), Vec::new());
        for block in first..first + count {
            let line = lines.find(block).or_else(|| {
                let may_go = |block| self.blocks.is_free(block);
                let line = lines.claim(block, found.last().copied(), may_go);
                new.extend(line);
                line
            });
            let Some(line) = line else {
                new.into_iter().for_each(|line| lines.release(line));
                return None;
            };
            found.push(line);
        }
        found.iter().for_each(|line| lines.touch(*line));
        Some(found)
    }

    async fn write_back(&self, first: u64, lines: &[u32]) {
        self.ask_lines(Ask::Write, lines).await;
        let mut changed = Vec::new();
        for (block, line) in (first..).zip(lines) {
            let mut ledger = self.ledger.borrow_mut();
            ledger.write(block, Place::Fast((*line).into()));
            if self.lines.borrow_mut().mark(*line, true) {
                changed.push(*line);
            }
        }
        self.write_pages(&changed).await;
        add(&self.counts.cached, 1);
    }

    async fn write_through(&self, first: u64, count: u64) {
        self.clean_own(first, count).await;
        let (offset, bytes) = (first * BLOCK_BYTES, count * BLOCK_BYTES);
        self.dense.write(offset, bytes).await;
        for block in first..first + count {
            self.ledger.borrow_mut().write(block, Place::Dense(block));
            let mut lines = self.lines.borrow_mut();
            if let Some(line) = lines.find(block) {
                lines.release(line);
            }
        }
        add(&self.counts.through, 1);
    }

    async fn read(self: Rc<Self>, io: Io) {
        let is_cut_off = self.is_cut_off(io);
        let (first, count) = blocks_of(io);
        if self.read_cached((first, count), is_cut_off).await {
            return;
        }
        self.blocks.lock(first, count, Hold::Alone).await;
        let claimed = if is_cut_off {
            None
        } else {
            self.claim(first, count).await
        };
        self.clean_own(first, count).await;
        self.dense
            .read(first * BLOCK_BYTES, count * BLOCK_BYTES)
            .await;
        let is_newest = |block| self.ledger.borrow().is_newest(block, Place::Dense(block));
        assert!((first..first + count).all(is_newest), "an old block");
        let Some(lines) = claimed else {
            self.blocks.unlock(first, count);
            return;
        };
        // The host has its answer before the cache has the blocks.
        let itself = Rc::clone(&self);
        self.world.spawn(Box::pin(async move {
            itself.ask_lines(Ask::Write, &lines).await;
            for (block, line) in (first..).zip(&lines) {
                let to = Place::Fast((*line).into());
                itself.ledger.borrow_mut().copy(Place::Dense(block), to);
            }
            itself.blocks.unlock(first, count);
        }));
    }

    /// Reads from the cache if that has all blocks; of a stream that is cut off, if all are dirty.
    async fn read_cached(&self, (first, count): (u64, u64), is_cut_off: bool) -> bool {
        self.blocks.lock(first, count, Hold::Shared).await;
        let found: Option<Vec<u32>> = {
            let lines = self.lines.borrow();
            let found = (first..first + count).map(|block| lines.find(block));
            found
                .map(|line| line.filter(|line| !is_cut_off || lines.is_dirty(*line)))
                .collect()
        };
        if let Some(lines) = &found {
            for (block, line) in (first..).zip(lines) {
                self.lines.borrow_mut().touch(*line);
                let at = Place::Fast((*line).into());
                assert!(self.ledger.borrow().is_newest(block, at), "an old line");
            }
            self.ask_lines(Ask::Read, lines).await;
            add(&self.counts.cached, 1);
        }
        self.blocks.unlock(first, count);
        found.is_some()
    }

    /// Has the lines used longest ago cleaned behind, if that is not under way.
    async fn clean_oldest(self: &Rc<Self>) {
        if self.is_cleaning.replace(true) {
            return;
        }
        let mut batch: Vec<(u64, u32)> = {
            let lines = self.lines.borrow();
            let dirty = lines.oldest_dirty();
            dirty
                .filter(|(_, block)| self.blocks.try_lock(*block, Hold::Shared))
                .map(|(line, block)| (block, line))
                .take(OPEN_CAS.cleaned)
                .collect()
        };
        batch.sort_unstable();
        let itself = Rc::clone(self);
        let cleaning = async move {
            itself.clean(&batch).await;
            for (block, _) in &batch {
                itself.blocks.unlock(*block, 1);
            }
            itself.is_cleaning.set(false);
        };
        if self.started.get() {
            self.world.spawn(Box::pin(cleaning));
        } else {
            // While drives take no time nothing would ever come between two requests.
            cleaning.await;
        }
    }

    /// Cleans what the cache holds of blocks that the caller has locked.
    async fn clean_own(&self, first: u64, count: u64) {
        let dirty: Vec<_> = {
            let lines = self.lines.borrow();
            let found =
                (first..first + count).filter_map(|block| Some((block, lines.find(block)?)));
            found.filter(|(_, line)| lines.is_dirty(*line)).collect()
        };
        self.clean(&dirty).await;
    }

    /// Cleans lines that are locked, in the order of their blocks.
    async fn clean(&self, batch: &[(u64, u32)]) {
        if batch.is_empty() {
            return;
        }
        let at = |line: u32| self.offset(line);
        all(batch
            .iter()
            .map(|(_, line)| self.fast.read(at(*line), BLOCK_BYTES)))
        .await;
        let blocks = batch.iter().map(|(block, _)| *block);
        all(runs(blocks)
            .into_iter()
            .map(|(first, count)| self.dense.write(first * BLOCK_BYTES, count * BLOCK_BYTES)))
        .await;
        self.dense.ask(Ask::Flush, 0, 0).await;
        for (block, line) in batch {
            let from = Place::Fast((*line).into());
            self.ledger.borrow_mut().copy(from, Place::Dense(*block));
            self.lines.borrow_mut().mark(*line, false);
        }
        let lines: Vec<_> = batch.iter().map(|(_, line)| *line).collect();
        self.write_pages(&lines).await;
        self.fast.ask(Ask::Flush, 0, 0).await;
        add(&self.counts.cleaned, batch.len() as u64);
    }

    /// Writes the pages of the metadata that lines are on, adjacent pages together.
    async fn write_pages(&self, lines: &[u32]) {
        let mut pages: Vec<_> = lines
            .iter()
            .map(|line| u64::from(*line) / PAGE_LINES)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        for (first, count) in runs(pages) {
            self.pages.lock(first, count, Hold::Alone).await;
            self.fast
                .write(first * PAGE_BYTES, count * PAGE_BYTES)
                .await;
            self.pages.unlock(first, count);
            add(&self.counts.pages, count);
        }
    }

    async fn ask_lines(&self, ask: Ask, lines: &[u32]) {
        let runs = runs(lines.iter().map(|line| u64::from(*line)));
        let ask = |(first, count): (u64, u64)| {
            let offset = self.offset(first as u32);
            self.fast.ask(ask, offset, count * BLOCK_BYTES)
        };
        all(runs.into_iter().map(ask)).await;
    }

    /// Where a line lies on the fast drive.
    fn offset(&self, line: u32) -> u64 {
        self.count.div_ceil(PAGE_LINES) * PAGE_BYTES + u64::from(line) * BLOCK_BYTES
    }
}

impl System for OpenCas {
    fn bytes(&self) -> u64 {
        self.dense.bytes() / (1 << 20) * (1 << 20)
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        Box::pin(async move {
            if io.is_read {
                self.read(io).await;
            } else {
                self.write(io).await;
            }
            Ok(())
        })
    }

    fn drives(&self) -> Vec<(Role, Rc<Station>)> {
        vec![
            (Role::Fast, Rc::clone(&self.fast)),
            (Role::Dense, Rc::clone(&self.dense)),
        ]
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let cutoff = format!("{} KiB, when full", OPEN_CAS.cutoff_bytes >> 10);
        vec![
            ("fast", self.fast.name().to_owned()),
            ("dense", self.dense.name().to_owned()),
            ("lines", format!("{} of 4 KiB", self.count)),
            ("mode", "write-back".to_owned()),
            ("cleaned at once", OPEN_CAS.cleaned.to_string()),
            (
                "idle cleaning",
                "alru, which a load keeps asleep".to_owned(),
            ),
            ("streams cut off", cutoff),
        ]
    }

    fn start(&self) {
        self.started.set(true);
        self.fast.start();
        self.dense.start();
    }

    fn counters(&self) -> BTreeMap<&'static str, u64> {
        let counts = &self.counts;
        let of = [
            ("cached", &counts.cached),
            ("through", &counts.through),
            ("cut_off", &counts.cut_off),
            ("lines_cleaned", &counts.cleaned),
            ("pages_written", &counts.pages),
        ];
        let of = of.map(|(name, count)| (name, count.get()));
        of.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

const fn blocks_of(io: Io) -> (u64, u64) {
    (io.offset / BLOCK_BYTES, io.bytes / BLOCK_BYTES)
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

/// Numbers as runs of consecutive ones: first, count.
fn runs(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

/// Waits for commands that are all under way at once.
async fn all(commands: impl Iterator<Item = Receiver<()>>) {
    let commands: Vec<_> = commands.collect();
    for command in commands {
        command.await;
    }
}
