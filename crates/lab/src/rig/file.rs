//! A job file of fio as a load in time.
//!
//! Jobs that run side by side are tenants, each with an equal part of the addresses, which is its
//! disk. What a rig cannot do as the file says is refused with the job's line.
//!
//! **Not here**: what the file looks like (`fio`), when requests begin and end (`round`).

use super::error::RigError;
use super::worker::{Source, Starts, Worker};
use crate::fio::{Amount, Area, AreaError, Arrivals, Job, Plan, Stream};
use std::fmt;
use std::rc::Rc;
use varve_units::{BLOCK_BYTES, Nanos};

/// Jobs side by side: as many tenants as a rig has.
const JOBS_MAX: usize = 64;
/// Requests in flight of a group at most.
const DEPTH_MAX: u64 = 1 << 16;
/// Bytes of a request at most.
const BYTES_MAX: u64 = 1 << 20;

/// The jobs of a file, that a rig can run.
#[derive(Clone, PartialEq, Debug)]
pub struct JobFile {
    name: String,
    /// Jobs side by side, group after group.
    groups: Vec<Vec<Job>>,
}

/// Why a job file is no load in time. Lines are those at which sections begin, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JobFileError {
    /// An option of a job has a value that is none here.
    Option {
        /// Where.
        line: u32,
        /// Of which job.
        job: String,
        /// Which.
        option: &'static str,
        /// What it could be.
        expected: &'static str,
    },
    /// So many jobs run side by side.
    Jobs {
        /// Where the first one too many begins.
        line: u32,
        /// How many.
        jobs: usize,
    },
    /// So many requests in flight.
    Depth {
        /// Where the group begins.
        line: u32,
        /// How many.
        depth: u64,
    },
}

impl JobFileError {
    /// What would help.
    #[must_use]
    pub const fn next(&self) -> &'static str {
        match self {
            Self::Option { .. } => "correct the value, or remove the line",
            Self::Jobs { .. } => "give clones to one job (numjobs), or put stonewall between them",
            Self::Depth { .. } => "lower iodepth or numjobs",
        }
    }
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option {
                line,
                job,
                option,
                expected,
            } => write!(
                f,
                "line {line}: job `{job}`: in time `{option}` is {expected}"
            ),
            Self::Jobs { line, jobs } => write!(
                f,
                "line {line}: {jobs} jobs run side by side, each a tenant: at most {JOBS_MAX}"
            ),
            Self::Depth { line, depth } => write!(
                f,
                "line {line}: {depth} I/Os in flight of jobs side by side: at most {DEPTH_MAX}"
            ),
        }
    }
}

impl std::error::Error for JobFileError {}

impl JobFile {
    /// The jobs of a plan; `name` is the file's, for reports.
    ///
    /// # Errors
    /// If a rig cannot do what a job says.
    pub fn new(name: &str, plan: &Plan) -> Result<Self, JobFileError> {
        for group in plan.groups() {
            check_group(group)?;
        }
        Ok(Self {
            name: name.to_owned(),
            groups: plan.groups().map(<[Job]>::to_vec).collect(),
        })
    }

    /// What the file is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Jobs that run side by side, of the largest group.
    pub(super) fn tenants(&self) -> u32 {
        self.groups.iter().map(Vec::len).max().unwrap_or(1) as u32
    }

    /// Bytes of the smallest I/O.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.groups.iter().flatten().map(Job::block_bytes_min);
        bytes.min().unwrap_or(BLOCK_BYTES)
    }

    /// Jobs side by side, group after group.
    pub(super) fn groups(&self) -> &[Vec<Job>] {
        &self.groups
    }

    /// The clones of a group's jobs, on a system of so many bytes.
    ///
    /// # Errors
    /// If a clone's area does not fit.
    pub(super) fn workers(
        &self,
        group: &[Job],
        size: u64,
        (ranks, seed): (u32, u64),
    ) -> Result<Vec<Rc<Worker>>, RigError> {
        let disk = size / u64::from(self.tenants()) / BLOCK_BYTES * BLOCK_BYTES;
        let mut workers = Vec::new();
        for (at, job) in group.iter().enumerate() {
            let areas = (0..job.clones).map(|clone| job.area(clone, disk));
            let areas = areas.collect::<Result<Vec<Area>, AreaError>>();
            for (area, clone) in areas.map_err(RigError::Area)?.iter().zip(0..) {
                let stream = Stream::new(job, clone, area, ranks, seed);
                workers.push(Rc::new(Worker {
                    runtime: job.runtime_ns.map(Nanos),
                    ends_all: job.ends_all,
                    writes: job.has(false),
                    ..Worker::new(
                        (at, at as u64 * disk, job.depth),
                        Source::Stream(Box::new(stream)),
                        Arrivals::new(job, clone, seed).map(Starts::Arrivals),
                        job.bytes(area),
                    )
                }));
            }
        }
        Ok(workers)
    }
}

fn check_group(group: &[Job]) -> Result<(), JobFileError> {
    group.iter().try_for_each(check_job)?;
    if let Some(other) = group.iter().find(|job| job.ramp_ns != group[0].ramp_ns) {
        return Err(wrong(
            other,
            "ramp_time",
            "the same for all jobs that run side by side",
        ));
    }
    if group.len() > JOBS_MAX {
        let (line, jobs) = (group[JOBS_MAX].line, group.len());
        return Err(JobFileError::Jobs { line, jobs });
    }
    let depths = group
        .iter()
        .map(|job| u64::from(job.depth) * u64::from(job.clones));
    let depth = depths.sum();
    if depth > DEPTH_MAX {
        let line = group[0].line;
        return Err(JobFileError::Depth { line, depth });
    }
    Ok(())
}

fn check_job(job: &Job) -> Result<(), JobFileError> {
    let is_whole = |bytes: u64| bytes.is_multiple_of(BLOCK_BYTES);
    let fits = |is_read| {
        let bytes = job.block_bytes.of(is_read);
        !job.has(is_read) || (is_whole(bytes) && bytes <= BYTES_MAX)
    };
    if !fits(true) || !fits(false) {
        return Err(wrong(job, "bs", "a multiple of 4k, at most 1m"));
    }
    for (option, amount) in [
        ("offset", job.offset),
        ("offset_increment", job.offset_increment),
    ] {
        if let Amount::Bytes(bytes) = amount
            && !is_whole(bytes)
        {
            return Err(wrong(job, option, "a multiple of 4k"));
        }
    }
    Ok(())
}

fn wrong(job: &Job, option: &'static str, expected: &'static str) -> JobFileError {
    JobFileError::Option {
        line: job.line,
        job: job.name.clone(),
        option,
        expected,
    }
}
