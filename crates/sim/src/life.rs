//! One life of a pool: what goes on from its start to its end or the next crash.
//!
//! It reads everything, lets hosts work while faults strike, and either waits for the crash or closes the pool
//! in good order, when space, content and the pool's own state are looked at.

use crate::atlas::Atlas;
use crate::drive::SimDrive;
use crate::executor::{Reactor, Trigger};
use crate::host::{Hosts, Shared};
use crate::patience::Patience;
use crate::rng::Rng;
use crate::scenario::{draw_trigger, inject};
use crate::scrubs;
use crate::shortage::Planned;
use crate::stress::Stress;
use crate::subject::{Flow, Outcome, Subject, SubjectError};
use crate::wire::Cuts;
use crate::wire::subject::Served;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use varve_io::{Drive, World};
use varve_units::Nanos;

/// Most that all volumes hold when a pool is to be worn out, in percent of the pool's capacity: a full pool would refuse to
/// be worn out.
const WEAR_FILL_PERCENT: u64 = 85;
/// Longest virtual time without any host operation ending once faults have stopped.
const PATIENCE_QUIET: Nanos = Nanos::from_secs(10);
/// Of so many chances one hands a drive over that works: a pool is to be whole most of the time. Arbitrary.
const HAND_OVER_ONE_IN: u64 = 8;
/// How often it is looked whether a fault is due.
const WATCH: Nanos = Nanos::from_micros(50);

/// A pool that is being created or opened.
pub(crate) type Starting = Flow<'static, Outcome<Rc<dyn Subject>>>;

/// What a life is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Work until so many operations have ended, then crash.
    Crash(u64),
    /// Work until so many operations have ended, then close in good order.
    Close(u64),
    /// Work until so many more operations have ended than when work began, then crash.
    Wear(u64),
    /// Work until so many more operations have ended than when work began, then crash; nothing is
    /// made ready for it.
    Shortly(u64),
    /// Start, read everything, audit, close.
    Verify,
}

/// One life, as its flows see it.
pub(crate) struct Life {
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) shared: Rc<Shared>,
    pub(crate) drives: Rc<[SimDrive]>,
    pub(crate) atlas: Rc<RefCell<Atlas>>,
    pub(crate) attached: Vec<Rc<dyn Drive>>,
    pub(crate) rng: RefCell<Rng>,
    pub(crate) purpose: Purpose,
    pub(crate) depth: u64,
    pub(crate) fault_distance: u64,
    pub(crate) stress: Stress,
    pub(crate) has_faults: bool,
    /// When room beneath the dense drive runs out.
    pub(crate) shortage: Option<Planned>,
    /// When a second drive of the dense tier is away, from when one is lost.
    pub(crate) second_loss: Option<Planned>,
    /// Until when.
    pub(crate) second_until: Cell<Nanos>,
    /// When all drives of the dense tier are away.
    pub(crate) tier_outage: Option<Planned>,
    /// When those of the log are, and the life ends.
    pub(crate) log_outage: Option<Planned>,
    /// When the pool has noticed what they missed.
    pub(crate) tier_known_at: Cell<Nanos>,
    /// The first drive of the dense tier, and whether that has parity.
    pub(crate) first_dense: usize,
    pub(crate) has_dense_parity: bool,
    /// Scrubs beside the hosts' work.
    pub(crate) scrubs: Option<scrubs::Planned>,
    /// Hosts have done their part: faults strike no longer, scrubs are to end.
    pub(crate) is_calm: Rc<Cell<bool>>,
    pub(crate) crash_at: Option<u64>,
    pub(crate) is_open: Rc<Cell<bool>>,
    /// The pool once it serves, for what it says of itself when it makes no progress.
    pub(crate) subject: Rc<RefCell<Option<Rc<dyn Subject>>>>,
    pub(crate) fill_percent: u64,
    /// Drives whose replacement is under way.
    pub(crate) replacing: Rc<RefCell<BTreeSet<usize>>>,
    /// Drives that were replaced in this life or an earlier one and are not whole yet.
    pub(crate) replaced: Rc<RefCell<BTreeSet<usize>>>,
    pub(crate) is_closing: Rc<Cell<bool>>,
}

impl Life {
    /// The whole life; the actions its start took.
    pub(crate) async fn run(self, starting: Starting, begun: u64) -> Result<u64, String> {
        let subject = starting.await.map_err(|error| format!("start: {error}"))?;
        let actions = self.reactor.journal().actions() - begun;
        self.is_open.set(true);
        let pool = Rc::clone(&subject);
        let subject: Rc<dyn Subject> = match &self.shared.fabric {
            Some(fabric) => {
                let rng = self.rng.borrow().split("served");
                Rc::new(Served::new(fabric, &self.reactor, subject, rng))
            }
            None => subject,
        };
        *self.subject.borrow_mut() = Some(Rc::clone(&subject));
        if self.crash_at.is_none() {
            self.reactor.arm(Trigger::Never);
        }
        self.set_sizes(&*subject);
        self.shared
            .oracle
            .borrow_mut()
            .set_volatile(subject.is_volatile());
        let hosts = Hosts::new(
            Rc::clone(&self.shared),
            Rc::clone(&self.reactor),
            Rc::clone(&subject),
            pool,
            self.rng.borrow().split("hosts"),
        );
        let found = subject.found();
        self.shared.oracle.borrow_mut().check_volumes(&found)?;
        self.shared.oracle.borrow_mut().note_space(subject.space());
        Rc::clone(&hosts).verify().await;
        self.shared.oracle.borrow_mut().close_verify()?;
        self.note_tier_back(&*subject)?;
        let life = Rc::new(self);
        Rc::clone(&life).serve(subject, hosts).await?;
        Ok(actions)
    }

    fn set_sizes(&self, subject: &dyn Subject) {
        let capacity = subject.space().capacity_blocks;
        let percent = match self.purpose {
            Purpose::Wear(_) => self.fill_percent.min(WEAR_FILL_PERCENT),
            Purpose::Crash(_) | Purpose::Close(_) | Purpose::Shortly(_) | Purpose::Verify => {
                self.fill_percent
            }
        };
        let share = capacity * percent / 100 / self.shared.volumes_max as u64;
        self.shared.volume_blocks_max.set(share.max(64));
    }

    async fn serve(
        self: Rc<Self>,
        subject: Rc<dyn Subject>,
        hosts: Rc<Hosts>,
    ) -> Result<(), String> {
        let (target, is_crash) = match self.purpose {
            Purpose::Crash(target) => (target, true),
            Purpose::Wear(more) | Purpose::Shortly(more) => {
                (self.shared.operations.get() + more, true)
            }
            Purpose::Close(target) => (target, false),
            Purpose::Verify => (0, false),
        };
        let world: Rc<dyn World> = Rc::clone(&self.reactor) as Rc<dyn World>;
        let mut flows = Vec::new();
        if target > 0 {
            if matches!(self.purpose, Purpose::Wear(_)) {
                hosts.even_out().await;
                hosts.make_room(WEAR_FILL_PERCENT).await;
            }
            hosts.create_first().await;
            for _ in 0..self.depth {
                flows.push(world.run(Rc::clone(&hosts).work()));
            }
            if self.scrubs.is_some() {
                let scrubs = Rc::clone(&self).scrub(Rc::clone(&subject));
                flows.push(world.run(scrubs));
            }
            self.oversee(target, &subject).await?;
        }
        if is_crash {
            self.wait_for_crash().await;
        }
        hosts.stop();
        self.calm();
        for flow in flows {
            flow.await;
        }
        hosts.land().await;
        self.finish(&*subject, &hosts).await
    }

    /// Lets faults strike while hosts work, until enough operations have ended.
    async fn oversee(&self, target: u64, subject: &Rc<dyn Subject>) -> Result<(), String> {
        let (mut due, mut seen) = (0, 0);
        let begun = self.shared.operations.get();
        let (mut shortage, mut second) = (self.shortage, self.second_loss);
        let mut outage = self.tier_outage;
        let mut cut = self
            .shared
            .fabric
            .as_ref()
            .map(|fabric| Cuts::new(fabric, &self.rng.borrow()));
        let patience = || Patience::new(WATCH, self.shared.fabric.is_some());
        let mut waiting = patience();
        while self.shared.operations.get() < target {
            self.reactor.sleep(waiting.next_pause()).await;
            let operations = self.shared.operations.get();
            if operations > seen {
                (seen, waiting) = (operations, patience());
            }
            if let Some(cut) = &mut cut
                && self.has_faults
            {
                cut.strike(operations);
            }
            if let Some(planned) = shortage
                && operations >= begun + planned.after
            {
                shortage = None;
                self.run_short(planned);
            }
            if let Some(planned) = second
                && operations >= begun + planned.after
                && self.lose_second(planned, &**subject)
            {
                second = None;
            }
            if let Some(planned) = outage
                && operations >= begun + planned.after
                && self.lose_tier(planned, &**subject)
            {
                outage = None;
            }
            self.note_tier_back(&**subject)?;
            if let Some(planned) = self.log_outage
                && operations >= begun + planned.after
                && self.lose_log(planned, &**subject)
            {
                // Whatever the pool does until then: time goes on.
                loop {
                    self.reactor.sleep(WATCH).await;
                }
            }
            if self.has_faults && operations >= due {
                let rng = &mut *self.rng.borrow_mut();
                due = operations + rng.within(1, self.fault_distance * 2);
                inject(rng, &self.drives, self.stress, self.reactor.now());
                self.replace_some(rng, subject);
            }
        }
        Ok(())
    }

    /// The dense drive takes nothing from now on.
    fn run_short(&self, planned: Planned) {
        let until = self.shared.shortage.begin(self.reactor.now(), &planned);
        let drive = self.drives.last().expect("a pool has drives");
        drive.run_out(planned.refusal, until);
    }

    /// Begins to replace a lost drive, now and then, or one that works.
    fn replace_some(&self, rng: &mut Rng, subject: &Rc<dyn Subject>) {
        self.note_whole(&**subject);
        if self.lacks_two() || self.is_tier_out() {
            return;
        }
        let is_due = |index: &usize| {
            self.atlas.borrow().is_lost(*index) && !self.replacing.borrow().contains(index)
        };
        let Some(index) = (0..self.drives.len()).find(is_due) else {
            let index = rng.index(self.drives.len());
            if rng.chance(1, HAND_OVER_ONE_IN) && self.atlas.borrow_mut().lose(index) {
                self.drives[index].hand_over();
                self.begin_to_replace(index, subject, true);
            }
            return;
        };
        // One that is back is left alone for longer: the pool must not take it for whole meanwhile.
        let patience = if self.drives[index].has_returned() {
            16
        } else {
            5
        };
        if !rng.chance(1, patience) {
            return;
        }
        self.drives[index].replace();
        self.begin_to_replace(index, subject, false);
    }

    /// The drive in a bay is new; the one before may be read from if it `works`.
    fn begin_to_replace(&self, index: usize, subject: &Rc<dyn Subject>, works: bool) {
        self.replacing.borrow_mut().insert(index);
        self.replaced.borrow_mut().insert(index);
        let (atlas, drive) = (
            Rc::clone(&self.atlas),
            self.drives[index].attach(&self.reactor),
        );
        let (subject, reactor) = (Rc::clone(subject), Rc::clone(&self.reactor));
        let (replacing, replaced) = (Rc::clone(&self.replacing), Rc::clone(&self.replaced));
        let is_closing = Rc::clone(&self.is_closing);
        let drives = Rc::clone(&self.drives);
        self.reactor.spawn(Box::pin(async move {
            match subject.replace(index, drive, works).await {
                Ok(()) => {
                    atlas.borrow_mut().restore(index);
                    drives[index].note_given_up();
                    replacing.borrow_mut().remove(&index);
                    replaced.borrow_mut().remove(&index);
                }
                Err(SubjectError::Stopped) if is_closing.get() => {}
                Err(error) => {
                    let what = format!("replacement of drive {index}: {error}");
                    reactor.journal().fail(what);
                }
            }
        }));
    }

    /// Drives whose rebuild was begun in an earlier life may be whole by now, and drives that were
    /// away while nothing was written never were anything else. From then on the pool answers for
    /// the loss of another one.
    fn note_whole(&self, subject: &dyn Subject) {
        for (index, drive) in self.drives.iter().enumerate() {
            if drive.has_returned() && subject.is_whole(index) {
                drive.found_whole();
            }
        }
        let replaced: Vec<usize> = self.replaced.borrow().iter().copied().collect();
        for index in replaced {
            if !self.replacing.borrow().contains(&index) && subject.is_whole(index) {
                self.atlas.borrow_mut().restore(index);
                self.replaced.borrow_mut().remove(&index);
                self.shared.count("rebuilds_resumed");
            }
        }
    }

    /// Arms the crash and waits for it; hosts go on meanwhile.
    async fn wait_for_crash(&self) {
        let trigger = {
            let rng = &mut *self.rng.borrow_mut();
            draw_trigger(rng, self.reactor.journal().actions(), self.reactor.now())
        };
        self.reactor.arm(trigger);
        self.reactor.sleep(Nanos::from_millis(20)).await;
        // The event may never come (no flush in this mood): then the time decides.
        self.reactor.arm(Trigger::Time(self.reactor.now()));
        std::future::pending::<()>().await;
    }

    /// Faults stop: from now on operations must end soon.
    fn calm(&self) {
        self.is_calm.set(true);
        self.drives.iter().for_each(SimDrive::disarm);
        self.shared.shortage.end(self.reactor.now());
        if let Some(fabric) = &self.shared.fabric {
            fabric.network().calm();
        }
        self.reactor.progress();
        self.reactor.set_patience(PATIENCE_QUIET);
    }

    /// Nothing is in flight: space, audit, a clean end.
    async fn finish(&self, subject: &dyn Subject, hosts: &Rc<Hosts>) -> Result<(), String> {
        hosts.flush().await;
        self.is_closing.set(true);
        let oracle = &self.shared.oracle;
        oracle.borrow_mut().check_volumes(&subject.found())?;
        oracle.borrow().check_space(subject.space())?;
        subject
            .audit()
            .await
            .map_err(|what| format!("audit: {what}"))?;
        self.shared.count("audits");
        self.read_without_two(subject).await?;
        self.scrub_at_rest(subject).await?;
        let ticket = oracle.borrow_mut().begin_other();
        subject
            .close()
            .await
            .map_err(|error| format!("close: {error}"))?;
        oracle.borrow_mut().end_flush(ticket);
        self.shared.count("clean_ends");
        Ok(())
    }
}
