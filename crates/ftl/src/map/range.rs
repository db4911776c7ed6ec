//! Leaves by range, and what the rest of the engine must know of all leaves.

use super::{LeafKey, Map};
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use varve_units::{LeafIndex, Lsn, SliceId, VolumeId};

impl Map {
    /// The leaves of a slice that exist in a range of a volume, in no particular order.
    ///
    /// # Panics
    /// If the slice is not here.
    #[must_use]
    pub fn leaves_in(
        &self,
        slice: SliceId,
        volume: VolumeId,
        range: RangeInclusive<LeafIndex>,
    ) -> Vec<LeafIndex> {
        assert!(self.owns(slice), "{slice} is not here");
        let (first, last) = (range.start().0, range.end().0);
        let slices = self.slices.len() as u64;
        let of_slice = |leaf: u64| {
            let leaf = LeafIndex(leaf);
            self.leaves.slice_of(LeafKey { volume, leaf }) == slice
        };
        // Either a slice's part of the range is walked, or its part of the leaves.
        if last - first <= self.leaves.len() as u64 {
            let start = (first..first + slices).find(|leaf| of_slice(*leaf));
            let start = start.expect("one of as many leaves as slices is of each slice");
            return (start..=last)
                .step_by(self.slices.len())
                .map(LeafIndex)
                .filter(|leaf| {
                    self.leaves
                        .find(LeafKey {
                            volume,
                            leaf: *leaf,
                        })
                        .is_some()
                })
                .collect();
        }
        self.leaves
            .of_slice(slice)
            .map(|leaf| self.leaves.key(leaf))
            .filter(|key| key.volume == volume && range.contains(&key.leaf))
            .map(|key| key.leaf)
            .collect()
    }

    /// Notes that a record of this slice was applied although it changed no leaf.
    ///
    /// # Panics
    /// If the slice is not here or `lsn` goes back.
    pub fn note_applied(&mut self, slice: SliceId, lsn: Lsn) {
        let is_strict = self.is_strict;
        let state = self.slice_mut(slice);
        assert!(
            lsn >= state.applied || !is_strict,
            "records are applied in order"
        );
        state.applied = lsn.max(state.applied);
    }

    /// Notes a record read from the log, which may lie before the slice's cut.
    ///
    /// # Panics
    /// If the slice is not here.
    pub fn note_redone(&mut self, slice: SliceId, lsn: Lsn) {
        let state = self.slice_mut(slice);
        state.applied = state.applied.max(lsn);
    }

    /// LSN of the slice's last cut, made or loaded.
    ///
    /// # Panics
    /// If the slice is not here.
    #[must_use]
    pub fn cut_of(&self, slice: SliceId) -> Lsn {
        self.slice(slice).cut
    }

    /// True if leaves are being merged.
    #[must_use]
    pub fn has_merges(&self) -> bool {
        !self.merging.is_empty()
    }

    /// True if the leaf exists.
    #[must_use]
    pub fn exists(&self, key: LeafKey) -> bool {
        self.leaves.find(key).is_some()
    }

    /// True if the leaf exists and the next cut would keep it.
    #[must_use]
    pub fn is_kept(&self, key: LeafKey) -> bool {
        let found = self.leaves.find(key);
        found.is_some_and(|leaf| !self.leaves.head(leaf).is_vacant() || self.is_held(leaf))
    }

    /// Fast-tier sectors of all images that leaves refer to, those of discarded leaves included.
    pub fn stored_sectors(&self) -> impl Iterator<Item = u64> {
        let leaves = self.leaves.iter();
        leaves
            .filter_map(|leaf| self.stored_base(leaf))
            .map(|base| base.sector)
    }

    /// Volumes that have leaves here.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeId> {
        let mut volumes: Vec<VolumeId> = self
            .leaves
            .iter()
            .map(|leaf| self.leaves.key(leaf).volume)
            .collect();
        volumes.sort_unstable();
        volumes.dedup();
        volumes
    }
}
