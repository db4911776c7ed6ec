//! Merging: the image goes to the log, the parent is switched, the chain's prefix is dropped.

use super::{Base, LeafKey, Map, Merging};
use alloc::vec::Vec;
use varve_format::{Delta, LEAF_ENTRIES, Parent};
use varve_io::Sectors;
use varve_units::{Lsn, SliceId};
use zerocopy::IntoBytes;

/// An image to be written as a leaf record.
pub struct Merge {
    /// The present state of the leaf: its image.
    pub image: Sectors,
    /// True if the image [`varve_format::LeafImage::is_empty`].
    pub is_empty: bool,
    /// Changes up to this LSN are in it.
    pub through: Lsn,
}

/// What a merge needs first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeedsImage {
    /// Read this image and install it.
    Read(Base),
    /// Install a blank image: there is no base.
    Blank,
    /// Read this image of a discarded leaf and have it cleared ([`Map::clear_discarded`]).
    Discarded(Base),
}

impl Map {
    /// The leaf with one of the longest chains, those being merged apart: three deltas off the
    /// longest at most, from 28 deltas on twelve. If any has 64 or more, so has this one.
    pub fn fullest(&mut self) -> Option<LeafKey> {
        let leaf = self.pool.fullest()?;
        Some(self.leaves.key(leaf))
    }

    /// [`Map::fullest`] and the length of its chain.
    pub fn longest(&mut self) -> Option<(LeafKey, usize)> {
        let leaf = self.pool.fullest()?;
        let len = self.leaves.head(leaf).chain.len;
        Some((self.leaves.key(leaf), usize::from(len)))
    }

    /// Like [`Map::fullest`], leaves in `except` apart.
    pub fn fullest_except(&mut self, except: &[LeafKey]) -> Option<LeafKey> {
        if except.is_empty() {
            return self.fullest();
        }
        let wanted = |leaf: u32| !except.contains(&self.leaves.key(leaf));
        let leaf = self.pool.fullest_where(wanted)?;
        Some(self.leaves.key(leaf))
    }

    /// Deltas in the leaf's chain.
    #[must_use]
    pub fn chain_len(&self, key: LeafKey) -> usize {
        let found = self.leaves.find(key);
        found.map_or(0, |leaf| usize::from(self.leaves.head(leaf).chain.len))
    }

    /// True if every chain is known to have at most `length` deltas; false tells nothing.
    #[must_use]
    pub fn are_chains_within(&self, length: usize) -> bool {
        let held = |leaf: &u32| usize::from(self.leaves.head(*leaf).chain.len);
        let is_bounded = self.pool.length_bound().is_some_and(|most| most <= length);
        is_bounded && self.merging.keys().all(|leaf| held(leaf) <= length)
    }

    /// Up to `most` leaves whose chains hold a delta from before `limit`, to be merged before it is
    /// too old; those being merged and those in `except` apart.
    ///
    /// Walks all chains: for the rare slice that nears [`super::DELTA_AGE_MAX`].
    #[must_use]
    pub fn chains_older_than(
        &self,
        slice: SliceId,
        limit: Lsn,
        except: &[LeafKey],
        most: usize,
    ) -> Vec<LeafKey> {
        let leaves = self.leaves.of_slice(slice);
        let old = leaves.filter(|&leaf| {
            let chain = self.leaves.head(leaf).chain;
            let mut deltas = self.pool.newest_first(chain);
            !self.is_held(leaf) && deltas.any(|(_, delta)| self.lsn(leaf, delta) < limit)
        });
        let keys = old.map(|leaf| self.leaves.key(leaf));
        keys.filter(|key| !except.contains(key))
            .take(most)
            .collect()
    }

    /// Begins a merge: a copy of the image, to be written as a leaf record. An empty one need not be
    /// written: [`Map::finish_empty`].
    ///
    /// # Errors
    /// The image is not cached, or the leaf is discarded and its old image not yet cleared.
    ///
    /// # Panics
    /// If the leaf does not exist or is being merged.
    pub fn begin_merge(&mut self, key: LeafKey) -> Result<Merge, NeedsImage> {
        let leaf = self.leaves.find(key).expect("the leaf to merge exists");
        assert!(!self.is_held(leaf), "the leaf is being merged already");
        let head = self.leaves.head(leaf);
        if let (Some(base), Some(_)) = (self.stored_base(leaf), self.leaves.discard(leaf)) {
            return Err(NeedsImage::Discarded(base));
        }
        let Some(slot) = head.image() else {
            return Err(self.base(key).map_or(NeedsImage::Blank, NeedsImage::Read));
        };
        let present = self.cache.get(slot);
        // The usual case: each entry of the base has a place, and each delta since brings one.
        let is_full = head.is_full() && head.chain.is_plain() && !self.is_bare(leaf);
        let (mapped, is_empty) = match is_full {
            true => (LEAF_ENTRIES as u16, false),
            false => (present.mapped(), present.is_empty()),
        };
        debug_assert!(
            mapped == present.mapped() || !self.is_strict,
            "entries of a full leaf"
        );
        let image = self.supply.copy(present.as_bytes());
        let through = self.slice(self.leaves.slice(leaf)).applied;
        self.pool.hold(&mut self.leaves.head_mut(leaf).chain, true);
        let merging = Merging {
            through,
            mapped,
            empty: is_empty,
        };
        self.merging.insert(leaf, merging);
        Ok(Merge {
            image,
            is_empty,
            through,
        })
    }

    /// True between the beginning and the end of a merge.
    #[must_use]
    pub fn is_merging(&self, key: LeafKey) -> bool {
        self.leaves.find(key).is_some_and(|leaf| self.is_held(leaf))
    }

    /// The leaf record is durable: the image at `sector` is the base now, deltas up to `through`
    /// are dropped. If the leaf was discarded meanwhile the new image is dead on arrival.
    ///
    /// # Panics
    /// If no merge with this `through` is in progress.
    pub fn finish_merge(&mut self, key: LeafKey, sector: u64, crc: u32, through: Lsn) {
        self.end_merge(key, Parent::new(sector, through, crc));
    }

    /// [`Map::finish_merge`] for an image without any block: the leaf has no base any more.
    ///
    /// # Panics
    /// If no merge of such an image with this `through` is in progress.
    pub fn finish_empty(&mut self, key: LeafKey, through: Lsn) {
        let merging = self.end_merge(key, Parent::none(through));
        assert!(merging.empty, "the image has no block");
    }

    /// Gives a merge up whose record was not appended.
    ///
    /// # Panics
    /// If no merge is in progress.
    pub fn abort_merge(&mut self, key: LeafKey) {
        let leaf = self.leaves.find(key).expect("a leaf being merged exists");
        assert!(
            self.merging.remove(&leaf).is_some(),
            "a merge is in progress"
        );
        self.pool.hold(&mut self.leaves.head_mut(leaf).chain, false);
        self.touch(leaf);
    }

    fn end_merge(&mut self, key: LeafKey, parent: Parent) -> Merging {
        let leaf = self.leaves.find(key).expect("a leaf being merged exists");
        let merging = self.merging.remove(&leaf).expect("a merge is in progress");
        assert!(
            merging.through == parent.through() || !self.is_strict,
            "the merge that was begun"
        );
        self.pool.hold(&mut self.leaves.head_mut(leaf).chain, false);
        if parent.through() >= self.floor(leaf) {
            assert!(
                self.leaves.discard(leaf).is_none(),
                "a discard since is younger"
            );
            self.switch(leaf, parent, merging.mapped);
            self.set_counted(leaf, merging.mapped);
        } else {
            self.touch(leaf);
        }
        merging
    }

    /// Makes `parent` the base and drops the deltas that it contains.
    pub(super) fn switch(&mut self, leaf: u32, parent: Parent, mapped: u16) {
        self.set_parent(leaf, parent, mapped);
        self.drop_through(leaf, parent.through());
    }

    /// Redoes a leaf record read from the log. Its mapped entries are not known before the image
    /// is installed; until then an upper bound counts.
    ///
    /// A record is younger than its `through`, so it may lie behind a cut that knew how its merge
    /// ended. A leaf that is not here was not here at the cut either, which keeps leaves being
    /// merged: the leaf was emptied after `through`, and the record counts no more.
    ///
    /// # Panics
    /// If the slice is not here.
    pub fn redo_leaf(&mut self, key: LeafKey, sector: u64, crc: u32, through: Lsn) {
        assert!(self.owns(self.slice_of(key)), "the slice is here");
        let leaf = match self.leaves.find(key) {
            Some(leaf) => leaf,
            None if through <= self.cut_of(self.slice_of(key)) => return,
            None => self.leaves.ensure(key),
        };
        if through <= self.floor(leaf) {
            return;
        }
        let head = self.leaves.head(leaf);
        let folded =
            |&(_, delta): &(_, Delta)| delta.brings_place() && self.lsn(leaf, delta) <= through;
        let puts = self.pool.newest_first(head.chain).filter(folded).count();
        let mapped = (usize::from(head.mapped) + puts).min(LEAF_ENTRIES);
        self.forget_image(leaf);
        self.switch(leaf, Parent::new(sector, through, crc), mapped as u16);
        self.set_bound(leaf);
    }
}
