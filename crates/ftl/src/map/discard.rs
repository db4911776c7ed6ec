//! Leaves on their way out: discarded ones with an old image, leaves of deleted volumes.

use super::{Base, Dead, LeafKey, Map, Stale, report};
use alloc::vec::Vec;
use varve_format::{LeafImage, Parent};
use varve_units::{Lsn, VolumeId};

/// A point in a walk over leaves. Leaves that come or go meanwhile may or may not be met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafCursor(u32);

impl Map {
    /// The next discarded leaf whose old image is still to be read and cleared.
    #[must_use]
    pub fn discarded_next(&self, from: LeafCursor) -> Option<(LeafKey, Base, LeafCursor)> {
        let leaf = self.leaves.next_discarded(from.0)?;
        let base = self
            .stored_base(leaf)
            .expect("a discarded leaf has its old image");
        Some((self.leaves.key(leaf), base, LeafCursor(leaf + 1)))
    }

    /// The old image of a discarded leaf was read: reports all its places dead; the leaf has no
    /// base any more.
    ///
    /// # Errors
    /// The leaf is not discarded, or has another image.
    pub fn clear_discarded(
        &mut self,
        key: LeafKey,
        base: Base,
        image: &LeafImage,
        dead: &mut Vec<Dead>,
    ) -> Result<(), Stale> {
        let leaf = self.leaves.find(key).ok_or(Stale)?;
        let discard = self.leaves.discard(leaf).ok_or(Stale)?;
        if self.stored_base(leaf) != Some(base) {
            return Err(Stale);
        }
        report_all(image, base.through, dead);
        self.set_parent(leaf, Parent::none(discard), 0);
        Ok(())
    }

    /// The next leaf of a volume in this shard.
    #[must_use]
    pub fn volume_next(&self, volume: VolumeId, from: LeafCursor) -> Option<(LeafKey, LeafCursor)> {
        let leaf = self.leaves.next_of_volume(volume, from.0)?;
        Some((self.leaves.key(leaf), LeafCursor(leaf + 1)))
    }

    /// Forgets a leaf of a deleted volume; reports all its places dead. `stored` is the image that
    /// [`Map::stored`] names, read for this, or `None` if there is none. The head itself goes at
    /// the next cut.
    ///
    /// # Errors
    /// The leaf has another image by now, or is being merged.
    pub fn drop_volume_leaf(
        &mut self,
        key: LeafKey,
        stored: Option<(Base, &LeafImage)>,
        dead: &mut Vec<Dead>,
    ) -> Result<(), Stale> {
        let Some(leaf) = self.leaves.find(key) else {
            return if stored.is_none() { Ok(()) } else { Err(Stale) };
        };
        if self.stored_base(leaf) != stored.map(|(base, _)| base) || self.is_held(leaf) {
            return Err(Stale);
        }
        if let Some((base, image)) = stored {
            report_all(image, base.through, dead);
        }
        self.prune(leaf, Some(dead), |_, _| true);
        self.forget_image(leaf);
        let applied = self.slice(self.leaves.slice(leaf)).applied;
        self.set_parent(leaf, Parent::none(applied), 0);
        Ok(())
    }
}

fn report_all(image: &LeafImage, since: Lsn, dead: &mut Vec<Dead>) {
    for entry in image.entries() {
        report(dead, entry.ppa(), since);
    }
}
