//! Checkpoints: changes since the last one, the full state of some slices in turn, one commit.
//!
//! 1. Note each lane's redo position and take the list of emptied units.
//! 2. Cut every slice (delta; full for the slices whose turn it is) and append the parts.
//! 3. Append bitmaps (those whose turn it is), unit tables and the catalogue, in lane 0.
//! 4. Flush. 5. Append the commit record in lane 0, flush. 6. Free what was emptied before 1.
//!
//! Runs on the first reactor; the others are asked for positions and for what they cut.
//!
//! **Invariant**: a commit is found by a start only if everything it names was flushed before it
//! was appended.

use crate::config::Canary;
use crate::geometry::{Tier, UnitId};
use crate::load::{Appended, Stopped};
use crate::shared::{FIRST, Shared};
use crate::units::UnitState;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use varve_format::{
    CATALOGUE_ENTRY_BYTES, CHUNKS_PER_PART, ChunkEntry, ChunkState, CommitBody, CommitPlace,
    GROUPS_PER_PART, GroupEntry, GroupState, LanePosition, PART_BYTES_MAX, PartKind, PartPayload,
    PartPlace, Record, UNIT_BITS_HEAD_BYTES, UnitBitsPlace, crc32c,
};
use varve_io::Receiver;
use varve_units::{Generation, LaneId, Lsn, Nanos, SliceId, TenantId};

/// Bitmap words of one unit in one run at most: a run fits a part.
const BITMAP_WORDS: usize = (PART_BYTES_MAX - UNIT_BITS_HEAD_BYTES) / 8;

/// Runs for which memory is taken at once. Arbitrary: more grows by doubling.
const BITMAP_RUNS: usize = 64;

/// What a checkpoint holds beyond the changes since the last one.
#[derive(Clone, Copy)]
struct Extent {
    /// The full state of every slice and the bits of every unit.
    everything: bool,
    /// The bits of every unit in which some changed, so that a start from this checkpoint brings
    /// none of them back.
    changed_bits: bool,
}

/// Slices of one reactor cut in one call at most. Arbitrary: all of a small pool.
const SLICES_AT_ONCE: usize = 16;

/// A part appended and not yet acknowledged.
struct PartInFlight {
    place: PartPlace,
    appended: Receiver<Result<Appended, Stopped>>,
}

impl Shared {
    /// Takes checkpoints when enough was logged, when space waits for one, when asked.
    pub(crate) async fn run_checkpointer(self: Rc<Self>) {
        let control = self.control();
        while !self.is_stopped() {
            // What is told during a checkpoint nobody hears: looked at once more before this waits.
            let woken = control.checkpoint_wanted.listen();
            self.hear_of_checkpoints();
            if !self.checkpoint_is_wanted() {
                woken.await;
            } else if self.take_checkpoint().await.is_err() {
                return;
            }
        }
    }

    /// Waits until `count` more checkpoints have committed than when this was called, the last one
    /// with all bits that changed, on the first reactor. False if the engine stopped first.
    pub(crate) async fn checkpoints_more(&self, count: u64) -> bool {
        let control = self.control();
        let target = control.checkpoint.get() + count;
        while control.checkpoint.get() < target {
            if self.is_stopped() {
                return false;
            }
            control.ask_exact_checkpoint();
            control.committed.listen().await;
        }
        true
    }

    fn checkpoint_is_wanted(&self) -> bool {
        let control = self.control();
        let asked = control.take_checkpoint_asked();
        asked || self.is_checkpoint_due() || control.is_freeing_due(self)
    }

    /// Takes one checkpoint and frees what it makes free.
    pub(crate) async fn take_checkpoint(&self) -> Result<(), Stopped> {
        assert_eq!(
            self.reactor, FIRST,
            "checkpoints are taken by the first reactor"
        );
        let control = self.control();
        let number = control.checkpoint.get() + 1;
        control.is_checkpointing.set(true);
        let emptied = control.take_emptied(self);
        let extent = Extent {
            everything: self.must_dump_everything(),
            changed_bits: control.take_bits_asked(),
        };
        let everything = extent.everything;
        if self.config.is_planted(Canary::FreeBeforeCommit) {
            control.free(self, emptied.clone());
        }
        self.log_records.store(0, Ordering::Relaxed);
        self.log_bytes.store(0, Ordering::Relaxed);
        let lanes = self.lane_positions().await?;
        let (mut parts, cuts) = self.cut_slices(number, everything).await?;
        let table_stamp = self.draw_stamp();
        let freed = emptied.iter().copied().collect();
        parts.extend(self.dump_tables(number, extent, &freed).await?);
        let bits_stamp = self.draw_stamp();
        self.flush_log().await.map_err(|_| Stopped)?;
        let parts = self.parts_in_window(number, everything, parts);
        let body = CommitBody {
            checkpoint: number,
            epoch: self.identity.epoch,
            window: self.config.window,
            lanes,
            cuts,
            table_stamp,
            bits_stamp,
            next_volume: self.volumes.borrow().next_id,
            has_narrow: self.wants_narrow(),
            parts: parts.clone(),
        };
        let place = self.append_commit(number, &body).await?;
        self.flush_log().await.map_err(|_| Stopped)?;
        self.note_narrow(&body);
        control.checkpoint.set(number);
        control.set_parts(self, parts, place);
        if everything || self.config.window == 1 {
            control.pinned_by_whole.set(control.chunks_with_parts());
        }
        let first = self.shard();
        first.lane.borrow_mut().release();
        first.pump.notify();
        self.count("checkpoints", 1);
        if !self.config.is_planted(Canary::FreeBeforeCommit) {
            control.free(self, emptied);
        }
        control.is_checkpointing.set(false);
        control.committed.notify();
        control.cleaner_wanted.notify();
        for to in self.reactors() {
            let begin = |there: Rc<Self>| async move { there.shard().begin_aging() };
            self.call(to, begin).await?;
        }
        Ok(())
    }

    /// Where redo begins in each lane. No chunk may lie before that and be called open by the
    /// table: a start would take it for one that was opened and never written. What a lane hands
    /// back is told before its position.
    async fn lane_positions(&self) -> Result<Vec<LanePosition>, Stopped> {
        let mut lanes = Vec::new();
        for to in self.reactors() {
            let position = |there: Rc<Self>| async move {
                let shard = there.shard();
                shard.hand_back_closed();
                shard.lane.borrow().position()
            };
            lanes.push(self.call(to, position).await?);
        }
        Ok(lanes)
    }

    /// Cuts every slice and appends its parts: some slices of each reactor at a time, so that what is
    /// cut and not yet appended is bounded, and a reactor is called seldom.
    async fn cut_slices(
        &self,
        number: u64,
        everything: bool,
    ) -> Result<(Vec<PartPlace>, Vec<Lsn>), Stopped> {
        let slices = usize::from(self.units.geometry().slices);
        let mut cuts = alloc::vec![Lsn::ZERO; slices];
        let mut places = Vec::new();
        let step = SLICES_AT_ONCE * usize::from(self.config.owners());
        for first in (0..slices).step_by(step) {
            let span = first..slices.min(first + step);
            for owner in self.config.owning() {
                let span = span.clone();
                let cut =
                    move |there: Rc<Self>| async move { there.cut_own(span, number, everything) };
                let mut inflight = Vec::new();
                for (slice, payloads, cut) in self.call(owner, cut).await? {
                    cuts[usize::from(slice.0)] = cut;
                    let full = everything || self.is_full_turn(number, u64::from(slice.0));
                    let kind = if full {
                        PartKind::SliceFull
                    } else {
                        PartKind::SliceDelta
                    };
                    for (index, payload) in payloads.into_iter().enumerate() {
                        inflight.push(self.append_part(number, kind, slice, index, payload));
                    }
                }
                places.extend(settle(inflight).await?);
            }
        }
        Ok((places, cuts))
    }

    /// Cuts those slices of a span that this reactor owns.
    fn cut_own(
        &self,
        span: core::ops::Range<usize>,
        number: u64,
        everything: bool,
    ) -> Vec<(SliceId, Vec<PartPayload>, Lsn)> {
        let shard = self.shard();
        let all = span.map(|slice| SliceId(slice as u16));
        let own = all.filter(|slice| self.owner_of(*slice) == self.reactor);
        let cuts = own.map(|slice| {
            let full = everything || self.is_full_turn(number, u64::from(slice.0));
            let (payloads, cut) = shard.map.borrow_mut().cut(slice, full);
            (slice, payloads, cut)
        });
        let cuts = cuts.collect();
        shard.show_used();
        cuts
    }

    /// True if this checkpoint should hold the whole state: parts of earlier ones keep too many
    /// chunks from being cleaned (starts in quick succession pin a chunk each).
    pub(crate) fn must_dump_everything(&self) -> bool {
        self.control().chunks_with_parts() * 8 >= self.units.geometry().chunks as usize
    }

    /// True if the turn of this slice (or unit) to be dumped in full is at this checkpoint.
    fn is_full_turn(&self, number: u64, index: u64) -> bool {
        let window = u64::from(self.config.window);
        number % window == index % window
    }

    fn append_part(
        &self,
        number: u64,
        kind: PartKind,
        slice: SliceId,
        index: usize,
        payload: PartPayload,
    ) -> PartInFlight {
        let bytes = payload.bytes();
        assert!(bytes.len() <= PART_BYTES_MAX, "a part fits its limit");
        let place = PartPlace {
            checkpoint: number,
            kind,
            slice,
            index: index as u32,
            sector: 0,
            bytes: bytes.len() as u32,
            crc: crc32c(bytes),
        };
        let record = Record::Part {
            checkpoint: number,
            kind,
            slice,
            index: place.index,
            bytes: place.bytes,
            crc: place.crc,
        };
        // All parts go to lane 0: a start then opens, and pins, as few chunks as can be.
        let lane = self.shard();
        let appended = lane.append_meta(record, Some(payload.into_sectors()));
        PartInFlight { place, appended }
    }

    /// Appends bitmaps, unit tables and the catalogue in lane 0.
    async fn dump_tables(
        &self,
        number: u64,
        extent: Extent,
        emptied: &BTreeSet<UnitId>,
    ) -> Result<Vec<PartPlace>, Stopped> {
        let mut places = Vec::new();
        // Bits before tables: another reactor may append between the two, and bits that claim more than
        // their table would call what is written there after a start dead.
        let bitmaps = self.bitmaps(number, extent);
        let chunks = self.chunk_entries(emptied);
        let groups = self.group_entries(emptied);
        let tables = [
            (PartKind::Bitmap, bitmaps),
            (
                PartKind::Chunks,
                chunks
                    .chunks(CHUNKS_PER_PART)
                    .map(ChunkEntry::encode_part)
                    .collect(),
            ),
            (
                PartKind::Groups,
                groups
                    .chunks(GROUPS_PER_PART)
                    .map(GroupEntry::encode_part)
                    .collect(),
            ),
            (PartKind::Catalogue, self.catalogue()),
        ];
        for (kind, payloads) in tables {
            let mut inflight = Vec::new();
            for (index, payload) in payloads.iter().enumerate() {
                let payload = PartPayload::new(payload, self.world.supply());
                inflight.push(self.append_part(number, kind, SliceId(0), index, payload));
            }
            places.extend(settle(inflight).await?);
        }
        Ok(places)
    }

    /// Bitmaps of the units whose turn it is, of chunks that are open or were since the last checkpoint, and
    /// of what changed if that is asked for, in payloads of parts.
    fn bitmaps(&self, number: u64, extent: Extent) -> Vec<Vec<u8>> {
        let units = self
            .units
            .ids(Tier::Fast)
            .chain(self.units.ids(Tier::Dense));
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        for id in units {
            let unit = self.units.unit(id);
            let used = !matches!(
                unit.state(),
                UnitState::Free | UnitState::Emptied | UnitState::Retired
            );
            if !used {
                continue;
            }
            // Groups are long, and fill up: what is appended to one is live for a while.
            let is_new = id.tier == Tier::Fast && unit.take_undumped();
            let is_due = extent.everything || self.is_full_turn(number, u64::from(id.index));
            let turn = is_due || is_new;
            if !turn && !extent.changed_bits {
                continue;
            }
            // What changes from here on is noted for the next dump.
            if !unit.take_changed() && !turn {
                continue;
            }
            // The write pointer is read before the bits: a bit that is set later lies above it.
            let (generation, write_pointer) = (unit.generation(), unit.write_pointer());
            for (run, words) in unit.runs_of_words(BITMAP_WORDS).enumerate() {
                let place = UnitBitsPlace {
                    tier: id.tier.code(),
                    unit: id.index,
                    generation,
                    write_pointer,
                    first_word: (run * BITMAP_WORDS) as u32,
                };
                let bytes = UnitBitsPlace::encoded_bytes(words.len());
                let room = |payload: &Vec<u8>| payload.len() + bytes <= PART_BYTES_MAX;
                if !payloads.last().is_some_and(room) {
                    payloads.push(Vec::with_capacity(PART_BYTES_MAX.min(bytes * BITMAP_RUNS)));
                }
                place.encode_into(words, payloads.last_mut().expect("just pushed"));
            }
        }
        payloads
    }

    /// The catalogue, in payloads of parts.
    fn catalogue(&self) -> Vec<Vec<u8>> {
        let entries = self.volumes.borrow().entries();
        entries
            .chunks(PART_BYTES_MAX / CATALOGUE_ENTRY_BYTES)
            .map(|part| {
                part.iter()
                    .flat_map(varve_format::CatalogueEntry::encode)
                    .collect()
            })
            .collect()
    }

    fn chunk_entries(&self, emptied: &BTreeSet<UnitId>) -> Vec<ChunkEntry> {
        let entry = |id: UnitId| {
            let unit = self.units.unit(id);
            let state = unit.state();
            let freed = state == UnitState::Emptied && emptied.contains(&id);
            ChunkEntry {
                state: match state {
                    UnitState::Free => ChunkState::Free,
                    UnitState::Emptied if freed && self.control().is_retiring(id) => {
                        ChunkState::Retired
                    }
                    UnitState::Emptied if freed => ChunkState::Free,
                    UnitState::Open => ChunkState::Open,
                    UnitState::Closed | UnitState::Cleaning | UnitState::Emptied => {
                        ChunkState::Closed
                    }
                    UnitState::Retired => ChunkState::Retired,
                },
                lane: LaneId(0),
                generation: after_free(unit.generation(), freed),
                stamp: unit.stamp(),
                write_pointer: unit.write_pointer(),
                chunk_sequence: 0,
            }
        };
        self.units.ids(Tier::Fast).map(entry).collect()
    }

    fn group_entries(&self, emptied: &BTreeSet<UnitId>) -> Vec<GroupEntry> {
        let groups = self.units.geometry().groups;
        let owners = self.control().open_groups.owners(groups);
        let closed_times = self.control().closed_times(groups);
        let entry = |id: UnitId| {
            let unit = self.units.unit(id);
            let state = unit.state();
            let freed = state == UnitState::Emptied && emptied.contains(&id);
            let owner = owners[id.index as usize];
            GroupEntry {
                state: match state {
                    UnitState::Free => GroupState::Free,
                    UnitState::Emptied if freed && self.control().is_retiring(id) => {
                        GroupState::Retired
                    }
                    UnitState::Emptied if freed => GroupState::Free,
                    UnitState::Open => GroupState::Open,
                    UnitState::Closed | UnitState::Cleaning | UnitState::Emptied => {
                        GroupState::Closed
                    }
                    UnitState::Retired => GroupState::Retired,
                },
                generation: after_free(unit.generation(), freed),
                stamp: unit.stamp(),
                write_pointer: unit.write_pointer(),
                stream: owner.map_or(0, |stream| stream.writer.code()),
                tenant: owner.map_or(TenantId(0), |stream| stream.tenant),
                is_resumed: unit.is_resumed() && !freed,
                closed_at: Nanos(closed_times[id.index as usize]),
                narrow: unit.narrow().filter(|_| !freed),
            }
        };
        self.units.ids(Tier::Dense).map(entry).collect()
    }

    /// Parts a start needs once checkpoint `number` has committed: this one's, and those of the
    /// checkpoints since each slice and unit had its full turn.
    fn parts_in_window(
        &self,
        number: u64,
        everything: bool,
        new: Vec<PartPlace>,
    ) -> Vec<PartPlace> {
        let oldest = (number + 1).saturating_sub(u64::from(self.config.window));
        let old = self.control().parts.borrow().clone();
        let all: Vec<PartPlace> = old.into_iter().chain(new).collect();
        let mut full_at: Vec<Option<u64>> =
            alloc::vec![None; usize::from(self.units.geometry().slices)];
        for part in all.iter().filter(|part| part.kind == PartKind::SliceFull) {
            let newest = &mut full_at[usize::from(part.slice.0)];
            *newest = (*newest).max(Some(part.checkpoint));
        }
        let mut kept = Vec::with_capacity(all.len());
        for part in &all {
            let needed = match part.kind {
                PartKind::SliceFull | PartKind::SliceDelta => {
                    full_at[usize::from(part.slice.0)].is_none_or(|full| part.checkpoint >= full)
                }
                // One that holds everything needs no older ones; kept, they would pin a chunk
                // each and make every later checkpoint hold everything too.
                PartKind::Bitmap => {
                    part.checkpoint == number || (!everything && part.checkpoint >= oldest)
                }
                PartKind::Groups | PartKind::Chunks | PartKind::Catalogue => {
                    part.checkpoint == number
                }
            };
            if needed {
                kept.push(*part);
            }
        }
        kept
    }

    async fn append_commit(&self, number: u64, body: &CommitBody) -> Result<CommitPlace, Stopped> {
        let bytes = body.encode();
        let record = Record::Commit {
            checkpoint: number,
            bytes: bytes.len() as u32,
            crc: crc32c(&bytes),
        };
        let lane = self.shard();
        let at = lane
            .append_meta(record, Some(self.world.supply().copy(&bytes)))
            .await?;
        Ok(CommitPlace {
            checkpoint: number,
            epoch: self.identity.epoch,
            sector: at.batch_sector,
        })
    }
}

/// Generation a unit has after the checkpoint that frees it has committed.
fn after_free(now: Generation, freed: bool) -> Generation {
    if freed { now.next() } else { now }
}

/// Waits for parts to be acknowledged and notes where they lie.
async fn settle(inflight: Vec<PartInFlight>) -> Result<Vec<PartPlace>, Stopped> {
    let mut places = Vec::with_capacity(inflight.len());
    for part in inflight {
        let at = part.appended.await?;
        places.push(PartPlace {
            sector: at.meta_sector,
            ..part.place
        });
    }
    Ok(places)
}

#[cfg(test)]
mod tests;
