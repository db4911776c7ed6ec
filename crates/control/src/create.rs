//! Making, releasing and destroying pools.

use crate::drives;
use crate::error::ControlError;
use crate::events::Event;
use crate::finding::{Finding, Severity};
use crate::model;
use crate::open::not_of_pool;
use crate::path::DrivePath;
use crate::plan::{self, Plan};
use crate::pools::Pools;
use crate::random;
use crate::registry::{Entry, Registry};
use crate::risks::{Made, risks};
use crate::running::Running;
use crate::scan::{self, Scan};
use crate::view::PlanView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use varve_format::{Geometry, LABEL_MAGIC, Label, MemberRole, MemberState, Name};
use varve_hostio::{Magic, Preflight, Wanted};
use varve_io::{Drive, DriveInfo, Flow, GAP_BLOCKS};
use varve_pool::label::{LABEL_OFFSETS, LabelStore, MemberId, PoolId, RESERVED_BYTES};
use varve_pool::{NewPool, PlanError, Pool, PoolError, check_counts};

/// Over-provisioning that may be asked for, in per cent.
const OVER_PROVISION: std::ops::RangeInclusive<u32> = 5..=80;
/// Over-provisioning if nothing is asked for, in per cent.
pub(crate) const OVER_PROVISION_USUAL: u32 = 20;
/// Smallest drives: what any pool needs of them, the labels and 16 chunks or 12 groups.
const FAST_BYTES_MIN: u64 = RESERVED_BYTES + (16 << 20);
const DENSE_BYTES_MIN: u64 = RESERVED_BYTES + (3 << 20);
/// Largest drive: 1 PiB. Arbitrary: larger than any there is, so small that no sum over a pool overflows.
const DRIVE_BYTES_MAX: u64 = 1 << 50;
/// Logical sector of files.
const FILE_LBA_BYTES: u32 = 4096;

const OURS: &str = "the label of a pool";
pub(crate) const MAGICS: [Magic; 2] = [magic(LABEL_OFFSETS[0]), magic(LABEL_OFFSETS[1])];

const fn magic(offset: u64) -> Magic {
    Magic {
        name: OURS,
        offset: offset as usize,
        bytes: &LABEL_MAGIC,
    }
}

/// How the dense tier is to be protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Protect {
    /// Not at all.
    None,
    /// Every strip on two drives.
    Mirror,
    /// One parity strip for `data` strips.
    Parity {
        /// Data strips of a stripe.
        data: u8,
    },
}

impl fmt::Display for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Mirror => f.write_str("mirror"),
            Self::Parity { data } => write!(f, "{data}+1"),
        }
    }
}

impl From<Protect> for String {
    fn from(protect: Protect) -> Self {
        protect.to_string()
    }
}

impl FromStr for Protect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parity = |text: &str| {
            let (data, parity) = text.split_once('+')?;
            let data = data.parse().ok()?;
            (parity == "1").then_some(Self::Parity { data })
        };
        match text {
            "none" => Ok(Self::None),
            "mirror" => Ok(Self::Mirror),
            text => parity(text).ok_or_else(|| "none, mirror or K+1 (4+1, say)".to_owned()),
        }
    }
}

impl TryFrom<String> for Protect {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A pool to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Its name.
    pub pool: String,
    /// Fast drives; more than one is a mirror.
    pub fast: Vec<DrivePath>,
    /// Dense drives.
    pub dense: Vec<DrivePath>,
    /// Protection of the dense tier; the best for so many drives if left out.
    #[serde(default)]
    pub protect: Option<Protect>,
    /// Share of the dense tier that is kept back, per cent; 20 if left out.
    #[serde(default)]
    pub over_provision: Option<u32>,
    /// Data sheet of a drive: dense drives keep account of what their writes would cost its flash.
    #[serde(default)]
    pub dense_model: Option<String>,
    /// Also if drives hold something, which is lost then.
    #[serde(default)]
    pub overwrite: bool,
    /// Only check, and tell what would be made.
    #[serde(default)]
    pub dry_run: bool,
}

impl CreatePool {
    fn all(&self) -> impl Iterator<Item = &DrivePath> {
        self.fast.iter().chain(&self.dense)
    }
}

/// Drives that make no pool, after what was found of each of them.
fn unplanned(error: PlanError, mut findings: Vec<Finding>) -> ControlError {
    let code = match error {
        PlanError::TooManyDrives { .. } => "too-many-drives",
        PlanError::TooManyFast { .. } => "too-many-fast",
        _ => "plan",
    };
    findings.push(Finding::new(Severity::Refusal, code, error.to_string()));
    ControlError::Preflight(findings)
}

/// What preflight said of drives, and what they would make.
struct Checked {
    plan: Plan,
    findings: Vec<Finding>,
}

impl Pools {
    /// Makes a pool and opens it; with `dry_run` tells what would be made and why not.
    ///
    /// # Errors
    /// [`ControlError`]; unless it says that a drive failed, nothing was changed. What was begun is
    /// taken back as far as the drives allow, also if a signal comes ([`Pools::interrupt`]).
    pub fn create_pool<'a>(
        &'a self,
        new: &'a CreatePool,
    ) -> Flow<'a, Result<PlanView, ControlError>> {
        Box::pin(async move {
            let _turn = self.turn.take().await;
            if !is_new_name(&new.pool) {
                return Err(ControlError::BadName(new.pool.clone()));
            }
            // Who only asks gives no name.
            let _naming = match new.dry_run {
                true => None,
                false => Some(self.naming().await?),
            };
            if self.home.registry()?.get(&new.pool).is_some() || self.running(&new.pool).is_ok() {
                return Err(ControlError::PoolExists(new.pool.clone()));
            }
            let checked = self.check(new).await?;
            let view = view(new, &checked);
            if new.dry_run {
                return Ok(view);
            }
            // What could not be remembered is not made.
            self.change(|_| ()).await?;
            let running = self.make(new, &checked.plan).await?;
            self.add(running);
            Ok(PlanView {
                is_made: true,
                ..view
            })
        })
    }

    /// Everything that can be known before anything is changed.
    async fn check(&self, new: &CreatePool) -> Result<Checked, ControlError> {
        let over_provision = new.over_provision.unwrap_or(OVER_PROVISION_USUAL);
        if !OVER_PROVISION.contains(&over_provision) {
            return Err(ControlError::OverProvision(over_provision));
        }
        new.dense_model.as_deref().map_or(Ok(()), model::check)?;
        let protect = plan::protection(new.protect, new.dense.len())?;
        // Before the drives: what they lack does not matter where there are too many of them.
        check_counts(new.fast.len(), new.dense.len())
            .map_err(|error| unplanned(error, Vec::new()))?;
        let wanted = |drive: &DrivePath, least_bytes| Wanted {
            path: drive.path.clone(),
            create: drive.create_bytes,
            least_bytes,
        };
        let fast = new.fast.iter().map(|drive| wanted(drive, FAST_BYTES_MIN));
        let dense = new.dense.iter().map(|drive| wanted(drive, DENSE_BYTES_MIN));
        let wanted: Vec<_> = fast.chain(dense).collect();
        let found = self.look_at(wanted).await?;
        let mut findings: Vec<Finding> = found.findings.iter().map(Finding::from).collect();
        self.name_owners(new, &mut findings).await?;
        let is_bad = |finding: &Finding| match finding.severity {
            Severity::Warning => false,
            Severity::Confirm => !new.overwrite,
            Severity::Refusal => true,
        };
        if findings.iter().any(is_bad) {
            return Err(refusal(findings));
        }
        let infos = |drives: &[DrivePath]| -> Vec<DriveInfo> {
            drives.iter().map(|drive| info(drive, &found)).collect()
        };
        let (fast, dense) = (infos(&new.fast), infos(&new.dense));
        for drive in new.all() {
            fits_sums(drive, &found)?;
            model::check_place(&drive.path)?;
        }
        let raw_bytes = fast.iter().chain(&dense).map(|drive| drive.bytes).sum();
        let settings = self.settings(raw_bytes);
        let plan = Plan::new(&fast, &dense, protect, over_provision, &settings);
        let plan = plan.map_err(|error| unplanned(error, std::mem::take(&mut findings)))?;
        let dense_bytes = dense_bytes(&plan.geometry);
        findings.extend(vain(new));
        findings.extend(risks(&Made {
            fast: new.fast.len(),
            dense: new.dense.len(),
            protect,
            fast_bytes: plan.geometry.fast_bytes,
            dense_bytes,
        }));
        Ok(Checked { plan, findings })
    }

    /// Drives that belong to a pool are told by its name, and those of pools that are known here are
    /// refused. Those of this very creation, cut short before, are as good as blank.
    async fn name_owners(
        &self,
        new: &CreatePool,
        findings: &mut Vec<Finding>,
    ) -> Result<(), ControlError> {
        let registry = self.home.registry()?;
        let drives = new.all().enumerate();
        for (number, drive) in drives.filter(|(_, drive)| drive.create_bytes.is_none()) {
            let scan = self.scan(&drive.path).await;
            let Some(label) = scan.label() else { continue };
            findings.retain(|found| {
                found.code != "holds-data" || found.path.as_ref() != Some(&drive.path)
            });
            let name = label.name.as_str();
            let (severity, code, text) =
                if !label.is_unfinished || self.is_known(&registry, label).await {
                    findings.push(self.of_pool(&registry, label).await.at(&drive.path));
                    continue;
                } else if is_cut_short(new, number, label) {
                    let text = format!("pool {name} was being created on it: that begins anew");
                    (Severity::Warning, "unfinished", text)
                } else {
                    let text = format!(
                        "pool {name} was being created on it, with other drives or in another order"
                    );
                    (Severity::Confirm, "holds-data", text)
                };
            findings.push(Finding::new(severity, code, text).at(&drive.path));
        }
        Ok(())
    }

    /// Makes a pool, or takes back what was begun.
    async fn make(&self, new: &CreatePool, plan: &Plan) -> Result<Rc<Running>, ControlError> {
        let id = PoolId(random::sixteen().map_err(ControlError::Random)?);
        let (mut made, mut drives) = (Vec::new(), Vec::new());
        let outcome = match self.take_drives(new, &mut drives, &mut made) {
            Ok(()) => self.begin(new, plan, id, &drives).await,
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            unlabel(id, &drives).await;
            drop(drives);
            for path in made {
                // Best effort: the error that is told is the one that came first.
                let _ = std::fs::remove_file(&path);
                let _ = model::forget(&path);
            }
        }
        outcome
    }

    /// Labels the drives of a new pool, starts it, and remembers it.
    async fn begin(
        &self,
        new: &CreatePool,
        plan: &Plan,
        id: PoolId,
        drives: &[Rc<dyn Drive>],
    ) -> Result<Rc<Running>, ControlError> {
        self.go_on()?;
        let pool = self.label(new, plan, id, drives).await?;
        if let Err(error) = self.go_on() {
            // As below.
            let _ = pool.close(true).await;
            return Err(error);
        }
        let paths = new.all().map(|drive| drive.path.clone());
        let paths: BTreeMap<_, _> = (0..).map(MemberId).zip(paths).collect();
        let running = Running::new(new.pool.clone(), pool, paths, drives);
        if let Err(error) = self.remember(&running).await {
            // Its labels are taken off again, so it does not matter how it ends.
            let _ = running.pool.close(true).await;
            return Err(error);
        }
        Ok(running)
    }

    fn take_drives(
        &self,
        new: &CreatePool,
        drives: &mut Vec<Rc<dyn Drive>>,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), ControlError> {
        for drive in new.all() {
            self.go_on()?;
            let is_dense = drives.len() >= new.fast.len();
            let sheet = new.dense_model.as_deref().filter(|_| is_dense);
            drives.push(self.new_drive(drive, sheet, None)?);
            if drive.create_bytes.is_some() {
                made.push(drive.path.clone());
            }
        }
        Ok(())
    }

    async fn label(
        &self,
        new: &CreatePool,
        plan: &Plan,
        id: PoolId,
        drives: &[Rc<dyn Drive>],
    ) -> Result<Pool, ControlError> {
        let failed = ControlError::pool(&new.pool);
        if new.overwrite {
            for drive in drives {
                if let Err(error) = drives::wipe(&**drive).await {
                    return Err(failed(PoolError::Drive(error)));
                }
            }
        }
        let raw_bytes = drives.iter().map(|drive| drive.info().bytes).sum();
        let (fast, dense) = drives.split_at(new.fast.len());
        let wanted = NewPool {
            id,
            name: &new.pool,
            fast,
            dense,
            options: plan.options,
        };
        let world = Rc::clone(&self.world);
        let pool = Pool::create(world, wanted, self.settings(raw_bytes)).await;
        let paths: Vec<_> = new.all().map(|drive| drive.path.clone()).collect();
        pool.map_err(|error| ControlError::pool_of(&new.pool, &paths, error))
    }

    /// Closes a pool so that any machine may import it, and forgets it. With `forget` one that cannot be opened
    /// is forgotten too; its drives keep their labels, and take part in another pool if they are overwritten. What is
    /// returned tells that a pool was forgotten and not released, and why.
    ///
    /// # Errors
    /// [`ControlError`]: unknown, drives missing or in use, not closed in good order; then it is not
    /// forgotten.
    pub fn export<'a>(
        &'a self,
        pool: &'a str,
        forget: bool,
    ) -> Flow<'a, Result<Option<Finding>, ControlError>> {
        Box::pin(async move {
            match self.open(pool).await {
                Err(error) if !forget || !error.is_beyond_reach() => return Err(error),
                Err(_) => {
                    let _turn = self.turn.take().await;
                    self.forget(pool).await?;
                    let text = "was not released, since it could not be opened: drives of it that come back still belong to \
                            this state directory, where varve pool import PATH... knows them again; another one takes \
                            them over by varve pool import --take-over PATH... there";
                    return Ok(Some(not_released(text)));
                }
                Ok(()) => {}
            }
            let _turn = self.turn.take().await;
            let running = self.running(pool)?;
            busy(&running)?;
            let id = random::hex(&running.id.0);
            let taken = running.pool.taken();
            drop(running);
            match (self.close(pool, true).await, taken.filter(|_| forget)) {
                (Err(_), Some(taken)) => {
                    self.forget(pool).await?;
                    let text = format!("was not released, since {taken}");
                    return Ok(Some(not_released(&text)));
                }
                (outcome, _) => outcome?,
            }
            self.change(move |registry| registry.remove(&id)).await?;
            Ok(None)
        })
    }

    async fn forget(&self, pool: &str) -> Result<(), ControlError> {
        self.unopened.borrow_mut().remove(pool);
        let registry = self.home.registry()?;
        let entry = registry.get(pool);
        let id = entry.map(|entry| entry.id.clone());
        let id = id.ok_or_else(|| ControlError::NoPool(pool.to_owned()))?;
        self.change(move |registry| registry.remove(&id)).await
    }

    /// Destroys a pool: its drives carry no label any more. Files stay where they are. What was cut short
    /// goes on where it was.
    ///
    /// # Errors
    /// [`ControlError`]: unknown, drives missing or in use, volumes on it without `with_volumes`;
    /// [`ControlError::Undestroyed`] if some drives could not be reached: the others have no label any more.
    pub fn destroy<'a>(
        &'a self,
        pool: &'a str,
        with_volumes: bool,
    ) -> Flow<'a, Result<(), ControlError>> {
        Box::pin(async move {
            let registry = self.home.registry()?;
            let cut_short = registry.get(pool).filter(|entry| entry.destroying);
            if let Some(entry) = cut_short {
                let _turn = self.turn.take().await;
                return self.unmake(entry).await;
            }
            self.open(pool).await?;
            let _turn = self.turn.take().await;
            let running = self.running(pool)?;
            busy(&running)?;
            let own = running.volumes().into_iter();
            let own: Vec<_> = own.map(|volume| volume.info().clone()).collect();
            if !own.is_empty() && !with_volumes {
                let (pool, volumes) = (pool.to_owned(), own.len());
                return Err(ControlError::HasVolumes { pool, volumes });
            }
            let entry = Entry {
                destroying: true,
                // Drives that were replaced too, where they are still there.
                paths: running.paths.borrow().values().cloned().collect(),
                ..running.entry()
            };
            drop(running);
            self.close(pool, true).await?;
            // From here on it cannot be opened any more, and is known as what it is.
            let noted = entry.clone();
            self.change(move |registry| registry.put(noted)).await?;
            // Who keeps something for volumes lets it go.
            for info in own {
                self.watchers.tell(&Event::VolumeDeleted(info));
            }
            self.unmake(&entry).await
        })
    }

    /// Takes the labels off all drives of a pool that are there and can be used, and forgets it if none is left.
    async fn unmake(&self, entry: &Entry) -> Result<(), ControlError> {
        let mut left = Vec::new();
        for path in &entry.paths {
            let scan = self.scan(path).await;
            match &scan.found {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    left.push(not_of_pool(&scan));
                }
                // What has another label, or none, may be somebody else's by now: it is not even opened.
                Ok(_) if is_of(&scan, entry) => left.extend(self.unmake_drive(path).await),
                _ => {}
            }
        }
        if !left.is_empty() {
            return Err(ControlError::Undestroyed {
                pool: entry.name.clone(),
                findings: left,
            });
        }
        let id = entry.id.clone();
        self.change(move |registry| registry.remove(&id)).await
    }

    /// Takes the labels off one drive; what is in the way, if something is.
    async fn unmake_drive(&self, path: &Path) -> Vec<Finding> {
        let text = match self.open_drive(path, None) {
            Ok(drive) => match drives::wipe(&*drive).await {
                Ok(()) => return Vec::new(),
                Err(error) => format!("cannot be written: {error}"),
            },
            Err(error) => match self.with_users(error).await {
                ControlError::InUse(findings) => return findings,
                error => error.why(path),
            },
        };
        vec![Finding::new(Severity::Refusal, "left", text).at(path)]
    }
}

/// True if a name may be given: what begins with a dot or a dash is not told from directories and options.
pub(crate) fn is_new_name(name: &str) -> bool {
    Name::new(name).is_ok() && !name.starts_with(['.', '-'])
}

/// True if drive `number` of this creation has the label that the same creation, cut short, gave it
/// (`label::create` asks the same).
fn is_cut_short(new: &CreatePool, number: usize, label: &Label) -> bool {
    let role = match number < new.fast.len() {
        true => MemberRole::Fast,
        false => MemberRole::Dense,
    };
    let mut members = label.members.iter();
    label.drive as usize == number
        && members.len() == new.all().count()
        && members.any(|member| member.id == label.drive && member.role == role)
}

/// True if a drive has a label of this pool.
fn is_of(scan: &Scan, entry: &Entry) -> bool {
    scan.label()
        .is_some_and(|label| random::hex(&label.pool) == entry.id)
}

impl Pools {
    /// True if a drive is a member of a pool that is known here.
    async fn is_known(&self, registry: &Registry, label: &Label) -> bool {
        let id = random::hex(&label.pool);
        match registry.pools.iter().find(|entry| entry.id == id) {
            Some(entry) => is_member(&self.scan_each(&entry.paths).await, label),
            None => false,
        }
    }

    /// Whose drive this is. One of a pool that is known here goes to no other one, whatever may be overwritten.
    pub(crate) async fn of_pool(&self, registry: &Registry, label: &Label) -> Finding {
        let (name, id) = (label.name.as_str(), random::hex(&label.pool));
        let (severity, code) = match self.is_known(registry, label).await {
            true => (Severity::Refusal, "member"),
            false => (Severity::Confirm, "holds-data"),
        };
        Finding::new(severity, code, format!("is a drive of pool {name} ({id})"))
    }

    /// What stands in the way of drives that are to be a pool's.
    pub(crate) async fn look_at(&self, wanted: Vec<Wanted>) -> Result<Preflight, ControlError> {
        let found = self.preflight(wanted, &MAGICS).await;
        found.map_err(|error| {
            let text = format!("the drives could not be looked at: {error}");
            refusal(vec![Finding::new(Severity::Refusal, "no-answer", text)])
        })
    }
}

/// True unless the newest label of the pool says that the drive is none of it any more.
fn is_member(scans: &[Scan], label: &Label) -> bool {
    let labels = scans.iter().filter_map(Scan::label);
    let newest = scan::newest(labels.filter(|other| other.pool == label.pool));
    newest.is_none_or(|newest| {
        let mut members = newest.members.iter();
        let row = members.find(|member| member.id == label.drive);
        row.is_some_and(|row| row.state != MemberState::Removed)
    })
}

fn not_released(text: &str) -> Finding {
    Finding::new(Severity::Warning, "not-released", text)
}

/// Takes labels off again that a creation which failed has written.
async fn unlabel(id: PoolId, drives: &[Rc<dyn Drive>]) {
    for drive in drives {
        let label = LabelStore::open(Rc::clone(drive)).await.label();
        if label.is_some_and(|label| label.state.pool == id) {
            // A drive that fails now keeps its label: the next creation tells whose it is.
            let _ = drives::wipe(&**drive).await;
        }
    }
}

pub(crate) fn busy(running: &Running) -> Result<(), ControlError> {
    match running.job.get() {
        Some(job) => {
            let pool = running.name.clone();
            Err(ControlError::Busy { pool, job })
        }
        None => Ok(()),
    }
}

/// In use is a conflict, all else a refusal.
pub(crate) fn refusal(findings: Vec<Finding>) -> ControlError {
    let graver = |found: &Finding| found.severity == Severity::Refusal && found.code != "in-use";
    let is_in_use = findings.iter().any(|found| found.code == "in-use");
    if is_in_use && !findings.iter().any(graver) {
        ControlError::InUse(findings)
    } else {
        ControlError::Preflight(findings)
    }
}

/// Refuses a drive that is larger than what sums over a pool are made for.
///
/// # Errors
/// The refusal.
pub(crate) fn fits_sums(drive: &DrivePath, found: &Preflight) -> Result<(), ControlError> {
    let bytes = info(drive, found).bytes;
    if bytes <= DRIVE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("has {bytes} bytes, a drive of a pool has 1 PiB at most");
    let finding = Finding::new(Severity::Refusal, "too-large", text);
    Err(refusal(vec![finding.at(&drive.path)]))
}

fn info(drive: &DrivePath, found: &Preflight) -> DriveInfo {
    let facts = found.disks.iter().find(|facts| facts.path == drive.path);
    let bytes = drive.create_bytes.or(facts.map(|facts| facts.bytes));
    let lba_bytes = facts.and_then(|facts| facts.lba_bytes);
    DriveInfo {
        bytes: bytes.unwrap_or(0),
        lba_bytes: lba_bytes.unwrap_or(FILE_LBA_BYTES),
        volatile_cache: true,
        copies: 1,
        handles: 1,
        gap_blocks: GAP_BLOCKS,
    }
}

/// What was asked for of a tier that there is not.
fn vain(new: &CreatePool) -> Option<Finding> {
    let is_vain = new.over_provision.is_some() || new.dense_model.is_some();
    (new.dense.is_empty() && is_vain).then(|| {
        let text = "over-provisioning and models are of dense drives, and there are none: what was said of them means nothing";
        Finding::new(Severity::Warning, "no-dense", text)
    })
}

fn group_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.group_blocks) * varve_units::BLOCK_BYTES
}

fn dense_bytes(geometry: &Geometry) -> u64 {
    group_bytes(geometry) * u64::from(geometry.groups)
}

fn view(new: &CreatePool, checked: &Checked) -> PlanView {
    let geometry = &checked.plan.geometry;
    let group_bytes = group_bytes(geometry);
    let protect = crate::status::protect_word(geometry);
    PlanView {
        pool: new.pool.clone(),
        is_made: false,
        protect,
        fast_copies: new.fast.len() as u64,
        fast_bytes: geometry.fast_bytes,
        dense_bytes: dense_bytes(geometry),
        capacity_bytes: checked.plan.capacity_bytes(),
        over_provision: u32::from(geometry.over_provision_per_mille) / 10,
        chunk_bytes: geometry.chunk_bytes,
        group_bytes,
        files_made: new
            .all()
            .filter(|drive| drive.create_bytes.is_some())
            .count() as u64,
        findings: checked.findings.clone(),
    }
}
