//! Work on one chain: append, find, prune, deduplicate.

use super::pool::{Chain, DeltaPool, Slot};
use super::{Dead, Map, report};
use alloc::vec::Vec;
use varve_format::{Delta, LEAF_ENTRIES};
use varve_units::{Lsn, Ppa};

/// Deltas looked at for one to replace, if the image is cached: about four nodes.
const SCAN_CACHED: usize = 12;
/// A chain is deduplicated in full whenever its length reaches a multiple of this, so that the
/// cost per change stays bounded although the scan above misses what is older.
const COMPACT_EACH: u16 = 32;

/// A set of entries of a leaf.
#[derive(Clone, Copy, Default)]
pub(super) struct IndexSet([u64; LEAF_ENTRIES / 64]);

impl IndexSet {
    pub(super) const fn has(&self, index: u16) -> bool {
        self.0[index as usize / 64] >> (index % 64) & 1 == 1
    }

    pub(super) const fn add(&mut self, index: u16) {
        self.0[index as usize / 64] |= 1 << (index % 64);
    }
}

impl Map {
    /// True if the leaf is being merged: its chain stays out of the buckets.
    pub(super) fn is_held(&self, leaf: u32) -> bool {
        !self.merging.is_empty() && self.merging.contains_key(&leaf)
    }

    /// The newest delta that touches `index`, among the `within` newest ones.
    pub(super) fn newest(&self, leaf: u32, index: u16, within: usize) -> Option<(Slot, Delta)> {
        let chain = self.leaves.head(leaf).chain;
        let mut deltas = self.pool.newest_first(chain).take(within);
        deltas.find(|(_, delta)| delta.touches(index))
    }

    /// Appends a delta.
    pub(super) fn push(&mut self, leaf: u32, delta: Delta, lsn: Lsn) {
        let held = self.is_held(leaf);
        let mut chain = self.leaves.head(leaf).chain;
        self.pool.push(leaf, &mut chain, delta, held);
        self.leaves.head_mut(leaf).chain = chain;
        let slice = self.leaves.slice(leaf);
        let slice = self.slice_mut(slice);
        slice.oldest = Some(slice.oldest.map_or(lsn, |oldest| oldest.min(lsn)));
        self.touch(leaf);
    }

    /// Enters a put whose predecessor has been dealt with: in the place of an older put or move
    /// of the index that no discard follows, or at the end.
    pub(super) fn enter(&mut self, leaf: u32, delta: Delta, lsn: Lsn) {
        let cached = self.leaves.head(leaf).image().is_some();
        let within = if cached { SCAN_CACHED } else { usize::MAX };
        match self.newest(leaf, delta.index(), within) {
            Some((slot, old)) if !old.is_discard() => {
                self.pool.set(slot, delta);
                self.touch(leaf);
            }
            _ => {
                self.push(leaf, delta, lsn);
                let len = self.leaves.head(leaf).chain.len;
                if cached && len > COMPACT_EACH && len.is_multiple_of(COMPACT_EACH) {
                    self.compact(leaf);
                }
            }
        }
    }

    /// The chain's deltas, oldest first, in a buffer to be handed back with [`Map::rewrite`].
    pub(super) fn unroll(&mut self, leaf: u32) -> Vec<Delta> {
        let mut deltas = core::mem::take(&mut self.scratch);
        let chain = self.leaves.head(leaf).chain;
        deltas.extend(self.pool.newest_first(chain).map(|(_, delta)| delta));
        deltas.reverse();
        deltas
    }

    /// Makes `deltas`, oldest first, the chain.
    pub(super) fn rewrite(&mut self, leaf: u32, mut deltas: Vec<Delta>) {
        let held = self.is_held(leaf);
        let mut chain = self.leaves.head(leaf).chain;
        self.pool.replace(leaf, &mut chain, &deltas, held);
        self.leaves.head_mut(leaf).chain = chain;
        deltas.clear();
        self.scratch = deltas;
    }

    /// Drops deltas for which `gone` holds; reports their places if `dead` is given.
    pub(super) fn prune(
        &mut self,
        leaf: u32,
        mut dead: Option<&mut Vec<Dead>>,
        gone: impl Fn(Delta, Lsn) -> bool,
    ) {
        let applied = self.slice(self.leaves.slice(leaf)).applied;
        let mut deltas = self.unroll(leaf);
        let before = deltas.len();
        deltas.retain(|&delta| {
            let lsn = delta
                .lsn_within(applied)
                .expect("no delta is younger than its slice");
            let gone = gone(delta, lsn);
            if let (true, Some(dead)) = (gone, dead.as_deref_mut()) {
                report(dead, delta.ppa(), lsn);
            }
            !gone
        });
        if deltas.len() == before {
            deltas.clear();
            self.scratch = deltas;
        } else {
            self.rewrite(leaf, deltas);
        }
    }

    /// Drops deltas that younger ones supersede. Their places were reported: the image is cached.
    pub(super) fn compact(&mut self, leaf: u32) {
        assert!(
            self.leaves.head(leaf).image().is_some(),
            "superseded places were reported"
        );
        let mut deltas = self.unroll(leaf);
        drop_superseded(&mut deltas);
        self.rewrite(leaf, deltas);
    }
}

/// Keeps, of deltas oldest first, those that still decide something.
///
/// # Panics
/// If one is a conditional move.
pub(super) fn drop_superseded(deltas: &mut Vec<Delta>) {
    let mut decided = IndexSet::default();
    deltas.reverse();
    deltas.retain(|delta| {
        assert!(!delta.is_move(), "all moves have been judged");
        let decides = (delta.index()..delta.end()).any(|index| !decided.has(index));
        (delta.index()..delta.end()).for_each(|index| decided.add(index));
        decides
    });
    deltas.reverse();
}

/// True if a move from `old` applies to an entry at `found`.
pub(super) fn is_met(found: Ppa, old: Ppa) -> bool {
    found == old && old.is_place()
}

/// Nodes that one more delta takes from the pool.
pub(super) fn need(chain: Chain) -> usize {
    DeltaPool::need(chain, 1)
}
