//! What takes long: jobs with a number, how far they are, and how they ended.

use crate::error::ControlError;
use crate::failure::Failure;
use crate::pools::Pools;
use crate::rebuild::RebuildView;
use crate::scrub::ScrubView;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use varve_io::Event;
use varve_units::Nanos;

/// Jobs that are remembered after they ended. Arbitrary.
const ENDED_MAX: usize = 100;

/// How a job fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It is at work.
    Running,
    /// It did all it was to do.
    Done,
    /// It ended early.
    Failed,
}

/// A job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobView {
    /// Its number.
    pub job: u64,
    /// What it does: `replace-drive`, `scrub`, `rebuild-map`.
    pub does: String,
    /// To which pool.
    pub pool: String,
    /// To what of it; nothing where it is all of it.
    pub drive: String,
    /// How it fares.
    pub state: JobState,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes to be done, 0 as long as that is not known.
    pub total_bytes: u64,
    /// Since it began, to its end if it has ended.
    pub elapsed_ns: u64,
    /// Bytes in a second, on average.
    pub bytes_per_s: u64,
    /// Time left at that rate, while it runs and a rate is known.
    pub left_ns: Option<u64>,
    /// Ranges that no other drive could give.
    pub unreadable_ranges: u64,
    /// What a scrub found and did, once it has ended.
    #[serde(default)]
    pub scrub: Option<Box<ScrubView>>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What it found, if it made a map anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuilt: Option<RebuildView>,
}

impl JobView {
    /// What it is about: a drive of a pool, or the pool.
    #[must_use]
    pub fn what(&self) -> String {
        match &*self.drive {
            "" => self.pool.clone(),
            drive => format!("{}/{drive}", self.pool),
        }
    }
}

#[derive(Clone)]
struct Job {
    view: JobView,
    began: Nanos,
    ended: Option<Nanos>,
}

/// All jobs since the control plane began.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: RefCell<BTreeMap<u64, Job>>,
    last: Cell<u64>,
    changed: Event,
}

impl Jobs {
    pub(crate) fn begin(&self, does: &str, pool: &str, drive: &str, now: Nanos) -> u64 {
        let job = self.last.get() + 1;
        self.last.set(job);
        let view = JobView {
            job,
            does: does.to_owned(),
            pool: pool.to_owned(),
            drive: drive.to_owned(),
            state: JobState::Running,
            done_bytes: 0,
            total_bytes: 0,
            elapsed_ns: 0,
            bytes_per_s: 0,
            left_ns: None,
            unreadable_ranges: 0,
            scrub: None,
            failure: None,
            rebuilt: None,
        };
        let mut jobs = self.jobs.borrow_mut();
        let ended = jobs.values().filter(|job| job.ended.is_some());
        if ended.clone().count() >= ENDED_MAX {
            let oldest = ended.map(|job| job.view.job).min();
            oldest.and_then(|oldest| jobs.remove(&oldest));
        }
        jobs.insert(
            job,
            Job {
                view,
                began: now,
                ended: None,
            },
        );
        job
    }

    pub(crate) fn note(&self, job: u64, done: u64, total: u64) {
        if let Some(job) = self.jobs.borrow_mut().get_mut(&job) {
            (job.view.done_bytes, job.view.total_bytes) = (done, total);
        }
        self.changed.notify();
    }

    /// What a scrub found, before it ends.
    pub(crate) fn note_scrub(&self, job: u64, scrub: ScrubView) {
        if let Some(job) = self.jobs.borrow_mut().get_mut(&job) {
            job.view.scrub = Some(Box::new(scrub));
        }
    }

    /// Ends a job: ranges that could not be read, or why it failed.
    pub(crate) fn end(&self, job: u64, now: Nanos, outcome: Result<u64, Failure>) {
        if let Some(job) = self.jobs.borrow_mut().get_mut(&job) {
            job.ended = Some(now);
            match outcome {
                Ok(unreadable) => {
                    job.view.state = JobState::Done;
                    job.view.unreadable_ranges = unreadable;
                    job.view.done_bytes = job.view.total_bytes;
                }
                Err(failure) => {
                    job.view.state = JobState::Failed;
                    job.view.failure = Some(failure);
                }
            }
        }
        self.changed.notify();
    }

    /// Ends a job that made a map anew: what it found, or why it failed.
    pub(crate) fn end_rebuild(&self, job: u64, now: Nanos, outcome: Result<RebuildView, Failure>) {
        let outcome = outcome.map(|view| {
            if let Some(job) = self.jobs.borrow_mut().get_mut(&job) {
                job.view.rebuilt = Some(view);
            }
            0
        });
        self.end(job, now, outcome);
    }

    pub(crate) fn get(&self, number: u64, now: Nanos) -> Option<JobView> {
        let job = self.jobs.borrow().get(&number).cloned()?;
        let elapsed_ns = job.ended.unwrap_or(now).since(job.began).0;
        let done = u128::from(job.view.done_bytes);
        let rate = (done * 1_000_000_000).checked_div(u128::from(elapsed_ns));
        let bytes_per_s = u64::try_from(rate.unwrap_or(0)).unwrap_or(u64::MAX);
        let left = job.view.total_bytes.saturating_sub(job.view.done_bytes);
        let left_ns = (u128::from(left) * 1_000_000_000).checked_div(u128::from(bytes_per_s));
        let left_ns = left_ns.and_then(|left| u64::try_from(left).ok());
        Some(JobView {
            elapsed_ns,
            bytes_per_s,
            left_ns: left_ns.filter(|_| job.ended.is_none()),
            ..job.view
        })
    }

    pub(crate) fn all(&self, now: Nanos) -> Vec<JobView> {
        let numbers: Vec<u64> = self.jobs.borrow().keys().copied().collect();
        let views = numbers.into_iter().filter_map(|job| self.get(job, now));
        views.collect()
    }
}

impl Pools {
    /// A job as it is now.
    ///
    /// # Errors
    /// [`ControlError::NoJob`].
    pub fn job(&self, job: u64) -> Result<JobView, ControlError> {
        let view = self.jobs.get(job, self.world.now());
        view.ok_or(ControlError::NoJob(job))
    }

    /// All jobs, ended ones too, by number.
    #[must_use]
    pub fn all_jobs(&self) -> Vec<JobView> {
        self.jobs.all(self.world.now())
    }

    /// A job, once it has ended or come a hundredth of its way beyond `from` bytes.
    ///
    /// # Errors
    /// [`ControlError::NoJob`].
    pub async fn wait_job(&self, job: u64, from: u64) -> Result<JobView, ControlError> {
        loop {
            let view = self.job(job)?;
            let step = (view.total_bytes / 100).max(1);
            if view.state != JobState::Running || view.done_bytes >= from.saturating_add(step) {
                return Ok(view);
            }
            self.jobs.changed.listen().await;
        }
    }
}
