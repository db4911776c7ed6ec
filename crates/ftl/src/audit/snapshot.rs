//! Every reference of the map at one turn, in order of place.

use super::leaves::Images;
use super::{AuditError, AuditReport, Mapped, shards};
use crate::geometry::{BLOCK_SECTORS, Place, Tier, UnitId};
use crate::map::{LeafKey, Map, Survey};
use crate::shared::Shared;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use varve_format::LEAF_BYTES;
use varve_units::{BLOCK_BYTES, Generation, Lsn, Ppa, SECTOR_BYTES};

/// One mapped block.
#[derive(Clone, Copy)]
pub(super) struct Reference {
    pub(super) at: Mapped,
    pub(super) place: Place,
    pub(super) crc24: u32,
    since: Lsn,
}

/// The map at one turn.
#[derive(Default)]
pub(super) struct Snapshot {
    /// Mapped blocks of present volumes, by unit and offset.
    pub(super) references: Vec<Reference>,
    /// Generation of each unit that has any.
    pub(super) generations: BTreeMap<UnitId, Generation>,
    leaves: u64,
    lost: u64,
    deltas: u64,
}

impl Snapshot {
    /// Works out all leaves; `images` holds what is stored of them.
    pub(super) fn take(shared: &Shared, images: &Images) -> Result<Self, AuditError> {
        let mut snapshot = Self::default();
        for shard in shards(shared)? {
            let map = shard.map.borrow();
            snapshot.deltas += map.deltas() as u64;
            for key in map.keys() {
                if shared.volumes.borrow().is_present(key.volume) {
                    snapshot.add_leaf(shared, &map, key, images)?;
                }
            }
        }
        let references = &mut snapshot.references;
        references.sort_unstable_by_key(|one| (one.place.unit, one.place.offset));
        for unit in references.iter().map(|one| one.place.unit) {
            let generation = shared.units.unit(unit).generation();
            snapshot.generations.insert(unit, generation);
        }
        snapshot.check_places(shared)?;
        Ok(snapshot)
    }

    fn add_leaf(
        &mut self,
        shared: &Shared,
        map: &Map,
        key: LeafKey,
        images: &Images,
    ) -> Result<(), AuditError> {
        check_stored(shared, map, key)?;
        let read = map
            .base(key)
            .and_then(|base| Some((base, images.image(key, base)?)));
        // The images were read until this very turn found nothing missing.
        let survey = map.survey(key, read).map_err(|_| AuditError::Unsettled)?;
        if let Some((index, found)) = survey.differs {
            return Err(AuditError::CacheDisagrees {
                volume: key.volume,
                lba: key.leaf.block(usize::from(index)),
                expected: survey.entries[usize::from(index)].0,
                found,
            });
        }
        self.leaves += 1;
        self.add_entries(shared, key, &survey)
    }

    fn add_entries(
        &mut self,
        shared: &Shared,
        key: LeafKey,
        survey: &Survey,
    ) -> Result<(), AuditError> {
        for (index, (entry, since)) in survey.entries.iter().enumerate() {
            let (volume, lba) = (key.volume, key.leaf.block(index));
            let ppa = entry.ppa();
            self.lost += u64::from(ppa == Ppa::LOST);
            if !ppa.is_place() {
                continue;
            }
            let place = shared.units.geometry().locate(ppa);
            let place = place.ok_or(AuditError::NoSuchPlace { volume, lba, ppa })?;
            let unit = place.unit;
            self.references.push(Reference {
                at: Mapped {
                    volume,
                    lba,
                    ppa,
                    unit,
                },
                place,
                crc24: entry.crc24(),
                since: *since,
            });
        }
        Ok(())
    }

    /// No two references overlap; each lies in what its unit's present use has appended, and its
    /// bit is set.
    pub(super) fn check_places(&self, shared: &Shared) -> Result<(), AuditError> {
        for pair in self.references.windows(2) {
            let [one, next] = pair else { continue };
            if one.place.unit == next.place.unit
                && one.place.offset + BLOCK_BYTES > next.place.offset
            {
                return Err(AuditError::PlaceShared {
                    at: one.at,
                    other: next.at,
                });
            }
        }
        let mut each = self.references.iter();
        each.try_for_each(|reference| reference.check(shared))
    }

    /// What is known without reading media.
    pub(super) fn report(&self) -> AuditReport {
        let of = |tier| {
            let mut tiers = self.references.iter().map(|one| one.place.unit.tier);
            tiers.by_ref().filter(|found| *found == tier).count() as u64
        };
        AuditReport {
            leaves: self.leaves,
            mapped: self.references.len() as u64,
            fast: of(Tier::Fast),
            dense: of(Tier::Dense),
            lost: self.lost,
            deltas: self.deltas,
            ..AuditReport::default()
        }
    }
}

impl Reference {
    fn check(&self, shared: &Shared) -> Result<(), AuditError> {
        let Self {
            at, place, since, ..
        } = *self;
        let unit = shared.units.unit(place.unit);
        let state = unit.state();
        if !super::table::is_in_use(state) {
            return Err(AuditError::PlaceNotInUse { at, state });
        }
        if !unit.is_set(place.bit) {
            let bit = place.bit;
            return Err(AuditError::LiveBitClear { at, bit });
        }
        let geometry = shared.units.geometry();
        let end = match place.unit.tier {
            Tier::Fast => {
                let start = geometry.chunk_start(place.unit.index);
                (place.offset / SECTOR_BYTES - start + BLOCK_SECTORS) as u32
            }
            Tier::Dense => place.bit + 1,
        };
        let write_pointer = unit.write_pointer();
        if end > write_pointer {
            return Err(AuditError::PlaceBeyondPointer {
                at,
                end,
                write_pointer,
            });
        }
        if !shared.units.is_current(&place, since) {
            let stamp = unit.stamp();
            return Err(AuditError::ReferenceOlderThanStamp { at, stamp, since });
        }
        Ok(())
    }
}

/// A leaf's stored image lies in what a chunk in use has appended.
fn check_stored(shared: &Shared, map: &Map, key: LeafKey) -> Result<(), AuditError> {
    let Some(base) = map.stored(key) else {
        return Ok(());
    };
    let (volume, leaf) = (key.volume, key.leaf);
    let geometry = shared.units.geometry();
    let id = UnitId::chunk(geometry.chunk_of(base.sector));
    let unit = shared.units.unit(id);
    let state = unit.state();
    if !super::table::is_in_use(state) {
        return Err(AuditError::LeafNotInUse {
            volume,
            leaf,
            unit: id,
            state,
        });
    }
    let from = base.sector - geometry.chunk_start(id.index);
    let end = (from + LEAF_BYTES as u64 / SECTOR_BYTES) as u32;
    let write_pointer = unit.write_pointer();
    if end > write_pointer {
        return Err(AuditError::LeafBeyondPointer {
            volume,
            leaf,
            unit: id,
            end,
            write_pointer,
        });
    }
    Ok(())
}
