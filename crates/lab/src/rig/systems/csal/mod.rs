//! CSAL in time: what its placement decides is carried out on drives.
//!
//! The decisions are those of the model without time ([`crate::waf`]), made when a host writes; the
//! reads and writes that follow from them are done behind, so many at once. A host's write ends when it is
//! in the fast tier; it waits where too much is still to be done behind.
//!
//! On a zoned drive a band is a zone, a stream owns the one it writes, and what is emptied is reset
//! (`reuse`): CSAL-ZNS. On one with placement handles `csal-paper` writes each stream under one of its own.
//!
//! **Not here**, of SPDK's `lib/ftl`: the throttle that every 20 ms holds hosts to what compaction did (they wait for batches
//! instead, `BACKLOG`); at most two chunks that are compacted at a time; compaction that stops at two free bands; eight
//! compactors and sixteen relocations apart (here 24 movers take what comes); the P2L that is written to the cache with
//! each MiB of a band (8 KiB), and the tails of bands and chunks. Of the paper: checkpoints, P2L, and the conflict rule
//! by sequence ids. Nothing recovers. What is left out costs CSAL nothing here.
//!
//! # Source
//! Zhou et al., EuroSys 2024, and document 002: whole map on the fast tier, an eighth
//! of it in memory, merged writes of 512 KiB. As open-sourced, SPDK 26.09-pre `lib/ftl`: 1 MiB, a page of
//! the P2L log after the data and before the answer (`nvc/ftl_nvc_bdev_non_vss.c`), nothing is ever
//! deallocated.

mod batch;
mod movers;
mod reuse;
#[cfg(test)]
mod tests;

use super::super::cpu::Cpu;
use super::super::map_cache::{MapCache, page_of};
use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System};
use crate::comparators::{CSAL, CSAL_PAPER, CSAL_TODAY, Charge};
use crate::waf::PolicyName;
use crate::waf::dense::Dense;
use crate::waf::fifo_tier::FifoTier;
use crate::waf::tiers::{Known, Tiers};
use batch::{Batch, Work};
use reuse::Reuse;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use varve_io::{Event, World};
use varve_media::timed::Ask;
use varve_units::BLOCK_BYTES;

/// Batches that may wait to be moved before hosts wait, whatever room there is: as many again.
const BACKLOG: usize = CSAL.backlog_for_each * CSAL.movers();
/// Bytes of a page of the map, and of the P2L log.
const PAGE_BYTES: u64 = CSAL.page_bytes;

/// Sizes of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct CsalPlan {
    /// Which CSAL.
    pub(crate) policy: PolicyName,
    /// Bands, and blocks of each.
    pub(crate) bands: u32,
    pub(crate) band_blocks: u32,
    /// Bands of a reclaim group, which today's empties as one.
    pub(crate) group_bands: u32,
    /// Blocks hosts can address, of which each tenant has an equal part.
    pub(crate) user_blocks: u64,
    pub(crate) tenants: u64,
    /// Blocks of the fast tier's chunks.
    pub(crate) fast_blocks: u64,
    /// Pages of the map in memory, per cent.
    pub(crate) map_cache: f64,
    /// Processors: today's does all its work on one thread (`ftl_core_poller` in `ftl_core.c`).
    pub(crate) cores: usize,
}

impl CsalPlan {
    /// Bytes of the fast tier: chunks, map, a page of log.
    pub(crate) fn fast_bytes(&self) -> u64 {
        let map = (self.user_blocks * CSAL.entry_bytes).next_multiple_of(PAGE_BYTES);
        self.fast_blocks * BLOCK_BYTES + map + PAGE_BYTES
    }

    /// Blocks that hosts may write before anything is moved.
    fn room(&self) -> u64 {
        CSAL.room(self.fast_blocks)
    }

    fn is_today(&self) -> bool {
        self.policy == PolicyName::CsalToday
    }

    /// Blocks of a merged write.
    fn batch_blocks(&self) -> usize {
        if self.is_today() {
            CSAL_TODAY.batch_blocks
        } else {
            CSAL_PAPER.batch_blocks
        }
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
    cpu: Rc<Cpu>,
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
    /// Blocks of the fast tier that are to be moved: so much of its room is taken.
    to_compact: Cell<u64>,
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
        let (tenants, group) = (plan.tenants as usize, plan.group_bands);
        let model = plan.policy.model(plan.user_blocks, tenants, group);
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
            to_compact: Cell::new(0),
            movers: Cell::new(0),
            moved: Event::new(),
            log: RefCell::default(),
            is_logging: Cell::new(false),
            plan,
        })
    }

    async fn write(self: &Rc<Self>, first: u64, count: u64) {
        self.cpu.work(self.charge().write).await;
        while self.work.borrow().len() >= BACKLOG && self.to_compact.get() >= self.plan.room() {
            self.moved.listen().await;
        }
        self.page_in(page_of(first)..=page_of(first + count - 1), true)
            .await;
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

    fn charge(&self) -> &'static Charge {
        if self.plan.is_today() {
            &CSAL_TODAY.charge
        } else {
            &CSAL_PAPER.charge
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

    /// The pages of the map that are not in memory are read, and those that make room for them
    /// written.
    async fn page_in(&self, pages: impl Iterator<Item = u64>, changes: bool) {
        if !self.started.get() {
            return;
        }
        let base = self.plan.fast_blocks * BLOCK_BYTES;
        let mut waiting = Vec::new();
        for page in pages {
            let found = self.map.borrow_mut().look_up(page, changes);
            let offset = base + page * PAGE_BYTES;
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
        self.page_in(page_of(first)..=page_of(first + count - 1), false)
            .await;
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
            (
                "bands",
                format!("{} of {} KiB", plan.bands, plan.band_blocks * 4),
            ),
            ("handles", self.handles().to_string()),
            ("map in memory", format!("{} %", plan.map_cache)),
            ("batch", format!("{} KiB", plan.batch_blocks() * 4)),
            ("processors", self.cpu.cores().to_string()),
            ("charge, us", self.charge().to_string()),
        ];
        parameters.extend(zones.map(|zones| ("zones of the drive", zones)));
        parameters
    }

    fn start(&self) {
        self.started.set(true);
        self.cpu.start();
        self.fast.start();
        self.dense.start();
    }
}
