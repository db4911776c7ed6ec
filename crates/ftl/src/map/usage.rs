//! How many blocks the leaves of a slice map, by volume.

use super::Map;
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

    /// Blocks that a leaf maps, at most: exact if its image is cached or it has no chain.
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
