//! Why nothing was measured.

use super::request::SystemName;
use super::system::SystemError;
use crate::fio::AreaError;
use std::collections::BTreeMap;
use std::fmt;
use varve_media::{ShapeError, ZoneShapeError};

/// Why a zoned drive cannot be where it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ZonedError {
    /// Below a system that does not write zones.
    System {
        /// The drive.
        drive: &'static str,
        /// The system.
        system: SystemName,
    },
    /// As the fast drive.
    Fast(&'static str),
    /// The system writes more zones at once than may be active.
    Active {
        /// The drive.
        drive: &'static str,
        /// Zones that the system writes at once.
        open: u32,
        /// Zones that may be active.
        active_max: u32,
    },
}

impl fmt::Display for ZonedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System {
                drive,
                system: SystemName::CsalToday,
            } => write!(
                f,
                "{drive} takes writes at the write pointers of its zones only: SPDK's FTL refuses such drives, \
                 and so does csal-today; csal-paper writes zones"
            ),
            Self::System { drive, system } => write!(
                f,
                "{drive} takes writes at the write pointers of its zones only, and {system} writes anywhere"
            ),
            Self::Fast(drive) => write!(
                f,
                "{drive} takes writes at the write pointers of its zones only, and the fast drive is written anywhere"
            ),
            Self::Active {
                drive,
                open,
                active_max,
            } => write!(
                f,
                "{open} zones would be written at once, by tenant and writer, and {active_max} of {drive} may be active"
            ),
        }
    }
}

impl std::error::Error for ZonedError {}

impl ZonedError {
    /// What would help.
    #[must_use]
    pub const fn next(&self) -> &'static str {
        match self {
            Self::System { .. } | Self::Fast(_) => "name another drive",
            Self::Active { .. } => "give fewer --jobs, or name another drive",
        }
    }
}

/// Why nothing was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum RigError {
    /// A drive's sheet describes no possible drive of that size.
    Drive(ShapeError),
    /// A zoned drive's sheet describes no possible drive of that size.
    ZoneShape(ZoneShapeError),
    /// The engine makes no pool of that.
    Pool(String),
    /// Requests have from 4 KiB to 1 MiB, of arrays 4 MiB, in blocks.
    Bytes {
        /// Asked for.
        bytes: u64,
        /// The most.
        max: u64,
    },
    /// A job of the file does not fit.
    Area(AreaError),
    /// A zoned drive where it cannot be.
    Zoned(ZonedError),
    /// A disk below a system that keeps account of every block.
    Disk {
        /// The disk.
        drive: &'static str,
        /// The system.
        system: SystemName,
    },
    /// Jobs, depth, or shares beyond their limits.
    Limits(&'static str),
    /// The system cannot have so many dense drives.
    Drives {
        /// The system.
        system: SystemName,
        /// Fewest and most it can have, as it is to be protected.
        possible: (u32, u32),
    },
    /// Only the engine's tier is protected on demand.
    Protect(SystemName),
    /// The engine failed.
    Engine(SystemError),
    /// The run came to a halt, with how things stood then.
    Stopped(&'static str, BTreeMap<&'static str, u64>),
}

impl fmt::Display for RigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drive(error) => error.fmt(f),
            Self::Pool(error) => f.write_str(error),
            Self::Bytes { bytes, max } => write!(
                f,
                "requests of {bytes} bytes: 4096 to {max}, multiples of 4096"
            ),
            Self::Area(error) => error.fmt(f),
            Self::ZoneShape(error) => error.fmt(f),
            Self::Zoned(error) => error.fmt(f),
            Self::Disk { drive, system } => write!(
                f,
                "{drive} as the dense drive of {system}: what a disk does depends on how far its head goes, so it \
                 is modelled at its whole size, and {system} keeps account of every block of it"
            ),
            Self::Limits(what) => f.write_str(what),
            Self::Drives {
                system,
                possible: (1, 1),
            } => write!(f, "{system} has one dense drive"),
            Self::Drives {
                system,
                possible: (least, most),
            } => write!(f, "{system} has from {least} to {most} dense drives"),
            Self::Protect(system) => write!(f, "{system} is protected as it is"),
            Self::Engine(error) => error.fmt(f),
            Self::Stopped(why, gauges) => {
                write!(f, "the run came to a halt: {why}")?;
                if gauges.is_empty() {
                    Ok(())
                } else {
                    write!(f, ": {gauges:?}")
                }
            }
        }
    }
}

impl std::error::Error for RigError {}
