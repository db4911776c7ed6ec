//! Why a drive failed a command.

use core::fmt;

/// An I/O error: ordinary life, handled by redundancy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IoError {
    /// This range cannot be read or written; others can.
    Media,
    /// The drive does not answer any more. It may do so another time.
    Gone,
    /// The drive of this way to read was given up for good: nothing is ever read by it again. Arrays alone say so, of
    /// reads.
    GivenUp,
    /// The drive answers too late to be waited for.
    Timeout,
    /// The space beneath a sparse drive is used up.
    NoSpace,
    /// The drive refuses writes.
    ReadOnly,
}

impl IoError {
    /// True if there is no drive to ask, for now or for good.
    #[must_use]
    pub const fn is_absence(self) -> bool {
        matches!(self, Self::Gone | Self::GivenUp)
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Media => "media error",
            Self::Gone => "drive gone",
            Self::GivenUp => "drive given up",
            Self::Timeout => "drive timed out",
            Self::NoSpace => "no space beneath the drive",
            Self::ReadOnly => "drive is read-only",
        })
    }
}

impl core::error::Error for IoError {}
