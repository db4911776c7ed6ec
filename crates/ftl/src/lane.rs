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

use crate::batch::{OpenChunk, Size, place};
use crate::crossing::Caller;
use crate::geometry::Geometry;
use crate::limits::{BATCH_HEADER_BYTES_MAX, BATCH_META_SECTORS_MAX};
use crate::progress::MovesTicket;
use crate::shared::Identity;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_format::{BatchHead, BatchStart, CommitPlace, LanePosition, Record};
use varve_io::{Blocks, Gather, Sectors, Sender};
use varve_units::{Generation, LaneId, Lsn, SECTOR_BYTES};

/// What the appender of a record learns when it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// LSN of the record.
    pub lsn: Lsn,
    /// Fast-tier sector of its first data block, if it has any.
    pub data_sector: u64,
    /// Fast-tier sector of its metadata payload, if it has one.
    pub meta_sector: u64,
    /// Fast-tier sector of the batch that holds it.
    pub batch_sector: u64,
}

/// The engine stopped before the record was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

/// A record waiting for its batch.
pub struct Pending {
    /// The record.
    pub record: Record,
    /// What goes with it.
    pub load: Load,
    /// It goes into one batch with the record that is queued next: both are in the log, or neither.
    pub joins_next: bool,
}

/// What goes with a record.
pub struct Load {
    /// Its data blocks.
    pub data: Option<(Rc<Blocks>, Range<usize>)>,
    /// Its metadata payload.
    pub meta: Option<Rc<Sectors>>,
    /// Delta nodes set aside for it in the owner's map.
    pub reserved_nodes: usize,
    /// Blocks it may newly map, counted in the pool's pending ones.
    pub pending_blocks: u64,
    /// Blocks of log it was admitted with, counted in the pool's pending ones.
    pub pending_log: u64,
    /// True if it makes a leaf, counted in the pool's pending ones.
    pub pending_leaf: bool,
    /// Who waits for it.
    pub ticket: Option<Ticket>,
}

/// Who waits for a record.
pub enum Ticket {
    /// A flow of the same reactor.
    Here(Sender<Result<Appended, Stopped>>),
    /// A flow that appended moves of a stripe.
    Moves(MovesTicket),
    /// A host's write that came in on another one.
    There(Caller),
}

impl Load {
    /// Data blocks it brings.
    pub(crate) fn data_blocks(&self) -> u64 {
        self.data
            .as_ref()
            .map_or(0, |(_, range)| range.len() as u64)
    }

    /// Sectors of metadata it brings.
    pub(crate) fn meta_sectors(&self) -> u64 {
        self.meta.as_ref().map_or(0, |meta| meta.len() as u64)
    }
}

/// A sealed batch.
pub struct Batch {
    /// Number in the lane.
    pub sequence: u64,
    /// LSN of its first record.
    pub first_lsn: Lsn,
    /// Its records.
    pub records: Vec<Record>,
    /// What goes with each, and where it lies.
    pub loads: Vec<(Load, Appended)>,
    chunk: u32,
    chunk_sequence: u64,
    sector: u64,
    state: BatchState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchState {
    Writing,
    Written,
    Failed,
}

impl Batch {
    /// LSN of its last record.
    pub fn last_lsn(&self) -> Lsn {
        self.first_lsn.plus(self.records.len() as u64 - 1)
    }

    /// Chunk it lies in.
    pub const fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Fast-tier sector of its header.
    pub const fn sector(&self) -> u64 {
        self.sector
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
    /// What waits, by rank.
    queues: [VecDeque<Pending>; 3],
    /// Batches to be sealed again in another chunk after a failed write.
    again: VecDeque<Batch>,
    inflight: VecDeque<Batch>,
    /// Bytes sealed since the last flush began.
    unflushed_bytes: u64,
    /// A commit was sealed and is not flushed yet: no chunk may be opened (ADR 9).
    holds: bool,
}

impl Lane {
    /// A lane whose first record gets `first_lsn`.
    pub fn new(
        id: LaneId,
        identity: Identity,
        geometry: Geometry,
        limits: LaneLimits,
        first_lsn: Lsn,
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
            queues: Default::default(),
            again: VecDeque::new(),
            inflight: VecDeque::new(),
            unflushed_bytes: 0,
            holds: false,
        }
    }

    /// Queues a record, ahead of those of lower ranks.
    pub fn push(&mut self, pending: Pending) {
        let rank = Rank::of(&pending.record);
        self.queues[rank as usize].push_back(pending);
    }

    /// Ordinary records queued and not yet sealed.
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
            (Some(batch), _) => (batch.chunk, batch.sector, batch.chunk_sequence),
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
            first_lsn: oldest.map_or(self.next_lsn, |batch| batch.first_lsn),
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

    /// Chunks in the lane's hand: the open one, and those given up and not yet taken back.
    pub fn chunks(&self) -> Vec<u32> {
        self.closed
            .iter()
            .copied()
            .chain(self.open_chunk())
            .collect()
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
            let need = Size::of(&batch.records, self.geometry.lba_bytes).sectors();
            if !self.has_room(need) {
                // A commit that is to be written again was not flushed either.
                if self.holds && !self.again.iter().any(Batch::has_commit) {
                    return Err(Idle::Busy);
                }
                self.close_chunk();
                let rank = Rank::Checkpoint;
                return Err(Idle::NeedsChunk { rank });
            }
            let batch = self.again.pop_front().expect("just seen");
            let loads: Vec<Load> = batch.loads.into_iter().map(|(load, _)| load).collect();
            // New LSNs: its references must not be older than the stamp of the chunk they lie in.
            let first_lsn = self.next_lsn;
            self.next_lsn = first_lsn.plus(batch.records.len() as u64);
            return Ok(self.seal_records(batch.records, loads, batch.sequence, first_lsn));
        }
        let Some(rank) = self.first_queued() else {
            return Err(Idle::Busy);
        };
        let count = self.fitting();
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
        let mut records = Vec::with_capacity(count);
        let mut loads = Vec::with_capacity(count);
        for rank in Rank::DOWN {
            let queue = &mut self.queues[rank as usize];
            let fitting = queue.len().min(count - records.len());
            for pending in queue.drain(..fitting) {
                records.push(pending.record);
                loads.push(pending.load);
            }
        }
        self.holds |= records
            .iter()
            .any(|record| matches!(record, Record::Commit { .. }));
        let (sequence, first_lsn) = (self.next_batch, self.next_lsn);
        self.next_batch += 1;
        self.next_lsn = first_lsn.plus(count as u64);
        Ok(self.seal_records(records, loads, sequence, first_lsn))
    }

    fn has_room(&self, sectors: u64) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.batch_start() + sectors <= open.end)
    }

    /// How many records that the open chunk takes, from the heads of the queues, fit a batch and it.
    fn fitting(&self) -> usize {
        let Some(open) = &self.open else {
            return 0;
        };
        let ranks = Rank::DOWN.into_iter();
        let taken = ranks.take_while(|rank| *rank >= open.grant.takes);
        let room = open.end.saturating_sub(open.batch_start());
        let mut size = Size::empty(self.geometry.lba_bytes);
        // Those up to the last one that does not join the next.
        let (mut count, mut whole) = (0, 0);
        for queue in taken.map(|rank| &self.queues[rank as usize]) {
            for pending in queue {
                size.add(&pending.record);
                let over = size.data_blocks > self.limits.batch_blocks_max
                    || size.meta_sectors > BATCH_META_SECTORS_MAX
                    || size.record_bytes > BATCH_HEADER_BYTES_MAX
                    || count >= varve_format::BATCH_RECORDS_MAX;
                if (over && count > 0) || size.sectors() > room {
                    return whole;
                }
                count += 1;
                if !pending.joins_next {
                    whole = count;
                }
            }
        }
        whole
    }

    fn seal_records(
        &mut self,
        records: Vec<Record>,
        loads: Vec<Load>,
        sequence: u64,
        first_lsn: Lsn,
    ) -> Write {
        let open = self
            .open
            .as_mut()
            .expect("a batch is sealed into an open chunk");
        let lba_bytes = self.geometry.lba_bytes;
        let sector = open.batch_start();
        let start = BatchStart {
            epoch: self.identity.tag(self.identity.epoch),
            lane: self.id,
            sequence,
            address: sector,
            chunk_sequence: open.sequence,
            durable_through: self.durable,
            first_lsn,
        };
        let head = BatchHead::measure(&start, &records, lba_bytes);
        // Headers of chunk and batch, padding, and of each record blocks or metadata.
        let mut gather = Gather::with_capacity(3 + records.len());
        let offset = open.next * SECTOR_BYTES;
        if open.fresh {
            open.fresh = false;
            gather.push_meta(open.header(self.identity, self.id, first_lsn, sequence));
        }
        gather.push_meta(head.encode(&records));
        let loads = place(loads, &head, &mut gather);
        open.next = sector + head.batch_bytes() / SECTOR_BYTES;
        let write_pointer = (open.next - self.geometry.chunk_start(open.grant.chunk)) as u32;
        self.unflushed_bytes += gather.bytes();
        let write = Write {
            sequence,
            offset,
            gather,
            chunk: open.grant.chunk,
            write_pointer,
        };
        let at = self
            .inflight
            .partition_point(|batch| batch.sequence < sequence);
        self.inflight.insert(
            at,
            Batch {
                sequence,
                first_lsn,
                records,
                loads,
                chunk: open.grant.chunk,
                chunk_sequence: open.sequence,
                sector,
                state: BatchState::Writing,
            },
        );
        write
    }

    /// Payloads and places of a sealed batch.
    ///
    /// # Panics
    /// If that batch is not in flight.
    pub fn sealed(&self, sequence: u64) -> &[(Load, Appended)] {
        let batch = self
            .inflight
            .iter()
            .find(|batch| batch.sequence == sequence);
        &batch.expect("a sealed batch is in flight").loads
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
        let queued = queues.flat_map(|queue| queue.drain(..));
        let queued = queued.map(|pending| pending.load);
        let sealed = self.again.drain(..).chain(self.inflight.drain(..));
        sealed
            .flat_map(|batch| batch.loads)
            .map(|(load, _)| load)
            .chain(queued)
            .collect()
    }
}
