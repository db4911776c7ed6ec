//! How requests of a mix follow one another.

use serde::Serialize;
use std::fmt;

/// How many requests a second an open loop has, of all jobs.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// So many.
    Iops(u64),
    /// This share, per cent, of what a closed loop did just before on the same system.
    PerCent(u32),
}

/// Requests that come in bursts, which are those of all jobs at once, with silence between them.
///
/// Lengths of bursts and of silences are exponential, and independent of one another and of what happens.
/// In a burst requests come as a Poisson process.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Bursts {
    /// On average, silences included.
    pub rate: Rate,
    /// How many times the average in a burst; so one of so many seconds lies in a burst.
    pub factor: u32,
    /// Requests of a burst, on average.
    pub requests: u64,
}

/// How requests follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// A closed loop: each request that ends is followed by another at once.
    Closed,
    /// An open loop whose requests come in bursts.
    Bursts(Bursts),
    /// An open loop: each job a Poisson process. No more than its depth is in flight; who waits for that
    /// began when it was meant to.
    #[serde(untagged)]
    Open(Rate),
}

impl Pace {
    /// Of an open loop.
    #[must_use]
    pub const fn rate(self) -> Option<Rate> {
        match self {
            Self::Closed => None,
            Self::Open(rate) => Some(rate),
            Self::Bursts(bursts) => Some(bursts.rate),
        }
    }

    /// Of a loop that has them.
    #[must_use]
    pub const fn bursts(self) -> Option<Bursts> {
        match self {
            Self::Bursts(bursts) => Some(bursts),
            Self::Closed | Self::Open(_) => None,
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iops(rate) => write!(f, "open loop of {rate} a second"),
            Self::PerCent(share) => write!(f, "open loop at {share} % of the closed one"),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed loop"),
            Self::Open(rate) => rate.fmt(f),
            Self::Bursts(bursts) => write!(
                f,
                "{} in bursts of {} times that, {} requests each on average",
                bursts.rate, bursts.factor, bursts.requests
            ),
        }
    }
}
