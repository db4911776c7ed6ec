//! Why the engine failed an operation.

use core::fmt;
use varve_io::{IoError, ReactorId};
use varve_units::{Lba, VolumeId};

/// Why a host operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// No volume of this id.
    NoSuchVolume(VolumeId),
    /// The range ends beyond the volume.
    OutOfRange {
        /// First block asked for.
        lba: Lba,
        /// Blocks asked for.
        blocks: u64,
        /// Blocks of the volume.
        size: u64,
    },
    /// The pool has no room for new blocks; blocks that are mapped can still be overwritten.
    CapacityExceeded,
    /// The content of this block is lost: no copy of it passes its check.
    Lost(VolumeId, Lba),
    /// The dense tier has not answered for a while, and what is asked for has no room in the log: of a write or a
    /// deallocation, of which some may have been done. The same may succeed later.
    DenseAway,
    /// A drive failed in a way that redundancy did not absorb. `NoSpace` of a write or a deallocation:
    /// there is no room beneath the dense tier; some of it may have been done.
    Io(IoError),
    /// The engine stopped; the pool must be opened again.
    Stopped,
    /// Whoever asked for it is gone; it was not done, or of several leaves only some.
    Recalled,
    /// A reactor offers the pool no seats.
    NotSeated(ReactorId),
    /// The name is taken.
    NameTaken,
    /// A volume must have at least one block and at most 2^40.
    BadSize(u64),
    /// The name is empty, too long or has other characters than `A-Z a-z 0-9 . _ -`.
    BadName,
    /// Volumes of a pool are limited.
    TooManyVolumes,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchVolume(volume) => write!(f, "there is no {volume}"),
            Self::OutOfRange { lba, blocks, size } => {
                write!(
                    f,
                    "{blocks} blocks at {lba} end beyond the volume's {size} blocks"
                )
            }
            Self::CapacityExceeded => f.write_str("the pool has no room for new blocks"),
            Self::Lost(volume, lba) => {
                write!(
                    f,
                    "the content of {volume} {lba} is lost: no copy passes its check"
                )
            }
            Self::DenseAway => {
                f.write_str("the dense tier does not answer, and the fast tier is full")
            }
            Self::Io(error) => write!(f, "i/o failed: {error}"),
            Self::Stopped => f.write_str("the engine has stopped"),
            Self::Recalled => f.write_str("nobody waits for it any more"),
            Self::NotSeated(reactor) => {
                write!(f, "reactor {} offers the pool no seats", reactor.0)
            }
            Self::NameTaken => f.write_str("a volume of this name exists"),
            Self::BadSize(blocks) => {
                write!(f, "a volume has 1 to 2^40 blocks, {blocks} is not possible")
            }
            Self::BadName => {
                f.write_str("a name is 1 to 48 characters of A-Z a-z 0-9 . _ - and not empty")
            }
            Self::TooManyVolumes => f.write_str("the pool has as many volumes as it can"),
        }
    }
}

impl core::error::Error for EngineError {}

impl From<IoError> for EngineError {
    fn from(error: IoError) -> Self {
        Self::Io(error)
    }
}

/// Why the engine stopped by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// The log cannot be written any more.
    Log(IoError),
    /// A flush of the fast tier failed: what was acknowledged may not be durable.
    Flush(IoError),
    /// Another owner has taken its drives over.
    Fenced,
    /// Closed by its owner.
    Closed,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => write!(f, "the log cannot be written: {error}"),
            Self::Flush(error) => write!(f, "the fast tier cannot be flushed: {error}"),
            Self::Fenced => f.write_str("another owner has taken its drives over"),
            Self::Closed => f.write_str("it was closed"),
        }
    }
}
