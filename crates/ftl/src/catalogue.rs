//! Volumes: create, delete, resize.
//!
//! Each change is one `catalogue` record in lane 0, acknowledged when it is durable. What depends
//! on other lanes flushes all lanes first. A deleted volume's blocks are dead at once; its live
//! bits are cleared by a purge that may be interrupted and begun again: until it has finished and
//! a later checkpoint has committed, the catalogue says *deleting*.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::map::LeafCursor;
use crate::shared::Shared;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{CatalogueEntry, Name, Record, VOLUME_BLOCKS_MAX, VolumeState};
use varve_units::{Blocks, Lba, TenantId, VolumeId};

/// What a new volume is to be.
#[derive(Clone, Copy, Debug)]
pub struct NewVolume<'a> {
    /// Its name, 1 to 48 characters.
    pub name: &'a str,
    /// Its size.
    pub size: Blocks,
    /// Its owner.
    pub tenant: TenantId,
    /// UUID that hosts see.
    pub uuid: [u8; 16],
    /// NGUID that hosts see.
    pub nguid: [u8; 16],
}

impl Engine {
    /// Creates a volume, thin and empty.
    ///
    /// # Errors
    /// Bad name or size, a taken name, too many volumes, a stopped engine.
    pub async fn create_volume(&self, new: NewVolume<'_>) -> Result<VolumeId, EngineError> {
        let _turn = self.shared.catalogue_turn.take().await;
        let entry = self.new_entry(new)?;
        self.shared.volumes.borrow_mut().next_id = entry.id.0 + 1;
        self.log_entry(entry).await?;
        Ok(entry.id)
    }

    fn new_entry(&self, new: NewVolume<'_>) -> Result<CatalogueEntry, EngineError> {
        let volumes = self.shared.volumes.borrow();
        let name = Name::new(new.name).map_err(|_| EngineError::BadName)?;
        check_size(new.size)?;
        let present = volumes.entries();
        if present.len() as u64 >= self.shared.config.reserve.volumes_max {
            return Err(EngineError::TooManyVolumes);
        }
        if present
            .iter()
            .any(|entry| entry.name == name && entry.state == VolumeState::Present)
        {
            return Err(EngineError::NameTaken);
        }
        Ok(CatalogueEntry {
            id: VolumeId(volumes.next_id.max(1)),
            uuid: new.uuid,
            nguid: new.nguid,
            size: new.size,
            tenant: new.tenant,
            state: VolumeState::Present,
            parent: None,
            name,
        })
    }

    /// Deletes a volume. Its blocks are gone when this returns; the space follows.
    ///
    /// # Errors
    /// Unknown volume, a stopped engine.
    pub async fn delete_volume(&self, id: VolumeId) -> Result<(), EngineError> {
        let _turn = self.shared.catalogue_turn.take().await;
        let (entry, inflight) = {
            let mut volumes = self.shared.volumes.borrow_mut();
            let volume = volumes
                .get(id)
                .filter(|v| v.entry.state == VolumeState::Present);
            let volume = volume.ok_or(EngineError::NoSuchVolume(id))?;
            let entry = CatalogueEntry {
                state: VolumeState::Deleting,
                ..volume.entry
            };
            let inflight = Rc::clone(&volume.inflight);
            volumes.put(entry);
            (entry, inflight)
        };
        inflight.drained().await;
        // Not before: one of those writes may be waiting for room, and would wait for this purge.
        self.shared.begin_purge();
        self.log_entry(entry).await?;
        let shared = Rc::clone(&self.shared);
        self.shared.spawn(async move { shared.purge(entry).await });
        Ok(())
    }

    /// Changes a volume's size. What a smaller volume loses is deallocated first, and what a larger
    /// one gains too: a checkpoint may have committed a smaller size whose deallocation a crash
    /// then took.
    ///
    /// # Errors
    /// Unknown volume, bad size, a stopped engine.
    pub async fn resize_volume(&self, id: VolumeId, size: Blocks) -> Result<(), EngineError> {
        check_size(size)?;
        let _turn = self.shared.catalogue_turn.take().await;
        let (entry, before, inflight) = {
            let mut volumes = self.shared.volumes.borrow_mut();
            let volume = volumes
                .get(id)
                .filter(|v| v.entry.state == VolumeState::Present);
            let volume = volume.ok_or(EngineError::NoSuchVolume(id))?;
            let before = volume.entry.size;
            let entry = CatalogueEntry {
                size,
                ..volume.entry
            };
            let inflight = Rc::clone(&volume.inflight);
            if size < before {
                volumes.put(entry);
            }
            (entry, before, inflight)
        };
        if size < before {
            inflight.drained().await;
        }
        if size != before {
            self.clear_between(id, size.min(before), size.max(before))
                .await?;
        }
        self.log_entry(entry).await
    }

    /// Deallocates a volume's blocks from `start` to before `end`, durably.
    async fn clear_between(
        &self,
        id: VolumeId,
        start: Blocks,
        end: Blocks,
    ) -> Result<(), EngineError> {
        let count = end - start;
        for waiting in self.append_discard(id, Lba(start.0), count.0, false).await {
            waiting.await.map_err(|_| EngineError::Stopped)?;
        }
        self.flush().await
    }

    /// All volumes that are present.
    #[must_use]
    pub fn volumes(&self) -> Vec<CatalogueEntry> {
        let mut entries = self.shared.volumes.borrow().entries();
        entries.retain(|entry| entry.state == VolumeState::Present);
        entries
    }

    /// Appends a catalogue record and makes it durable.
    async fn log_entry(&self, entry: CatalogueEntry) -> Result<(), EngineError> {
        self.shared.log_entry(entry).await
    }

    /// Goes on with deletes that a crash interrupted, and drops leaves of volumes that no
    /// catalogue knows.
    pub(crate) fn resume_deletes(&self) {
        let shared = Rc::clone(&self.shared);
        let mut deleting = shared.volumes.borrow().entries();
        deleting.retain(|entry| entry.state == VolumeState::Deleting);
        deleting.iter().for_each(|_| shared.begin_purge());
        self.shared
            .spawn(async move { shared.purge_all(deleting).await });
    }
}

impl Shared {
    async fn log_entry(&self, entry: CatalogueEntry) -> Result<(), EngineError> {
        let lane = Rc::clone(&self.shards()[0]);
        let appended = lane
            .append_meta(
                Record::Catalogue {
                    entry: alloc::boxed::Box::new(entry),
                },
                None,
            )
            .await;
        appended.map_err(|_| EngineError::Stopped)?;
        self.flush_log().await.map_err(EngineError::Io)
    }

    async fn purge_all(&self, deleting: Vec<CatalogueEntry>) {
        for entry in deleting {
            self.purge(entry).await;
        }
        let shards = self.shards();
        for volume in shards.iter().flat_map(|shard| shard.map.borrow().volumes()) {
            if self.volumes.borrow().get(volume).is_none() {
                self.purge_leaves(volume).await;
            }
        }
    }

    /// Blocks of one more volume are to be given back: who lacks room waits for them.
    fn begin_purge(&self) {
        self.purges.set(self.purges.get() + 1);
    }

    /// Clears everything of a deleted volume, then strikes it from the catalogue.
    async fn purge(&self, entry: CatalogueEntry) {
        self.purge_leaves(entry.id).await;
        self.purges.set(self.purges.get() - 1);
        self.purged.notify();
        if self.is_stopped() {
            return;
        }
        // The catalogue may forget the volume only after a checkpoint that began when nothing of
        // it was left, live bits included: nobody would clear them again.
        let control = self.control();
        let target = control.checkpoint.get() + 2;
        while control.checkpoint.get() < target {
            if self.is_stopped() {
                return;
            }
            control.ask_exact_checkpoint();
            control.committed.listen().await;
        }
        let gone = CatalogueEntry {
            state: VolumeState::Deleted,
            ..entry
        };
        if self.log_entry(gone).await.is_ok() {
            self.count("volumes_purged", 1);
        }
    }

    async fn purge_leaves(&self, volume: VolumeId) {
        for shard in self.shards() {
            let mut from = LeafCursor::default();
            loop {
                let next = shard.map.borrow().volume_next(volume, from);
                let Some((key, after)) = next else { break };
                if shard.drop_leaf(key).await.is_err() {
                    return;
                }
                from = after;
            }
        }
    }
}

fn check_size(size: Blocks) -> Result<(), EngineError> {
    if (1..=VOLUME_BLOCKS_MAX).contains(&size.0) {
        Ok(())
    } else {
        Err(EngineError::BadSize(size.0))
    }
}
