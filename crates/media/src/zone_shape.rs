//! The shape of a zoned drive, in counts.

use crate::zoned_sheet::ZonedSheet;
use core::fmt;
use varve_units::BLOCK_BYTES;

/// The shape of a zoned drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneShape {
    /// Zones.
    pub zones: u32,
    /// From the start of a zone to the start of the next, in bytes.
    pub zone_bytes: u64,
    /// What of a zone can be written, in bytes: a multiple of `row_bytes`.
    pub capacity_bytes: u64,
    /// What is programmed at once, in bytes, a multiple of 4096; less than that waits in the buffer.
    pub row_bytes: u64,
    /// Zones that may be open at once.
    pub open_max: u32,
    /// Zones that may be open or closed at once.
    pub active_max: u32,
}

/// Why a shape is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ZoneShapeError {
    /// What is programmed at once is nothing, or is not made of blocks of 4 KiB.
    Row(u64),
    /// The capacity of a zone is nothing, more than its size, or not made of what is programmed at
    /// once.
    Capacity(u64),
    /// At least one zone may be open, no more than may be active, and no more than there are.
    Limits {
        /// Zones.
        zones: u32,
        /// Those that may be open.
        open_max: u32,
        /// Those that may be active.
        active_max: u32,
    },
    /// The buffer does not hold a row of every zone that may be active.
    Buffer {
        /// Smallest possible buffer, in bytes.
        bytes_min: u64,
    },
    /// More blocks than 32 bits can name.
    TooLarge,
}

impl fmt::Display for ZoneShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(bytes) => write!(f, "{bytes} bytes programmed at once are no blocks of 4096"),
            Self::Capacity(bytes) => write!(
                f,
                "a zone's capacity of {bytes} bytes does not fit its size and what is programmed at once"
            ),
            Self::Limits {
                zones,
                open_max,
                active_max,
            } => write!(
                f,
                "of {zones} zones {open_max} may be open and {active_max} active"
            ),
            Self::Buffer { bytes_min } => {
                write!(
                    f,
                    "the buffer of such a drive has at least {bytes_min} bytes"
                )
            }
            Self::TooLarge => {
                f.write_str("a zoned drive has at most 2^32 - 1 blocks of 4096 bytes")
            }
        }
    }
}

impl core::error::Error for ZoneShapeError {}

impl ZoneShape {
    /// A drive on which about `bytes` can be written, with the zones, limits and ratios of a sheet.
    ///
    /// Zones grow and shrink with the drive; their number stays. A zone has a row in every die at
    /// least, and as many in each.
    ///
    /// # Errors
    /// If there is no such drive.
    pub fn scaled(sheet: &ZonedSheet, bytes: u64) -> Result<Self, ZoneShapeError> {
        let (zones, nand) = (&sheet.zones, &sheet.nand);
        let row_bytes = u64::from(nand.planes.value)
            * u64::from(nand.page_bytes.value)
            * u64::from(nand.pages_at_once.value);
        let rows = u64::from(nand.dies.value) * row_bytes;
        if rows == 0 {
            return Err(ZoneShapeError::Row(rows));
        }
        let real = zones.capacity_bytes.value;
        if real == 0 || real > zones.size_bytes.value {
            return Err(ZoneShapeError::Capacity(real));
        }
        let wanted = bytes / u64::from(zones.count.value.max(1));
        let capacity_bytes = ((wanted + rows / 2) / rows).max(1) * rows;
        let size = u128::from(capacity_bytes) * u128::from(zones.size_bytes.value);
        let blocks = (size / u128::from(real)).div_ceil(u128::from(BLOCK_BYTES));
        let blocks = u64::try_from(blocks).map_err(|_| ZoneShapeError::TooLarge)?;
        let shape = Self {
            zones: zones.count.value,
            zone_bytes: blocks * BLOCK_BYTES,
            capacity_bytes,
            row_bytes,
            open_max: zones.open_max.value,
            active_max: zones.active_max.value,
        };
        let bytes_min = u64::from(shape.active_max) * row_bytes;
        if sheet.controller.buffer_bytes.value < bytes_min {
            // With less, rows that wait for their rest could keep all of it for ever.
            return Err(ZoneShapeError::Buffer { bytes_min });
        }
        shape.check()
    }

    /// This shape, if such a drive can be.
    ///
    /// # Errors
    /// If not.
    pub fn check(self) -> Result<Self, ZoneShapeError> {
        if self.row_bytes == 0 || !self.row_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(ZoneShapeError::Row(self.row_bytes));
        }
        let is_whole = self.capacity_bytes.is_multiple_of(self.row_bytes);
        let fits = (1..=self.zone_bytes).contains(&self.capacity_bytes);
        if !is_whole || !fits || !self.zone_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(ZoneShapeError::Capacity(self.capacity_bytes));
        }
        let Self {
            zones,
            open_max,
            active_max,
            ..
        } = self;
        if open_max == 0 || open_max > active_max || active_max > zones {
            return Err(ZoneShapeError::Limits {
                zones,
                open_max,
                active_max,
            });
        }
        let blocks = u64::from(zones).checked_mul(self.zone_bytes / BLOCK_BYTES);
        let is_named = blocks.is_some_and(|blocks| blocks < u64::from(u32::MAX));
        is_named.then_some(self).ok_or(ZoneShapeError::TooLarge)
    }

    /// Bytes hosts can address, those that can never be written among them.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.zones as u64 * self.zone_bytes
    }

    /// Bytes hosts can write.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.zones as u64 * self.capacity_bytes
    }
}
