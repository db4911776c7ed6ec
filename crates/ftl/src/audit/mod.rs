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
pub use report::{AuditNews, AuditReport, AuditStep, BadCopy};

use crate::engine::Engine;
use crate::geometry::Tier;
use crate::map::LeafKey;
use crate::shard::Shard;
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use leaves::Images;
use report::Found;
use snapshot::{Reference, Snapshot};
use varve_format::VolumeState;
use varve_io::Flow;
use varve_units::{Lba, LeafIndex, Nanos, VolumeId};

/// Times the unit table is looked at again because a unit was in nobody's hand, and the pause
/// between. Arbitrary: longer together than any job takes from one reactor to another.
const TRANSIT_ROUNDS_MAX: u32 = 200;
const TRANSIT_PAUSE: Nanos = Nanos::from_micros(50);

/// Every reactor's view of the pool, in one moment.
fn everyone(shared: &Shared) -> Result<Vec<Rc<Shared>>, AuditError> {
    shared.everyone().ok_or(AuditError::OutOfSight)
}

/// Every reactor's shard, in one moment.
fn shards(shared: &Shared) -> Result<Vec<Rc<Shard>>, AuditError> {
    Ok(everyone(shared)?.iter().map(|view| view.shard()).collect())
}

impl Engine {
    /// Fast-tier sector (512 B) of the stored image of a leaf, if it has one: 4608 B from there.
    /// Reactors must run on the caller's thread, or it has none.
    #[must_use]
    pub fn stored_leaf(&self, volume: VolumeId, leaf: LeafIndex) -> Option<u64> {
        let key = LeafKey { volume, leaf };
        let owner = self.shared.owner_of_leaf(key);
        let shards = shards(&self.shared).ok()?;
        let base = shards[usize::from(owner.0)].map.borrow().stored(key);
        base.map(|base| base.sector)
    }

    /// Checks the whole state of the pool; call it on the first reactor while no host operation is
    /// in flight. All reactors must run on the caller's thread: it looks at all of them at once.
    ///
    /// # Errors
    /// The first invariant found broken.
    ///
    /// # Panics
    /// If a shard's map contradicts itself ([`crate::map::Map::check`]).
    pub fn audit(&self) -> Flow<'_, Result<AuditReport, AuditError>> {
        Box::pin(async move { self.audit_with(None).await })
    }

    /// [`Engine::audit`], which also reads every other copy of what it reads, and tells `found` of
    /// those that do not pass their check while another one does, and how far it is.
    ///
    /// # Errors
    /// As [`Engine::audit`].
    ///
    /// # Panics
    /// As [`Engine::audit`].
    pub fn audit_all_copies<'a>(
        &'a self,
        found: &'a mut dyn FnMut(AuditNews),
    ) -> Flow<'a, Result<AuditReport, AuditError>> {
        Box::pin(async move { self.audit_with(Some(found)).await })
    }

    /// Blocks of hosts whose content lies on the dense tier, not what is left of shrunk volumes, for who checks what is left without the fast one. As for
    /// [`Engine::audit`] no host operation may be in flight.
    ///
    /// # Errors
    /// As [`Engine::audit`], of the map alone.
    pub fn blocks_on_dense(&self) -> Flow<'_, Result<Vec<(VolumeId, Lba)>, AuditError>> {
        Box::pin(async move {
            let mut images = Images::default();
            images.read_all(&self.shared, None).await?;
            let snapshot = Snapshot::take(&self.shared, &images)?;
            let on_dense = |one: &&Reference| one.place.unit.tier == Tier::Dense;
            let volumes = self.shared.volumes.borrow();
            let is_read = |(volume, lba): &(VolumeId, Lba)| {
                let volume = volumes.get(*volume).map(|volume| &volume.entry);
                volume.is_some_and(|entry| {
                    entry.state == VolumeState::Present && lba.0 < entry.size.0
                })
            };
            let found = snapshot.references.iter().filter(on_dense);
            let found = found.map(|one| (one.at.volume, one.at.lba));
            Ok(found.filter(is_read).collect())
        })
    }

    /// Reads, whoever is away, every block that is told to bear the loss of one more drive ([`Engine::narrow_blocks`]);
    /// returns how many. As for [`Engine::audit`] no host operation may be in flight.
    ///
    /// # Errors
    /// As [`Engine::audit`]; one of the blocks cannot be read.
    pub fn audit_narrow(&self) -> Flow<'_, Result<u64, AuditError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let mut images = Images::default();
            images.read_all(shared, None).await?;
            let mut snapshot = Snapshot::take(shared, &images)?;
            let is_narrow = |one: &Reference| shared.is_narrow(one.place.unit, one.place.bit);
            snapshot.references.retain(is_narrow);
            let mut report = snapshot.report();
            media::check_blocks(shared, &snapshot, &mut report, None).await?;
            Ok(snapshot.references.len() as u64)
        })
    }

    /// `found`: other copies are read too.
    async fn audit_with(
        &self,
        mut found: Option<&mut Found<'_>>,
    ) -> Result<AuditReport, AuditError> {
        let shared = &*self.shared;
        let mut images = Images::default();
        let mut rounds = 0;
        let (snapshot, mut report) = loop {
            images.read_all(shared, found.as_deref_mut()).await?;
            let snapshot = Snapshot::take(shared, &images)?;
            let mut report = snapshot.report();
            let checked = table::check(shared, &snapshot, &mut report);
            for shard in shards(shared)? {
                let map = shard.map.borrow();
                map.check(|key, base| images.image(key, base).cloned());
            }
            match checked {
                Ok(()) => break (snapshot, report),
                // On its way from one reactor to another: what was lost there never arrives.
                Err(AuditError::ListedNowhere { .. }) if rounds < TRANSIT_ROUNDS_MAX => {
                    rounds += 1;
                    shared.world.sleep(TRANSIT_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        };
        if let Some(found) = &mut found {
            images.check_copies(shared, *found).await?;
        }
        drop(images);
        media::check_parts(shared, &mut report, found.as_deref_mut()).await?;
        media::check_blocks(shared, &snapshot, &mut report, found.as_deref_mut()).await?;
        if let Some(found) = &mut found {
            media::check_copies(shared, &snapshot, *found).await;
        }
        media::check_p2l(shared, &snapshot, &mut report, found).await?;
        Ok(report)
    }
}
