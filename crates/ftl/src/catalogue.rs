//! Volumes: create, delete, resize.
//!
//! Changes are made on the first reactor, which tells the others and has their answer before the
//! caller has his: a reactor that looks at its copy afterwards sees the change.
//!
//! Each change is one `catalogue` record in lane 0, acknowledged when it is durable. What depends
//! on other lanes flushes all lanes first. A deleted volume's blocks are dead at once; its live
//! bits are cleared by a purge that may be interrupted and begun again: until it has finished and
//! a later checkpoint has committed, the catalogue says *deleting*.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::host::Hole;
use crate::limits::RETRY_PAUSE;
use crate::load::Stopped;
use crate::map::LeafCursor;
use crate::shared::{FIRST, Shared};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use varve_format::{CatalogueEntry, Name, Record, VOLUME_BLOCKS_MAX, VolumeState};
use varve_io::Flow;
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
    pub fn create_volume<'a>(
        &'a self,
        new: NewVolume<'a>,
    ) -> Flow<'a, Result<VolumeId, EngineError>> {
        Box::pin(async move {
            let name = Name::new(new.name).map_err(|_| EngineError::BadName)?;
            check_size(new.size)?;
            // The id is given where the catalogue is changed.
            let draft = CatalogueEntry {
                id: VolumeId(0),
                uuid: new.uuid,
                nguid: new.nguid,
                size: new.size,
                tenant: new.tenant,
                state: VolumeState::Present,
                parent: None,
                name,
            };
            let create = move |first: Rc<Shared>| async move { first.create_volume(draft).await };
            self.at_first(create).await
        })
    }

    /// Changes the catalogue where that is done.
    async fn at_first<T, Flow>(
        &self,
        change: impl FnOnce(Rc<Shared>) -> Flow + Send + 'static,
    ) -> Result<T, EngineError>
    where
        T: Send + 'static,
        Flow: Future<Output = Result<T, EngineError>> + 'static,
    {
        let outcome = self.shared.call(FIRST, change).await;
        outcome.map_err(|Stopped| EngineError::Stopped)?
    }

    /// Deletes a volume. Its blocks are gone when this returns; the space follows.
    ///
    /// # Errors
    /// Unknown volume, a stopped engine.
    pub fn delete_volume(&self, id: VolumeId) -> Flow<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let delete = move |first: Rc<Shared>| async move { first.delete_volume(id).await };
            self.at_first(delete).await
        })
    }

    /// Changes a volume's size. What a smaller volume loses is deallocated first, and what a larger
    /// one gains too: a checkpoint may have committed a smaller size whose deallocation a crash
    /// then took.
    ///
    /// # Errors
    /// Unknown volume, bad size, a stopped engine.
    pub fn resize_volume(&self, id: VolumeId, size: Blocks) -> Flow<'_, Result<(), EngineError>> {
        Box::pin(async move {
            check_size(size)?;
            let resize =
                move |first: Rc<Shared>| async move { first.resize_volume(id, size).await };
            self.at_first(resize).await
        })
    }

    /// All volumes that are present.
    #[must_use]
    pub fn volumes(&self) -> Vec<CatalogueEntry> {
        let mut entries = self.shared.volumes.borrow().entries();
        entries.retain(|entry| entry.state == VolumeState::Present);
        entries
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
    async fn create_volume(&self, draft: CatalogueEntry) -> Result<VolumeId, EngineError> {
        let _turn = self.catalogue_turn.take().await;
        let entry = self.new_entry(draft)?;
        self.volumes.borrow_mut().next_id = entry.id.0 + 1;
        self.log_entry(entry).await?;
        Ok(entry.id)
    }

    fn new_entry(&self, draft: CatalogueEntry) -> Result<CatalogueEntry, EngineError> {
        let volumes = self.volumes.borrow();
        let present = volumes.entries();
        if present.len() as u64 >= self.config.reserve.volumes_max {
            return Err(EngineError::TooManyVolumes);
        }
        if present
            .iter()
            .any(|entry| entry.name == draft.name && entry.state == VolumeState::Present)
        {
            return Err(EngineError::NameTaken);
        }
        let id = VolumeId(volumes.next_id.max(1));
        Ok(CatalogueEntry { id, ..draft })
    }

    async fn delete_volume(self: &Rc<Self>, id: VolumeId) -> Result<(), EngineError> {
        let _turn = self.catalogue_turn.take().await;
        let entry = CatalogueEntry {
            state: VolumeState::Deleting,
            ..self.present(id)?
        };
        self.withdraw(entry).await?;
        // Not before: one of those writes may be waiting for room, and would wait for this purge.
        self.begin_purge();
        self.log_entry(entry).await?;
        let shared = Rc::clone(self);
        self.spawn(async move { shared.purge(entry).await });
        Ok(())
    }

    async fn resize_volume(self: &Rc<Self>, id: VolumeId, size: Blocks) -> Result<(), EngineError> {
        let _turn = self.catalogue_turn.take().await;
        let present = self.present(id)?;
        let before = present.size;
        let entry = CatalogueEntry { size, ..present };
        self.refuse_hole()?;
        if size < before {
            self.withdraw(entry).await?;
        }
        if size != before {
            let (start, end) = (size.min(before), size.max(before));
            let between = Hole {
                volume: id,
                lba: Lba(start.0),
                blocks: (end - start).0,
                zero: false,
                is_resize: true,
            };
            self.punch(between).await?;
            self.flush_log().await.map_err(EngineError::Io)?;
        }
        self.log_entry(entry).await
    }

    /// The entry of a volume that is present.
    fn present(&self, id: VolumeId) -> Result<CatalogueEntry, EngineError> {
        let volumes = self.volumes.borrow();
        let volume = volumes
            .get(id)
            .filter(|v| v.entry.state == VolumeState::Present);
        volume
            .map(|volume| volume.entry)
            .ok_or(EngineError::NoSuchVolume(id))
    }

    /// Lets no new operation beyond what `entry` leaves of its volume begin, on any reactor, and
    /// waits for those that are in flight. Those that begin meanwhile keep to `entry`: a volume that
    /// becomes smaller is never without one.
    async fn withdraw(&self, entry: CatalogueEntry) -> Result<(), EngineError> {
        // All are told in one turn, so before the next checkpoint asks any of them anything: what it
        // frees because this volume is gone, no reactor takes for this volume's any more.
        self.volumes.borrow_mut().put(entry);
        self.tell_others(move |there| there.volumes.borrow_mut().put(entry));
        for to in self.reactors() {
            let withdraw = move |there: Rc<Self>| async move {
                let inflight = there.volumes.borrow_mut().part_inflight(entry.id);
                if let Some(inflight) = inflight {
                    inflight.drained().await;
                }
            };
            let done = self.call(to, withdraw).await;
            done.map_err(|Stopped| EngineError::Stopped)?;
        }
        Ok(())
    }

    /// Appends a catalogue record and makes it durable; then all reactors know it.
    async fn log_entry(&self, entry: CatalogueEntry) -> Result<(), EngineError> {
        let lane = self.shard();
        let record = Record::Catalogue {
            entry: Box::new(entry),
        };
        let appended = lane.append_meta(record, None).await;
        appended.map_err(|_| EngineError::Stopped)?;
        self.flush_log().await.map_err(EngineError::Io)?;
        for to in self.reactors().filter(|to| *to != self.reactor) {
            let note = move |there: Rc<Self>| async move {
                there.volumes.borrow_mut().note(entry);
            };
            let done = self.call(to, note).await;
            done.map_err(|Stopped| EngineError::Stopped)?;
        }
        Ok(())
    }

    /// Gives the other reactors the whole catalogue (recovery).
    pub(crate) async fn share_catalogue(&self) -> Result<(), Stopped> {
        let entries = self.volumes.borrow().entries();
        for to in self.reactors().filter(|to| *to != self.reactor) {
            let entries = entries.clone();
            let put = move |there: Rc<Self>| async move {
                let mut volumes = there.volumes.borrow_mut();
                entries.into_iter().for_each(|entry| volumes.put(entry));
            };
            self.call(to, put).await?;
        }
        Ok(())
    }

    async fn purge_all(&self, deleting: Vec<CatalogueEntry>) {
        for entry in deleting {
            self.purge(entry).await;
        }
        for to in self.reactors() {
            let list = |there: Rc<Self>| async move { there.shard().map.borrow().volumes() };
            let Ok(volumes) = self.call(to, list).await else {
                return;
            };
            for volume in volumes {
                if self.volumes.borrow().get(volume).is_none() {
                    self.purge_leaves(volume).await;
                }
            }
        }
    }

    /// Blocks of one more volume are to be given back: who lacks room waits for them.
    fn begin_purge(&self) {
        self.purges.fetch_add(1, Ordering::AcqRel);
    }

    /// Clears everything of a deleted volume, then strikes it from the catalogue.
    async fn purge(&self, entry: CatalogueEntry) {
        self.purge_leaves(entry.id).await;
        self.purges.fetch_sub(1, Ordering::AcqRel);
        self.purged.notify();
        self.tell_others(|there| there.purged.notify());
        if self.is_stopped() {
            return;
        }
        // The catalogue may forget the volume only after a checkpoint that began when nothing of
        // it was left.
        if !self.checkpoints_more(2).await {
            return;
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
        for to in self.reactors() {
            let purge = move |there: Rc<Self>| async move { there.purge_own(volume).await };
            if self.call(to, purge).await.is_err() {
                return;
            }
        }
    }

    /// Drops the leaves of a volume that this reactor owns.
    async fn purge_own(&self, volume: VolumeId) {
        let shard = self.shard();
        let mut from = LeafCursor::default();
        loop {
            let next = shard.map.borrow().volume_next(volume, from);
            let Some((key, after)) = next else { break };
            match shard.drop_leaf(key).await {
                Ok(()) => from = after,
                Err(EngineError::Io(_)) => self.world.sleep(RETRY_PAUSE).await,
                Err(_) => return,
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
