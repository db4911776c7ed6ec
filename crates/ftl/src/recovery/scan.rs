//! Chunk headers, and the newest commit.

use super::RecoverError;
use super::hole::Hole;
use super::walk::{Expect, read_batch};
use crate::config::{Canary, Config};
use crate::geometry::{CHUNK_HEAD_SECTORS, Geometry};
use crate::limits::{BATCH_HEADER_BYTES_MAX, BATCH_META_SECTORS_MAX};
use crate::shared::Identity;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::{Deref, Range};
use varve_format::{ChunkHeader, CommitBody, CommitPlace, PayloadLayout, Record, crc32c};
use varve_io::{Command, Done, Drive, Sectors, Target};
use varve_units::{BLOCK_BYTES, LaneId, Lsn, SECTOR_BYTES};

/// Chunk headers read at the same time. Arbitrary: as many as keep a drive busy.
const HEADERS_AHEAD: usize = 32;

/// Bytes behind the start of any batch within which the next one begins, and no less than what may be written between
/// two flushes.
fn window_bytes(geometry: &Geometry, config: &Config) -> u64 {
    let data = config.lane.batch_blocks_max * BLOCK_BYTES;
    let meta = BATCH_META_SECTORS_MAX * SECTOR_BYTES;
    let longest = data + meta + BATCH_HEADER_BYTES_MAX + u64::from(geometry.lba_bytes);
    longest.max(2 * config.flush_bytes)
}

/// The chunks of a lane.
pub(super) struct LaneChunks {
    /// Number and header of each, by its sequence.
    pub(super) by_sequence: BTreeMap<u64, (u32, ChunkHeader)>,
    /// Sequences of those that begin with a batch, in order: each batch of a walk is looked up.
    pub(super) by_first_batch: BTreeMap<u64, Vec<u64>>,
}

/// All chunk headers of the pool.
pub(super) struct Scan {
    pub(super) geometry: Geometry,
    pub(super) identity: Identity,
    pub(super) elided: bool,
    /// Bytes behind a batch within which the next one begins.
    pub(super) window_bytes: u64,
    pub(super) old_epochs_pass: bool,
    pub(super) headers: Vec<Option<ChunkHeader>>,
}

impl Scan {
    /// Reads every chunk's header. Of copies that differ, the newest counts: a header may have
    /// reached one copy only.
    pub(super) async fn read(
        fast: &dyn Drive,
        geometry: &Geometry,
        config: &Config,
        identity: Identity,
    ) -> Self {
        let mut headers = Vec::with_capacity(geometry.chunks as usize);
        let copies = fast.info().copies;
        let places = (0..geometry.chunks).flat_map(|chunk| (0..copies).map(move |c| (chunk, c)));
        let mut places = places.map(|(chunk, copy)| Command::Read {
            offset: geometry.chunk_start(chunk) * SECTOR_BYTES,
            into: Target::Meta(Sectors::zeroed(CHUNK_HEAD_SECTORS as usize)),
            copy,
        });
        let mut reading: VecDeque<_> = VecDeque::with_capacity(HEADERS_AHEAD);
        for chunk in 0..geometry.chunks {
            let address = geometry.chunk_start(chunk);
            let mut newest: Option<ChunkHeader> = None;
            for _ in 0..copies {
                let more = HEADERS_AHEAD - reading.len();
                reading.extend(places.by_ref().take(more).map(|read| fast.submit(read)));
                let read = reading
                    .pop_front()
                    .expect("every copy of every chunk is read");
                let Ok(Done::Read(Target::Meta(sectors))) = read.await else {
                    continue;
                };
                for header in ChunkHeader::decode_each(sectors.bytes(), &identity.pool, address) {
                    if newest.is_none_or(|newest| age(&newest) < age(&header)) {
                        newest = Some(header);
                    }
                }
            }
            headers.push(newest.filter(|header| header.epoch < identity.epoch));
        }
        Self {
            geometry: *geometry,
            identity,
            elided: config.elided,
            window_bytes: window_bytes(geometry, config),
            old_epochs_pass: config.is_planted(Canary::OldEpochAccepted),
            headers,
        }
    }

    /// The chunks of a lane in one epoch.
    pub(super) fn lane(&self, epoch: u32, lane: LaneId) -> LaneChunks {
        let headers = self.headers.iter().enumerate();
        let by_sequence: BTreeMap<_, _> = headers
            .filter_map(|(chunk, header)| Some((chunk as u32, (*header)?)))
            .filter(|(_, header)| header.epoch == epoch || self.old_epochs_pass)
            .filter(|(_, header)| header.lane == lane)
            .map(|(chunk, header)| (header.chunk_sequence, (chunk, header)))
            .collect();
        let mut by_first_batch: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (sequence, (_, header)) in &by_sequence {
            let begin = by_first_batch.entry(header.first_batch).or_default();
            begin.push(*sequence);
        }
        LaneChunks {
            by_sequence,
            by_first_batch,
        }
    }

    /// LSNs that headers name.
    pub(super) fn lsns(&self) -> impl Iterator<Item = Lsn> + '_ {
        self.headers
            .iter()
            .flatten()
            .flat_map(|header| [header.first_lsn, header.stamp])
    }

    /// The newest commit: named by a header, or lying in the newest chunk of lane 0 of an epoch.
    ///
    /// Lane 0 opens no chunk between the append of a commit and its flush, so a commit that no
    /// header names lies in lane 0's newest chunk (ADR 9).
    pub(super) async fn newest_commit(
        &self,
        fast: &dyn Drive,
    ) -> Result<(CommitBody, CommitPlace), RecoverError> {
        let named = self
            .headers
            .iter()
            .flatten()
            .filter_map(|header| header.commit);
        let mut best = named.max_by_key(rank);
        let mut epochs: Vec<u32> = self
            .headers
            .iter()
            .flatten()
            .map(|header| header.epoch)
            .collect();
        epochs.sort_unstable();
        epochs.dedup();
        epochs.retain(|epoch| best.is_none_or(|best| *epoch >= best.epoch));
        for epoch in epochs {
            let lane = self.lane(epoch, LaneId(0));
            let newest = lane.by_sequence.into_values().next_back();
            let Some((chunk, header)) = newest else {
                continue;
            };
            for found in self.commits_in(fast, chunk, &header).await {
                if best.is_none_or(|best| rank(&best) < rank(&found)) {
                    best = Some(found);
                }
            }
        }
        let best = best.ok_or(RecoverError::NoCheckpoint)?;
        let body = self.read_commit(fast, &best).await;
        let unreadable = RecoverError::CommitUnreadable {
            checkpoint: best.checkpoint,
        };
        Ok((body.ok_or(unreadable)?, best))
    }

    /// Where the first batch of a chunk lies.
    pub(super) const fn first_sector(&self, chunk: u32) -> u64 {
        self.geometry.chunk_start(chunk) + CHUNK_HEAD_SECTORS
    }

    /// The commits in one chunk whose payload is whole, those behind lost batches too.
    async fn commits_in(
        &self,
        fast: &dyn Drive,
        chunk: u32,
        header: &ChunkHeader,
    ) -> Vec<CommitPlace> {
        let mut found = Vec::new();
        let mut sector = self.first_sector(chunk);
        let mut sequence = header.first_batch;
        let mut last = Lsn(header.first_lsn.0.saturating_sub(1));
        loop {
            let expect = Expect::of(self, header, Some(sequence), sector);
            let Some((head, records)) = read_batch(fast, &self.geometry, &expect).await else {
                let hole = Hole {
                    at: Some(((chunk, *header), sector)),
                    later: Vec::new(),
                    batch: sequence,
                    last,
                };
                let Some((place, head)) = hole.end(fast, self).await else {
                    return found;
                };
                (sector, sequence) = (place.1, head.sequence);
                continue;
            };
            for record in &records {
                if let Record::Commit { checkpoint, .. } = record {
                    let place = CommitPlace {
                        checkpoint: *checkpoint,
                        epoch: header.epoch,
                        sector,
                    };
                    if self.read_commit(fast, &place).await.is_some() {
                        found.push(place);
                    }
                }
            }
            sector += head.batch_bytes() / SECTOR_BYTES;
            sequence += 1;
            last = last.max(head.last_lsn());
        }
    }

    /// Reads the commit at a place.
    async fn read_commit(&self, fast: &dyn Drive, place: &CommitPlace) -> Option<CommitBody> {
        let chunk = self.geometry.chunk_of(place.sector);
        let header = (*self.headers.get(chunk as usize)?)?;
        let expect = Expect::of(self, &header, None, place.sector);
        let (head, records) = read_batch(fast, &self.geometry, &expect).await?;
        for at in PayloadLayout::new(&head, &records) {
            let Record::Commit {
                checkpoint,
                bytes,
                crc,
            } = &records[at.record]
            else {
                continue;
            };
            if *checkpoint != place.checkpoint || header.epoch != place.epoch {
                continue;
            }
            let payload = read_payload(fast, &self.geometry, at.meta_sector, *bytes, *crc).await?;
            let body = CommitBody::decode(&payload).ok()?;
            return (body.checkpoint == *checkpoint && body.epoch == header.epoch).then_some(body);
        }
        None
    }
}

/// Which of two headers of one chunk is younger. Chunk sequences count within a lane; stamps are
/// drawn from one clock.
const fn age(header: &ChunkHeader) -> (u32, Lsn) {
    (header.epoch, header.stamp)
}

fn rank(place: &CommitPlace) -> (u32, u64) {
    (place.epoch, place.checkpoint)
}

/// A metadata payload where it lies in the sectors that were read: it is not copied out of them.
pub(super) struct Payload {
    sectors: Sectors,
    range: Range<usize>,
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.sectors.bytes()[self.range.clone()]
    }
}

/// Reads a metadata payload by whichever copy passes its checksum.
pub(super) async fn read_payload(
    fast: &dyn Drive,
    geometry: &Geometry,
    sector: u64,
    bytes: u32,
    crc: u32,
) -> Option<Payload> {
    let unit = u64::from(geometry.lba_bytes) / SECTOR_BYTES;
    let start = sector / unit * unit;
    let end = (sector + u64::from(bytes).div_ceil(SECTOR_BYTES)).next_multiple_of(unit);
    if end > geometry.fast_sectors() {
        return None;
    }
    for copy in 0..fast.info().copies {
        let into = Sectors::zeroed((end - start) as usize);
        let Ok(sectors) = fast.read_meta(start * SECTOR_BYTES, into, copy).await else {
            continue;
        };
        let from = ((sector - start) * SECTOR_BYTES) as usize;
        let range = from..from + bytes as usize;
        let payload = Payload { sectors, range };
        if crc32c(&payload) == crc {
            return Some(payload);
        }
    }
    None
}
