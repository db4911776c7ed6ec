//! Looking up entries, and asking whether a block is live.

use super::chain::IndexSet;
use super::{LeafKey, Map};
use varve_format::{Delta, DeltaBody, Entry, LEAF_ENTRIES};
use varve_units::{Lsn, Ppa};

/// What the map says of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The block is at a place.
    Entry {
        /// Place and checksum.
        entry: Entry,
        /// An LSN at which this was in force.
        since: Lsn,
    },
    /// Absent or zeroed.
    Zeroes,
    /// Lost beyond repair.
    Lost,
    /// The leaf's image must be installed first: see [`Map::base`].
    NeedsImage,
}

/// Whether the map refers to a block at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Live {
    /// It does not.
    No,
    /// It does.
    Yes,
    /// It may: only the leaf's image can tell.
    Perhaps,
}

fn told(entry: Entry, since: Lsn) -> Lookup {
    match entry.ppa() {
        Ppa::LOST => Lookup::Lost,
        ppa if ppa.is_place() => Lookup::Entry { entry, since },
        _ => Lookup::Zeroes,
    }
}

impl Map {
    /// Where the block at `index` is.
    ///
    /// # Panics
    /// If the index is beyond the leaf or the slice is not here.
    #[must_use]
    pub fn lookup(&self, key: LeafKey, index: u16) -> Lookup {
        assert!(usize::from(index) < LEAF_ENTRIES, "index beyond the leaf");
        let applied = self.slice(self.slice_of(key)).applied;
        let Some(leaf) = self.leaves.find(key) else {
            return Lookup::Zeroes;
        };
        if let Some(slot) = self.leaves.head(leaf).image() {
            return told(self.cache.get(slot).entry(index), applied);
        }
        match self.newest(leaf, index) {
            Some((_, delta)) => self.delta_tells(leaf, delta),
            None if self.is_bare(leaf) => Lookup::Zeroes,
            None => Lookup::NeedsImage,
        }
    }

    /// Where the blocks from `first` on are, as many as `out` is long.
    ///
    /// # Panics
    /// If the run goes beyond the leaf or the slice is not here.
    pub fn lookup_run(&self, key: LeafKey, first: u16, out: &mut [Lookup]) {
        let end = usize::from(first) + out.len();
        assert!(end <= LEAF_ENTRIES, "run beyond the leaf");
        let applied = self.slice(self.slice_of(key)).applied;
        let Some(leaf) = self.leaves.find(key) else {
            out.fill(Lookup::Zeroes);
            return;
        };
        if let Some(slot) = self.leaves.head(leaf).image() {
            let image = self.cache.get(slot);
            for (index, out) in (first..).zip(out) {
                *out = told(image.entry(index), applied);
            }
            return;
        }
        let bare = self.is_bare(leaf);
        out.fill(if bare {
            Lookup::Zeroes
        } else {
            Lookup::NeedsImage
        });
        let mut decided = IndexSet::default();
        for (_, delta) in self.pool.newest_first(self.leaves.head(leaf).chain) {
            let (from, to) = (delta.index().max(first), usize::from(delta.end()).min(end));
            for index in from..to.max(usize::from(from)) as u16 {
                if !decided.has(index) {
                    decided.add(index);
                    out[usize::from(index - first)] = self.delta_tells(leaf, delta);
                }
            }
        }
    }

    fn delta_tells(&self, leaf: u32, delta: Delta) -> Lookup {
        match delta.body() {
            DeltaBody::Put { entry, .. } => told(entry, self.lsn(leaf, delta)),
            DeltaBody::Discard { .. } => Lookup::Zeroes,
            DeltaBody::Move { .. } => Lookup::NeedsImage,
        }
    }

    /// True if every block of the leaf is known to have a place, without its image. False tells
    /// nothing.
    #[must_use]
    pub fn is_full(&self, key: LeafKey) -> bool {
        let Some((leaf, head)) = self.leaves.look(key) else {
            return false;
        };
        head.is_full() && !head.chain.may_have_discards() && !self.is_bare(leaf)
    }

    /// Whether the block at `index` is the one at `ppa`.
    ///
    /// After a conditional move from `ppa` the answer is `No` whatever the move comes to.
    ///
    /// # Panics
    /// If the index is beyond the leaf.
    #[must_use]
    pub fn is_live(&self, key: LeafKey, index: u16, ppa: Ppa) -> Live {
        match self.leaves.find(key) {
            Some(leaf) => self.is_live_in(leaf, index, ppa),
            None => Live::No,
        }
    }

    /// [`Map::is_live`] by who has found the leaf.
    pub(super) fn is_live_in(&self, leaf: u32, index: u16, ppa: Ppa) -> Live {
        let known = |live| if live { Live::Yes } else { Live::No };
        if let Some(slot) = self.leaves.head(leaf).image() {
            return known(self.cache.get(slot).entry(index).ppa() == ppa);
        }
        let mut doubt = false;
        for (_, delta) in self.pool.newest_first(self.leaves.head(leaf).chain) {
            if !delta.touches(index) {
                continue;
            }
            match delta.body() {
                DeltaBody::Move { new, .. } if new == ppa => return Live::Perhaps,
                DeltaBody::Move { old, .. } if old == ppa => return Live::No,
                DeltaBody::Move { .. } => doubt = true,
                DeltaBody::Put { entry, .. } if doubt && entry.ppa() == ppa => {
                    return Live::Perhaps;
                }
                DeltaBody::Put { entry, .. } => return known(entry.ppa() == ppa),
                DeltaBody::Discard { .. } => return Live::No,
            }
        }
        if self.is_bare(leaf) {
            Live::No
        } else {
            Live::Perhaps
        }
    }

    /// Where the newest change in the leaf's chain puts the block at `index`, a move not judged.
    #[must_use]
    pub fn newest_place(&self, key: LeafKey, index: u16) -> Option<Ppa> {
        let leaf = self.leaves.find(key)?;
        let (_, delta) = self.newest(leaf, index)?;
        Some(delta.ppa()).filter(|ppa| ppa.is_place())
    }

    /// Whether the leaf image at fast-tier sector `sector` is the one this leaf refers to, be it
    /// only to have its live bits cleared.
    #[must_use]
    pub fn is_leaf_live(&self, key: LeafKey, sector: u64) -> bool {
        self.stored(key).is_some_and(|base| base.sector == sector)
    }
}
