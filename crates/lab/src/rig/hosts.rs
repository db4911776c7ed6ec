//! What hosts do, as numbers or as a job file.

use super::file::JobFile;
use super::mix::{Law, Mix};
use crate::fio::Order;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// What hosts do.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Hosts {
    /// Jobs that are all alike.
    Mix(Mix),
    /// The jobs of a file of fio.
    #[serde(serialize_with = "name")]
    Fio(Arc<JobFile>),
}

impl Hosts {
    /// Tenants: each has an equal part of the addresses.
    #[must_use]
    pub fn tenants(&self) -> u32 {
        match self {
            Self::Mix(mix) => mix.jobs,
            Self::Fio(file) => file.tenants(),
        }
    }

    /// Bytes of the smallest request.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Mix(mix) => mix.bytes,
            Self::Fio(file) => file.bytes(),
        }
    }

    /// True if some places are hotter than others.
    pub(super) fn is_skewed(&self) -> bool {
        match self {
            Self::Mix(mix) => matches!(mix.law, Law::Zipf(_)),
            Self::Fio(file) => {
                let mut jobs = file.groups().iter().flatten();
                jobs.any(|job| matches!(job.order, Order::Zipf { .. }))
            }
        }
    }

    /// In a few words.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Mix(mix) => format!(
                "{} jobs of {} requests, {} KiB, {} % reads, {}, {}",
                mix.jobs,
                mix.depth,
                mix.bytes >> 10,
                mix.reads_per_cent,
                mix.law,
                mix.pace
            ),
            Self::Fio(file) => format!("jobs of {}", file.name()),
        }
    }
}

fn name<S: Serializer>(file: &Arc<JobFile>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(file.name())
}
