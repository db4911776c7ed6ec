//! How many blocks the leaves of a slice map, by volume.

use super::{LeafKey, Map};
use alloc::collections::BTreeMap;
use varve_format::{DeltaBody, LEAF_ENTRIES};
use varve_units::{SliceId, VolumeId};

impl Map {
    /// Adds what the leaves of a slice map, at most, to what is known of each volume.
    ///
    /// # Panics
    /// If the slice is not here.
    pub fn add_usage(&self, slice: SliceId, found: &mut BTreeMap<VolumeId, u64>) {
        assert!(self.owns(slice), "{slice} is not here");
        for leaf in self.leaves.of_slice(slice) {
            let blocks = self.leaf_usage(leaf);
            if blocks > 0 {
                *found.entry(self.leaves.key(leaf).volume).or_insert(0) += blocks;
            }
        }
    }

    /// The next leaf, in turn, whose image must be read before what it maps is known.
    pub fn next_bound(&mut self) -> Option<LeafKey> {
        if self.bounds == 0 {
            return None;
        }
        let is_bound = |&leaf: &u32| self.leaves.head(leaf).is_bound();
        let behind = self.leaves.iter_from(self.bounds_at).find(is_bound);
        let leaf = behind.or_else(|| self.leaves.iter_from(0).find(is_bound))?;
        self.bounds_at = leaf + 1;
        Some(self.leaves.key(leaf))
    }

    /// Blocks that a leaf maps, at most: exact if its image is cached, or it has no chain and its
    /// base was seen.
    fn leaf_usage(&self, leaf: u32) -> u64 {
        let head = self.leaves.head(leaf);
        if let Some(slot) = head.image() {
            return self.cache.get(slot).mapped().into();
        }
        let mut given = [0_u64; LEAF_ENTRIES / 64];
        for (_, delta) in self.pool.newest_first(head.chain) {
            if !matches!(delta.body(), DeltaBody::Discard { .. }) {
                let at = usize::from(delta.index());
                given[at / 64] |= 1 << (at % 64);
            }
        }
        let given: u32 = given.iter().map(|word| word.count_ones()).sum();
        (u64::from(head.mapped) + u64::from(given)).min(LEAF_ENTRIES as u64)
    }
}
