//! Blocks that go back to the head of the log: all that lives in a pool without a dense tier, remains of stripes, and what
//! is hot (`retention`).
//!
//! Each is a conditional record with the block beside it; its birth stays. Log is set aside for each before.
//!
//! **Invariants**: who empties a chunk never waits for room in the log while others wait for it: what is hot stays only if
//! it can be queued at once, and goes to the dense tier else.

use crate::gate::log_cost;
use crate::limits::CLEANER_RUN_MAX;
use crate::load::Ticket;
use crate::map::LeafKey;
use crate::placement::Item;
use crate::progress::{Moves, Progress};
use crate::shared::Shared;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering;
use varve_format::Record;
use varve_io::{Blocks, Event, ReactorId};
use varve_units::BLOCK_BYTES;

/// Blocks on their way back of a reactor beyond which who empties a chunk reads no more of it. Arbitrary: some batches.
const UNDER_WAY_MAX: usize = 128;
/// Of what was read together one in so many must stay, or it is copied: the rest must not wait with it in memory.
const SPARSE: usize = 8;

/// Blocks of one reactor that are on their way back.
#[derive(Default)]
pub(crate) struct Keeps {
    under_way: Cell<usize>,
    ended: Event,
    /// Those that wait to be carried to their owners.
    crossing: RefCell<BTreeMap<ReactorId, Vec<Crossing>>>,
}

/// A block on its way to another reactor's lane.
struct Crossing {
    record: Record,
    /// What was read, and where in it the block is.
    blocks: (Rc<Blocks>, usize),
    progress: Rc<Progress>,
}

/// What keeps of a reactor hold of memory at most.
pub(crate) const KEEPS_BYTES: u64 =
    (UNDER_WAY_MAX + CLEANER_RUN_MAX) as u64 * SPARSE as u64 * BLOCK_BYTES;

/// True if of so many blocks that were read together so few stay that each is copied.
pub(crate) const fn are_copied(stay: usize, read: usize) -> bool {
    stay * SPARSE < read
}

impl Shared {
    /// Puts a block back at the head of the log, whatever room there is (a pool without a dense tier, a rebuild).
    pub(crate) async fn re_append(
        self: &Rc<Self>,
        item: &Item,
        blocks: &Rc<Blocks>,
        progress: &Rc<Progress>,
    ) {
        progress.add(1);
        self.pending_keeps.fetch_add(log_cost(1), Ordering::SeqCst);
        self.keep(item, blocks, progress).await;
    }

    /// Puts a block that is hot back at the head of the log, if there is room that hosts do not want, and nothing
    /// is to be waited for; if `is_copied`, what was read with it does not wait with it in memory.
    pub(crate) fn retain(
        self: &Rc<Self>,
        item: Item,
        blocks: &Rc<Blocks>,
        is_copied: bool,
        progress: &Rc<Progress>,
    ) -> bool {
        let pending = self.pending_log() + self.pending_keeps.load(Ordering::SeqCst);
        let is_wanted = self.waiters.load(Ordering::SeqCst) > 0;
        if is_wanted || self.log_room() < pending + log_cost(1) {
            return false;
        }
        let record = self.record_of(&item);
        let is_own = self.is_own(&item);
        if (is_own && !self.shard().has_room_for(&record, 1)) || !self.reserve_log_to_keep(1) {
            return false;
        }
        self.count("retained_blocks", 1);
        progress.add(1);
        progress.note_retained();
        if !is_own {
            self.send_kept(record, &item, blocks, progress);
        } else if is_copied {
            let one = Rc::new(blocks.extract(item.at as usize, 1));
            self.queue_kept(record, &Item { at: 0, ..item }, &one, progress);
        } else {
            self.queue_kept(record, &item, blocks, progress);
        }
        true
    }

    /// Waits until not too many blocks are on their way back. Who empties a chunk waits as for its stripes meanwhile, so
    /// that those are written.
    pub(crate) async fn keeps_make_way(&self) {
        let are_many = || self.keeps.under_way.get() >= UNDER_WAY_MAX && !self.is_stopped();
        if !are_many() {
            return;
        }
        self.tell_control(|control, _| {
            control.cleaner_work.settles(1);
            control.cleaner_wanted.notify();
        });
        while are_many() {
            self.keeps.ended.listen().await;
        }
        self.tell_control(|control, _| control.cleaner_work.settles(-1));
    }

    /// Sets log aside to keep so many blocks if a chunk is left for moves after that, and what is kept
    /// for leaves. Where there is not, padding is written: what the dense tier then wastes it gets back,
    /// while victims that wait for log would wait for themselves.
    pub(crate) fn reserve_log_to_keep(&self, blocks: usize) -> bool {
        let chunk = u64::from(self.units.geometry().chunk_blocks());
        let least = chunk * u64::from(1 + self.config.reserve.upkeep_chunks);
        let cost = log_cost(1) * blocks as u64;
        let pending = self.pending_keeps.fetch_add(cost, Ordering::SeqCst);
        let fits = self.log_to_clean() >= pending + cost + least;
        if !fits {
            self.pending_keeps.fetch_sub(cost, Ordering::SeqCst);
        }
        fits
    }

    /// Appends a block, for which log was set aside, at the head of the log; waits until it is queued.
    pub(crate) async fn keep(
        self: &Rc<Self>,
        item: &Item,
        blocks: &Rc<Blocks>,
        progress: &Rc<Progress>,
    ) {
        self.count("kept_blocks", 1);
        let record = self.record_of(item);
        if self.is_own(item) {
            self.shard().room_for(&record, 1).await;
            self.queue_kept(record, item, blocks, progress);
        } else {
            self.send_kept(record, item, blocks, progress);
        }
    }

    fn record_of(&self, item: &Item) -> Record {
        Record::Keep {
            slice: self.units.geometry().slice_of(item.volume, item.lba.leaf()),
            volume: item.volume,
            items: alloc::vec![item.kept()],
        }
    }

    /// Whose a block's leaf is.
    fn owner_of_item(&self, item: &Item) -> ReactorId {
        let (volume, leaf) = (item.volume, item.lba.leaf());
        self.owner_of_leaf(LeafKey { volume, leaf })
    }

    fn is_own(&self, item: &Item) -> bool {
        self.owner_of_item(item) == self.reactor
    }

    /// Queues the record of a block in this reactor's lane, which has room.
    fn queue_kept(
        &self,
        record: Record,
        item: &Item,
        blocks: &Rc<Blocks>,
        progress: &Rc<Progress>,
    ) {
        let index = item.at as usize;
        let payload = Some((Rc::clone(blocks), index..index + 1));
        self.keeps.under_way.set(self.keeps.under_way.get() + 1);
        let ticket = Ticket::Kept(Rc::clone(progress));
        self.shard()
            .queue_up(record, payload, 1, (0, false), ticket);
    }

    /// Has the record of a block queued in another reactor's lane, with all others that are found until this turn of
    /// the executor ends: a call costs as much for one as for many.
    fn send_kept(
        self: &Rc<Self>,
        record: Record,
        item: &Item,
        blocks: &Rc<Blocks>,
        progress: &Rc<Progress>,
    ) {
        let owner = self.owner_of_item(item);
        self.keeps.under_way.set(self.keeps.under_way.get() + 1);
        let mut crossing = self.keeps.crossing.borrow_mut();
        if crossing.is_empty() {
            let shared = Rc::clone(self);
            self.spawn(async move { shared.carry_kept() });
        }
        crossing.entry(owner).or_default().push(Crossing {
            record,
            blocks: (Rc::clone(blocks), item.at as usize),
            progress: Rc::clone(progress),
        });
    }

    /// Carries what waits for it to its owners, in one call of each.
    fn carry_kept(self: &Rc<Self>) {
        for (owner, crossing) in self.keeps.crossing.take() {
            let mut data = Blocks::new(crossing.len(), self.config.elided);
            let (mut records, mut parties) = (Vec::new(), Vec::new());
            for (index, one) in crossing.into_iter().enumerate() {
                let (blocks, at) = one.blocks;
                data.copy_from(index, &blocks, at, 1);
                records.push(one.record);
                parties.push(one.progress);
            }
            let keep = move |there: Rc<Self>| async move { there.append_kept(records, data).await };
            let shared = Rc::clone(self);
            self.spawn(async move {
                let ok = shared.call(owner, keep).await;
                for progress in parties {
                    shared.kept(&progress, ok == Ok(true));
                }
            });
        }
    }

    /// Appends records of this reactor's slices, each with its block; false if one was not acknowledged.
    async fn append_kept(&self, records: Vec<Record>, data: Blocks) -> bool {
        let (data, moves, count) = (Rc::new(data), Rc::new(Moves::default()), records.len());
        let shard = self.shard();
        for (index, record) in records.into_iter().enumerate() {
            shard.room_for(&record, 1).await;
            let payload = Some((Rc::clone(&data), index..index + 1));
            shard.queue_up(record, payload, 1, (0, false), moves.ticket());
        }
        let mut all = true;
        for record in 0..count {
            all &= moves.ended(record).await;
        }
        all
    }

    /// A block that log was set aside for is kept, or never will be.
    pub(crate) fn kept(&self, progress: &Progress, ok: bool) {
        self.pending_keeps.fetch_sub(log_cost(1), Ordering::SeqCst);
        self.keeps.under_way.set(self.keeps.under_way.get() - 1);
        self.keeps.ended.notify();
        progress.done(1, ok);
    }
}
