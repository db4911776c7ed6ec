//! Batch headers read ahead: where a batch ends is known from its header only, but where chunks begin
//! is known of all of a lane, so several chunks are read side by side.
//!
//! **Invariant**: what was read ahead is only what would be read now; whoever asks for something else
//! reads it himself.

use super::scan::{LaneChunks, Scan};
use super::walk::{Expect, Sought, seek_batch};
use crate::geometry::{CHUNK_HEAD_SECTORS, Geometry};
use crate::ways::Ways;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{BatchHead, ChunkHeader, Record};
use varve_io::{Drive, Receiver, World};
use varve_units::SECTOR_BYTES;

/// Chunks read side by side. Arbitrary: as much as keeps a drive busy.
const CHUNKS_AHEAD: usize = 8;
/// Memory for what is read ahead of one chunk, about; what lies behind it is read when its turn comes.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Batches of one chunk, from its start on.
type Run = VecDeque<(BatchHead, Vec<Record>)>;

/// Memory that the records of a batch take, about: they and what they point to, which is what was
/// encoded.
pub(super) const fn batch_bytes(head: &BatchHead, records: usize) -> usize {
    head.header_bytes as usize + records * size_of::<Record>()
}

/// What is read ahead of one lane.
pub(super) struct Ahead {
    world: Rc<dyn World>,
    fast: Rc<dyn Drive>,
    /// Runs on their way, by the chunk's sequence in the lane.
    reading: BTreeMap<u64, Receiver<Run>>,
    /// What is left of the run of the chunk that was asked for last.
    run: (Option<u64>, Run),
    /// Chunks up to this sequence were asked for.
    asked: Option<u64>,
}

impl Ahead {
    pub(super) fn new(world: &Rc<dyn World>, fast: &Rc<dyn Drive>) -> Self {
        Self {
            world: Rc::clone(world),
            fast: Rc::clone(fast),
            reading: BTreeMap::new(),
            run: (None, Run::new()),
            asked: None,
        }
    }

    /// The batch `batch` at `sector` of the chunk with this header, as [`seek_batch`] finds it.
    pub(super) async fn seek(
        &mut self,
        scan: &Scan,
        lane: &LaneChunks,
        header: &ChunkHeader,
        (batch, sector): (u64, u64),
    ) -> Sought {
        let chunk = header.chunk_sequence;
        if self.run.0 != Some(chunk) {
            let run = match self.reading.remove(&chunk) {
                Some(reading) => reading.await,
                None => Run::new(),
            };
            self.run = (Some(chunk), run);
        }
        self.read_on(scan, lane, chunk);
        let run = &mut self.run.1;
        let is_next =
            |(head, _): &(BatchHead, Vec<Record>)| head.sequence == batch && head.address == sector;
        if run.front().is_some_and(is_next)
            && let Some((head, records)) = run.pop_front()
        {
            return Sought::Found(head, records);
        }
        let expect = Expect::of(scan, header, Some(batch), sector);
        seek_batch(&*self.fast, &scan.geometry, &expect, &mut Ways::default()).await
    }

    /// Begins to read chunks behind the one in hand.
    fn read_on(&mut self, scan: &Scan, lane: &LaneChunks, chunk: u64) {
        let later = lane.by_sequence.range(chunk + 1..).take(CHUNKS_AHEAD);
        for (sequence, (_, header)) in later {
            if self.asked.is_some_and(|asked| *sequence <= asked) {
                continue;
            }
            self.asked = Some(*sequence);
            let (fast, geometry) = (Rc::clone(&self.fast), scan.geometry);
            let expected = Expect::of(scan, header, Some(header.first_batch), 0);
            let header = *header;
            let read = async move { read_run(&*fast, &geometry, &header, expected).await };
            self.reading.insert(*sequence, self.world.run(read));
        }
    }

    /// Waits for what is still being read, and forgets it.
    pub(super) async fn end(self) {
        for (_, reading) in self.reading {
            drop(reading.await);
        }
    }
}

/// Batches from a chunk's start on, until one is not there or they are as many as may be.
async fn read_run(
    fast: &dyn Drive,
    geometry: &Geometry,
    header: &ChunkHeader,
    first: Expect,
) -> Run {
    let mut run = Run::new();
    let (mut bytes, mut batch) = (0, header.first_batch);
    let mut sector = header.address + CHUNK_HEAD_SECTORS;
    while bytes < CHUNK_BYTES_MAX {
        let expect = first.at(batch, sector);
        let sought = seek_batch(fast, geometry, &expect, &mut Ways::default()).await;
        let Sought::Found(head, records) = sought else {
            break;
        };
        sector += head.batch_bytes() / SECTOR_BYTES;
        batch += 1;
        bytes += batch_bytes(&head, records.len());
        run.push_back((head, records));
    }
    run
}
