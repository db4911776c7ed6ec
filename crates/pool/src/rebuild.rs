//! A pool that has lost its fast tier, or of which no checkpoint can be read: the map is made anew from the dense one.
//!
//! 1. Labels are read, of all drives that are here. If a start would succeed there is nothing to be rebuilt.
//! 2. The map is made on the new fast drives (`ftl::rebuild`). No label is written, nothing is written to a dense drive: cut
//!    short here, the pool is what it was, and the same is done again. Its old fast drives, should they come back, find it.
//! 3. The labels: new fast drives first, then the dense ones. The first of them is what a start goes by.
//!
//! **Not here**: which block lies where (`ftl`), drives and their preflight (`control`).

use crate::assembly::check_dense;
use crate::error::PoolError;
use crate::label::{
    self, CreateError, Finding, Import, ImportError, Known, Label, LabelState, LabelStore,
    MemberId, PoolId, Remains, Role, Taken, Terms,
};
use crate::pool::Pool;
use crate::rehearsal::{Bare, could_start};
use crate::settings::Settings;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::Geometry;
use varve_ftl::{Draft, Engine, RebuildProgress, RebuildReport, Rebuilding};
use varve_io::{Drive, Flow, IoError, World};
use varve_units::{Blocks, VolumeId};

/// What is to be rebuilt, from what and onto what.
#[derive(Clone, Copy)]
pub struct RebuildMap<'a> {
    /// The pool.
    pub id: PoolId,
    /// Drives of it that are here: dense ones, and fast ones if any are left.
    pub drives: &'a [Rc<dyn Drive>],
    /// Fast drives, as many as the pool had: blank, or its own that are to be written over.
    pub fast: &'a [Rc<dyn Drive>],
    /// Also if a start of the pool would succeed: what its log holds is given up.
    pub force: bool,
    /// What volumes become, whose names and sizes are lost.
    pub draft: &'a dyn Fn(VolumeId, Blocks) -> Draft,
    /// Told now and then.
    pub progress: &'a dyn Fn(RebuildProgress),
}

/// A pool that can be started again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebuilt {
    /// What was found.
    pub report: RebuildReport,
    /// The new fast drives, in the order in which they were given.
    pub fast: Vec<MemberId>,
    /// Dense drives that are away, and lost to the pool.
    pub away: Vec<MemberId>,
}

/// What a pool needs of fast drives, told by its labels before anything is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastNeeds {
    /// Drives.
    pub drives: usize,
    /// Bytes of each at least, labels included.
    pub least_bytes: u64,
    /// Bytes of a logical sector at most.
    pub lba_bytes: u32,
}

impl FastNeeds {
    /// Of a pool with this newest label.
    fn of(remains: &Remains) -> Self {
        let geometry = &remains.state.geometry;
        Self {
            drives: remains.state.members.slots(Role::Fast),
            least_bytes: crate::assembly::least_bytes(geometry, Role::Fast),
            lba_bytes: geometry.lba_bytes,
        }
    }
}

impl Pool {
    /// Makes the map of a pool anew from its dense drives, and labels the new fast ones. The pool is not started.
    ///
    /// # Errors
    /// [`PoolError::MapWhole`] if the pool can be started; drives that do not fit, too few dense ones, too many blocks,
    /// i/o errors. Unless labels could not be written nothing on the dense drives was changed, and the same may be tried
    /// again in any case.
    pub fn rebuild(
        world: Rc<dyn World>,
        wanted: RebuildMap<'_>,
        settings: Settings,
    ) -> Flow<'_, Result<Rebuilt, PoolError>> {
        Box::pin(async move {
            let mut stores = open(wanted.drives).await;
            let found = findings(&stores);
            let remains = label::remains(wanted.id, &found, terms(&settings))?;
            check_groups(&remains.state.geometry)?;
            watch_owner(&*world, &stores, &remains, &settings).await?;
            if !wanted.force {
                refuse_whole(&world, &stores, &found, (wanted.id, settings)).await?;
            }
            stores.extend(take_fast(&remains, wanted.id, wanted.fast).await?);
            let sizes: Vec<u64> = wanted.fast.iter().map(|drive| drive.info().bytes).collect();
            let drives = wanted.drives.len();
            let import = remains
                .with_fast(drives, &sizes)
                .ok_or(PoolError::TooManyMembers)?;
            check_dense(&import)?;
            let report = make_map(&world, &stores, &import, &wanted, settings).await?;
            // The drives were read for as long as that took.
            watch_owner(&*world, &stores[..drives], &remains, &settings).await?;
            commit(&stores, &import, settings).await?;
            let is_away = |id: &MemberId| {
                let row = remains.state.members.get(*id);
                let is_dense = row.is_some_and(|row| row.role == Role::Dense);
                is_dense && !remains.dense.iter().any(|present| present.id == *id)
            };
            let voters = remains.state.members.voters();
            let away = voters.ids().iter().copied().filter(is_away);
            let fast = import.present.iter().filter(|one| one.role == Role::Fast);
            Ok(Rebuilt {
                report,
                fast: fast.map(|one| one.id).collect(),
                away: away.collect(),
            })
        })
    }
}

async fn open(drives: &[Rc<dyn Drive>]) -> Vec<Rc<LabelStore>> {
    let mut stores = Vec::with_capacity(drives.len());
    for drive in drives {
        stores.push(Rc::new(LabelStore::open(Rc::clone(drive)).await));
    }
    stores
}

fn findings(stores: &[Rc<LabelStore>]) -> Vec<Finding> {
    stores.iter().map(|store| store.finding()).collect()
}

const fn terms(settings: &Settings) -> Terms {
    Terms {
        owner: settings.owner,
        take_over: settings.take_over,
        accept_loss: true,
    }
}

/// A pool without a dense tier has nothing to be rebuilt from.
const fn check_groups(geometry: &Geometry) -> Result<(), PoolError> {
    match geometry.groups {
        0 => Err(PoolError::NoDenseTier),
        _ => Ok(()),
    }
}

/// Refuses a pool that another owner still uses.
async fn watch_owner(
    world: &dyn World,
    stores: &[Rc<LabelStore>],
    remains: &Remains,
    settings: &Settings,
) -> Result<(), PoolError> {
    let state = &remains.state;
    let Some(beat) = settings
        .beat
        .filter(|_| state.may_be_in_use(settings.owner))
    else {
        return Ok(());
    };
    let known = Known::of_found(state, remains.epoch_seen);
    match label::watch(world, stores, known, beat).await {
        Some((Taken::Claimed { heartbeat, .. }, watched)) => {
            let (owner, before) = (state.owner, state.heartbeat);
            Err(PoolError::Import(ImportError::OwnerAlive {
                owner,
                before,
                heartbeat,
                watched,
            }))
        }
        _ => Ok(()),
    }
}

/// Refuses a pool that can be started, be it with an accepted loss: that gives up less.
async fn refuse_whole(
    world: &Rc<dyn World>,
    stores: &[Rc<LabelStore>],
    found: &[Finding],
    (id, settings): (PoolId, Settings),
) -> Result<(), PoolError> {
    let Ok(import) = label::choose(id, found, terms(&settings)) else {
        return Ok(());
    };
    let could =
        check_dense(&import).is_ok() && could_start(world, stores, &import, settings).await.is_ok();
    match could {
        true => Err(PoolError::MapWhole {
            with_loss: import.loss.is_some(),
        }),
        false => Ok(()),
    }
}

/// Checks the new fast drives, and reads their labels.
async fn take_fast(
    remains: &Remains,
    id: PoolId,
    fast: &[Rc<dyn Drive>],
) -> Result<Vec<Rc<LabelStore>>, PoolError> {
    let needs = FastNeeds::of(remains);
    if fast.len() != needs.drives {
        return Err(PoolError::FastCount {
            wanted: needs.drives,
            given: fast.len(),
        });
    }
    let stores = open(fast).await;
    for (drive, store) in stores.iter().enumerate() {
        let info = store.drive().info();
        if info.bytes < needs.least_bytes || info.lba_bytes > needs.lba_bytes {
            return Err(PoolError::FastUnfit { drive, needs });
        }
        match store.finding() {
            Finding::Blank => {}
            Finding::Label(label) if is_own_fast(&label, id) => {}
            Finding::Unreadable(error) => return Err(PoolError::Drive(error)),
            Finding::Label(_) | Finding::OtherUse { .. } => {
                return Err(CreateError::NotBlank { drive }.into());
            }
        }
    }
    Ok(stores)
}

/// True of a fast drive of the pool itself.
fn is_own_fast(label: &Label, id: PoolId) -> bool {
    let row = label.state.members.get(label.own);
    label.state.pool == id && row.is_some_and(|row| row.role == Role::Fast)
}

async fn make_map(
    world: &Rc<dyn World>,
    stores: &[Rc<LabelStore>],
    import: &Import,
    wanted: &RebuildMap<'_>,
    settings: Settings,
) -> Result<RebuildReport, PoolError> {
    let state = LabelState {
        epoch: import.epoch,
        ..import.state.clone()
    };
    let bare = Bare::of(world, stores, import, &state, settings)?;
    let wanted = Rebuilding {
        draft: wanted.draft,
        progress: wanted.progress,
        memory: settings.map_bytes,
    };
    Ok(Engine::rebuild(bare.seats, bare.sizes, bare.config, bare.identity, &wanted).await?)
}

/// Writes the labels: the new fast drives' first.
async fn commit(
    stores: &[Rc<LabelStore>],
    import: &Import,
    settings: Settings,
) -> Result<(), PoolError> {
    let mut state = import.state.clone();
    state.owner = settings.owner;
    let is_fast = |one: &&label::Present| one.role == Role::Fast;
    let (fast, dense): (Vec<&label::Present>, Vec<_>) = import.present.iter().partition(is_fast);
    let mut written: Vec<MemberId> = Vec::new();
    let mut failed: Option<IoError> = None;
    for present in fast.into_iter().chain(dense) {
        let label = Label {
            own: present.id,
            state: state.clone(),
        };
        match stores[present.drive].write(&label).await {
            Ok(()) => written.push(present.id),
            Err(error) if present.role == Role::Fast => return Err(PoolError::Relabel(error)),
            Err(error) => failed = Some(error),
        }
    }
    let voters = state.members.voters();
    match failed.filter(|_| !voters.is_quorum(|id| written.contains(&id))) {
        Some(error) => Err(PoolError::Relabel(error)),
        None => Ok(()),
    }
}
