//! Volumes: what was acknowledged survives a crash, and an identity never comes back.

use crate::checker::register::Register;
use crate::checker::{Change, Oracle, Ticket};
use varve_units::{Lba, TenantId, VolumeId};

/// Where a volume is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It exists.
    Live,
    /// Its end is moving to this many blocks.
    Resizing(u64),
    /// Its deletion is in flight.
    Deleting,
    /// It was deleted for good.
    Gone,
}

/// A volume as hosts know it.
pub struct Volume {
    /// One register per block.
    pub blocks: Vec<Register>,
    /// Where it is in its life.
    pub fate: Fate,
    /// Who owns it.
    pub tenant: TenantId,
}

impl Oracle {
    /// The creation of a volume of `size` blocks begins.
    pub fn begin_create(&mut self, size: u64, tenant: TenantId) {
        self.creating.push((size, tenant));
    }

    /// Creations in flight.
    #[must_use]
    pub const fn creating(&self) -> usize {
        self.creating.len()
    }

    /// The creation was refused.
    pub fn end_create_failed(&mut self, size: u64, tenant: TenantId) {
        self.take_creating(size, Some(tenant));
    }

    /// The creation was acknowledged.
    ///
    /// # Errors
    /// If the identity was used before.
    pub fn end_create(&mut self, id: VolumeId, size: u64, tenant: TenantId) -> Result<(), String> {
        self.take_creating(size, Some(tenant));
        self.adopt(id, size, tenant)
    }

    fn take_creating(&mut self, size: u64, tenant: Option<TenantId>) -> Option<TenantId> {
        let is_it = |entry: &(u64, TenantId)| {
            entry.0 == size && tenant.is_none_or(|tenant| tenant == entry.1)
        };
        let index = self.creating.iter().position(is_it)?;
        Some(self.creating.swap_remove(index).1)
    }

    fn adopt(&mut self, id: VolumeId, size: u64, tenant: TenantId) -> Result<(), String> {
        let moment = self.tick();
        let volume = Volume {
            blocks: vec![Register::new(moment); size as usize],
            fate: Fate::Live,
            tenant,
        };
        let before = self.volumes.insert(id, volume);
        self.recount();
        match before {
            None => Ok(()),
            Some(_) => Err(format!("the identity of {id} came back")),
        }
    }

    /// The deletion of a volume begins; nothing is outstanding on it.
    pub fn begin_delete(&mut self, id: VolumeId) {
        self.set_fate(id, Fate::Deleting);
    }

    /// The deletion was acknowledged.
    pub fn end_delete(&mut self, id: VolumeId) {
        self.set_fate(id, Fate::Gone);
        self.volumes.get_mut(&id).expect("just set").blocks = Vec::new();
        self.recount();
    }

    fn set_fate(&mut self, id: VolumeId, fate: Fate) {
        self.volumes
            .get_mut(&id)
            .expect("hosts use live volumes")
            .fate = fate;
    }

    /// A resize to `size` blocks begins; nothing is outstanding on the volume. What lies behind a
    /// nearer end is discarded with it.
    pub fn begin_resize(&mut self, id: VolumeId, size: u64) -> Ticket {
        let before = self.volumes[&id].blocks.len() as u64;
        self.set_fate(id, Fate::Resizing(size));
        let first = size.min(before);
        self.begin_write(id, Lba(first), before - first, Change::Resize)
    }

    /// The resize was acknowledged; it is durable.
    pub fn end_resize(&mut self, id: VolumeId, size: u64, ticket: Ticket) {
        self.end_write(ticket, true);
        self.set_size(id, size);
        self.set_fate(id, Fate::Live);
    }

    /// The resize failed: nothing changed.
    pub fn end_resize_failed(&mut self, id: VolumeId, ticket: Ticket) {
        self.end_failed(ticket);
        self.set_fate(id, Fate::Live);
    }

    fn set_size(&mut self, id: VolumeId, size: u64) {
        let moment = self.tick();
        let volume = self.volumes.get_mut(&id).expect("a live volume");
        volume.blocks.resize(size as usize, Register::new(moment));
        self.recount();
    }

    /// Holds the volumes found after a start against those that must or may exist.
    ///
    /// # Errors
    /// What is missing, wrong or too much, in words.
    pub fn check_volumes(&mut self, found: &[(VolumeId, u64)]) -> Result<(), String> {
        let expected: Vec<(VolumeId, Fate)> = self
            .volumes
            .iter()
            .map(|(&id, volume)| (id, volume.fate))
            .collect();
        for (id, fate) in expected {
            let size = found
                .iter()
                .find(|entry| entry.0 == id)
                .map(|entry| entry.1);
            self.check_volume(id, fate, size)?;
        }
        for &(id, size) in found {
            if !self.volumes.contains_key(&id) {
                let tenant = self.take_creating(size, None);
                let tenant =
                    tenant.ok_or_else(|| format!("{id} of {size} blocks was never created"))?;
                self.adopt(id, size, tenant)?;
            }
        }
        self.creating.clear();
        Ok(())
    }

    fn check_volume(&mut self, id: VolumeId, fate: Fate, size: Option<u64>) -> Result<(), String> {
        let known = self.volumes[&id].blocks.len() as u64;
        match (fate, size) {
            (Fate::Gone, None) => {}
            (Fate::Gone, Some(_)) => return Err(format!("{id} was deleted and is back")),
            (Fate::Deleting, None) => self.end_delete(id),
            (Fate::Live | Fate::Deleting, Some(size)) if size == known => {
                self.set_fate(id, Fate::Live);
            }
            (Fate::Resizing(new), Some(size)) if size == new || size == known => {
                self.set_size(id, size);
                self.set_fate(id, Fate::Live);
            }
            (Fate::Live | Fate::Resizing(_), None) => return Err(format!("{id} is missing")),
            (_, Some(size)) => {
                return Err(format!("{id} has {size} blocks instead of {known}"));
            }
        }
        Ok(())
    }

    /// The tenant of a live volume.
    #[must_use]
    pub fn tenant(&self, id: VolumeId) -> Option<TenantId> {
        let volume = self.volumes.get(&id)?;
        (volume.fate != Fate::Gone).then_some(volume.tenant)
    }
}
