//! The catalogue in memory: volumes by id, with what is in flight on each.

use crate::error::EngineError;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use varve_format::{CatalogueEntry, VolumeState};
use varve_io::Event;
use varve_units::{Lba, TenantId, VolumeId};

/// One volume.
pub struct Volume {
    /// As the catalogue has it.
    pub entry: CatalogueEntry,
    /// Host operations in flight, but for those that a change of the catalogue waits for.
    inflight: Rc<Inflight>,
}

/// Host operations in flight on a volume.
#[derive(Default)]
pub struct Inflight {
    count: Cell<u64>,
    idle: Event,
}

impl Inflight {
    fn enter(self: &Rc<Self>) -> Entered {
        self.count.set(self.count.get() + 1);
        Entered(Rc::clone(self))
    }

    /// Waits until no operation is in flight.
    pub(crate) async fn drained(&self) {
        while self.count.get() > 0 {
            self.idle.listen().await;
        }
    }
}

/// One operation in flight; leaves when dropped.
pub(crate) struct Entered(Rc<Inflight>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        if self.0.count.get() == 0 {
            self.0.idle.notify();
        }
    }
}

/// All volumes of the pool.
#[derive(Default)]
pub struct Volumes {
    by_id: BTreeMap<VolumeId, Volume>,
    /// The id the next volume gets; ids are never used again.
    pub(crate) next_id: u64,
}

impl Volumes {
    /// Adds a volume or replaces its entry.
    pub(crate) fn put(&mut self, entry: CatalogueEntry) {
        let id = entry.id;
        self.next_id = self.next_id.max(id.0 + 1);
        match self.by_id.get_mut(&id) {
            Some(volume) => volume.entry = entry,
            None => {
                self.by_id.insert(
                    id,
                    Volume {
                        entry,
                        inflight: Rc::default(),
                    },
                );
            }
        }
    }

    /// What a catalogue record says: a new state, or that nothing is left but the id.
    pub(crate) fn note(&mut self, entry: CatalogueEntry) {
        if entry.state == VolumeState::Deleted {
            self.next_id = self.next_id.max(entry.id.0 + 1);
            self.by_id.remove(&entry.id);
        } else {
            self.put(entry);
        }
    }

    /// The volume of this id, in whatever state.
    pub(crate) fn get(&self, id: VolumeId) -> Option<&Volume> {
        self.by_id.get(&id)
    }

    /// True if blocks of this volume can be live.
    pub(crate) fn is_present(&self, id: VolumeId) -> bool {
        self.get(id)
            .is_some_and(|volume| volume.entry.state == VolumeState::Present)
    }

    /// True if this volume is being deleted: none of its blocks is live, leaves may still name them.
    pub(crate) fn is_deleting(&self, id: VolumeId) -> bool {
        self.get(id)
            .is_some_and(|volume| volume.entry.state == VolumeState::Deleting)
    }

    /// Tenants that have volumes, in whatever state, in no order; one with several comes several times.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = TenantId> + '_ {
        self.by_id.values().map(|volume| volume.entry.tenant)
    }

    /// All entries, by id.
    pub(crate) fn entries(&self) -> Vec<CatalogueEntry> {
        self.by_id.values().map(|volume| volume.entry).collect()
    }

    /// What is in flight on a volume; operations that begin later are counted apart from it, so that whoever waits for
    /// those of before waits for no others.
    pub(crate) fn part_inflight(&mut self, id: VolumeId) -> Option<Rc<Inflight>> {
        let volume = self.by_id.get_mut(&id)?;
        Some(core::mem::take(&mut volume.inflight))
    }

    /// What is in flight on each volume.
    pub(crate) fn inflight(&self) -> Vec<Rc<Inflight>> {
        let volumes = self.by_id.values();
        volumes.map(|volume| Rc::clone(&volume.inflight)).collect()
    }

    /// Checks a host's range and counts the operation in.
    pub(crate) fn enter(
        &self,
        id: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<Entered, EngineError> {
        let volume = self
            .get(id)
            .filter(|volume| volume.entry.state == VolumeState::Present);
        let volume = volume.ok_or(EngineError::NoSuchVolume(id))?;
        let size = volume.entry.size.0;
        if lba.0.checked_add(blocks).is_none_or(|end| end > size) {
            return Err(EngineError::OutOfRange { lba, blocks, size });
        }
        Ok(volume.inflight.enter())
    }
}
