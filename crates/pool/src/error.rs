//! Why a pool cannot be made, started or stopped.

use crate::label::{CommitError, CreateError, ImportError};
use crate::options::PlanError;
use crate::rebuild::FastNeeds;
use crate::replace::Slot;
use core::fmt;
use varve_array::{AssembleError, GeometryError, RestoreError};
use varve_ftl::{EngineError, RebuildError, RecoverError, StopReason};
use varve_io::IoError;

/// Why a pool cannot be made, started or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The drives or options do not make a pool.
    Plan(PlanError),
    /// The name is empty, too long or has other characters than `A-Z a-z 0-9 . _ -`.
    BadName,
    /// The drives could not be labelled.
    Create(CreateError),
    /// No drive has a label.
    NoPool,
    /// The pool's creation was cut short: it holds nothing yet, and may be created again.
    Unfinished,
    /// The drives belong to more than one pool.
    SeveralPools,
    /// The pool cannot be imported.
    Import(ImportError),
    /// The labels have no quorum.
    Labels(CommitError),
    /// The arrays cannot be assembled.
    Assemble(AssembleError),
    /// The dense tier's geometry is impossible.
    Geometry(GeometryError),
    /// More dense drives are away than the tier can do without; nothing was changed.
    DenseMissing {
        /// How many are away or not whole.
        away: usize,
    },
    /// The pool has no such slot.
    NoSlot(Slot),
    /// The slot's drive is in use: it must be given up first.
    SlotInUse(Slot),
    /// The drive that was lost from the slot comes back while commands that it had are still under way
    /// there; what they write would fall on what it is filled with.
    StillBusy(Slot),
    /// The slot's drive is needed: the others do not hold everything.
    Needed(Slot),
    /// The new drive does not answer.
    Drive(IoError),
    /// Old content could not be copied to the new drive.
    Restore(RestoreError),
    /// The engine could not recover.
    Recover(RecoverError),
    /// The engine failed.
    Engine(EngineError),
    /// The pool can be started: there is nothing to be rebuilt.
    MapWhole {
        /// Only if a loss is accepted.
        with_loss: bool,
    },
    /// The pool has no dense tier: its map cannot be rebuilt from anything.
    NoDenseTier,
    /// Another number of fast drives than the pool had.
    FastCount {
        /// Drives it had.
        wanted: usize,
        /// Drives given.
        given: usize,
    },
    /// A fast drive is too small, or its sectors are too large.
    FastUnfit {
        /// Number of the drive in the caller's order.
        drive: usize,
        /// What is needed.
        needs: FastNeeds,
    },
    /// The member table has no room for new fast drives.
    TooManyMembers,
    /// The map could not be rebuilt. Nothing was written to the dense drives.
    Rebuild(RebuildError),
    /// The map is rebuilt, but a label could not be written.
    Relabel(IoError),
    /// A scrub of the pool is under way.
    Scrubbing,
    /// The pool had stopped by itself before: this is why. Opening it again recovers it.
    Stopped(StopReason),
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan(_) => "these drives and options do not make a pool",
            Self::BadName => "a pool's name is 1 to 48 characters of A-Z a-z 0-9 . _ -",
            Self::Create(_) => "the drives could not be labelled",
            Self::NoPool => "no drive has the label of a pool",
            Self::Unfinished => {
                "the pool's creation was cut short: create it again with the same drives"
            }
            Self::SeveralPools => "the drives belong to several pools: say which one",
            Self::Import(_) => "the pool cannot be imported",
            Self::Labels(_) => "the labels could not be committed",
            Self::Assemble(_) => "the arrays cannot be assembled",
            Self::Geometry(_) => "the dense tier's geometry is impossible",
            Self::DenseMissing { away } => {
                return write!(
                    f,
                    "{away} dense drive{} away, more than redundancy allows",
                    if *away == 1 { " is" } else { "s are" }
                );
            }
            Self::NoSlot(slot) => return write!(f, "the pool has no {slot}"),
            Self::SlotInUse(slot) => {
                return write!(f, "{slot} is in use, its drive must be given up first");
            }
            Self::StillBusy(slot) => {
                return write!(
                    f,
                    "the drive that was lost from {slot} has not ended all that it was sent before"
                );
            }
            Self::Needed(slot) => {
                return write!(f, "the drive in {slot} holds what no other drive does");
            }
            Self::Drive(_) => "the new drive cannot be read",
            Self::Restore(_) => "old content could not be copied to the new drive",
            Self::Recover(_) => "the pool could not be recovered",
            Self::Engine(_) => "the engine failed",
            Self::MapWhole { with_loss: false } => {
                "the pool can be opened: its map is there, and nothing has to be rebuilt"
            }
            Self::MapWhole { with_loss: true } => {
                "the pool can be opened if a loss is accepted, which is less than a rebuild loses"
            }
            Self::NoDenseTier => "the pool has no dense tier that its map could be rebuilt from",
            Self::FastCount { wanted, given } => {
                return write!(f, "the pool had {wanted} fast drives, {given} are given");
            }
            Self::FastUnfit { drive, needs } => {
                return write!(
                    f,
                    "fast drive {drive} of those given does not fit: it takes {} bytes, and sectors of {} at most",
                    needs.least_bytes, needs.lba_bytes
                );
            }
            Self::TooManyMembers => "the member table has no room for new fast drives",
            Self::Rebuild(_) => "the map could not be rebuilt",
            Self::Relabel(_) => "the map is rebuilt, but a label could not be written",
            Self::Scrubbing => "a scrub of the pool is under way already",
            Self::Stopped(why) => return write!(f, "it has stopped: {why}"),
        })
    }
}

impl core::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Plan(error) => Some(error),
            Self::Create(error) => Some(error),
            Self::Import(error) => Some(error),
            Self::Labels(error) => Some(error),
            Self::Assemble(error) => Some(error),
            Self::Geometry(error) => Some(error),
            Self::Recover(error) => Some(error),
            Self::Engine(error) => Some(error),
            Self::Drive(error) | Self::Relabel(error) => Some(error),
            Self::Restore(error) => Some(error),
            Self::Rebuild(error) => Some(error),
            Self::MapWhole { .. }
            | Self::NoDenseTier
            | Self::FastCount { .. }
            | Self::FastUnfit { .. }
            | Self::TooManyMembers
            | Self::BadName
            | Self::Scrubbing
            | Self::NoPool
            | Self::Unfinished
            | Self::SeveralPools
            | Self::DenseMissing { .. }
            | Self::NoSlot(_)
            | Self::SlotInUse(_)
            | Self::StillBusy(_)
            | Self::Needed(_)
            | Self::Stopped(_) => None,
        }
    }
}

macro_rules! from {
    ($($error:ident => $variant:ident),*) => {
        $(impl From<$error> for PoolError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    PlanError => Plan, CreateError => Create, ImportError => Import, CommitError => Labels,
    AssembleError => Assemble, GeometryError => Geometry, RecoverError => Recover,
    EngineError => Engine, RestoreError => Restore, RebuildError => Rebuild
}
