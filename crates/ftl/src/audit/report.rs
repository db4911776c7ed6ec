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

/// How far a part of an audit is, which take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuditStep {
    /// What is read.
    pub of: &'static str,
    /// How much of it was.
    pub done: u64,
    /// How much there is.
    pub all: u64,
}

/// What is told while an audit reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditNews {
    /// This copy is bad.
    Bad(BadCopy),
    /// So far it is.
    Step(AuditStep),
}

/// Is told of each bad copy, and how far the audit is.
pub(super) type Found<'a> = dyn FnMut(AuditNews) + 'a;

/// Tells how far a part is, if somebody listens.
pub(super) fn tell(found: &mut Option<&mut Found<'_>>, of: &'static str, done: usize, all: usize) {
    if let Some(found) = found {
        let (done, all) = (done as u64, all as u64);
        found(AuditNews::Step(AuditStep { of, done, all }));
    }
}

impl AuditReport {
    /// Blocks that copy 0 did not serve.
    #[must_use]
    pub fn served_by_another(&self) -> u64 {
        self.served.iter().skip(1).sum()
    }
}
