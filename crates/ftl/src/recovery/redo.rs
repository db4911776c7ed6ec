//! Redo: the records behind the cuts, once, in lane order; then equal copies.

use super::walk::{Expect, LaneWalk, Sought, seek_batch};
use super::{RecoverError, RecoveryReport};
use crate::changes::{discard_pieces, for_each_change};
use crate::config::Canary;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::geometry::CHUNK_HEAD_SECTORS;
use crate::load::Appended;
use crate::map::{Change, Dead, LeafKey, Map, MapFull};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::ways::Ways;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use varve_format::{BatchHead, PayloadLayout, Record, block_crc, crc24};
use varve_io::{Blocks, ReactorId, Receiver};
use varve_units::{LEAF_BLOCKS, Lba, Lsn, Ppa, SECTOR_BYTES};

/// Batches read again ahead of their turn: a MiB of headers at most. Arbitrary: as many as keep a drive
/// busy.
const BATCHES_AHEAD: usize = 16;

impl Engine {
    /// Applies every record of a lane that lies behind its slice's cut, but for the pool's own work
    /// since `passed_over`. The records are used up.
    pub(super) async fn redo(
        &self,
        walk: &mut LaneWalk,
        report: &mut RecoveryReport,
        passed_over: Option<Lsn>,
    ) -> Result<(), RecoverError> {
        let mut reading = VecDeque::new();
        let dropped = walk.found.iter().filter(|found| found.records.is_none());
        let mut dropped = dropped.map(|found| found.head).collect::<VecDeque<_>>();
        for found in &mut walk.found {
            let records = match found.records.take() {
                Some(records) => records,
                None => {
                    while reading.len() < BATCHES_AHEAD
                        && let Some(head) = dropped.pop_front()
                    {
                        reading.push_back(self.read_again(head));
                    }
                    let next = reading.pop_front().expect("as many as were not kept");
                    let sector = found.head.address;
                    let unreadable = RecoverError::BatchUnreadable { sector };
                    next.await.ok_or(unreadable)?
                }
            };
            report.batches += 1;
            report.records += records.len() as u64;
            let of_hosts = records.iter().filter(|record| is_of_hosts(record));
            report.of_hosts += of_hosts.count() as u64;
            self.redo_batch(&found.head, records, passed_over).await?;
        }
        Ok(())
    }

    /// True if hosts could write nothing. What the pool itself has logged since the live bits of the newest
    /// checkpoint were taken is passed over then: whatever it moved is still in its old place, and called
    /// live there, as nothing is freed before a commit.
    ///
    /// A crash ends all open chunks. If the few moves and leaves of a life that was cut short kept its
    /// chunks in use, pools that start again and again would run out of chunks, and could start no more.
    pub(super) fn is_short(&self) -> bool {
        let shared = &self.shared;
        shared.free_chunks.load(Ordering::SeqCst) <= shared.config.reserve.chunks
    }

    /// Begins to read the records of a batch again.
    fn read_again(&self, head: BatchHead) -> Receiver<Option<Vec<Record>>> {
        let shared = self.shared.rc();
        shared.count("batches_read_again", 1);
        let world = Rc::clone(&shared.world);
        world.run(async move {
            let (expect, mut ways) = (Expect::again(&head), Ways::default());
            let geometry = shared.units.geometry();
            loop {
                match seek_batch(&*shared.fast, geometry, &expect, &mut ways).await {
                    Sought::Found(_, records) => return Some(records),
                    Sought::Absent | Sought::Unreadable if ways.tries_again() => {}
                    Sought::Absent | Sought::Unreadable => return None,
                }
            }
        })
    }

    /// Gives each reactor the records of its slices, in order, and waits until they are applied.
    async fn redo_batch(
        &self,
        head: &BatchHead,
        records: Vec<Record>,
        passed_over: Option<Lsn>,
    ) -> Result<(), RecoverError> {
        let shared = &self.shared;
        let places: Vec<_> = PayloadLayout::new(head, &records)
            .map(|at| Appended {
                lsn: head.lsn(at.record),
                data_sector: at.data_sector,
                meta_sector: at.meta_sector,
                batch_sector: head.address,
            })
            .collect();
        let mut by_owner: BTreeMap<ReactorId, Vec<(Record, Appended)>> = BTreeMap::new();
        for (record, at) in records.into_iter().zip(places) {
            if passed_over.is_some_and(|since| at.lsn >= since) && is_own_work(&record) {
                shared.count("records_passed_over", 1);
                continue;
            }
            if let Record::Catalogue { entry } = record {
                shared.volumes.borrow_mut().note(*entry);
            } else if let Some(owner) = shared.record_owner(&record) {
                by_owner.entry(owner).or_default().push((record, at));
            }
        }
        for (owner, records) in by_owner {
            let redo = move |there: Rc<Shared>| async move {
                let shard = there.shard();
                for (record, at) in &records {
                    shard.redo_record(record, at).await?;
                }
                Ok::<(), RecoverError>(())
            };
            let done = shared.call(owner, redo).await;
            done.map_err(|_| RecoverError::Engine(EngineError::Stopped))??;
        }
        Ok(())
    }
}

/// True for records of what the pool does by itself.
const fn is_own_work(record: &Record) -> bool {
    matches!(
        record,
        Record::Move { .. } | Record::Keep { .. } | Record::Leaf { .. }
    )
}

/// True for records of what hosts asked for.
const fn is_of_hosts(record: &Record) -> bool {
    matches!(
        record,
        Record::Put { .. } | Record::External { .. } | Record::Discard { .. }
    )
}

impl Shared {
    /// The reactor whose slice a record changes, if it changes any.
    fn record_owner(&self, record: &Record) -> Option<ReactorId> {
        let leaf = |volume, lba: Lba| {
            let leaf = lba.leaf();
            self.owner_of_leaf(LeafKey { volume, leaf })
        };
        match record {
            Record::Leaf { volume, leaf, .. } => Some(self.owner_of_leaf(LeafKey {
                volume: *volume,
                leaf: *leaf,
            })),
            Record::Discard { slice, .. } => Some(self.owner_of(*slice)),
            Record::Put { volume, lba, .. } | Record::External { volume, lba, .. } => {
                Some(leaf(*volume, *lba))
            }
            Record::Move { volume, items, .. } => Some(leaf(*volume, items.first()?.lba)),
            Record::Keep { volume, items, .. } => Some(leaf(*volume, items.first()?.lba)),
            Record::Part { .. } | Record::Commit { .. } | Record::Catalogue { .. } => None,
        }
    }
}

impl Shard {
    async fn redo_record(&self, record: &Record, at: &Appended) -> Result<(), RecoverError> {
        match record {
            Record::Leaf {
                volume,
                leaf,
                through,
                crc,
            } => {
                let key = LeafKey {
                    volume: *volume,
                    leaf: *leaf,
                };
                let mut map = self.map.borrow_mut();
                if at.lsn <= map.cut_of(map.slice_of(key)) {
                    return Ok(());
                }
                map.redo_leaf(key, at.meta_sector, *crc, *through);
            }
            Record::Discard {
                slice,
                volume,
                lba,
                blocks,
                zero,
            } => {
                let pieces = discard_pieces(&self.map.borrow(), *slice, *volume, *lba, *blocks);
                let changes: Vec<_> = pieces
                    .into_iter()
                    .map(|(key, index, count)| (key, index, Change::Discard { count, zero: *zero }))
                    .collect();
                self.redo_changes(&changes, at.lsn).await?;
                self.shared.count("discards_redone", 1);
                self.map.borrow_mut().note_redone(*slice, at.lsn);
            }
            Record::Part { .. } | Record::Commit { .. } | Record::Catalogue { .. } => {}
            Record::Put { .. }
            | Record::External { .. }
            | Record::Move { .. }
            | Record::Keep { .. } => {
                let mut changes = Vec::new();
                for_each_change(record, at, |key, index, change| {
                    changes.push((key, index, change));
                });
                if self.planted(Canary::UnconditionalMove) {
                    force_moves(self, &mut changes).await;
                }
                if matches!(record, Record::Move { .. } | Record::Keep { .. }) {
                    self.shared.count("moves_redone", changes.len() as u64);
                }
                self.redo_changes(&changes, at.lsn).await?;
            }
        }
        Ok(())
    }

    /// Applies all changes of one record, after waiting for merges if the delta pool is used up and
    /// there is room for leaves: a merge between two changes of a record would make the second look
    /// included.
    async fn redo_changes(
        &self,
        changes: &[(LeafKey, u16, Change)],
        lsn: Lsn,
    ) -> Result<(), RecoverError> {
        let is_partial = |change: &Change| !matches!(change, Change::Discard { count: 512, .. });
        let in_leaf = changes.len().min(LEAF_BLOCKS as usize);
        let fits = |map: &Map| {
            let needing = changes.iter().filter(|(.., change)| is_partial(change));
            map.room() >= needing.count()
                && changes
                    .chunk_by(|one, other| one.0 == other.0)
                    .all(|run| map.admits(run[0].0, in_leaf) != Err(MapFull::Chain))
        };
        while !fits(&self.map.borrow()) {
            if self.shared.is_stopped() {
                return Err(RecoverError::Engine(EngineError::Stopped));
            }
            self.node_waiters.set(self.node_waiters.get() + 1);
            self.merge_wanted.notify();
            self.nodes_freed.listen().await;
            self.node_waiters.set(self.node_waiters.get() - 1);
        }
        let mut dead = Vec::new();
        for (key, index, change) in changes {
            if let Change::Put { ppa, .. } | Change::Move { new: ppa, .. } = change {
                // Also where the slice has it already: perhaps it was not dumped as live.
                self.shared.units.append_again(*ppa);
            }
            if let Some(ppa) = self.overruled(*key, *index, *change) {
                dead.push(Dead { ppa, since: lsn });
                continue;
            }
            let done = self
                .map
                .borrow_mut()
                .redo(*key, *index, *change, lsn, &mut dead);
            done.map_err(|_| RecoverError::Engine(EngineError::CapacityExceeded))?;
        }
        self.bury(&mut dead);
        Ok(())
    }

    /// The planted bug: the place of a put that goes under because what the map holds lies in a
    /// unit that was opened later.
    fn overruled(&self, key: LeafKey, index: u16, change: Change) -> Option<Ppa> {
        let Change::Put { ppa, .. } = change else {
            return None;
        };
        if !self.shared.config.is_planted(Canary::PublishedConflictRule) {
            return None;
        }
        let present = self.map.borrow().newest_place(key, index)?;
        let units = &self.shared.units;
        let opened = |ppa| Some(units.unit(units.geometry().locate(ppa)?.unit).stamp());
        (opened(present)? > opened(ppa)?).then_some(ppa)
    }
}

impl Engine {
    /// Writes the unflushed tail of a lane back, so that it is the same on all copies once that is
    /// flushed.
    pub(super) async fn equalise(&self, walk: &LaneWalk) -> Result<u64, RecoverError> {
        let mut count = 0;
        let is_planted = self.shared.config.is_planted(Canary::TailNotEqualised);
        if self.shared.fast.info().copies < 2 || is_planted {
            return Ok(count);
        }
        for found in &walk.found {
            let Some(gather) = &found.rewrite else {
                continue;
            };
            let header = if found.header.is_some() {
                CHUNK_HEAD_SECTORS
            } else {
                0
            };
            let offset = (found.head.address - header) * SECTOR_BYTES;
            let written = self.shared.fast.write(offset, gather.clone()).await;
            written.map_err(|error| RecoverError::Engine(EngineError::Io(error)))?;
            count += 1;
        }
        Ok(count)
    }
}

/// The planted bug: moves are applied whatever the map says. The checksum of what was moved is that
/// of what lies at its new place, as if the record carried it.
async fn force_moves(owner: &Shard, changes: &mut [(LeafKey, u16, Change)]) {
    let (units, elided) = (&owner.shared.units, owner.shared.config.elided);
    for (.., change) in changes {
        let Change::Move { new, class, .. } = *change else {
            continue;
        };
        let Some(place) = units.geometry().locate(new) else {
            continue;
        };
        let drive = owner.drive_of(place.unit);
        let read = drive.read_data(place.offset, Blocks::new(1, elided), 0);
        if let Ok(moved) = read.await {
            *change = Change::Put {
                ppa: new,
                crc24: crc24(block_crc(moved.block(0))),
                class,
            };
        }
    }
}
