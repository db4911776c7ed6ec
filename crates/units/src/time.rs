//! Time in nanoseconds, virtual or real.

use core::fmt;
use core::ops::{Add, Sub};

/// A point in time or a span, in nanoseconds; the origin is the clock's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// `count` microseconds.
    #[must_use]
    pub const fn from_micros(count: u64) -> Self {
        Self(count * 1_000)
    }

    /// `count` milliseconds.
    #[must_use]
    pub const fn from_millis(count: u64) -> Self {
        Self(count * 1_000_000)
    }

    /// `count` seconds.
    #[must_use]
    pub const fn from_secs(count: u64) -> Self {
        Self(count * 1_000_000_000)
    }

    /// The span since `earlier`, zero if that lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("time before its origin"))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}
