//! One append point of the fast-tier log: gathers records into batches, one device write each.
//!
//! 1. Records queue; while writes are in flight the queue grows (group commit, no timer).
//! 2. A batch takes as many records from the queue's head as fit its limits and the open chunk.
//! 3. LSNs and places are fixed when the batch is sealed.
//! 4. Batches are acknowledged in lane order, whatever order their writes complete in.
//!
//! This object knows no I/O: the shard asks it to [`Lane::seal`], submits the write, and reports
//! how it ended.
//!
//! **Invariants**: LSNs and batch numbers grow without gaps inside a batch; a batch never crosses
//! a chunk; what is acknowledged is a prefix of what was sealed.

use crate::batch::{Contents, OpenChunk, Queue, place, sectors_of};
use crate::geometry::Geometry;
use crate::limits::{BATCH_HEADER_BYTES_MAX, BATCH_META_SECTORS_MAX};
use crate::load::{Appended, Load};
use crate::shared::Identity;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use varve_format::{BatchHead, BatchStart, CommitPlace, LanePosition, Record, RecordSize};
use varve_io::{Gather, Supply};
use varve_units::{Generation, LaneId, Lsn, SECTOR_BYTES};

/// Records of a batch whose memory is kept for another one. Arbitrary: most batches have fewer, and all
/// that is kept is less than a full queue.
const SPARE_RECORDS_MAX: usize = 256;

/// The next chunk is asked for when less than one of so many parts of the open one is left. Arbitrary: the
/// answer takes far less than a quarter of a chunk.
const AHEAD_SHARE: u64 = 4;

/// The chunk that comes after the open one.
enum Ahead {
    Unasked,
    Asked,
    Given(ChunkGrant),
    /// Not before the open one is full.
    Refused,
}

/// A sealed batch.
pub struct Batch {
    /// Number in the lane.
    pub sequence: u64,
    /// Its records.
    pub records: Vec<Record>,
    /// What goes with each.
    pub loads: Vec<Load>,
    /// Where the first of them lies.
    pub(crate) first: Appended,
    chunk: u32,
    chunk_sequence: u64,
    state: BatchState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchState {
    Writing,
    Written,
    Failed,
}

impl Batch {
    /// LSN of its first record.
    pub const fn first_lsn(&self) -> Lsn {
        self.first.lsn
    }

    /// LSN of its last record.
    pub fn last_lsn(&self) -> Lsn {
        self.first_lsn().plus(self.records.len() as u64 - 1)
    }

    /// Chunk it lies in.
    pub const fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Fast-tier sector of its header.
    pub const fn sector(&self) -> u64 {
        self.first.batch_sector
    }

    /// Its records with what goes with each, and where it lies.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Record, &Load, Appended)> {
        let mut next = self.first;
        self.records
            .iter()
            .zip(&self.loads)
            .map(move |(record, load)| {
                let at = next;
                next = at.behind(load);
                (record, load, at)
            })
    }

    fn has_commit(&self) -> bool {
        self.records
            .iter()
            .any(|record| matches!(record, Record::Commit { .. }))
    }
}

/// A write to submit.
pub struct Write {
    /// Number of the batch.
    pub sequence: u64,
    /// Byte offset on the fast tier.
    pub offset: u64,
    /// What to write.
    pub gather: Gather,
    /// Chunk written to.
    pub chunk: u32,
    /// Sectors of the chunk in use after it.
    pub write_pointer: u32,
    /// Records of the batch.
    pub records: u64,
    /// Fast-tier sector of the batch's first data block; the others lie behind it (ADR 4).
    pub data_sector: u64,
    /// Data blocks of the batch.
    pub data_blocks: u32,
}

/// A chunk handed to a lane.
#[derive(Clone, Copy, Debug)]
pub struct ChunkGrant {
    /// Its index.
    pub chunk: u32,
    /// Its stamp.
    pub stamp: Lsn,
    /// Its generation.
    pub generation: Generation,
    /// The newest committed checkpoint, named in the chunk's header.
    pub commit: Option<CommitPlace>,
    /// What it may take: one of the last few is for few records alone, until [`Lane::lift`].
    pub takes: Rank,
}

/// Where a lane goes on.
#[derive(Clone, Copy, Debug)]
pub enum Grant {
    /// In another chunk.
    Chunk(ChunkGrant),
    /// In the chunk it has, which may take this now.
    Lift(Rank),
}

/// Of which free chunks a record may take one. Each rank leaves some to those above it, so that what
/// frees chunks always finds room. Higher ranks overtake: what they depend on is acknowledged already.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// What hosts write, and what moves.
    Ordinary,
    /// Leaves, which free delta nodes and the chunks that only leaves keep; the catalogue.
    Upkeep,
    /// Parts of checkpoints and commits, which free units: every free chunk.
    Checkpoint,
}

impl Rank {
    /// All ranks, the highest first.
    const DOWN: [Self; 3] = [Self::Checkpoint, Self::Upkeep, Self::Ordinary];

    /// The rank of a record.
    #[inline(always)]
    pub(crate) const fn of(record: &Record) -> Self {
        match record {
            Record::Part { .. } | Record::Commit { .. } => Self::Checkpoint,
            Record::Leaf { .. } | Record::Catalogue { .. } => Self::Upkeep,
            _ => Self::Ordinary,
        }
    }
}

/// Limits of a lane's batches.
#[derive(Clone, Copy, Debug)]
pub struct LaneLimits {
    /// Data blocks of one batch at most.
    pub batch_blocks_max: u64,
    /// Batches in flight at most.
    pub inflight_max: usize,
}

/// Why nothing was sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// The queue is empty, or enough is in flight, or a failed write is being dealt with.
    Busy,
    /// A new chunk is needed.
    NeedsChunk {
        /// For a record of this rank.
        rank: Rank,
    },
}

/// One append point. See the module's description.
pub struct Lane {
    id: LaneId,
    identity: Identity,
    geometry: Geometry,
    limits: LaneLimits,
    next_lsn: Lsn,
    acked_lsn: Lsn,
    durable: Lsn,
    next_batch: u64,
    next_chunk_sequence: u64,
    open: Option<OpenChunk>,
    closed: Vec<u32>,
    ahead: Ahead,
    /// What waits, by rank.
    queues: [Queue; 3],
    /// Batches to be sealed again in another chunk after a failed write.
    again: VecDeque<Batch>,
    inflight: VecDeque<Batch>,
    /// Bytes sealed since the last flush began.
    unflushed_bytes: u64,
    /// A commit was sealed and is not flushed yet: no chunk may be opened (ADR 9).
    holds: bool,
    /// Empty memory of batches that were acknowledged, for the next ones.
    spare: Vec<Contents>,
    /// Memory of headers.
    supply: Supply,
}

impl Lane {
    /// A lane whose first record gets `first_lsn`.
    pub fn new(
        id: LaneId,
        identity: Identity,
        geometry: Geometry,
        limits: LaneLimits,
        first_lsn: Lsn,
        supply: Supply,
    ) -> Self {
        Self {
            id,
            identity,
            geometry,
            limits,
            next_lsn: first_lsn,
            acked_lsn: Lsn(first_lsn.0 - 1),
            durable: Lsn(first_lsn.0 - 1),
            next_batch: 0,
            next_chunk_sequence: 0,
            open: None,
            closed: Vec::new(),
            ahead: Ahead::Unasked,
            queues: Default::default(),
            again: VecDeque::new(),
            inflight: VecDeque::new(),
            unflushed_bytes: 0,
            holds: false,
            spare: Vec::new(),
            supply,
        }
    }

    /// Queues a record, ahead of those of lower ranks. With `joins_next` it goes into one batch with the
    /// record that is queued next: both are in the log, or neither.
    #[inline(always)]
    pub fn push(&mut self, record: Record, mut load: Load, joins_next: bool) {
        load.joins_next = joins_next;
        let rank = Rank::of(&record);
        self.queues[rank as usize].push(record, load);
    }

    /// Ordinary records queued and not yet sealed.
    #[inline]
    pub fn queued(&self) -> usize {
        self.queues[Rank::Ordinary as usize].len()
    }

    /// Batches sealed and not yet acknowledged.
    pub fn in_flight(&self) -> usize {
        self.inflight.len() + self.again.len()
    }

    /// True if no chunk may be opened: a commit was sealed and is not flushed yet.
    pub const fn holds(&self) -> bool {
        self.holds
    }

    /// Every record with an LSN at or below is acknowledged.
    pub const fn acked_lsn(&self) -> Lsn {
        self.acked_lsn
    }

    /// The LSN the next record gets.
    pub const fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    /// Someone has seen `lsn`: continue at it or above (Lamport clock).
    pub fn observe(&mut self, lsn: Lsn) {
        self.next_lsn = self.next_lsn.max(lsn);
    }

    /// Everything up to `lsn` was flushed.
    pub fn set_durable(&mut self, lsn: Lsn) {
        self.durable = self.durable.max(lsn);
    }

    /// Bytes sealed since the last flush began, and restarts the count.
    pub fn take_unflushed(&mut self) -> u64 {
        core::mem::take(&mut self.unflushed_bytes)
    }

    /// Bytes sealed since the last flush began.
    pub const fn unflushed_bytes(&self) -> u64 {
        self.unflushed_bytes
    }

    /// True if nothing is queued or in flight.
    pub fn is_drained(&self) -> bool {
        self.first_queued().is_none() && self.inflight.is_empty() && self.again.is_empty()
    }

    /// The highest rank that is queued.
    fn first_queued(&self) -> Option<Rank> {
        let queued = |rank: &Rank| !self.queues[*rank as usize].is_empty();
        Rank::DOWN.into_iter().find(queued)
    }

    /// What its open chunk may take.
    pub fn takes(&self) -> Option<Rank> {
        self.open.as_ref().map(|open| open.grant.takes)
    }

    /// Records of this rank may go to the open chunk: enough others are free for those above.
    pub fn lift(&mut self, rank: Rank) {
        if let Some(open) = &mut self.open {
            open.grant.takes = open.grant.takes.min(rank);
        }
    }

    /// Where redo must begin to see every record that is not yet acknowledged.
    pub fn position(&self) -> LanePosition {
        let (chunk, sector, chunk_sequence) = match (self.inflight.front(), &self.open) {
            (Some(batch), _) => (batch.chunk, batch.sector(), batch.chunk_sequence),
            (None, Some(open)) => (open.grant.chunk, open.batch_start(), open.sequence),
            (None, None) => (u32::MAX, 0, self.next_chunk_sequence),
        };
        let oldest = self.inflight.front().or(self.again.front());
        LanePosition {
            lane: self.id,
            chunk,
            sector,
            batch: oldest.map_or(self.next_batch, |batch| batch.sequence),
            chunk_sequence,
            first_lsn: oldest.map_or(self.next_lsn, Batch::first_lsn),
        }
    }

    /// A free chunk for the lane to continue in.
    ///
    /// # Panics
    /// If the open one was not found too small first, and takes whatever there is.
    pub fn give_chunk(&mut self, grant: ChunkGrant) {
        if self.takes().is_some_and(|takes| takes > Rank::Ordinary) {
            self.close_chunk();
        }
        assert!(self.open.is_none(), "a lane has one open chunk");
        let start = self.geometry.chunk_start(grant.chunk);
        self.observe(grant.stamp);
        self.open = Some(OpenChunk {
            grant,
            sequence: self.next_chunk_sequence,
            next: start,
            end: start + self.geometry.chunk_sectors(),
            fresh: true,
        });
        self.next_chunk_sequence += 1;
        if let Ahead::Refused = self.ahead {
            self.ahead = Ahead::Unasked;
        }
    }

    /// True if so little is left of the open chunk that the next is to be asked for now. Never of lane 0:
    /// what its chunks name must be the newest commit when they are opened (ADR 9).
    pub fn asks_ahead(&mut self) -> bool {
        let few = self.geometry.chunk_sectors() / AHEAD_SHARE;
        let is_near_end = |open: &OpenChunk| open.end - open.next < few;
        let is_due = self.id != LaneId(0)
            && matches!(self.ahead, Ahead::Unasked)
            && self.open.as_ref().is_some_and(is_near_end);
        if is_due {
            self.ahead = Ahead::Asked;
        }
        is_due
    }

    /// The chunk to continue in when the open one is full, or none for now.
    pub fn give_ahead(&mut self, grant: Option<ChunkGrant>) {
        assert!(matches!(self.ahead, Ahead::Asked), "it was asked for");
        self.ahead = grant.map_or(Ahead::Refused, Ahead::Given);
    }

    /// Goes on in the chunk that was given ahead. False if there is none.
    pub fn open_ahead(&mut self) -> bool {
        let Ahead::Given(grant) = self.ahead else {
            return false;
        };
        self.ahead = Ahead::Unasked;
        self.give_chunk(grant);
        true
    }

    /// Gives up the open chunk, so that the next batch begins a new one.
    pub fn close_chunk(&mut self) {
        if let Some(open) = self.open.take() {
            self.closed.push(open.grant.chunk);
        }
    }

    /// The open chunk.
    pub fn open_chunk(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.grant.chunk)
    }

    /// Chunks in the lane's hand: the open one, the next, and those given up and not yet taken back.
    pub fn chunks(&self) -> Vec<u32> {
        let ahead = match &self.ahead {
            Ahead::Given(grant) => Some(grant.chunk),
            _ => None,
        };
        let closed = self.closed.iter().copied();
        closed.chain(self.open_chunk()).chain(ahead).collect()
    }

    /// Chunks given up since the last call, with every batch in them acknowledged.
    pub fn take_closed(&mut self) -> Vec<u32> {
        if self.closed.is_empty() {
            return Vec::new();
        }
        let busy: Vec<u32> = self.inflight.iter().map(|batch| batch.chunk).collect();
        let (keep, done) = self
            .closed
            .drain(..)
            .partition(|chunk| busy.contains(chunk));
        self.closed = keep;
        done
    }

    /// Seals the next batch, if one may go out now.
    pub fn seal(&mut self) -> Result<Write, Idle> {
        if self
            .inflight
            .iter()
            .any(|batch| batch.state == BatchState::Failed)
            || self.inflight.len() >= self.limits.inflight_max
        {
            return Err(Idle::Busy);
        }
        if let Some(batch) = self.again.front() {
            let sizes = batch.records.iter().map(RecordSize::of);
            let size = sizes.fold(RecordSize::default(), RecordSize::plus);
            if !self.has_room(sectors_of(&size, self.lba_sectors())) {
                // A commit that is to be written again was not flushed either.
                if self.holds && !self.again.iter().any(Batch::has_commit) {
                    return Err(Idle::Busy);
                }
                self.close_chunk();
                let rank = Rank::Checkpoint;
                return Err(Idle::NeedsChunk { rank });
            }
            let batch = self.again.pop_front().expect("just seen");
            // New LSNs: its references must not be older than the stamp of the chunk they lie in.
            return Ok(self.put(batch.sequence, &size, (batch.records, batch.loads)));
        }
        let Some(rank) = self.first_queued() else {
            return Err(Idle::Busy);
        };
        let (count, size) = self.fitting();
        if count == 0 {
            if self.holds {
                return Err(Idle::Busy);
            }
            // A chunk that is kept for others stays as it is.
            if self.takes().is_some_and(|takes| takes <= rank) {
                self.close_chunk();
            }
            return Err(Idle::NeedsChunk { rank });
        }
        let contents = self.take(count);
        let sequence = self.next_batch;
        self.next_batch += 1;
        Ok(self.put(sequence, &size, contents))
    }

    /// Takes so many records from the heads of the queues.
    fn take(&mut self, count: usize) -> Contents {
        let may_commit = !self.queues[Rank::Checkpoint as usize].is_empty();
        let mut contents = self.spare.pop().unwrap_or_default();
        for rank in Rank::DOWN {
            let queue = &mut self.queues[rank as usize];
            let fitting = queue.len().min(count - contents.0.len());
            if fitting > 0 {
                queue.take(fitting, &mut contents);
            }
        }
        if may_commit {
            let mut records = contents.0.iter();
            self.holds |= records.any(|record| matches!(record, Record::Commit { .. }));
        }
        contents
    }

    /// Sectors of an LBA.
    const fn lba_sectors(&self) -> u64 {
        self.geometry.lba_bytes as u64 / SECTOR_BYTES
    }

    fn has_room(&self, sectors: u64) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.batch_start() + sectors <= open.end)
    }

    /// How many records that the open chunk takes, from the heads of the queues, fit a batch and it,
    /// and what they take of it.
    fn fitting(&self) -> (usize, RecordSize) {
        let none = (0, RecordSize::default());
        let Some(open) = &self.open else {
            return none;
        };
        let ranks = Rank::DOWN.into_iter();
        let taken = ranks.take_while(|rank| *rank >= open.grant.takes);
        let room = open.end.saturating_sub(open.batch_start());
        let fits = |count: usize, size: &RecordSize| {
            let over = size.data_blocks as u64 > self.limits.batch_blocks_max
                || size.meta_sectors as u64 > BATCH_META_SECTORS_MAX
                || size.bytes as u64 > BATCH_HEADER_BYTES_MAX
                || count > varve_format::BATCH_RECORDS_MAX;
            (count == 1 || !over) && sectors_of(size, self.lba_sectors()) <= room
        };
        // Those up to the last one that does not join the next.
        let (mut sum, mut whole) = (none, none);
        for queue in taken.map(|rank| &self.queues[rank as usize]) {
            if queue.is_empty() {
                continue;
            }
            // The usual case: all of them, without a look at each. What fits has parts that fit.
            let all = (sum.0 + queue.len(), sum.1.plus(queue.size()));
            if !queue.is_open() && fits(all.0, &all.1) {
                (sum, whole) = (all, all);
                continue;
            }
            for (size, joins_next) in queue.waiting() {
                let (count, size) = (sum.0 + 1, sum.1.plus(size));
                if !fits(count, &size) {
                    return whole;
                }
                sum = (count, size);
                if !joins_next {
                    whole = sum;
                }
            }
        }
        whole
    }

    /// Puts a batch of records that together take `size` into the open chunk.
    fn put(&mut self, sequence: u64, size: &RecordSize, contents: Contents) -> Write {
        let (records, loads) = contents;
        let first_lsn = self.next_lsn;
        self.next_lsn = first_lsn.plus(records.len() as u64);
        let open = self.open.as_mut();
        let open = open.expect("a batch is sealed into an open chunk");
        let start = BatchStart {
            epoch: self.identity.tag(self.identity.epoch),
            lane: self.id,
            sequence,
            address: open.batch_start(),
            chunk_sequence: open.sequence,
            durable_through: self.durable,
            first_lsn,
        };
        let head = BatchHead::of_size(&start, records.len(), size, self.geometry.lba_bytes);
        // Headers of chunk and batch, padding, and of each record blocks or metadata.
        let mut gather = Gather::with_capacity(3 + records.len());
        let offset = open.next * SECTOR_BYTES;
        if open.fresh {
            open.fresh = false;
            let header = open.header(self.identity, self.id, first_lsn, sequence);
            gather.push_meta(header.encode_twice_in(self.supply));
        }
        let first = place(&head, &records, &loads, self.supply, &mut gather);
        open.next = head.address + head.batch_bytes() / SECTOR_BYTES;
        let write_pointer = (open.next - self.geometry.chunk_start(open.grant.chunk)) as u32;
        self.unflushed_bytes += gather.bytes();
        let write = Write {
            sequence,
            offset,
            gather,
            chunk: open.grant.chunk,
            write_pointer,
            records: head.records.into(),
            data_sector: first.data_sector,
            data_blocks: head.data_blocks,
        };
        let batch = Batch {
            sequence,
            records,
            loads,
            first,
            chunk: open.grant.chunk,
            chunk_sequence: open.sequence,
            state: BatchState::Writing,
        };
        let at = self
            .inflight
            .partition_point(|other| other.sequence < batch.sequence);
        self.inflight.insert(at, batch);
        write
    }

    /// The memory of a batch that was acknowledged is for the next ones, unless it is much.
    pub(crate) fn take_back(&mut self, mut batch: Batch) {
        let is_usual = batch.loads.capacity() <= SPARE_RECORDS_MAX;
        if is_usual && self.spare.len() < self.limits.inflight_max {
            batch.records.clear();
            batch.loads.clear();
            self.spare.push((batch.records, batch.loads));
        }
    }

    /// The commit that was sealed is flushed and will be named by every chunk opened from now on.
    pub const fn release(&mut self) {
        self.holds = false;
    }

    /// The write of batch `sequence` ended well. Returns the batches that are acknowledged by
    /// that, in order.
    pub fn written(&mut self, sequence: u64) -> Vec<Batch> {
        self.mark(sequence, BatchState::Written);
        let mut acked = Vec::new();
        while self
            .inflight
            .front()
            .is_some_and(|batch| batch.state == BatchState::Written)
        {
            let batch = self.inflight.pop_front().expect("just seen");
            self.acked_lsn = batch.last_lsn();
            acked.push(batch);
        }
        acked
    }

    /// [`Lane::written`] as the planted bug has it: this batch is acknowledged whatever the ones
    /// before it do.
    pub fn written_alone(&mut self, sequence: u64) -> Vec<Batch> {
        let at = self
            .inflight
            .iter()
            .position(|batch| batch.sequence == sequence);
        let batch = at.and_then(|at| self.inflight.remove(at));
        let batch = batch.expect("a write in flight belongs to a batch");
        self.acked_lsn = self.acked_lsn.max(batch.last_lsn());
        alloc::vec![batch]
    }

    /// Fast-tier sector of the first batch in a chunk that is not acknowledged, if there is one.
    pub(crate) fn unacked_in(&self, chunk: u32) -> Option<u64> {
        let batches = self.inflight.iter().chain(&self.again);
        let here = batches.filter(|batch| batch.chunk == chunk);
        here.map(Batch::sector).min()
    }

    /// The write of batch `sequence` failed. When every batch in flight has ended, the failed one
    /// and all behind it are to be sealed again in another chunk; the chunk given up is returned
    /// with the sector from which on it holds nothing of worth.
    pub fn failed(&mut self, sequence: u64) {
        self.mark(sequence, BatchState::Failed);
    }

    /// After a failure, once nothing is being written: moves the failed batch and those behind it
    /// back, to be sealed again. Returns them for their places to be given up; those that waited
    /// already gave theirs up before, and somebody else may have them by now.
    pub fn reroute(&mut self) -> Option<&[Batch]> {
        let failed = self
            .inflight
            .iter()
            .position(|batch| batch.state == BatchState::Failed)?;
        if self
            .inflight
            .iter()
            .any(|batch| batch.state == BatchState::Writing)
        {
            return None;
        }
        assert_eq!(failed, 0, "batches before the failed one were acknowledged");
        let moved = self.inflight.len();
        self.again = core::mem::take(&mut self.inflight)
            .into_iter()
            .chain(self.again.drain(..))
            .collect();
        self.close_chunk();
        Some(&self.again.make_contiguous()[..moved])
    }

    fn mark(&mut self, sequence: u64, state: BatchState) {
        let batch = self
            .inflight
            .iter_mut()
            .find(|batch| batch.sequence == sequence);
        let batch = batch.expect("a write in flight belongs to a batch");
        assert!(batch.state == BatchState::Writing, "a write ends once");
        batch.state = state;
    }

    /// Everything that waits, to be told that the engine stopped.
    pub fn abandon(&mut self) -> Vec<Load> {
        let queues = self.queues.iter_mut().rev();
        let queued = queues.flat_map(Queue::abandon);
        let sealed = self.again.drain(..).chain(self.inflight.drain(..));
        sealed.flat_map(|batch| batch.loads).chain(queued).collect()
    }
}
