//! The whole-state check: map, media, P2L, unit table and checkpoints agree.
//!
//! 1. `leaves`: the stored images of all leaves of present volumes are read, until in one turn
//!    every leaf has the image that was read.
//! 2. In that same turn `snapshot` works out every reference of the map, and `table` compares
//!    them with the unit table, its lists and the bound of mapped blocks: nothing moves meanwhile.
//! 3. `media` reads every mapped block, the P2L of its stripe and the newest commit's parts. What
//!    fails is looked up again: if the map refers to another place by now, or the unit was
//!    reused, nothing is wrong.
//!
//! So it holds at any turn; the cleaner, garbage collection and checkpoints may run beside it.
//! Host operations should not: leaves must stand still for step 1 to end.
//!
//! **Not here**: repair. Nothing is written, cached or counted. Memory: all leaf images and 64 B
//! for each mapped block.

mod error;
mod leaves;
mod media;
mod report;
mod snapshot;
mod table;

#[cfg(test)]
mod tests;

pub use error::{AuditError, Mapped};
pub use report::AuditReport;

use crate::engine::Engine;
use crate::map::LeafKey;
use leaves::Images;
use snapshot::Snapshot;
use varve_units::{LeafIndex, VolumeId};

impl Engine {
    /// Fast-tier sector (512 B) of the stored image of a leaf, if it has one: 4608 B from there.
    #[must_use]
    pub fn stored_leaf(&self, volume: VolumeId, leaf: LeafIndex) -> Option<u64> {
        let slice = self.shared.units.geometry().slice_of(volume, leaf);
        let owner = self.shared.owner(slice);
        let base = owner.map.borrow().stored(LeafKey { volume, leaf });
        base.map(|base| base.sector)
    }

    /// Checks the whole state of the pool; call it while no host operation is in flight.
    ///
    /// # Errors
    /// The first invariant found broken.
    ///
    /// # Panics
    /// If a shard's map contradicts itself ([`crate::map::Map::check`]).
    pub async fn audit(&self) -> Result<AuditReport, AuditError> {
        let shared = &*self.shared;
        let mut images = Images::default();
        images.read_all(shared).await?;
        let snapshot = Snapshot::take(shared, &images)?;
        let mut report = snapshot.report();
        table::check(shared, &snapshot, &mut report)?;
        for shard in shared.shards() {
            let map = shard.map.borrow();
            map.check(|key, base| images.image(key, base).cloned());
        }
        drop(images);
        media::check_parts(shared, &mut report).await?;
        media::check_blocks(shared, &snapshot, &mut report).await?;
        media::check_p2l(shared, &snapshot, &mut report).await?;
        Ok(report)
    }
}
