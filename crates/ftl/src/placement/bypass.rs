//! Host writes that go to the dense tier at once, without having been in the log.
//!
//! 1. A write that continues a long run in order ([`crate::runs`]) waits at its tenant's stream of
//!    compaction for the others of the same turn.
//! 2. What of them fills stripes is written and flushed. Of the last write some blocks may be left.
//! 3. Only then their records are appended, all those of one write in one batch, with the blocks that were
//!    left: it is in the log whole or not at all, as every other one.
//!
//! What fills no stripe, what finds no group, and what the tier refuses goes to the log like any other
//! write. Nobody waits here for somebody who has not come yet. Only the stripe that was refused is tried
//! again, as it was and for nobody ([`Shared::write_until_taken`] says why). Stripes hold nothing that
//! compaction brings: what passes was written later, and will be overwritten later.
//!
//! The birth of such a block is drawn before its stripe is written: above the LSNs of all that was
//! acknowledged before, and at or below those of all that is acknowledged later, in this life or, because
//! a start leaves out more LSNs than can have been given, in another.
//!
//! **Invariants**: the map never names what is not flushed; records of a write are in one batch.

use super::{Item, Layout, OpenGroup, Queue, Stream, StreamId, Stripe, Writer};
use crate::error::EngineError;
use crate::gate::log_cost;
use crate::geometry::UnitId;
use crate::host::nodes_of;
use crate::lifetime::UNTOLD;
use crate::limits::RETRY_PAUSE;
use crate::load::{Appended, Stopped};
use crate::progress::Progress;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::turn::Turn;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::sync::atomic::Ordering;
use varve_format::{Crcs, Record};
use varve_io::{Blocks, IoError, Receiver, Sender, slot};
use varve_units::{Lba, Ppa, VolumeId};

/// Blocks of one write from which on it may pass; less, down to [`BLOCKS_LEAST`], where stripes are short.
/// Arbitrary: below 64 KiB records cost about what the log does.
const BLOCKS_MIN: usize = 16;
/// Arbitrary: with fewer, records are more than a few bytes for each block.
const BLOCKS_LEAST: usize = 4;
/// Blocks written at once, and the rest of the last write: 4 MiB.
const BLOCKS_AT_ONCE: usize = 1024;
/// Blocks that may wait at a stream. Arbitrary: 1 GiB, more than host queues bring as a rule. Were some of a
/// run sent to the log for want of room here, what its blocks are overwritten by later would find them
/// scattered over groups.
const WAITING_MAX: usize = 1 << 18;
/// A run is long from so many stripes on. Arbitrary: what is shorter may well be written again.
const RUN_STRIPES: u64 = 4;
/// Where the log has no room for the blocks that are left, they are padded to a stripe, if at most one of so
/// many blocks is padding then.
const PADDING_SHARE: usize = 8;

/// A write passes only if the delta nodes of its records, which are appended together, are at most one of so
/// many that a shard has. Arbitrary: merges free that many soon, and small writes are not held up for long.
const NODES_SHARE: usize = 4;

/// How a write fared that was to pass.
enum Passage {
    /// It is acknowledged.
    Passed,
    /// It has to go to the log.
    Refused,
    /// The engine stopped.
    Stopped,
}

/// A host write of blocks of one leaf that waits to pass.
struct Piece {
    volume: VolumeId,
    lba: Lba,
    data: Rc<Blocks>,
    range: Range<usize>,
    crcs: Crcs,
    makes_leaf: bool,
    passage: Sender<Passage>,
}

/// A write's records, the group that has blocks of each and how many, and who is told when all are
/// acknowledged.
type Recorded = (
    Vec<(Option<(UnitId, u32)>, Receiver<Result<Appended, Stopped>>)>,
    Sender<Passage>,
);

/// Stripes that are flushed; or the one that the tier refused and that its group still needs, and its number
/// among all that were to pass.
type Written = Result<Vec<OpenGroup>, Option<(Turn, OpenGroup, usize)>>;

/// Writes that wait at a stream.
#[derive(Default)]
pub(super) struct Waiting {
    pieces: RefCell<VecDeque<Piece>>,
    /// Blocks of all of them.
    blocks: Cell<usize>,
    /// Those whose stripes are being written.
    passing: RefCell<Vec<Piece>>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.borrow().is_empty()
    }

    fn blocks(&self) -> usize {
        self.blocks.get()
    }

    fn push(&self, piece: Piece) {
        self.blocks.set(self.blocks.get() + piece.range.len());
        self.pieces.borrow_mut().push_back(piece);
    }

    fn take_all(&self) -> VecDeque<Piece> {
        self.blocks.set(0);
        self.pieces.take()
    }

    /// The first ones, until they have so many blocks.
    fn take(&self, least: usize) -> Vec<Piece> {
        let mut waiting = self.pieces.borrow_mut();
        let mut sum = 0;
        let is_wanted = |piece: &&Piece| {
            let is_wanted = sum < least;
            sum += piece.range.len();
            is_wanted
        };
        let count = waiting.iter().take_while(is_wanted).count();
        let taken: Vec<_> = waiting.drain(..count).collect();
        let blocks: usize = taken.iter().map(|piece| piece.range.len()).sum();
        self.blocks.set(self.blocks.get() - blocks);
        taken
    }

    /// Sends all that wait to the log.
    pub(super) fn refuse(&self) {
        refuse(self.take_all());
    }

    /// The engine stopped.
    pub(super) fn stop(&self) {
        let pieces = self.take_all().into_iter().chain(self.passing.take());
        pieces.for_each(|piece| piece.passage.send(Passage::Stopped));
    }
}

fn refuse(pieces: impl IntoIterator<Item = Piece>) {
    for piece in pieces {
        piece.passage.send(Passage::Refused);
    }
}

/// What passes at once: the first writes, of which all but the last `tail` blocks fill stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Share {
    writes: usize,
    stripes: usize,
    tail: usize,
}

/// What of writes of so many blocks fills stripes of `full`; `None` if they fill none.
fn share(lengths: &[usize], full: usize) -> Option<Share> {
    let sum: usize = lengths.iter().sum();
    let stripes = sum / full;
    let mut blocks = 0;
    let is_needed = |length: &&usize| {
        let is_needed = blocks < stripes * full;
        blocks += if is_needed { **length } else { 0 };
        is_needed
    };
    let writes = lengths.iter().take_while(is_needed).count();
    (stripes > 0).then(|| Share {
        writes,
        stripes,
        tail: blocks - stripes * full,
    })
}

/// Blocks of one write from which on it may pass, where stripes have `full` blocks.
pub(crate) fn blocks_min(full: u32) -> usize {
    BLOCKS_MIN.min((full as usize / 4).max(BLOCKS_LEAST))
}

/// Delta nodes that the records of a write of so many blocks take at most, whichever stripes it lies in.
const fn nodes_most(blocks: usize, full: usize) -> usize {
    nodes_of(blocks) + 2 * (blocks / full + 2)
}

impl Shard {
    /// Writes blocks of one leaf past the log, if that is what their run does and they fill stripes with
    /// others. False if they have to go there: what was set aside for them is still set aside.
    ///
    /// # Errors
    /// The engine stopped.
    pub(crate) async fn bypass(
        &self,
        (volume, lba): (VolumeId, Lba),
        (data, range): &(Rc<Blocks>, Range<usize>),
        crcs: &Crcs,
        makes_leaf: bool,
    ) -> Result<bool, EngineError> {
        let shared = self.shared.rc();
        let full = shared.units.geometry().stripe_user_blocks();
        let nodes = nodes_most(range.len(), full as usize);
        if nodes * NODES_SHARE > shared.config.map.delta_nodes {
            return Ok(false);
        }
        let long = RUN_STRIPES * u64::from(full);
        let what = (volume, lba, range.len() as u64);
        let owners = shared.config.owners();
        if !shared.runs.note(what, owners, long, shared.is_slowed()) || !shared.is_way_free() {
            return Ok(false);
        }
        let tenant = shared.stream_of(shared.tenant_of(volume));
        let writer = Writer::Compaction;
        let stream = shared.stream_named(StreamId { tenant, writer });
        let is_crowded = stream.bypass.blocks() + range.len() > WAITING_MAX;
        if is_crowded || stream.is_refused.get() {
            return Ok(false);
        }
        let (passage, passed) = slot();
        stream.bypass.push(Piece {
            volume,
            lba,
            data: Rc::clone(data),
            range: range.clone(),
            crcs: crcs.clone(),
            makes_leaf,
            passage,
        });
        stream.wake();
        match passed.await {
            Passage::Passed => Ok(true),
            Passage::Refused => Ok(false),
            Passage::Stopped => Err(EngineError::Stopped),
        }
    }
}

impl Shared {
    /// The dense tier takes nothing: what waits to pass the log goes there, whichever stream it waits for.
    pub(crate) fn refuse_passage(&self) {
        self.streams.each(|stream| {
            stream.bypass.refuse();
            stream.sink.look_again();
        });
    }

    /// True unless those who empty units wait for log or for groups, or compaction for garbage collection:
    /// what hosts have then waits in the log.
    fn is_way_free(&self) -> bool {
        !self.is_stopped()
            && !self.is_log_short()
            && self.dense_shortage().is_none()
            && self.group_waiters.load(Ordering::Relaxed) == 0
            && self.pausing.load(Ordering::Relaxed) == 0
            && self.reactor.0 < self.streaming()
            // What passes is of full width.
            && self.next_stripe_blocks(Writer::Compaction)
                == self.units.geometry().stripe_user_blocks() as usize
    }

    /// Writes what waits at a stream to pass the log, or sends it there. Returns how many stripes compaction, on
    /// which all others wait, is to get before more passes: as many as did, if it has one.
    pub(super) async fn pass_by(self: &Rc<Self>, stream: &Stream) -> usize {
        if stream.bypass.is_empty() {
            return 0;
        }
        if !self.is_way_free() {
            stream.bypass.refuse();
            return 0;
        }
        let full = self.units.geometry().stripe_user_blocks() as usize;
        if stream.bypass.blocks() < full {
            // Others of the same turn.
            self.world.yield_now().await;
        }
        let is_shared = stream.queued() >= full;
        let turn = if is_shared { full } else { BLOCKS_AT_ONCE };
        let mut pieces = stream.bypass.take(turn);
        let lengths: Vec<_> = pieces.iter().map(|piece| piece.range.len()).collect();
        let Some(share) = share(&lengths, full).and_then(|share| self.admit_tail(share)) else {
            refuse(pieces);
            return 0;
        };
        refuse(pieces.drain(share.writes..));
        stream.is_writing.set(true);
        let stripes = self.stripes_of(&pieces, share.tail);
        stream.bypass.passing.replace(pieces);
        let written = self.write_past(stream, &stripes).await;
        // None if the engine stopped.
        let pieces = stream.bypass.passing.take();
        match written {
            Ok(written) if !pieces.is_empty() => {
                let blocks: usize = stripes.iter().map(Stripe::len).sum();
                self.count("bypassed_blocks", blocks as u64);
                drop(stripes);
                self.record(&written, pieces, share.tail).await;
            }
            Ok(_) => self.give_tail_back(share.tail),
            Err(owed) => {
                self.give_tail_back(share.tail);
                refuse(pieces);
                if let Some((turn, open, owed)) = owed {
                    self.write_for_nobody(stream, open, &stripes[owed]).await;
                    drop(turn);
                }
            }
        }
        stream.is_writing.set(false);
        if is_shared { share.stripes } else { 0 }
    }

    /// Sets log aside for the blocks that fill no stripe; where there is none, another stripe takes them,
    /// if it is not mostly padding.
    fn admit_tail(&self, share: Share) -> Option<Share> {
        let Share { stripes, tail, .. } = share;
        let cost = log_cost(tail as u64);
        let fits_batch = tail as u64 <= self.config.lane.batch_blocks_max;
        if tail == 0 || (fits_batch && self.reserve_log(cost, self.gate_window())) {
            return Some(share);
        }
        let full = self.units.geometry().stripe_user_blocks() as usize;
        let (stripes, padding) = (stripes + 1, full - tail);
        let is_little = padding * PADDING_SHARE <= stripes * full;
        is_little.then_some(Share {
            stripes,
            tail: 0,
            ..share
        })
    }

    fn give_tail_back(&self, tail: usize) {
        if tail > 0 {
            let cost = log_cost(tail as u64);
            self.unpend_log(cost);
            self.wake_waiters();
        }
    }

    /// The blocks of some writes, born now, but for the last `tail`.
    fn stripes_of(&self, pieces: &[Piece], tail: usize) -> Vec<Stripe> {
        let birth = self.shard().lane.borrow().next_lsn();
        let mut queue = Queue::default();
        // They leave nothing.
        let progress = Rc::new(Progress::default());
        for piece in pieces {
            let crcs = piece.crcs.as_slice().iter().enumerate();
            let items = crcs.map(|(index, crc)| Item {
                volume: piece.volume,
                lba: Lba(piece.lba.0 + index as u64),
                old: Ppa::ABSENT,
                birth,
                crc: *crc,
                at: (piece.range.start + index) as u32,
                class: UNTOLD,
            });
            queue.push(items, &piece.data, &progress);
        }
        let full = self.units.geometry().stripe_user_blocks() as usize;
        let mut left = queue.len() - tail;
        let mut stripes = Vec::with_capacity(left.div_ceil(full));
        while left > 0 {
            let stripe = queue.take(left.min(full));
            left -= stripe.len();
            stripes.push(stripe);
        }
        stripes
    }

    /// Writes and flushes stripes, all of them or for nobody.
    async fn write_past(&self, stream: &Stream, stripes: &[Stripe]) -> Written {
        let mut written: Vec<(OpenGroup, u32)> = Vec::new();
        let mut owed = None;
        for (index, stripe) in stripes.iter().enumerate() {
            // Whoever has it may hold it for as long as the tier takes nothing.
            let is_vain = || self.dense_shortage().is_some();
            let Some(turn) = stream.sink.turn_to_pass(is_vain).await else {
                break;
            };
            let Some(open) = self.open_group_at_once(stream).await else {
                break;
            };
            match self.write_stripe(stream, Layout::full(open), stripe).await {
                Ok(()) => written.push((open, stripe.len() as u32)),
                Err(error) => {
                    self.note_refusal(stream, open, error, RETRY_PAUSE);
                    owed = (error != IoError::Media).then_some((turn, open, index));
                    break;
                }
            }
        }
        if written.len() == stripes.len() {
            return Ok(written.into_iter().map(|(open, _)| open).collect());
        }
        for (open, blocks) in written {
            self.written_for_nobody(open, blocks);
        }
        Err(owed)
    }

    /// Writes a stripe that the tier refused, until it takes it. Its blocks are in the log.
    async fn write_for_nobody(&self, stream: &Stream, open: OpenGroup, stripe: &Stripe) {
        self.world.sleep(RETRY_PAUSE).await;
        let written = self.write_until_taken(stream, Layout::full(open), stripe);
        if written.await.is_ok() {
            self.written_for_nobody(open, stripe.len() as u32);
        }
    }

    /// No record will name a stripe that is flushed.
    fn written_for_nobody(&self, open: OpenGroup, blocks: u32) {
        self.bury_stripe(open);
        self.moves_arrived(UnitId::group(open.group), blocks);
    }

    /// Appends the records of writes whose stripes are flushed, with the `tail` blocks of the last one that
    /// are in none. One flow waits for all of them.
    async fn record(self: &Rc<Self>, stripes: &[OpenGroup], pieces: Vec<Piece>, tail: usize) {
        let mut at = 0;
        let mut recorded: Vec<Recorded> = Vec::with_capacity(pieces.len());
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let length = piece.range.len();
            let in_log = if index == last { tail } else { 0 };
            let joined = self.records_of(&piece, stripes, at..at + length - in_log);
            at += length;
            let nodes = joined.iter().map(|one| nodes_of(one.blocks())).sum();
            let units: Vec<_> = joined.iter().map(Joined::unit).collect();
            let shard = self.shard();
            shard.room_for(&joined[0].record, nodes).await;
            let appended = shard.queue_joined(joined, piece.makes_leaf);
            recorded.push((units.into_iter().zip(appended).collect(), piece.passage));
        }
        let shared = Rc::clone(self);
        self.spawn(async move {
            for (records, passage) in recorded {
                let mut outcome = Passage::Passed;
                for (unit, appended) in records {
                    if appended.await.is_err() {
                        outcome = Passage::Stopped;
                    }
                    if let Some((unit, blocks)) = unit {
                        shared.moves_arrived(unit, blocks);
                    }
                }
                passage.send(outcome);
            }
        });
    }

    /// A record for each stripe that a write has blocks in, numbered `placed` of all, and one for those of its
    /// blocks that are in none.
    fn records_of(
        &self,
        piece: &Piece,
        stripes: &[OpenGroup],
        placed: Range<usize>,
    ) -> Vec<Joined> {
        let geometry = *self.units.geometry();
        let full = geometry.stripe_user_blocks() as usize;
        let (volume, class) = (piece.volume, UNTOLD);
        let of = |from: usize, count: usize| {
            let lba = Lba(piece.lba.0 + from as u64);
            (lba, Crcs::from(&piece.crcs.as_slice()[from..from + count]))
        };
        let mut joined = Vec::new();
        let mut done = 0;
        while done < placed.len() {
            let at = placed.start + done;
            let (open, offset) = (stripes[at / full], at % full);
            let count = (full - offset).min(placed.len() - done);
            let first = self.first_user_block(open) + offset as u32;
            let (lba, crcs) = of(done, count);
            let ppa = geometry.dense_ppa(open.group, first);
            let record = Record::External {
                volume,
                lba,
                ppa,
                class,
                crcs,
            };
            let group = Some(UnitId::group(open.group));
            joined.push(Joined {
                record,
                data: None,
                group,
            });
            done += count;
        }
        if done < piece.range.len() {
            let (lba, crcs) = of(done, piece.range.len() - done);
            let record = Record::Put {
                volume,
                lba,
                class,
                crcs,
            };
            let data = (
                Rc::clone(&piece.data),
                piece.range.start + done..piece.range.end,
            );
            joined.push(Joined {
                record,
                data: Some(data),
                group: None,
            });
        }
        joined
    }
}

/// One of the records of a host's write that are in the log together.
pub(crate) struct Joined {
    pub(crate) record: Record,
    /// Its blocks, if they are in no stripe.
    pub(crate) data: Option<(Rc<Blocks>, Range<usize>)>,
    /// Where they are else.
    group: Option<UnitId>,
}

impl Joined {
    /// Blocks that it is about.
    pub(crate) fn blocks(&self) -> usize {
        match &self.record {
            Record::Put { crcs, .. } | Record::External { crcs, .. } => crcs.len(),
            _ => unreachable!("hosts' writes are told as such"),
        }
    }

    fn unit(&self) -> Option<(UnitId, u32)> {
        self.group.map(|group| (group, self.blocks() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever waits: all that fills stripes passes, no write too many, and less than a write is left over.
    #[test]
    fn stripes_are_full() {
        for full in [3, 13, 63, 252] {
            for length in [1, 4, 16, 32, 128, 512] {
                for count in 0..40 {
                    let lengths = alloc::vec![length; count];
                    let Some(share) = share(&lengths, full) else {
                        assert!(count * length < full);
                        continue;
                    };
                    assert_eq!(share.stripes, count * length / full);
                    let blocks = share.writes * length;
                    assert_eq!(blocks, share.stripes * full + share.tail);
                    assert!(share.tail < length && share.writes <= count);
                }
            }
        }
    }
}
