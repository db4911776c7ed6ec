//! Why a map could not be rebuilt.

use crate::error::EngineError;
use core::fmt;
use varve_io::IoError;

/// Why a map could not be rebuilt. Nothing on the dense tier was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RebuildError {
    /// The dense tier does not answer.
    Dense(IoError),
    /// The fast tier cannot be written.
    Fast(IoError),
    /// More leaves were found than the map of such a fast tier may have.
    TooManyLeaves {
        /// Leaves it may have.
        most: u64,
    },
    /// Blocks that were freed have come back, and with them there are more than garbage collection needs room beside.
    NoRoom {
        /// Blocks found.
        mapped: u64,
        /// Blocks beside which it has room.
        most: u64,
    },
    /// Too few groups are free, and what the emptiest ones hold does not fit the log.
    NoGroups {
        /// Groups that are free.
        free: u64,
        /// Groups that have to be.
        needed: u64,
    },
    /// The engine stopped.
    Engine(EngineError),
}

impl fmt::Display for RebuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dense(error) => write!(f, "the dense tier cannot be read: {error}"),
            Self::Fast(error) => write!(f, "the new fast tier cannot be written: {error}"),
            Self::TooManyLeaves { most } => write!(
                f,
                "blocks of more than {most} leaves were found, which is all that the map of such a fast tier may have"
            ),
            Self::NoRoom { mapped, most } => write!(
                f,
                "{mapped} blocks were found, freed ones among them, and garbage collection has room beside {most}"
            ),
            Self::NoGroups { free, needed } => write!(
                f,
                "{free} groups are free of {needed} that have to be, and what the emptiest hold does not fit the log"
            ),
            Self::Engine(error) => {
                write!(f, "the engine stopped while the map was rebuilt: {error}")
            }
        }
    }
}

impl core::error::Error for RebuildError {}

impl From<EngineError> for RebuildError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}
