//! Volumes: what was acknowledged survives a crash, and an identity never comes back.

use crate::checker::register::Register;
use crate::checker::{Change, Oracle, Ticket};
use crate::fingerprint::mix;
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

/// What a volume is called and whose it is, as it was created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naming {
    /// Its owner.
    pub tenant: TenantId,
    /// What its owner calls it.
    pub name: String,
    /// UUID that hosts see.
    pub uuid: [u8; 16],
    /// NGUID that hosts see.
    pub nguid: [u8; 16],
}

impl Naming {
    /// That of creation `number` of a seed; no two are alike in anything but the tenant.
    #[must_use]
    pub fn new(seed: u64, number: u64, tenant: TenantId) -> Self {
        let id = |kind: u64| {
            let words = [mix(seed ^ kind), mix(number ^ kind << 32)];
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&words[0].to_le_bytes());
            bytes[8..].copy_from_slice(&words[1].to_le_bytes());
            bytes
        };
        Self {
            tenant,
            name: format!("v{seed}-{number}"),
            uuid: id(1),
            nguid: id(2),
        }
    }
}

/// A volume as a start of the pool found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its number.
    pub id: VolumeId,
    /// Its size in blocks.
    pub size: u64,
    /// What it is called, if such a pool keeps that.
    pub identity: Option<Naming>,
}

/// A volume as hosts know it.
pub struct Volume {
    /// One register per block.
    pub blocks: Vec<Register>,
    /// Where it is in its life.
    pub fate: Fate,
    /// What it was created as.
    pub identity: Naming,
}

impl Oracle {
    /// The creation of a volume of `size` blocks begins; what it is to be.
    pub fn begin_create(&mut self, size: u64, tenant: TenantId) -> Naming {
        self.created += 1;
        let identity = Naming::new(self.seed, self.created, tenant);
        self.creating.push((size, identity.clone()));
        identity
    }

    /// Creations in flight.
    #[must_use]
    pub const fn creating(&self) -> usize {
        self.creating.len()
    }

    /// The creation was refused.
    pub fn end_create_failed(&mut self, identity: &Naming) {
        self.take_creating(|entry| entry.1 == *identity);
    }

    /// The creation was acknowledged.
    ///
    /// # Errors
    /// If the number was used before.
    pub fn end_create(&mut self, id: VolumeId, identity: &Naming) -> Result<(), String> {
        let taken = self.take_creating(|entry| entry.1 == *identity);
        let (size, identity) = taken.expect("a creation in flight");
        self.adopt(id, size, identity)
    }

    fn take_creating(
        &mut self,
        is_it: impl FnMut(&(u64, Naming)) -> bool,
    ) -> Option<(u64, Naming)> {
        let index = self.creating.iter().position(is_it)?;
        Some(self.creating.swap_remove(index))
    }

    fn adopt(&mut self, id: VolumeId, size: u64, identity: Naming) -> Result<(), String> {
        let moment = self.tick();
        let volume = Volume {
            blocks: vec![Register::new(moment); size as usize],
            fate: Fate::Live,
            identity,
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
    pub fn check_volumes(&mut self, found: &[Found]) -> Result<(), String> {
        let expected: Vec<(VolumeId, Fate)> = self
            .volumes
            .iter()
            .map(|(&id, volume)| (id, volume.fate))
            .collect();
        for (id, fate) in expected {
            let size = found
                .iter()
                .find(|entry| entry.id == id)
                .map(|entry| entry.size);
            self.check_volume(id, fate, size)?;
        }
        for Found { id, size, identity } in found {
            if !self.volumes.contains_key(id) {
                let taken = self.take_creating(|entry| {
                    let is_named = identity.as_ref().is_none_or(|found| *found == entry.1);
                    entry.0 == *size && is_named
                });
                let (size, created) =
                    taken.ok_or_else(|| format!("{id} of {size} blocks was never created"))?;
                self.adopt(*id, size, created)?;
            }
            let known = &self.volumes[id].identity;
            if let Some(identity) = identity
                && identity != known
            {
                return Err(format!("{id} is {identity:?}, was created as {known:?}"));
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
        (volume.fate != Fate::Gone).then_some(volume.identity.tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Records;

    /// A volume that comes back under another name, or of another tenant, is told; so is a creation in flight that
    /// is not as it was asked for.
    #[test]
    fn volumes_are_what_they_were_created_as() {
        let records = Records {
            blocks: 8,
            are_in_order: true,
        };
        let mut oracle = Oracle::new(1, true, records);
        let first = oracle.begin_create(8, TenantId(1));
        let id = VolumeId(1);
        oracle.end_create(id, &first).expect("a new number");
        let found = |id, identity: &Naming| Found {
            id,
            size: 8,
            identity: Some(identity.clone()),
        };
        assert_eq!(oracle.check_volumes(&[found(id, &first)]), Ok(()));
        let second = oracle.begin_create(8, TenantId(1));
        let other = Naming {
            tenant: TenantId(2),
            ..first.clone()
        };
        assert!(oracle.check_volumes(&[found(id, &other)]).is_err());
        assert!(oracle.check_volumes(&[found(id, &second)]).is_err());
        let both = |identity| [found(id, &first), found(VolumeId(2), identity)];
        assert!(oracle.check_volumes(&both(&other)).is_err());
        assert_eq!(oracle.check_volumes(&both(&second)), Ok(()));
    }
}
