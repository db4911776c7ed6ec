//! Redo: the records behind the cuts, once, in lane order; then equal copies.

use super::walk::{Found, LaneWalk};
use super::{RecoverError, RecoveryReport};
use crate::config::Canary;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::geometry::BLOCK_SECTORS;
use crate::lane::Appended;
use crate::map::{Change, Dead, LeafKey, Map, MapFull};
use crate::shard::{Shard, discard_pieces, for_each_change};
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{PayloadLayout, Record, block_crc, crc24};
use varve_io::Blocks;
use varve_units::{LEAF_BLOCKS, Lsn, Ppa, SECTOR_BYTES};

impl Engine {
    /// Applies every record of a lane that lies behind its slice's cut.
    pub(super) async fn redo(
        &self,
        walk: &LaneWalk,
        report: &mut RecoveryReport,
    ) -> Result<(), RecoverError> {
        for found in &walk.found {
            report.batches += 1;
            report.records += found.records.len() as u64;
            self.redo_batch(found).await?;
        }
        Ok(())
    }

    async fn redo_batch(&self, found: &Found) -> Result<(), RecoverError> {
        for at in PayloadLayout::new(&found.head, &found.records) {
            let record = &found.records[at.record];
            let appended = Appended {
                lsn: found.head.lsn(at.record),
                data_sector: at.data_sector,
                meta_sector: at.meta_sector,
                batch_sector: found.head.address,
            };
            self.redo_record(record, &appended).await?;
        }
        Ok(())
    }

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
                let owner = self.owner_of(key);
                let mut map = owner.map.borrow_mut();
                if at.lsn <= map.cut_of(map.slice_of(key)) {
                    return Ok(());
                }
                map.redo_leaf(key, at.meta_sector, *crc, *through);
            }
            Record::Catalogue { entry } => self.shared.volumes.borrow_mut().note(**entry),
            Record::Discard {
                slice,
                volume,
                lba,
                blocks,
                zero,
            } => {
                let owner = self.shared.owner(*slice);
                let pieces = discard_pieces(&owner.map.borrow(), *slice, *volume, *lba, *blocks);
                let changes: Vec<_> = pieces
                    .into_iter()
                    .map(|(key, index, count)| (key, index, Change::Discard { count, zero: *zero }))
                    .collect();
                self.redo_changes(&owner, &changes, at.lsn).await?;
                owner.map.borrow_mut().note_redone(*slice, at.lsn);
            }
            Record::Part { .. } | Record::Commit { .. } => {}
            Record::Put { .. }
            | Record::External { .. }
            | Record::Move { .. }
            | Record::Keep { .. } => {
                let mut changes = Vec::new();
                for_each_change(record, at, &mut |key, index, change| {
                    changes.push((key, index, change));
                });
                let Some((key, ..)) = changes.first() else {
                    return Ok(());
                };
                let owner = self.owner_of(*key);
                if self.shared.config.is_planted(Canary::UnconditionalMove) {
                    force_moves(&owner, &mut changes).await;
                }
                self.redo_changes(&owner, &changes, at.lsn).await?;
            }
        }
        Ok(())
    }

    /// Applies all changes of one record, after waiting for merges if the delta pool is used up:
    /// a merge between two changes of a record would make the second look included.
    async fn redo_changes(
        &self,
        owner: &Rc<Shard>,
        changes: &[(LeafKey, u16, Change)],
        lsn: Lsn,
    ) -> Result<(), RecoverError> {
        let is_partial = |change: &Change| !matches!(change, Change::Discard { count: 512, .. });
        let in_leaf = changes.len().min(LEAF_BLOCKS as usize);
        let fits = |map: &Map| {
            let needing = changes.iter().filter(|(.., change)| is_partial(change));
            map.room() >= needing.count()
                && changes
                    .iter()
                    .all(|(key, ..)| map.admits(*key, in_leaf) != Err(MapFull::Chain))
        };
        while !fits(&owner.map.borrow()) {
            if self.shared.is_stopped() {
                return Err(RecoverError::Engine(EngineError::Stopped));
            }
            owner.node_waiters.set(owner.node_waiters.get() + 1);
            owner.merge_wanted.notify();
            owner.nodes_freed.listen().await;
            owner.node_waiters.set(owner.node_waiters.get() - 1);
        }
        let mut dead = Vec::new();
        for (key, index, change) in changes {
            if let Some(ppa) = self.overruled(owner, *key, *index, *change) {
                dead.push(Dead { ppa, since: lsn });
                continue;
            }
            let done = owner
                .map
                .borrow_mut()
                .redo(*key, *index, *change, lsn, &mut dead);
            done.map_err(|_| RecoverError::Engine(EngineError::CapacityExceeded))?;
        }
        owner.bury(&mut dead);
        Ok(())
    }

    /// The planted bug: the place of a put that goes under because what the map holds lies in a
    /// unit that was opened later.
    fn overruled(&self, owner: &Shard, key: LeafKey, index: u16, change: Change) -> Option<Ppa> {
        let Change::Put { ppa, .. } = change else {
            return None;
        };
        if !self.shared.config.is_planted(Canary::PublishedConflictRule) {
            return None;
        }
        let present = owner.map.borrow().newest_place(key, index)?;
        let units = &self.shared.units;
        let opened = |ppa| Some(units.unit(units.geometry().locate(ppa)?.unit).stamp());
        (opened(present)? > opened(ppa)?).then_some(ppa)
    }

    fn owner_of(&self, key: LeafKey) -> Rc<Shard> {
        self.shared
            .owner(self.shared.units.geometry().slice_of(key.volume, key.leaf))
    }

    /// Writes the unflushed tail of a lane back, so that it is the same on all copies. The
    /// checkpoint that follows flushes it.
    pub(super) async fn equalise(&self, walk: &LaneWalk) -> Result<u64, RecoverError> {
        let mut count = 0;
        if self.shared.fast.info().copies < 2 {
            return Ok(count);
        }
        for found in &walk.found {
            let Some(gather) = &found.rewrite else {
                continue;
            };
            let header = if found.header.is_some() {
                BLOCK_SECTORS
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
