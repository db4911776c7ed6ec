//! The writes of a job file as a load of placement.
//!
//! Each job that writes is a tenant with an equal share of the volume, which is its disk.
//!
//! **Not here**: what the file looks like (`fio`), which block is next (`fio_source`); time, so rates,
//! durations and amounts.

use crate::fio::{Area, AreaError, Job, Plan};
use std::fmt;
use varve_units::BLOCK_BYTES;

/// Tenants at most. Chosen: each may have a unit open in a tier that has few to spare.
const TENANTS_MAX: usize = 8;

/// The writes of a job file.
#[derive(Clone, PartialEq, Debug)]
pub struct FioLoad {
    name: String,
    jobs: Vec<Job>,
    notes: Vec<String>,
}

/// Why a job file is no load of placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FioLoadError {
    /// No job writes.
    NoWrites,
    /// So many groups of jobs write, one after the other.
    Groups(usize),
    /// So many jobs write.
    Tenants(usize),
}

impl FioLoadError {
    /// What would help.
    #[must_use]
    pub const fn next(&self) -> &'static str {
        match self {
            Self::NoWrites => "give a file with jobs that write",
            Self::Groups(_) => "keep the jobs of one group, or remove stonewall",
            Self::Tenants(_) => "keep eight of them, or give clones to one (numjobs)",
        }
    }
}

impl fmt::Display for FioLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWrites => f.write_str("no job writes, and placement is about writes"),
            Self::Groups(groups) => write!(
                f,
                "{groups} groups of jobs write one after the other (stonewall), and a load is one of them"
            ),
            Self::Tenants(jobs) => {
                write!(f, "{jobs} jobs write, each a tenant: at most {TENANTS_MAX}")
            }
        }
    }
}

impl std::error::Error for FioLoadError {}

impl FioLoad {
    /// The writes of a plan; `name` is the file's, for reports.
    ///
    /// # Errors
    /// If the plan has no such load.
    pub fn new(name: &str, plan: &Plan) -> Result<Self, FioLoadError> {
        let writes = |group: &&[Job]| group.iter().any(|job| job.has(false));
        let groups: Vec<&[Job]> = plan.groups().filter(writes).collect();
        let group = match groups[..] {
            [] => return Err(FioLoadError::NoWrites),
            [group] => group,
            _ => return Err(FioLoadError::Groups(groups.len())),
        };
        let jobs: Vec<Job> = group.iter().filter(|job| job.has(false)).cloned().collect();
        if jobs.len() > TENANTS_MAX {
            return Err(FioLoadError::Tenants(jobs.len()));
        }
        Ok(Self {
            name: name.to_owned(),
            notes: notes(plan, &jobs),
            jobs,
        })
    }

    /// Tenants: jobs that write.
    pub(super) const fn tenants(&self) -> usize {
        self.jobs.len()
    }

    /// The jobs that write.
    pub(super) fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// What of the file the load leaves out, in sentences.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Looks whether the jobs fit into a volume of so many blocks.
    ///
    /// # Errors
    /// The first one that does not.
    pub(super) fn check(&self, blocks: u64) -> Result<(), AreaError> {
        self.jobs
            .iter()
            .try_for_each(|job| self.areas(job, blocks).map(drop))
    }

    /// Where the clones of a job work, from the start of its tenant's blocks.
    ///
    /// # Errors
    /// If one does not fit.
    pub(super) fn areas(&self, job: &Job, blocks: u64) -> Result<Vec<Area>, AreaError> {
        let disk = blocks / self.jobs.len() as u64 * BLOCK_BYTES;
        (0..job.clones).map(|clone| job.area(clone, disk)).collect()
    }
}

impl fmt::Display for FioLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fio:{}", self.name)
    }
}

fn notes(plan: &Plan, writing: &[Job]) -> Vec<String> {
    let named = |has: &dyn Fn(&Job) -> bool, jobs: &[Job]| {
        let names = jobs.iter().filter(|job| has(job)).map(|job| &job.name[..]);
        names.collect::<Vec<_>>().join(", ")
    };
    let says = |names: String, what: &str| (!names.is_empty()).then(|| format!("{what}: {names}"));
    let ends = |job: &Job| job.runtime_ns.is_some() || job.io_size.is_some() || job.ends_all;
    [
        says(
            named(&|job| job.has(true), &plan.jobs),
            "reads are left out, of jobs",
        ),
        says(
            named(&|job| job.rate.is_some(), writing),
            "rates are left out, since there is no time; of jobs",
        ),
        says(
            named(&ends, writing),
            "all jobs write as long as the run lasts, whatever ends them in the file; jobs",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
