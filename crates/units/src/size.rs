//! Sizes: the 4 KiB block, the 512 B sector, the leaf.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Bytes of one block, the mapping unit.
pub const BLOCK: usize = 4096;
/// [`BLOCK`] as a 64-bit number of bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// Bytes of one sector, the unit in which places on the fast tier are counted.
pub const SECTOR: usize = 512;
/// [`SECTOR`] as a 64-bit number of bytes.
pub const SECTOR_BYTES: u64 = 512;
/// Entries of one leaf of the map: 512 blocks, 2 MiB of a volume.
pub const LEAF_BLOCKS: u64 = 512;

/// A number of 4 KiB blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Blocks(pub u64);

impl Blocks {
    /// No blocks.
    pub const ZERO: Self = Self(0);

    /// The same size in bytes.
    ///
    /// # Panics
    /// If it does not fit 64 bits.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
            .checked_mul(BLOCK_BYTES)
            .expect("block count fits 64 bits in bytes")
    }

    /// Whole blocks in `bytes`, rounded down.
    #[must_use]
    pub const fn in_bytes(bytes: u64) -> Self {
        Self(bytes / BLOCK_BYTES)
    }
}

impl Add for Blocks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("block count overflows"))
    }
}

impl AddAssign for Blocks {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Blocks {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("block count below zero"))
    }
}

impl SubAssign for Blocks {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks", self.0)
    }
}
