//! Placement writers: one per stream and reactor, each appends full stripes to groups of its own.
//!
//! A reactor places what it cleaned. What is of others' slices, all of it where reactors own or place (`roles`), is
//! sent to their owners, all records of a stripe for one reactor in one call.
//!
//! 1. Blocks queue at their stream.
//! 2. A full stripe is assembled: data, P2L.
//! 3. It is written, and the dense tier flushed.
//! 4. Only then the move records are appended: the map never names unflushed data.
//!
//! Remains of stripes go back to the head of the log instead (`keeps`), and all blocks of a pool without a dense tier.
//!
//! **Not here**: host writes that take this way without having been in the log (`bypass`).
//!
//! **Invariants**: live bits of a stripe are set before its group's write pointer passes it; a
//! group belongs to one stream of one reactor, or to those that share groups (`joint`).

use crate::config::Canary;
use crate::geometry::UnitId;
use crate::limits::{OUTAGE_PAUSE_MAX, RETRY_PAUSE};
use crate::progress::{Moves, Party, Progress};
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use varve_format::{ITEMS_MAX, MoveItem, Record};
use varve_io::{Blocks, Event, IoError, ReactorId};
use varve_units::{Lsn, Nanos, TenantId, VolumeId};

mod assembly;
pub(crate) mod bypass;
mod item;
mod layout;
mod sink;

use item::{Queue, Stripe, Turn};
use sink::Sink;

pub(crate) use item::Item;
pub(crate) use layout::Layout;
pub(crate) use sink::OpenGroup;

/// Blocks that may queue at a stream, in stripes. Arbitrary.
const QUEUE_STRIPES_MAX: usize = 4;

/// Who writes a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Writer {
    /// Fast tier to groups.
    Compaction,
    /// Groups to groups.
    GarbageCollection,
}

/// Placement class: owns its groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StreamId {
    pub(crate) tenant: TenantId,
    pub(crate) writer: Writer,
}

impl StreamId {
    /// Where garbage collection writes everything when groups are short.
    pub(crate) const LAST_RESORT: Self = Self {
        tenant: TenantId(0),
        writer: Writer::GarbageCollection,
    };
}

/// Move records for another reactor, and what waits for each.
type Crossing = Vec<(Record, Party)>;

/// One stream: its queue and its open group.
pub(crate) struct Stream {
    id: StreamId,
    queue: RefCell<Queue>,
    /// Host writes that are to pass the log.
    bypass: bypass::Waiting,
    sink: Rc<Sink>,
    /// Write out what is there, even if it fills no stripe.
    flush: Cell<bool>,
    /// A stripe of it is on its way.
    is_writing: Cell<bool>,
    /// Its last stripe was refused: hosts' writes go to the log until one is taken.
    is_refused: Cell<bool>,
    event: Event,
    room: Event,
}

impl Stream {
    pub(crate) const fn id(&self) -> StreamId {
        self.id
    }

    /// Blocks in its queue.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len()
    }

    /// True while blocks taken from the queue are on their way to a stripe.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing.get()
    }

    /// True while the dense tier has not taken its last stripe.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.get()
    }

    /// Its open group.
    pub(crate) fn open(&self) -> Option<OpenGroup> {
        self.sink.open()
    }

    /// True if compaction writes a stripe to the group that this stream shares with it.
    pub(crate) fn is_lent(&self) -> bool {
        self.sink.is_lent()
    }

    /// Its queue has grown.
    pub(crate) fn wake(&self) {
        self.event.notify();
    }
}

/// All streams.
#[derive(Default)]
pub(crate) struct Streams {
    named: RefCell<BTreeMap<StreamId, Rc<Stream>>>,
    /// What all of them write to where they share groups.
    joint: Rc<Sink>,
}

impl Streams {
    /// Shows every stream.
    pub(crate) fn each(&self, show: impl FnMut(&Rc<Stream>)) {
        self.named.borrow().values().for_each(show);
    }

    /// Blocks that wait for their stripe.
    pub(crate) fn queued(&self) -> usize {
        let streams = self.named.borrow();
        streams
            .values()
            .map(|stream| stream.queue.borrow().len())
            .sum()
    }

    /// Bytes of blocks that may wait in all streams: queues, with what was read beside blocks of victims
    /// (as much again at most), and a stripe each on its way.
    pub(crate) fn buffers(&self, geometry: &crate::geometry::Geometry) -> u64 {
        let stripe = u64::from(geometry.stripe_blocks) * varve_units::BLOCK_BYTES;
        self.named.borrow().len() as u64 * (2 * QUEUE_STRIPES_MAX as u64 + 1) * stripe
    }

    /// Forgets all streams (the engine is gone).
    pub(crate) fn clear(&self) {
        self.named.borrow_mut().clear();
    }

    /// The open group of every stream that has one.
    pub(crate) fn open_groups(&self) -> BTreeSet<u32> {
        let streams = self.named.borrow();
        let open = streams.values().filter_map(|stream| stream.open());
        open.map(|open| open.group).collect()
    }

    /// True if a group is open that compaction and garbage collection share.
    pub(crate) fn joint_is_open(&self) -> bool {
        self.joint.open().is_some()
    }

    /// Who wrote the last stripe of that group.
    pub(crate) fn joint_writer(&self) -> Option<Writer> {
        self.joint.writer()
    }

    /// The engine stops: every stream wakes, and who waits to pass the log is told, whatever the dense tier
    /// does.
    pub(crate) fn wake_all(&self) {
        for stream in self.named.borrow().values() {
            stream.event.notify();
            stream.room.notify();
            stream.bypass.stop();
        }
    }
}

impl Shared {
    /// Hands a block to its stream; waits while the stream's queue is full.
    pub(crate) async fn place(
        self: &Rc<Self>,
        id: StreamId,
        item: Item,
        blocks: &Rc<Blocks>,
        progress: &Rc<Progress>,
    ) {
        progress.add(1);
        let stream = self.stream_named(id);
        while stream.queued() >= self.queue_max() && !self.is_stopped() {
            stream.room.listen().await;
        }
        if self.is_stopped() {
            progress.done(1, false);
            return;
        }
        let one = core::iter::once(item);
        stream.queue.borrow_mut().push(one, blocks, progress);
        stream.event.notify();
    }

    /// Blocks that may queue at a stream.
    fn queue_max(&self) -> usize {
        QUEUE_STRIPES_MAX * self.units.geometry().stripe_user_blocks() as usize
    }

    /// Blocks that the queue of a stream has room for; none once the engine stops.
    pub(crate) fn room_at(&self, stream: &Stream) -> usize {
        if self.is_stopped() {
            return 0;
        }
        self.queue_max().saturating_sub(stream.queued())
    }

    /// Hands blocks of the same memory to a stream of a pool with a dense tier whose queue has room for them
    /// ([`Shared::room_at`]). Who does not await next wakes the stream: [`Stream::wake`].
    pub(crate) fn place_now(
        &self,
        stream: &Stream,
        items: impl ExactSizeIterator<Item = Item>,
        blocks: &Rc<Blocks>,
        progress: &Rc<Progress>,
    ) {
        debug_assert!(items.len() <= self.room_at(stream), "there is room");
        progress.add(items.len());
        stream.queue.borrow_mut().push(items, blocks, progress);
    }

    /// The stream of this id, started if it is new.
    pub(crate) fn stream_named(self: &Rc<Self>, id: StreamId) -> Rc<Stream> {
        let known = self.streams.named.borrow().get(&id).cloned();
        known.unwrap_or_else(|| {
            let sink = match self.is_joint {
                true => Rc::clone(&self.streams.joint),
                false => Rc::default(),
            };
            let stream = Rc::new(Stream {
                id,
                sink,
                queue: RefCell::default(),
                bypass: bypass::Waiting::default(),
                flush: Cell::new(false),
                is_writing: Cell::new(false),
                is_refused: Cell::new(false),
                event: Event::new(),
                room: Event::new(),
            });
            self.streams
                .named
                .borrow_mut()
                .insert(id, Rc::clone(&stream));
            let (shared, running) = (Rc::clone(self), Rc::clone(&stream));
            self.spawn(async move { shared.run_stream(&running).await });
            stream
        })
    }

    /// Asks every stream of a writer to write out what it holds.
    pub(crate) fn flush_streams(&self, writer: Writer) {
        for stream in self.streams.named.borrow().values() {
            if stream.id.writer == writer && !stream.queue.borrow().is_empty() {
                stream.flush.set(true);
                stream.event.notify();
            }
        }
    }

    async fn run_stream(self: &Rc<Self>, stream: &Stream) {
        // Stripes that come before others pass.
        let mut due = 0;
        while !self.is_stopped() {
            let full = self.next_stripe_blocks(stream.id.writer);
            if due == 0 || stream.queued() < full {
                due = match stream.bypass.is_empty() {
                    true => 0,
                    // Apart: what is rare must not make the flow of every stripe larger.
                    false => Box::pin(self.pass_by(stream)).await,
                };
            }
            let queued = stream.queued();
            let collects = stream.id.writer == Writer::GarbageCollection;
            let may_pad = stream.flush.get() && (!collects || self.may_pad());
            if queued >= full || (may_pad && queued > 0) {
                let count = queued.min(full);
                let stripe = stream.queue.borrow_mut().take(count);
                stream.room.notify();
                let is_little = count * 2 < full && stream.id.writer == Writer::Compaction;
                if is_little && self.reserve_log_to_keep(count) {
                    self.keep_stripe(stripe).await;
                } else {
                    if !collects {
                        self.keep_pace().await;
                    }
                    stream.is_writing.set(true);
                    self.write_items(stream, stripe).await;
                    stream.is_writing.set(false);
                    due = due.saturating_sub(1);
                }
            } else {
                stream.flush.set(false);
                if collects && queued == 0 && self.control().has_group_waiters() {
                    self.hand_back(stream);
                }
                if stream.bypass.is_empty() {
                    stream.event.listen().await;
                }
            }
        }
        stream.bypass.stop();
        let left = stream.queue.borrow_mut().take_all();
        left.fail();
        stream.room.notify();
    }

    /// Puts the blocks of a stripe, for which log was set aside, back at the head of the log.
    async fn keep_stripe(self: &Rc<Self>, stripe: Stripe) {
        for (run, items) in stripe.by_run() {
            for item in items {
                self.keep(item, &run.blocks, &run.progress).await;
            }
        }
    }

    /// Writes one stripe and, once it is flushed, appends its moves.
    async fn write_items(self: &Rc<Self>, stream: &Stream, stripe: Stripe) {
        while let Some((turn, open)) = self.open_group(stream).await {
            let layout = self.layout(stream.id.writer, open, stripe.len());
            let written = self.write_until_taken(stream, layout, &stripe).await;
            drop(turn);
            if written.is_ok() {
                self.count(counter(stream.id.writer), stripe.len() as u64);
                self.append_stripe_moves(layout, stripe).await;
                return;
            }
            if self.is_stopped() {
                break;
            }
            self.world.sleep(RETRY_PAUSE).await;
        }
        stripe.fail();
    }

    /// Writes one stripe to a group until the tier takes it. A tier that is away says nothing about the
    /// group, nor how much of the stripe it stored: the same stripe is written to the same place when it
    /// answers again. Another one there, of the same generation and epoch, could later be taken for it.
    ///
    /// # Errors
    /// The medium refused it, and the group was given up; the engine stopped.
    async fn write_until_taken(
        &self,
        stream: &Stream,
        layout: Layout,
        stripe: &Stripe,
    ) -> Result<(), IoError> {
        let mut pause = RETRY_PAUSE;
        loop {
            let written = self.write_stripe(stream, layout, stripe).await;
            let Err(error) = written else { return Ok(()) };
            self.note_refusal(stream, layout.open, error, pause);
            if error == IoError::Media || self.is_stopped() {
                return Err(error);
            }
            self.world.sleep(pause).await;
            self.wait_for_dense(&mut pause).await;
        }
    }

    /// Writes one stripe to a stream's group and flushes it: its blocks' records may follow, and are
    /// expected.
    async fn write_stripe(
        &self,
        stream: &Stream,
        layout: Layout,
        stripe: &Stripe,
    ) -> Result<(), IoError> {
        let open = layout.open;
        if stream.sink.begin(stream.id.writer) {
            self.count("stripes_joined", 1);
        }
        let gather = self.assemble(stream, layout, stripe);
        let offset = self.stripe_offset(open);
        let dense = self.dense.as_ref().expect("streams write to a dense tier");
        dense.write_under(open.handle, offset, gather).await?;
        if !self.config.is_planted(Canary::FreeBeforeFlush) {
            dense.flush().await?;
        }
        self.note_stripe();
        stream.is_refused.set(false);
        let unit = self.units.unit(UnitId::group(open.group));
        unit.expect_moves(stripe.len() as u32);
        let member = layout.left_out.map(|out| out.member);
        unit.note_width(open.next_stripe, member);
        if member.is_some() {
            self.count("narrow_stripes", 1);
        }
        self.advance(stream, open);
        Ok(())
    }

    /// What a stripe that was not written says of its group and of the tier. Whoever waits to pass is served
    /// by the log.
    fn note_refusal(&self, stream: &Stream, open: OpenGroup, error: IoError, pause: Nanos) {
        self.count("stripe_write_errors", 1);
        stream.is_refused.set(true);
        stream.bypass.refuse();
        if error == IoError::Media {
            self.give_up_group(stream, open);
        }
        self.note_outage(error, pause);
    }

    /// Waits until the dense tier answers.
    async fn wait_for_dense(&self, pause: &mut Nanos) {
        let dense = self.dense.as_ref().expect("streams write to a dense tier");
        while !self.is_stopped()
            && let Err(error) = dense.flush().await
        {
            *pause = Nanos((pause.0 * 2).min(OUTAGE_PAUSE_MAX.0));
            self.note_outage(error, *pause);
            self.world.sleep(*pause).await;
        }
        // It may answer flushes and still refuse writes.
        *pause = Nanos((pause.0 * 2).min(OUTAGE_PAUSE_MAX.0));
    }

    /// Hands what waits at the other streams of garbage collection for a stripe to fill to one of
    /// them: no stripe is padded for a tenant whose blocks are few.
    pub(crate) fn gather_tails(self: &Rc<Self>) {
        let last_resort = self.stream_named(StreamId::LAST_RESORT);
        for stream in self.streams.named.borrow().values() {
            if stream.id.writer == Writer::GarbageCollection && stream.id != last_resort.id {
                let tail = stream.queue.take();
                last_resort.queue.borrow_mut().append(tail);
                stream.room.notify();
            }
        }
        last_resort.event.notify();
    }

    pub(crate) fn stripe_offset(&self, open: OpenGroup) -> u64 {
        let geometry = self.units.geometry();
        let block = u64::from(open.group) * u64::from(geometry.group_blocks)
            + u64::from(open.next_stripe) * u64::from(geometry.stripe_blocks);
        block * varve_units::BLOCK_BYTES
    }

    /// First block of user data of a stripe within its group.
    fn first_user_block(&self, open: OpenGroup) -> u32 {
        let geometry = self.units.geometry();
        let leading =
            geometry.stripe_p2l_blocks() / geometry.p2l_copies * (geometry.p2l_copies - 1);
        open.next_stripe * geometry.stripe_blocks + leading
    }

    /// The stripe is written and flushed: the group's write pointer passes it.
    fn advance(&self, stream: &Stream, open: OpenGroup) {
        let geometry = self.units.geometry();
        let id = UnitId::group(open.group);
        let next = open.next_stripe + 1;
        self.units.advance(id, next * geometry.stripe_blocks);
        if next == geometry.group_stripes() {
            stream.sink.end(None);
            self.close_group(open.group);
        } else {
            stream.sink.end(Some(OpenGroup {
                next_stripe: next,
                ..open
            }));
        }
    }

    /// A group takes no more stripes.
    pub(crate) fn close_group(&self, group: u32) {
        self.tell_control(move |control, shared| control.group_closed(shared, group));
    }

    /// Nothing will name the blocks of a stripe.
    fn bury_stripe(&self, open: OpenGroup) {
        let geometry = *self.units.geometry();
        let first = self.first_user_block(open);
        for block in first..first + geometry.stripe_user_blocks() {
            self.units
                .bury(geometry.dense_ppa(open.group, block), Lsn::MAX);
        }
    }

    /// The medium refused a stripe: its group takes no more, and is taken out of use when it is
    /// empty.
    fn give_up_group(&self, stream: &Stream, open: OpenGroup) {
        self.bury_stripe(open);
        stream.sink.end(None);
        self.tell_control(move |control, _| control.retire_group(open.group));
        self.close_group(open.group);
    }

    /// Appends the moves of a flushed stripe, per volume and slice. One flow waits for all of them.
    async fn append_stripe_moves(self: &Rc<Self>, layout: Layout, stripe: Stripe) {
        let (geometry, open) = (*self.units.geometry(), layout.open);
        let (items, place) = (&stripe.items[..], layout.places(&geometry));
        let of_volume = |at: &Turn| items[at.index()].volume;
        let is_of_one = items.iter().all(|item| item.volume == items[0].volume);
        let is_same = |one: &Turn, other: &Turn| is_of_one || of_volume(one) == of_volume(other);
        let mut order = stripe.by_slice(&geometry);
        let left = stripe.left();
        let target = Some(UnitId::group(open.group));
        let (mut own, moves) = (Vec::new(), Rc::new(Moves::default()));
        let mut crossing: BTreeMap<ReactorId, Crossing> = BTreeMap::new();
        for turns in order.chunk_by_mut(|one, other| one.slice() == other.slice()) {
            if !is_of_one && !turns.is_sorted_by_key(of_volume) {
                turns.sort_by_key(of_volume);
            }
            let slice = turns[0].slice();
            let owner = self.owner_of(slice);
            let volumes = turns.chunk_by(is_same);
            for turns in volumes.flat_map(|turns| turns.chunks(ITEMS_MAX)) {
                let moved = turns.iter().map(|turn| {
                    let new = geometry.dense_ppa(open.group, place(turn.index() as u32));
                    items[turn.index()].moved_to(new)
                });
                let record = Record::Move {
                    slice,
                    volume: of_volume(&turns[0]),
                    items: moved.collect(),
                };
                let waiting = left.party(turns);
                if owner == self.reactor {
                    self.append_move(record, &moves).await;
                    own.push(waiting);
                } else {
                    crossing.entry(owner).or_default().push((record, waiting));
                }
            }
        }
        for (owner, records) in crossing {
            self.send_moves(owner, records, target);
        }
        self.await_moves(moves, own, target);
    }

    /// Appends move records in the lane of another reactor.
    fn send_moves(self: &Rc<Self>, owner: ReactorId, records: Crossing, target: Option<UnitId>) {
        self.count("move_records_crossed", records.len() as u64);
        let (records, parties): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        let shared = Rc::clone(self);
        self.spawn(async move {
            let append = move |there: Rc<Self>| async move { there.append_all(records).await };
            let done = shared.call(owner, append).await.unwrap_or_default();
            for (index, party) in parties.into_iter().enumerate() {
                let ok = done.get(index) == Some(&true);
                shared.arrived(target, &party, ok);
            }
        });
    }

    /// Appends move records of this reactor's slices; tells of each whether it was acknowledged.
    async fn append_all(&self, records: Vec<Record>) -> Vec<bool> {
        let (count, moves) = (records.len(), Rc::new(Moves::default()));
        for record in records {
            self.append_move(record, &moves).await;
        }
        let mut done = Vec::with_capacity(count);
        for record in 0..count {
            done.push(moves.ended(record).await);
        }
        done
    }

    /// Appends a move record of a slice of this reactor.
    async fn append_move(&self, record: Record, moves: &Rc<Moves>) {
        let Record::Move { items, .. } = &record else {
            unreachable!("moves are appended as such");
        };
        let (nodes, shard) = (items.len(), self.shard());
        shard.room_for(&record, nodes).await;
        shard.queue_up(record, None, nodes, (0, false), moves.ticket());
    }

    /// Tells those whose moves were appended how each ended.
    fn await_moves(self: &Rc<Self>, moves: Rc<Moves>, parties: Vec<Party>, target: Option<UnitId>) {
        if parties.is_empty() {
            return;
        }
        let shared = Rc::clone(self);
        self.spawn(async move {
            for (record, party) in parties.into_iter().enumerate() {
                let ok = moves.ended(record).await;
                shared.arrived(target, &party, ok);
            }
        });
    }

    /// Moves, to the unit `target` if they lead to one, were applied, or never will be.
    fn arrived(&self, target: Option<UnitId>, party: &Party, ok: bool) {
        if let Some(unit) = target {
            self.moves_arrived(unit, party.count() as u32);
        }
        party.done(ok);
    }

    /// Appends moves that have no stripe (a lost block).
    pub(crate) async fn append_moves(
        self: &Rc<Self>,
        volume: VolumeId,
        items: Vec<MoveItem>,
        progress: &Rc<Progress>,
    ) {
        for item in items {
            progress.add(1);
            let slice = self.units.geometry().slice_of(volume, item.lba.leaf());
            let party = Party::of(progress, 1);
            let record = Record::Move {
                slice,
                volume,
                items: alloc::vec![item],
            };
            let owner = self.owner_of(slice);
            if owner == self.reactor {
                let moves = Rc::new(Moves::default());
                self.append_move(record, &moves).await;
                self.await_moves(moves, alloc::vec![party], None);
            } else {
                self.send_moves(owner, alloc::vec![(record, party)], None);
            }
        }
    }
}

const fn counter(writer: Writer) -> &'static str {
    match writer {
        Writer::Compaction => "compacted_blocks",
        Writer::GarbageCollection => "gc_blocks",
    }
}
