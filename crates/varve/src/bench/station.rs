//! One reactor's load generator, as the others see it.

use super::plan::Plan;
use super::run::{IDENTITY, Load};
use crate::load::{
    Direction, Draw, Oracle, Order as Places, Phase, Ring, Share, Store, Subject, Tally,
};
use hdrhistogram::Histogram;
use std::cell::{OnceCell, RefCell};
use std::future::Future;
use std::rc::Rc;
use varve_ftl::Engine;
use varve_io::{Key, ReactorId, World};
use varve_units::VolumeId;

/// Under which name reactors keep their generators.
const KEY: Key = *b"varve bench load";

/// What a generator does in one phase.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) direction: Direction,
    pub(super) order: Places,
    /// Blocks of one operation.
    pub(super) blocks: u64,
    /// Operations in flight.
    pub(super) depth: u32,
    pub(super) seed: u64,
    /// Every block of the share is visited once; else it goes on until it is ended.
    pub(super) is_sweep: bool,
}

/// One reactor's load generator.
pub(super) struct Station {
    world: Rc<dyn World>,
    load: Load,
    plan: Plan,
    subject: OnceCell<Rc<Subject>>,
    running: RefCell<Option<Rc<Phase>>>,
    /// Operations that have ended, by reactor; kept by the first.
    heard: RefCell<Vec<u64>>,
    /// What reactors wait for; kept by the first.
    reports: RefCell<Vec<Option<String>>>,
}

impl Station {
    /// Sets up a reactor's generator, to be found by the others.
    pub(super) fn keep(world: &Rc<dyn World>, load: Load, plan: Plan) {
        let station = Self {
            world: Rc::clone(world),
            load,
            plan,
            subject: OnceCell::new(),
            running: RefCell::default(),
            heard: RefCell::new(vec![0; usize::from(world.reactors())]),
            reports: RefCell::new(vec![None; usize::from(world.reactors())]),
        };
        let desk = world.desk().expect("reactors have desks");
        desk.keep(KEY, Rc::new(station));
    }

    /// The generator of a reactor.
    pub(super) fn of(world: &dyn World) -> Rc<Self> {
        let desk = world.desk().expect("reactors have desks");
        desk.kept(KEY).expect("every reactor has a generator")
    }

    /// Runs a flow with the generator of another reactor. It begins now, whenever the answer is
    /// awaited: generators run side by side.
    pub(super) fn call<T, Job, Flow>(
        world: &dyn World,
        to: ReactorId,
        job: Job,
    ) -> impl Future<Output = T> + use<T, Job, Flow>
    where
        T: Send + 'static,
        Job: FnOnce(Rc<Self>) -> Flow + Send + 'static,
        Flow: Future<Output = T> + 'static,
    {
        let answer = world.call(to, KEY, job);
        async move { answer.await.expect("every reactor has a generator") }
    }

    /// The engine with the volume to be loaded.
    pub(super) fn set_subject(&self, engine: Engine, volume: VolumeId) -> Rc<Subject> {
        let depth = self.load.in_flight.max(super::run::FILL_DEPTH);
        let oracle = self
            .load
            .verifies
            .then(|| RefCell::new(Oracle::new(self.plan.user_blocks, depth)));
        let world = Rc::clone(&self.world);
        let subject = Rc::new(Subject::new(Store::Engine(engine, volume), world, oracle));
        Rc::clone(self.subject.get_or_init(|| subject))
    }

    /// Takes the engine as this reactor has it.
    pub(super) fn attend(&self, volume: VolumeId) {
        let engine = Engine::at(&*self.world, IDENTITY).expect("the engine was started");
        self.set_subject(engine, volume);
    }

    /// Which part of the volume it visits, in operations of `blocks` blocks. On a reactor that owns
    /// nothing, and so has no load, the part of the first one that does.
    pub(super) fn share(&self, blocks: u64) -> Share {
        let config = &self.plan.config;
        let index = self
            .world
            .reactor()
            .0
            .saturating_sub(config.first_owner().0);
        Share::new(index.into(), config.owners().into(), blocks)
    }

    /// The phase an order makes here.
    pub(super) fn phase(&self, order: &Order) -> Rc<Phase> {
        let user = self.plan.user_blocks;
        let share = self.share(self.load.bytes / varve_units::BLOCK_BYTES);
        // A fill goes by runs of the load's shares, so that blocks keep their owners.
        let share = if share.run_blocks().is_multiple_of(order.blocks) {
            share
        } else {
            self.share(order.blocks)
        };
        let slots = share.slots(order.blocks, user);
        let seed = order
            .seed
            .wrapping_add(u64::from(self.world.reactor().0) << 32);
        let draw = Draw::new(order.order, slots, seed);
        let operations = if order.is_sweep { slots } else { u64::MAX };
        let Order {
            direction,
            blocks,
            depth,
            ..
        } = *order;
        let places = (draw, share);
        let ring = Ring::new(blocks as usize, self.plan.config.elided, seed);
        Rc::new(Phase::new(
            direction, blocks, depth, places, ring, operations,
        ))
    }

    /// Does what is ordered, to its end.
    pub(super) async fn run(&self, order: Order) -> (u64, Histogram<u64>) {
        let subject = Rc::clone(self.subject.get().expect("it has the engine"));
        let phase = self.phase(&order);
        *self.running.borrow_mut() = Some(Rc::clone(&phase));
        subject.run(&phase, |_, _| false).await;
        self.running.borrow_mut().take();
        let latency = phase.latency.borrow().clone();
        (phase.done(), latency)
    }

    /// Operations of what runs that have ended.
    pub(super) fn done(&self) -> u64 {
        self.running
            .borrow()
            .as_ref()
            .map_or(0, |phase| phase.done())
    }

    /// Ends what runs.
    pub(super) fn end(&self) {
        if let Some(phase) = &*self.running.borrow() {
            phase.end();
        }
    }

    /// Runs a job with the generator of a reactor, this one's included.
    pub(super) fn tell(
        world: &dyn World,
        to: ReactorId,
        job: impl FnOnce(Rc<Self>) + Send + 'static,
    ) {
        world.tell(to, KEY, job);
    }

    /// Operations that have ended, of each reactor as far as it has told this one.
    pub(super) fn heard(&self) -> Vec<u64> {
        self.heard.borrow().clone()
    }

    /// True if every reactor has told what it waits for.
    pub(super) fn has_all_reports(&self) -> bool {
        self.reports.borrow().iter().all(Option::is_some)
    }

    /// What each reactor has told that it waits for; one that did not is named.
    pub(super) fn take_reports(&self) -> Vec<String> {
        let reports = self.reports.take().into_iter().enumerate();
        let silent = |reactor| format!("reactor {reactor} does not answer");
        reports
            .map(|(reactor, report)| report.unwrap_or_else(|| silent(reactor)))
            .collect()
    }

    /// Tells the first reactor how many operations have ended here.
    pub(super) fn tell_ended(&self) {
        let ended = self.subject.get().map_or(0, |subject| subject.ended());
        let index = usize::from(self.world.reactor().0);
        Self::tell(&*self.world, ReactorId(0), move |first| {
            first.heard.borrow_mut()[index] = ended;
        });
    }

    /// Tells the first reactor what is waited for here.
    pub(super) fn tell_waits(&self) {
        let waits = self.waits();
        let index = usize::from(self.world.reactor().0);
        Self::tell(&*self.world, ReactorId(0), move |first| {
            first.reports.borrow_mut()[index] = Some(waits);
        });
    }

    /// What its operations wait for, in words.
    fn waits(&self) -> String {
        let reactor = self.world.reactor().0;
        let engine = self
            .subject
            .get()
            .and_then(|subject| subject.store.engine());
        let waits = engine.map(Engine::waits).unwrap_or_default();
        let words: Vec<_> = waits
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        format!("reactor {reactor}: {}", words.join(", "))
    }

    /// What came of it so far.
    pub(super) fn tally(&self) -> Tally {
        let subject = self.subject.get();
        subject.map(|subject| subject.tally()).unwrap_or_default()
    }
}
