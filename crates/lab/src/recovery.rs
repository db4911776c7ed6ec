//! The experiment: fill, overwrite until what is measured is steady, measure, lose power at the
//! worst instant, start again.

use crate::aged::Aged;
use crate::clock::{Clock, Paced};
use crate::draw::Random;
use crate::load::{Order, Phase, run};
use crate::media::{Keeping, Kind, ModelDrive, Traffic};
use crate::memory::Memory;
pub use crate::need::memory_needed;
use crate::plan::Plan;
use crate::report::{PhaseCost, Report, Restart, Window};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use varve_ftl::{Engine, EngineError, Identity, NewVolume, RecoverError, Seats};
use varve_hostio::{Executor, Stalled, thread_cpu_time};
use varve_io::{Drive, World};
use varve_units::{BLOCK_BYTES, Blocks, LeafIndex, Nanos, TenantId, VolumeId};

/// Blocks of one write while the volume is filled: 512 KiB.
const FILL_BLOCKS: u64 = 128;
/// Writes in flight while the volume is filled.
const FILL_DEPTH: u32 = 8;
/// Leaves in flight while the volume gets its past. Arbitrary: enough to share batches.
const PAST_DEPTH: u32 = 32;
/// Modelled time between two groups of a past, for each block: what hosts and collection take for
/// it at the bandwidths above. Garbage collection looks at ratios of ages alone.
const PAST_BLOCK_NS: u64 = 1000;
/// Whose the volume is.
const TENANT: TenantId = TenantId(1);
/// Writes between two looks.
const LOOK: u64 = 1 << 10;
/// Bytes a second of the dense tier: paces the modelled clock only.
const DENSE_BANDWIDTH: u64 = 10_000_000_000;
/// Writes after which an engine that commits no checkpoint counts as hanging.
const WRITES_MAX: u64 = 1 << 40;
/// Groups that hosts fill in a window at least. Arbitrary: some bursts of garbage collection, of seven groups or so.
const WINDOW_GROUPS: u64 = 16;

/// What the volume holds before anything is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// All its blocks, written from the first to the last.
    Written,
    /// All its blocks, where uniform overwrites would have left them: stated, not written.
    Past,
    /// Nothing: blocks are spread over the leaves of an empty volume, garbage collection has
    /// nothing to do.
    Nothing,
}

/// How the run goes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Request {
    /// Seed of the places written.
    pub seed: u64,
    /// Writes in flight, of one block each.
    pub depth: u32,
    /// What the volume holds before anything is measured.
    pub fill: Fill,
    /// Blocks written over before the measured window: as many times the volume.
    pub overwrites: f64,
    /// Turns of the log that the window takes at least: the cleaner works in bursts of a part of one.
    pub turns: u64,
    /// Bytes a second that a start reads from the fast tier.
    pub bandwidth: u64,
}

/// Told how far a phase is: its name, its share (0 to 1), what else there is to tell.
pub type Watch = Rc<dyn Fn(&'static str, f64, &str)>;

/// Told and tells nobody.
#[must_use]
pub fn unwatched() -> Watch {
    Rc::new(|_, _, _| ())
}

/// Why there is no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// The engine failed.
    Engine(EngineError),
    /// The engine did not start again.
    Recover(RecoverError),
    /// The engine hangs; what it holds, by name.
    Stalled(Stalled, BTreeMap<&'static str, u64>),
    /// No checkpoint committed after the power was to go with the next one.
    NoCommit,
    /// The engine lost what it had on drives that lose nothing: by name, what and how much.
    Lost(BTreeMap<&'static str, u64>),
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => write!(f, "the engine failed: {error}"),
            Self::Recover(error) => write!(f, "the engine did not start again: {error}"),
            Self::Stalled(error, gauges) => {
                write!(f, "the engine hangs: {error}: {gauges:?}")
            }
            Self::NoCommit => f.write_str("the engine took no checkpoint"),
            Self::Lost(lost) => write!(f, "the engine lost what sound drives hold: {lost:?}"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<EngineError> for LabError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Drives and clock of a modelled machine.
struct Machine {
    plan: Plan,
    request: Request,
    clock: Rc<Clock>,
    fast: Rc<ModelDrive>,
    dense: Rc<ModelDrive>,
    watch: Watch,
    /// The engine, for as long as it runs.
    engine: RefCell<Option<Rc<Engine>>>,
}

/// What is compared between the two ends of the window.
struct Moment {
    cpu: Nanos,
    counters: BTreeMap<&'static str, u64>,
    fast: Traffic,
    dense: Traffic,
}

/// A running engine and its volume.
type Subject = (Rc<Engine>, VolumeId);

/// Runs the experiment on the calling thread.
///
/// # Errors
/// [`LabError`] if the engine fails or hangs.
pub fn experiment(plan: &Plan, request: &Request, watch: Watch) -> Result<Report, LabError> {
    let clock = Rc::new(Clock::default());
    let machine = Rc::new(Machine {
        plan: *plan,
        request: *request,
        fast: Rc::new(ModelDrive::fast(
            &plan.geometry,
            Keeping::Packed,
            request.bandwidth,
            Rc::clone(&clock),
        )),
        dense: Rc::new(ModelDrive::dense(
            &plan.geometry,
            Keeping::Packed,
            DENSE_BANDWIDTH,
            Rc::clone(&clock),
        )),
        clock,
        watch,
        engine: RefCell::default(),
    });
    let flow = Rc::clone(&machine);
    let lived = in_world(&machine, move |world| async move { flow.life(world).await });
    let (created, window, memory) = lived?;
    machine.fast.power_on();
    let flow = Rc::clone(&machine);
    let restart = in_world(
        &machine,
        move |world| async move { flow.start(world).await },
    )?;
    Ok(Report::new(plan, request, created, window, memory, restart))
}

/// What the creation of a pool moves, in bytes of the fast and the dense drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Creation {
    /// Written.
    pub written: u64,
    /// Read.
    pub read: u64,
}

/// Makes a pool at full size.
///
/// # Errors
/// [`LabError`] if the engine fails.
pub fn creation(plan: &Plan) -> Result<Creation, LabError> {
    let clock = Rc::new(Clock::default());
    let request = Request {
        seed: 0,
        depth: 1,
        fill: Fill::Nothing,
        overwrites: 0.0,
        turns: 0,
        bandwidth: DENSE_BANDWIDTH,
    };
    let machine = Rc::new(Machine {
        plan: *plan,
        request,
        fast: Rc::new(ModelDrive::fast(
            &plan.geometry,
            Keeping::Packed,
            request.bandwidth,
            Rc::clone(&clock),
        )),
        dense: Rc::new(ModelDrive::dense(
            &plan.geometry,
            Keeping::Packed,
            DENSE_BANDWIDTH,
            Rc::clone(&clock),
        )),
        clock,
        watch: unwatched(),
        engine: RefCell::default(),
    });
    let flow = Rc::clone(&machine);
    in_world(&machine, move |world| async move {
        let (_engine, _) = flow.create(&world).await?;
        let (fast, dense) = (flow.fast.traffic(), flow.dense.traffic());
        Ok(Creation {
            written: fast.all_written() + dense.all_written(),
            read: fast.read + dense.read,
        })
    })
}

/// Runs a flow in an executor of its own: whatever is left of the engine goes with it.
fn in_world<T: 'static, F>(
    machine: &Machine,
    flow: impl FnOnce(Rc<dyn World>) -> F,
) -> Result<T, LabError>
where
    F: Future<Output = Result<T, LabError>> + 'static,
{
    let executor = Executor::new();
    let outcome = executor.run(flow(executor.world()));
    let engine = machine.engine.take();
    let outcome = outcome.map_err(|stalled| {
        let mut held = engine
            .as_ref()
            .map(|engine| engine.gauges())
            .unwrap_or_default();
        held.extend(
            engine
                .as_ref()
                .map(|engine| engine.counters())
                .unwrap_or_default(),
        );
        LabError::Stalled(stalled, held)
    });
    drop(executor);
    outcome?
}

impl Machine {
    fn seats(&self, inner: &Rc<dyn World>) -> Seats {
        let world = Paced {
            inner: Rc::clone(inner),
            clock: Rc::clone(&self.clock),
        };
        Seats {
            world: Rc::new(world),
            fast: Rc::clone(&self.fast) as Rc<dyn Drive>,
            dense: Some(Rc::clone(&self.dense) as Rc<dyn Drive>),
        }
    }

    async fn create(&self, world: &Rc<dyn World>) -> Result<(Engine, Nanos), LabError> {
        let before = thread_cpu_time();
        let (geometry, config) = (self.plan.geometry, self.plan.config);
        let engine = Engine::create(self.seats(world), geometry, config, identity(1)).await?;
        Ok((engine, thread_cpu_time().since(before)))
    }

    /// From nothing to the loss of power.
    async fn life(&self, world: Rc<dyn World>) -> Result<(Nanos, Window, Memory), LabError> {
        let (engine, created) = self.create(&world).await?;
        let volume = NewVolume {
            name: "lab",
            size: Blocks(self.plan.user_blocks),
            tenant: TENANT,
            uuid: [1; 16],
            nguid: [1; 16],
        };
        let volume = engine.create_volume(volume).await?;
        let subject = (Rc::new(engine), volume);
        self.engine.replace(Some(Rc::clone(&subject.0)));
        if self.request.fill == Fill::Past {
            self.give_past(&world, &subject).await?;
        }
        if self.request.fill == Fill::Written {
            let writes = self.plan.user_blocks / FILL_BLOCKS;
            let order = Order::Sequential(0);
            let phase = Phase::new(
                order,
                FILL_BLOCKS,
                FILL_DEPTH,
                self.plan.user_blocks,
                writes,
            );
            self.run_counted(&world, &subject, "fill", phase, writes)
                .await?;
        }
        let writes = warm_up_writes(&self.plan, &self.request);
        self.run_counted(
            &world,
            &subject,
            "warm up",
            self.overwrite(0, writes),
            writes,
        )
        .await?;
        let from = self.moment(&subject);
        let writes = window_writes(&self.plan, &self.request);
        self.run_counted(
            &world,
            &subject,
            "measure",
            self.overwrite(1, writes),
            writes,
        )
        .await?;
        let to = self.moment(&subject);
        let window = Window::new(writes, &window_of(&from, &to));
        let memory = Memory::of(&subject.0, &self.plan);
        check_lost(&subject.0)?;
        self.lose_power(&world, &subject).await?;
        Ok((created, window, memory))
    }

    /// Fills the volume by stating where everything lies.
    async fn give_past(&self, world: &Rc<dyn World>, subject: &Subject) -> Result<(), LabError> {
        let (engine, volume) = subject;
        let geometry = &self.plan.geometry;
        let groups = engine.preload_room();
        let aged = Aged::new(geometry, *volume, self.plan.user_blocks, groups);
        let pause = Nanos(
            u64::from(geometry.group_stripes())
                * u64::from(geometry.stripe_user_blocks())
                * PAST_BLOCK_NS,
        );
        let mut given = Vec::new();
        for age in 0..groups {
            let is_live = |block| aged.is_live(age, block);
            given.push(engine.preload_group(TENANT, is_live).await?);
            self.clock.pass(pause);
            (self.watch)("groups", f64::from(age) / f64::from(groups), "");
        }
        aged.place(given);
        let aged = Rc::new(aged);
        self.dense.set_past(&aged);
        self.fast.set_past(&aged);
        let (next, leaves) = (Rc::new(Cell::new(0)), self.plan.leaves());
        let flows: Vec<_> = (0..PAST_DEPTH)
            .map(|_| {
                let (engine, aged, next) = (Rc::clone(engine), Rc::clone(&aged), Rc::clone(&next));
                let (volume, watch) = (*volume, Rc::clone(&self.watch));
                world.run(async move {
                    while next.get() < leaves {
                        let leaf = LeafIndex(next.replace(next.get() + 1));
                        engine.preload_leaf(volume, leaf, aged.image(leaf)).await?;
                        if leaf.0.is_multiple_of(LOOK) {
                            watch("leaves", leaf.0 as f64 / leaves as f64, "");
                        }
                    }
                    Ok::<(), EngineError>(())
                })
            })
            .collect();
        for flow in flows {
            flow.await?;
        }
        Ok(())
    }

    fn overwrite(&self, number: u64, writes: u64) -> Phase {
        let seed = self.request.seed.wrapping_mul(2).wrapping_add(number);
        let order = Order::Uniform(Random::new(seed));
        Phase::new(order, 1, self.request.depth, self.plan.user_blocks, writes)
    }

    async fn run_counted(
        &self,
        world: &Rc<dyn World>,
        subject: &Subject,
        name: &'static str,
        phase: Phase,
        writes: u64,
    ) -> Result<(), LabError> {
        let phase = Rc::new(phase);
        let watch = Rc::clone(&self.watch);
        let (engine, fast, dense) = (&subject.0, Rc::clone(&self.fast), Rc::clone(&self.dense));
        let look = Rc::new(move |phase: &Phase| {
            let model = fast.memory() + dense.memory();
            let more = format!("{} MB of modelled drives", model / 1_000_000);
            watch(name, phase.done() as f64 / writes as f64, &more);
            false
        });
        run(world, engine, subject.1, &phase, LOOK, look).await;
        phase.failure().map_or(Ok(()), |error| Err(error.into()))
    }

    fn moment(&self, subject: &Subject) -> Moment {
        Moment {
            cpu: thread_cpu_time(),
            counters: subject.0.counters(),
            fast: self.fast.traffic(),
            dense: self.dense.traffic(),
        }
    }

    /// Writes until the power goes with the commit of a checkpoint.
    async fn lose_power(&self, world: &Rc<dyn World>, subject: &Subject) -> Result<(), LabError> {
        // The next commit is let through: the one behind it has a whole interval to lose.
        let commits = self.fast.traffic().commits;
        let fast = Rc::clone(&self.fast);
        let look = Rc::new(move |_: &Phase| {
            if fast.traffic().commits > commits {
                fast.arm();
            }
            fast.is_off()
        });
        let phase = Rc::new(self.overwrite(2, WRITES_MAX));
        run(world, &subject.0, subject.1, &phase, 1, look).await;
        if self.fast.is_off() {
            Ok(())
        } else {
            Err(LabError::NoCommit)
        }
    }

    /// The start after the loss of power.
    async fn start(&self, world: Rc<dyn World>) -> Result<Restart, LabError> {
        (self.watch)("start", 0.0, "");
        let before = (thread_cpu_time(), self.fast.traffic());
        let (geometry, config) = (self.plan.geometry, self.plan.config);
        let seats = self.seats(&world);
        let (phases, last) = (RefCell::new(Vec::new()), Cell::new(before));
        let ended = |phase| {
            let now = (thread_cpu_time(), self.fast.traffic());
            let (cpu, traffic) = last.replace(now);
            let phase = PhaseCost::new(phase, now.0.since(cpu), &now.1.since(&traffic));
            phases.borrow_mut().push(phase);
        };
        let opened = Engine::open_watched(seats, geometry, config, identity(2), &ended);
        let (engine, found) = opened.await.map_err(LabError::Recover)?;
        self.fast.has_started();
        let cpu = thread_cpu_time().since(before.0);
        let traffic = self.fast.traffic().since(&before.1);
        (self.watch)("start", 1.0, "");
        let phases = phases.into_inner();
        check_lost(&engine)?;
        // It is not closed, but goes with its executor: all that was asked for is known, and collecting garbage of a pool
        // that came up full, all of it in doubt, can take many times as long as all before.
        Ok(Restart::new(
            &found,
            &traffic,
            cpu,
            self.request.bandwidth,
            phases,
        ))
    }
}

/// Writes before the window: the fast tier has wrapped, all chains are as long as they get.
pub(crate) fn warm_up_writes(plan: &Plan, request: &Request) -> u64 {
    let fast = plan.fast_bytes() / BLOCK_BYTES;
    let deltas = plan.config.map.delta_nodes as u64 * 3;
    let asked = plan.user_blocks as f64 * request.overwrites;
    fast.max(deltas).max(asked as u64)
}

/// Writes of the window: all slices have had their full turn, and garbage collection, which works in bursts of
/// some groups, several.
pub(crate) fn window_writes(plan: &Plan, request: &Request) -> u64 {
    let interval = plan.config.checkpoint_bytes / BLOCK_BYTES;
    let slices = interval * u64::from(plan.config.window) * 5 / 4;
    let groups = WINDOW_GROUPS * u64::from(plan.geometry.group_blocks);
    let log = request.turns * plan.fast_bytes() / BLOCK_BYTES;
    slices.max(groups).max(log)
}

/// Counters of what an engine could not read any more.
const LOSSES: [&str; 2] = ["leaves_lost", "blocks_lost"];

/// Figures of an engine that lost something are not figures of the engine: the model lied to it, or it is wrong itself,
/// and it counts its groups again and again, reading all leaves each time.
fn check_lost(engine: &Engine) -> Result<(), LabError> {
    let mut lost = engine.counters();
    lost.retain(|name, count| LOSSES.contains(name) && *count > 0);
    match lost.is_empty() {
        true => Ok(()),
        false => Err(LabError::Lost(lost)),
    }
}

pub(crate) fn identity(epoch: u32) -> Identity {
    Identity {
        pool: *b"varve laboratory",
        epoch,
    }
}

/// What happened between two moments.
pub(crate) struct Between {
    pub(crate) cpu: Nanos,
    pub(crate) fast: Traffic,
    pub(crate) dense: Traffic,
    counters: RefCell<BTreeMap<&'static str, u64>>,
}

impl Between {
    /// How far a counter went.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        self.counters.borrow().get(name).copied().unwrap_or(0)
    }

    /// Bytes written to the fast tier, of a kind.
    pub(crate) const fn fast_of(&self, kind: Kind) -> u64 {
        self.fast.of(kind)
    }
}

fn window_of(from: &Moment, to: &Moment) -> Between {
    let before = |name: &str| from.counters.get(name).copied().unwrap_or(0);
    let counters = to
        .counters
        .iter()
        .map(|(name, count)| (*name, count - before(name)));
    Between {
        cpu: to.cpu.since(from.cpu),
        fast: to.fast.since(&from.fast),
        dense: to.dense.since(&from.dense),
        counters: RefCell::new(counters.collect()),
    }
}
