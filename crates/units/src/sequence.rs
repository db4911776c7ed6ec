//! Log sequence numbers.

use core::fmt;

/// Log sequence number of a record: 56 bits, new for every record, moves included.
///
/// Within a lane LSNs follow the order of the log. Across lanes they are a Lamport clock: whoever
/// learns of an LSN continues above it, so «happened before» implies «smaller».
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before every record.
    pub const ZERO: Self = Self(0);
    /// Largest value: 56 bits, so that a birth fits 7 bytes.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The LSN `count` records later.
    ///
    /// # Panics
    /// Beyond 56 bits: 2^56 records are 2,000 years at a million a second.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        let sum = self.0 + count;
        assert!(sum <= Self::MAX.0, "LSN beyond 56 bits");
        Self(sum)
    }

    /// The next LSN.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lsn {}", self.0)
    }
}
