//! A modelled drive of any kind.

use varve_media::timed::{DiskDrive, InPlaceDrive, Request, Timed};
use varve_media::{AnySheet, Counters, Shape, ShapeError, Ssd};
use varve_units::Nanos;

/// A modelled drive of any kind, in time.
pub(crate) enum Model {
    Flash(Box<Timed>),
    InPlace(Box<InPlaceDrive>),
    Disk(Box<DiskDrive>),
}

impl Model {
    /// A drive with the times of a sheet; if it is flash, in the state of `ssd`.
    ///
    /// # Panics
    /// If flash comes without a state.
    pub(crate) fn of(sheet: &AnySheet, ssd: Option<Box<Ssd>>) -> Self {
        match sheet {
            AnySheet::Flash(sheet) => {
                let ssd = ssd.expect("flash has a state");
                Self::Flash(Box::new(Timed::new(*ssd, sheet)))
            }
            AnySheet::InPlace(sheet) => Self::InPlace(Box::new(InPlaceDrive::new(sheet))),
            AnySheet::Disk(sheet) => Self::Disk(Box::new(DiskDrive::new(sheet))),
        }
    }

    /// The smallest drive that has the times of the sheet; if it is flash, after `age` was done to
    /// it without time.
    ///
    /// # Errors
    /// If the sheet describes no possible drive.
    pub(crate) fn aged(sheet: &AnySheet, age: impl FnOnce(&mut Ssd)) -> Result<Self, ShapeError> {
        let ssd = match sheet {
            AnySheet::Flash(sheet) => {
                let mut ssd = Ssd::new(Shape::scaled(sheet, Shape::smallest(sheet))?);
                age(&mut ssd);
                Some(Box::new(ssd))
            }
            AnySheet::InPlace(_) | AnySheet::Disk(_) => None,
        };
        Ok(Self::of(sheet, ssd))
    }

    /// Bytes of that drive.
    ///
    /// # Errors
    /// If the sheet describes no possible drive.
    pub(crate) fn bytes(sheet: &AnySheet) -> Result<u64, ShapeError> {
        match sheet {
            AnySheet::Flash(sheet) => {
                Shape::scaled(sheet, Shape::smallest(sheet)).map(|shape| shape.bytes)
            }
            AnySheet::InPlace(_) | AnySheet::Disk(_) => Ok(sheet.capacity().user_bytes.value),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        match self {
            Self::Flash(drive) => drive.ssd().counters(),
            Self::InPlace(drive) => drive.counters(),
            Self::Disk(drive) => drive.counters(),
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        match self {
            Self::Flash(drive) => drive.next(),
            Self::InPlace(drive) => drive.next(),
            Self::Disk(drive) => drive.next(),
        }
    }

    pub(crate) fn submit(&mut self, now: Nanos, request: Request) {
        match self {
            Self::Flash(drive) => drive.submit(now, request),
            Self::InPlace(drive) => drive.submit(now, request),
            Self::Disk(drive) => drive.submit(now, request),
        }
    }

    pub(crate) fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u64, Nanos)) {
        match self {
            Self::Flash(drive) => drive.advance(now, done),
            Self::InPlace(drive) => drive.advance(now, done),
            Self::Disk(drive) => drive.advance(now, done),
        }
    }
}
