//! What the map keeps per slice.

use super::head::LeafHead;
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

impl Slice {
    /// A change of the record `lsn` was applied.
    pub(super) fn note_applied(&mut self, lsn: Lsn) {
        self.applied = lsn.max(self.applied);
    }

    /// The record `lsn` added to a leaf's chain.
    pub(super) fn note_change(&mut self, leaf: u32, head: &mut LeafHead, lsn: Lsn) {
        if !head.changed {
            head.changed = true;
            self.changed.push(leaf);
        }
        self.oldest = Some(self.oldest.map_or(lsn, |oldest| oldest.min(lsn)));
    }
}
