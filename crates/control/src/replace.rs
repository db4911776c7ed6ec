//! Another drive in the place of one that is lost.

use crate::create::{MAGICS, busy};
use crate::drives;
use crate::error::ControlError;
use crate::failure::Failure;
use crate::finding::{Finding, Severity};
use crate::jobs::JobView;
use crate::path::DrivePath;
use crate::pools::Pools;
use crate::random;
use crate::running::Running;
use crate::scan::scan;
use crate::status::{drive_name, open_drives};
use crate::view::DriveView;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::rc::Rc;
use varve_hostio::{Wanted, preflight};
use varve_io::Drive;
use varve_pool::label::MemberState;
use varve_pool::{PoolError, Slot, SlotState};

/// A drive to be replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
}

impl Pools {
    /// Drives of one pool, or of all that are known here.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool, a registry that cannot be read.
    pub async fn list_drives(&self, pool: Option<&str>) -> Result<Vec<DriveView>, ControlError> {
        if let Some(running) = pool.and_then(|pool| self.running(pool).ok()) {
            return Ok(open_drives(&self.models, &running));
        }
        let views = match pool {
            Some(pool) => vec![self.status(pool).await?],
            None => self.list().await?,
        };
        Ok(views.into_iter().flat_map(|view| view.drives).collect())
    }

    /// Begins to fill another drive with what a lost one held; hosts go on meanwhile.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool or drive, one that is in use and not to be given up or that is
    /// needed, a new drive that is in use, too small or not blank.
    pub async fn replace_drive(&self, wanted: &ReplaceDrive) -> Result<JobView, ControlError> {
        let _turn = self.turn.take().await;
        let running = self.running(&wanted.pool)?;
        busy(&running)?;
        let slots = running.pool.slots();
        let is_it = |slot: &Slot| drive_name(slot.role, slot.number) == wanted.drive;
        let found = slots.iter().find(|status| is_it(&status.slot));
        let (slot, state) = match found {
            Some(status) => (status.slot, status.state),
            None => {
                let (pool, drive) = (wanted.pool.clone(), wanted.drive.clone());
                return Err(ControlError::NoDrive { pool, drive });
            }
        };
        if state != SlotState::Lost && !wanted.give_up {
            let (pool, drive) = (wanted.pool.clone(), wanted.drive.clone());
            return Err(ControlError::DriveLive { pool, drive });
        }
        let kind = self.look_at(&running, (slot, state), wanted)?;
        let drive = self.new_drive(&wanted.new, None)?;
        let failed = |error| ControlError::pool(&wanted.pool)(error);
        if let Err(error) = running.pool.check_fit(slot, &drive) {
            if wanted.new.create_bytes.is_some() {
                // Best effort: what does not fit is told.
                let _ = std::fs::remove_file(&wanted.new.path);
            }
            let why = error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string);
            let finding = Finding::new(Severity::Refusal, "too-small", why);
            return Err(crate::create::refusal(vec![finding.at(&wanted.new.path)]));
        }
        // What the registry says is a hint, and a start that finds the drive can do no harm with it. Without the
        // path a pool that is cut off from here on would not be found whole.
        let mut entry = running.entry();
        entry.paths.push(wanted.new.path.clone());
        self.home.change(|registry| registry.put(entry))?;
        if state != SlotState::Lost
            && let Err(error) = running.pool.give_up(slot).await
        {
            let _ = self.remember(&running);
            return Err(failed(error));
        }
        if wanted.overwrite && kind == Kind::New {
            let wiped = drives::wipe(&*drive).await;
            wiped.map_err(|error| failed(PoolError::Drive(error)))?;
        }
        let weak = Rc::downgrade(&drive);
        running.drives.borrow_mut().push(weak);
        let now = self.world.now();
        let job = self
            .jobs
            .begin("replace-drive", &wanted.pool, &wanted.drive, now);
        running.job.set(Some(job));
        self.fill(job, running, slot, drive, wanted.clone());
        self.job(job)
    }

    /// What stands in the way of the new drive.
    fn look_at(
        &self,
        running: &Running,
        (slot, state): (Slot, SlotState),
        wanted: &ReplaceDrive,
    ) -> Result<Kind, ControlError> {
        let members = running.pool.membership().state().members;
        let least_bytes = running.pool.least_bytes(slot);
        let least_bytes = least_bytes.map_err(ControlError::pool(&wanted.pool))?;
        let look = Wanted {
            path: wanted.new.path.clone(),
            create: wanted.new.create_bytes,
            least_bytes,
        };
        let found = preflight(&[look], &MAGICS);
        let mut findings: Vec<_> = found.findings.iter().map(Finding::from).collect();
        let scan = scan(&wanted.new.path);
        let mut kind = Kind::New;
        if let Some(label) = scan.label() {
            findings.retain(|finding| finding.code != "holds-data");
            let row = members.get(varve_pool::label::MemberId(label.drive));
            let returns = row.is_some_and(|row| {
                row.is_at(slot.role, slot.number) && row.state != MemberState::Removed
            });
            if label.pool == running.id.0 && returns && state == SlotState::Lost {
                kind = Kind::Returning;
            } else {
                let (name, id) = (label.name.as_str(), random::hex(&label.pool));
                let mut text = format!("is a drive of pool {name} ({id})");
                let (mut severity, mut code) = (Severity::Confirm, "holds-data");
                if label.pool == running.id.0 {
                    // Nothing else about it matters.
                    findings.clear();
                    text = "is a drive of this very pool".to_owned();
                    (severity, code) = (Severity::Refusal, "own-drive");
                }
                findings.push(Finding::new(severity, code, text).at(&wanted.new.path));
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

    /// The job's flow.
    fn fill(
        &self,
        job: u64,
        running: Rc<Running>,
        slot: Slot,
        drive: Rc<dyn Drive>,
        wanted: ReplaceDrive,
    ) {
        let (jobs, world) = (Rc::clone(&self.jobs), Rc::clone(&self.world));
        let home = self.home.clone();
        self.world.spawn(Box::pin(async move {
            let note = |progress: varve_pool::Progress| {
                jobs.note(job, progress.done, progress.total);
            };
            let outcome = running.pool.replace(slot, drive, note).await;
            running.set_path(slot, &wanted.new.path);
            // What the registry says is a hint: the labels know the drive by now.
            let _ = home.change(|registry| registry.put(running.entry()));
            running.job.set(None);
            let outcome = outcome.map(|restored| restored.unreadable.len() as u64);
            let failed = ControlError::pool(&wanted.pool);
            let outcome = outcome.map_err(|error| Failure::from(failed(error)));
            drop(running);
            jobs.end(job, world.now(), outcome);
        }));
    }
}
