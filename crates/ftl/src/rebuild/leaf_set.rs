//! Leaves, as a set that takes little memory where many of a volume lie beside one another.

use crate::map::LeafKey;
use alloc::collections::BTreeMap;
use varve_units::{LeafIndex, VolumeId};

/// Leaves of one word.
const WORD: u64 = u64::BITS as u64;

/// A set of leaves.
#[derive(Default)]
pub(super) struct LeafSet {
    words: BTreeMap<(VolumeId, u64), u64>,
    count: u64,
}

impl LeafSet {
    pub(super) fn insert(&mut self, key: LeafKey) {
        let word = self
            .words
            .entry((key.volume, key.leaf.0 / WORD))
            .or_default();
        let bit = 1 << (key.leaf.0 % WORD);
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }

    pub(super) const fn len(&self) -> u64 {
        self.count
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = LeafKey> {
        self.words.iter().flat_map(|((volume, at), word)| {
            let set = (0..WORD).filter(move |bit| word & 1 << bit != 0);
            set.map(move |bit| LeafKey {
                volume: *volume,
                leaf: LeafIndex(at * WORD + bit),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn leaves_come_once_and_in_order() {
        let mut set = LeafSet::default();
        let keys = [(2, 5), (1, 200), (1, 63), (1, 64), (2, 5), (1, 0)];
        let keys = keys.map(|(volume, leaf)| LeafKey {
            volume: VolumeId(volume),
            leaf: LeafIndex(leaf),
        });
        keys.into_iter().for_each(|key| set.insert(key));
        let mut sorted = Vec::from(keys);
        sorted.sort();
        sorted.dedup();
        assert_eq!(set.iter().collect::<Vec<_>>(), sorted);
        assert_eq!(set.len(), sorted.len() as u64);
    }
}
