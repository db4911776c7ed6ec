//! One lane from its redo position to its end.
//!
//! A batch is where the last one ended, or at the start of a later chunk of the lane whose header
//! says that it begins with exactly this batch (a chunk may be left early). A lane ends at the
//! first batch that is on no copy, unless a later header says it had been flushed: that is damage,
//! reported and stepped over (engine.md U7).

use super::Damage;
use super::ahead::{Ahead, batch_bytes};
use super::gap::Gaps;
use super::hole::Hole;
use super::names::GroupNames;
use super::scan::{LaneChunks, Scan};
use super::whole::{Broken, whole_batch};
use crate::geometry::Geometry;
use crate::ways::Ways;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use varve_format::{BatchHead, ChunkHeader, DecodeError, LanePosition, Record, batch};
use varve_io::{Drive, Gather, IoError, Sectors};
use varve_units::{LaneId, Lsn, SECTOR_BYTES};

/// What a batch must say of itself to be the one that is looked for.
pub(crate) struct Expect {
    tag: Option<u32>,
    lane: LaneId,
    sequence: Option<u64>,
    sector: u64,
    chunk_sequence: u64,
    /// Gaps that stand for it.
    gaps: Option<Gaps>,
}

impl Expect {
    pub(super) fn of(
        scan: &Scan,
        header: &ChunkHeader,
        sequence: Option<u64>,
        sector: u64,
    ) -> Self {
        let tag = (!scan.old_epochs_pass).then(|| scan.identity.tag(header.epoch));
        Self::new(tag, header, sequence, sector)
    }

    /// A batch at `sector` of the chunk with this header. Without a tag any epoch does.
    pub(crate) fn new(
        tag: Option<u32>,
        header: &ChunkHeader,
        sequence: Option<u64>,
        sector: u64,
    ) -> Self {
        Self {
            tag,
            lane: header.lane,
            sequence,
            sector,
            chunk_sequence: header.chunk_sequence,
            gaps: Some(Gaps {
                pool: header.pool,
                since: header.stamp.max(header.first_lsn),
            }),
        }
    }

    /// The batch with this head, seen before.
    pub(super) const fn again(head: &BatchHead) -> Self {
        Self {
            tag: Some(head.epoch),
            lane: head.lane,
            sequence: Some(head.sequence),
            sector: head.address,
            chunk_sequence: head.chunk_sequence,
            gaps: None,
        }
    }

    /// Another batch of the same chunk.
    pub(super) const fn at(&self, sequence: u64, sector: u64) -> Self {
        Self {
            sequence: Some(sequence),
            sector,
            ..*self
        }
    }

    fn accepts(&self, head: &BatchHead) -> bool {
        self.tag.is_none_or(|tag| head.epoch == tag)
            && head.lane == self.lane
            && self
                .sequence
                .is_none_or(|sequence| head.sequence == sequence)
            && head.address == self.sector
            && (head.chunk_sequence == self.chunk_sequence || self.tag.is_none())
    }
}

/// What was found where a batch was looked for.
pub(crate) enum Sought<T = Vec<Record>> {
    /// It is there.
    Found(BatchHead, T),
    /// A copy was read and holds something else.
    Absent,
    /// No copy could be read: nobody can know.
    Unreadable,
}

/// Reads the header of the batch at a place, by whichever copy holds it.
pub(crate) async fn read_batch(
    fast: &dyn Drive,
    geometry: &Geometry,
    expect: &Expect,
) -> Option<(BatchHead, Vec<Record>)> {
    match seek_batch(fast, geometry, expect, &mut Ways::default()).await {
        Sought::Found(head, records) => Some((head, records)),
        Sought::Absent | Sought::Unreadable => None,
    }
}

/// [`read_batch`], which tells what is not there from what cannot be read. `ways` are told what came of
/// each copy.
pub(super) async fn seek_batch(
    fast: &dyn Drive,
    geometry: &Geometry,
    expect: &Expect,
    ways: &mut Ways,
) -> Sought {
    seek_decoded(fast, geometry, expect, ways, &mut batch::decode).await
}

/// [`seek_batch`], decoded as the caller likes it: for all records, or only what is asked for.
pub(crate) async fn seek_decoded<T>(
    fast: &dyn Drive,
    geometry: &Geometry,
    expect: &Expect,
    ways: &mut Ways,
    decode: &mut impl FnMut(&[u8]) -> Result<(BatchHead, T), DecodeError>,
) -> Sought<T> {
    let chunk = geometry.chunk_of(expect.sector);
    let end = geometry.chunk_start(chunk) + geometry.chunk_sectors();
    let unit = u64::from(geometry.lba_bytes) / SECTOR_BYTES;
    // The last chunk may be full to the drive's end.
    if expect.sector >= geometry.fast_sectors() || expect.sector + unit > end {
        ways.note_mismatch();
        return Sought::Absent;
    }
    let mut sought = Sought::Unreadable;
    for copy in 0..fast.info().copies {
        match seek_copy(fast, expect, (unit, end), copy, decode).await {
            Ok(Some((head, records))) => return Sought::Found(head, records),
            Ok(None) => {
                ways.note_mismatch();
                sought = Sought::Absent;
            }
            Err(error) => ways.note_error(error),
        }
    }
    sought
}

/// What one copy holds where a batch is looked for: the batch, something else, or what cannot be read. A
/// gap is that as well. `unit` is the LBA, `end` that of the chunk, in sectors.
async fn seek_copy<T>(
    fast: &dyn Drive,
    expect: &Expect,
    (unit, end): (u64, u64),
    copy: u8,
    decode: &mut impl FnMut(&[u8]) -> Result<(BatchHead, T), DecodeError>,
) -> Result<Option<(BatchHead, T)>, IoError> {
    let offset = expect.sector * SECTOR_BYTES;
    let other = |read: &Sectors| {
        let gaps = expect.gaps.as_ref();
        let is_gap = gaps.is_some_and(|gaps| gaps.has_any(read.bytes(), expect.sector));
        if is_gap {
            Err(IoError::Media)
        } else {
            Ok(None)
        }
    };
    let into = Sectors::zeroed(unit as usize);
    let first = fast.read_meta(offset, into, copy).await?;
    let head = batch::decode_head(first.bytes());
    // Its checksum covers the whole header, which is read by what it says itself.
    let fits = |head: &BatchHead| {
        expect.accepts(head)
            && u64::from(head.header_bytes).is_multiple_of(unit * SECTOR_BYTES)
            && expect.sector + head.batch_bytes() / SECTOR_BYTES <= end
    };
    let Some(head) = head.ok().filter(fits) else {
        return other(&first);
    };
    let sectors = (u64::from(head.header_bytes) / SECTOR_BYTES) as usize;
    let whole = if sectors as u64 == unit {
        first
    } else {
        let into = Sectors::zeroed(sectors);
        fast.read_meta(offset, into, copy).await?
    };
    match decode(whole.bytes()) {
        Ok((head, records)) if expect.accepts(&head) => Ok(Some((head, records))),
        _ => other(&whole),
    }
}

/// A batch found.
pub(super) struct Found {
    pub(super) head: BatchHead,
    /// `None` if there was no memory to keep them: they are read again when they are redone.
    pub(super) records: Option<Vec<Record>>,
    /// The chunk's header goes with its first batch.
    pub(super) header: Option<ChunkHeader>,
    /// What to write to make all copies equal; none if the batch was flushed.
    pub(super) rewrite: Option<Gather>,
}

/// One lane from its redo position to its end.
pub(super) struct LaneWalk {
    pub(super) found: Vec<Found>,
    /// Chunks with batches in the redo range: header, sectors used.
    pub(super) chunks: BTreeMap<u32, (ChunkHeader, u32)>,
    pub(super) last_lsn: Lsn,
    pub(super) damage: Vec<Damage>,
    /// Groups that batches name whose records were not kept.
    pub(super) names: GroupNames,
    /// Memory left for records.
    room: usize,
    /// Batches from here on may have to be verified.
    unverified: usize,
    /// Up to here the lane was flushed.
    durable: Lsn,
    /// The place where the next batch would lie cannot be read.
    is_cut: bool,
}

/// Where the walk stands.
struct Cursor {
    chunk: Option<(u32, ChunkHeader)>,
    chunk_sequence: Option<u64>,
    sector: u64,
    batch: u64,
}

impl LaneWalk {
    /// Follows a lane of the commit's epoch.
    pub(super) async fn follow(
        fast: &dyn Drive,
        scan: &Scan,
        position: &LanePosition,
        lane: &LaneChunks,
        mut ahead: Ahead,
        room: usize,
    ) -> Self {
        let mut walk = Self {
            found: Vec::new(),
            chunks: BTreeMap::new(),
            last_lsn: Lsn(position.first_lsn.0.saturating_sub(1)),
            damage: Vec::new(),
            names: GroupNames::default(),
            room,
            unverified: 0,
            durable: Lsn::ZERO,
            is_cut: false,
        };
        let start = lane
            .by_sequence
            .get(&position.chunk_sequence)
            .filter(|(chunk, _)| *chunk == position.chunk);
        let mut cursor = Cursor {
            chunk: start.copied(),
            chunk_sequence: (position.chunk != u32::MAX).then_some(position.chunk_sequence),
            sector: position.sector,
            batch: position.batch,
        };
        loop {
            while walk.step(scan, lane, &mut ahead, &mut cursor).await {}
            if !walk.step_over_damage(fast, scan, lane, &mut cursor).await {
                break;
            }
        }
        ahead.end().await;
        let first = scan.first_sector(position.chunk);
        let began = position.chunk != u32::MAX && position.sector > first;
        if walk.is_cut || (began && start.is_none() && walk.found.is_empty()) {
            walk.note_cut(position.lane, walk.last_lsn.next());
        }
        walk.verify_tail(fast, scan, position.lane).await;
        walk.note_chunks(scan.geometry.chunk_sectors());
        walk
    }

    /// Behind here the lane cannot be read. Whether there was more nobody can know; what a host was
    /// told to be durable may be missing.
    fn note_cut(&mut self, lane: LaneId, from: Lsn) {
        let to = Lsn::MAX;
        self.damage.push(Damage { lane, from, to });
    }

    /// Takes the next batch. False at the lane's end.
    async fn step(
        &mut self,
        scan: &Scan,
        lane: &LaneChunks,
        ahead: &mut Ahead,
        cursor: &mut Cursor,
    ) -> bool {
        // A batch whose write failed stands again at the start of a later chunk, and may all the
        // same be readable where it failed: the later one counts, what follows is there.
        let begin = lane.by_first_batch.get(&cursor.batch).into_iter().flatten();
        let now = cursor.chunk_sequence;
        let later = begin
            .rev()
            .filter(|sequence| now.is_none_or(|now| **sequence > now));
        self.is_cut = false;
        for sequence in later {
            let (chunk, header) = &lane.by_sequence[sequence];
            let sector = scan.first_sector(*chunk);
            let at = (cursor.batch, sector);
            match ahead.seek(scan, lane, header, at).await {
                Sought::Found(head, records) => {
                    cursor.chunk = Some((*chunk, *header));
                    cursor.chunk_sequence = Some(*sequence);
                    cursor.sector = sector;
                    self.take(scan, *chunk, *header, head, records, cursor);
                    return true;
                }
                Sought::Absent => {}
                Sought::Unreadable => self.is_cut = true,
            }
        }
        if let Some((chunk, header)) = cursor.chunk {
            let at = (cursor.batch, cursor.sector);
            match ahead.seek(scan, lane, &header, at).await {
                Sought::Found(head, records) => {
                    self.take(scan, chunk, header, head, records, cursor);
                    return true;
                }
                Sought::Absent => {}
                Sought::Unreadable => self.is_cut = true,
            }
        }
        false
    }

    fn take(
        &mut self,
        scan: &Scan,
        chunk: u32,
        header: ChunkHeader,
        head: BatchHead,
        records: Vec<Record>,
        cursor: &mut Cursor,
    ) {
        let is_first = cursor.sector == scan.first_sector(chunk);
        cursor.sector += head.batch_bytes() / SECTOR_BYTES;
        cursor.batch = head.sequence + 1;
        self.last_lsn = self.last_lsn.max(head.last_lsn());
        let header = is_first.then_some(header);
        self.durable = self.durable.max(head.durable_through);
        self.found.push(Found {
            head,
            records: Some(records),
            header,
            rewrite: None,
        });
        self.save_memory(&scan.geometry);
        if let Some((chunk, header)) = cursor.chunk {
            self.chunks.insert(chunk, (header, 0));
        }
    }

    /// Batches that are known to have been flushed need not be verified: without room their records are
    /// not kept.
    fn save_memory(&mut self, geometry: &Geometry) {
        while let Some(found) = self.found.get_mut(self.unverified)
            && found.head.last_lsn() <= self.durable
        {
            self.unverified += 1;
            let count = found.records.as_ref().map_or(0, Vec::len);
            match self.room.checked_sub(batch_bytes(&found.head, count)) {
                Some(room) => self.room = room,
                None => {
                    self.room = 0;
                    let records = found.records.take().unwrap_or_default();
                    self.names.note(geometry, found.head.sequence, &records);
                }
            }
        }
    }

    /// Goes on behind batches that had been flushed and are on no copy. False at the lane's end.
    async fn step_over_damage(
        &mut self,
        fast: &dyn Drive,
        scan: &Scan,
        lane: &LaneChunks,
        cursor: &mut Cursor,
    ) -> bool {
        let Some(sequence) = cursor.chunk_sequence else {
            return false;
        };
        let later = lane
            .by_sequence
            .range(sequence + 1..)
            .map(|(_, chunk)| *chunk);
        let hole = Hole {
            at: cursor.chunk.map(|chunk| (chunk, cursor.sector)),
            later: later.collect(),
            batch: cursor.batch,
            last: self.last_lsn,
        };
        let Some((place, head)) = hole.end(fast, scan).await else {
            return false;
        };
        self.damage.push(Damage {
            lane: head.lane,
            from: self.last_lsn.next(),
            to: head.first_lsn,
        });
        let (chunk, sector) = place;
        cursor.chunk = Some(chunk);
        cursor.chunk_sequence = Some(chunk.1.chunk_sequence);
        cursor.sector = sector;
        cursor.batch = head.sequence;
        true
    }

    /// Batches beyond what was flushed may be torn: the first with a payload on no copy ends the
    /// lane. The others are read whole, to be written back to all copies.
    async fn verify_tail(&mut self, fast: &dyn Drive, scan: &Scan, lane: LaneId) {
        let durable = self.durable;
        for index in 0..self.found.len() {
            if self.found[index].head.last_lsn() <= durable {
                continue;
            }
            match whole_batch(fast, scan, &self.found[index]).await {
                Ok(gather) => self.found[index].rewrite = Some(gather),
                Err(why) => {
                    if why == Broken::Unreadable {
                        self.note_cut(lane, self.found[index].head.first_lsn);
                    }
                    self.found.truncate(index);
                    break;
                }
            }
        }
    }

    /// Notes how far each chunk of the redo range is used.
    fn note_chunks(&mut self, chunk_sectors: u64) {
        let ends: Vec<(u64, u64)> = self
            .found
            .iter()
            .map(|found| {
                (
                    found.head.address,
                    found.head.address + found.head.batch_bytes() / SECTOR_BYTES,
                )
            })
            .collect();
        for (header, used) in self.chunks.values_mut() {
            let start = header.address;
            let inside = ends
                .iter()
                .filter(|(address, _)| (start..start + chunk_sectors).contains(address));
            let end = inside.map(|(_, end)| *end).max();
            *used = end.map_or(0, |end| (end - start) as u32);
        }
    }
}
