//! Groups and leaves that nobody wrote through the engine: declared written, and appended to the log
//! as a merge does.
//!
//! **Not here**: which block lies where (`preload`, `rebuild`).

use crate::error::EngineError;
use crate::geometry::UnitId;
use crate::map::LeafKey;
use crate::shard::Shard;
use crate::shared::Shared;
use varve_format::LeafImage;

impl Shared {
    /// Closes an open group of which so many blocks are written, and whose live bits are set.
    pub(crate) fn close_written(&self, group: u32, write_pointer: u32) {
        self.units.advance(UnitId::group(group), write_pointer);
        self.control().group_closed(self, group);
    }
}

impl Shard {
    /// Appends the image of a leaf that does not exist yet, and has the map refer to it.
    ///
    /// # Errors
    /// The engine stopped.
    ///
    /// # Panics
    /// If the leaf exists.
    pub(crate) async fn seed_leaf(
        &self,
        key: LeafKey,
        image: LeafImage,
    ) -> Result<(), EngineError> {
        let lsn = self.lane.borrow().acked_lsn();
        self.map.borrow_mut().seed(key, image, lsn);
        // Without a pause: a leaf that is neither in the log nor being merged vanishes at a cut.
        self.merge(key).await
    }
}
