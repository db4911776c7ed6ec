//! CSAL in time: what its placement decides is carried out on drives.
//!
//! The decisions are those of the model without time ([`crate::waf`]), made when a host writes; the
//! reads and writes that follow from them are done behind, so many at once. A host's write ends when it is
//! in the fast tier; it waits where too much is still to be done behind.
//!
//! On a zoned drive a band is a zone, a stream owns the one it writes, and what is emptied is reset
//! (`reuse`): CSAL-ZNS. On one with placement handles `csal-paper` writes each stream under one of its own.
//!
//! # Source
//! Zhou et al., EuroSys 2024, and document 002 (facts A1 to A8): whole map on the fast tier, an eighth
//! of it in memory, merged writes of 512 KiB. As open-sourced, SPDK 26.09-pre `lib/ftl`: 1 MiB, a page of
//! the P2L log after the data and before the answer (`nvc/ftl_nvc_bdev_non_vss.c`), nothing is ever
//! deallocated.

mod batch;
mod reuse;
#[cfg(test)]
mod tests;

use super::super::cpu::Cpu;
use super::super::map_cache::MapCache;
use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System};
use crate::waf::PolicyName;
use crate::waf::dense::Dense;
use crate::waf::fifo_tier::FifoTier;
use crate::waf::tiers::{Known, Step, Tiers};
use batch::{Batch, Work};
use reuse::{Life, Reuse};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use varve_io::{Event, World};
use varve_media::timed::Ask;
use varve_units::{BLOCK_BYTES, Nanos};

/// What a write costs a processor.
///
/// # Source
/// The artifact's sample run (csal.md A.5): 544 thousand 4 KiB writes a second on two cores.
const WRITE: Nanos = Nanos(3680);
/// Batches that are moved at once. Eight compactions and sixteen relocations (`ftl_nv_cache.c`,
/// `ftl_reloc.c`).
const MOVERS: usize = 24;
/// Batches that may wait to be moved before hosts wait: as many again.
const BACKLOG: usize = 2 * MOVERS;
/// Bytes of a page of the map, and of the P2L log.
const PAGE_BYTES: u64 = 4096;
/// Map on the fast tier: four bytes a block.
const ENTRY_BYTES: u64 = 4;

/// Sizes of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct CsalPlan {
    /// Which CSAL.
    pub(crate) policy: PolicyName,
    /// Bands, and blocks of each.
    pub(crate) bands: u32,
    pub(crate) band_blocks: u32,
    /// Blocks hosts can address, of which each tenant has an equal part.
    pub(crate) user_blocks: u64,
    pub(crate) tenants: u64,
    /// Blocks of the fast tier's chunks.
    pub(crate) fast_blocks: u64,
    /// Pages of the map in memory, per cent.
    pub(crate) map_cache: f64,
    /// Processors.
    pub(crate) cores: usize,
}

impl CsalPlan {
    /// Bytes of the fast tier: chunks, map, a page of log.
    pub(crate) fn fast_bytes(&self) -> u64 {
        let map = (self.user_blocks * ENTRY_BYTES).next_multiple_of(PAGE_BYTES);
        self.fast_blocks * BLOCK_BYTES + map + PAGE_BYTES
    }

    fn is_today(&self) -> bool {
        self.policy == PolicyName::CsalToday
    }

    /// Blocks of a merged write.
    fn batch_blocks(&self) -> usize {
        if self.is_today() { 256 } else { 128 }
    }
}

/// Tenants have equal parts of the addresses.
struct Tenants {
    area: u64,
}

impl Known for Tenants {
    fn tenant(&self, block: u64) -> usize {
        (block / self.area) as usize
    }

    /// Neither CSAL asks an oracle.
    fn interval(&self, _block: u64) -> f64 {
        f64::INFINITY
    }
}

/// CSAL.
pub(crate) struct Csal {
    world: Rc<dyn World>,
    cpu: Cpu,
    plan: CsalPlan,
    known: Tenants,
    tiers: RefCell<Tiers>,
    map: RefCell<MapCache>,
    fast: Rc<Station>,
    dense: Rc<Station>,
    started: Cell<bool>,
    /// By band, what is gathered to be written there.
    gathered: RefCell<BTreeMap<u32, Batch>>,
    /// Which zones are what they were decided to be, on a zoned drive.
    reuse: Option<RefCell<Reuse>>,
    /// A zone was reset, or has one use less.
    settled: Event,
    work: RefCell<VecDeque<Work>>,
    movers: Cell<usize>,
    /// Something was moved.
    moved: Event,
    /// Hosts that wait for their page of the P2L log, and whether one is being written.
    log: RefCell<Vec<varve_io::Sender<()>>>,
    is_logging: Cell<bool>,
}

impl Csal {
    /// An empty volume.
    pub(crate) fn create(
        world: Rc<dyn World>,
        plan: CsalPlan,
        (fast, dense): (Rc<Station>, Rc<Station>),
    ) -> Rc<Self> {
        let model = plan.policy.model(plan.user_blocks, plan.tenants as usize);
        let model = model.expect("both CSALs are models");
        let bands = Dense::new(plan.bands, plan.band_blocks, model.streams());
        let chunks = FifoTier::new(plan.fast_blocks);
        let mut tiers = Tiers::new(model, bands, chunks, None, plan.user_blocks);
        tiers.note_steps();
        let zones = dense.zones().map(|_| Reuse::new(plan.bands));
        let reuse = zones.map(RefCell::new);
        Rc::new(Self {
            cpu: Cpu::new(Rc::clone(&world), plan.cores),
            world,
            known: Tenants {
                area: plan.user_blocks / plan.tenants,
            },
            tiers: RefCell::new(tiers),
            map: RefCell::new(MapCache::new(plan.user_blocks, plan.map_cache)),
            fast,
            dense,
            started: Cell::new(false),
            gathered: RefCell::default(),
            reuse,
            settled: Event::new(),
            work: RefCell::default(),
            movers: Cell::new(0),
            moved: Event::new(),
            log: RefCell::default(),
            is_logging: Cell::new(false),
            plan,
        })
    }

    async fn write(self: &Rc<Self>, first: u64, count: u64) {
        self.charge().await;
        while self.work.borrow().len() >= BACKLOG {
            self.moved.listen().await;
        }
        self.page_in(first, count, true).await;
        let slots = self.decide(first, count);
        for (slot, blocks) in slots {
            let offset = u64::from(slot) * BLOCK_BYTES;
            self.fast
                .ask(Ask::Write, offset, blocks * BLOCK_BYTES)
                .await;
        }
        if self.plan.is_today() && self.started.get() {
            self.log().await;
        }
    }

    async fn charge(&self) {
        if self.started.get() {
            self.cpu.work(WRITE).await;
        }
    }

    /// Places the blocks, notes what is to be done behind, and returns the slots as runs.
    fn decide(self: &Rc<Self>, first: u64, count: u64) -> Vec<(u32, u64)> {
        let mut tiers = self.tiers.borrow_mut();
        let mut runs: Vec<(u32, u64)> = Vec::new();
        for block in first..first + count {
            tiers.write(block as u32, &self.known);
            let slot = tiers.place(block as u32).and_then(Result::ok);
            let slot = slot.expect("what was written lies in the fast tier");
            match runs.last_mut() {
                Some((start, blocks)) if u64::from(*start) + *blocks == u64::from(slot) => {
                    *blocks += 1;
                }
                _ => runs.push((slot, 1)),
            }
        }
        let steps = tiers.take_steps();
        drop(tiers);
        self.gather(steps);
        runs
    }

    /// Makes batches of steps, and sees that somebody carries them out.
    fn gather(self: &Rc<Self>, steps: Vec<Step>) {
        if steps.is_empty() {
            return;
        }
        for step in steps {
            let (is_fast, from, to) = match step {
                Step::Compacted { from, to } => (true, from, to),
                Step::Collected { from, to } => (false, from, to),
                Step::Discarded { first, count } => {
                    self.empty(first, count);
                    continue;
                }
            };
            self.add(is_fast, from, to);
        }
        while self.movers.get() < MOVERS && !self.work.borrow().is_empty() {
            self.movers.set(self.movers.get() + 1);
            let csal = Rc::clone(self);
            if self.started.get() {
                self.world
                    .spawn(Box::pin(async move { csal.move_all().await }));
            } else {
                // Drives take no time yet: nothing is to be awaited.
                self.age_all();
                self.movers.set(self.movers.get() - 1);
            }
        }
    }

    fn add(&self, is_fast: bool, from: u32, to: u32) {
        let band = to / self.plan.band_blocks;
        let mut gathered = self.gathered.borrow_mut();
        let batch = gathered
            .entry(band)
            .or_insert_with(|| Batch::at(to, self.handle(to)));
        batch.add(is_fast, from);
        if let Some(reuse) = &self.reuse {
            let mut reuse = reuse.borrow_mut();
            batch.uses(&mut reuse, band);
            if !is_fast {
                batch.uses(&mut reuse, from / self.plan.band_blocks);
            }
        }
        let is_last = (to + 1).is_multiple_of(self.plan.band_blocks);
        if is_last || batch.blocks() == self.plan.batch_blocks() {
            let batch = gathered.remove(&band).expect("it was just there");
            self.work.borrow_mut().push_back(Work::Move(batch));
        }
    }

    /// Placement handles it writes under.
    fn handles(&self) -> usize {
        match usize::from(self.dense.handles()) {
            _ if self.plan.is_today() => 1,
            handles => handles.min(self.plan.tenants as usize + 1),
        }
    }

    /// The placement handle of a place: one for each stream; where there are too few, garbage collection
    /// has the last and tenants share the others.
    fn handle(&self, place: u32) -> u8 {
        let handles = self.handles();
        if handles == 1 {
            return 0;
        }
        let stream = self.tiers.borrow().stream_of(place);
        let handle = if stream == self.plan.tenants as usize {
            handles - 1
        } else {
            stream % (handles - 1)
        };
        handle as u8
    }

    /// What lies in a band is no longer needed.
    fn empty(&self, first: u32, count: u32) {
        let Some(reuse) = &self.reuse else {
            let discard = Work::Discard { first, count };
            return self.work.borrow_mut().push_back(discard);
        };
        let life = reuse.borrow_mut().empty(first / self.plan.band_blocks);
        // What was gathered from a zone has to be written before it is reset, whatever its size.
        let mut gathered = self.gathered.borrow_mut();
        let of_it = gathered.extract_if(.., |_, batch| batch.is_use_of(life));
        let mut work = self.work.borrow_mut();
        work.extend(of_it.map(|(_, batch)| Work::Move(batch)));
        work.push_back(Work::Reset(life));
    }

    fn age_all(&self) {
        while let Some(work) = self.take() {
            match work {
                Work::Move(batch) => {
                    let (offset, bytes) = batch.place();
                    drop(self.dense.write_under(batch.handle(), offset, bytes));
                    self.settle(&batch);
                }
                Work::Discard { first, count } => self.discard(first, count),
                Work::Reset(life) => {
                    assert!(self.is(|reuse| reuse.is_unused(life)), "all is in order");
                    let (first, count) = life.blocks(self.plan.band_blocks);
                    self.discard(first, count);
                    self.note(|reuse| reuse.was_reset(life));
                }
            }
        }
    }

    /// Asks what zones are; without zones all is as decided.
    fn is(&self, what: impl FnOnce(&Reuse) -> bool) -> bool {
        let reuse = self.reuse.as_ref();
        reuse.is_none_or(|reuse| what(&reuse.borrow()))
    }

    fn note(&self, what: impl FnOnce(&mut Reuse)) {
        if let Some(reuse) = &self.reuse {
            what(&mut reuse.borrow_mut());
            self.settled.notify();
        }
    }

    /// A batch has been carried out.
    fn settle(&self, batch: &Batch) {
        self.note(|reuse| batch.end(reuse));
    }

    /// Resets a zone once all was read and written that was decided before it was emptied.
    async fn reset(&self, life: Life) {
        while !self.is(|reuse| reuse.is_unused(life)) {
            self.settled.listen().await;
        }
        let (first, count) = life.blocks(self.plan.band_blocks);
        let (offset, bytes) = (
            u64::from(first) * BLOCK_BYTES,
            u64::from(count) * BLOCK_BYTES,
        );
        self.dense.ask(Ask::Deallocate, offset, bytes).await;
        self.note(|reuse| reuse.was_reset(life));
    }

    fn take(&self) -> Option<Work> {
        self.work.borrow_mut().pop_front()
    }

    fn discard(&self, first: u32, count: u32) {
        let (offset, bytes) = (
            u64::from(first) * BLOCK_BYTES,
            u64::from(count) * BLOCK_BYTES,
        );
        drop(self.dense.ask(Ask::Deallocate, offset, bytes));
    }

    async fn move_all(self: &Rc<Self>) {
        while let Some(work) = self.take() {
            match work {
                Work::Move(batch) => {
                    self.carry_out(&batch).await;
                    self.moved.notify();
                }
                Work::Discard { first, count } => self.discard(first, count),
                Work::Reset(life) => {
                    // Beside the movers: none of them waits for another.
                    let csal = Rc::clone(self);
                    self.world
                        .spawn(Box::pin(async move { csal.reset(life).await }));
                }
            }
        }
        self.movers.set(self.movers.get() - 1);
    }

    async fn carry_out(&self, batch: &Batch) {
        let reads: Vec<_> = batch
            .sources()
            .iter()
            .map(|(is_fast, first, blocks)| {
                let drive = if *is_fast { &self.fast } else { &self.dense };
                let offset = u64::from(*first) * BLOCK_BYTES;
                drive.ask(Ask::Read, offset, u64::from(*blocks) * BLOCK_BYTES)
            })
            .collect();
        for read in reads {
            read.await;
        }
        while !self.is(|reuse| batch.is_due(reuse)) {
            self.settled.listen().await;
        }
        let (offset, bytes) = batch.place();
        self.dense.write_under(batch.handle(), offset, bytes).await;
        self.settle(batch);
    }

    /// The pages of the map that are not in memory are read, and those that make room for them
    /// written.
    async fn page_in(&self, first: u64, count: u64, changes: bool) {
        if !self.started.get() {
            return;
        }
        let base = self.plan.fast_blocks * BLOCK_BYTES;
        let mut waiting = Vec::new();
        let mut page = None;
        for block in first..first + count {
            let of = block * ENTRY_BYTES / PAGE_BYTES;
            if page.replace(of) == Some(of) {
                continue;
            }
            let found = self.map.borrow_mut().look_up(block, changes);
            let offset = base + of * PAGE_BYTES;
            if found.writes {
                // Another page than this one; all places are alike to the drive.
                waiting.push(self.fast.ask(Ask::Write, offset, PAGE_BYTES));
            }
            if found.reads {
                waiting.push(self.fast.ask(Ask::Read, offset, PAGE_BYTES));
            }
        }
        for page in waiting {
            page.await;
        }
    }

    /// Waits for a page of the P2L log that names the write: all that came before it began share it.
    async fn log(&self) {
        let (sender, logged) = varve_io::slot();
        self.log.borrow_mut().push(sender);
        if !self.is_logging.replace(true) {
            loop {
                let waiting = self.log.take();
                if waiting.is_empty() {
                    break;
                }
                let offset = self.plan.fast_bytes() - PAGE_BYTES;
                self.fast.ask(Ask::Write, offset, PAGE_BYTES).await;
                waiting.into_iter().for_each(|sender| sender.send(()));
            }
            self.is_logging.set(false);
        }
        logged.await;
    }

    async fn read(&self, first: u64, count: u64) {
        self.page_in(first, count, false).await;
        let mut runs: Vec<(Result<u32, u32>, u32)> = Vec::new();
        for block in first..first + count {
            let Some(place) = self.tiers.borrow().place(block as u32) else {
                continue;
            };
            match runs.last_mut() {
                Some((Ok(start), blocks)) if place == Ok(*start + *blocks) => *blocks += 1,
                Some((Err(start), blocks)) if place == Err(*start + *blocks) => *blocks += 1,
                _ => runs.push((place, 1)),
            }
        }
        let reads: Vec<_> = runs
            .into_iter()
            .map(|(place, blocks)| {
                let (drive, first) = match place {
                    Ok(slot) => (&self.fast, slot),
                    Err(place) => (&self.dense, place),
                };
                let offset = u64::from(first) * BLOCK_BYTES;
                drive.ask(Ask::Read, offset, u64::from(blocks) * BLOCK_BYTES)
            })
            .collect();
        for read in reads {
            read.await;
        }
    }
}

impl System for Csal {
    fn bytes(&self) -> u64 {
        self.plan.user_blocks * BLOCK_BYTES
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        Box::pin(async move {
            let (first, count) = (io.offset / BLOCK_BYTES, io.bytes / BLOCK_BYTES);
            if io.is_read {
                self.read(first, count).await;
            } else {
                self.write(first, count).await;
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
        let plan = &self.plan;
        let zones = self.dense.zones_in_words();
        let mut parameters = vec![
            ("fast", self.fast.name().to_owned()),
            ("dense", self.dense.name().to_owned()),
            ("bands", plan.bands.to_string()),
            ("handles", self.handles().to_string()),
            ("map in memory", format!("{} %", plan.map_cache)),
            ("batch", format!("{} KiB", plan.batch_blocks() * 4)),
            ("processors", plan.cores.to_string()),
            ("charge, us", format!("{} a write", WRITE.0 as f64 / 1e3)),
        ];
        parameters.extend(zones.map(|zones| ("zones of the drive", zones)));
        parameters
    }

    fn start(&self) {
        self.started.set(true);
        self.fast.start();
        self.dense.start();
    }
}
