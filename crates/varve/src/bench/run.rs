//! The phases of a benchmark.

use super::plan::{Plan, PlanError, PlanRequest};
use super::report::{Moment, Report};
use super::rig::Rig;
use super::station::{Order as Task, Station};
use super::watch::{PATIENCE, watched};
use crate::load::{Direction, Failed, Order, Phase, Subject, Tally};
use crate::memory;
use crate::progress::Progress;
use crate::remote::Unreachable;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use varve_array::AssembleError;
use varve_control::Failure;
use varve_ftl::{Engine, EngineError, Identity, NewVolume};
use varve_hostio::{Stalled, run_reactors, thread_cpu_time};
use varve_io::{ReactorId, World};
use varve_units::{BLOCK_BYTES, Blocks, Nanos, TenantId};

/// Blocks of one operation while the volume is filled: 128 KiB.
pub(super) const FILL_BLOCKS: u64 = 32;
/// Operations in flight while the volume is filled.
pub(super) const FILL_DEPTH: u32 = 16;
/// Time between two looks at generators on other reactors.
const LOOK: Nanos = Nanos::from_millis(20);
/// The pool.
pub(super) const IDENTITY: Identity = Identity {
    pool: *b"varve bench pool",
    epoch: 1,
};
/// Groups garbage collection has emptied before the window opens: a share of all (1/20), and at
/// least this many.
const COLLECTED_MIN: u64 = 8;

/// What the measured load is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Load {
    /// Reads or writes.
    pub(crate) direction: Direction,
    /// Order of places.
    pub(crate) order: Order,
    /// Bytes of one operation.
    pub(crate) bytes: u64,
    /// Operations in flight.
    pub(crate) in_flight: u32,
    /// Versions are checked.
    pub(crate) verifies: bool,
    /// Seed of places and payload.
    pub(crate) seed: u64,
}

impl Load {
    /// True if it writes, be it only what is to be read and checked.
    pub(crate) fn writes(&self) -> bool {
        self.verifies || self.direction == Direction::Write
    }
}

/// A benchmark as asked for.
pub(crate) struct Request {
    /// As the user named it.
    pub(crate) target: String,
    /// The load.
    pub(crate) load: Load,
    /// The pool.
    pub(crate) plan: PlanRequest,
    /// Length of the measured window.
    pub(crate) runtime: Duration,
    /// Times the user data are overwritten, at least, before the window opens.
    pub(crate) overwrites: f64,
    /// Time after which an engine that is not in steady state counts as failed.
    pub(crate) warm_up_max: Duration,
}

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum BenchError {
    /// There is no such pool.
    Plan(PlanError),
    /// The machine has too little memory.
    Memory { needed: u64, available: u64 },
    /// The arrays do not assemble.
    Assemble(AssembleError),
    /// The engine refused to start or to make a volume.
    Engine(EngineError),
    /// Nothing is ready anywhere and the run has not ended.
    Stalled(Stalled),
    /// No operation ends any more; what each reactor waits for.
    Hangs(Vec<String>),
    /// An operation failed before the window opened.
    Load(Failed),
    /// Garbage collection or compaction did not begin in time.
    NotSteady { seconds: u64, collected: u64 },
    /// It was not overwritten as often as asked for in time.
    NotWarm { per_cent: u64 },
    /// The target cannot be used.
    Unreachable(Unreachable),
    /// The pool cannot be opened or closed, or has no such volume.
    Control(Box<Failure>),
    /// It would overwrite what is there: a sentence.
    HoldsData(String),
    /// The namespace or volume has not room for one operation.
    Small { bytes: u64, io: u64 },
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Memory { needed, available } => {
                write!(
                    f,
                    "{needed} bytes of memory are needed, {available} are available"
                )
            }
            Self::Assemble(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Stalled(error) => write!(f, "the engine hangs: {error}"),
            Self::Hangs(reports) => {
                write!(f, "the engine hangs; {}", reports.join("; "))
            }
            Self::Load(failed) => {
                let what = &failed.what;
                write!(f, "an operation failed before the measured window: {what}")
            }
            Self::NotSteady { seconds, collected } => write!(
                f,
                "not in steady state after {seconds} s: {collected} groups were collected"
            ),
            Self::NotWarm { per_cent } => {
                write!(
                    f,
                    "{per_cent} % of the warm-up was done when its time was over"
                )
            }
            Self::Unreachable(error) => error.fmt(f),
            Self::Control(failure) => f.write_str(&failure.error),
            Self::HoldsData(what) => f.write_str(what),
            Self::Small { bytes, io } => {
                write!(f, "{bytes} bytes have no room for operations of {io} bytes")
            }
        }
    }
}

impl BenchError {
    /// A stable word for programs.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Plan(PlanError::UnevenSize { .. }) => "uneven-size",
            Self::Plan(PlanError::Share { .. } | PlanError::Reserve(_)) | Self::Small { .. } => {
                "too-small"
            }
            Self::Plan(PlanError::Lanes { .. }) => "too-many-cores",
            Self::Plan(PlanError::Capacity { .. }) => "no-room",
            Self::Plan(PlanError::TooLarge { .. }) => "too-large",
            Self::Memory { .. } => "no-memory",
            Self::Assemble(_) => "assemble",
            Self::Engine(_) => "engine",
            Self::Stalled(_) | Self::Hangs(_) => "hangs",
            Self::Load(_) => "operations-failed",
            Self::NotSteady { .. } => "not-steady",
            Self::NotWarm { .. } => "not-warm",
            Self::Unreachable(error) => error.code(),
            Self::Control(failure) => &failure.code,
            Self::HoldsData(_) => "would-overwrite",
        }
    }

    /// What the user can do about it.
    pub(crate) fn next(&self) -> &str {
        match self {
            Self::Plan(PlanError::UnevenSize { .. }) => "give a --size that --bs divides",
            Self::Plan(PlanError::Share { .. }) => {
                "give a larger --size, fewer --cores or a smaller --bs"
            }
            Self::Plan(PlanError::Reserve(_)) => "give a larger --fast-tier or --size",
            Self::Plan(PlanError::Lanes { .. }) => "give fewer --cores or a larger --fast-tier",
            Self::Plan(PlanError::Capacity { .. }) => {
                "give more --over-provision or a larger --size"
            }
            Self::Plan(PlanError::TooLarge { .. }) | Self::Memory { .. } => "give a smaller --size",
            Self::NotSteady { .. } => "give a larger --warm-up-max or a smaller --size",
            Self::NotWarm { .. } => "give a larger --warm-up-max or a smaller --warm-up",
            Self::Unreachable(error) => error.next(),
            Self::Control(failure) => failure.next.as_deref().unwrap_or(""),
            Self::Small { .. } => "give a larger --size or a smaller --bs",
            Self::HoldsData(_) => "add --overwrite if what is there may go",
            Self::Load(failed) => failed.next,
            Self::Assemble(_) | Self::Engine(_) | Self::Stalled(_) | Self::Hangs(_) => {
                "report this as a bug, with the command line"
            }
        }
    }
}

/// Runs a benchmark on the calling thread.
pub(crate) fn run(request: &Request) -> Result<Report, BenchError> {
    let plan = Plan::new(&request.plan).map_err(BenchError::Plan)?;
    let needed = plan.memory_bytes();
    if let Some(available) = memory::available()
        && needed > available
    {
        return Err(BenchError::Memory { needed, available });
    }
    let rig = Rig::new(&plan);
    let (target, load) = (request.target.clone(), request.load);
    let (runtime, warm_up_max) = (nanos(request.runtime), nanos(request.warm_up_max));
    let overwrites = request.overwrites;
    let seats = |world: &Rc<dyn World>| {
        Station::keep(world, load, plan);
        if world.reactor() != ReactorId(0)
            && let Ok(seats) = rig.seats(&plan, Rc::clone(world))
        {
            // Without them the engine will not start and say which reactor it lacks.
            seats.offer(IDENTITY.pool);
        }
    };
    let outcome = run_reactors(plan.config.lanes, seats, |world| {
        let run = Run {
            load,
            plan,
            runtime,
            overwrites,
            warm_up_max,
            rig: rig.clone(),
            station: Station::of(&*world),
            world,
        };
        async move {
            let (world, station) = (Rc::clone(&run.world), Rc::clone(&run.station));
            watched(&*world, &station, PATIENCE, run.all(target)).await
        }
    });
    outcome.map_err(BenchError::Stalled)?
}

pub(super) fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

struct Run {
    load: Load,
    plan: Plan,
    runtime: Nanos,
    overwrites: f64,
    warm_up_max: Nanos,
    rig: Rig,
    station: Rc<Station>,
    world: Rc<dyn World>,
}

impl Run {
    async fn all(self, target: String) -> Result<Report, BenchError> {
        let subject = self.start().await?;
        self.fill(&subject).await?;
        self.warm_up(&subject).await?;
        let (window, from, to) = self.measure(&subject).await;
        if self.load.verifies {
            self.read_back(&subject).await;
        }
        let report = Report::new(target, &self.load, &self.plan, &window, &from, &to);
        let tally = self.tally().await;
        let failures = tally.failures;
        let report = report.with_tally(tally);
        // A failure to close is a failure of the run only if nothing failed before.
        match engine_of(&subject).close().await {
            Err(error) if failures == 0 => Err(BenchError::Engine(error)),
            _ => Ok(report),
        }
    }

    async fn start(&self) -> Result<Rc<Subject>, BenchError> {
        let seats = self.rig.seats(&self.plan, Rc::clone(&self.world));
        let seats = seats.map_err(BenchError::Assemble)?;
        let (geometry, config) = (self.plan.geometry, self.plan.config);
        let engine = Engine::create(seats, geometry, config, IDENTITY).await;
        let engine = engine.map_err(BenchError::Engine)?;
        let volume = NewVolume {
            name: "bench",
            size: Blocks(self.plan.user_blocks),
            tenant: TenantId(1),
            uuid: [1; 16],
            nguid: [1; 16],
        };
        let volume = engine.create_volume(volume).await;
        let volume = volume.map_err(BenchError::Engine)?;
        for peer in self.peers() {
            let attended = Station::call(&*self.world, peer, move |there| async move {
                there.attend(volume);
            });
            attended.await;
        }
        Ok(self.station.set_subject(engine, volume))
    }

    /// The other reactors.
    fn peers(&self) -> impl Iterator<Item = ReactorId> + use<> {
        (1..self.plan.config.lanes).map(ReactorId)
    }

    /// The reactors that hosts' commands come in at: those that own slices.
    fn generators(&self) -> impl Iterator<Item = ReactorId> + use<> {
        self.plan.config.owning()
    }

    /// Runs a phase on all generators; `look` is told now and then how many operations have ended, and
    /// whether that is enough is asked of it. What all did comes back as one.
    async fn run_all(
        &self,
        subject: &Rc<Subject>,
        task: Task,
        mut look: impl FnMut(u64, Nanos) -> bool + 'static,
    ) -> Rc<Phase> {
        let phase = self.station.phase(&task);
        if self.generators().any(|here| here == self.world.reactor()) {
            // Alone.
            subject
                .run(&phase, move |phase, now| look(phase.done(), now))
                .await;
            return phase;
        }
        let running: Vec<_> = self
            .generators()
            .map(|to| {
                Station::call(&*self.world, to, move |there| async move {
                    there.run(task).await
                })
            })
            .collect();
        let sum = Rc::clone(&phase);
        let mut ended = self.world.run(async move {
            for one in running {
                let (done, latency) = one.await;
                sum.add(done, &latency);
            }
        });
        while ended.try_take().is_none() {
            self.world.sleep(LOOK).await;
            let done = self.done().await;
            if look(done, self.world.now()) && !task.is_sweep {
                for to in self.generators() {
                    Station::call(&*self.world, to, |there| async move { there.end() }).await;
                }
                ended.await;
                break;
            }
        }
        phase
    }

    /// Operations that all generators have done of what runs.
    async fn done(&self) -> u64 {
        let mut done = 0;
        for to in self.generators() {
            done += Station::call(&*self.world, to, |there| async move { there.done() }).await;
        }
        done
    }

    /// What came of all generators' parts.
    async fn tally(&self) -> Tally {
        let mut tally = self.station.tally();
        for peer in self.peers() {
            let there = Station::call(&*self.world, peer, |there| async move { there.tally() });
            tally.add(there.await);
        }
        tally
    }

    /// Visits every block once, in order.
    async fn sweep(&self, subject: &Rc<Subject>, direction: Direction, name: &'static str) {
        let whole = self.plan.user_blocks.is_multiple_of(FILL_BLOCKS);
        let blocks = if whole { FILL_BLOCKS } else { 1 };
        let task = Task {
            direction,
            order: Order::Sequential,
            blocks,
            depth: FILL_DEPTH,
            seed: self.load.seed,
            is_sweep: true,
        };
        let count = self.plan.user_blocks / blocks;
        let mut progress = Progress::new(name, self.world.now());
        self.run_all(subject, task, move |done, now| {
            if progress.is_due(now) {
                progress.show(now, done as f64 / count as f64, "");
            }
            false
        })
        .await;
    }

    async fn fill(&self, subject: &Rc<Subject>) -> Result<(), BenchError> {
        self.sweep(subject, Direction::Write, "fill").await;
        self.no_failure().await
    }

    /// Reads everything that was written, after the window.
    async fn read_back(&self, subject: &Rc<Subject>) {
        self.sweep(subject, Direction::Read, "verify").await;
    }

    fn task(&self, direction: Direction, seed: u64) -> Task {
        Task {
            direction,
            order: self.load.order,
            blocks: self.load.bytes / BLOCK_BYTES,
            depth: self.load.in_flight,
            seed,
            is_sweep: false,
        }
    }

    async fn no_failure(&self) -> Result<(), BenchError> {
        match self.tally().await.first {
            Some(failed) => Err(BenchError::Load(failed)),
            None => Ok(()),
        }
    }

    /// Overwrites until the fast tier has wrapped and garbage collection runs.
    async fn warm_up(&self, subject: &Rc<Subject>) -> Result<(), BenchError> {
        let task = self.task(Direction::Write, self.load.seed);
        let blocks = task.blocks;
        let user = self.plan.user_blocks;
        let fast = self.plan.fast_bytes() / BLOCK_BYTES;
        let target = (self.overwrites * user as f64).max(fast as f64);
        let groups = u64::from(self.plan.geometry.groups);
        let collected_target = (groups / 20).max(COLLECTED_MIN);
        let started = self.world.now();
        let deadline = started + self.warm_up_max;
        let mut progress = Progress::new("warm up", started);
        let watched = Rc::clone(subject);
        let last = Rc::new(Cell::new(0.0));
        let seen = Rc::clone(&last);
        let look = move |done, now| {
            let written = (done * blocks) as f64 / target;
            seen.set(written);
            let collected = collected(engine_of(&watched));
            if progress.is_due(now) {
                let share = collected as f64 / collected_target as f64;
                let more = format!("{collected} of {groups} groups collected");
                progress.show(now, f64::midpoint(written.min(1.0), share.min(1.0)), &more);
            }
            now >= deadline || (written >= 1.0 && collected >= collected_target)
        };
        self.run_all(subject, task, look).await;
        self.no_failure().await?;
        let collected = collected(engine_of(subject));
        if collected < collected_target {
            let seconds = self.world.now().since(started).0 / 1_000_000_000;
            return Err(BenchError::NotSteady { seconds, collected });
        }
        if last.get() < 1.0 {
            let per_cent = (last.get() * 100.0) as u64;
            return Err(BenchError::NotWarm { per_cent });
        }
        Ok(())
    }

    async fn measure(&self, subject: &Rc<Subject>) -> (Rc<Phase>, Moment, Moment) {
        let task = self.task(self.load.direction, self.load.seed.wrapping_add(1));
        let from = self.moment(subject).await;
        let (end, length) = (from.time + self.runtime, self.runtime);
        let mut progress = Progress::new("measure", from.time);
        let started = from.time;
        let look = move |_, now: Nanos| {
            if progress.is_due(now) {
                let share = now.since(started).0 as f64 / length.0 as f64;
                progress.show(now, share, "");
            }
            now >= end
        };
        let phase = self.run_all(subject, task, look).await;
        let to = self.moment(subject).await;
        (phase, from, to)
    }

    async fn moment(&self, subject: &Subject) -> Moment {
        let mut cpu = thread_cpu_time();
        for peer in self.peers() {
            let used = Station::call(&*self.world, peer, |_| async { thread_cpu_time() });
            cpu = cpu + used.await;
        }
        Moment {
            time: self.world.now(),
            cpu,
            counters: engine_of(subject).counters(),
            written: self.rig.written(),
        }
    }
}

/// # Panics
/// If the load goes elsewhere: runs of this file make engines.
fn engine_of(subject: &Subject) -> &Engine {
    subject.store.engine().expect("the load goes to an engine")
}

fn collected(engine: &Engine) -> u64 {
    engine
        .counters()
        .get("groups_collected")
        .copied()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::Shortcoming;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn request(direction: Direction, order: Order, bytes: u64) -> Request {
        Request {
            target: "ram:".to_owned(),
            load: Load {
                direction,
                order,
                bytes,
                in_flight: 16,
                verifies: true,
                seed: 3,
            },
            plan: PlanRequest {
                user_bytes: 192 << 20,
                over_provision: 40,
                fast_per_cent: 40,
                is_mirrored: false,
                map_cache: 100,
                io_bytes: bytes,
                cores: 1,
                is_elided: false,
                may_bypass: true,
            },
            runtime: Duration::from_millis(300),
            overwrites: 1.0,
            warm_up_max: Duration::from_secs(60),
        }
    }

    /// A report without a shortcoming. On a busy machine a short window may end before anything was
    /// collected: it is made longer until that is seen.
    fn steady(mut request: Request) -> Report {
        loop {
            let report = run(&request).expect("the pool fits and works");
            let Some(Shortcoming { what, .. }) = report.shortcoming() else {
                return report;
            };
            let (load, cores) = (request.load, request.plan.cores);
            assert!(
                what.contains("measured window") && request.runtime < Duration::from_secs(10),
                "{load:?} on {cores} cores: {what}"
            );
            request.runtime *= 4;
        }
    }

    /// The whole path on a small pool: steady state is reached and every block reads back.
    #[test]
    fn small_pools_reach_steady_state_and_read_back() {
        for (direction, order, bytes) in [
            (Direction::Write, Order::Uniform, 4096),
            (Direction::Write, Order::Sequential, 128 << 10),
            (Direction::Read, Order::Zipf(0.9), 8192),
        ] {
            let report = steady(request(direction, order, bytes));
            let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
            assert_eq!(json["kind"], "Bench");
            assert!(json["iops"].as_u64().is_some_and(|iops| iops > 0));
            assert!(json["latency_ns"]["max"].as_u64() >= json["latency_ns"]["p50"].as_u64());
        }
    }

    /// A map of which little is in memory is read: how much is told of writes too, and of a map that is in memory
    /// that nothing is.
    #[test]
    fn reads_of_the_map_are_told_of_writes() {
        let told = |map_cache| {
            let mut request = request(Direction::Write, Order::Uniform, 4096);
            request.plan.map_cache = map_cache;
            let report = steady(request).json();
            let json: serde_json::Value = serde_json::from_str(&report).expect("JSON");
            assert!(json["map_hit_ratio"].is_null(), "{json}");
            json["leaf_reads_per_host_block"]
                .as_f64()
                .expect("a number")
        };
        assert!(told(10) > 0.0);
        assert!(told(100) < 0.01);
    }

    /// Symbols take the same ways: every one reads back.
    #[test]
    fn elided_payloads_read_back() {
        let mut request = request(Direction::Write, Order::Uniform, 4096);
        request.plan.is_elided = true;
        steady(request);
    }

    /// Several reactors on threads of their own: every block reads back as it was written last,
    /// whichever reactor owned it and whichever was asked.
    #[test]
    fn reactors_on_threads_read_back() {
        for (direction, order, bytes, cores) in [
            (Direction::Write, Order::Uniform, 4096, 2),
            (Direction::Write, Order::Uniform, 4096, 3),
            (Direction::Write, Order::Uniform, 4096, 4),
            (Direction::Write, Order::Sequential, 3 << 20, 2),
            (Direction::Read, Order::Zipf(0.9), 8192, 2),
            (Direction::Read, Order::Zipf(0.9), 8192, 4),
        ] {
            let mut request = request(direction, order, bytes);
            request.plan.cores = cores;
            // With four there are two owners, and commands cross; then leaves come and go as well.
            request.plan.map_cache = if cores < 4 { 100 } else { 50 };
            request.plan.user_bytes = 192 << 20;
            steady(request);
        }
    }

    /// A generator that began only when its answer is awaited would load the engine after the phase
    /// had ended, and never be told to stop.
    #[test]
    fn generators_begin_before_their_answer_is_awaited() {
        let mut request = request(Direction::Write, Order::Uniform, 4096);
        request.plan.cores = 2;
        request.plan.user_bytes = 192 << 20;
        let plan = Plan::new(&request.plan).expect("the pool fits");
        let load = request.load;
        let seat = |world: &Rc<dyn World>| Station::keep(world, load, plan);
        let outcome = run_reactors(2, seat, |world| async move {
            let peer = ReactorId(1);
            let begun = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&begun);
            let first = Station::call(&*world, peer, move |_| async move {
                begun.store(true, Ordering::Relaxed);
            });
            let second = Station::call(&*world, peer, move |_| async move {
                seen.load(Ordering::Relaxed)
            });
            let has_begun = second.await;
            first.await;
            has_begun
        });
        assert_eq!(outcome, Ok(true));
    }

    /// A run in which nothing ends any more is told, with what each reactor waits for, although there
    /// is a timer: and not only what the first one knows.
    #[test]
    fn a_run_that_stands_still_is_told() {
        let mut request = request(Direction::Write, Order::Uniform, 4096);
        request.plan.cores = 2;
        let plan = Plan::new(&request.plan).expect("the pool fits");
        let load = request.load;
        let seat = |world: &Rc<dyn World>| Station::keep(world, load, plan);
        let outcome = run_reactors(2, seat, |world| async move {
            let station = Station::of(&*world);
            let never = std::future::pending::<Result<(), BenchError>>();
            watched(&*world, &station, Nanos::from_millis(1), never).await
        });
        let Ok(Err(BenchError::Hangs(reports))) = outcome else {
            panic!("it hangs: {outcome:?}");
        };
        let names: Vec<_> = reports
            .iter()
            .filter_map(|line| line.split(':').next())
            .collect();
        assert_eq!(names, ["reactor 0", "reactor 1"]);
    }

    #[test]
    fn impossible_pools_are_refused() {
        let mut impossible = request(Direction::Write, Order::Uniform, 4096);
        impossible.plan.fast_per_cent = 2;
        assert!(matches!(run(&impossible), Err(BenchError::Plan(_))));
        let mut huge = request(Direction::Write, Order::Uniform, 4096);
        huge.plan.user_bytes = 1 << 50;
        assert!(matches!(run(&huge), Err(BenchError::Memory { .. })));
        for bytes in [1 << 51, 1 << 60, u64::MAX - 4095] {
            huge.plan.user_bytes = bytes;
            let refused = run(&huge);
            assert!(
                matches!(refused, Err(BenchError::Plan(PlanError::TooLarge { .. }))),
                "{bytes}"
            );
        }
    }
}
