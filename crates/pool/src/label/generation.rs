//! The version of a member table.

use core::fmt;

/// Version of the member table, in the order of proposal: the epoch that wrote it in the upper 32
/// bits, its number within that epoch in the lower 32.
///
/// An epoch is used by one session only (it is claimed on a quorum first, see
/// [`crate::label::Membership::start`]), so two different tables never carry one generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TableGeneration(u64);

impl TableGeneration {
    /// Before every table.
    pub const ZERO: Self = Self(0);

    /// Number `count` of epoch `epoch`.
    #[must_use]
    pub const fn new(epoch: u32, count: u32) -> Self {
        Self(((epoch as u64) << 32) | count as u64)
    }

    /// The generation stored as these bits; every value is one.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The stored bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The epoch whose session wrote the table.
    #[must_use]
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The next generation of the same epoch.
    ///
    /// # Panics
    /// After 2^32 - 1 membership changes in one epoch.
    #[must_use]
    pub const fn next(self) -> Self {
        assert!(
            self.0 as u32 != u32::MAX,
            "generations of one epoch used up"
        );
        Self(self.0 + 1)
    }
}

impl fmt::Display for TableGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}.{}", self.epoch(), self.0 as u32)
    }
}
