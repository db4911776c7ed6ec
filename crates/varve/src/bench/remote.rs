//! A benchmark of a remote namespace: connect, fill if reads are to be checked, the measured window,
//! read everything back.
//!
//! What lies behind the namespace is not known here, so nothing is said about steady state.

use super::report::{Moment, PathFigures, PathSetup, Report};
use super::rig::Written;
use super::run::{BenchError, FILL_BLOCKS, FILL_DEPTH, Load, nanos};
use crate::load::{Direction, Draw, Oracle, Order, Phase, Ring, Share, Store, Subject};
use crate::progress::Progress;
use crate::remote::{Address, Remote, Terms, connect};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use varve_hostio::{Executor, thread_cpu_time};
use varve_initiator::Event;
use varve_io::{Drive, World};
use varve_units::{BLOCK_BYTES, Nanos};

/// Bytes that are used of a larger namespace if nothing is said. As the pool in memory.
const SIZE_DEFAULT: u64 = 4 << 30;

/// A benchmark of a remote namespace, as asked for.
pub(crate) struct RemoteRequest {
    /// The namespace.
    pub(crate) address: Address,
    /// The load.
    pub(crate) load: Load,
    /// Bytes from the namespace's start that are used.
    pub(crate) size: Option<u64>,
    /// How it is used.
    pub(crate) terms: Terms,
    /// Length of the measured window.
    pub(crate) runtime: Duration,
}

/// Runs a benchmark of a remote namespace on the calling thread.
pub(crate) fn run_remote(request: RemoteRequest) -> Result<Report, BenchError> {
    let executor = Executor::new();
    let world = executor.world();
    let outcome = executor.run(async move {
        let connected = connect(&world, &request.address, request.terms).await;
        let drive = connected.map_err(BenchError::Unreachable)?;
        let run = Run::new(world, request, Rc::clone(&drive))?;
        let report = run.all().await;
        drive.close().await;
        report
    });
    outcome.map_err(BenchError::Stalled)?
}

struct Run {
    world: Rc<dyn World>,
    request: RemoteRequest,
    drive: Rc<Remote>,
    subject: Rc<Subject>,
    /// Blocks that are used.
    user_blocks: u64,
}

impl Run {
    fn new(
        world: Rc<dyn World>,
        request: RemoteRequest,
        drive: Rc<Remote>,
    ) -> Result<Self, BenchError> {
        let (io, there) = (request.load.bytes, drive.info().bytes);
        let bytes = request.size.unwrap_or(SIZE_DEFAULT).min(there);
        let bytes = bytes / io * io;
        if bytes == 0 {
            let bytes = there;
            return Err(BenchError::Small { bytes, io });
        }
        let user_blocks = bytes / BLOCK_BYTES;
        let depth = request.load.in_flight.max(FILL_DEPTH);
        let oracle = || RefCell::new(Oracle::new(user_blocks, depth));
        let oracle = request.load.verifies.then(oracle);
        let store = Store::Remote(Rc::clone(&drive));
        let subject = Rc::new(Subject::new(store, Rc::clone(&world), oracle));
        Ok(Self {
            world,
            request,
            drive,
            subject,
            user_blocks,
        })
    }

    async fn all(&self) -> Result<Report, BenchError> {
        let verifies = self.request.load.verifies;
        if verifies {
            self.sweep(Direction::Write, "fill").await;
            if let Some(what) = self.subject.first_failure() {
                return Err(BenchError::Load(what));
            }
        }
        let (window, from, to) = self.measure().await;
        if verifies {
            self.sweep(Direction::Read, "verify").await;
        }
        let load = &self.request.load;
        let what = (
            self.request.address.to_string(),
            load,
            self.user_blocks * BLOCK_BYTES,
        );
        let (path, figures) = (self.path(), self.figures());
        let report = Report::of_remote(what, &window, (&from, &to), path, figures);
        let (failures, first) = (self.subject.failures(), self.subject.first_failure());
        Ok(report.with_failures(failures, first))
    }

    fn path(&self) -> PathSetup {
        let (namespace, terms) = (self.drive.namespace(), self.request.terms);
        let queues = self.drive.queues();
        PathSetup {
            nsid: namespace.nsid,
            lba_bytes: namespace.block_bytes,
            io_queues: queues.map(|(count, _)| count),
            queue_commands: queues.map(|(_, commands)| commands),
            header_digest: terms.digests.header,
            data_digest: terms.digests.data,
        }
    }

    /// What happened to associations, of the newest events.
    fn figures(&self) -> PathFigures {
        let losses = self.drive.take_events().into_iter();
        let losses = losses.filter_map(|event| match event {
            Event::Lost { loss, .. } => Some(loss.to_string()),
            _ => None,
        });
        let losses: Vec<_> = losses.collect();
        PathFigures {
            associations_lost: losses.len() as u64,
            last_loss: losses.into_iter().next_back(),
        }
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
        let seed = self.request.load.seed.wrapping_add(turn);
        let draw = Draw::new(order, self.user_blocks / blocks, seed);
        let places = (draw, Share::new(0, 1, blocks));
        let ring = Ring::new(blocks as usize, false, seed);
        Rc::new(Phase::new(
            direction, blocks, depth, places, ring, operations,
        ))
    }

    async fn measure(&self) -> (Rc<Phase>, Moment, Moment) {
        let load = &self.request.load;
        let blocks = load.bytes / BLOCK_BYTES;
        let what = (load.direction, load.order);
        let phase = self.phase(what, blocks, load.in_flight, u64::MAX, 1);
        let from = self.moment();
        let (started, length) = (from.time, nanos(self.request.runtime));
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
        (phase, from, to)
    }

    fn moment(&self) -> Moment {
        Moment {
            time: self.world.now(),
            cpu: thread_cpu_time(),
            counters: BTreeMap::new(),
            written: Written { fast: 0, dense: 0 },
        }
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
