//! A pool in use: labels, arrays over the drives, the engine above them.
//!
//! 1. Labels are read; the adopted member table says which drive is what. 2. A new epoch is
//! committed by label quorum before anything else is written. 3. Arrays are assembled; a member
//! that is missing is declared lost first. 4. The engine recovers and serves.
//!
//! **Not here**: how quorums are counted (`label`), redundancy (`array`), the log (`ftl`).

use crate::error::PoolError;
use crate::label::{
    self, Change, Import, LabelStore, MemberId, MemberState, Membership, PoolId, Role, Terms,
};
use crate::losses::Losses;
use crate::options::{PoolOptions, dense_drives, engine_geometry};
use crate::settings::{Settings, engine_config};
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_array::{Geometry as ArrayGeometry, Member, Mirror, Protection as Code, StripeSet};
use varve_format::{Geometry, Name, Protection};
use varve_ftl::{Canary, Engine, Identity, RecoveryReport, Seats};
use varve_io::{Drive, World};

/// What a new pool is to be.
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
    engine: Engine,
    membership: Rc<Membership>,
    geometry: Geometry,
    report: RecoveryReport,
}

/// Drives of a pool as found, with their labels.
struct Found {
    stores: Vec<Rc<LabelStore>>,
    import: Import,
}

impl Pool {
    /// Makes a pool on blank drives and starts it.
    ///
    /// # Errors
    /// Drives that are too few, too small or labelled, a bad name, i/o errors.
    pub async fn create(
        world: Rc<dyn World>,
        new: NewPool<'_>,
        settings: Settings,
    ) -> Result<Self, PoolError> {
        let geometry = new.options.plan(new.fast, new.dense)?;
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
    }

    /// Imports the pool that these drives hold and starts it. Drives may be missing, blank or
    /// stale as far as redundancy allows.
    ///
    /// # Errors
    /// No pool, no quorum, another owner, a checkpoint that cannot be read.
    pub async fn open(
        world: Rc<dyn World>,
        drives: &[Rc<dyn Drive>],
        id: Option<PoolId>,
        settings: Settings,
    ) -> Result<Self, PoolError> {
        let found = find(drives, id, &settings).await?;
        Self::start(world, found, settings, false).await
    }

    async fn start(
        world: Rc<dyn World>,
        found: Found,
        settings: Settings,
        is_new: bool,
    ) -> Result<Self, PoolError> {
        let Found { stores, import } = found;
        let owner = settings.owner;
        let membership = Membership::start(Rc::clone(&world), &import, owner, &stores).await?;
        for id in &import.missing {
            membership.change(Change::Lose(*id)).await?;
        }
        let state = membership.state();
        let geometry = state.geometry;
        let tiers = Tiers {
            world: &world,
            membership: &membership,
            stores: &stores,
            import: &import,
            canary: settings.canary,
        };
        let fast: Rc<dyn Drive> = Rc::new(tiers.mirror()?);
        let dense: Option<Rc<dyn Drive>> = match geometry.groups {
            0 => None,
            _ => Some(Rc::new(tiers.stripe_set(&geometry)?)),
        };
        let sizes = engine_geometry(&geometry);
        let config = engine_config(&sizes, geometry.over_provision_per_mille, &settings);
        let identity = Identity {
            pool: state.pool.0,
            epoch: state.epoch,
        };
        let seats = Seats { world, fast, dense };
        let (engine, report) = if is_new {
            let engine = Engine::create(seats, sizes, config, identity).await?;
            (engine, RecoveryReport::default())
        } else {
            Engine::open(seats, sizes, config, identity).await?
        };
        Ok(Self {
            engine,
            membership,
            geometry,
            report,
        })
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

    /// What the start found and did.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.report
    }

    /// Stops the pool in good order: a checkpoint, then the clean flag in the labels.
    ///
    /// # Errors
    /// The engine had stopped, or the labels have no quorum.
    pub async fn close(&self, release: bool) -> Result<(), PoolError> {
        self.engine.close().await?;
        self.membership.shutdown(release).await?;
        Ok(())
    }
}

/// Reads the labels of all drives and chooses what to import.
async fn find(
    drives: &[Rc<dyn Drive>],
    id: Option<PoolId>,
    settings: &Settings,
) -> Result<Found, PoolError> {
    let mut stores = Vec::with_capacity(drives.len());
    for drive in drives {
        stores.push(Rc::new(LabelStore::open(Rc::clone(drive)).await));
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
    Ok(Found { stores, import })
}

/// What the arrays are assembled from.
struct Tiers<'a> {
    world: &'a Rc<dyn World>,
    membership: &'a Rc<Membership>,
    stores: &'a [Rc<LabelStore>],
    import: &'a Import,
    canary: Option<Canary>,
}

impl Tiers<'_> {
    /// The members of a tier in the order of their ids, tombstones apart.
    fn members(&self, role: Role) -> (Vec<MemberId>, Vec<Member>) {
        let state = self.membership.state();
        let rows = state.members.members().iter();
        let rows = rows.filter(|row| row.role == role && row.state != MemberState::Removed);
        rows.map(|row| (row.id, self.member(row.id, row.state)))
            .unzip()
    }

    fn member(&self, id: MemberId, state: MemberState) -> Member {
        let present = self.import.present.iter().find(|present| present.id == id);
        match (present, state) {
            (Some(present), MemberState::Active) => Member::live(
                Rc::clone(self.stores[present.drive].drive()),
                label::RESERVED_BYTES,
            ),
            (Some(present), MemberState::Rebuilding) => Member::rebuilding(
                Rc::clone(self.stores[present.drive].drive()),
                label::RESERVED_BYTES,
            ),
            (None, MemberState::Lost) if self.is_planted(Canary::StaleMemberAccepted) => {
                let stale = self.import.stale.iter().find(|stale| stale.id == id);
                stale.map_or_else(Member::lost, |stale| {
                    let drive = Rc::clone(self.stores[stale.drive].drive());
                    Member::live(drive, label::RESERVED_BYTES)
                })
            }
            _ => Member::lost(),
        }
    }

    fn is_planted(&self, canary: Canary) -> bool {
        cfg!(feature = "canary") && self.canary == Some(canary)
    }

    fn mirror(&self) -> Result<Mirror, PoolError> {
        let (ids, members) = self.members(Role::Fast);
        let losses = Rc::new(Losses::new(Rc::clone(self.membership), ids));
        let is_hasty = self.is_planted(Canary::AckBeforeSecondMirror);
        Ok(Mirror::new(members, losses, Rc::clone(self.world))?.with_haste(is_hasty))
    }

    fn stripe_set(&self, geometry: &Geometry) -> Result<StripeSet, PoolError> {
        let (ids, members) = self.members(Role::Dense);
        let losses = Rc::new(Losses::new(Rc::clone(self.membership), ids));
        let code = match geometry.protection {
            Protection::None => Code::None,
            Protection::Mirror => Code::Mirror,
            Protection::Parity => Code::Parity {
                data: usize::from(geometry.data_strips),
            },
        };
        let zone_strips = geometry.group_blocks / geometry.stripe_data_blocks;
        let array = ArrayGeometry::new(
            dense_drives(geometry),
            geometry.strip_blocks.into(),
            zone_strips.into(),
            geometry.groups.into(),
            code,
        )?;
        Ok(StripeSet::new(
            array,
            members,
            losses,
            Rc::clone(self.world),
        )?)
    }
}
