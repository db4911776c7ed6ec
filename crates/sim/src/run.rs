//! One seed: lives of a pool, one after another, with crashes between and faults within.
//!
//! Each life: start (perhaps cut short by a crash: a crash during recovery), check which volumes
//! exist, read everything, then work until the power fails or the pool is closed in good order.
//! The last lives only check.
//!
//! **Invariants**: everything drawn comes from streams named after the seed; a whole run without
//! failure has had all that [`guarantee`](crate::guarantee) names.

use crate::atlas::{Atlas, Tier};
use crate::checker::{Oracle, Records};
use crate::drive::{Refusals, SimDrive};
use crate::executor::{Executor, Journal, Reactor, Stop, Timeline, Trigger};
use crate::fingerprint::Action;
use crate::guarantee::{CRASHES_MIN, Seen};
use crate::host::Shared;
use crate::laps::Laps;
use crate::life::{Life, Purpose, Starting};
use crate::rng::Rng;
use crate::scenario::{Options, Plan, heal_perhaps};
use crate::scrubs;
use crate::second_loss;
use crate::shortage::{Planned, Shortage};
use crate::subject::{Config, Dense, Factory, Subject};
use crate::tier_outage;
use crate::wire::Fabric;
use crate::workload::Workload;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use varve_io::{Drive, World};
use varve_units::Nanos;

mod aftermath;
mod refused_start;

/// The dense tier among those of a layout.
const DENSE: usize = 1;
/// Lives beyond those drawn, until the run has seen what every run must see. Arbitrary: no seed
/// tried needs half of them.
const LIVES_MORE: u64 = 12;
/// Host operations of each of them.
const OPERATIONS_MORE: u64 = 200;
/// Most host operations of a short life. Arbitrary: a log of a chunk or two.
const OPERATIONS_SHORT: u64 = 48;
/// Of so many crashes one takes a drive with it, if redundancy can do without that drive. Arbitrary.
const LOST_WITH_POWER_ONE_IN: u64 = 4;
/// Of so many starts one finds those drives back that were given up. Arbitrary.
const PUT_BACK_ONE_IN: u64 = 2;
/// Attempts to crash a recovery before a run gives up.
const RECOVERIES_MAX: u64 = 40;
/// Actions within which the power may fail during a creation. Arbitrary: few creations take more.
const CREATION_ACTIONS: u64 = 400;
/// Longest virtual time without any host operation ending.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// Polls in which hosts take in what had reached them when the pool's machine failed.
const SETTLE_POLLS: u64 = 100_000;

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What is wrong, in words.
    pub what: String,
    /// Where in the run.
    pub place: String,
    /// The last commands of the drives.
    pub trace: Vec<String>,
}

/// What a run did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Host operations ended.
    pub operations: u64,
    /// Power failures.
    pub crashes: u64,
    /// Of these, during a start.
    pub recovery_crashes: u64,
    /// Actions, for [`Options::crash_at`].
    pub actions: u64,
    /// Faults that struck, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// What was seen, by feature.
    pub coverage: BTreeMap<&'static str, u64>,
    /// The action hash.
    pub hash: u64,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Everything that outlives a crash.
struct Machine<'a> {
    seed: u64,
    options: Options,
    factory: &'a dyn Factory,
    plan: Plan,
    rng: Rng,
    journal: Rc<Journal>,
    atlas: Rc<RefCell<Atlas>>,
    drives: Rc<[SimDrive]>,
    laps: Option<Rc<RefCell<Laps>>>,
    replaced: Rc<RefCell<BTreeSet<usize>>>,
    shared: Rc<Shared>,
    /// Where the pool and its hosts run, if the hosts outlive it.
    timeline: Option<Rc<Timeline>>,
    now: Nanos,
    lives: u64,
    crashes: u64,
    recovery_crashes: u64,
    is_created: bool,
    /// Actions the last completed start took.
    start_actions: u64,
}

/// Runs a seed once.
#[must_use]
pub fn run(seed: u64, factory: &dyn Factory, options: Options) -> Report {
    let mut machine = Machine::new(seed, factory, options);
    let outcome = machine.all_lives();
    let failure = outcome.err().map(|what| machine.failure(what));
    if let Some(fabric) = &machine.shared.fabric {
        fabric.end();
    }
    machine.report(failure)
}

/// Runs a seed twice: both runs must do the same.
#[must_use]
pub fn run_twice(seed: u64, make: &dyn Fn() -> Box<dyn Factory>, options: Options) -> Report {
    let mut first = run(seed, &*make(), options);
    let second = run(seed, &*make(), options);
    if first.failure.is_none() && first.hash != second.hash {
        first.failure = Some(Failure {
            what: format!("two runs differ: {:#x} and {:#x}", first.hash, second.hash),
            place: "whole run".to_owned(),
            trace: Vec::new(),
        });
    }
    first
}

/// Blank drives; those of the dense tier refuse writes together.
fn drives(
    plan: &Plan,
    rng: &Rng,
    atlas: &Rc<RefCell<Atlas>>,
    (dense, shortage): (Option<&Tier>, &Rc<Shortage>),
) -> Vec<SimDrive> {
    let specs = plan.drives.iter().enumerate();
    let drives: Vec<SimDrive> = specs
        .map(|(index, &spec)| {
            let rng = rng.split_at("drive", index as u64);
            SimDrive::new(index, spec, rng, Rc::clone(atlas))
        })
        .collect();
    if let Some(tier) = dense {
        let refusals = Refusals::new(tier, rng.split("refusals"), Rc::clone(shortage));
        let refusals = Rc::new(RefCell::new(refusals));
        let dense = drives.iter().skip(plan.config.fast);
        dense.for_each(|drive| drive.join(Rc::clone(&refusals)));
    }
    drives
}

impl<'a> Machine<'a> {
    fn new(seed: u64, factory: &'a dyn Factory, options: Options) -> Self {
        let plan = Plan::draw(seed, factory, options.stress);
        let rng = Rng::new(seed);
        let layout = factory.layout(&plan.config);
        let dense = layout.tiers.get(DENSE).cloned();
        let atlas = Rc::new(RefCell::new(Atlas::new(layout)));
        let shortage = Rc::<Shortage>::default();
        let drives = drives(&plan, &rng, &atlas, (dense.as_ref(), &shortage));
        let area = factory.log_area(&plan.config);
        let laps = area.map(|area| Rc::new(RefCell::new(Laps::new(area))));
        if let Some(laps) = &laps {
            let fast = drives.iter().take(plan.config.fast);
            fast.for_each(|drive| drive.watch(Rc::clone(laps)));
        }
        let journal = Rc::<Journal>::default();
        let served = plan.wire.clone().map(|wire| {
            let timeline = Timeline::new(Rc::clone(&journal), Nanos(0));
            let canary = factory.wire_canary();
            let fabric = Fabric::new(wire, &timeline, &rng.split("fabric"), canary);
            (timeline, fabric)
        });
        let (timeline, fabric) = served.unzip();
        let shared = Shared {
            oracle: RefCell::new(Oracle::new(
                seed,
                plan.config.volatile_cache,
                Records {
                    blocks: plan.config.record_blocks,
                    are_in_order: fabric.is_none(),
                },
            )),
            workload: RefCell::new(Workload::new(
                rng.split("workload"),
                plan.config.count_max,
                plan.stress.mood(),
            )),
            operations: Cell::new(0),
            coverage: RefCell::default(),
            is_elided: plan.config.is_elided,
            tenants: plan.tenants,
            record_blocks: plan.config.record_blocks,
            volumes_max: plan.volumes,
            volume_blocks_max: Cell::new(64),
            fabric,
            afloat: RefCell::default(),
            shortage,
            is_log_away: Cell::new(false),
        };
        plan.features().for_each(|feature| shared.count(feature));
        Self {
            seed,
            options,
            factory,
            plan,
            rng,
            journal,
            atlas,
            drives: drives.into(),
            laps,
            replaced: Rc::default(),
            shared: Rc::new(shared),
            timeline,
            now: Nanos(0),
            lives: 0,
            crashes: 0,
            recovery_crashes: 0,
            is_created: false,
            start_actions: 8,
        }
    }

    fn all_lives(&mut self) -> Result<(), String> {
        if self.rng.split("earlier").chance(1, 3) {
            self.live_before()?;
        }
        let mut rng = self.rng.split("lives");
        let lives = self.plan.lives;
        for life in 1..=lives {
            let target = self.options.operations * life / lives;
            let is_closing = self.options.crash_at.is_some() || rng.chance(1, 4);
            let purpose = if is_closing {
                Purpose::Close(target)
            } else {
                Purpose::Crash(target)
            };
            self.live_through(purpose)?;
            self.shared.workload.borrow_mut().change_mood();
            if self.options.is_whole() {
                self.live_shortly(&mut rng)?;
            }
        }
        if self.options.is_whole() {
            self.add_work()?;
        }
        self.drives.iter().for_each(SimDrive::disarm);
        self.live_through(Purpose::Verify)?;
        if self.options.crash_at.is_none() {
            self.add_crashes()?;
        }
        self.lose_fast_tier()
    }

    /// Another pool lives on the drives first: what it leaves beyond the labels is believed by nobody.
    fn live_before(&mut self) -> Result<(), String> {
        let order = self.rng.split("earlier order");
        let mut executor = Executor::new(Rc::clone(&self.journal), order, self.now);
        let reactor = executor.reactor();
        reactor.set_patience(PATIENCE);
        let config = self.plan.config.clone();
        reactor.seat(config.lanes);
        let drives = self.drives.iter().map(|drive| drive.attach(&reactor));
        let world: Rc<dyn World> = Rc::clone(&reactor) as Rc<dyn World>;
        let Some(flow) = self.factory.earlier(world, drives.collect(), config) else {
            return Ok(());
        };
        let ended = executor.run(flow);
        self.now = executor.crash();
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(format!("earlier pool: {error}")),
            Err(stop) => return Err(format!("earlier pool: no progress ({stop:?})")),
        }
        self.drives.iter().for_each(SimDrive::power_fail);
        self.laps.iter().for_each(|laps| laps.borrow_mut().clear());
        self.shared.count("earlier_pools");
        Ok(())
    }

    /// Lives that the power ends soon after each start, if the seed presses on that.
    fn live_shortly(&mut self, rng: &mut Rng) -> Result<(), String> {
        for _ in 0..self.plan.stress.short_lives(rng) {
            self.shared.count("short_lives");
            let more = rng.magnitude(1, OPERATIONS_SHORT);
            self.live_through(Purpose::Shortly(more))?;
        }
        Ok(())
    }

    /// Lives until hosts and faults have brought about what every run must see.
    fn add_work(&mut self) -> Result<(), String> {
        for _ in 0..LIVES_MORE {
            if self.missing_work().is_empty() {
                return Ok(());
            }
            self.shared.count("lives_more");
            self.shared.workload.borrow_mut().wear();
            self.live_through(Purpose::Wear(OPERATIONS_MORE))?;
        }
        match self.missing_work().as_slice() {
            [] => Ok(()),
            missing => Err(format!(
                "the scenario is too weak: no {}",
                missing.join(", ")
            )),
        }
    }

    fn missing_work(&self) -> Vec<&'static str> {
        let faults = self.faults();
        let coverage = self.shared.coverage.borrow();
        let laps = self.laps.as_ref().map(|laps| laps.borrow());
        let seen = Seen {
            operations: self.shared.operations.get(),
            crashes: self.crashes,
            recovery_crashes: self.recovery_crashes,
            faults: &faults,
            coverage: &coverage,
            laps: laps.as_deref(),
        };
        seen.missing_work(self.factory.essentials(&self.plan.config))
    }

    /// Lives until the power has failed often enough, during recovery too.
    fn add_crashes(&mut self) -> Result<(), String> {
        let mut attempts = 0;
        while self.crashes < CRASHES_MIN || self.recovery_crashes == 0 {
            attempts += 1;
            if attempts > RECOVERIES_MAX {
                return Err("the scenario is too weak: no crash during recovery".to_owned());
            }
            let target = self.shared.operations.get() + 20;
            self.live_through(Purpose::Crash(target))?;
            self.live_through(Purpose::Verify)?;
        }
        Ok(())
    }

    /// Starts the pool again and again until it served its purpose.
    fn live_through(&mut self, purpose: Purpose) -> Result<(), String> {
        loop {
            let is_open = self.live(purpose)?;
            if is_open {
                return Ok(());
            }
        }
    }

    /// The pool's machine, switched on.
    fn executor(&self, order: Rng) -> Executor {
        let executor = match &self.timeline {
            Some(timeline) => Executor::on(timeline, order),
            None => Executor::new(Rc::clone(&self.journal), order, self.now),
        };
        executor.reactor().set_patience(PATIENCE);
        executor
    }

    /// One life; false if it was cut short before the pool served.
    fn live(&mut self, purpose: Purpose) -> Result<bool, String> {
        self.lives += 1;
        self.start_without()?;
        let mut rng = self.rng.split_at("life", self.lives);
        self.journal.add(Action::Step, &[self.lives]);
        let order = rng.split("order");
        let mut executor = self.executor(order);
        let reactor = executor.reactor();
        self.arm_start(&reactor, &mut rng);
        let life = self.life(&reactor, purpose, &mut rng);
        let is_open = Rc::clone(&life.is_open);
        let subject = Rc::clone(&life.subject);
        let begun = self.journal.actions();
        let starting = self.start(&life, &mut rng);
        let end = executor.run(life.run(starting, begun));
        let is_crash = matches!(end, Err(Stop::Crash));
        let outcome = match end {
            Ok(Ok(actions)) => {
                self.start_actions = actions.max(1);
                Ok(())
            }
            Ok(Err(what)) => Err(what),
            Err(Stop::Crash) => {
                self.count_crash(is_open.get());
                self.shared.count(reactor.armed().feature());
                if !self.is_created && !is_open.get() {
                    self.shared.count("creations_cut");
                }
                Ok(())
            }
            Err(Stop::Failed) => Err(self.journal.failure().unwrap_or_default()),
            Err(stop) => Err(self.describe(stop, subject.borrow().as_deref())),
        };
        if let Some(subject) = subject.take() {
            self.collect(&subject.status());
        }
        self.fail_target(&mut executor);
        self.now = executor.crash();
        outcome?;
        if let Some(what) = self.journal.failure() {
            return Err(what);
        }
        self.is_created |= is_open.get();
        self.shared.oracle.borrow_mut().crash();
        self.shared.shortage.end(self.now);
        self.shared.is_log_away.set(false);
        self.fail_power(&mut rng, is_crash);
        Ok(is_open.get())
    }

    /// The power fails; drives that were away come back with it, and others go.
    fn fail_power(&self, rng: &mut Rng, is_crash: bool) {
        let fast = self.drives.iter().take(self.plan.config.fast);
        let mut ties = rng.split("ahead");
        let ahead = fast.min_by_key(|drive| (drive.writes_in_flight(), ties.bits()));
        for drive in self.drives.iter() {
            drive.power_fail();
            if !self.is_created && !self.factory.repeats_creation() {
                drive.replace();
                self.laps.iter().for_each(|laps| laps.borrow_mut().clear());
            }
            if drive.is_gone() && rng.chance(1, 2) {
                drive.come_back();
            }
        }
        if let Some(ahead) = ahead
            && is_crash
            && self.is_created
            && self.options.has_faults
        {
            self.lose_with_power(&mut rng.split("lost with the power"), ahead);
        }
    }

    /// The power takes a drive with it, now and then: mostly the one of the log that was ahead of its peer, because what
    /// was acknowledged for its sake alone is then lost.
    fn lose_with_power(&self, rng: &mut Rng, ahead: &SimDrive) {
        if !rng.chance(1, LOST_WITH_POWER_ONE_IN) {
            return;
        }
        heal_perhaps(rng, &self.drives);
        let able = self.drives.iter().filter(|drive| drive.may_be_lost());
        let able: Vec<&SimDrive> = able.collect();
        if able.is_empty() {
            return;
        }
        let drive = match ahead.may_be_lost() && rng.chance(2, 3) {
            true => ahead,
            false => able[rng.index(able.len())],
        };
        assert!(drive.lose(), "the atlas said that it may be lost");
        self.shared.count("lost_with_power");
    }

    /// Over a network, the hosts see that the pool's machine has failed, after what reached them before.
    fn fail_target(&self, executor: &mut Executor) {
        if let Some(fabric) = &self.shared.fabric {
            fabric.network().power_fail();
            executor.settle_others(SETTLE_POLLS);
            fabric.note_crash();
        }
    }

    fn count_crash(&mut self, is_open: bool) {
        self.crashes += 1;
        if !is_open && self.is_created {
            self.recovery_crashes += 1;
        }
    }

    fn describe(&self, stop: Stop, subject: Option<&dyn Subject>) -> String {
        let outstanding = self.shared.oracle.borrow().outstanding();
        let status = subject.map(Subject::status).unwrap_or_default();
        let waits = subject.map(Subject::waits).unwrap_or_default();
        format!(
            "no progress ({stop:?}) with {outstanding} operations in flight, {status:?}, waits {waits:?}"
        )
    }

    /// Sets a crash during the start, now and then.
    fn arm_start(&self, reactor: &Reactor, rng: &mut Rng) {
        if let Some(action) = self.options.crash_at {
            if self.crashes == 0 {
                reactor.arm(Trigger::Action(action));
            }
            return;
        }
        if !self.is_created {
            self.arm_creation(reactor);
        }
        let is_due = self.recovery_crashes == 0 && self.crashes >= CRASHES_MIN - 1;
        if self.is_created && (rng.chance(1, 3) || is_due) {
            let action = rng.magnitude(1, self.start_actions);
            reactor.arm(Trigger::Action(self.journal.actions() + action));
        }
    }

    /// Sets a crash during the creation, now and then.
    fn arm_creation(&self, reactor: &Reactor) {
        let mut rng = self.rng.split_at("creation", self.lives);
        if self.factory.repeats_creation() && self.options.is_whole() && rng.chance(1, 3) {
            let action = rng.magnitude(1, CREATION_ACTIONS);
            reactor.arm(Trigger::Action(self.journal.actions() + action));
        }
    }

    fn life(&self, reactor: &Rc<Reactor>, purpose: Purpose, rng: &mut Rng) -> Life {
        Life {
            reactor: Rc::clone(reactor),
            shared: Rc::clone(&self.shared),
            drives: Rc::clone(&self.drives),
            atlas: Rc::clone(&self.atlas),
            attached: self
                .drives
                .iter()
                .map(|drive| drive.attach(reactor))
                .collect(),
            rng: RefCell::new(rng.split("work")),
            purpose,
            depth: self.plan.depth,
            fault_distance: self.plan.fault_distance,
            stress: self.plan.stress,
            has_faults: self.options.has_faults,
            shortage: self.plan_shortage(),
            second_loss: self.plan_second_loss(),
            second_until: Cell::new(Nanos(0)),
            tier_outage: self.plan_tier_outage(),
            log_outage: self.plan_log_outage(),
            tier_known_at: Cell::new(Nanos(0)),
            first_dense: self.plan.config.fast,
            has_dense_parity: matches!(self.plan.config.dense, Dense::Parity(_)),
            scrubs: self.plan_scrubs(),
            is_calm: Rc::default(),
            crash_at: self.options.crash_at,
            is_open: Rc::default(),
            subject: Rc::default(),
            fill_percent: self.plan.fill_percent,
            replacing: Rc::default(),
            replaced: Rc::clone(&self.replaced),
            is_closing: Rc::default(),
        }
    }

    /// When a dense tier of one drive takes nothing. Drawn apart: seeds without such a tier are
    /// what they are without this.
    fn plan_shortage(&self) -> Option<Planned> {
        let is_alone = self.plan.config.dense == Dense::Single;
        let may = self.options.has_faults && is_alone && self.factory.tells_shortage();
        let mut rng = self.rng.split_at("shortage", self.lives);
        let mut outages = self.rng.split_at("outage", self.lives);
        may.then(|| Planned::draw(&mut rng).or_else(|| Planned::draw_absence(&mut outages)))
            .flatten()
    }

    fn plan_second_loss(&self) -> Option<Planned> {
        let may = self.options.has_faults && self.factory.tells_shortage();
        may.then(|| second_loss::plan(&self.rng, self.lives, &self.plan.config))
            .flatten()
    }

    fn plan_tier_outage(&self) -> Option<Planned> {
        let may = self.options.has_faults && self.factory.tells_shortage();
        may.then(|| tier_outage::plan(&self.rng, self.lives, &self.plan.config))
            .flatten()
    }

    /// Hosts behind a network would wait for a pool that has stopped.
    fn plan_log_outage(&self) -> Option<Planned> {
        let is_whole = self.options.is_whole() && self.plan.wire.is_none();
        let may = is_whole && self.factory.tells_shortage();
        may.then(|| tier_outage::plan_log(&self.rng, self.lives))
            .flatten()
    }

    /// Scrubs of a life; none where one crash at a given action is all that is to happen.
    fn plan_scrubs(&self) -> Option<scrubs::Planned> {
        let may = self.options.crash_at.is_none();
        may.then(|| scrubs::Planned::draw(&self.rng, self.lives))
            .flatten()
    }

    fn start(&mut self, life: &Life, rng: &mut Rng) -> Starting {
        let world: Rc<dyn World> = Rc::clone(&life.reactor) as Rc<dyn World>;
        let lanes = rng.within(1, u64::from(self.plan.config.lanes_max)) as u16;
        if self.is_created && lanes != self.plan.config.lanes {
            self.plan.config.lanes = lanes;
            self.shared.count("lanes_changed");
        }
        let config: Config = self.plan.config.clone();
        life.reactor.seat(config.lanes);
        let mut drives = life.attached.clone();
        if self.is_created {
            drives.extend(self.put_back(&life.reactor));
            self.factory.open(world, drives, config)
        } else {
            self.factory.create(world, drives, config)
        }
    }

    /// Drives that were given up and are back, with what they held.
    fn put_back(&self, reactor: &Rc<Reactor>) -> Vec<Rc<dyn Drive>> {
        let mut rng = self.rng.split_at("put back", self.lives);
        if !self.factory.knows_drives() || !rng.chance(1, PUT_BACK_ONE_IN) {
            return Vec::new();
        }
        let drives = self.drives.iter();
        drives.filter_map(|drive| drive.put_back(reactor)).collect()
    }

    fn collect(&self, status: &BTreeMap<&'static str, u64>) {
        let mut coverage = self.shared.coverage.borrow_mut();
        for (&feature, &count) in status {
            *coverage.entry(feature).or_default() += count;
        }
    }

    fn failure(&self, what: String) -> Failure {
        let trace = self.drives.iter().flat_map(SimDrive::trace).collect();
        Failure {
            what,
            place: format!(
                "life {}, {} operations, {} actions, {} crashes",
                self.lives,
                self.shared.operations.get(),
                self.journal.actions(),
                self.crashes
            ),
            trace,
        }
    }

    /// Faults that struck so far.
    fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut faults: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (name, count) in self.drives.iter().flat_map(SimDrive::tally) {
            *faults.entry(name).or_default() += count;
        }
        if let Some(fabric) = &self.shared.fabric {
            faults.extend(fabric.tally().faults());
        }
        faults
    }

    fn report(&self, failure: Option<Failure>) -> Report {
        let faults = self.faults();
        if let Some(fabric) = &self.shared.fabric {
            self.collect(&fabric.tally().counts());
        }
        Report {
            seed: self.seed,
            operations: self.shared.operations.get(),
            crashes: self.crashes,
            recovery_crashes: self.recovery_crashes,
            actions: self.journal.actions(),
            faults,
            coverage: self.shared.coverage.borrow().clone(),
            hash: self.journal.hash(),
            failure,
        }
    }
}
