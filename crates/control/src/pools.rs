//! All pools of this machine, as one object on the data reactor.

use crate::error::ControlError;
use crate::events::{Event, Watch, Watchers};
use crate::home::{Home, Naming};
use crate::hosts::Hosts;
use crate::jobs::Jobs;
use crate::looks::Looks;
use crate::model::Models;
use crate::running::Running;
use crate::turn::Turn;
use crate::volume::Volume;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use varve_hostio::{Io, Signal};
use varve_io::{Drive, Flow, World};
use varve_pool::label::Owner;
use varve_pool::{BEAT, Settings, Tuning};
use varve_units::Nanos;

/// Bytes of memory for the map of a pool at least.
pub(crate) const MAP_BYTES_MIN: u64 = 64 << 20;
/// Bytes of drives for which the map gets one byte of memory: 0.012 %, so that a large pool takes 0.02 % with all that must
/// be there beside it.
pub(crate) const MAP_SHARE: u64 = 8333;

/// Looks at drives that were closed, and the pause between. Arbitrary: ten seconds together, as long as
/// a slow drive's command may take.
const RELEASE_ROUNDS: u32 = 10_000;
const RELEASE_PAUSE: Nanos = Nanos::from_millis(1);

/// Tries to be the one who gives names, and the pause between. Arbitrary: ten seconds together, many times
/// what making a pool takes.
const NAMING_ROUNDS: u32 = 1_000;
const NAMING_PAUSE: Nanos = Nanos::from_millis(10);

/// What whoever runs the control plane decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// Bytes of memory for the map of each pool; 0.012 % of its drives, at least 64 MiB, if `None`.
    pub map_bytes: Option<u64>,
    /// Pools of the registry are opened also if drives are missing, as far as redundancy goes: the
    /// drives are lost to the pool then, and must be rebuilt if they come back.
    pub degraded: bool,
    /// Time between heartbeats in labels, which all machines must have alike: [`varve_pool::BEAT`] if `None`. For tests.
    pub beat: Option<Nanos>,
}

/// The control plane. One per data reactor and state directory.
pub struct Pools {
    pub(crate) world: Rc<dyn World>,
    pub(crate) io: Io,
    pub(crate) home: Home,
    pub(crate) config: Config,
    owner: Owner,
    pub(crate) open: RefCell<BTreeMap<String, Rc<Running>>>,
    /// Why pools stay closed that were to be opened, by name.
    pub(crate) unopened: RefCell<BTreeMap<String, String>>,
    /// Changes of which pools there are, and of their drives.
    pub(crate) turn: Turn,
    pub(crate) watchers: Rc<Watchers>,
    pub(crate) jobs: Rc<Jobs>,
    pub(crate) models: Rc<Models>,
    pub(crate) hosts: Hosts,
    pub(crate) looks: Rc<Looks>,
    /// The signal that came while something is done that is taken back then.
    interrupted: Cell<Option<Signal>>,
}

impl Pools {
    /// The control plane of a state directory; no pool is open yet.
    ///
    /// # Errors
    /// No `io_uring`, a state directory that cannot be used.
    pub fn new(world: Rc<dyn World>, home: Home, config: Config) -> Result<Rc<Self>, ControlError> {
        let owner = home.owner()?;
        Self::of(world, home, config, owner)
    }

    /// The control plane of a state directory in which nothing is known, or which is not there, for a look: nothing is
    /// made there, and no pool can be opened.
    ///
    /// # Errors
    /// No `io_uring`.
    pub(crate) fn looking(world: Rc<dyn World>, home: Home) -> Result<Rc<Self>, ControlError> {
        Self::of(world, home, Config::default(), Owner::NOBODY)
    }

    fn of(
        world: Rc<dyn World>,
        home: Home,
        config: Config,
        owner: Owner,
    ) -> Result<Rc<Self>, ControlError> {
        let io = Io::of(&*world)?;
        Ok(Rc::new(Self {
            world,
            io,
            home,
            config,
            owner,
            open: RefCell::default(),
            unopened: RefCell::default(),
            turn: Turn::default(),
            watchers: Rc::default(),
            jobs: Rc::default(),
            models: Rc::default(),
            hosts: Hosts::default(),
            looks: Rc::default(),
            interrupted: Cell::default(),
        }))
    }

    /// Takes back what is being made, if it is not there yet, because of a signal.
    pub fn interrupt(&self, signal: Signal) {
        self.interrupted.set(Some(signal));
    }

    /// # Errors
    /// [`ControlError::Interrupted`], once a signal came.
    pub(crate) fn go_on(&self) -> Result<(), ControlError> {
        match self.interrupted.get() {
            Some(signal) => Err(ControlError::Interrupted(signal)),
            None => Ok(()),
        }
    }

    /// The events from now on.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watchers.watch()
    }

    /// All volumes of open pools.
    #[must_use]
    pub fn volumes(&self) -> Vec<Volume> {
        let open = self.open.borrow();
        open.values().flat_map(Running::volumes).collect()
    }

    /// A volume of an open pool.
    ///
    /// # Errors
    /// [`ControlError::NoPool`], [`ControlError::NoVolume`].
    pub fn volume(&self, pool: &str, volume: &str) -> Result<Volume, ControlError> {
        let volumes = self.running(pool)?.volumes();
        let mut named = volumes
            .into_iter()
            .filter(|other| other.info().name == volume);
        named.next().ok_or_else(|| ControlError::NoVolume {
            pool: pool.to_owned(),
            volume: volume.to_owned(),
        })
    }

    /// Names of the pools that are open.
    #[must_use]
    pub fn open_names(&self) -> Vec<String> {
        self.open.borrow().keys().cloned().collect()
    }

    /// True if every pool that is known here is open: there are no volumes but [`Pools::volumes`].
    #[must_use]
    pub fn are_all_open(&self) -> bool {
        let open = self.open.borrow();
        let registry = self.home.registry();
        registry.is_ok_and(|all| all.pools.iter().all(|entry| open.contains_key(&entry.name)))
    }

    pub(crate) fn running(&self, pool: &str) -> Result<Rc<Running>, ControlError> {
        let running = self.open.borrow().get(pool).cloned();
        running.ok_or_else(|| {
            let is_known = self
                .home
                .registry()
                .is_ok_and(|all| all.get(pool).is_some());
            if is_known {
                ControlError::Closed(pool.to_owned())
            } else {
                ControlError::NoPool(pool.to_owned())
            }
        })
    }

    pub(crate) fn settings(&self, raw_bytes: u64) -> Settings {
        let usual = (raw_bytes / MAP_SHARE).max(MAP_BYTES_MIN);
        Settings {
            owner: self.owner,
            take_over: false,
            accept_loss: false,
            beat: Some(self.beat()),
            lanes: 1,
            map_bytes: self.config.map_bytes.unwrap_or(usual),
            elided: false,
            tuning: Tuning::USUAL,
            bypass: true,
            canary: None,
        }
    }

    /// Time between heartbeats in labels.
    pub(crate) fn beat(&self) -> Nanos {
        self.config.beat.unwrap_or(BEAT)
    }

    /// Keeps other processes from giving names to pools here.
    ///
    /// # Errors
    /// [`ControlError::Naming`]: somebody is at it for too long.
    pub(crate) async fn naming(&self) -> Result<Naming, ControlError> {
        for _ in 0..NAMING_ROUNDS {
            self.go_on()?;
            if let Some(naming) = self.home.try_naming()? {
                return Ok(naming);
            }
            self.world.sleep(NAMING_PAUSE).await;
        }
        Err(ControlError::Naming(self.home.directory().to_owned()))
    }

    pub(crate) fn add(&self, running: Rc<Running>) {
        running.start_beating(&self.world, self.beat(), &self.watchers);
        let pool = running.name.clone();
        self.unopened.borrow_mut().remove(&pool);
        self.open.borrow_mut().insert(pool.clone(), running);
        self.watchers.tell(&Event::PoolOpened { pool });
    }

    /// Closes a pool in good order: a checkpoint, then the clean flag in its labels. With `release`
    /// any machine may import it next. It is closed also if that fails: it starts as after a crash
    /// then.
    ///
    /// # Errors
    /// [`ControlError::NoPool`]; why it was not closed in good order.
    pub fn close<'a>(&'a self, pool: &'a str, release: bool) -> Flow<'a, Result<(), ControlError>> {
        Box::pin(async move {
            let running = self.running(pool)?;
            let name = pool.to_owned();
            self.watchers.tell(&Event::PoolClosing { pool: name });
            // Hosts are not to meet a volume that is gone.
            self.watchers.heard(&*self.world).await;
            if !running.replacing.borrow().is_empty() {
                // What has ended is noted no longer; it is a hint.
                let _ = self.remember(&running).await;
            }
            let outcome = running.pool.close(release).await;
            self.open.borrow_mut().remove(pool);
            for path in running.paths.borrow().values() {
                self.models.save(path);
            }
            let drives = running.drives.take();
            drop(running);
            self.released(&drives).await;
            outcome.map_err(ControlError::pool(pool))
        })
    }

    /// Waits until nobody here has the drives open any more, as far as that is worth waiting for: flows
    /// of a pool that was closed end by themselves, each at its next step.
    async fn released(&self, drives: &[Weak<dyn Drive>]) {
        for _ in 0..RELEASE_ROUNDS {
            if drives.iter().all(|drive| drive.strong_count() == 0) {
                return;
            }
            self.world.sleep(RELEASE_PAUSE).await;
        }
    }

    /// Closes all pools, one after the other; tells what became of each.
    pub fn close_all(&self) -> Flow<'_, Vec<(String, Result<(), ControlError>)>> {
        Box::pin(async move {
            let _turn = self.turn.take().await;
            let mut outcomes = Vec::new();
            for pool in self.open_names() {
                let outcome = self.close(&pool, false).await;
                outcomes.push((pool, outcome));
            }
            outcomes
        })
    }
}
