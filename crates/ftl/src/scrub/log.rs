//! The log: what is acknowledged of every chunk, and the parts of the newest checkpoint.

use super::Scrub;
use super::settle::{Check, Run};
use crate::candidate::Candidate;
use crate::contents::Unknown;
use crate::error::EngineError;
use crate::geometry::{BLOCK_SECTORS, CHUNK_HEAD_SECTORS, UnitId};
use crate::map::LeafKey;
use crate::merge::leaf_crc;
use crate::recovery::{Expect, Sought, seek_decoded};
use crate::shard::Shard;
use crate::shared::{FIRST, Shared};
use crate::ways::Ways;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_format::{Brought, BroughtBlock, LEAF_BYTES, PartPlace, batch, crc32c};
use varve_io::{Command, Gather, IoError, ReactorId, Sectors};
use varve_units::{BLOCK_BYTES, Generation, LEAF_BLOCKS, Ppa, SECTOR, SECTOR_BYTES};

/// Leaves that a reactor is asked to look at in one call. Arbitrary: they are 150 KiB.
const LEAVES_AT_ONCE: usize = 32;
/// Sectors of a leaf.
const LEAF_SECTORS: u64 = LEAF_BYTES as u64 / SECTOR_BYTES;

/// What became of some leaves.
#[derive(Default)]
struct Leaves {
    looked_at: u64,
    repairs: u64,
    failures: u64,
    lost: Vec<LeafKey>,
    is_away: bool,
}

/// What sectors are in each way to read them.
#[derive(Default)]
struct EachWay {
    /// Right ones, if a way gave them.
    good: Option<Sectors>,
    /// Ways that have them wrong.
    wrong: Vec<u8>,
    /// What all ways came to.
    seen: Ways,
}

/// Sectors of metadata that have one checksum.
struct Record<'a> {
    sector: u64,
    bytes: &'a [u8],
}

impl Scrub<'_> {
    pub(super) async fn scrub_chunk(&self, id: UnitId) {
        let generation = self.shared.units.unit(id).generation();
        if !self.is_due(id) {
            return;
        }
        let brought = self.scrub_headers(id, generation).await;
        // What was emptied meanwhile has another stamp than its header, and nothing in it is needed.
        if self.is_reused(id, generation) || self.shared.is_stopped() || !self.is_due(id) {
            return;
        }
        let (brought, mut is_away) = match brought {
            Ok(brought) => brought,
            Err(Unknown::Lost) => {
                self.report.borrow_mut().unknown += 1;
                return;
            }
            Err(Unknown::Away) => {
                self.report.borrow_mut().away += 1;
                return;
            }
        };
        for run in self.living_runs(id, &brought) {
            if self.ends() || self.is_reused(id, generation) {
                return;
            }
            let Some(run_away) = self.scrub_blocks(id, generation, run).await else {
                return;
            };
            is_away |= run_away;
        }
        is_away |= self.scrub_leaves(&brought).await;
        if is_away || !self.beneath.is_whole(id.tier) {
            self.report.borrow_mut().away += 1;
        }
    }

    /// Compares the header of a chunk and of each of its batches, as far as it is acknowledged, in every way. Gives what they brought, and whether a way could
    /// not be asked.
    async fn scrub_headers(
        &self,
        id: UnitId,
        generation: Generation,
    ) -> Result<(Brought, bool), Unknown> {
        let geometry = *self.shared.units.geometry();
        let start = geometry.chunk_start(id.index);
        let end = self.written_end(id).await;
        let mut brought = Brought::default();
        let mut sector = start + CHUNK_HEAD_SECTORS;
        let mut is_away = false;
        if end <= sector {
            return Ok((brought, is_away));
        }
        let header = self.shared.read_chunk_header(id.index).await?;
        let head = header.encode_twice();
        let record = Record {
            sector: start,
            bytes: head.bytes(),
        };
        is_away |= self.settle_record(id, generation, &record).await;
        let tag = self.shared.identity.tag(header.epoch);
        let mut sequence = header.first_batch;
        while sector < end && !self.shared.is_stopped() {
            let expect = Expect::new(Some(tag), &header, Some(sequence), sector);
            let before = brought.len();
            let mut bytes = Vec::new();
            let mut decode = |found: &[u8]| {
                brought.truncate(before);
                let head = batch::decode_brought(found, &mut brought)?;
                bytes = found.to_vec();
                Ok((head, ()))
            };
            let mut ways = Ways::default();
            let head = loop {
                let fast = &*self.shared.fast;
                let sought = seek_decoded(fast, &geometry, &expect, &mut ways, &mut decode).await;
                if let Sought::Found(head, ()) = sought {
                    break head;
                }
                if !ways.tries_again() {
                    return Err(Unknown::of(ways));
                }
            };
            let record = Record {
                sector,
                bytes: &bytes,
            };
            is_away |= self.settle_record(id, generation, &record).await;
            sector += head.batch_bytes() / SECTOR_BYTES;
            sequence += 1;
        }
        match sector == end || self.shared.is_stopped() {
            true => Ok((brought, is_away)),
            false => Err(Unknown::Lost),
        }
    }

    /// The sector behind what was written to a chunk and acknowledged.
    async fn written_end(&self, id: UnitId) -> u64 {
        let end = move |there: Rc<Shared>| async move {
            let start = there.units.geometry().chunk_start(id.index);
            let end = start + u64::from(there.units.unit(id).write_pointer());
            let shard = there.shard();
            let unacked = shard.lane.borrow().unacked_in(id.index);
            unacked.map_or(end, |sector| sector.min(end))
        };
        // The one that appends to it, if one does.
        let home = self.shared.units.unit(id).home();
        let asked = self.shared.call(home.unwrap_or(FIRST), end).await;
        asked.unwrap_or(0)
    }

    /// Reads whole LBAs in every way, and writes them where they are not what they are to be. True if a way could not be
    /// asked.
    async fn settle_record(&self, id: UnitId, generation: Generation, record: &Record<'_>) -> bool {
        let ways = self.beneath.ways(id.tier);
        let mut is_away = false;
        self.report.borrow_mut().records += 1;
        if ways < 2 {
            return is_away;
        }
        for way in 0..ways {
            self.pace(record.bytes.len() as u64).await;
            let into = Sectors::zeroed(record.bytes.len() / SECTOR);
            let offset = record.sector * SECTOR_BYTES;
            match self.shared.fast.read_meta(offset, into, way).await {
                Ok(found) if found.bytes() == record.bytes => {}
                Ok(_) | Err(IoError::Media) => {
                    if !self.pin(id, generation) {
                        return is_away;
                    }
                    let is_done = self.shared.rewrite(offset, record.bytes, way).await;
                    self.unpin(id);
                    self.note_repair(1, is_done);
                }
                Err(_) => is_away = true,
            }
        }
        is_away
    }

    /// Blocks of a chunk that may live, in runs that lie behind one another.
    fn living_runs<'b>(
        &self,
        id: UnitId,
        brought: &'b Brought,
    ) -> impl Iterator<Item = &'b [BroughtBlock]> + use<'b> {
        let units = &self.shared.units;
        let (unit, geometry) = (units.unit(id), *units.geometry());
        let lives = |one: &BroughtBlock| {
            let bit = geometry.bit_in(id, Ppa::fast(one.sector));
            unit.is_set(bit)
        };
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (at, one) in brought.blocks.iter().enumerate() {
            if !lives(one) {
                continue;
            }
            match runs.last_mut() {
                Some(run)
                    if run.end == at
                        && run.len() < crate::limits::CLEANER_RUN_MAX
                        && brought.blocks[at - 1].sector + BLOCK_SECTORS == one.sector =>
                {
                    run.end = at + 1;
                }
                _ => runs.push(at..at + 1),
            }
        }
        runs.into_iter().map(|run| &brought.blocks[run])
    }

    /// True if a way could not be asked; `None` if the chunk was reused.
    async fn scrub_blocks(
        &self,
        id: UnitId,
        generation: Generation,
        blocks: &[BroughtBlock],
    ) -> Option<bool> {
        let checks: Vec<Check> = blocks.iter().map(|one| Check::Crc(one.crc)).collect();
        let run = Run {
            unit: id,
            generation,
            offset: blocks[0].sector * SECTOR_BYTES,
            checks: &checks,
        };
        let settled = self.settle(&run).await?;
        for at in settled.lost {
            let one = &blocks[at];
            let candidate = Candidate::brought(one);
            let bit = self.shared.units.geometry().bit_in(id, candidate.ppa);
            if self.is_needed(&run, bit, candidate).await {
                let mut report = self.report.borrow_mut();
                report.note_lost(one.volume, one.lba, 1);
            }
        }
        Some(settled.is_away)
    }

    /// Has the images of leaves that are the newest looked at by who owns them. True if a way could not be asked.
    async fn scrub_leaves(&self, brought: &Brought) -> bool {
        let mut by_owner: BTreeMap<ReactorId, Vec<(LeafKey, u64)>> = BTreeMap::new();
        for one in &brought.leaves {
            let (volume, leaf) = (one.volume, one.leaf);
            let key = LeafKey { volume, leaf };
            let owner = self.shared.owner_of_leaf(key);
            by_owner.entry(owner).or_default().push((key, one.sector));
        }
        let ways = self.beneath.ways(crate::geometry::Tier::Fast);
        let mut is_away = false;
        for (owner, leaves) in by_owner {
            for some in leaves.chunks(LEAVES_AT_ONCE) {
                if self.ends() {
                    return is_away;
                }
                let bytes = (some.len() * LEAF_BYTES) as u64 * u64::from(ways);
                self.pace(bytes).await;
                let some = some.to_vec();
                let scrub = move |there: Rc<Shared>| async move {
                    there.shard().scrub_leaves(some, ways).await
                };
                let Ok(found) = self.shared.call(owner, scrub).await else {
                    return is_away;
                };
                let mut report = self.report.borrow_mut();
                report.records += found.looked_at;
                report.repairs += found.repairs;
                report.failures += found.failures;
                for key in found.lost {
                    report.note_lost(key.volume, key.leaf.first(), LEAF_BLOCKS);
                }
                is_away |= found.is_away;
            }
        }
        is_away
    }

    /// Compares the parts of the newest checkpoint with their checksums, in every way.
    pub(super) async fn scrub_parts(&self) {
        let parts: Vec<PartPlace> = self.shared.control().parts.borrow().clone();
        for part in parts {
            if self.ends() {
                return;
            }
            self.scrub_part(&part).await;
        }
    }

    fn note_part(&self, seen: Ways, is_found: bool) {
        let mut report = self.report.borrow_mut();
        report.records += 1;
        report.away += u64::from(seen.is_pending());
        report.unknown += u64::from(!is_found && seen.is_lost());
    }

    async fn scrub_part(&self, part: &PartPlace) {
        let is_needed = || self.shared.control().parts.borrow().contains(part);
        let id = UnitId::chunk(self.shared.units.geometry().chunk_of(part.sector));
        let ways = self.beneath.ways(id.tier);
        let sectors = u64::from(part.bytes).div_ceil(SECTOR_BYTES);
        self.pace(sectors * SECTOR_BYTES * u64::from(ways)).await;
        let shard = self.shared.shard();
        let is_right = |bytes: &[u8]| crc32c(&bytes[..part.bytes as usize]) == part.crc;
        let read = shard.read_each_way(part.sector, sectors, ways, is_right);
        let EachWay { good, wrong, seen } = read.await;
        if self.shared.is_stopped() || !is_needed() {
            return;
        }
        self.note_part(seen, good.is_some());
        let Some(read) = good else {
            return;
        };
        // A part that a start would read keeps its chunk.
        let generation = self.shared.units.unit(id).generation();
        for way in wrong {
            if !is_needed() || !self.pin(id, generation) {
                return;
            }
            let is_done = self.shared.patch(part.sector, read.bytes(), way).await;
            self.unpin(id);
            self.note_repair(1, is_done);
        }
    }
}

impl Shard {
    /// Compares images of leaves with their checksums in so many ways, and writes what is wrong again.
    async fn scrub_leaves(&self, leaves: Vec<(LeafKey, u64)>, ways: u8) -> Leaves {
        let mut found = Leaves::default();
        for (key, sector) in leaves {
            if self.shared.is_stopped() {
                break;
            }
            self.scrub_leaf(key, sector, ways, &mut found).await;
        }
        found
    }

    /// Reads sectors in so many ways.
    async fn read_each_way(
        &self,
        sector: u64,
        sectors: u64,
        ways: u8,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> EachWay {
        let mut each = EachWay::default();
        for way in 0..ways {
            match self.try_read_sectors(sector, sectors, way).await {
                Ok(read) if is_right(read.bytes()) => {
                    each.good.get_or_insert(read);
                }
                Ok(_) => {
                    each.seen.note_mismatch();
                    each.wrong.push(way);
                }
                Err(error) => {
                    each.seen.note_error(error);
                    if error == IoError::Media {
                        each.wrong.push(way);
                    }
                }
            }
        }
        each
    }

    async fn scrub_leaf(&self, key: LeafKey, sector: u64, ways: u8, found: &mut Leaves) {
        let base = self.map.borrow().stored(key);
        let Some(base) = base.filter(|base| base.sector == sector) else {
            return;
        };
        found.looked_at += 1;
        let is_right = |bytes: &[u8]| leaf_crc(key, base.through, bytes) == base.crc;
        let read = self.read_each_way(sector, LEAF_SECTORS, ways, is_right);
        let EachWay { good, wrong, seen } = read.await;
        found.is_away |= seen.is_pending();
        let is_newest = || self.map.borrow().stored(key) == Some(base);
        if wrong.is_empty() || self.shared.is_stopped() || !is_newest() {
            return;
        }
        let Some(read) = good else {
            if seen.is_lost() {
                found.lost.push(key);
            }
            return;
        };
        for way in wrong {
            self.mend_leaf(key, sector, (read.bytes(), way), found)
                .await;
            if !is_newest() {
                return;
            }
        }
    }

    /// Writes the image of a leaf, the newest, again: where it lies, or where its neighbours cannot be told from it,
    /// in another place as the cleaner does.
    async fn mend_leaf(
        &self,
        key: LeafKey,
        sector: u64,
        (bytes, way): (&[u8], u8),
        found: &mut Leaves,
    ) {
        let shared = &self.shared;
        let is_done = if shared.is_aligned(sector, bytes.len()) {
            let unit = UnitId::chunk(shared.units.geometry().chunk_of(sector));
            let is_pinned = self.pin(unit, shared.units.unit(unit).generation());
            assert!(is_pinned, "a leaf that the map names keeps its chunk");
            let is_done = shared.rewrite(sector * SECTOR_BYTES, bytes, way).await;
            self.unpin(unit);
            is_done
        } else {
            match self.merge_now(key).await {
                Ok(()) => true,
                Err(EngineError::Stopped) => return,
                Err(_) => false,
            }
        };
        match is_done {
            true => found.repairs += 1,
            false => found.failures += 1,
        }
    }
}

impl Shared {
    fn lba_sectors(&self) -> u64 {
        u64::from(self.units.geometry().lba_bytes) / SECTOR_BYTES
    }

    /// True if sectors are whole LBAs.
    fn is_aligned(&self, sector: u64, bytes: usize) -> bool {
        let lba = self.lba_sectors();
        sector.is_multiple_of(lba) && (bytes / SECTOR).is_multiple_of(lba as usize)
    }

    /// Writes whole LBAs of the log where one way has them wrong. The unit is pinned. False if that failed.
    async fn rewrite(&self, offset: u64, bytes: &[u8], copy: u8) -> bool {
        let mut gather = Gather::new();
        gather.push_meta(Sectors::from_bytes(bytes));
        let command = Command::Repair {
            offset,
            gather,
            copy,
        };
        self.fast.submit(command).await.is_ok()
    }

    /// [`Shared::rewrite`] of sectors that need not be whole LBAs: what lies beside them in the first and the last LBA
    /// is written as it is there, if another way has the same. Else it is not known what is right, and nothing is
    /// written.
    async fn patch(&self, sector: u64, bytes: &[u8], copy: u8) -> bool {
        let lba = self.lba_sectors();
        let start = sector / lba * lba;
        let end = (sector + (bytes.len() / SECTOR) as u64).next_multiple_of(lba);
        if self.is_aligned(sector, bytes.len()) {
            return self.rewrite(sector * SECTOR_BYTES, bytes, copy).await;
        }
        let offset = start * SECTOR_BYTES;
        let memory = || Sectors::zeroed((end - start) as usize);
        let Ok(mut there) = self.fast.read_meta(offset, memory(), copy).await else {
            return false;
        };
        let from = ((sector - start) * SECTOR_BYTES) as usize;
        there.bytes_mut()[from..from + bytes.len()].copy_from_slice(bytes);
        for other in (0..self.fast.info().copies).filter(|other| *other != copy) {
            let read = self.fast.read_meta(offset, memory(), other).await;
            if read.is_ok_and(|read| read.bytes() == there.bytes()) {
                return self.rewrite(offset, there.bytes(), copy).await;
            }
        }
        false
    }
}

const _: () = assert!(LEAF_SECTORS * SECTOR_BYTES == LEAF_BYTES as u64);
const _: () = assert!(BLOCK_BYTES.is_multiple_of(SECTOR_BYTES));
