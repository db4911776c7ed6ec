//! One reactor's part of the engine: a lane of the log and the slices of the map it owns.
//!
//! **Invariants**: a record changes the map when it is acknowledged, in lane order (ADR 7); every
//! record that changes the map had its delta nodes set aside before it was queued, so applying
//! never fails.
//!
//! **Not here**: what spans shards (`control`, `checkpoint`), the host's view (`engine`).

use crate::changes::{discard_pieces, for_each_change, lengthens, written};
use crate::config::Canary;
use crate::crossing::Answer;
use crate::error::{EngineError, StopReason};
use crate::gate::Denied;
use crate::geometry::{BLOCK_SECTORS, UnitId};
use crate::host::nodes_of;
use crate::lane::{Batch, Grant, Idle, Lane, Write};
use crate::limits::{BATCH_HEADER_BYTES_MAX, CHAIN_MAX, CHAIN_ROOM, LANE_QUEUE_MAX, REROUTES_MAX};
use crate::load::{Appended, Load, Stopped, Ticket};
use crate::map::{Change, Dead, LeafKey, Map};
use crate::placement::bypass::Joined;
use crate::shared::{FIRST, Shared};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::sync::atomic::Ordering;
use varve_format::Record;
use varve_io::{Blocks, Command, Event, Handle, Receiver, Sectors, slot};
use varve_units::{Lba, Lsn, Ppa, VolumeId};

/// One reactor's part of the engine.
pub struct Shard {
    pub(crate) shared: Rc<Shared>,
    pub(crate) lane: RefCell<Lane>,
    pub(crate) map: RefCell<Map>,
    /// Images being read; whoever needs the same one waits for the event.
    pub(crate) loads: RefCell<BTreeMap<LeafKey, Rc<Event>>>,
    /// Merges in flight.
    pub(crate) merges: Cell<usize>,
    /// Leaves whose merge is under way, or could not be read.
    pub(crate) picked: RefCell<Vec<LeafKey>>,
    /// Something was queued, acknowledged or freed: the pump looks again.
    pub(crate) pump: Event,
    /// Records were acknowledged.
    pub(crate) acked: Event,
    /// Delta nodes were freed.
    pub(crate) nodes_freed: Event,
    /// The merger has work.
    pub(crate) merge_wanted: Event,
    /// Leaves were discarded: their old images are to be read, to clear their live bits.
    pub(crate) clear_wanted: Event,
    /// Old chains are being merged.
    pub(crate) is_aging: Cell<bool>,
    /// Delta nodes set aside for queued records.
    reserved_nodes: Cell<usize>,
    /// Deallocations and moves queued and not yet acknowledged.
    lengthening: Cell<usize>,
    /// Appenders waiting for delta nodes.
    pub(crate) node_waiters: Cell<usize>,
    reroutes: Cell<u32>,
    /// Places that a batch left; empty between calls.
    dead: Cell<Vec<Dead>>,
    /// Leaves that queued writes will make, and how many writes make each.
    pub(crate) pending_leaves: RefCell<BTreeMap<LeafKey, u32>>,
    /// Live leaves are counted per chunk (not before recovery has loaded them).
    pub(crate) leaves_counted: Cell<bool>,
}

impl Shard {
    pub(crate) fn new(shared: Rc<Shared>, lane: Lane, map: Map) -> Rc<Self> {
        Rc::new(Self {
            shared,
            lane: RefCell::new(lane),
            map: RefCell::new(map),
            loads: RefCell::default(),
            merges: Cell::new(0),
            picked: RefCell::default(),
            pump: Event::new(),
            acked: Event::new(),
            nodes_freed: Event::new(),
            merge_wanted: Event::new(),
            clear_wanted: Event::new(),
            is_aging: Cell::new(false),
            reserved_nodes: Cell::new(0),
            lengthening: Cell::new(0),
            node_waiters: Cell::new(0),
            reroutes: Cell::new(0),
            dead: Cell::default(),
            pending_leaves: RefCell::default(),
            leaves_counted: Cell::new(false),
        })
    }

    /// Queues a record that changes no chain (leaf, checkpoint, catalogue). Never waits: its
    /// callers are few and bounded.
    pub(crate) fn append_meta(
        &self,
        record: Record,
        meta: Option<Sectors>,
    ) -> Receiver<Result<Appended, Stopped>> {
        let (sender, receiver) = slot();
        let meta = meta.unwrap_or(Sectors::zeroed(0));
        let load = Load::new(None, meta, Some(Ticket::Here(sender)));
        self.push(record, load, false);
        receiver
    }

    /// Queues a record that changes up to `nodes` chains' worth of delta nodes, after waiting for
    /// room in the queue and for the nodes.
    pub(crate) async fn append(
        &self,
        record: Record,
        data: Option<(Rc<Blocks>, Range<usize>)>,
        nodes: usize,
        pending: (u64, bool),
    ) -> Receiver<Result<Appended, Stopped>> {
        self.room_for(&record, nodes).await;
        let (sender, receiver) = slot();
        self.queue_up(record, data, nodes, pending, Ticket::Here(sender));
        receiver
    }

    /// Waits for room in the queue, for delta nodes and for room in chains; or the engine's end.
    pub(crate) async fn room_for(&self, record: &Record, nodes: usize) {
        self.room_where(nodes, || self.has_chain_room(record)).await;
    }

    /// [`Shard::room_for`] of a record that changes puts alone: it lengthens no chain.
    pub(crate) async fn room_for_puts(&self, nodes: usize) {
        self.room_where(nodes, || true).await;
    }

    async fn room_where(&self, nodes: usize, has_chain_room: impl Fn() -> bool) {
        // All in one loop: who waited for one looks at the others again.
        while !self.shared.is_stopped() {
            if self.lane.borrow().queued() >= LANE_QUEUE_MAX {
                self.acked.listen().await;
            } else if !self.has_nodes(nodes) || !has_chain_room() {
                self.node_waiters.set(self.node_waiters.get() + 1);
                self.merge_wanted.notify();
                self.nodes_freed.listen().await;
                self.node_waiters.set(self.node_waiters.get() - 1);
            } else {
                break;
            }
        }
    }

    /// True if a record can be queued without waiting.
    pub(crate) fn has_room_for(&self, record: &Record, nodes: usize) -> bool {
        self.has_room_now(nodes) && self.has_chain_room(record)
    }

    /// True if a record that changes puts alone can be queued without waiting.
    #[inline]
    pub(crate) fn has_room_now(&self, nodes: usize) -> bool {
        self.lane.borrow().queued() < LANE_QUEUE_MAX && self.has_nodes(nodes)
    }

    /// Queues a record for which there is room, setting its delta nodes aside.
    // Always: so a record is made where it waits. One that is copied just after its parts were written waits for them.
    #[inline(always)]
    pub(crate) fn queue_up(
        &self,
        record: Record,
        data: Option<(Rc<Blocks>, Range<usize>)>,
        nodes: usize,
        (pending_blocks, pending_leaf): (u64, bool),
        ticket: Ticket,
    ) {
        self.reserved_nodes.set(self.reserved_nodes.get() + nodes);
        self.lengthening
            .set(self.lengthening.get() + lengthens(&record));
        if self.map.borrow().room() < self.shared.nodes_low(self) {
            self.merge_wanted.notify();
        }
        let load = Load {
            reserved_nodes: nodes as u32,
            pending_blocks: pending_blocks as u32,
            pending_leaf,
            ..Load::new(data, Sectors::zeroed(0), Some(ticket))
        };
        self.push(record, load, false);
    }

    /// Queues records of one host write for which there is room: all of them get into the log, or none.
    /// Log was set aside for those that bring blocks. `makes_leaf`: the first makes its leaf.
    pub(crate) fn queue_joined(
        &self,
        joined: Vec<Joined>,
        makes_leaf: bool,
    ) -> Vec<Receiver<Result<Appended, Stopped>>> {
        let bytes: usize = joined.iter().map(|one| one.record.encoded_bytes()).sum();
        assert!(
            bytes as u64 <= BATCH_HEADER_BYTES_MAX,
            "records of one write fit a batch"
        );
        let count = joined.len();
        let mut receivers = Vec::with_capacity(count);
        for (index, one) in joined.into_iter().enumerate() {
            let (blocks, nodes) = (one.blocks(), nodes_of(one.blocks()));
            self.reserved_nodes.set(self.reserved_nodes.get() + nodes);
            let (sender, receiver) = slot();
            let ticket = Some(Ticket::Here(sender));
            let load = Load {
                reserved_nodes: nodes as u32,
                pending_blocks: blocks as u32,
                pending_leaf: makes_leaf && index == 0,
                ..Load::new(one.data, Sectors::zeroed(0), ticket)
            };
            self.push(one.record, load, index + 1 < count);
            receivers.push(receiver);
        }
        if self.map.borrow().room() < self.shared.nodes_low(self) {
            self.merge_wanted.notify();
        }
        receivers
    }

    #[inline(always)]
    fn push(&self, record: Record, load: Load, joins_next: bool) {
        if self.shared.is_stopped() {
            self.refuse(load);
            return;
        }
        self.lane.borrow_mut().push(record, load, joins_next);
        self.pump.notify();
    }

    /// The engine stopped before a record was queued.
    #[cold]
    fn refuse(&self, mut load: Load) {
        self.answer(&mut load, Err(Stopped));
    }

    /// Tells whoever waits for a record how it ended.
    #[inline]
    fn answer(&self, load: &mut Load, outcome: Result<Appended, Stopped>) {
        match load.ticket.take() {
            Some(Ticket::Here(sender)) => sender.send(outcome),
            Some(Ticket::Host(sender)) => {
                sender.send(outcome.map(|_| ()).map_err(|Stopped| Denied::Stopped));
            }
            Some(Ticket::Moves(moves, record)) => moves.end(record, outcome.is_ok()),
            Some(Ticket::Kept(progress)) => self.shared.kept(&progress, outcome.is_ok()),
            Some(Ticket::There(caller)) => {
                let outcome = outcome.map(|_| ()).map_err(|Stopped| EngineError::Stopped);
                let data = load.data.take();
                let memory = data.and_then(|(data, ..)| Rc::try_unwrap(data).ok());
                self.shared.answer(caller, Answer::Written(outcome, memory));
            }
            None => {}
        }
    }

    /// Delta nodes set aside for queued records.
    pub(crate) const fn nodes_reserved(&self) -> usize {
        self.reserved_nodes.get()
    }

    fn has_nodes(&self, nodes: usize) -> bool {
        self.map.borrow().room() >= self.reserved_nodes.get() + nodes
    }

    /// True if no chain can overflow by this record and all that are on their way.
    fn has_chain_room(&self, record: &Record) -> bool {
        let own = lengthens(record);
        if own == 0 {
            return true;
        }
        let more = self.lengthening.get() + own;
        let map = self.map.borrow();
        // The usual case: none of the record's chains is looked for.
        if map.are_chains_within(CHAIN_ROOM.saturating_sub(more)) {
            return true;
        }
        let fits = |volume: VolumeId, lba: Lba| {
            let leaf = lba.leaf();
            map.chain_len(LeafKey { volume, leaf }) + more <= CHAIN_ROOM
        };
        match record {
            Record::Discard {
                volume,
                lba,
                blocks,
                ..
            } => [lba.0, lba.0 + blocks - 1]
                .into_iter()
                .all(|end| fits(*volume, Lba(end))),
            Record::Move { volume, items, .. } => items.iter().all(|item| fits(*volume, item.lba)),
            Record::Keep { volume, items, .. } => items.iter().all(|item| fits(*volume, item.lba)),
            _ => true,
        }
    }

    /// Seals and submits batches as long as there is something to write; runs for the shard's
    /// whole life.
    pub(crate) async fn run_pump(self: Rc<Self>) {
        while !self.shared.is_stopped() {
            let sealed = self.seal();
            match sealed {
                Ok(write) => self.submit(write),
                Err(Idle::Busy) => {
                    self.hand_back_closed();
                    self.pump.listen().await;
                }
                Err(Idle::NeedsChunk { rank }) => {
                    self.hand_back_closed();
                    if self.lane.borrow_mut().open_ahead() {
                        self.shared.count("chunks_ahead", 1);
                        continue;
                    }
                    // Heard from here on: chunks may be freed while the answer is on its way.
                    let woken = self.pump.listen();
                    let (shared, lane) = (&self.shared, self.shared.reactor);
                    let what = (rank, self.lane.borrow().takes());
                    let grant = move |first: Rc<Shared>| async move {
                        let control = first.control();
                        let granted = control.grant_chunk(&first, lane, what);
                        if granted.is_none() {
                            control.wants_chunk(&first);
                            first.lift_map_limits();
                        }
                        granted
                    };
                    match shared.call(FIRST, grant).await {
                        Ok(Some(Grant::Chunk(grant))) => self.lane.borrow_mut().give_chunk(grant),
                        Ok(Some(Grant::Lift(rank))) => self.lane.borrow_mut().lift(rank),
                        Ok(None) => woken.await,
                        Err(Stopped) => break,
                    }
                }
            }
        }
        self.abandon();
    }

    /// Seals the next batch, above every stamp that was drawn and with what is durable by now.
    fn seal(&self) -> Result<Write, Idle> {
        let shared = &self.shared;
        let mut lane = self.lane.borrow_mut();
        lane.observe(shared.clock());
        lane.set_durable(shared.durable(shared.reactor));
        let sealed = lane.seal();
        shared.note_next_lsn(lane.next_lsn());
        sealed
    }

    /// Hands chunks that were given up and are acknowledged whole to the control actor.
    pub(crate) fn hand_back_closed(&self) {
        let closed = self.lane.borrow_mut().take_closed();
        for chunk in closed {
            self.shared
                .tell_control(move |control, shared| control.chunk_closed(shared, chunk));
        }
    }

    /// Tells everyone who waits for the log that the engine stopped.
    pub(crate) fn abandon(&self) {
        let loads = self.lane.borrow_mut().abandon();
        for mut load in loads {
            self.answer(&mut load, Err(Stopped));
        }
        self.acked.notify();
        self.nodes_freed.notify();
        self.merge_wanted.notify();
        self.clear_wanted.notify();
    }

    fn submit(self: &Rc<Self>, write: Write) {
        // Live bits of its data blocks are set before anything can ask for them; bits before pointer: a
        // checkpoint that reads the pointer first finds the bits below it.
        if write.data_blocks > 0 {
            let first = Ppa::fast(write.data_sector);
            self.shared.units.append_run(first, write.data_blocks);
        }
        let chunk = UnitId::chunk(write.chunk);
        self.shared.units.advance(chunk, write.write_pointer);
        let shared = &self.shared;
        shared
            .log_records
            .fetch_add(write.records, Ordering::Relaxed);
        let bytes = write.gather.bytes();
        shared.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        let command = Command::Write {
            offset: write.offset,
            gather: write.gather,
            handle: Handle::default(),
        };
        let completion = self.shared.fast.submit(command);
        let shard = Rc::clone(self);
        self.shared.spawn(async move {
            match completion.await {
                Ok(_) => shard.written(write.sequence),
                Err(error) => shard.write_failed(write.sequence, error),
            }
        });
        if self.shared.is_checkpoint_due() && self.shared.tells_checkpointer() {
            self.shared
                .tell_control(|control, _| control.checkpoint_wanted.notify());
        }
        if self.lane.borrow().unflushed_bytes() >= self.shared.config.flush_bytes {
            self.shared.flush_wanted.notify();
        }
        if self.lane.borrow_mut().asks_ahead() {
            let shard = Rc::clone(self);
            self.shared.spawn(async move { shard.ask_ahead().await });
        }
    }

    /// Has the lane's next chunk given while it still writes the one it has: a lane that waits for another
    /// reactor's answer keeps all hosts waiting.
    async fn ask_ahead(&self) {
        let lane = self.shared.reactor;
        let grant =
            move |first: Rc<Shared>| async move { first.control().grant_ahead(&first, lane) };
        if let Ok(granted) = self.shared.call(FIRST, grant).await {
            self.lane.borrow_mut().give_ahead(granted);
            // The lane may have been refused one meanwhile.
            self.pump.notify();
        }
    }

    fn written(&self, sequence: u64) {
        if self.shared.is_stopped() {
            return;
        }
        self.reroutes.set(0);
        let acked = if self.planted(Canary::CompletionOrder) {
            self.lane.borrow_mut().written_alone(sequence)
        } else {
            self.lane.borrow_mut().written(sequence)
        };
        let acked_lsn = self.lane.borrow().acked_lsn();
        self.shared.set_acked(self.shared.reactor, acked_lsn);
        if !self.shared.fast.info().volatile_cache {
            self.lane.borrow_mut().set_durable(acked_lsn);
        }
        for batch in acked {
            self.acknowledge(batch);
        }
        if self.has_long_chain() {
            self.merge_wanted.notify();
        }
        self.reroute_failed();
        self.pump.notify();
        self.acked.notify();
        if self.node_waiters.get() > 0 {
            self.nodes_freed.notify();
            self.merge_wanted.notify();
        }
    }

    /// True if a chain has reached the length at which it is merged whatever room there is.
    fn has_long_chain(&self) -> bool {
        let longest = self.map.borrow_mut().longest();
        longest.is_some_and(|(_, len)| len >= CHAIN_MAX)
    }

    fn write_failed(&self, sequence: u64, error: varve_io::IoError) {
        if self.shared.is_stopped() {
            return;
        }
        self.shared.count("log_write_errors", 1);
        self.reroutes.set(self.reroutes.get() + 1);
        if self.reroutes.get() > REROUTES_MAX || error != varve_io::IoError::Media {
            self.shared.stop(StopReason::Log(error));
            self.pump.notify();
            return;
        }
        self.lane.borrow_mut().failed(sequence);
        self.reroute_failed();
        self.pump.notify();
    }

    /// Gives up the places of batches that must be written again elsewhere. The chunk of the first
    /// is taken out of use; the others failed only because they come after it.
    fn reroute_failed(&self) {
        let mut lane = self.lane.borrow_mut();
        let Some(batches) = lane.reroute() else {
            return;
        };
        let units = &self.shared.units;
        if let Some(first) = batches.first() {
            let chunk = first.chunk();
            self.shared
                .tell_control(move |control, _| control.retire_chunk(chunk));
        }
        for batch in batches {
            let start = units.geometry().chunk_start(batch.chunk());
            let used = (batch.sector() - start) as u32;
            units.truncate(UnitId::chunk(batch.chunk()), used);
            for (_, load, appended) in batch.placed() {
                for index in 0..load.data_blocks() {
                    let ppa = Ppa::fast(appended.data_sector + index * BLOCK_SECTORS);
                    units.bury(ppa, Lsn::MAX);
                }
            }
        }
    }

    fn acknowledge(&self, mut batch: Batch) {
        let mut dead = self.dead.take();
        let (mut nodes, mut blocks, mut log, mut lengthened) = (0, 0, 0, 0);
        let mut makes_leaves = false;
        let mut ahead = 0;
        for (index, (record, load, appended)) in batch.placed().enumerate() {
            if index == ahead {
                let map = &mut self.map.borrow_mut();
                ahead += Self::look_ahead(map, &batch.records[index..]);
            }
            self.apply(record, &appended, &mut dead);
            nodes += load.reserved_nodes as usize;
            blocks += u64::from(load.pending_blocks);
            lengthened += lengthens(record);
            log += load.pending_log();
            makes_leaves |= load.pending_leaf;
        }
        self.bury(&mut dead);
        self.dead.set(dead);
        self.lengthening.set(self.lengthening.get() - lengthened);
        self.reserved_nodes.set(self.reserved_nodes.get() - nodes);
        // What is mapped now is shown before it is no longer pending.
        self.show_used();
        if makes_leaves {
            self.leaves_made(&batch);
        }
        if blocks > 0 {
            self.shared.unpend_blocks(blocks);
            self.shared.unpend_log(log);
            self.shared.wake_waiters();
        }
        let mut next = batch.first;
        for load in &mut batch.loads {
            let at = next;
            next = at.behind(load);
            self.answer(load, Ok(at));
        }
        self.lane.borrow_mut().take_back(batch);
        self.shared.blocks_died();
    }

    /// The leaves that writes of a batch were to make are made.
    fn leaves_made(&self, batch: &Batch) {
        for (record, load) in batch.records.iter().zip(&batch.loads) {
            if let Record::Put { volume, lba, .. } | Record::External { volume, lba, .. } = record
                && load.pending_leaf
            {
                let (volume, leaf) = (*volume, lba.leaf());
                self.leaf_made(LeafKey { volume, leaf });
            }
        }
    }

    /// Has what the map holds of the blocks that the first of these records change found before they do;
    /// tells how many records those are, at least one.
    fn look_ahead(map: &mut Map, records: &[Record]) -> usize {
        map.begin_expecting();
        let expect = |map: &mut Map, volume: VolumeId, lba: Lba| {
            let leaf = lba.leaf();
            map.expect(LeafKey { volume, leaf }, lba.index() as u16);
        };
        let mut count = 0;
        for record in records {
            if map.expects_enough() {
                break;
            }
            count += 1;
            match record {
                Record::Put { volume, lba, .. } | Record::External { volume, lba, .. } => {
                    expect(map, *volume, *lba);
                }
                Record::Move { volume, items, .. } => {
                    let items = items.iter();
                    items.for_each(|item| expect(map, *volume, item.lba));
                }
                Record::Keep { volume, items, .. } => {
                    let items = items.iter();
                    items.for_each(|item| expect(map, *volume, item.lba));
                }
                _ => {}
            }
        }
        map.fetch_expected();
        count
    }

    /// Lets the other reactors know what the map holds.
    pub(crate) fn show_used(&self) {
        let map = self.map.borrow();
        let leaves = map.leaves() as u64;
        self.shared
            .set_used(self.shared.reactor, map.used_upper(), leaves);
    }

    pub(crate) fn bury(&self, dead: &mut Vec<Dead>) {
        let dead = dead.drain(..).map(|Dead { ppa, since }| (ppa, since));
        self.shared.units.bury_each(dead);
    }

    /// What an acknowledged record does to the map and the catalogue. Of checkpoint records only
    /// their chunks are noted: the flow that appended them goes on when its ticket arrives.
    fn apply(&self, record: &Record, at: &Appended, dead: &mut Vec<Dead>) {
        match record {
            Record::Discard {
                slice,
                volume,
                lba,
                blocks,
                zero,
            } => {
                self.apply_discard(*slice, *volume, *lba, *blocks, *zero, at.lsn, dead);
            }
            Record::Part { .. } | Record::Commit { .. } => {
                let chunk = self.shared.units.geometry().chunk_of(at.meta_sector);
                self.shared.control().note_part(chunk);
            }
            // At once, as all changes: a checkpoint that begins behind this record must hold it.
            Record::Catalogue { entry } => self.shared.volumes.borrow_mut().note(**entry),
            Record::Leaf {
                volume,
                leaf,
                through,
                crc,
            } => {
                let (volume, leaf) = (*volume, *leaf);
                let key = LeafKey { volume, leaf };
                self.adopt_leaf(key, at.meta_sector, *crc, *through);
            }
            Record::Move { volume, .. } | Record::Keep { volume, .. }
                if !self.shared.is_present(*volume) =>
            {
                // The volume was deleted under the move: what it brought is dead on arrival.
                for_each_change(record, at, |_, _, change| {
                    if let Change::Move { new, .. } = change {
                        dead.push(Dead {
                            ppa: new,
                            since: at.lsn,
                        });
                    }
                });
            }
            Record::Put { .. } | Record::External { .. } => {
                let mut map = self.map.borrow_mut();
                self.make_admitted_leaf(&mut map, record);
                let written = written(record, at).expect("a host's write");
                map.apply_each(written.key, written.puts, at.lsn, dead)
                    .expect("nodes were set aside");
            }
            Record::Move {
                slice,
                volume,
                items,
            } => {
                let mut map = self.map.borrow_mut();
                map.apply_moves((*slice, *volume), items, at.lsn, dead)
                    .expect("nodes were set aside");
            }
            Record::Keep { .. } => {
                let mut map = self.map.borrow_mut();
                for_each_change(record, at, |key, index, change| {
                    map.apply_each(key, [(index, change)], at.lsn, dead)
                        .expect("nodes were set aside");
                });
            }
        }
    }

    /// Makes the leaf of a write that was admitted when the leaf existed, if it was deallocated and
    /// dropped since and others took its room.
    fn make_admitted_leaf(&self, map: &mut Map, record: &Record) {
        if let Record::Put { volume, lba, .. } | Record::External { volume, lba, .. } = record
            && map.leaves() >= self.shared.config.map.leaves_max
        {
            let (volume, leaf) = (*volume, lba.leaf());
            map.make_leaf(LeafKey { volume, leaf });
        }
    }

    /// Applies a discard to every leaf of its slice in the range.
    #[expect(clippy::too_many_arguments, reason = "the fields of one record")]
    pub(crate) fn apply_discard(
        &self,
        slice: varve_units::SliceId,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        zero: bool,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) {
        let pieces = discard_pieces(&self.map.borrow(), slice, volume, lba, blocks);
        for (key, index, count) in pieces {
            let change = Change::Discard { count, zero };
            self.change_leaf(key, |map| {
                map.apply(key, index, change, lsn, dead)
                    .expect("nodes were set aside");
            });
        }
        self.map.borrow_mut().note_applied(slice, lsn);
        self.clear_wanted.notify();
    }

    /// True if this bug is planted.
    pub(crate) fn planted(&self, canary: Canary) -> bool {
        self.shared.config.is_planted(canary)
    }
}
