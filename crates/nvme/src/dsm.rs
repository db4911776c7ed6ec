//! Dataset Management: its parameters and ranges.

use crate::sqe::Sqe;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Ranges of one command (spec: nvm 1.0 §3.2.3).
pub const RANGES_MAX: usize = 256;

/// A range, 16 bytes (spec: nvm 1.0 §3.2.3).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct DsmRange {
    /// Context attributes: hints.
    pub attributes: U32,
    /// Blocks; not minus one.
    pub nlb: U32,
    /// First block.
    pub slba: U64,
}

const _: () = assert!(size_of::<DsmRange>() == 16);

/// Parameters of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dsm {
    /// Number of ranges, 1 to 256.
    pub ranges: usize,
    /// AD: the ranges are to be deallocated.
    pub deallocate: bool,
}

impl Dsm {
    /// Reads the command.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self {
            ranges: (sqe.cdw(10) & 0xff) as usize + 1,
            deallocate: sqe.cdw(11) & 4 != 0,
        }
    }

    /// Writes the parameters.
    ///
    /// # Panics
    /// For 0 or more than 256 ranges.
    pub fn fill(self, sqe: &mut Sqe) {
        assert!((1..=RANGES_MAX).contains(&self.ranges), "{self:?}");
        sqe.set_cdw(10, self.ranges as u32 - 1);
        sqe.set_cdw(11, u32::from(self.deallocate) << 2);
    }
}
