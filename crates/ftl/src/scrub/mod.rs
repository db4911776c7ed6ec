//! The scrub: everything that lives is read in every way there is while hosts go on; what is wrong is
//! written again from what is right.
//!
//! 1. Chunks of the log (`log`), as far as they are acknowledged: headers, theirs and those of batches, blocks,
//!    images of leaves; the parts of the newest checkpoint.
//! 2. Written stripes of groups (`stripe`): all their blocks, dead ones too where redundancy covers them;
//!    P2L; parity, which no read shows, by way of [`Beneath`].
//!
//! A block's checksum is that of the record or the P2L that brought it, 32 bits. What two ways give
//! is never compared with one another: each is right or not by itself (`settle`).
//!
//! **Invariants**: nothing is written but what passed its check, to where it did not, in the unit's
//! same generation and with the unit pinned, as reads repair; a stripe's parity is written only from
//! blocks that passed. The map, the log's records and the states of units stay as they are. What moves
//! meanwhile is read and verified by who moves it. A chunk's records, or two stripes, are all the memory.
//!
//! **Not here**: units in which nothing lives, labels (`pool`).

mod log;
mod report;
mod settle;
mod stripe;

pub use report::{ScrubLoss, ScrubProgress, ScrubReport};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::geometry::{Tier, UnitId};
use crate::shared::{FIRST, Shared};
use crate::units::UnitState;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use varve_io::{Blocks, Flow, IoError};
use varve_units::{BLOCK_BYTES, Generation, Nanos};

/// Pause of a scrub before each read while hosts are slowed down: cleaning needs the drives. Arbitrary.
const PRESSED_PAUSE: Nanos = Nanos::from_millis(5);
/// Time that is not worth sleeping for. Arbitrary: a read of flash.
const PAUSE_MIN: u64 = 100_000;
/// Nanoseconds after which who is to go slowly asks whether to go on at all. Arbitrary: nobody minds.
const PAUSE_MAX: u64 = 100_000_000;

/// What lies beneath the tiers, as far as a scrub has to know.
pub trait Beneath {
    /// Ways to read that must all give what was written: not one by a drive that is kept while another takes its
    /// place.
    fn ways(&self, tier: Tier) -> u8;

    /// True if all drives of a tier are in use.
    fn is_whole(&self, tier: Tier) -> bool;

    /// Bytes of parity of a stripe of the dense tier. If it is 0, every way reads what no other does. Else the first
    /// way reads all data, and the second sums up what the others do not hold.
    fn parity_bytes(&self) -> u64;

    /// Rows of a stripe whose parity does not fit. `stripe` is all of it, `is_known` says which blocks of it are right;
    /// rows with others are left out.
    ///
    /// # Errors
    /// The drive's that holds the parity.
    fn wrong_parity<'a>(
        &'a self,
        offset: u64,
        stripe: &'a Blocks,
        is_known: &'a [bool],
    ) -> Flow<'a, Result<Vec<u64>, IoError>>;

    /// Writes the parity of these rows again.
    ///
    /// # Errors
    /// The drive's that holds the parity.
    fn mend_parity<'a>(
        &'a self,
        offset: u64,
        stripe: &'a Blocks,
        rows: &'a [u64],
    ) -> Flow<'a, Result<(), IoError>>;
}

/// Is told how far it is; answers whether to go on.
type Watch<'a> = dyn FnMut(ScrubProgress) -> bool + 'a;

/// One scrub under way.
struct Scrub<'a> {
    shared: &'a Rc<Shared>,
    beneath: &'a dyn Beneath,
    /// Bytes a second that it reads at most.
    limit: Option<u64>,
    /// Nanosecond before which nothing more is read.
    next: Cell<u64>,
    report: RefCell<ScrubReport>,
    watch: RefCell<&'a mut Watch<'a>>,
    progress: Cell<ScrubProgress>,
    is_over: Cell<bool>,
}

impl Engine {
    /// Reads everything that lives in every way there is, and writes again what is wrong and can be told. Call it on
    /// the first reactor, one at a time. `limit` is in bytes a second of all drives together; reads and writes of
    /// hosts go first. It ends early when `watch` says so.
    ///
    /// # Errors
    /// The engine stopped.
    pub fn scrub<'a>(
        &'a self,
        beneath: &'a dyn Beneath,
        limit: Option<u64>,
        watch: &'a mut (dyn FnMut(ScrubProgress) -> bool + 'a),
    ) -> Flow<'a, Result<ScrubReport, EngineError>> {
        Box::pin(async move {
            assert_eq!(
                self.shared.reactor, FIRST,
                "units are walked where control is"
            );
            let scrub = Scrub {
                shared: &self.shared,
                beneath,
                limit: limit.filter(|limit| *limit > 0),
                next: Cell::new(0),
                report: RefCell::default(),
                watch: RefCell::new(watch),
                progress: Cell::default(),
                is_over: Cell::new(false),
            };
            scrub.run().await;
            scrub.flush().await;
            if self.shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            let is_whole = !scrub.is_over.get();
            let report = ScrubReport {
                is_whole,
                ..scrub.report.take()
            };
            let count = |name, by| self.shared.count(name, by);
            count("scrub_blocks", report.blocks);
            count("scrub_failures", report.failures);
            count("scrub_losses", report.lost_blocks);
            count("scrub_parity_repairs", report.parity_repairs);
            count("scrub_repairs", report.repairs);
            count("scrubs", u64::from(is_whole));
            Ok(report)
        })
    }
}

impl Scrub<'_> {
    async fn run(&self) {
        let chunks = self.units(Tier::Fast);
        let groups = self.units(Tier::Dense);
        let total = chunks.iter().chain(&groups).map(|unit| unit.1).sum();
        self.progress.set(ScrubProgress { done: 0, total });
        self.advance(0);
        for (id, bytes) in chunks {
            if self.ends() {
                return;
            }
            self.scrub_chunk(id).await;
            self.advance(bytes);
        }
        self.scrub_parts().await;
        for (id, bytes) in groups {
            if self.ends() {
                return;
            }
            let before = self.progress.get().done;
            self.scrub_group(id).await;
            let within = self.progress.get().done - before;
            self.advance(bytes.saturating_sub(within));
        }
    }

    /// What was written again is durable. A failed flush is dealt with as any other.
    async fn flush(&self) {
        let is_written = self.report.borrow().has_written();
        if is_written && !self.shared.is_stopped() {
            let _ = self.shared.flush_log().await;
            if let Some(dense) = &self.shared.dense {
                let _ = dense.flush().await;
            }
        }
    }

    /// Units with something that lives, and how much there is to look at.
    fn units(&self, tier: Tier) -> Vec<(UnitId, u64)> {
        let units = &self.shared.units;
        let used = units.ids(tier).filter(|id| self.is_due(*id));
        let sized = used.map(|id| {
            let unit = units.unit(id);
            let blocks = match tier {
                Tier::Fast => unit.live(),
                Tier::Dense => unit.write_pointer(),
            };
            (id, u64::from(blocks) * BLOCK_BYTES)
        });
        sized.collect()
    }

    /// True if a unit is in use and something in it may live.
    fn is_due(&self, id: UnitId) -> bool {
        let unit = self.shared.units.unit(id);
        let is_used = match unit.state() {
            UnitState::Open | UnitState::Closed | UnitState::Cleaning => true,
            UnitState::Free | UnitState::Emptied | UnitState::Retired => false,
        };
        is_used && (unit.live() > 0 || unit.leaves() > 0)
    }

    /// True once there is to be no more of it.
    fn ends(&self) -> bool {
        self.is_over.get() || self.shared.is_stopped()
    }

    /// So much more was looked at.
    fn advance(&self, bytes: u64) {
        let mut progress = self.progress.get();
        progress.done = (progress.done + bytes).min(progress.total);
        self.progress.set(progress);
        if !(self.watch.borrow_mut())(progress) {
            self.is_over.set(true);
        }
    }

    /// Waits until so many bytes may be read: hosts' commands go first.
    async fn pace(&self, bytes: u64) {
        let world = &self.shared.world;
        if self.shared.is_slowed() {
            world.sleep(PRESSED_PAUSE).await;
        }
        self.shared.yield_to_reads().await;
        self.report.borrow_mut().bytes += bytes;
        let Some(limit) = self.limit else {
            return;
        };
        let now = world.now().0;
        let start = self.next.get().max(now);
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(limit);
        let takes = u64::try_from(takes).unwrap_or(u64::MAX);
        self.next.set(start.saturating_add(takes));
        loop {
            let left = start.saturating_sub(world.now().0);
            if left < PAUSE_MIN || self.ends() {
                return;
            }
            world.sleep(Nanos(left.min(PAUSE_MAX))).await;
            self.advance(0);
        }
    }

    /// True if what was in a unit is not there any more.
    fn is_reused(&self, unit: UnitId, generation: Generation) -> bool {
        self.shared.is_reused(unit, generation)
    }

    /// A repair begins; false if the unit is another one by now, or about to be.
    fn pin(&self, unit: UnitId, generation: Generation) -> bool {
        self.shared.shard().pin(unit, generation)
    }

    fn unpin(&self, unit: UnitId) {
        self.shared.shard().unpin(unit);
    }

    /// How a repair of so many blocks or records ended.
    fn note_repair(&self, count: u64, is_done: bool) {
        let mut report = self.report.borrow_mut();
        match is_done {
            true => report.repairs += count,
            false => report.failures += count,
        }
    }
}
