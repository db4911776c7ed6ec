//! The scrub of an open pool, as a job.
//!
//! One at a time, of a pool in use; it goes on without who asked for it, ends early when that is asked for or the
//! pool is closed, and what the last one found is remembered as long as the pool is open.

use crate::error::ControlError;
use crate::failure::Failure;
use crate::finding::{Finding, Severity};
use crate::jobs::JobView;
use crate::losses::{Loss, Losses};
use crate::pools::Pools;
use crate::running::Running;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_pool::{ScrubProgress, ScrubReport};
use varve_units::Nanos;

/// Bytes a second of all drives together that a scrub reads if nothing else is asked for. Arbitrary: a small part of
/// what flash gives, 18 TB a day.
pub const SCRUB_LIMIT: u64 = 200_000_000;

/// A pool to be scrubbed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubPool {
    /// Its name.
    pub pool: String,
    /// Bytes a second of all drives together that it reads at most: [`SCRUB_LIMIT`] if left out, any number if 0.
    #[serde(default)]
    pub limit_bytes_per_s: Option<u64>,
}

/// What a scrub found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubView {
    /// False if it ended before it had looked at everything.
    pub is_whole: bool,
    /// True if it is whole, everything could be compared, and nothing is wrong any more.
    pub is_clean: bool,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Blocks of 4096 bytes that were compared with their checksums.
    pub blocks: u64,
    /// Leaves of the map, headers of the log, parts of checkpoints and P2L areas that were.
    pub records: u64,
    /// Wrong copies of blocks and records that were written again.
    pub mended_copies: u64,
    /// Blocks of parity that were wrong and were written again.
    pub mended_parity: u64,
    /// Wrong copies and blocks of parity that could not be written.
    pub failures: u64,
    /// Blocks that no drive can give back, by volume: the first hundred ranges of them.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Ranges of such blocks.
    #[serde(default)]
    pub loss_ranges: u64,
    /// Blocks that no drive can give back.
    pub unreadable_blocks: u64,
    /// Stripes and parts of the log that nothing says the content of any more.
    pub unknown: u64,
    /// Stripes and parts of the log that could not be compared because a drive is away.
    pub away: u64,
    /// Drives that did not hold all they should when it ended.
    pub drives_away: u64,
    /// Time since it ended.
    #[serde(default)]
    pub ended_ago_ns: u64,
}

impl ScrubView {
    fn new(report: &ScrubReport, running: &Running) -> Self {
        let losses = Losses::of_scrub(&report.lost, running);
        let drives_away = crate::check::drives_away(running);
        Self {
            is_whole: report.is_whole,
            is_clean: report.is_whole && report.is_clean() && drives_away == 0,
            read_bytes: report.bytes,
            blocks: report.blocks,
            records: report.records,
            mended_copies: report.repairs,
            mended_parity: report.parity_repairs,
            failures: report.failures,
            losses: losses.named,
            loss_ranges: losses.ranges,
            unreadable_blocks: report.lost_blocks,
            unknown: report.unknown,
            away: report.away,
            drives_away,
            ended_ago_ns: 0,
        }
    }

    /// True if something is wrong that it could not mend.
    #[must_use]
    pub const fn has_broken(&self) -> bool {
        self.failures + self.unreadable_blocks + self.unknown > 0
    }
}

/// The scrubs of an open pool.
#[derive(Default)]
pub(crate) struct Scrubs {
    /// The job of the one that is at work.
    pub(crate) job: Cell<Option<u64>>,
    /// Bytes a second that it reads at most, 0 for any number.
    limit: Cell<u64>,
    is_unwanted: Cell<bool>,
    /// What the last one found, and when it ended.
    last: RefCell<Option<(ScrubView, Nanos)>>,
}

impl Scrubs {
    /// What the last one found.
    pub(crate) fn last(&self, now: Nanos) -> Option<ScrubView> {
        let (view, ended) = self.last.borrow().clone()?;
        Some(ScrubView {
            ended_ago_ns: now.since(ended).0,
            ..view
        })
    }

    /// What is to be known of the last one, if that left something to do.
    pub(crate) fn findings(&self, pool: &str) -> Option<Finding> {
        let last = self.last.borrow();
        let (view, _) = last.as_ref()?;
        if !view.has_broken() {
            return None;
        }
        let text = format!(
            "the last scrub left {} blocks that cannot be read, {} wrong copies that could not be written and {} stripes or \
             parts of the log that nothing says the content of; next: `varve pool scrub {pool}` once more names the blocks, \
             `varve check {pool}`, when it is closed, everything that is wrong",
            view.unreadable_blocks, view.failures, view.unknown
        );
        Some(Finding::new(Severity::Warning, "scrub", text))
    }
}

impl Pools {
    /// Begins to scrub an open pool, as a job; where one is at work it is that job.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool, it is not open, or one is at work with another limit than the one that is asked for.
    pub fn scrub_pool(&self, wanted: &ScrubPool) -> Result<JobView, ControlError> {
        let running = self.running(&wanted.pool)?;
        if let Some(job) = running.scrubs.job.get() {
            let limit = running.scrubs.limit.get();
            return match wanted.limit_bytes_per_s {
                Some(other) if other != limit => Err(ControlError::Scrubbed {
                    pool: wanted.pool.clone(),
                    limit,
                }),
                _ => self.job(job),
            };
        }
        let job = self.jobs.begin("scrub", &wanted.pool, "", self.world.now());
        running.scrubs.job.set(Some(job));
        running.scrubs.is_unwanted.set(false);
        let limit = wanted.limit_bytes_per_s.unwrap_or(SCRUB_LIMIT);
        running.scrubs.limit.set(limit);
        let limit = Some(limit).filter(|limit| *limit > 0);
        let (jobs, world) = (Rc::clone(&self.jobs), Rc::clone(&self.world));
        self.world.spawn(Box::pin(async move {
            let mut watch = |progress: ScrubProgress| {
                jobs.note(job, progress.done, progress.total);
                !running.scrubs.is_unwanted.get()
            };
            let outcome = running.pool.scrub(limit, &mut watch).await;
            let outcome = outcome.map_err(ControlError::pool(&running.name));
            let outcome = outcome.and_then(|report| {
                let view = ScrubView::new(&report, &running);
                jobs.note_scrub(job, view.clone());
                *running.scrubs.last.borrow_mut() = Some((view, world.now()));
                match report.is_whole {
                    true => Ok(0),
                    false => Err(ControlError::ScrubEnded(running.name.clone())),
                }
            });
            running.scrubs.job.set(None);
            drop(running);
            jobs.end(job, world.now(), outcome.map_err(Failure::from));
        }));
        self.job(job)
    }

    /// Ends the scrub of an open pool, if one is at work: it writes nothing more when this is answered.
    ///
    /// # Errors
    /// As [`Pools::scrub_pool`].
    pub async fn stop_scrub(&self, pool: &str) -> Result<Vec<Finding>, ControlError> {
        let running = self.running(pool)?;
        let Some(job) = running.scrubs.job.get() else {
            let text = format!("pool {pool} is not being scrubbed");
            return Ok(vec![Finding::new(Severity::Warning, "no-scrub", text)]);
        };
        running.scrubs.is_unwanted.set(true);
        drop(running);
        self.wait_job(job, u64::MAX).await?;
        Ok(Vec::new())
    }
}
