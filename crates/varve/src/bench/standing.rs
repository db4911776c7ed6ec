//! A benchmark of what is there already, a namespace or a volume: fill if reads are to be checked, the
//! measured window, read everything back.

use super::report::{Moment, Report};
use super::rig::Written;
use super::run::{BenchError, FILL_BLOCKS, FILL_DEPTH, Load, nanos};
use crate::load::{Direction, Draw, Oracle, Order, Phase, Ring, Share, Store, Subject};
use crate::progress::Progress;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use varve_hostio::thread_cpu_time;
use varve_io::World;
use varve_units::{BLOCK_BYTES, Nanos};

/// Bytes that are used of something larger if nothing is said. As the pool in memory.
const SIZE_DEFAULT: u64 = 4 << 30;

/// What is to be measured, whatever it is measured on.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The load.
    pub(crate) load: Load,
    /// Bytes from the start that are used.
    pub(crate) size: Option<u64>,
    /// Length of the measured window.
    pub(crate) runtime: Duration,
}

/// The measured window.
pub(super) struct Window {
    pub(super) phase: Rc<Phase>,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

pub(super) struct Standing<'a> {
    world: Rc<dyn World>,
    wanted: Wanted,
    subject: Rc<Subject>,
    /// Blocks that are used.
    user_blocks: u64,
    /// Counters of what is loaded, if it has any here.
    counters: &'a dyn Fn() -> BTreeMap<&'static str, u64>,
}

impl<'a> Standing<'a> {
    /// A benchmark of a store of so many bytes.
    ///
    /// # Errors
    /// It has not room for one operation.
    pub(super) fn new(
        world: Rc<dyn World>,
        wanted: Wanted,
        (store, there): (Store, u64),
        counters: &'a dyn Fn() -> BTreeMap<&'static str, u64>,
    ) -> Result<Self, BenchError> {
        let io = wanted.load.bytes;
        let bytes = wanted.size.unwrap_or(SIZE_DEFAULT).min(there);
        let bytes = bytes / io * io;
        if bytes == 0 {
            let bytes = there;
            return Err(BenchError::Small { bytes, io });
        }
        let user_blocks = bytes / BLOCK_BYTES;
        let depth = wanted.load.in_flight.max(FILL_DEPTH);
        let oracle = || RefCell::new(Oracle::new(user_blocks, depth));
        let oracle = wanted.load.verifies.then(oracle);
        let subject = Rc::new(Subject::new(store, Rc::clone(&world), oracle));
        Ok(Self {
            world,
            wanted,
            subject,
            user_blocks,
            counters,
        })
    }

    /// Bytes that are used.
    pub(super) const fn bytes(&self) -> u64 {
        self.user_blocks * BLOCK_BYTES
    }

    /// True if an operation failed.
    pub(super) fn has_failed(&self) -> bool {
        self.subject.tally().failures > 0
    }

    /// Waits.
    pub(super) async fn pause(&self, span: Nanos) {
        self.world.sleep(span).await;
    }

    /// Fills, measures, reads back.
    ///
    /// # Errors
    /// An operation failed before the window opened.
    pub(super) async fn run(&self) -> Result<Window, BenchError> {
        let verifies = self.wanted.load.verifies;
        if verifies {
            self.sweep(Direction::Write, "fill").await;
            if let Some(failed) = self.subject.tally().first {
                return Err(BenchError::Load(failed));
            }
        }
        let window = self.measure().await;
        if verifies {
            self.sweep(Direction::Read, "verify").await;
        }
        Ok(window)
    }

    /// Adds what came of the load to a report.
    pub(super) fn judged(&self, report: Report) -> Report {
        report
            .with_tally(self.subject.tally())
            .with_asked(self.wanted.size)
    }

    /// Visits every block once, in order.
    async fn sweep(&self, direction: Direction, name: &'static str) {
        let whole = self.user_blocks.is_multiple_of(FILL_BLOCKS);
        let blocks = if whole { FILL_BLOCKS } else { 1 };
        let count = self.user_blocks / blocks;
        let mut progress = Progress::new(name, self.world.now());
        let phase = self.phase((direction, Order::Sequential), blocks, FILL_DEPTH, count, 0);
        let look = move |phase: &Phase, now| {
            if progress.is_due(now) {
                progress.show(now, phase.done() as f64 / count as f64, "");
            }
            false
        };
        self.subject.run(&phase, look).await;
    }

    fn phase(
        &self,
        (direction, order): (Direction, Order),
        blocks: u64,
        depth: u32,
        operations: u64,
        turn: u64,
    ) -> Rc<Phase> {
        let seed = self.wanted.load.seed.wrapping_add(turn);
        let draw = Draw::new(order, self.user_blocks / blocks, seed);
        let places = (draw, Share::new(0, 1, blocks));
        let ring = Ring::new(blocks as usize, false, seed);
        Rc::new(Phase::new(
            direction, blocks, depth, places, ring, operations,
        ))
    }

    async fn measure(&self) -> Window {
        let load = &self.wanted.load;
        let blocks = load.bytes / BLOCK_BYTES;
        let what = (load.direction, load.order);
        let phase = self.phase(what, blocks, load.in_flight, u64::MAX, 1);
        let from = self.moment();
        let (started, length) = (from.time, nanos(self.wanted.runtime));
        let mut progress = Progress::new("measure", started);
        let look = move |_: &Phase, now: Nanos| {
            if progress.is_due(now) {
                let share = now.since(started).0 as f64 / length.0 as f64;
                progress.show(now, share, "");
            }
            now >= started + length
        };
        self.subject.run(&phase, look).await;
        let to = self.moment();
        Window { phase, from, to }
    }

    fn moment(&self) -> Moment {
        Moment {
            time: self.world.now(),
            cpu: thread_cpu_time(),
            counters: (self.counters)(),
            written: Written { fast: 0, dense: 0 },
        }
    }
}
