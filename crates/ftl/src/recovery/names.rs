//! Groups that records behind the checkpoint name: they are in use, whatever its table says.

use crate::geometry::{Geometry, Tier};
use crate::placement::Writer;
use alloc::collections::BTreeMap;
use varve_format::Record;
use varve_units::{Ppa, VolumeId};

/// A group that records behind the checkpoint name.
#[derive(Clone, Copy)]
pub(super) struct NamedGroup {
    /// Behind the last block named.
    pub(super) end: u32,
    /// Of the first record that names it.
    pub(super) volume: VolumeId,
    /// Who wrote it.
    pub(super) by: Writer,
}

/// The groups that a lane's batches name, with the first batch that does, whatever the order in which
/// batches are looked at.
#[derive(Clone, Default)]
pub(super) struct GroupNames(BTreeMap<u32, (u64, NamedGroup)>);

impl GroupNames {
    /// Looks at the records of a batch.
    pub(super) fn note(&mut self, geometry: &Geometry, batch: u64, records: &[Record]) {
        let mut name = |ppa: Ppa, count: u64, volume: VolumeId, by: Writer| {
            let place = geometry.locate(ppa);
            let Some(place) = place.filter(|place| place.unit.tier == Tier::Dense) else {
                return;
            };
            let end = place.bit + count as u32;
            let group = NamedGroup { end, volume, by };
            let (first, known) = self.0.entry(place.unit.index).or_insert((batch, group));
            let end = end.max(known.end);
            if batch < *first {
                (*first, *known) = (batch, group);
            }
            known.end = end;
        };
        for record in records {
            match record {
                Record::External {
                    ppa, crcs, volume, ..
                } => name(*ppa, crcs.len() as u64, *volume, Writer::Compaction),
                Record::Move { items, volume, .. } => items.iter().for_each(|item| {
                    let by = Writer::of_moves_from(geometry, item.old);
                    name(item.new, 1, *volume, by);
                }),
                _ => {}
            }
        }
    }

    /// Adds what this lane names to what others do; whoever was first stays it.
    pub(super) fn add_to(&self, all: &mut BTreeMap<u32, NamedGroup>) {
        for (group, (_, named)) in &self.0 {
            let known = all.entry(*group).or_insert(*named);
            known.end = known.end.max(named.end);
        }
    }
}
