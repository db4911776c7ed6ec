//! Leaves whose stored image can be read by no copy any more.
//!
//! Such a leaf is declared lost: from then on its base counts as an image in which every entry is
//! lost, whatever the media may say later, until a merge gives it another base. What the image
//! named keeps its live bits; the map no longer names it.

use super::{Base, Dead, LeafKey, Map, Stale};
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_format::LeafImage;

impl Map {
    /// Takes every entry of the image at `base` for lost.
    ///
    /// # Errors
    /// The leaf has another base, or may have one soon: it is being merged.
    pub fn declare_lost(&mut self, key: LeafKey, base: Base) -> Result<(), Stale> {
        let leaf = self.leaves.find(key).ok_or(Stale)?;
        if self.stored_base(leaf) != Some(base) || self.is_held(leaf) {
            return Err(Stale);
        }
        self.lost.insert(leaf);
        Ok(())
    }

    /// True if the leaf was declared lost and has no new base yet.
    #[must_use]
    pub fn is_lost(&self, key: LeafKey) -> bool {
        let found = self.leaves.find(key);
        found.is_some_and(|leaf| self.lost.contains(&leaf))
    }

    /// A leaf that was declared lost and waits for its merge, those in `except` apart.
    #[must_use]
    pub fn lost_except(&self, except: &[LeafKey]) -> Option<LeafKey> {
        let waiting = self.lost.iter().filter(|leaf| !self.is_held(**leaf));
        let mut keys = waiting.map(|leaf| self.leaves.key(*leaf));
        keys.find(|key| !except.contains(key))
    }

    /// [`Map::install`] for a leaf declared lost: nothing is read.
    ///
    /// # Errors
    /// The leaf is not lost, or was discarded since.
    pub fn install_lost(&mut self, key: LeafKey, dead: &mut Vec<Dead>) -> Result<(), Stale> {
        let base = self.base(key).filter(|_| self.is_lost(key)).ok_or(Stale)?;
        self.install(key, base, Box::new(LeafImage::LOST), dead)
    }
}
