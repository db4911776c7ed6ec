//! Work on one chain: append, find, prune, deduplicate.

use super::directory::LeafMut;
use super::pool::{Chain, DeltaPool, Slot};
use super::{Dead, Map, report};
use alloc::vec::Vec;
use varve_format::{Delta, LEAF_ENTRIES};
use varve_units::{Lsn, Ppa};

/// A set of entries of a leaf.
#[derive(Clone, Copy, Default)]
pub(super) struct IndexSet([u64; LEAF_ENTRIES / 64]);

impl IndexSet {
    pub(super) const fn has(&self, index: u16) -> bool {
        self.0[index as usize / 64] >> (index % 64) & 1 == 1
    }

    /// Adds an entry; true if it was not in it.
    pub(super) const fn add(&mut self, index: u16) -> bool {
        let (word, bit) = (&mut self.0[index as usize / 64], 1 << (index % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Adds the entries from `first` up to `end`; true if one was not in it.
    fn add_run(&mut self, first: u16, end: u16) -> bool {
        let mut is_new = false;
        for index in first..end {
            is_new |= self.add(index);
        }
        is_new
    }
}

impl Map {
    /// True if the leaf is being merged: its chain stays out of the buckets.
    pub(super) fn is_held(&self, leaf: u32) -> bool {
        self.leaves.head(leaf).chain.is_held()
    }

    /// The newest delta that touches `index`.
    pub(super) fn newest(&self, leaf: u32, index: u16) -> Option<(Slot, Delta)> {
        let chain = self.leaves.head(leaf).chain;
        let mut deltas = self.pool.newest_first(chain);
        deltas.find(|(_, delta)| delta.touches(index))
    }

    /// Appends a delta.
    pub(super) fn push(&mut self, leaf: u32, delta: Delta, lsn: Lsn) {
        let LeafMut { head, slice, .. } = self.leaves.leaf_mut(leaf);
        self.pool.push(leaf, &mut head.chain, delta);
        let state = self.slices[usize::from(slice.0)].as_mut();
        let state = state.expect("the slice of a leaf is here");
        state.note_change(leaf, head, lsn);
    }

    /// Puts `delta` in the place of the newest delta of its index, unless that is a discard, or at
    /// the end if there is none.
    pub(super) fn supersede(
        &mut self,
        leaf: u32,
        newest: Option<(Slot, Delta)>,
        delta: Delta,
        lsn: Lsn,
    ) {
        match newest {
            Some((slot, old)) if !old.is_discard() => {
                let chain = &mut self.leaves.head_mut(leaf).chain;
                self.pool.set(chain, slot, delta);
                self.touch(leaf);
            }
            _ => self.push(leaf, delta, lsn),
        }
    }

    /// The chain's deltas, oldest first, in a buffer to be handed back with [`Map::rewrite`].
    pub(super) fn unroll(&mut self, leaf: u32) -> Vec<Delta> {
        let mut deltas = core::mem::take(&mut self.scratch);
        self.pool.unroll(self.leaves.head(leaf).chain, &mut deltas);
        deltas
    }

    /// Makes what is left of the `deltas` that [`Map::unroll`] gave, oldest first, the chain. Of those
    /// that are gone `places` brought one.
    pub(super) fn rewrite(&mut self, leaf: u32, mut deltas: Vec<Delta>, places: u64) {
        let chain = &mut self.leaves.head_mut(leaf).chain;
        self.pool.replace(chain, &deltas, places);
        deltas.clear();
        self.scratch = deltas;
    }

    /// Drops deltas up to an LSN.
    pub(super) fn drop_through(&mut self, leaf: u32, through: Lsn) {
        let chain = self.leaves.head(leaf).chain;
        if !chain.is_in_order() {
            return self.prune(leaf, None, |_, lsn| lsn <= through);
        }
        let applied = self.slice(self.leaves.slice(leaf)).applied;
        let is_younger = |delta: &Delta| {
            let lsn = delta.lsn_within(applied);
            lsn.expect("no delta is younger than its slice") > through
        };
        let mut deltas = core::mem::take(&mut self.scratch);
        self.pool.unroll_newest(chain, is_younger, &mut deltas);
        if deltas.is_empty() && chain.is_plain() {
            self.scratch = deltas;
            self.pool.drop_plain(&mut self.leaves.head_mut(leaf).chain);
        } else if deltas.len() == usize::from(chain.len) {
            deltas.clear();
            self.scratch = deltas;
        } else {
            let gone = self.pool.places_beyond(chain, &deltas);
            self.rewrite(leaf, deltas, gone);
        }
    }

    /// Drops deltas for which `gone` holds; reports their places if `dead` is given.
    pub(super) fn prune(
        &mut self,
        leaf: u32,
        mut dead: Option<&mut Vec<Dead>>,
        gone: impl Fn(Delta, Lsn) -> bool,
    ) {
        if self.leaves.head(leaf).chain.len == 0 {
            return;
        }
        let applied = self.slice(self.leaves.slice(leaf)).applied;
        let mut deltas = self.unroll(leaf);
        let (before, mut places) = (deltas.len(), 0);
        deltas.retain(|&delta| {
            let lsn = delta
                .lsn_within(applied)
                .expect("no delta is younger than its slice");
            let gone = gone(delta, lsn);
            if let (true, Some(dead)) = (gone, dead.as_deref_mut()) {
                report(dead, delta.ppa(), lsn);
            }
            places += u64::from(gone && delta.brings_place());
            !gone
        });
        if deltas.len() == before {
            deltas.clear();
            self.scratch = deltas;
        } else {
            self.rewrite(leaf, deltas, places);
        }
    }
}

/// The chain without deltas that younger ones supersede, by way of `scratch`, which is empty. Their
/// places were reported: the image is cached.
pub(super) fn compact(pool: &mut DeltaPool, mut chain: Chain, scratch: &mut Vec<Delta>) -> Chain {
    pool.unroll(chain, scratch);
    let places = drop_superseded(scratch);
    pool.replace(&mut chain, scratch, places);
    scratch.clear();
    chain.fresh = 0;
    chain
}

/// Keeps, of deltas oldest first, those that still decide something. Tells how many of the others
/// brought a place.
///
/// # Panics
/// If one is a conditional move.
pub(super) fn drop_superseded(deltas: &mut Vec<Delta>) -> u64 {
    let mut decided = IndexSet::default();
    let (mut kept, mut places) = (deltas.len(), 0);
    for at in (0..deltas.len()).rev() {
        let delta = deltas[at];
        assert!(!delta.is_move(), "all moves have been judged");
        let decides = if delta.is_discard() {
            decided.add_run(delta.index(), delta.end())
        } else {
            decided.add(delta.index())
        };
        if decides {
            kept -= 1;
            deltas[kept] = delta;
        } else {
            places += u64::from(delta.brings_place());
        }
    }
    deltas.drain(..kept);
    places
}

/// True if a move from `old` applies to an entry at `found`.
pub(super) fn is_met(found: Ppa, old: Ppa) -> bool {
    found == old && old.is_place()
}
