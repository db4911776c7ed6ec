//! Checkpoints: changes since the last one, the full state of some slices in turn, one commit.
//!
//! 1. Note each lane's redo position and take the list of emptied units.
//! 2. Cut every slice (delta; full for the slices whose turn it is) and append the parts.
//! 3. Append bitmaps (those whose turn it is), unit tables and the catalogue, in lane 0.
//! 4. Flush. 5. Append the commit record in lane 0, flush. 6. Free what was emptied before 1.
//!
//! **Invariant**: a commit is found by a start only if everything it names was flushed before it
//! was appended.

use crate::config::Canary;
use crate::geometry::{Tier, UnitId};
use crate::lane::{Appended, Stopped};
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{
    BitmapEntry, ChunkEntry, CommitBody, CommitPlace, GroupEntry, LanePosition, PART_BYTES_MAX,
    PartKind, PartPlace, Record, UnitCode, crc32c, encode_bitmaps, encode_catalogue,
    encode_chunks, encode_groups,
};
use varve_io::{Receiver, Sectors};
use varve_units::{Lsn, SliceId};

/// A part appended and not yet acknowledged.
struct PartInFlight {
    place: PartPlace,
    appended: Receiver<Result<Appended, Stopped>>,
}

impl Shared {
    /// Takes checkpoints when enough was logged, when space waits for one, when asked.
    pub(crate) async fn run_checkpointer(self: Rc<Self>) {
        while !self.is_stopped() {
            if self.checkpoint_is_due() {
                if self.take_checkpoint().await.is_err() {
                    return;
                }
            } else {
                self.control().checkpoint_wanted.listen().await;
            }
        }
    }

    fn checkpoint_is_due(&self) -> bool {
        let control = self.control();
        let asked = control.take_checkpoint_asked();
        asked
            || self.log_records.get() >= self.config.checkpoint_records
            || self.log_bytes.get() >= self.config.checkpoint_bytes
            || (control.emptied_count() > 0
                && control.free_chunks() <= self.config.reserve_chunks as usize)
    }

    /// Takes one checkpoint and frees what it makes free.
    pub(crate) async fn take_checkpoint(&self) -> Result<(), Stopped> {
        let control = self.control();
        let number = control.checkpoint.get() + 1;
        let emptied = control.take_emptied();
        if self.config.is_planted(Canary::FreeBeforeFlush) {
            control.free(self, emptied.clone());
        }
        self.log_records.set(0);
        self.log_bytes.set(0);
        let lanes: Vec<LanePosition> =
            self.shards().iter().map(|shard| shard.lane.borrow().position()).collect();
        let (mut parts, cuts) = self.cut_slices(number).await?;
        parts.extend(self.dump_tables(number, &emptied).await?);
        self.flush_log().await.map_err(|_| Stopped)?;
        let parts = self.parts_in_window(number, parts);
        let body = CommitBody {
            checkpoint: number,
            epoch: self.identity.epoch,
            window: self.config.window,
            lanes,
            cuts,
            next_volume: self.volumes.borrow().next_id,
            parts: parts.clone(),
        };
        let place = self.append_commit(number, &body).await?;
        self.flush_log().await.map_err(|_| Stopped)?;
        control.checkpoint.set(number);
        control.set_parts(self, parts, place);
        self.count("checkpoints", 1);
        if !self.config.is_planted(Canary::FreeBeforeFlush) {
            control.free(self, emptied);
        }
        control.committed.notify();
        control.cleaner_wanted.notify();
        Ok(())
    }

    /// Cuts every slice and appends its parts in its own lane.
    async fn cut_slices(&self, number: u64) -> Result<(Vec<PartPlace>, Vec<Lsn>), Stopped> {
        let slices = self.units.geometry().slices;
        let mut cuts = Vec::with_capacity(usize::from(slices));
        let mut places = Vec::new();
        for slice in (0..slices).map(SliceId) {
            let full = self.is_full_turn(number, u64::from(slice.0));
            let owner = self.owner(slice);
            let (payloads, cut) = owner.map.borrow_mut().cut(slice, full);
            cuts.push(cut);
            let kind = if full { PartKind::SliceFull } else { PartKind::SliceDelta };
            let mut inflight = Vec::new();
            for (index, payload) in payloads.iter().enumerate() {
                inflight.push(self.append_part(number, kind, slice, index, payload));
            }
            places.extend(settle(inflight).await?);
        }
        Ok((places, cuts))
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
        payload: &[u8],
    ) -> PartInFlight {
        assert!(payload.len() <= PART_BYTES_MAX, "a part fits its limit");
        let place = PartPlace {
            checkpoint: number,
            kind,
            slice,
            index: index as u32,
            sector: 0,
            bytes: payload.len() as u32,
            crc: crc32c(payload),
        };
        let record = Record::Part {
            checkpoint: number,
            kind,
            slice,
            index: place.index,
            bytes: place.bytes,
            crc: place.crc,
        };
        let shard = match kind {
            PartKind::SliceFull | PartKind::SliceDelta => self.owner(slice),
            _ => Rc::clone(&self.shards()[0]),
        };
        let appended = shard.append_meta(record, Some(Sectors::from_bytes(payload)));
        PartInFlight { place, appended }
    }

    /// Appends bitmaps, unit tables and the catalogue in lane 0.
    async fn dump_tables(
        &self,
        number: u64,
        emptied: &[UnitId],
    ) -> Result<Vec<PartPlace>, Stopped> {
        let mut places = Vec::new();
        let tables = [
            (PartKind::Bitmap, encode_bitmaps(&self.bitmaps(number, emptied))),
            (PartKind::Chunks, encode_chunks(&self.chunk_entries(emptied))),
            (PartKind::Groups, encode_groups(&self.group_entries(emptied))),
            (PartKind::Catalogue, encode_catalogue(&self.volumes.borrow().entries())),
        ];
        for (kind, payloads) in tables {
            let mut inflight = Vec::new();
            for (index, payload) in payloads.iter().enumerate() {
                inflight.push(self.append_part(number, kind, SliceId(0), index, payload));
            }
            places.extend(settle(inflight).await?);
        }
        Ok(places)
    }

    /// Bitmaps of the units whose turn it is.
    fn bitmaps(&self, number: u64, emptied: &[UnitId]) -> Vec<BitmapEntry> {
        let units = self.units.ids(Tier::Fast).chain(self.units.ids(Tier::Dense));
        units
            .filter(|id| self.is_full_turn(number, u64::from(id.index)) && !emptied.contains(id))
            .filter_map(|id| {
                let unit = self.units.unit(id);
                let used = !matches!(unit.state(), UnitState::Free | UnitState::Emptied);
                used.then(|| BitmapEntry {
                    is_dense: id.tier == Tier::Dense,
                    unit: id.index,
                    generation: unit.generation(),
                    write_pointer: unit.write_pointer(),
                    words: unit.words(),
                })
            })
            .collect()
    }

    /// State of a unit as a start must see it once this checkpoint has committed.
    fn code_of(&self, id: UnitId, emptied: &[UnitId]) -> UnitCode {
        match self.units.unit(id).state() {
            UnitState::Free => UnitCode::Free,
            UnitState::Emptied if emptied.contains(&id) => UnitCode::Free,
            UnitState::Open => UnitCode::Open,
            UnitState::Closed | UnitState::Cleaning | UnitState::Emptied => UnitCode::Closed,
            UnitState::Retired => UnitCode::Retired,
        }
    }

    fn chunk_entries(&self, emptied: &[UnitId]) -> Vec<ChunkEntry> {
        self.units
            .ids(Tier::Fast)
            .map(|id| {
                let unit = self.units.unit(id);
                let state = self.code_of(id, emptied);
                ChunkEntry {
                    state,
                    generation: after_free(unit.generation(), emptied.contains(&id)),
                    stamp: unit.stamp(),
                    write_pointer: unit.write_pointer(),
                }
            })
            .collect()
    }

    fn group_entries(&self, emptied: &[UnitId]) -> Vec<GroupEntry> {
        self.units
            .ids(Tier::Dense)
            .map(|id| {
                let unit = self.units.unit(id);
                GroupEntry {
                    state: self.code_of(id, emptied),
                    generation: after_free(unit.generation(), emptied.contains(&id)),
                    stamp: unit.stamp(),
                    write_pointer: unit.write_pointer(),
                    stream: self.stream_of(id.index),
                    closed_at: self.closed_at(id.index),
                }
            })
            .collect()
    }

    /// Parts a start needs once checkpoint `number` has committed: this one's, and those of the
    /// checkpoints since each slice and unit had its full turn.
    fn parts_in_window(&self, number: u64, new: Vec<PartPlace>) -> Vec<PartPlace> {
        let oldest = (number + 1).saturating_sub(u64::from(self.config.window));
        let old = self.control().parts.borrow().clone();
        let full_at = |slice: SliceId, before: &[PartPlace]| {
            before
                .iter()
                .filter(|part| part.kind == PartKind::SliceFull && part.slice == slice)
                .map(|part| part.checkpoint)
                .max()
        };
        let all: Vec<PartPlace> = old.into_iter().chain(new).collect();
        let mut kept = Vec::with_capacity(all.len());
        for part in &all {
            let needed = match part.kind {
                PartKind::SliceFull | PartKind::SliceDelta => {
                    full_at(part.slice, &all).is_none_or(|full| part.checkpoint >= full)
                }
                PartKind::Bitmap => part.checkpoint >= oldest,
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
        let record =
            Record::Commit { checkpoint: number, bytes: bytes.len() as u32, crc: crc32c(&bytes) };
        let lane = Rc::clone(&self.shards()[0]);
        let at = lane.append_meta(record, Some(Sectors::from_bytes(&bytes))).await?;
        Ok(CommitPlace {
            checkpoint: number,
            epoch: self.identity.epoch,
            sector: at.batch_sector,
        })
    }
}

/// Generation a unit has after the checkpoint that frees it has committed.
fn after_free(now: varve_units::Generation, freed: bool) -> varve_units::Generation {
    if freed { now.next() } else { now }
}

/// Waits for parts to be acknowledged and notes where they lie.
async fn settle(inflight: Vec<PartInFlight>) -> Result<Vec<PartPlace>, Stopped> {
    let mut places = Vec::with_capacity(inflight.len());
    for part in inflight {
        let at = part.appended.await?;
        places.push(PartPlace { sector: at.meta_sector, ..part.place });
    }
    Ok(places)
}
