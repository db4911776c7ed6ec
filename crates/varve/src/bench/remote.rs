//! A benchmark of a remote namespace: connect, fill if reads are to be checked, the measured window,
//! read everything back.
//!
//! What lies behind the namespace is not known here, so nothing is said about steady state.

use super::draw::{Draw, Share};
use super::flow::{Phase, Subject};
use super::oracle::Oracle;
use super::report::{Moment, PathFigures, PathSetup, Report};
use super::rig::Written;
use super::run::{BenchError, Direction, FILL_BLOCKS, FILL_DEPTH, Load, Order, nanos};
use super::store::Store;
use crate::progress::Progress;
use crate::remote::{Address, HostIdentity, HostTransport};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use varve_hostio::{Executor, Io, thread_cpu_time};
use varve_initiator::{Config, Event, RemoteDrive, Times};
use varve_io::{Drive, World};
use varve_nvme::tcp::Digests;
use varve_units::{BLOCK_BYTES, Nanos};

/// Without an association for so long, a benchmark is over. Arbitrary: enough for a target that is
/// started again.
const LOSS_TIME_MAX: Nanos = Nanos::from_secs(30);
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
    /// I/O queues.
    pub(crate) queues: u16,
    /// Commands in flight on each.
    pub(crate) depth: u32,
    /// Digests.
    pub(crate) digests: Digests,
    /// Length of the measured window.
    pub(crate) runtime: Duration,
}

/// Runs a benchmark of a remote namespace on the calling thread.
pub(crate) fn run_remote(request: RemoteRequest) -> Result<Report, BenchError> {
    let executor = Executor::new();
    let world = executor.world();
    let outcome = executor.run(async move {
        let drive = connect(&world, &request).await?;
        let run = Run::new(world, request, Rc::clone(&drive))?;
        let report = run.all().await;
        drive.close().await;
        report
    });
    outcome.map_err(BenchError::Stalled)?
}

/// Entries of a queue that takes so many commands at a time.
fn queue_entries(depth: u32) -> u16 {
    let most = u32::from(varve_initiator::QUEUE_ENTRIES_MAX);
    (depth + 1).clamp(2, most) as u16
}

async fn connect(
    world: &Rc<dyn World>,
    request: &RemoteRequest,
) -> Result<Rc<RemoteDrive<HostTransport>>, BenchError> {
    let place = request.address.resolve().map_err(BenchError::Resolve)?;
    let io = Io::of(&**world).map_err(BenchError::NoIo)?;
    let host = HostIdentity::of_this_machine();
    let (nqn, nsid) = (request.address.nqn.clone(), request.address.nsid);
    let mut config = Config::new(nqn, nsid, host.nqn, host.id);
    config.digests = request.digests;
    config.queues = request.queues;
    config.queue_entries = queue_entries(request.depth);
    config.times = Times {
        loss: LOSS_TIME_MAX,
        ..Times::default()
    };
    let transport = HostTransport::new(io, place);
    let drive = RemoteDrive::connect(Rc::clone(world), transport, config).await;
    drive.map(Rc::new).map_err(BenchError::Connect)
}

struct Run {
    world: Rc<dyn World>,
    request: RemoteRequest,
    drive: Rc<RemoteDrive<HostTransport>>,
    subject: Rc<Subject>,
    /// Blocks that are used.
    user_blocks: u64,
}

impl Run {
    fn new(
        world: Rc<dyn World>,
        request: RemoteRequest,
        drive: Rc<RemoteDrive<HostTransport>>,
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
        let namespace = self.drive.namespace();
        let queues = self.drive.queues();
        PathSetup {
            nsid: namespace.nsid,
            lba_bytes: namespace.block_bytes,
            io_queues: queues.map(|(count, _)| count),
            queue_commands: queues.map(|(_, commands)| commands),
            header_digest: self.request.digests.header,
            data_digest: self.request.digests.data,
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
        Rc::new(Phase::new(
            direction, blocks, depth, places, seed, operations,
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
