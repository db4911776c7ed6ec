//! Opening pools: from the registry, or from paths.

use crate::create::{busy, refusal};
use crate::error::ControlError;
use crate::finding::{Finding, Severity};
use crate::path::{absolute, remembered};
use crate::pools::Pools;
use crate::random;
use crate::registry::{Entry, Registry};
use crate::running::Running;
use crate::scan::{self, OtherUse, Scan};
use crate::status::{drive_name, place_name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use varve_format::Member;
use varve_io::{Drive, Flow};
use varve_pool::label::{self, Import, ImportError, LabelStore, MemberId, PoolId, Terms};
use varve_pool::{Pool, PoolError};

/// What a drive is that holds an older state than the pool was closed in.
pub(crate) const PUT_BACK: &str = "put-back";
/// What a drive is that was a member, and holds what somebody else put there.
pub(crate) const OTHER_USE: &str = "other-use";
/// What a drive is that cannot be opened, for writing say.
pub(crate) const UNUSABLE: &str = "open";

/// What is said where more dense drives are away than the pool can do without.
pub(crate) const TOO_FEW: &str = "too-few";
/// What is said where no fast drive is left.
pub(crate) const NO_FAST: &str = "no-fast";

/// What a path is that is there and says nothing.
const UNREADABLE: &str = "system";

/// What to import, on which terms.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportPool {
    /// The pool, by name or identity; may be left out if the paths hold only one.
    pub pool: Option<String>,
    /// Where to look; where its drives were seen last if empty.
    pub paths: Vec<PathBuf>,
    /// Even if another machine used it last.
    pub take_over: bool,
    /// Even if drives are missing: they are lost to the pool then, and must be rebuilt.
    pub degraded: bool,
    /// Even if this drive is missing (`dense1`, say).
    pub without: Option<String>,
    /// Even if acknowledged data are lost.
    pub accept_loss: bool,
}

/// Drives of one pool, opened, and what their labels say together.
struct Opened {
    drives: Vec<Rc<dyn Drive>>,
    paths: Vec<PathBuf>,
    import: Import,
    findings: Vec<Finding>,
    /// Members that are where they were, and of no use: a finding says why.
    met: Vec<u32>,
}

/// Drives of one pool, opened.
#[derive(Default)]
struct Members {
    drives: Vec<Rc<dyn Drive>>,
    paths: Vec<PathBuf>,
    findings: Vec<Finding>,
    met: Vec<u32>,
}

impl Pools {
    /// Opens every pool of the registry; tells what became of each. Missing drives keep a pool
    /// closed unless [`crate::Config`] says otherwise: `import` with `degraded` goes on without them.
    pub fn open_all(&self) -> Flow<'_, Vec<(String, Result<(), ControlError>)>> {
        Box::pin(async move {
            let registry = match self.home.registry() {
                Ok(registry) => registry,
                Err(error) => return vec![("*".to_owned(), Err(error))],
            };
            let mut outcomes = Vec::new();
            for entry in registry.pools {
                let outcome = self.open(&entry.name).await;
                outcomes.push((entry.name, outcome));
            }
            outcomes
        })
    }

    /// Opens a pool of the registry, if it is not open yet.
    ///
    /// # Errors
    /// [`ControlError`]: unknown, drives missing or in use, a pool that does not start.
    pub fn open<'a>(&'a self, pool: &'a str) -> Flow<'a, Result<(), ControlError>> {
        Box::pin(async move {
            let _turn = self.turn.take().await;
            self.open_in_turn(pool, None).await
        })
    }

    /// [`Pools::open`] by whoever has the turn, also if this drive is missing.
    pub(crate) async fn open_in_turn(
        &self,
        pool: &str,
        without: Option<String>,
    ) -> Result<(), ControlError> {
        if self.running(pool).is_ok() {
            return Ok(());
        }
        let registry = self.home.registry()?;
        let entry = registry.get(pool);
        let entry = entry.ok_or_else(|| ControlError::NoPool(pool.to_owned()))?;
        if entry.destroying {
            return Err(ControlError::HalfDestroyed(pool.to_owned()));
        }
        let id = parse_id(entry)?;
        let (scans, _) = self.scan_all(&entry.paths).await;
        let terms = ImportPool {
            degraded: self.config.degraded,
            without,
            ..ImportPool::default()
        };
        let is_of_it = |scan: &Scan| scan.label().is_some_and(|label| label.pool == id.0);
        let started = match scans.iter().any(is_of_it) {
            true => self.start(id, &scans, &terms).await,
            false => Err(gone(pool, &scans)),
        };
        if let Err(error) = &started {
            let mut unopened = self.unopened.borrow_mut();
            unopened.insert(pool.to_owned(), error.whole());
        }
        started.map(drop)
    }

    /// Imports a pool: opens it and remembers where its drives are. The name is returned.
    ///
    /// # Errors
    /// [`ControlError`]: no label at the paths or several pools, drives missing or in use, terms too
    /// narrow.
    pub fn import<'a>(&'a self, wanted: &'a ImportPool) -> Flow<'a, Result<String, ControlError>> {
        Box::pin(async move {
            let _turn = self.turn.take().await;
            let naming = self.naming().await?;
            let registry = self.home.registry()?;
            let known = wanted.pool.as_deref().and_then(|pool| {
                let mut entries = registry.pools.iter();
                entries.find(|entry| entry.name == pool || entry.id == pool)
            });
            let paths = match known {
                Some(entry) if wanted.paths.is_empty() => entry.paths.clone(),
                _ => wanted.paths.iter().map(absolute).collect(),
            };
            for path in &paths {
                remembered(path)?;
            }
            if paths.is_empty() {
                let pool = wanted.pool.clone();
                return Err(pool.map_or(ControlError::NoPaths, ControlError::NoPool));
            }
            let (scans, again) = self.scan_all(&paths).await;
            if !again.is_empty() && !wanted.paths.is_empty() {
                return Err(refusal(again.into_iter().map(twice).collect()));
            }
            refuse_other_use(&scans)?;
            let chosen = chosen(&scans, wanted.pool.as_deref());
            let (id, name) = chosen.map_err(|error| match (&error, known) {
                (ControlError::NoPool(_) | ControlError::NoLabels(_), Some(entry)) => {
                    gone(&entry.name, &scans)
                }
                _ => error,
            })?;
            let is_taken = |entry: &&Entry| entry.name == name && entry.id != random::hex(&id.0);
            if registry.pools.iter().any(|entry| is_taken(&entry)) {
                return Err(ControlError::PoolExists(name));
            }
            if self.running(&name).is_ok() && !self.close_stopped(&name).await? {
                return Ok(name);
            }
            let mut entries = registry.pools.into_iter();
            let before = entries.find(|entry| entry.id == random::hex(&id.0));
            // Remembered before anything is opened: what cannot be remembered would be served until a restart.
            let entry = Entry {
                name: name.clone(),
                paths,
                ..before.clone().unwrap_or_else(|| Entry::new(id))
            };
            self.change(move |registry| registry.put(entry)).await?;
            drop(naming);
            let outcome = self.start_imported(id, &scans, wanted).await;
            if let Err(error) = outcome {
                // What is remembered is a hint; the error that is told is the one that came first.
                let undo = self.change(move |registry| match before {
                    Some(entry) => registry.put(entry),
                    None => registry.remove(&random::hex(&id.0)),
                });
                let _ = undo.await;
                return Err(error);
            }
            Ok(name)
        })
    }

    /// Closes a pool that is open and has stopped by itself, or whose labels have ended, so that it can be opened again;
    /// false if it works.
    async fn close_stopped(&self, pool: &str) -> Result<bool, ControlError> {
        let running = self.running(pool)?;
        if running.pool.engine().stop_reason().is_none() && !running.has_ended_labels() {
            return Ok(false);
        }
        busy(&running)?;
        drop(running);
        // It is closed whatever that says: it could not end in good order, and starts as after a crash.
        let _ = self.close(pool, false).await;
        Ok(true)
    }

    async fn start_imported(
        &self,
        id: PoolId,
        scans: &[Scan],
        wanted: &ImportPool,
    ) -> Result<(), ControlError> {
        let running = self.start(id, scans, wanted).await?;
        let Err(error) = self.remember(&running).await else {
            return Ok(());
        };
        let pool = running.name.clone();
        drop(running);
        // How it ends is told by the next start.
        let _ = self.close(&pool, false).await;
        Err(error)
    }

    /// Notes where the drives of a pool are now.
    pub(crate) fn remember(&self, running: &Running) -> Flow<'static, Result<(), ControlError>> {
        let entry = running.entry();
        self.change(move |registry| registry.put(entry))
    }

    /// Changes what is remembered of pools; durable when this returns.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Registry) + Send + 'static,
    ) -> Flow<'static, Result<(), ControlError>> {
        self.home.change_aside(&self.io, change)
    }

    async fn start(
        &self,
        id: PoolId,
        scans: &[Scan],
        terms: &ImportPool,
    ) -> Result<Rc<Running>, ControlError> {
        let name = name_of(id, scans);
        let opened = self.open_drives(id, &name, scans, terms).await?;
        let Opened {
            drives,
            paths,
            import,
            findings,
            met,
        } = opened;
        // What an accepted loss gives up is told by the labels, and it goes with missing drives.
        let is_missed = |id: &MemberId| {
            let row = import.state.members.get(*id);
            row.is_none_or(|row| Some(drive_name(row.role, row.slot)) != terms.without)
        };
        let is_missing = import.missing.iter().any(is_missed);
        if is_missing && !terms.degraded && import.loss.is_none() {
            // Where they cannot be done without, nothing else is to be advised.
            let too_few = varve_pool::check_dense(&import).err();
            let mut findings = missing(&import, &met, findings);
            findings.extend(
                too_few.map(|error| Finding::new(Severity::Refusal, TOO_FEW, error.to_string())),
            );
            return Err(ControlError::Missing {
                pool: name,
                findings,
            });
        }
        let known = import.present.iter().map(|one| (one.id, one.drive));
        let known = known.chain(import.stale.iter().map(|one| (one.id, one.drive)));
        let members: BTreeMap<MemberId, PathBuf> = known
            .filter_map(|(id, drive)| Some((id, paths.get(drive)?.clone())))
            .collect();
        let raw_bytes = drives.iter().map(|drive| drive.info().bytes).sum();
        let settings = varve_pool::Settings {
            take_over: terms.take_over,
            accept_loss: terms.accept_loss,
            ..self.settings(raw_bytes)
        };
        let world = Rc::clone(&self.world);
        let pool = Pool::open(world, &drives, Some(id), settings).await;
        let pool = pool.map_err(|error| refused(&name, &paths, findings, error))?;
        let running = Running::new(name, pool, members, &drives);
        let registry = self.home.registry()?.pools.into_iter();
        let mut known = registry.filter(|entry| entry.id == random::hex(&id.0));
        if let Some(entry) = known.next() {
            running.replacing.replace(entry.replacing);
        }
        self.add(Rc::clone(&running));
        self.watchers.heard(&*self.world).await;
        Ok(running)
    }

    /// Opens the drives of a pool that can be used, and reads what their labels say together.
    async fn open_drives(
        &self,
        id: PoolId,
        name: &str,
        scans: &[Scan],
        terms: &ImportPool,
    ) -> Result<Opened, ControlError> {
        let Members {
            mut drives,
            mut paths,
            mut findings,
            met,
        } = self.open_members(id, scans)?;
        let mut found = Vec::new();
        for drive in &drives {
            found.push(LabelStore::open(Rc::clone(drive)).await.finding());
        }
        for at in behind(id, &found).into_iter().rev() {
            findings.push(put_back(&paths.remove(at)));
            drives.remove(at);
            found.remove(at);
        }
        if drives.is_empty() {
            let pool = name.to_owned();
            return Err(ControlError::Missing { pool, findings });
        }
        let chosen = label::choose(
            id,
            &found,
            Terms {
                owner: self.settings(0).owner,
                take_over: terms.take_over,
                accept_loss: terms.accept_loss,
            },
        );
        match chosen {
            Ok(import) => Ok(Opened {
                drives,
                paths,
                import,
                findings,
                met,
            }),
            Err(error) => Err(refused(name, &paths, findings, PoolError::Import(error))),
        }
    }

    /// Opens the drives that carry a label of the pool and are as large as it says.
    fn open_members(&self, id: PoolId, scans: &[Scan]) -> Result<Members, ControlError> {
        let labels = || {
            let labels = scans.iter().filter_map(Scan::label);
            labels.filter(|label| label.pool == id.0)
        };
        let rows = scan::newest(labels()).map(|label| label.members.clone());
        let rows = rows.unwrap_or_default();
        let mut members = Members::default();
        for one in scans {
            let label = one.label().filter(|label| label.pool == id.0);
            let Some(label) = label else {
                members.findings.push(not_of_pool(one));
                let other_use = one.other_use.iter().map(|other| &other.former);
                let former = other_use.filter(|former| former.pool == id.0);
                members.met.extend(former.map(|former| former.drive));
                continue;
            };
            let row = rows.iter().find(|member| member.id == label.drive);
            let drive = match self.open_drive(&one.path, Some(label.geometry.lba_bytes)) {
                Ok(drive) => drive,
                // Whoever has it may have the pool.
                Err(error @ ControlError::InUse(_)) => return Err(error),
                Err(error) => {
                    members.findings.push(unusable(one, row, &error));
                    members.met.push(label.drive);
                    continue;
                }
            };
            let bytes = drive.info().bytes;
            if let Some(row) = row.filter(|row| row.size_bytes > bytes) {
                let place = place_name(row.role, row.slot);
                let text = format!(
                    "drive {place}: has {bytes} bytes, once it had {}",
                    row.size_bytes
                );
                let finding = Finding::new(Severity::Refusal, "truncated", text);
                members.findings.push(finding.at(&one.path));
                members.met.push(label.drive);
                continue;
            }
            members.drives.push(drive);
            members.paths.push(one.path.clone());
        }
        Ok(members)
    }
}

/// Why a pool does not open. Where a drive was put back, put to another use or cannot be opened, what it lacks for is here, but
/// of no use: that is what has to be said.
fn refused(
    pool: &str,
    paths: &[PathBuf],
    mut findings: Vec<Finding>,
    error: PoolError,
) -> ControlError {
    let is_here =
        |finding: &Finding| [PUT_BACK, OTHER_USE, UNUSABLE, UNREADABLE].contains(&&*finding.code);
    // Who used the pool last has nothing to do with its drives, and stands in the way of going on without them.
    let is_owned = matches!(
        error,
        PoolError::Import(ImportError::OwnedElsewhere { .. } | ImportError::OwnerAlive { .. })
    );
    if !is_owned && findings.iter().any(is_here) {
        if matches!(error, PoolError::Import(ImportError::NoFast { .. })) {
            let text =
                "no other fast drive is left, and what the dense drives lack was there alone";
            findings.push(Finding::new(Severity::Refusal, NO_FAST, text));
        }
        let pool = pool.to_owned();
        return ControlError::Missing { pool, findings };
    }
    ControlError::pool_of(pool, paths, error)
}

/// Why a pool does not open of which no label can be read where its drives were.
fn gone(pool: &str, scans: &[Scan]) -> ControlError {
    let pool = pool.to_owned();
    let findings: Vec<_> = scans.iter().map(not_of_pool).collect();
    // What may not be read is where it was.
    match findings.iter().any(|found| found.code == UNUSABLE) {
        true => ControlError::Missing { pool, findings },
        false => ControlError::Gone { pool, findings },
    }
}

/// A drive holds an older state than the pool was closed in.
pub(crate) fn put_back(path: &Path) -> Finding {
    let text = "holds what it held before the pool was used last: it was put back from a copy";
    Finding::new(Severity::Refusal, PUT_BACK, text).at(path)
}

/// Drives whose own label is older than a session that closed the pool in good order. Each label is
/// written when a session begins and when it ends, and a close waits until its drives are let go, so
/// no active member is behind unless it was put back from a copy: it lacks what was written since,
/// although the member table knows nothing of that.
fn behind(id: PoolId, found: &[label::Finding]) -> Vec<usize> {
    let labels = found
        .iter()
        .enumerate()
        .filter_map(|(at, found)| match found {
            label::Finding::Label(label) if label.state.pool == id => Some((at, label)),
            _ => None,
        });
    let labels: Vec<_> = labels.collect();
    let newest = labels.iter().map(|(_, label)| &label.state);
    let newest = newest.max_by_key(|state| state.generation);
    let Some(newest) = newest.filter(|state| state.clean) else {
        return Vec::new();
    };
    let is_behind = |(_, label): &&(usize, &label::Label)| {
        let row = newest.members.get(label.own);
        let is_used = row.is_some_and(|row| row.state.is_voter());
        is_used && label.state.epoch < newest.generation.epoch()
    };
    let all = labels.iter().filter(is_behind);
    all.map(|(at, _)| *at).collect()
}

fn parse_id(entry: &Entry) -> Result<PoolId, ControlError> {
    let id = random::parse(&entry.id).map(PoolId);
    id.ok_or_else(|| ControlError::NoPool(entry.name.clone()))
}

/// Where nothing is left of a pool but drives that were put to another use, that is what has to be said.
fn refuse_other_use(scans: &[Scan]) -> Result<(), ControlError> {
    let taken: Vec<_> = (scans.iter().filter(|one| one.other_use.is_some()))
        .map(not_of_pool)
        .collect();
    if taken.is_empty() || scans.iter().any(|one| one.label().is_some()) {
        return Ok(());
    }
    Err(refusal(taken))
}

/// The pool that is meant: by name or identity, or the only one.
pub(crate) fn chosen(
    scans: &[Scan],
    wanted: Option<&str>,
) -> Result<(PoolId, String), ControlError> {
    let labels = scans.iter().filter_map(Scan::label);
    let mut found: BTreeMap<[u8; 16], String> = BTreeMap::new();
    for label in labels {
        found.insert(label.pool, label.name.as_str().to_owned());
    }
    if let Some(wanted) = wanted {
        let id = random::parse(wanted);
        found.retain(|pool, name| name == wanted || Some(*pool) == id);
        if found.is_empty() {
            return Err(ControlError::NoPool(wanted.to_owned()));
        }
    }
    match found.len() {
        0 => Err(ControlError::NoLabels(
            scans.iter().map(not_of_pool).collect(),
        )),
        1 => {
            let (id, name) = found.into_iter().next().expect("there is one");
            Ok((PoolId(id), name))
        }
        _ => {
            let named = |(id, name): (&[u8; 16], &String)| format!("{name} ({})", random::hex(id));
            Err(ControlError::SeveralPools(
                found.iter().map(named).collect(),
            ))
        }
    }
}

fn name_of(id: PoolId, scans: &[Scan]) -> String {
    let labels = scans.iter().filter_map(Scan::label);
    let newest = scan::newest(labels.filter(|label| label.pool == id.0));
    newest.map_or_else(
        || random::hex(&id.0),
        |label| label.name.as_str().to_owned(),
    )
}

fn twice((path, first): (PathBuf, PathBuf)) -> Finding {
    let text = format!("is the same drive as {}", first.display());
    Finding::new(Severity::Refusal, "twice", text).at(path)
}

/// Why a path is of no use to the pool it was named for.
pub(crate) fn not_of_pool(one: &Scan) -> Finding {
    let (code, text) = match (&one.found, one.label()) {
        (Err(error), _) if error.kind() == std::io::ErrorKind::NotFound => {
            ("missing", "does not exist".to_owned())
        }
        (Err(error), _) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            (UNUSABLE, format!("this user may not read it: {error}"))
        }
        (Err(error), _) => (UNREADABLE, error.to_string()),
        (Ok(_), None) if one.other_use.is_some() => (OTHER_USE, other_use(one)),
        (Ok(_), None) => ("no-label", "has no label of a pool".to_owned()),
        (Ok(_), Some(label)) => {
            let name = label.name.as_str();
            (
                "foreign",
                format!("belongs to pool {name} ({})", random::hex(&label.pool)),
            )
        }
    };
    Finding::new(Severity::Refusal, code, text).at(&one.path)
}

fn other_use(one: &Scan) -> String {
    let Some(OtherUse { former, holds }) = &one.other_use else {
        return String::new();
    };
    let mut rows = former.members.iter();
    let row = rows.find(|row| row.id == former.drive);
    let was = row.map_or_else(String::new, |row| place_name(row.role, row.slot));
    let pool = former.name.as_str();
    format!("was drive {was} of pool {pool}, was put to another use and holds {holds}")
}

/// A drive that is where it was cannot be used for the pool.
fn unusable(one: &Scan, row: Option<&Member>, error: &ControlError) -> Finding {
    let why = error.why(&one.path);
    let text = match row {
        Some(row) => format!("drive {}: {why}", place_name(row.role, row.slot)),
        None => why,
    };
    Finding::new(Severity::Refusal, UNUSABLE, text).at(&one.path)
}

fn missing(import: &Import, met: &[u32], mut findings: Vec<Finding>) -> Vec<Finding> {
    for id in import.missing.iter().filter(|id| !met.contains(&id.0)) {
        let row = import.state.members.get(*id);
        let what = row.map_or_else(|| id.to_string(), |row| drive_name(row.role, row.slot));
        let bytes = row.map_or(0, |row| row.size_bytes);
        let text = format!("drive {what} ({bytes} bytes) is at none of the known paths");
        findings.push(Finding::new(Severity::Refusal, "drive-missing", text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    /// What may not be read is where it was: path and cause are told, also of a pool that cannot do without.
    #[test]
    fn a_drive_that_may_not_be_read_is_named() {
        for (kind, code) in [
            (ErrorKind::PermissionDenied, UNUSABLE),
            (ErrorKind::InvalidInput, UNREADABLE),
        ] {
            let path = PathBuf::from("/dev/nvme9n1");
            let one = Scan::failed(path.clone(), Error::from(kind));
            let finding = not_of_pool(&one);
            assert_eq!(finding.code, code);
            assert!(finding.text.contains(&Error::from(kind).to_string()));
            let next = gone("p", std::slice::from_ref(&one)).next();
            assert_eq!(
                next.starts_with("let this user"),
                code == UNUSABLE,
                "{next}"
            );
            let error = PoolError::DenseMissing { away: 1 };
            let ControlError::Missing { findings, .. } = refused("p", &[], vec![finding], error)
            else {
                panic!("{code}");
            };
            assert_eq!(findings[0].path.as_deref(), Some(&*path));
        }
    }
}
