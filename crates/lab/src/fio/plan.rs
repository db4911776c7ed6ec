//! What a job file asks for.

use super::draft::Draft;
use super::error::FioError;
use super::ignored::Ignored;
use super::job::Job;
use super::option::apply;
use super::section::{Section, Setting, sections};
use std::str::FromStr;

/// Jobs of a file at most, clones included.
///
/// # Source
/// fio's HOWTO, `--max-jobs`: what it keeps room for, if nothing is said.
const JOBS_MAX: u64 = 4096;

/// A job file, read.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Jobs in their order, at least one.
    pub jobs: Vec<Job>,
    /// Options that the file has and that change nothing, each once, in the order of the file.
    pub ignored: Vec<Ignored>,
}

impl Plan {
    /// Jobs that run side by side; each group begins when the one before has ended (`stonewall`).
    pub fn groups(&self) -> impl Iterator<Item = &[Job]> {
        self.jobs.chunk_by(|_, next| !next.is_behind_wall)
    }

    fn read<'a>(
        &mut self,
        draft: &mut Draft,
        settings: impl IntoIterator<Item = &'a Setting<'a>>,
    ) -> Result<(), FioError> {
        for setting in settings {
            if let Some(ignored) = apply(draft, setting)?
                && !self.ignored.contains(&ignored)
            {
                self.ignored.push(ignored);
            }
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = FioError;

    /// Reads a job file.
    ///
    /// # Errors
    /// The first thing in it that makes no sense or is not modelled.
    fn from_str(text: &str) -> Result<Self, FioError> {
        let mut plan = Self {
            jobs: Vec::new(),
            ignored: Vec::new(),
        };
        let mut global = Draft::default();
        let mut clones = 0;
        for section in sections(text)? {
            let Section { name, settings, .. } = &section;
            if *name == "global" {
                plan.read(&mut global, settings)?;
                continue;
            }
            let mut draft = global.clone();
            plan.read(&mut draft, settings)?;
            let job = draft.job(&section, plan.jobs.len() as u32)?;
            clones += u64::from(job.clones);
            plan.jobs.push(job);
        }
        if plan.jobs.is_empty() {
            return Err(FioError::Empty);
        }
        if clones > JOBS_MAX {
            let (jobs, max) = (clones, JOBS_MAX);
            return Err(FioError::Jobs { jobs, max });
        }
        Ok(plan)
    }
}
