//! Why a drive failed a command.

use core::fmt;

/// An I/O error: ordinary life, handled by redundancy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IoError {
    /// This range cannot be read or written; others can.
    Media,
    /// The drive does not answer any more.
    Gone,
    /// The drive answers too late to be waited for.
    Timeout,
    /// The space beneath a sparse drive is used up.
    NoSpace,
    /// The drive refuses writes.
    ReadOnly,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Media => "media error",
            Self::Gone => "drive gone",
            Self::Timeout => "drive timed out",
            Self::NoSpace => "no space beneath the drive",
            Self::ReadOnly => "drive is read-only",
        })
    }
}

impl core::error::Error for IoError {}
