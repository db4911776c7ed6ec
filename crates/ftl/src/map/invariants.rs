//! Whole-state checks of the map, for tests and the simulator.

use super::{Base, LeafKey, Map};
use varve_format::{DeltaBody, Entry, LEAF_ENTRIES, LeafImage};

impl Map {
    /// Checks everything the map can know by itself; with `read`, also that each cached image is
    /// its base folded with its chain (`read` gives the base image, if it has it).
    ///
    /// # Panics
    /// If something does not agree, naming it.
    pub fn check(&self, mut read: impl FnMut(LeafKey, Base) -> Option<LeafImage>) {
        let (mut mapped, mut images, mut count) = (0, 0, 0);
        let chain = |leaf| (leaf, self.leaves.head(leaf).chain);
        self.pool.check(self.leaves.iter().map(chain));
        for leaf in self.leaves.iter() {
            let key = self.leaves.key(leaf);
            let head = self.leaves.head(leaf);
            assert_eq!(
                self.leaves.find(key),
                Some(leaf),
                "a leaf is found by its key"
            );
            assert!(
                self.owns(self.slice_of(key)),
                "leaves are of slices that are here"
            );
            assert_eq!(
                self.is_held(leaf),
                self.merging.contains_key(&leaf),
                "exactly the leaves being merged are held"
            );
            count += 1;
            mapped += u64::from(head.mapped);
            self.check_chain(leaf);
            if self.is_bare(leaf) {
                assert_eq!(head.mapped, 0, "no base, no mapped entries");
            }
            if let Some(image) = self.base(key).and_then(|base| read(key, base)) {
                let (mapped, is_bound) = (image.mapped(), head.is_bound());
                assert!(
                    head.mapped == mapped || is_bound,
                    "mapped entries of the base"
                );
                let is_full = usize::from(mapped) == LEAF_ENTRIES;
                assert!(is_full || !head.is_full(), "a base called full is full");
            }
            if self.leaves.discard(leaf).is_some() {
                assert!(
                    head.parent.sector().is_some(),
                    "a discarded leaf has its old image"
                );
            }
            if let Some(slot) = head.image() {
                images += 1;
                assert_eq!(self.cache.owner(slot), leaf, "an image knows its leaf");
                self.check_image(leaf, slot, &mut read);
            }
        }
        assert_eq!(count, self.leaves.len(), "leaves are counted");
        let blind = self.leaves.iter().filter(|&leaf| self.is_blind(leaf));
        assert_eq!(blind.count(), self.blind, "blind leaves are counted");
        let bounds = self
            .leaves
            .iter()
            .filter(|&leaf| self.leaves.head(leaf).is_bound());
        assert_eq!(bounds.count(), self.bounds, "bounds are counted");
        assert_eq!(mapped, self.mapped, "used_upper agrees with a recount");
        assert_eq!(images, self.cache.len(), "each image belongs to a leaf");
        self.check_changed();
    }

    fn check_chain(&self, leaf: u32) {
        let head = self.leaves.head(leaf);
        let slice = self.slice(self.leaves.slice(leaf));
        for (_, delta) in self.pool.newest_first(head.chain) {
            let lsn = self.lsn(leaf, delta);
            assert!(
                lsn > self.floor(leaf) || !self.is_strict,
                "no delta is in the base"
            );
            assert!(
                slice.oldest.is_some_and(|o| o <= lsn),
                "oldest is a lower bound"
            );
            assert!(lsn <= slice.cut || head.changed, "a changed leaf is listed");
            if delta.is_move() {
                assert!(
                    head.image().is_none(),
                    "a cached image leaves no move in doubt"
                );
            }
        }
    }

    fn check_image(
        &self,
        leaf: u32,
        slot: u32,
        read: &mut impl FnMut(LeafKey, Base) -> Option<LeafImage>,
    ) {
        let key = self.leaves.key(leaf);
        let base = match self.base(key) {
            Some(base) => read(key, base),
            None => Some(LeafImage::BLANK),
        };
        let Some(mut image) = base else {
            return;
        };
        let mut deltas: alloc::vec::Vec<_> = self
            .pool
            .newest_first(self.leaves.head(leaf).chain)
            .map(|(_, delta)| delta)
            .collect();
        deltas.reverse();
        for delta in deltas {
            match delta.body() {
                DeltaBody::Put { entry, placement } => image.set(delta.index(), entry, placement),
                DeltaBody::Discard { zero, .. } => {
                    let empty = if zero { Entry::ZERO } else { Entry::ABSENT };
                    for at in delta.index()..delta.end() {
                        image.set(at, empty, varve_format::Placement::default());
                    }
                }
                DeltaBody::Move { .. } => panic!("a cached image leaves no move in doubt"),
            }
        }
        let cached = self.cache.get(slot);
        for index in 0..LEAF_ENTRIES as u16 {
            let same = image.entry(index) == cached.entry(index)
                && image.placement(index) == cached.placement(index);
            // A leaf without base no longer tells zeroed from absent; both read as zeroes.
            let empty = |entry| entry == Entry::ABSENT || entry == Entry::ZERO;
            let both = empty(image.entry(index)) && empty(cached.entry(index));
            assert!(
                same || both,
                "an image is its base folded with its chain: {index}"
            );
        }
    }

    fn check_changed(&self) {
        let slices = self.slices.iter().flatten();
        let listed = slices.flat_map(|s| &s.changed);
        let mut count = 0;
        for &leaf in listed {
            assert!(
                self.leaves.head(leaf).changed,
                "a listed leaf is marked changed"
            );
            count += 1;
        }
        let marked = self
            .leaves
            .iter()
            .filter(|&leaf| self.leaves.head(leaf).changed);
        assert_eq!(count, marked.count(), "each changed leaf is listed once");
    }
}
