//! A modelled drive of any kind.

use crate::drive::{DriveError, Measure};
use crate::rig::ZonePort;
use crate::zoned::ZonedLoad;
use varve_media::timed::{DiskDrive, InPlaceDrive, Request, Timed};
use varve_media::{AnySheet, Counters, Shape, Ssd};
use varve_units::Nanos;

/// A modelled drive of any kind, in time.
pub(crate) enum Model {
    Flash(Box<Timed>),
    InPlace(Box<InPlaceDrive>),
    Disk(Box<DiskDrive>),
    Zoned(Box<ZonedLoad>),
    /// Zones that a storage system writes.
    Zones(Box<ZonePort>),
}

/// What of a drive is written in order: runs of so many bytes, each so far from the next.
pub(crate) struct Runs {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) apart: u64,
}

impl Model {
    /// A drive with the times of a sheet; if it is flash behind a page map, in the state of `ssd`.
    ///
    /// # Panics
    /// If such flash comes without a state, or the drive is zoned: hosts of zones have other commands.
    pub(crate) fn of(sheet: &AnySheet, ssd: Option<Box<Ssd>>) -> Self {
        match sheet {
            AnySheet::Flash(sheet) => {
                let ssd = ssd.expect("flash has a state");
                Self::Flash(Box::new(Timed::new(*ssd, sheet)))
            }
            AnySheet::InPlace(sheet) => Self::InPlace(Box::new(InPlaceDrive::new(sheet))),
            AnySheet::Disk(sheet) => Self::Disk(Box::new(DiskDrive::new(sheet))),
            AnySheet::Zoned(_) => unreachable!("zones take other commands"),
        }
    }

    /// The smallest drive that has the times of the sheet, a zoned one at its real size; if it is
    /// flash behind a page map, after `age` was done to it without time. A zoned one is full.
    ///
    /// # Errors
    /// If the sheet describes no possible drive.
    pub(crate) fn aged(
        sheet: &AnySheet,
        what: &Measure,
        age: impl FnOnce(&mut Ssd),
    ) -> Result<Self, DriveError> {
        let ssd = match sheet {
            AnySheet::Flash(sheet) => {
                let shape = Shape::scaled(sheet, Shape::smallest(sheet));
                let mut ssd = Ssd::new(shape.map_err(DriveError::Shape)?);
                age(&mut ssd);
                Some(Box::new(ssd))
            }
            AnySheet::InPlace(_) | AnySheet::Disk(_) => None,
            AnySheet::Zoned(sheet) => {
                let load = ZonedLoad::new(sheet, what.job.is_append());
                let load = load.map_err(DriveError::ZoneShape)?;
                return Ok(Self::Zoned(Box::new(load)));
            }
        };
        Ok(Self::of(sheet, ssd))
    }

    /// What of that drive can be written.
    ///
    /// # Errors
    /// If the sheet describes no possible drive.
    pub(crate) fn runs(sheet: &AnySheet) -> Result<Runs, DriveError> {
        let one = |bytes| Runs {
            count: 1,
            bytes,
            apart: bytes,
        };
        match sheet {
            AnySheet::Flash(sheet) => {
                let shape = Shape::scaled(sheet, Shape::smallest(sheet));
                shape
                    .map(|shape| one(shape.bytes))
                    .map_err(DriveError::Shape)
            }
            AnySheet::InPlace(_) | AnySheet::Disk(_) => Ok(one(sheet.capacity().user_bytes.value)),
            AnySheet::Zoned(sheet) => {
                let shape = ZonedLoad::shape(sheet).map_err(DriveError::ZoneShape)?;
                Ok(Runs {
                    count: shape.zones.into(),
                    bytes: shape.capacity_bytes,
                    apart: shape.zone_bytes,
                })
            }
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        match self {
            Self::Flash(drive) => drive.ssd().counters(),
            Self::InPlace(drive) => drive.counters(),
            Self::Disk(drive) => drive.counters(),
            Self::Zoned(load) => load.drive.counters(),
            Self::Zones(port) => port.counters(),
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        match self {
            Self::Flash(drive) => drive.next(),
            Self::InPlace(drive) => drive.next(),
            Self::Disk(drive) => drive.next(),
            Self::Zoned(load) => load.next(),
            Self::Zones(port) => port.next(),
        }
    }

    pub(crate) fn submit(&mut self, now: Nanos, request: Request) {
        match self {
            Self::Flash(drive) => drive.submit(now, request),
            Self::InPlace(drive) => drive.submit(now, request),
            Self::Disk(drive) => drive.submit(now, request),
            Self::Zoned(load) => load.submit(now, request),
            Self::Zones(port) => port.submit(now, request),
        }
    }

    pub(crate) fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u64, Nanos)) {
        match self {
            Self::Flash(drive) => drive.advance(now, done),
            Self::InPlace(drive) => drive.advance(now, done),
            Self::Disk(drive) => drive.advance(now, done),
            Self::Zoned(load) => load.advance(now, done),
            Self::Zones(port) => port.advance(now, done),
        }
    }
}
