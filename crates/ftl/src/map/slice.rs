//! What the map keeps per slice.

use alloc::vec::Vec;
use varve_units::Lsn;

/// State of a slice.
#[derive(Debug, Default)]
pub(super) struct Slice {
    /// Newest record applied.
    pub(super) applied: Lsn,
    /// The last cut, written or loaded.
    pub(super) cut: Lsn,
    /// Lower bound of the LSNs in its chains, if they hold any.
    pub(super) oldest: Option<Lsn>,
    /// Leaves changed since the last cut, each once.
    pub(super) changed: Vec<u32>,
}
