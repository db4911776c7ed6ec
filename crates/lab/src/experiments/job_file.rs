//! Job files of `workloads/` as loads of experiments.

use crate::fio::Plan;
use crate::rig::{Hosts, JobFile};
use std::sync::Arc;

/// A job file that goes into the program.
pub(super) struct Embedded {
    /// Where it lies, for reports.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

impl Embedded {
    /// Its jobs.
    ///
    /// # Panics
    /// If it is none, or a rig cannot do it: every experiment's jobs are asked for by tests.
    pub(super) fn hosts(&self) -> Hosts {
        let plan: Plan = self
            .text
            .parse()
            .expect("it is tested that the file is one");
        let file = JobFile::new(self.name, &plan);
        Hosts::Fio(Arc::new(file.expect("it is tested that a rig can do it")))
    }
}
