//! What an audit counted, and the bad copies it tells of.

use crate::geometry::Tier;
use alloc::vec::Vec;

/// What an audit that found nothing wrong has counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditReport {
    /// Leaves of present volumes.
    pub leaves: u64,
    /// Blocks of present volumes that have a place.
    pub mapped: u64,
    /// Mapped blocks on the fast tier.
    pub fast: u64,
    /// Mapped blocks on the dense tier.
    pub dense: u64,
    /// Blocks declared lost.
    pub lost: u64,
    /// Blocks that each copy served: copy 0 first.
    pub served: Vec<u64>,
    /// Blocks that moved or were overwritten before they could be read.
    pub moved: u64,
    /// Live bits without a mapped block.
    pub phantoms: u64,
    /// Stripes whose P2L was compared.
    pub stripes: u64,
    /// Stripes whose P2L nobody can tell while a drive is away.
    pub stripes_away: u64,
    /// Parts of the newest commit that were read.
    pub parts: u64,
    /// The upper bound of mapped blocks that admission goes by.
    pub used_upper: u64,
    /// Deltas in chains. With 0 of them and no volume being deleted, `used_upper` is `mapped` if
    /// the bound is exact.
    pub deltas: u64,
}

/// A copy of a block, leaf or part that does not pass its check or cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadCopy {
    /// The array it was read from.
    pub tier: Tier,
    /// Byte of that array.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Which way it was read.
    pub copy: u8,
}

/// Is told of each bad copy.
pub(super) type Found<'a> = dyn FnMut(BadCopy) + 'a;

impl AuditReport {
    /// Blocks that copy 0 did not serve.
    #[must_use]
    pub fn served_by_another(&self) -> u64 {
        self.served.iter().skip(1).sum()
    }
}
