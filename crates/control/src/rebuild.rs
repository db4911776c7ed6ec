//! A pool whose fast drives are gone, made anew from its dense ones (`varve check --rebuild`).
//!
//! 1. The labels of the drives that are here say which pool it is and what its fast tier was. The new fast drives are
//!    looked at.
//! 2. The registry notes them, so that a repetition knows a file that was made for this. What is on them is blanked; of the
//!    pool's own fast drives the labels stay until new ones are written.
//! 3. A job makes the map (`pool::rebuild`), and then the labels.
//! 4. The registry knows the pool by its new drives. It is not opened: an import or a check is next.
//!
//! Cut short anywhere before the labels, the same command begins again.

use crate::create::{fits_sums, refusal};
use crate::drives;
use crate::error::ControlError;
use crate::failure::Failure;
use crate::finding::{Finding, Severity};
use crate::jobs::{JobView, Jobs};
use crate::open::{chosen, not_of_pool, put_back};
use crate::path::{DrivePath, absolute};
use crate::pools::Pools;
use crate::random;
use crate::registry::Entry;
use crate::scan::{self, Scan};
use crate::status::{drive_name, is_behind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use varve_format::{Label, MemberRole, Name};
use varve_ftl::{Draft, RebuildPhase, RebuildProgress};
use varve_hostio::Wanted;
use varve_io::{Drive, Flow};
use varve_pool::label::{PoolId, Role};
use varve_pool::{Pool, PoolError, RebuildMap, Rebuilt, Settings, least_bytes};
use varve_units::{BLOCK_BYTES, Blocks, TenantId, VolumeId};

/// A map to be rebuilt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebuildPool {
    /// The pool.
    pub pool: String,
    /// New fast drives, as many as it had.
    pub fast: Vec<DrivePath>,
    /// Where its other drives are; where they were last if left out.
    #[serde(default)]
    pub drives: Vec<PathBuf>,
    /// What volumes are to be, by number: their names, and sizes in bytes if those are known.
    #[serde(default)]
    pub volumes: BTreeMap<u64, NamedVolume>,
    /// Also if the fast drives hold something, which is lost then; the pool's own among them.
    #[serde(default)]
    pub overwrite: bool,
    /// Also if the pool can be opened: what its log holds is given up.
    #[serde(default)]
    pub force: bool,
    /// Also if another machine used it last.
    #[serde(default)]
    pub take_over: bool,
}

/// What is known of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedVolume {
    /// Its name.
    pub name: String,
    /// Its size, if it is larger than what is found of it.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// A volume that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RebuiltVolume {
    /// Its number.
    pub number: u64,
    /// Its name.
    pub volume: String,
    /// Bytes of its blocks that can be read.
    pub mapped_bytes: u64,
    /// Blocks of it that no drive can give.
    pub lost_blocks: u64,
}

/// What a rebuild found and did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RebuildView {
    /// The pool.
    pub pool: String,
    /// Volumes, by number.
    pub volumes: Vec<RebuiltVolume>,
    /// Blocks that the map names now.
    pub mapped_blocks: u64,
    /// Blocks of which no copy can be read: reads of them fail.
    pub lost_blocks: u64,
    /// Leaves of the map.
    pub leaves: u64,
    /// Stripes whose P2L was read and counts.
    pub stripes: u64,
    /// Stripes that were written and whose P2L nobody can read.
    pub unreadable_stripes: u64,
    /// The groups that have such stripes.
    pub unreadable_groups: Vec<u32>,
    /// Blocks of which older versions were passed over.
    pub passed_over: u64,
    /// Blocks that were read to be sure of them.
    pub verified: u64,
    /// Of these, those that could not be read: another copy was taken, or an older version, or they are lost.
    pub gave_way: u64,
    /// Groups taken as free.
    pub free_groups: u64,
    /// Groups whose blocks were brought to the fast tier, so that enough are free.
    pub evacuated_groups: u64,
    /// Times that the P2L of all stripes was read.
    pub passes: u64,
    /// Drives that are away and lost to the pool.
    pub away: Vec<String>,
    /// What has to be known of it.
    pub findings: Vec<Finding>,
}

impl RebuildView {
    /// True if something that is told could not be read, or a drive is away.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.lost_blocks > 0 || self.unreadable_stripes > 0 || !self.away.is_empty()
    }
}

/// What was found out before anything is changed.
struct Ready {
    id: PoolId,
    name: String,
    /// Labels and drives of the pool that are here, and where.
    scans: Vec<Scan>,
    label: Label,
    fast: Vec<DrivePath>,
    /// Of the fast drives, those that have a label of the pool.
    own: Vec<bool>,
    findings: Vec<Finding>,
}

/// Drives, opened.
struct Opened {
    drives: Vec<Rc<dyn Drive>>,
    paths: Vec<PathBuf>,
    fast: Vec<Rc<dyn Drive>>,
    made: Vec<PathBuf>,
}

impl Pools {
    /// Begins to make the map of a pool anew, which is not open.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool, one that is open, fast drives that do not fit or are in use. That the pool can be
    /// opened, and what else stands in the way, is told by the job.
    pub fn rebuild_pool<'a>(
        &'a self,
        wanted: &'a RebuildPool,
    ) -> Flow<'a, Result<JobView, ControlError>> {
        Box::pin(async move {
            let _turn = self.turn.take().await;
            self.go_on()?;
            let ready = self.ready(wanted).await?;
            self.note_rebuild(&ready).await?;
            let mut made = Vec::new();
            match self.open_for(&ready, &mut made).await {
                Ok(opened) => self.begin_rebuild(wanted, ready, opened),
                Err(error) => {
                    forget_made(&made);
                    Err(error)
                }
            }
        })
    }

    /// Everything that can be known before anything is changed.
    async fn ready(&self, wanted: &RebuildPool) -> Result<Ready, ControlError> {
        let registry = self.home.registry()?;
        let entry = registry.get(&wanted.pool);
        if self.running(&wanted.pool).is_ok() {
            return Err(ControlError::Served(wanted.pool.clone()));
        }
        if entry.is_some_and(|entry| entry.destroying) {
            return Err(ControlError::HalfDestroyed(wanted.pool.clone()));
        }
        let mut paths: Vec<PathBuf> = wanted.drives.iter().map(absolute).collect();
        if let (true, Some(entry)) = (paths.is_empty(), entry) {
            paths.clone_from(&entry.paths);
        }
        if paths.is_empty() {
            return Err(ControlError::NoPool(wanted.pool.clone()));
        }
        check_names(&wanted.volumes)?;
        let (scans, _) = self.scan_all(&paths).await;
        let (id, name) = chosen(&scans, Some(&wanted.pool)).map_err(|error| match error {
            // None of them has a label, or only of others: each is told what it is.
            ControlError::NoPool(_) | ControlError::NoLabels(_) => {
                ControlError::NoLabels(scans.iter().map(not_of_pool).collect())
            }
            error => error,
        })?;
        let is_of = |scan: &&Scan| scan.label().is_some_and(|label| label.pool == id.0);
        let labels = scans.iter().filter(is_of).filter_map(Scan::label);
        let label = scan::newest(labels).expect("chosen by its label").clone();
        // What was put back lacks what came since: as if it were away, as when the pool is opened.
        let (behind, scans): (Vec<_>, Vec<_>) =
            scans.into_iter().partition(|scan| is_behind(&label, scan));
        let told = behind.iter().map(|scan| Finding {
            severity: Severity::Warning,
            ..put_back(&scan.path)
        });
        let findings = told.collect();
        let begun = entry.map(|entry| entry.replacing.clone());
        let mut ready = Ready {
            id,
            name,
            scans,
            label,
            fast: wanted.fast.clone(),
            own: Vec::new(),
            findings,
        };
        self.look_at_fast(&mut ready, wanted.overwrite, &begun.unwrap_or_default())
            .await?;
        Ok(ready)
    }

    /// Looks at the new fast drives, as a creation does.
    async fn look_at_fast(
        &self,
        ready: &mut Ready,
        overwrite: bool,
        begun: &BTreeMap<String, PathBuf>,
    ) -> Result<(), ControlError> {
        let least_bytes = least_bytes(&ready.label.geometry, Role::Fast);
        let mut is_begun = Vec::new();
        for (slot, drive) in (0..).zip(&mut ready.fast) {
            let was_made = begun.get(&drive_name(Role::Fast, slot)) == Some(&drive.path)
                && drive.path.exists();
            if was_made {
                drive.create_bytes = None;
            }
            is_begun.push(was_made);
        }
        let of_drive = |drive: &DrivePath| Wanted {
            path: drive.path.clone(),
            create: drive.create_bytes,
            least_bytes,
        };
        let found = self
            .look_at(ready.fast.iter().map(of_drive).collect())
            .await?;
        let mut findings = std::mem::take(&mut ready.findings);
        findings.extend(found.findings.iter().map(Finding::from));
        for (drive, is_begun) in ready.fast.iter().zip(is_begun) {
            fits_sums(drive, &found)?;
            let own = self
                .name_fast(ready, drive, is_begun, &mut findings)
                .await?;
            ready.own.push(own);
        }
        let is_bad = |finding: &Finding| match finding.severity {
            Severity::Warning => false,
            Severity::Confirm => !overwrite,
            Severity::Refusal => true,
        };
        if findings.iter().any(is_bad) {
            return Err(refusal(findings));
        }
        ready.findings = findings;
        Ok(())
    }

    /// Says of a fast drive with a label whose it is. True if it is one of the pool itself.
    async fn name_fast(
        &self,
        ready: &Ready,
        drive: &DrivePath,
        is_begun: bool,
        findings: &mut Vec<Finding>,
    ) -> Result<bool, ControlError> {
        if drive.create_bytes.is_some() {
            return Ok(false);
        }
        let is_at = |found: &Finding| found.path.as_ref() == Some(&drive.path);
        let scan = self.scan(&drive.path).await;
        let Some(label) = scan.label() else {
            if is_begun {
                // It was made for this.
                findings.retain(|found| found.code != "holds-data" || !is_at(found));
            }
            return Ok(false);
        };
        findings.retain(|found| found.code != "holds-data" || !is_at(found));
        let own = label.pool == ready.id.0;
        let is_old = own && is_behind(&ready.label, &scan);
        let is_fast = label
            .members
            .iter()
            .any(|row| row.id == label.drive && row.role == MemberRole::Fast);
        let finding = match (own, is_fast) {
            (true, true) => {
                let how = if is_old { ", put back from a copy" } else { "" };
                let text = format!("is a fast drive of pool {} itself{how}", ready.name);
                Finding::new(Severity::Confirm, "holds-data", text)
            }
            (true, false) => {
                let text = format!("is a dense drive of pool {} itself", ready.name);
                Finding::new(Severity::Refusal, "member", text)
            }
            (false, _) => self.of_pool(&self.home.registry()?, label).await,
        };
        findings.push(finding.at(&drive.path));
        Ok(own && is_fast && !is_old)
    }

    /// Notes in the registry which drives are to be the fast tier.
    async fn note_rebuild(&self, ready: &Ready) -> Result<(), ControlError> {
        let (id, name) = (ready.id, ready.name.clone());
        let paths: Vec<PathBuf> = ready.scans.iter().map(|scan| scan.path.clone()).collect();
        let new = (0..).zip(&ready.fast);
        let new = new.map(|(slot, drive)| (drive_name(Role::Fast, slot), drive.path.clone()));
        let new: BTreeMap<String, PathBuf> = new.collect();
        let noted = self.change(move |registry| {
            let known = registry.get(&name).cloned();
            let mut entry = known.unwrap_or_else(|| Entry {
                name,
                paths,
                ..Entry::new(id)
            });
            entry.replacing.extend(new);
            registry.put(entry);
        });
        noted.await
    }

    /// Opens the pool's drives that are here, and the new ones, which are blank then.
    async fn open_for(
        &self,
        ready: &Ready,
        made: &mut Vec<PathBuf>,
    ) -> Result<Opened, ControlError> {
        let lba = Some(ready.label.geometry.lba_bytes);
        let (mut drives, mut paths) = (Vec::new(), Vec::new());
        let mut fast: Vec<Option<Rc<dyn Drive>>> = vec![None; ready.fast.len()];
        let mut fast_scans = Vec::new();
        for drive in &ready.fast {
            fast_scans.push(self.scan(&drive.path).await);
        }
        for scan in &ready.scans {
            if scan.label().is_none_or(|label| label.pool != ready.id.0) {
                continue;
            }
            let drive = match self.open_drive(&scan.path, lba) {
                Ok(drive) => drive,
                Err(error @ ControlError::InUse(_)) => return Err(error),
                // As if it were away.
                Err(_) => continue,
            };
            if let Some(at) = fast_scans.iter().position(|other| other.is_same(scan)) {
                fast[at] = Some(Rc::clone(&drive));
            }
            drives.push(drive);
            paths.push(scan.path.clone());
        }
        let mut opened = Vec::with_capacity(fast.len());
        for ((wanted, own), known) in ready.fast.iter().zip(&ready.own).zip(fast) {
            self.go_on()?;
            let drive = match known {
                Some(drive) => drive,
                None => self.new_drive(wanted, None, lba)?,
            };
            if wanted.create_bytes.is_some() {
                made.push(wanted.path.clone());
            }
            // What is not the pool's is blank from here on; its own label is what a start goes by until there is another.
            let done = match own {
                true => drives::try_write(&*drive).await,
                false => drives::wipe(&*drive).await,
            };
            done.map_err(|error| {
                let text = format!("takes no writes: {error}");
                refusal(vec![
                    Finding::new(Severity::Refusal, "no-writes", text).at(&wanted.path),
                ])
            })?;
            opened.push(drive);
        }
        Ok(Opened {
            drives,
            paths,
            fast: opened,
            made: made.clone(),
        })
    }

    /// Begins the job.
    fn begin_rebuild(
        &self,
        wanted: &RebuildPool,
        ready: Ready,
        opened: Opened,
    ) -> Result<JobView, ControlError> {
        let now = self.world.now();
        let job = self.jobs.begin("rebuild-map", &ready.name, "fast", now);
        let raw_bytes = opened.drives.iter().map(|drive| drive.info().bytes).sum();
        let settings = Settings {
            take_over: wanted.take_over,
            ..self.settings(raw_bytes)
        };
        let seed = random::uuid().map_err(ControlError::Random)?;
        let (jobs, world) = (Rc::clone(&self.jobs), Rc::clone(&self.world));
        let (home, io, wanted) = (self.home.clone(), self.io.clone(), wanted.clone());
        self.world.spawn(Box::pin(async move {
            let draft = |id, end| draft(&wanted, &seed, id, end);
            let progress = |progress: RebuildProgress| note(&jobs, job, progress);
            let map = RebuildMap {
                id: ready.id,
                drives: &opened.drives,
                fast: &opened.fast,
                force: wanted.force,
                draft: &draft,
                progress: &progress,
            };
            let rebuilt = Pool::rebuild(Rc::clone(&world), map, settings).await;
            let view = rebuilt
                .as_ref()
                .map(|rebuilt| view(&ready, &wanted, rebuilt));
            let (view, failure) = match view {
                Ok(view) => (Some(view), None),
                Err(_) => (None, rebuilt.as_ref().err()),
            };
            let is_made = view.is_some();
            // From a failure behind the labels the drives may be the pool's already.
            let is_labelled = matches!(failure, Some(PoolError::Relabel(_)));
            let (paths, made) = (fast_paths(&ready), opened.made.clone());
            let others = others(&ready, &opened);
            drop(opened);
            if !is_made && !is_labelled {
                forget_made(&made);
            }
            let id = random::hex(&ready.id.0);
            let changed = home.change_aside(&io, move |registry| {
                let known = registry.pools.iter_mut().find(|entry| entry.id == id);
                if let Some(entry) = known {
                    if is_made || is_labelled {
                        entry.paths = others.into_iter().chain(paths.clone()).collect();
                    }
                    entry.replacing.retain(|_, path| !paths.contains(path));
                }
            });
            // What the registry says is a hint: an import with paths finds the drives as well.
            let _ = changed.await;
            let outcome = match (view, rebuilt) {
                (Some(view), _) => Ok(view),
                (None, Err(error)) => {
                    let paths: Vec<_> = fast_paths(&ready);
                    let error = ControlError::pool_of(&ready.name, &paths, error);
                    Err(Failure::from(error))
                }
                (None, Ok(_)) => unreachable!("what was rebuilt has a view"),
            };
            jobs.end_rebuild(job, world.now(), outcome);
        }));
        self.job(job)
    }
}

/// Refuses names that are none, are given twice, or are what another volume gets without one.
fn check_names(volumes: &BTreeMap<u64, NamedVolume>) -> Result<(), ControlError> {
    let mut names = BTreeSet::new();
    for (number, NamedVolume { name, .. }) in volumes {
        let others = name.strip_prefix("volume-").and_then(|of| of.parse().ok());
        let is_others = others.is_some_and(|of: u64| of != *number);
        if Name::new(name).is_err() || is_others || !names.insert(name) {
            return Err(ControlError::BadName(name.clone()));
        }
    }
    Ok(())
}

fn fast_paths(ready: &Ready) -> Vec<PathBuf> {
    ready.fast.iter().map(|drive| drive.path.clone()).collect()
}

/// Where the drives of the pool are that are none of the new fast ones, and no former fast ones.
fn others(ready: &Ready, opened: &Opened) -> Vec<PathBuf> {
    let is_dense = |path: &&PathBuf| {
        let scan = ready.scans.iter().find(|scan| scan.path == **path);
        let label = scan.and_then(Scan::label);
        label.is_some_and(|label| {
            let mut rows = label.members.iter();
            rows.any(|row| row.id == label.drive && row.role == MemberRole::Dense)
        })
    };
    opened.paths.iter().filter(is_dense).cloned().collect()
}

fn forget_made(made: &[PathBuf]) {
    for path in made {
        // Best effort: the error that is told is the one that came first.
        let _ = std::fs::remove_file(path);
    }
}

/// Progress in bytes of the areas that are read: what is left of all that is known of by then.
fn note(jobs: &Jobs, job: u64, progress: RebuildProgress) {
    let RebuildProgress { phase, done, total } = progress;
    // The first look is one pass of at least two.
    let (done, total) = match phase {
        RebuildPhase::Survey => (done, total * 2),
        RebuildPhase::Map => (done + total, total * 2),
    };
    jobs.note(job, done * BLOCK_BYTES, total * BLOCK_BYTES);
}

/// What a volume becomes: as it was named, or by its number.
fn draft(wanted: &RebuildPool, seed: &[u8; 16], id: VolumeId, end: Blocks) -> Draft {
    let named = wanted.volumes.get(&id.0);
    let name = named.map_or_else(|| format!("volume-{}", id.0), |named| named.name.clone());
    let bytes = named.and_then(|named| named.bytes).unwrap_or(0);
    let mut uuid = *seed;
    for (byte, of_id) in uuid.iter_mut().skip(8).zip(id.0.to_be_bytes()) {
        *byte ^= of_id;
    }
    Draft {
        name: Name::new(&name).expect("checked, or made of a number"),
        size: Blocks(bytes.div_ceil(BLOCK_BYTES).max(end.0)),
        tenant: TenantId(0),
        uuid,
        nguid: uuid,
    }
}

fn view(ready: &Ready, wanted: &RebuildPool, rebuilt: &Rebuilt) -> RebuildView {
    let report = &rebuilt.report;
    let volumes = report.volumes.iter().map(|volume| {
        let named = wanted.volumes.get(&volume.id.0);
        let made = || format!("volume-{}", volume.id.0);
        RebuiltVolume {
            number: volume.id.0,
            volume: named.map_or_else(made, |named| named.name.clone()),
            mapped_bytes: volume.mapped * BLOCK_BYTES,
            lost_blocks: volume.lost,
        }
    });
    let away = rebuilt.away.iter().map(|id| {
        let mut rows = ready.label.members.iter();
        let row = rows.find(|row| row.id == id.0);
        row.map_or_else(|| id.to_string(), |row| drive_name(Role::Dense, row.slot))
    });
    RebuildView {
        pool: ready.name.clone(),
        volumes: volumes.collect(),
        mapped_blocks: report.mapped,
        lost_blocks: report.lost,
        leaves: report.leaves,
        stripes: report.stripes,
        unreadable_stripes: report.stripes_unreadable,
        unreadable_groups: report.groups_unreadable.clone(),
        passed_over: report.passed_over,
        verified: report.verified,
        gave_way: report.gave_way,
        free_groups: report.groups_free,
        evacuated_groups: report.groups_evacuated,
        passes: report.passes,
        away: away.collect(),
        findings: {
            let found = ready.findings.iter().cloned().chain(told());
            found.chain(not_found(wanted, rebuilt)).collect()
        },
    }
}

/// Volumes that were named and of which there is no block.
fn not_found(wanted: &RebuildPool, rebuilt: &Rebuilt) -> impl Iterator<Item = Finding> {
    let found = &rebuilt.report.volumes;
    let is_missing = |number: &u64| found.iter().all(|volume| volume.id.0 != *number);
    let missing = wanted
        .volumes
        .iter()
        .filter(move |(number, _)| is_missing(number));
    missing.map(|(number, named)| {
        let text = format!(
            "of volume {number}, {}, no block was found: it is not there",
            named.name
        );
        Finding::new(Severity::Warning, "volume-not-found", text)
    })
}

/// What has to be known of every pool that was made anew.
fn told() -> [Finding; 3] {
    let warning = |code, text| Finding::new(Severity::Warning, code, text);
    [
        warning(
            "log-lost",
            "what was in the log alone is lost: a block written last there is what it was before, or empty",
        ),
        warning(
            "freed-data",
            "what was deallocated or deleted may be there again, whole volumes too: delete what is not wanted",
        ),
        warning(
            "new-identities",
            "names, sizes, tenants and identities of volumes were in the log: volumes are new ones to hosts, as large as \
             what was found of them",
        ),
    ]
}
