//! What can be run, as plain data.

use super::outcome::Ran;
use crate::comparators::{Stated, of_plan, of_policy, of_system};
use crate::drive::{DriveError, DriveReport, Measure, measure};
use crate::memory::Memory;
use crate::plan::{Plan, PlanError, PlanRequest};
use crate::recovery::{self, Fill, LabError, Request, Watch};
use crate::rig::{self, RigError, RigReport, RigRequest};
use crate::waf::{PolicyName, WafError, WafReport, WafRequest, check, run};
use std::fmt;
use std::rc::Rc;
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
    /// The engine's start after the loss of power at the worst instant.
    Start {
        /// Exported bytes of the full pool.
        capacity: u64,
        /// Limit of its memory in bytes, if not the default.
        dram: Option<u64>,
        /// The run is at 1/`scale`, a power of two.
        scale: u64,
        /// Seed of the places.
        seed: u64,
    },
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
    /// Of a start.
    Start(Box<Start>),
}

/// What is found of a start, and of the overwrites before it, that does not depend on the machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Start {
    /// Bytes read from the fast tier, of the full pool.
    pub(super) read_bytes: u64,
    /// Memory of the full pool.
    pub(super) memory: Memory,
    /// Bytes written to the fast tier for each byte of a host.
    pub(super) fast_per_host: f64,
    /// What the engine went by.
    pub(super) stated: Vec<Stated>,
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
    /// No pool of that size and scale.
    Plan(PlanError),
    /// The engine's start.
    Start(LabError),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waf(error) => error.fmt(f),
            Self::Drive(error) => error.fmt(f),
            Self::Rig(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
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
            Self::Start(_)
                | Self::Waf(WafError::Engine(_))
                | Self::Rig(RigError::Engine(_) | RigError::Stopped(..))
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
            Self::Start {
                capacity,
                dram,
                scale,
                ..
            } => start_plan(*capacity, *dram, *scale).map(|_| ()),
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
            Self::Start {
                capacity,
                dram,
                scale,
                seed,
            } => start(start_plan(*capacity, *dram, *scale)?, *seed, watch),
        }
    }

    /// What is compared in it, by name, and what that goes by as far as it is known before it runs. `None` of a drive alone,
    /// whose sheet has its sources.
    ///
    /// # Errors
    /// If it makes no sense at this scale.
    pub fn stated(&self) -> Result<Option<(&'static str, Vec<Stated>)>, JobError> {
        Ok(match self {
            Self::Waf(request) => Some((request.policy.name(), of_policy(request))),
            Self::Rig(request) => Some((request.system.name(), of_system(request))),
            Self::Start {
                capacity,
                dram,
                scale,
                ..
            } => {
                let plan = start_plan(*capacity, *dram, *scale)?;
                Some((PolicyName::Varve.name(), of_plan(&plan)))
            }
            Self::Drive { .. } => None,
        })
    }

    /// How long it takes, roughly, in microseconds of one core: for progress, and for what is begun first.
    #[must_use]
    pub fn weight(&self) -> u64 {
        match self {
            Self::Waf(request) => request.weight(),
            // Ageing a drive takes some seconds.
            Self::Drive { .. } => 10_000_000,
            Self::Rig(request) => request.weight(),
            // 12.5 s for 60 GB.
            Self::Start {
                capacity, scale, ..
            } => capacity / scale / 5_000,
        }
    }
}

/// Shares of the pool of a start: what `varve lab recovery` has if nobody says otherwise.
fn start_plan(capacity: u64, dram: Option<u64>, scale: u64) -> Result<Plan, JobError> {
    let request = PlanRequest {
        capacity,
        dram,
        scale,
        over_provision: 20,
        fast_per_cent: 3,
    };
    Plan::new(&request).map_err(JobError::Plan)
}

fn start(plan: Plan, seed: u64, watch: &Watch) -> Result<Finding, JobError> {
    let request = Request {
        seed,
        depth: 64,
        fill: Fill::Past,
        overwrites: 0.0,
        turns: 0,
        // Nothing that is asked of the report depends on it.
        bandwidth: 6_000_000_000,
    };
    let report = recovery::experiment(&plan, &request, Rc::clone(watch));
    let report = report.map_err(JobError::Start)?;
    Ok(Finding::Start(Box::new(Start {
        read_bytes: report.start_read_bytes(),
        memory: report.full_memory(),
        fast_per_host: report.fast_per_host(),
        stated: of_plan(&plan),
    })))
}

impl Finding {
    /// What was run, where that is more than the job's name tells.
    pub(super) fn parameters(&self) -> Option<Ran> {
        match self {
            Self::Waf(report) => Some(Ran::Waf(Box::new(report.parameters.alone()))),
            Self::Rig(report) => Some(Ran::Rig(Box::new(report.parameters.alone()))),
            Self::Drive(_) | Self::Start(_) => None,
        }
    }

    /// What a comparator, or the engine, went by, and its name.
    pub(super) fn stated(&self) -> Option<(&'static str, &[Stated])> {
        match self {
            Self::Waf(report) => {
                let parameters = &report.parameters;
                Some((parameters.policy().name(), &parameters.stated))
            }
            Self::Rig(report) => {
                let parameters = &report.parameters;
                Some((parameters.request.system.name(), &parameters.stated))
            }
            Self::Start(start) => Some((PolicyName::Varve.name(), &start.stated)),
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
            Self::Drive(_) | Self::Rig(_) | Self::Start(_) => {
                panic!("the finding is not of a placement policy")
            }
        }
    }

    /// What a drive did.
    ///
    /// # Panics
    /// If the job was another.
    pub(super) fn drive(&self) -> &DriveReport {
        match self {
            Self::Drive(report) => report,
            Self::Waf(_) | Self::Rig(_) | Self::Start(_) => {
                panic!("the finding is not of a drive")
            }
        }
    }

    /// What a storage system did.
    ///
    /// # Panics
    /// If the job was another.
    pub(super) fn rig(&self) -> &RigReport {
        match self {
            Self::Rig(report) => report,
            Self::Waf(_) | Self::Drive(_) | Self::Start(_) => {
                panic!("the finding is not of a storage system")
            }
        }
    }

    /// What is found of a start.
    ///
    /// # Panics
    /// If the job was another.
    pub(super) fn start(&self) -> &Start {
        match self {
            Self::Start(start) => start,
            Self::Waf(_) | Self::Drive(_) | Self::Rig(_) => {
                panic!("the finding is not of a start")
            }
        }
    }
}
