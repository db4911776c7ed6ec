//! A pool in use: labels, arrays over the drives, the engine above them.
//!
//! 1. Labels are read; the adopted member table says which drive is what.
//!    A start that accepts a loss reads all that it needs before it goes on: its first label gives up who
//!    is away.
//! 2. A new epoch is committed by label quorum before anything else is written. Of a pool that another machine may still
//!    use, its labels are watched before, and time goes by after.
//! 3. Arrays are assembled; a member that is missing is leaving in its own.
//! 4. The engine recovers and serves. The first write that misses a member commits its loss, as in a
//!    pool in use: a start that cannot read what is there gives nobody up, and the drive that was
//!    away may be the one that has it.
//! 5. The losses that are left are committed.
//! 6. Members that were being rebuilt are rebuilt again from the start.
//!
//! **Not here**: how quorums are counted (`label`), redundancy (`array`), the log (`ftl`).

use crate::assembly::{Assembly, check_dense};
use crate::error::PoolError;
use crate::gate::gated;
use crate::label::{
    self, CommitError, Fence, Import, ImportError, Known, LabelState, LabelStore, Membership,
    Owner, PoolId, Role, Taken, Terms,
};
use crate::options::{PlanError, PoolOptions, engine_geometry};
use crate::rehearsal::rehearse;
use crate::scrub::Scrubs;
use crate::settings::{Settings, engine_config};
use crate::tier::Tier;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use varve_array::MemberState;
use varve_format::{Geometry, Name};
use varve_ftl::{
    Config, Engine, EngineError, Identity, RecoverError, RecoveryReport, Seats, StopReason,
};
use varve_io::{Drive, Flow, ReactorId, World};

/// What a new pool is to be.
#[derive(Clone, Copy)]
pub struct NewPool<'a> {
    /// Its identity, random.
    pub id: PoolId,
    /// Its name.
    pub name: &'a str,
    /// Fast drives; more than one is a mirror.
    pub fast: &'a [Rc<dyn Drive>],
    /// Dense drives.
    pub dense: &'a [Rc<dyn Drive>],
    /// Sizes and protection.
    pub options: PoolOptions,
}

/// A pool in use.
pub struct Pool {
    pub(crate) world: Rc<dyn World>,
    engine: Engine,
    pub(crate) membership: Rc<Membership>,
    pub(crate) fence: Option<Rc<Fence>>,
    /// The fast tier, and the dense tier if there is one.
    pub(crate) tiers: Vec<Rc<Tier>>,
    /// Members that the terms of the import gave up.
    given_up: u64,
    geometry: Geometry,
    report: RecoveryReport,
    pub(crate) scrubs: Scrubs,
}

/// Drives of a pool as found, with their labels.
struct Found {
    stores: Vec<Rc<LabelStore>>,
    import: Import,
    fence: Option<Rc<Fence>>,
}

impl Pool {
    /// Makes a pool on blank drives and starts it. Cut short, it may be tried again with the same
    /// drives in the same order, until the pool exists.
    ///
    /// # Errors
    /// Drives that are too few, too small or labelled, a bad name, i/o errors.
    pub fn create(
        world: Rc<dyn World>,
        new: NewPool<'_>,
        settings: Settings,
    ) -> Flow<'_, Result<Self, PoolError>> {
        Box::pin(async move {
            let geometry = new.options.plan(new.fast, new.dense)?;
            let sizes = engine_geometry(&geometry);
            // Refused before anything is written.
            engine_config(&sizes, geometry.over_provision_per_mille, &settings)
                .map_err(PlanError::Reserve)?;
            let name = Name::new(new.name).map_err(|_| PoolError::BadName)?;
            let mut drives: Vec<(Role, Rc<LabelStore>)> = Vec::new();
            for drive in new.fast {
                drives.push((
                    Role::Fast,
                    Rc::new(LabelStore::open(Rc::clone(drive)).await),
                ));
            }
            for drive in new.dense {
                drives.push((
                    Role::Dense,
                    Rc::new(LabelStore::open(Rc::clone(drive)).await),
                ));
            }
            label::create(new.id, name, geometry, &drives).await?;
            let all: Vec<Rc<dyn Drive>> = new.fast.iter().chain(new.dense).cloned().collect();
            let found = find(&all, Some(new.id), &settings).await?;
            Self::start(world, found, settings, true).await
        })
    }

    /// Imports the pool that these drives hold and starts it. Drives may be missing, blank or
    /// stale as far as redundancy allows.
    ///
    /// # Errors
    /// No pool, no quorum, another owner, a checkpoint that cannot be read.
    pub fn open(
        world: Rc<dyn World>,
        drives: &[Rc<dyn Drive>],
        id: Option<PoolId>,
        settings: Settings,
    ) -> Flow<'_, Result<Self, PoolError>> {
        Box::pin(async move {
            let found = find(drives, id, &settings).await?;
            if found.import.state.unfinished {
                return Err(PoolError::Unfinished);
            }
            watch_owner(&*world, &found, settings.owner).await?;
            Self::start(world, found, settings, false).await
        })
    }

    async fn start(
        world: Rc<dyn World>,
        found: Found,
        settings: Settings,
        is_new: bool,
    ) -> Result<Self, PoolError> {
        let Found {
            stores,
            import,
            fence,
        } = found;
        let owner = settings.owner;
        check_dense(&import)?;
        rehearse(&world, &stores, &import, settings).await?;
        let (seat, beside) = (Rc::clone(&world), fence.clone());
        let membership = Membership::start_beside(seat, &import, owner, &stores, beside).await?;
        let _beating = Beating::start(&world, &membership, fence.as_ref());
        let state = membership.state();
        let geometry = state.geometry;
        let assembly = Assembly {
            world: &world,
            table: &state.members,
            stores: &stores,
            import: &import,
            canary: settings.canary,
        };
        let (fast, dense, tiers) = assembly.tiers(&geometry, &membership)?;
        let sizes = engine_geometry(&geometry);
        let lanes = settings.lanes.min(reactors_beside(&*world));
        let settings = Settings { lanes, ..settings };
        let config = engine_config(&sizes, geometry.over_provision_per_mille, &settings)
            .map_err(PlanError::Reserve)?;
        let identity = Identity {
            pool: state.pool.0,
            epoch: state.epoch,
        };
        offer_seats(&*world, config.lanes, identity, &fast, dense.as_ref());
        let seats = Seats {
            world: Rc::clone(&world),
            fast,
            dense,
        };
        let plan = (sizes, config, identity);
        let (engine, report) = run_engine(seats, plan, &membership, is_new).await?;
        if let Some(fence) = &fence {
            let stop = engine.stopper();
            fence.tell(move || stop(StopReason::Fenced));
        }
        let pool = Self {
            world,
            engine,
            membership,
            fence,
            tiers,
            given_up: given_up(&import, &state),
            geometry,
            report,
            scrubs: Scrubs::default(),
        };
        if let Err(error) = pool.lose_missing().await {
            // Nobody will have it: its flows are to end.
            let _ = pool.engine.close().await;
            return Err(error);
        }
        pool.resume_rebuilds();
        Ok(pool)
    }

    /// Commits the losses of members that are away and that no write has missed so far.
    async fn lose_missing(&self) -> Result<(), PoolError> {
        for tier in &self.tiers {
            for slot in 0..tier.losses.slots() {
                if tier.state(slot) == MemberState::Leaving
                    && let Some(id) = tier.losses.seated(slot)
                {
                    tier.lose(slot, id).await?;
                }
            }
        }
        Ok(())
    }

    /// The engine: volumes, reads, writes.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The member table.
    #[must_use]
    pub fn membership(&self) -> &Rc<Membership> {
        &self.membership
    }

    /// Sizes fixed at creation.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Counters since the start: the engine's, and `members_lost`, `remirrors`, and
    /// `rebuilds_running` as it is now.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let mut counters = self.engine.counters();
        let lost: u64 = self.tiers.iter().map(|tier| tier.losses.count()).sum();
        let rebuilt: u64 = self.tiers.iter().map(|tier| tier.rebuilt()).sum();
        counters.insert("members_lost", self.given_up + lost);
        counters.insert("remirrors", rebuilt);
        let running = self.tiers.iter().map(|tier| u64::from(tier.rebuilding()));
        counters.insert("rebuilds_running", running.sum());
        counters
    }

    /// What the start found and did.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.report
    }

    /// Who has taken the pool over, if it stopped because of that.
    #[must_use]
    pub fn taken(&self) -> Option<Taken> {
        self.membership.taken()
    }

    /// Stops the pool in good order: a scrub and rebuilds end (the next start begins these anew), a checkpoint,
    /// then the clean flag in the labels.
    ///
    /// # Errors
    /// The engine had stopped ([`PoolError::Stopped`] tells why), or the labels have no quorum.
    pub fn close(&self, release: bool) -> Flow<'_, Result<(), PoolError>> {
        Box::pin(async move {
            // A checkpoint would go over what another owner wrote. Too few labels to tell are no reason to keep it back.
            let _ = self.membership.look().await;
            self.scrubs.stop().await;
            for tier in &self.tiers {
                tier.stop_rebuilds().await;
            }
            if let Err(error) = self.engine.close().await {
                return Err(match self.engine.stop_reason() {
                    Some(why) if error == EngineError::Stopped => PoolError::Stopped(why),
                    _ => error.into(),
                });
            }
            self.membership.shutdown(release).await?;
            Ok(())
        })
    }
}

/// Members away that are lost by the label a session began with: its terms said so.
fn given_up(import: &Import, state: &LabelState) -> u64 {
    let is_lost = |id| {
        let row = state.members.get(id);
        row.is_some_and(|row| !row.state.is_voter())
    };
    import.missing.iter().filter(|id| is_lost(**id)).count() as u64
}

/// Keeps the heartbeat of a session going while its pool is being started; whoever has it does that afterwards.
struct Beating(Rc<Cell<bool>>);

impl Beating {
    fn start(
        world: &Rc<dyn World>,
        membership: &Rc<Membership>,
        fence: Option<&Rc<Fence>>,
    ) -> Option<Self> {
        let beat = fence?.beat();
        let is_over = Rc::new(Cell::new(false));
        let (clock, known, over) = (
            Rc::clone(world),
            Rc::downgrade(membership),
            Rc::clone(&is_over),
        );
        world.spawn(Box::pin(async move {
            loop {
                clock.sleep(beat).await;
                let membership = known.upgrade().filter(|_| !over.get());
                let Some(membership) = membership else {
                    return;
                };
                let next = membership.state().heartbeat + 1;
                if membership.beat(next).await.is_err() {
                    return;
                }
            }
        }));
        Some(Self(is_over))
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// Refuses to take a pool over whose owner lives: its labels are watched for longer than that is silent.
async fn watch_owner(world: &dyn World, found: &Found, owner: Owner) -> Result<(), PoolError> {
    let Found {
        stores,
        import,
        fence,
    } = found;
    let Some(fence) = fence.as_ref().filter(|_| import.may_be_in_use(owner)) else {
        return Ok(());
    };
    let labels = stores.iter().filter_map(|store| store.label());
    let epochs = labels.filter(|label| label.state.pool == import.state.pool);
    let epoch = epochs.map(|label| label.state.epoch).max();
    let known = Known::of_found(&import.state, epoch.unwrap_or(import.state.epoch));
    let alive = label::watch(world, stores, known, fence.beat()).await;
    let Some((Taken::Claimed { heartbeat, .. }, watched)) = alive else {
        return Ok(());
    };
    Err(PoolError::Import(ImportError::OwnerAlive {
        owner: import.state.owner,
        before: import.state.heartbeat,
        heartbeat,
        watched,
    }))
}

/// The engine of a pool: made if it is new, else recovered.
async fn run_engine(
    seats: Seats,
    (sizes, config, identity): (varve_ftl::Geometry, Config, Identity),
    membership: &Rc<Membership>,
    is_new: bool,
) -> Result<(Engine, RecoveryReport), PoolError> {
    if is_new {
        let engine = Engine::create(seats, sizes, config, identity).await?;
        // From here on a start finds a checkpoint.
        membership.finish_creation().await?;
        return Ok((engine, RecoveryReport::default()));
    }
    let opened = Engine::open(seats, sizes, config, identity).await;
    opened.map_err(|error| failed(error, membership))
}

/// Why a start failed: the labels, if it wrote something that they were to note a loss for.
fn failed(error: RecoverError, membership: &Membership) -> PoolError {
    if let Some(taken) = membership.taken() {
        return CommitError::Fenced(taken).into();
    }
    if membership.is_stopped() {
        return CommitError::Stopped.into();
    }
    error.into()
}

/// Offers the engine seats at the reactors that it will take beside the first: the same drives, since
/// all of them run on this thread.
fn offer_seats(
    world: &dyn World,
    lanes: u16,
    identity: Identity,
    fast: &Rc<dyn Drive>,
    dense: Option<&Rc<dyn Drive>>,
) {
    for reactor in (1..lanes).map(ReactorId) {
        let beside = world.beside(reactor);
        let seats = Seats {
            world: beside.expect("counted a moment ago"),
            fast: Rc::clone(fast),
            dense: dense.cloned(),
        };
        seats.offer(identity.pool);
    }
}

/// Reactors of the caller's thread. Arrays and their members' states belong to one thread, so a pool
/// spreads over these only.
fn reactors_beside(world: &dyn World) -> u16 {
    let all = (1..world.reactors()).map(ReactorId);
    1 + all.take_while(|id| world.beside(*id).is_some()).count() as u16
}

/// Reads the labels of all drives and chooses what to import.
async fn find(
    drives: &[Rc<dyn Drive>],
    id: Option<PoolId>,
    settings: &Settings,
) -> Result<Found, PoolError> {
    let fence = settings.beat.map(|beat| Rc::new(Fence::new(beat)));
    let mut stores = Vec::with_capacity(drives.len());
    for drive in drives {
        let drive = gated(drive, fence.as_ref());
        stores.push(Rc::new(LabelStore::open(drive).await));
    }
    let findings: Vec<_> = stores.iter().map(|store| store.finding()).collect();
    let id = match id {
        Some(id) => id,
        None => match label::pools(&findings)[..] {
            [] => return Err(PoolError::NoPool),
            [one] => one,
            _ => return Err(PoolError::SeveralPools),
        },
    };
    let Settings {
        owner,
        take_over,
        accept_loss,
        ..
    } = *settings;
    let import = label::choose(
        id,
        &findings,
        Terms {
            owner,
            take_over,
            accept_loss,
        },
    )?;
    Ok(Found {
        stores,
        import,
        fence,
    })
}
