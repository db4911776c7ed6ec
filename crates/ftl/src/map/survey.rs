//! The present state of a leaf worked out beside the cache, for whole-state checks.
//!
//! **Not here**: caching, judging moves for good, reports of the dead: nothing changes.

use super::chain::is_met;
use super::{Base, LeafKey, Map, Stale};
use alloc::vec::Vec;
use varve_format::{DeltaBody, Entry, LEAF_ENTRIES, LeafImage};
use varve_units::{Lsn, Ppa};

/// What a leaf holds.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Its entries, and an LSN at which each was in force (the newest the leaf itself tells).
    pub entries: Vec<(Entry, Lsn)>,
    /// The first entry that the cached image, if there is one, has otherwise: index and entry.
    pub differs: Option<(u16, Entry)>,
}

impl Map {
    /// All leaves that exist.
    #[must_use]
    pub fn keys(&self) -> Vec<LeafKey> {
        self.leaves
            .iter()
            .map(|leaf| self.leaves.key(leaf))
            .collect()
    }

    /// The places that the cached image of a leaf names, if there is one: it has every change.
    pub fn each_cached_place(&self, key: LeafKey, mut name: impl FnMut(Ppa)) {
        let image = self
            .leaves
            .find(key)
            .and_then(|leaf| self.leaves.head(leaf).image());
        if let Some(image) = image.map(|at| self.cache.get(at)) {
            let places = image.entries().iter().map(|entry| entry.ppa());
            places.filter(|ppa| ppa.is_place()).for_each(&mut name);
        }
    }

    /// Deltas in all chains.
    #[must_use]
    pub fn deltas(&self) -> usize {
        self.leaves
            .iter()
            .map(|leaf| usize::from(self.leaves.head(leaf).chain.len))
            .sum()
    }

    /// The leaf's base folded with its chain, moves judged. `read` is the image that
    /// [`Map::base`] names, if it names one.
    ///
    /// # Errors
    /// The leaf does not exist, or has another base by now.
    pub fn survey(&self, key: LeafKey, read: Option<(Base, &LeafImage)>) -> Result<Survey, Stale> {
        let leaf = self.leaves.find(key).ok_or(Stale)?;
        let base = self.base(key);
        let blank = LeafImage::BLANK;
        let (image, through) = match (base, read) {
            (None, _) => (&blank, self.floor(leaf)),
            (Some(base), Some((of, image))) if base == of => (image, base.through),
            (Some(_), _) => return Err(Stale),
        };
        let mut entries: Vec<(Entry, Lsn)> = image
            .entries()
            .iter()
            .map(|entry| (*entry, through))
            .collect();
        let chain = self.leaves.head(leaf).chain;
        let mut deltas: Vec<_> = self.pool.newest_first(chain).map(|(_, d)| d).collect();
        deltas.reverse();
        for delta in deltas {
            let lsn = self.lsn(leaf, delta);
            let at = usize::from(delta.index());
            match delta.body() {
                DeltaBody::Put { entry, .. } => entries[at] = (entry, lsn),
                DeltaBody::Discard { .. } => {
                    entries[at..usize::from(delta.end())].fill((Entry::ABSENT, lsn));
                }
                DeltaBody::Move { old, new, .. } => {
                    let (found, _) = entries[at];
                    if is_met(found.ppa(), old) {
                        entries[at] = (Entry::new(new, found.crc24()), lsn);
                    }
                }
            }
        }
        let differs = self.differs(leaf, &entries);
        Ok(Survey { entries, differs })
    }

    /// The first entry of the cached image that is not as worked out. Both ways to read as zeroes
    /// are the same.
    fn differs(&self, leaf: u32, entries: &[(Entry, Lsn)]) -> Option<(u16, Entry)> {
        let cached = self.cache.get(self.leaves.head(leaf).image()?);
        let plain = |entry: Entry| match entry {
            Entry::ZERO => Entry::ABSENT,
            other => other,
        };
        (0..LEAF_ENTRIES as u16)
            .map(|index| (index, cached.entry(index)))
            .find(|(index, entry)| plain(*entry) != plain(entries[usize::from(*index)].0))
    }
}
