//! A failure as front ends pass it on: what failed, why, what to do next.

use crate::error::ControlError;
use crate::finding::Finding;
use serde::{Deserialize, Serialize};
use std::error::Error as _;
use varve_hostio::Signal;

/// How a command ended, as its exit code tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// It failed.
    Failed = 1,
    /// It was asked for something that makes no sense.
    Usage = 2,
    /// What it was to act on does not exist.
    NotFound = 3,
    /// It cannot be done here and now; nothing was changed.
    Refused = 4,
    /// Someone else uses it, or it exists already.
    Conflict = 5,
    /// What was looked at is not as it should be.
    Degraded = 6,
    /// What it began goes on without it.
    StillRunning = 7,
    /// SIGHUP ended it.
    HungUp = 129,
    /// SIGINT, Ctrl-C, ended it.
    Interrupted = 130,
    /// SIGTERM ended it.
    Terminated = 143,
}

impl From<Signal> for Exit {
    /// As shells tell it: 128 and the signal's number.
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::HangUp => Self::HungUp,
            Signal::Interrupt => Self::Interrupted,
            Signal::Terminate => Self::Terminated,
        }
    }
}

impl Exit {
    /// The word for it, as documents have it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::Degraded => "degraded",
            Self::StillRunning => "still-running",
            Self::HungUp => "hung-up",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }
}

/// What failed, why, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its class.
    pub exit: Exit,
    /// What failed, for programs: stable.
    pub code: String,
    /// What failed, for people.
    pub error: String,
    /// Why, from the outside in.
    pub causes: Vec<String>,
    /// What was found in the way.
    pub findings: Vec<Finding>,
    /// What to do next.
    pub next: Option<String>,
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Self {
            exit: error.exit(),
            code: error.code().to_owned(),
            error: error.to_string(),
            causes,
            next: Some(error.next()),
            findings: error.into_findings(),
        }
    }
}
