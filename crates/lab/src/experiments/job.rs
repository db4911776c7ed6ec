//! What can be run, as plain data.

use super::outcome::Ran;
use crate::drive::{DriveError, DriveReport, Measure, measure};
use crate::recovery::Watch;
use crate::rig::{self, RigError, RigReport, RigRequest};
use crate::waf::{WafError, WafReport, WafRequest, check, run};
use std::fmt;
use varve_media::AnySheet;

/// Something to run.
#[derive(Clone, PartialEq, Debug)]
pub enum Job {
    /// A placement policy under a load.
    Waf(WafRequest),
    /// A modelled drive alone.
    Drive {
        /// Its name.
        model: &'static str,
        /// What is done to it.
        what: Measure,
    },
    /// A storage system on modelled drives.
    Rig(RigRequest),
}

/// What a job found.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// Of a placement policy.
    Waf(Box<WafReport>),
    /// Of a drive.
    Drive(Box<DriveReport>),
    /// Of a storage system.
    Rig(Box<RigReport>),
}

/// Why a job found nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum JobError {
    /// A placement policy.
    Waf(WafError),
    /// A drive.
    Drive(DriveError),
    /// A storage system.
    Rig(RigError),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waf(error) => error.fmt(f),
            Self::Drive(error) => error.fmt(f),
            Self::Rig(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JobError {}

impl JobError {
    /// True if the engine failed; else what was asked for makes no sense.
    #[must_use]
    pub const fn is_of_engine(&self) -> bool {
        matches!(
            self,
            Self::Waf(WafError::Engine(_)) | Self::Rig(RigError::Engine(_) | RigError::Stopped(_))
        )
    }
}

impl Job {
    /// Looks whether it makes sense, without running it.
    ///
    /// # Errors
    /// If it does not, at this scale.
    pub fn check(&self) -> Result<(), JobError> {
        match self {
            Self::Waf(request) => check(request).map_err(JobError::Waf),
            Self::Drive { .. } => Ok(()),
            Self::Rig(request) => rig::check(request).map_err(JobError::Rig),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// If it makes no sense at this scale, or the engine fails.
    ///
    /// # Panics
    /// If an experiment names a drive that there is not.
    pub fn run(&self, watch: &Watch) -> Result<Finding, JobError> {
        match self {
            Self::Waf(request) => {
                let report = run(request, watch).map_err(JobError::Waf)?;
                Ok(Finding::Waf(Box::new(report)))
            }
            Self::Drive { model, what } => {
                let sheet = AnySheet::named(model).expect("experiments name drives that there are");
                let report = measure(&sheet, what, watch).map_err(JobError::Drive)?;
                Ok(Finding::Drive(Box::new(report)))
            }
            Self::Rig(request) => {
                let report = rig::run(request, watch).map_err(JobError::Rig)?;
                Ok(Finding::Rig(Box::new(report)))
            }
        }
    }

    /// How long it takes, in parts that are only comparable to one another: for progress.
    #[must_use]
    pub fn weight(&self) -> u64 {
        match self {
            Self::Waf(request) => request.weight(),
            // Ageing a drive takes some seconds.
            Self::Drive { .. } => 10_000_000,
            Self::Rig(request) => request.weight(),
        }
    }
}

impl Finding {
    /// What was run, where that is more than the job's name tells.
    pub(super) fn parameters(&self) -> Option<Ran> {
        match self {
            Self::Waf(report) => Some(Ran::Waf(Box::new(report.parameters.clone()))),
            Self::Rig(report) => Some(Ran::Rig(Box::new(report.parameters.clone()))),
            Self::Drive(_) => None,
        }
    }

    /// What a placement policy found.
    ///
    /// # Panics
    /// If the job was another.
    pub(super) fn waf(&self) -> &WafReport {
        match self {
            Self::Waf(report) => report,
            Self::Drive(_) | Self::Rig(_) => panic!("the finding is not of a placement policy"),
        }
    }

    /// What a drive did.
    ///
    /// # Panics
    /// If the job was another.
    pub(super) fn drive(&self) -> &DriveReport {
        match self {
            Self::Drive(report) => report,
            Self::Waf(_) | Self::Rig(_) => panic!("the finding is not of a drive"),
        }
    }

    /// What a storage system did.
    ///
    /// # Panics
    /// If the job was another.
    pub(super) fn rig(&self) -> &RigReport {
        match self {
            Self::Rig(report) => report,
            Self::Waf(_) | Self::Drive(_) => panic!("the finding is not of a storage system"),
        }
    }
}
