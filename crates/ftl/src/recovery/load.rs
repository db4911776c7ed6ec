//! From a commit's parts to slices (`slices`), units and catalogue.

use super::RecoverError;
use super::names::NamedGroup;
use super::walk::LaneWalk;
use crate::engine::Engine;
use crate::geometry::{BLOCK_SECTORS, Tier, UnitId};
use crate::load::Stopped;
use crate::shared::Shared;
use crate::units::{UnitRestore, UnitState};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use varve_format::{
    CatalogueEntry, ChunkEntry, ChunkState, CommitBody, CommitPlace, GroupEntry, GroupState,
    PartKind, PartPlace, UnitBits,
};
use varve_units::SliceId;

impl Engine {
    /// Loads what the commit names, and works out the state of every unit.
    pub(super) async fn load(
        &self,
        body: &CommitBody,
        place: CommitPlace,
        walks: &[LaneWalk],
    ) -> Result<(), RecoverError> {
        let shared = &self.shared;
        let mut bits = Vec::new();
        let mut slices: BTreeMap<SliceId, Vec<PartPlace>> = BTreeMap::new();
        let mut in_order = body.parts.clone();
        in_order.sort_by_key(|part| (part.checkpoint, part.index));
        for part in in_order {
            match part.kind {
                PartKind::SliceFull | PartKind::SliceDelta => {
                    slices.entry(part.slice).or_default().push(part);
                }
                PartKind::Bitmap => bits.push(part),
                PartKind::Groups | PartKind::Chunks | PartKind::Catalogue => {
                    self.load_table(&part).await?;
                }
            }
        }
        self.load_slices(body, slices).await?;
        shared.volumes.borrow_mut().next_id = body.next_volume;
        // The commit that ends this start says so once more.
        shared.has_narrow.store(body.has_narrow, Ordering::Relaxed);
        self.close_chunks(body);
        self.place_groups(body, walks);
        self.assume_live();
        for part in &bits {
            self.restore_bits(part).await?;
        }
        self.place_chunks(walks);
        self.list_free();
        let control = shared.control();
        control.checkpoint.set(body.checkpoint);
        control.set_parts(shared, body.parts.clone(), place);
        Ok(())
    }

    /// Loads a part of a unit table or of the catalogue.
    async fn load_table(&self, part: &PartPlace) -> Result<(), RecoverError> {
        let payload = self.shared.read_part(*part).await?;
        let sector = part.sector;
        let mismatch = RecoverError::PartMismatch { sector };
        match part.kind {
            PartKind::Groups => {
                let entries = GroupEntry::decode_part(&payload).map_err(|_| mismatch)?;
                self.load_groups(part, &entries).map_err(|()| mismatch)
            }
            PartKind::Chunks => {
                let entries = ChunkEntry::decode_part(&payload).map_err(|_| mismatch)?;
                self.load_chunks(part, &entries).map_err(|()| mismatch)
            }
            PartKind::Catalogue => {
                for entry in payload.chunks(varve_format::CATALOGUE_ENTRY_BYTES) {
                    let entry = CatalogueEntry::decode(entry).map_err(|_| mismatch)?;
                    self.shared.volumes.borrow_mut().put(entry);
                }
                Ok(())
            }
            PartKind::SliceFull | PartKind::SliceDelta | PartKind::Bitmap => Ok(()),
        }
    }

    fn load_groups(&self, part: &PartPlace, entries: &[GroupEntry]) -> Result<(), ()> {
        let units = &self.shared.units;
        let first = part.index as usize * varve_format::GROUPS_PER_PART;
        for (index, entry) in entries.iter().enumerate() {
            let group = (first + index) as u32;
            if group >= units.geometry().groups
                || entry.write_pointer > units.geometry().group_blocks
            {
                return Err(());
            }
            let state = match entry.state {
                GroupState::Free => UnitState::Free,
                GroupState::Retired => UnitState::Retired,
                GroupState::Opening | GroupState::Open => UnitState::Open,
                GroupState::Full | GroupState::Closing | GroupState::Closed => UnitState::Closed,
            };
            let restore = UnitRestore {
                state,
                generation: entry.generation,
                stamp: entry.stamp,
                write_pointer: appended(state, entry.write_pointer),
                is_resumed: entry.is_resumed,
            };
            units.restore(UnitId::group(group), &restore);
            units
                .unit(UnitId::group(group))
                .restore_narrow(entry.narrow);
            let control = self.shared.control();
            control.restore_group(&self.shared, group, entry);
        }
        Ok(())
    }

    fn load_chunks(&self, part: &PartPlace, entries: &[ChunkEntry]) -> Result<(), ()> {
        let units = &self.shared.units;
        let first = part.index as usize * varve_format::CHUNKS_PER_PART;
        for (index, entry) in entries.iter().enumerate() {
            let chunk = (first + index) as u32;
            let sectors = units.geometry().chunk_sectors();
            if chunk >= units.geometry().chunks || u64::from(entry.write_pointer) > sectors {
                return Err(());
            }
            let state = match entry.state {
                ChunkState::Free => UnitState::Free,
                ChunkState::Retired => UnitState::Retired,
                ChunkState::Open => UnitState::Open,
                ChunkState::Closed | ChunkState::Emptied => UnitState::Closed,
            };
            let restore = UnitRestore {
                state,
                generation: entry.generation,
                stamp: entry.stamp,
                write_pointer: appended(state, entry.write_pointer),
                is_resumed: false,
            };
            units.restore(UnitId::chunk(chunk), &restore);
        }
        Ok(())
    }

    /// Chunks that were open at the checkpoint are used as far as redo does not tell: what the table says
    /// of them may cover batches that the crash took.
    fn close_chunks(&self, body: &CommitBody) {
        let units = &self.shared.units;
        for id in units.ids(Tier::Fast) {
            if units.unit(id).state() == UnitState::Open {
                let start = units.geometry().chunk_start(id.index);
                let at = body
                    .lanes
                    .iter()
                    .find(|position| position.chunk == id.index);
                let restore = UnitRestore {
                    state: UnitState::Closed,
                    generation: units.unit(id).generation(),
                    stamp: units.unit(id).stamp(),
                    write_pointer: at.map_or(0, |position| (position.sector - start) as u32),
                    is_resumed: false,
                };
                units.restore(id, &restore);
            }
        }
    }

    /// Chunks of the redo range are in use, whatever the table says, as far as their lane was followed.
    /// What is live in them redo tells.
    fn place_chunks(&self, walks: &[LaneWalk]) {
        let units = &self.shared.units;
        for (chunk, (header, used)) in walks.iter().flat_map(|walk| &walk.chunks) {
            let id = UnitId::chunk(*chunk);
            let known = units.unit(id).write_pointer();
            let restore = UnitRestore {
                state: UnitState::Closed,
                generation: header.generation,
                stamp: header.stamp,
                write_pointer: match units.unit(id).state() {
                    UnitState::Free => *used,
                    _ => known.max(*used),
                },
                is_resumed: false,
            };
            units.restore(id, &restore);
            units.unit(id).note_undumped();
        }
    }

    /// Chunks that hold nothing of worth are freed by the checkpoint that ends this start: pools
    /// that start again and again get back what each start takes.
    pub(super) fn empty_dead_chunks(&self, walks: &[LaneWalk]) {
        let shared = &self.shared;
        let control = shared.control();
        let is_walked = |chunk: u32| walks.iter().any(|walk| walk.chunks.contains_key(&chunk));
        for id in shared.units.ids(Tier::Fast) {
            let unit = shared.units.unit(id);
            if unit.state() == UnitState::Closed
                && unit.live() == 0
                && unit.leaves() == 0
                && !control.holds_parts(id.index)
                && !is_walked(id.index)
            {
                control.emptied(shared, id);
            }
        }
    }

    /// Groups that records behind the checkpoint name are in use, up to the stripe named last.
    /// One that the table calls free was opened since: its stamp lies above the table's, and below
    /// every reference to it, so the table's stamp serves (review A1).
    fn place_groups(&self, body: &CommitBody, walks: &[LaneWalk]) {
        let units = &self.shared.units;
        for (group, named) in self.named_groups(walks) {
            let id = UnitId::group(group);
            let unit = units.unit(id);
            let geometry = units.geometry();
            let end = named.end.min(geometry.group_blocks);
            let end = end.next_multiple_of(geometry.stripe_blocks);
            let mut restore = UnitRestore {
                state: unit.state(),
                generation: unit.generation(),
                stamp: unit.stamp(),
                write_pointer: unit.write_pointer().max(end),
                is_resumed: unit.is_resumed(),
            };
            if unit.state() == UnitState::Free {
                restore.state = UnitState::Open;
                restore.stamp = body.table_stamp;
                restore.write_pointer = end;
                let control = self.shared.control();
                control.open_groups.found(group, named.by, named.volume);
            }
            // Of what was written since the table nobody has told how wide it is.
            let narrow = unit.narrow().filter(|_| end <= unit.write_pointer());
            units.restore(id, &restore);
            unit.restore_narrow(narrow);
        }
    }

    /// Groups that the redo range names.
    fn named_groups(&self, walks: &[LaneWalk]) -> BTreeMap<u32, NamedGroup> {
        let geometry = self.shared.units.geometry();
        let mut named = BTreeMap::new();
        for walk in walks {
            let mut names = walk.names.clone();
            for found in &walk.found {
                let records = found.records.as_deref().unwrap_or_default();
                names.note(geometry, found.head.sequence, records);
            }
            names.add_to(&mut named);
        }
        named
    }

    /// Until its live bits are read, everything in a used unit is perhaps live.
    fn assume_live(&self) {
        let units = &self.shared.units;
        for tier in [Tier::Fast, Tier::Dense] {
            for id in units.ids(tier) {
                if units.unit(id).state() != UnitState::Free {
                    units.assume_live(id);
                }
            }
        }
    }

    /// Loads a part with live bits. Parts come oldest first: of dumps of one use of a unit the
    /// newest knows all that the older ones do. They are taken one by one, for together they are
    /// as large as the bits themselves.
    async fn restore_bits(&self, part: &PartPlace) -> Result<(), RecoverError> {
        let payload = self.shared.read_part(*part).await?;
        let sector = part.sector;
        let mismatch = RecoverError::PartMismatch { sector };
        let units = &self.shared.units;
        for dump in UnitBits::decode_part(&payload).map_err(|_| mismatch)? {
            let (id, count) = match dump.tier {
                varve_format::Tier::Fast => (UnitId::chunk(dump.unit), units.geometry().chunks),
                varve_format::Tier::Dense => (UnitId::group(dump.unit), units.geometry().groups),
            };
            if dump.unit >= count {
                return Err(mismatch);
            }
            let unit = units.unit(id);
            if unit.state() == UnitState::Free || unit.generation() != dump.generation {
                continue;
            }
            let known = match id.tier {
                Tier::Fast => dump.write_pointer / BLOCK_SECTORS as u32,
                Tier::Dense => dump.write_pointer,
            };
            units.restore_run(id, dump.first_word, &dump.words, known);
        }
        Ok(())
    }

    fn list_free(&self) {
        let units = &self.shared.units;
        for tier in [Tier::Fast, Tier::Dense] {
            for id in units.ids(tier) {
                if units.unit(id).state() == UnitState::Free {
                    // Whatever a start that was cut short wrote there is of another generation.
                    units.renew(id);
                    self.shared.control().add_free(id);
                }
            }
        }
    }
    /// Counts the live leaves of every chunk.
    pub(crate) async fn count_leaves(&self) -> Result<(), Stopped> {
        for to in self.shared.reactors() {
            let count = |there: Rc<Shared>| async move {
                let shard = there.shard();
                shard.leaves_counted.set(true);
                let map = shard.map.borrow();
                for sector in map.stored_sectors() {
                    shard.count_leaf(None, Some(sector));
                }
                drop(map);
                shard.show_used();
            };
            self.shared.call(to, count).await?;
        }
        Ok(())
    }
}

/// Write pointer of a unit: the checkpoint that frees one still has what it had in use.
fn appended(state: UnitState, listed: u32) -> u32 {
    if state == UnitState::Free { 0 } else { listed }
}
