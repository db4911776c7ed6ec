//! The whole of a pool against itself: map, P2L and checksums of every copy.

use crate::create::busy;
use crate::error::ControlError;
use crate::losses::{self, Loss, Losses};
use crate::pools::Pools;
use crate::running::Running;
use crate::status::drive_name;
use crate::steps::{CheckStep, Steps};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use varve_io::Flow;
use varve_pool::{Defects, SlotState, SlotStatus};

/// A drive of which copies do not pass their check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BadDrive {
    /// Its place, `dense1` say.
    pub drive: String,
    /// Where it is.
    pub path: Option<PathBuf>,
    /// Blocks, pieces of the map and blocks of parity that it holds wrong.
    pub copies: u64,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CheckView {
    /// The pool.
    pub pool: String,
    /// True if all agrees.
    pub agrees: bool,
    /// The first thing found that no copy can mend. What is counted behind it is 0.
    pub broken: Option<String>,
    /// Copies of blocks and of the map that do not pass their check; another copy does.
    pub bad_copies: u64,
    /// The drives that hold them. Those of no drive are of stripes that do not add up, where it cannot be told
    /// which drive is wrong.
    #[serde(default)]
    pub bad_drives: Vec<BadDrive>,
    /// Blocks that cannot be read, by volume: the first hundred ranges of them. Of a leaf that no copy
    /// holds these are all its blocks, those included that hold nothing.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Ranges of such blocks.
    #[serde(default)]
    pub loss_ranges: u64,
    /// Blocks in all these ranges.
    #[serde(default)]
    pub unreadable_blocks: u64,
    /// True if not every block was looked at, so that others may be lost too.
    #[serde(default)]
    pub is_partial: bool,
    /// Blocks whose content was declared lost before.
    pub lost_blocks: u64,
    /// Ranges of the log that were lost before the last start.
    pub damaged_ranges: u64,
    /// Drives that do not hold all they should.
    pub drives_away: u64,
    /// Leaves of the map that were read.
    pub leaves: u64,
    /// Mapped blocks that were read.
    pub mapped_blocks: u64,
    /// Of these, on the fast tier.
    pub fast_blocks: u64,
    /// Of these, on the dense tier.
    pub dense_blocks: u64,
    /// Stripes whose P2L was compared.
    pub stripes: u64,
    /// Stripes whose P2L nobody can tell while a drive is away: of groups that a start went on with.
    #[serde(default)]
    pub stripes_away: u64,
    /// Parts that were read: of the newest checkpoint, and of those before it that hold the rest of the state.
    pub parts: u64,
    /// Records of the log that were redone to open the pool; after a clean close those of its last
    /// checkpoint, and what cleaner and garbage collection appended beside it.
    pub redone_records: u64,
    /// Of these, what hosts asked for: none after a clean close.
    #[serde(default)]
    pub redone_of_hosts: u64,
}

pub(crate) fn drives_away(running: &Running) -> u64 {
    let slots = running.pool.slots();
    let is_away = |slot: &&SlotStatus| slot.state != SlotState::Live;
    slots.iter().filter(is_away).count() as u64
}

impl Pools {
    /// Checks an open pool while no host uses it: every mapped block is read by every copy.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool. That something disagrees is no error here.
    pub fn check_pool<'a>(&'a self, pool: &'a str) -> Flow<'a, Result<CheckView, ControlError>> {
        self.check_watched(pool, &|_| ())
    }

    /// [`Pools::check_pool`], which tells once a second how far it is.
    ///
    /// # Errors
    /// As [`Pools::check_pool`].
    pub fn check_watched<'a>(
        &'a self,
        pool: &'a str,
        watch: &'a dyn Fn(&CheckStep),
    ) -> Flow<'a, Result<CheckView, ControlError>> {
        Box::pin(async move {
            let running = self.running(pool)?;
            busy(&running)?;
            let recovery = running.pool.recovery();
            let mut view = CheckView {
                pool: pool.to_owned(),
                damaged_ranges: recovery.damage.len() as u64,
                redone_records: recovery.records,
                redone_of_hosts: recovery.of_hosts,
                ..CheckView::default()
            };
            let mut losses = Losses::default();
            let now = || self.world.now();
            let steps = Steps::new(&now, pool, watch);
            let note = |step| steps.note(step);
            let (outcome, defects) = running.pool.audit_watched(&note).await;
            view.bad_copies = defects.sum();
            view.bad_drives = bad_drives(&running, &defects);
            match outcome {
                Err(error) => {
                    view.broken = Some(losses::told(&error, &running));
                    losses = Losses::after(&error, &*self.world, &running).await;
                }
                Ok(report) => {
                    if report.lost > 0 {
                        losses = Losses::find(&*self.world, &running).await;
                    }
                    view.lost_blocks = report.lost;
                    view.leaves = report.leaves;
                    view.mapped_blocks = report.mapped;
                    view.fast_blocks = report.fast;
                    view.dense_blocks = report.dense;
                    view.stripes = report.stripes;
                    view.stripes_away = report.stripes_away;
                    view.parts = report.parts;
                }
            }
            // Asked behind the audit, which finds out that drives do not answer.
            view.drives_away = drives_away(&running);
            view.losses = losses.named;
            view.loss_ranges = losses.ranges;
            view.unreadable_blocks = losses.blocks;
            view.is_partial = losses.is_partial;
            view.agrees = view.broken.is_none()
                && (view.bad_copies, view.lost_blocks) == (0, 0)
                && (view.damaged_ranges, view.drives_away, view.stripes_away) == (0, 0, 0);
            Ok(view)
        })
    }

    /// True if an open pool has dense drives.
    ///
    /// # Errors
    /// [`ControlError::NoPool`].
    pub fn has_dense_tier(&self, pool: &str) -> Result<bool, ControlError> {
        Ok(self.running(pool)?.pool.geometry().groups > 0)
    }

    /// Counters of an open pool since it was opened.
    ///
    /// # Errors
    /// [`ControlError::NoPool`].
    pub fn counters(&self, pool: &str) -> Result<BTreeMap<&'static str, u64>, ControlError> {
        Ok(self.running(pool)?.pool.counters())
    }
}

fn bad_drives(running: &Running, defects: &Defects) -> Vec<BadDrive> {
    let bad = |status: SlotStatus| {
        let copies = *defects.drives.get(&status.slot)?;
        let path = running.paths.borrow().get(&status.member?).cloned();
        let drive = drive_name(status.slot.role, status.slot.number);
        Some(BadDrive {
            drive,
            path,
            copies,
        })
    };
    running.pool.slots().into_iter().filter_map(bad).collect()
}
