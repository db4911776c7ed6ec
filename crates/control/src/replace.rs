//! Another drive in the place of one that is lost.
//!
//! 1. The new drive is looked at, opened or made, and whether it takes writes is tried; a pool that is not open yet stays
//!    so until then.
//! 2. The registry notes what is to take which place, and where it is. Now that nothing stands in its way, the new drive is
//!    blanked.
//! 3. The old drive is given up, if it still is in use; what it holds is copied from it nevertheless, unless the
//!    others alone are to be trusted.
//! 4. The new one joins and is filled, as a job; then the note goes.
//!
//! Cut short anywhere, the same command goes on from there. What fails before the third step leaves nothing behind; what
//! fails before the new drive is blanked leaves that as it was.

use crate::create::busy;
use crate::drives;
use crate::error::ControlError;
use crate::failure::Failure;
use crate::finding::{Finding, Severity};
use crate::jobs::JobView;
use crate::model;
use crate::path::DrivePath;
use crate::place::{Place, State};
use crate::pools::Pools;
use crate::running::Running;
use crate::status::open_drives;
use crate::view::DriveView;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::Path;
use std::rc::{Rc, Weak};
use varve_hostio::Wanted;
use varve_io::{Drive, Flow, IoError};
use varve_pool::label::Role;
use varve_pool::{PoolError, RestoreError, Slot, SlotState};
use varve_units::Nanos;

/// Between two looks at a copy that a start began. Arbitrary: often enough for whoever watches.
const FOLLOW_PAUSE: Nanos = Nanos::from_millis(50);
/// Looks without a copy at work after which there will be none. Arbitrary: ten seconds, many times what lies between
/// two tries.
const FOLLOW_ROUNDS: u32 = 200;

/// A drive to be replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceDrive {
    /// Its pool.
    pub pool: String,
    /// Its place, `dense1` say.
    pub drive: String,
    /// The drive that takes its place; where the lost one is, if it comes back itself.
    pub new: DrivePath,
    /// Also if the old one is still in use: it is given up first.
    #[serde(default)]
    pub give_up: bool,
    /// The new one is filled from the other drives alone, not from the old one: what that holds is not to be
    /// trusted. Where the others do not hold all, what they lack is lost then.
    #[serde(default)]
    pub from_others: bool,
    /// Also if the new one holds something, which is lost then.
    #[serde(default)]
    pub overwrite: bool,
}

/// What the new drive is to the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Blank, or with what may be overwritten.
    New,
    /// The lost member itself.
    Returning,
    /// The member that is being filled already, or just was.
    Filling,
}

/// The new drive, ready to join.
struct Taken {
    drive: Rc<dyn Drive>,
    /// The file was made for this.
    is_made: bool,
    /// So was its model.
    is_modelled: bool,
}

impl Pools {
    /// Drives of one pool, or of all that are known here.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool, a registry that cannot be read.
    pub fn list_drives<'a>(
        &'a self,
        pool: Option<&'a str>,
    ) -> Flow<'a, Result<Vec<DriveView>, ControlError>> {
        Box::pin(async move {
            if let Some(running) = pool.and_then(|pool| self.running(pool).ok()) {
                return Ok(open_drives(&self.models, &running));
            }
            let views = match pool {
                Some(pool) => vec![self.status(pool).await?],
                None => self.list().await?,
            };
            Ok(views.into_iter().flat_map(|view| view.drives).collect())
        })
    }

    /// Begins to fill another drive with what a lost one held; hosts go on meanwhile. A pool that is not open is opened
    /// for it, without the drive that is to be replaced if that is away.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool or drive, one that is in use and not to be given up or that is
    /// needed, a new drive that is in use, too small or not blank.
    pub fn replace_drive<'a>(
        &'a self,
        wanted: &'a ReplaceDrive,
    ) -> Flow<'a, Result<JobView, ControlError>> {
        Box::pin(async move {
            let _turn = self.turn.take().await;
            let is_begun = self.is_begun(wanted)?;
            let mut taken = None;
            let outcome = self.replace_in_turn(wanted, is_begun, &mut taken).await;
            if outcome.is_err() {
                if let Some(taken) = taken {
                    abandon(taken, wanted);
                }
                if !is_begun && self.is_begun(wanted).unwrap_or(false) {
                    // Best effort: the error that is told is the one that came first.
                    let _ = self.note(wanted, false).await;
                }
            }
            outcome
        })
    }

    async fn replace_in_turn(
        &self,
        wanted: &ReplaceDrive,
        is_begun: bool,
        taken: &mut Option<Taken>,
    ) -> Result<JobView, ControlError> {
        if matches!(self.running(&wanted.pool), Err(ControlError::Closed(_))) {
            let place = self.closed_place(wanted).await?;
            let kind = self.kind_of(&place, wanted, is_begun).await?;
            if kind == Kind::New && (place.state == State::Lost || wanted.give_up) {
                *taken = Some(self.take(&place, kind, wanted, is_begun).await?);
            }
            let without = Some(wanted.drive.clone());
            self.open_in_turn(&wanted.pool, without).await?;
        }
        let running = self.running(&wanted.pool)?;
        let place = Place::open(&running, &wanted.drive)?;
        let kind = match taken {
            Some(_) => Kind::New,
            None => self.kind_of(&place, wanted, is_begun).await?,
        };
        match (kind, running.job.get()) {
            (Kind::Filling, Some(job)) => return self.job(job),
            (Kind::Filling, None) => return self.follow(&running, place.slot, wanted),
            _ => busy(&running)?,
        }
        if place.state != State::Lost && !wanted.give_up {
            let (pool, drive) = (wanted.pool.clone(), wanted.drive.clone());
            return Err(ControlError::DriveLive { pool, drive });
        }
        if taken.is_none() {
            *taken = Some(self.take(&place, kind, wanted, is_begun).await?);
        }
        let drive = taken.as_ref().map(|taken| Rc::clone(&taken.drive));
        let drive = drive.expect("taken a moment ago");
        if let Err(error) = running.pool.check_fit(place.slot, &drive) {
            let why = error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string);
            let finding = Finding::new(Severity::Refusal, "too-small", why);
            return Err(crate::create::refusal(vec![finding.at(&wanted.new.path)]));
        }
        self.note(wanted, true).await?;
        if kind == Kind::New {
            let blanked = drives::wipe(&*drive).await;
            blanked.map_err(|error| takes_no_writes(&wanted.new.path, error))?;
        }
        if place.state != State::Lost {
            let given_up = match wanted.from_others {
                true => running.pool.give_up(place.slot).await,
                false => running.pool.hand_over(place.slot).await,
            };
            given_up.map_err(ControlError::pool(&wanted.pool))?;
        }
        running.drives.borrow_mut().push(Rc::downgrade(&drive));
        let taken = taken.take().expect("taken a moment ago");
        self.fill(running, place.slot, taken, wanted)
    }

    /// True if this very replacement was begun before and has not ended.
    fn is_begun(&self, wanted: &ReplaceDrive) -> Result<bool, ControlError> {
        let registry = self.home.registry()?;
        let entry = registry.get(&wanted.pool);
        let noted = entry.and_then(|entry| entry.replacing.get(&wanted.drive));
        Ok(noted == Some(&wanted.new.path))
    }

    /// Notes in the registry that a drive takes a place, and where it is, or that it does not after all. What the registry
    /// says is a hint, and a start that finds the drive can do no harm with it. Without the path a pool that is cut off
    /// from here on would not be found whole.
    async fn note(&self, wanted: &ReplaceDrive, is_begun: bool) -> Result<(), ControlError> {
        if let Ok(running) = self.running(&wanted.pool) {
            let (drive, path) = (wanted.drive.clone(), wanted.new.path.clone());
            let replacing = &running.replacing;
            match is_begun {
                true => replacing.borrow_mut().insert(drive, path),
                false => replacing.borrow_mut().remove(&drive),
            };
            return self.remember(&running).await;
        }
        let wanted = wanted.clone();
        let changed = self.change(move |registry| {
            let named = |entry: &&mut crate::registry::Entry| entry.name == wanted.pool;
            let Some(entry) = registry.pools.iter_mut().find(named) else {
                return;
            };
            match is_begun {
                true => entry.replacing.insert(wanted.drive, wanted.new.path),
                false => entry.replacing.remove(&wanted.drive),
            };
        });
        changed.await
    }

    /// Opens or makes the new drive. One that takes no writes is no drive to give another up for.
    async fn take(
        &self,
        place: &Place,
        kind: Kind,
        wanted: &ReplaceDrive,
        is_begun: bool,
    ) -> Result<Taken, ControlError> {
        // Before a file is made, so that a repetition knows it for its own.
        self.note(wanted, true).await?;
        let mut new = wanted.new.clone();
        if is_begun && new.path.exists() {
            new.create_bytes = None;
        }
        let is_made = new.create_bytes.is_some();
        // One that comes back goes on with the account it has.
        let sheet = match kind {
            Kind::New => self.sheet_for(place, wanted)?,
            Kind::Returning | Kind::Filling => None,
        };
        let most = Some(place.lba_bytes);
        let drive = match kind {
            Kind::New => self.new_drive(&new, sheet.as_deref(), most)?,
            Kind::Returning | Kind::Filling => self.open_drive(&new.path, most)?,
        };
        let is_modelled = sheet.is_some();
        let taken = Taken {
            drive,
            is_made,
            is_modelled,
        };
        let outcome = match kind {
            Kind::New if taken.drive.info().lba_bytes > place.lba_bytes => {
                let (found, most) = (taken.drive.info().lba_bytes, place.lba_bytes);
                let text = format!("has sectors of {found} bytes, {most} is the most that fits");
                let finding = Finding::new(Severity::Refusal, "sector-size", text);
                Err(crate::create::refusal(vec![finding.at(&new.path)]))
            }
            Kind::New => drives::try_write(&*taken.drive)
                .await
                .map_err(|error| takes_no_writes(&new.path, error)),
            Kind::Returning | Kind::Filling => Ok(()),
        };
        match outcome {
            Ok(()) => Ok(taken),
            Err(error) => {
                abandon(taken, wanted);
                Err(error)
            }
        }
    }

    /// The data sheet of the model that a new drive gets: that of the drive whose place it takes, or where that is not
    /// known, of another one of the tier. Only dense drives have models.
    fn sheet_for(
        &self,
        place: &Place,
        wanted: &ReplaceDrive,
    ) -> Result<Option<String>, ControlError> {
        if place.slot.role != Role::Dense {
            return Ok(None);
        }
        let own = self.running(&wanted.pool).ok();
        let own = own.and_then(|running| running.path_of(place.slot));
        let registry = self.home.registry()?;
        let known = registry.get(&wanted.pool).into_iter();
        let known = known.flat_map(|entry| entry.paths.clone());
        let mut sheets = own
            .into_iter()
            .chain(known)
            .filter_map(|path| model::sheet_of(&path));
        Ok(sheets.next())
    }

    /// A drive's place in a pool that is not open, as the labels at the known paths and the new drive's have it.
    async fn closed_place(&self, wanted: &ReplaceDrive) -> Result<Place, ControlError> {
        let registry = self.home.registry()?;
        let entry = registry.get(&wanted.pool);
        let entry = entry.ok_or_else(|| ControlError::NoPool(wanted.pool.clone()))?;
        if entry.destroying {
            return Err(ControlError::HalfDestroyed(wanted.pool.clone()));
        }
        let paths = entry.paths.iter().chain([&wanted.new.path]);
        Place::closed(entry, wanted, &self.scan_each(paths).await)
    }

    /// Begins the job that fills the drive.
    fn fill(
        &self,
        running: Rc<Running>,
        slot: Slot,
        taken: Taken,
        wanted: &ReplaceDrive,
    ) -> Result<JobView, ControlError> {
        let job = self.begin_job(&running, wanted);
        let (jobs, world) = (Rc::clone(&self.jobs), Rc::clone(&self.world));
        let (home, io, wanted) = (self.home.clone(), self.io.clone(), wanted.clone());
        self.world.spawn(Box::pin(async move {
            let mut note = |progress: varve_pool::Progress| {
                jobs.note(job, progress.done, progress.total);
            };
            let before = running.seated(slot);
            let drive = Rc::clone(&taken.drive);
            let outcome = running.pool.replace(slot, drive, &mut note).await;
            if running.seated(slot) == before && outcome.is_err() {
                // It never joined.
                abandon(taken, &wanted);
            } else {
                drop(taken);
                running.set_path(slot, &wanted.new.path);
            }
            // What the registry says is a hint: the labels know the drive by now.
            let entry = running.entry();
            let noted = home.change_aside(&io, move |registry| registry.put(entry));
            let _ = noted.await;
            running.job.set(None);
            let outcome = outcome.map(|restored| restored.unreadable.len() as u64);
            let failed = ControlError::pool(&wanted.pool);
            let outcome = outcome.map_err(|error| Failure::from(failed(error)));
            drop(running);
            jobs.end(job, world.now(), outcome);
        }));
        self.job(job)
    }

    fn begin_job(&self, running: &Running, wanted: &ReplaceDrive) -> u64 {
        let (jobs, now) = (&self.jobs, self.world.now());
        let job = jobs.begin("replace-drive", &wanted.pool, &wanted.drive, now);
        running.job.set(Some(job));
        job
    }

    /// Begins a job that waits for a copy which a start of the pool began again.
    fn follow(
        &self,
        running: &Rc<Running>,
        slot: Slot,
        wanted: &ReplaceDrive,
    ) -> Result<JobView, ControlError> {
        let job = self.begin_job(running, wanted);
        let (jobs, world) = (Rc::clone(&self.jobs), Rc::clone(&self.world));
        let (home, io, wanted) = (self.home.clone(), self.io.clone(), wanted.clone());
        // Not kept open by this: the copy ends with the pool.
        let pool = Rc::downgrade(running);
        self.world.spawn(Box::pin(async move {
            let mut idle = 0;
            let outcome: Result<u64, PoolError> = loop {
                world.sleep(FOLLOW_PAUSE).await;
                match filling(&pool, slot) {
                    Filling::On(progress) => {
                        idle = 0;
                        jobs.note(job, progress.done, progress.total);
                    }
                    Filling::Waits if idle < FOLLOW_ROUNDS => idle += 1,
                    Filling::Whole => break Ok(0),
                    Filling::Waits | Filling::Over => break Err(RestoreError::Interrupted.into()),
                }
            };
            if let Some(running) = pool.upgrade() {
                let entry = running.entry();
                let noted = home.change_aside(&io, move |registry| registry.put(entry));
                let _ = noted.await;
                running.job.set(None);
            }
            let failed = ControlError::pool(&wanted.pool);
            let outcome = outcome.map_err(|error| Failure::from(failed(error)));
            jobs.end(job, world.now(), outcome);
        }));
        self.job(job)
    }
}

/// How a copy fares that nobody here began.
enum Filling {
    On(varve_pool::Progress),
    /// Between two tries, or given up.
    Waits,
    Whole,
    Over,
}

fn filling(pool: &Weak<Running>, slot: Slot) -> Filling {
    let Some(running) = pool.upgrade() else {
        return Filling::Over;
    };
    let slots = running.pool.slots();
    let status = slots.iter().find(|status| status.slot == slot);
    match status.map(|status| (status.state, status.rebuild)) {
        Some((SlotState::Rebuilding, Some(progress))) => Filling::On(progress),
        Some((SlotState::Rebuilding, None)) => Filling::Waits,
        Some((SlotState::Live, _)) => Filling::Whole,
        _ => Filling::Over,
    }
}

fn takes_no_writes(path: &Path, error: IoError) -> ControlError {
    let text = format!("cannot be read and written: {error}");
    let finding = Finding::new(Severity::Refusal, "write", text);
    crate::create::refusal(vec![finding.at(path)])
}

/// Lets a new drive go that takes no place after all; a file that was made for it is taken away.
fn abandon(taken: Taken, wanted: &ReplaceDrive) {
    drop(taken.drive);
    if taken.is_made {
        // Best effort: why it takes no place is told.
        let _ = std::fs::remove_file(&wanted.new.path);
    }
    if taken.is_made || taken.is_modelled {
        let _ = model::forget(&wanted.new.path);
    }
}

impl Pools {
    /// What the new drive is to its place, if nothing stands in its way.
    async fn kind_of(
        &self,
        place: &Place,
        wanted: &ReplaceDrive,
        is_begun: bool,
    ) -> Result<Kind, ControlError> {
        let path = &wanted.new.path;
        let registry = self.home.registry()?;
        let scan = self.scan(path).await;
        let own = scan.label().filter(|label| label.pool == place.pool);
        // Of one that was begun the end may not have been heard.
        let is_it = |member| place.is_filling(member) || is_begun && place.is_whole(member);
        if own.is_some_and(|label| is_it(label.drive)) {
            return Ok(Kind::Filling);
        }
        let look = Wanted {
            path: path.clone(),
            // A repetition finds the file that was made before.
            create: (wanted.new.create_bytes).filter(|_| !(is_begun && path.exists())),
            least_bytes: place.least_bytes,
        };
        let found = self.look_at(vec![look]).await?;
        crate::create::fits_sums(&wanted.new, &found)?;
        model::check_place(path)?;
        let mut findings: Vec<_> = found.findings.iter().map(Finding::from).collect();
        let mut kind = Kind::New;
        if let Some(label) = scan.label() {
            findings.retain(|finding| finding.code != "holds-data");
            if own.is_some() && place.returns(label.drive) {
                kind = Kind::Returning;
            } else {
                let mut finding = self.of_pool(&registry, label).await;
                if own.is_some_and(|label| place.has_left(label.drive)) {
                    let text = "was a drive of this very pool, until another took its place";
                    finding = Finding::new(Severity::Confirm, "holds-data", text);
                } else if own.is_some() {
                    // Nothing else about it matters.
                    findings.clear();
                    let text = "is a drive of this very pool";
                    finding = Finding::new(Severity::Refusal, "own-drive", text);
                }
                findings.push(finding.at(path));
            }
        }
        let is_bad = |finding: &Finding| match finding.severity {
            Severity::Warning => false,
            Severity::Confirm => !wanted.overwrite,
            Severity::Refusal => true,
        };
        if findings.iter().any(is_bad) {
            return Err(crate::create::refusal(findings));
        }
        Ok(kind)
    }
}
