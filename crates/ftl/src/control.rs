//! What is pool-wide and on the first reactor: free units, what waits to be freed, which checkpoints still need which chunks.
//!
//! **Invariants**: a unit is in exactly one of: free list, discards, some lane's or stream's hand
//! (open), closed, being cleaned, emptied, retired. An emptied unit is freed by the first checkpoint
//! that *began* after it was emptied and has committed (engine.md U4).

use crate::chunk_ages::ChunkAges;
use crate::cleaner::Work;
use crate::config::Canary;
use crate::discards::Discards;
use crate::geometry::{Tier, UnitId};
use crate::idle::Idle;
use crate::joint::{Origins, Survivors};
use crate::lane::{ChunkGrant, Grant, Rank};
use crate::limits::{OUTAGE_PAUSE_MAX, RETRY_PAUSE};
use crate::open_groups::OpenGroups;
use crate::pace::Pace;
use crate::placement::{StreamId, Writer};
use crate::pool_clock::PoolClock;
use crate::posts::Common;
use crate::shared::Shared;
use crate::units::UnitState;
use crate::victims::Victim;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{Ordering, fence};
use varve_format::{CommitPlace, GroupEntry, PartPlace};
use varve_io::{Event, ReactorId};
use varve_units::Nanos;

/// Share of the chunks that the cleaner aims at, one of so many, that a checkpoint frees at once if
/// hosts do not stand still. Arbitrary: at large pools an interval between checkpoints, or half
/// of one.
const FREED_AT_ONCE: usize = 4;

/// Chunks that starts need, if power fails again and again before a life has emptied any: the checkpoint that ends
/// one start takes the first, that of the next start the second, and its commit frees what held the one before the
/// first. With one left the second start would wait for ever.
const STARTS_CHUNKS: usize = 2;

/// How long a unit of which something could not be read is left alone.
#[derive(Clone, Copy)]
struct Deferral {
    pause: Nanos,
    has_ended: bool,
}

/// What is pool-wide.
pub struct Control {
    common: Arc<Common>,
    free_chunks: RefCell<VecDeque<u32>>,
    free_groups: RefCell<VecDeque<u32>>,
    /// Chunks in use by when they were opened.
    pub(crate) chunk_ages: ChunkAges,
    /// Free groups that the drives have not been told of.
    pub(crate) discards: Discards,
    /// Units emptied since the last checkpoint began.
    emptied: RefCell<Vec<UnitId>>,
    /// Units to be taken out of use when they are empty.
    retiring: RefCell<BTreeSet<UnitId>>,
    /// Units whose headers cannot be read: they are not tried again before the next start.
    stuck: RefCell<BTreeSet<UnitId>>,
    /// Units of which something could not be read when they were last to be emptied.
    deferred: RefCell<BTreeMap<UnitId, Deferral>>,
    /// When each closed group was closed, in nanoseconds.
    closed_at: RefCell<BTreeMap<u32, u64>>,
    clock: PoolClock,
    /// Parts that the newest commit needs, by chunk.
    part_chunks: RefCell<BTreeMap<u32, u32>>,
    /// Chunks with parts of the checkpoint that is being taken.
    new_part_chunks: RefCell<BTreeSet<u32>>,
    pub(crate) commit: Cell<Option<CommitPlace>>,
    pub(crate) checkpoint: Cell<u64>,
    /// Parts a start needs now, in order of age.
    pub(crate) parts: RefCell<Vec<PartPlace>>,
    /// Chunks that the parts of the last checkpoint of the whole state took.
    pub(crate) pinned_by_whole: Cell<usize>,
    /// A checkpoint is being taken.
    pub(crate) is_checkpointing: Cell<bool>,
    /// Groups that it frees.
    freeing_groups: Cell<usize>,
    /// Whose each open group is.
    pub(crate) open_groups: OpenGroups,
    /// A burst of garbage collection lasts: until there are as many free groups as are wanted.
    pub(crate) is_gc_burst: Cell<bool>,
    /// Groups being collected.
    pub(crate) gc_victims: RefCell<BTreeMap<u32, Victim>>,
    /// The group being collected goes to one stream, whatever its tenants.
    pub(crate) gc_is_collapsed: Cell<bool>,
    /// A group being collected gains less than a stripe.
    pub(crate) gc_is_lean: Cell<bool>,
    chunk_wanted: Cell<bool>,
    checkpoint_asked: Cell<bool>,
    /// The next checkpoint to begin dumps the bits of every unit in which some changed.
    bits_asked: Cell<bool>,
    /// Units were freed.
    pub(crate) freed: Event,
    /// The checkpointer looks whether it is time.
    pub(crate) checkpoint_wanted: Event,
    /// How fast the cleaner frees chunks.
    pub(crate) pace: Pace,
    /// How much of what hosts write is alive when the cleaner comes.
    pub(crate) survivors: Survivors,
    /// What victims of garbage collection were made of, and what of it was alive.
    pub(crate) origins: Origins,
    /// Victims of the cleaner.
    pub(crate) cleaner_work: Work,
    /// Hosts send nothing.
    pub(crate) idle: Idle,
    /// Victims of garbage collection.
    pub(crate) gc_work: Work,
    /// The cleaner looks whether there is work.
    pub(crate) cleaner_wanted: Event,
    /// Garbage collection looks whether there is work.
    pub(crate) gc_wanted: Event,
    /// A checkpoint has committed.
    pub(crate) committed: Event,
}

impl Control {
    /// Nothing free, nothing emptied.
    pub(crate) fn new(common: Arc<Common>) -> Self {
        Self {
            common,
            free_chunks: RefCell::default(),
            free_groups: RefCell::default(),
            chunk_ages: ChunkAges::default(),
            discards: Discards::default(),
            emptied: RefCell::default(),
            retiring: RefCell::default(),
            stuck: RefCell::default(),
            deferred: RefCell::default(),
            closed_at: RefCell::default(),
            clock: PoolClock::default(),
            part_chunks: RefCell::default(),
            new_part_chunks: RefCell::default(),
            commit: Cell::default(),
            checkpoint: Cell::default(),
            parts: RefCell::default(),
            pinned_by_whole: Cell::default(),
            is_checkpointing: Cell::default(),
            freeing_groups: Cell::default(),
            open_groups: OpenGroups::default(),
            pace: Pace::default(),
            survivors: Survivors::default(),
            origins: Origins::default(),
            cleaner_work: Work::default(),
            idle: Idle::default(),
            gc_work: Work::default(),
            is_gc_burst: Cell::default(),
            gc_victims: RefCell::default(),
            gc_is_collapsed: Cell::default(),
            gc_is_lean: Cell::default(),
            bits_asked: Cell::default(),
            chunk_wanted: Cell::default(),
            checkpoint_asked: Cell::default(),
            freed: Event::new(),
            checkpoint_wanted: Event::new(),
            cleaner_wanted: Event::new(),
            gc_wanted: Event::new(),
            committed: Event::new(),
        }
    }

    /// Adds a free unit: a chunk to the free list, a group to those to be discarded first.
    pub(crate) fn add_free(&self, unit: UnitId) {
        match unit.tier {
            Tier::Fast => {
                self.free_chunks.borrow_mut().push_back(unit.index);
                self.show_free();
            }
            Tier::Dense => self.discards.add(unit.index),
        }
    }

    /// The drives know that a free group holds nothing: it may be opened.
    pub(crate) fn discarded(&self, group: u32) {
        self.free_groups.borrow_mut().push_back(group);
        self.freed.notify();
        self.gc_wanted.notify();
        if self.idle.is_on() {
            // It may have stopped for want of one.
            self.cleaner_wanted.notify();
        }
    }

    /// Lets other reactors know how many chunks are free.
    fn show_free(&self) {
        let free = self.free_chunks() as u32;
        self.common.free_chunks.store(free, Ordering::SeqCst);
    }

    /// The free units of a tier in order, those still to be discarded last.
    pub(crate) fn free_list(&self, tier: Tier) -> Vec<UnitId> {
        let (list, discards) = match tier {
            Tier::Fast => (&self.free_chunks, Vec::new()),
            Tier::Dense => (&self.free_groups, self.discards.list()),
        };
        let unit = |index| UnitId { tier, index };
        let free = list.borrow();
        free.iter().copied().chain(discards).map(unit).collect()
    }

    /// Units emptied that no running checkpoint has taken yet.
    pub(crate) fn emptied_list(&self) -> Vec<UnitId> {
        self.emptied.borrow().clone()
    }

    /// Free chunks.
    pub(crate) fn free_chunks(&self) -> usize {
        self.free_chunks.borrow().len()
    }

    /// Free groups that may be opened now.
    pub(crate) fn free_groups(&self) -> usize {
        self.free_groups.borrow().len()
    }

    /// Units that the next checkpoint will free.
    pub(crate) fn emptied_count(&self) -> usize {
        self.emptied.borrow().len()
    }

    /// Chunks that the next checkpoint will free. Not those that hold parts of earlier ones: who
    /// counted on them would wait for checkpoints that nobody takes.
    pub(crate) fn freeable_chunks(&self, shared: &Shared) -> usize {
        self.freeable(shared, Tier::Fast)
    }

    /// Groups that the next checkpoint can free.
    pub(crate) fn freeable_groups(&self, shared: &Shared) -> usize {
        self.freeable(shared, Tier::Dense)
    }

    /// Groups that come back without another victim: discarded now, or freed by the checkpoint that is being
    /// taken or the next one.
    pub(crate) fn coming_groups(&self, shared: &Shared) -> usize {
        self.freeable_groups(shared) + self.freeing_groups.get() + self.discards.count()
    }

    fn freeable(&self, shared: &Shared, tier: Tier) -> usize {
        let emptied = self.emptied.borrow();
        let of_tier = emptied.iter().filter(|unit| unit.tier == tier);
        of_tier
            .filter(|unit| self.is_freeable(shared, **unit))
            .count()
    }

    /// Emptied groups, those that a repair keeps included.
    pub(crate) fn emptied_groups(&self) -> usize {
        self.emptied
            .borrow()
            .iter()
            .filter(|unit| unit.tier == Tier::Dense)
            .count()
    }

    /// Free chunks that a rank leaves to those above. A start may have to write leaves before it has a
    /// checkpointer, and takes one of them: the checkpoint that ends it goes on in that one.
    fn chunks_kept(&self, shared: &Shared, rank: Rank) -> usize {
        let starts = usize::from(!shared.is_serving.load(Ordering::SeqCst));
        let for_checkpoints = shared.config.reserve.urgent_chunks as usize - starts;
        match rank {
            Rank::Checkpoint => 0,
            Rank::Upkeep => for_checkpoints,
            Rank::Ordinary => for_checkpoints + shared.upkeep_chunks() as usize,
        }
    }

    /// True if records of this rank may have what is kept for checkpoints, all but [`STARTS_CHUNKS`]: none
    /// is being taken and none would free a chunk, so they have to come first. A start may leave less
    /// than it found, and a checkpoint that frees groups alone takes log and gives none back.
    fn comes_first(&self, shared: &Shared, rank: Rank) -> bool {
        let has_turn = match rank {
            Rank::Ordinary => shared.upkeep_chunks() == 0,
            Rank::Upkeep => true,
            Rank::Checkpoint => false,
        };
        has_turn && !self.is_checkpointing.get() && self.freeable_chunks(shared) == 0
    }

    /// Looks, while the log `is_pressed`, whether there is a chunk to be emptied that holds leaves alone: as
    /// long as there is, log is kept for them. Where there is none, whatever waits may have it.
    pub(crate) fn look_for_upkeep(&self, shared: &Shared, is_pressed: bool) {
        let most = shared.config.reserve.upkeep_chunks;
        if most == 0 || !shared.is_serving.load(Ordering::SeqCst) {
            return;
        }
        let has_bare = is_pressed && (self.cleaner_work.has_bare() || shared.has_bare_chunk());
        let chunks = if has_bare { most } else { 0 };
        if self.common.upkeep_chunks.swap(chunks, Ordering::SeqCst) > chunks {
            let wake = |there: &Rc<Shared>| {
                there.shard().pump.notify();
                there.shard().merge_wanted.notify();
            };
            wake(&shared.rc());
            shared.tell_others(wake);
        }
    }

    /// Opens a free chunk for a lane's records of this rank, or lets it go on with them in the one it
    /// has, which takes records of higher ranks alone (`has`).
    ///
    /// The last few are for checkpoints only, so that the one that frees more of them can always be
    /// written: nothing else goes to what is left of a chunk that a checkpoint took of them, before
    /// there are as many again. The same for leaves.
    pub(crate) fn grant_chunk(
        &self,
        shared: &Shared,
        lane: ReactorId,
        (rank, has): (Rank, Option<Rank>),
    ) -> Option<Grant> {
        let free = self.free_chunks();
        let kept = |rank| self.chunks_kept(shared, rank);
        let comes_first = self.comes_first(shared, rank);
        if has.is_some() && (free >= kept(rank) || comes_first) {
            return Some(Grant::Lift(rank));
        }
        if free <= kept(rank) && !(comes_first && free > STARTS_CHUNKS) {
            return None;
        }
        let ranks = [Rank::Ordinary, Rank::Upkeep, Rank::Checkpoint];
        let takes = ranks.into_iter().find(|rank| free > kept(*rank));
        let takes = takes.map_or(rank, |takes| takes.min(rank));
        let chunk = self.free_chunks.borrow_mut().pop_front()?;
        self.show_free();
        let id = UnitId::chunk(chunk);
        let stamp = shared.draw_stamp();
        shared.units.unit(id).set_home(lane);
        shared.units.open(id, stamp);
        self.chunk_ages.note_opened(id, stamp, &shared.units);
        shared.lifetimes.refresh(&shared.units, stamp);
        self.cleaner_wanted.notify();
        let generation = shared.units.unit(id).generation();
        Some(Grant::Chunk(ChunkGrant {
            chunk,
            stamp,
            generation,
            commit: self.commit.get(),
            takes,
        }))
    }

    /// Opens a chunk for what a lane writes next, if more are free than the reserve: what is left of that
    /// is for those who have nothing to write to.
    pub(crate) fn grant_ahead(&self, shared: &Shared, lane: ReactorId) -> Option<ChunkGrant> {
        if self.free_chunks() <= shared.config.reserve.chunks as usize {
            return None;
        }
        match self.grant_chunk(shared, lane, (Rank::Ordinary, None)) {
            Some(Grant::Chunk(grant)) if grant.takes == Rank::Ordinary => Some(grant),
            Some(_) => unreachable!("above the reserve chunks take everything"),
            None => None,
        }
    }

    /// Takes a free group and opens it for a reactor's stream.
    pub(crate) fn grant_group(
        &self,
        shared: &Shared,
        to: ReactorId,
        stream: StreamId,
    ) -> Option<u32> {
        let group = self.free_groups.borrow_mut().pop_front()?;
        let stamp = shared.draw_stamp();
        shared.units.unit(UnitId::group(group)).set_home(to);
        self.open_groups.opened(group, stream);
        shared.units.open(UnitId::group(group), stamp);
        self.gc_wanted.notify();
        Some(group)
    }

    /// A lane waits for a chunk: the next one freed wakes the lanes, and freeing is urgent.
    pub(crate) fn wants_chunk(&self, shared: &Shared) {
        self.chunk_wanted.set(true);
        shared.read_ended.notify();
        self.checkpoint_wanted.notify();
        self.cleaner_wanted.notify();
    }

    /// True if a lane waits for a chunk.
    pub(crate) const fn is_chunk_wanted(&self) -> bool {
        self.chunk_wanted.get()
    }

    /// True if host writes wait for room in the log.
    pub(crate) fn has_waiters(&self) -> bool {
        self.common.waiters.load(Ordering::SeqCst) > 0
    }

    /// Asks for a checkpoint now.
    pub(crate) fn ask_checkpoint(&self) {
        self.checkpoint_asked.set(true);
        self.checkpoint_wanted.notify();
    }

    /// Asks for a checkpoint now that holds all that died so far: a start from it brings nothing
    /// dead back.
    pub(crate) fn ask_exact_checkpoint(&self) {
        self.bits_asked.set(true);
        self.ask_checkpoint();
    }

    /// True if someone asked for the bits that changed since the last call.
    pub(crate) fn take_bits_asked(&self) -> bool {
        self.bits_asked.take()
    }

    /// True if someone asked for a checkpoint since the last call.
    pub(crate) fn take_checkpoint_asked(&self) -> bool {
        self.checkpoint_asked.take()
    }

    /// A lane has given up a chunk and every record in it is acknowledged.
    pub(crate) fn chunk_closed(&self, shared: &Shared, chunk: u32) {
        shared
            .units
            .transition(UnitId::chunk(chunk), UnitState::Closed);
        self.cleaner_wanted.notify();
    }

    /// A group takes no more stripes.
    pub(crate) fn group_closed(&self, shared: &Shared, group: u32) {
        shared
            .units
            .transition(UnitId::group(group), UnitState::Closed);
        self.open_groups.closed(group);
        self.closed_at
            .borrow_mut()
            .insert(group, self.pool_now(shared));
        self.gc_wanted.notify();
    }

    /// Now, in nanoseconds of the clock that groups are closed by.
    pub(crate) fn pool_now(&self, shared: &Shared) -> u64 {
        self.clock.at(shared.world.now()).0
    }

    /// When a group was closed, in nanoseconds; 0 if it is not.
    pub(crate) fn closed_at(&self, group: u32) -> u64 {
        self.closed_at.borrow().get(&group).copied().unwrap_or(0)
    }

    /// When each group was closed, in nanoseconds; 0 for one that is not.
    pub(crate) fn closed_times(&self, groups: u32) -> Vec<u64> {
        let mut times = alloc::vec![0; groups as usize];
        for (group, at) in self.closed_at.borrow().iter() {
            times[*group as usize] = *at;
        }
        times
    }

    /// When a group was closed, as the checkpoint has it (recovery).
    pub(crate) fn restore_group(&self, shared: &Shared, group: u32, entry: &GroupEntry) {
        self.clock.restore(shared.world.now(), entry.closed_at);
        self.closed_at.borrow_mut().insert(group, entry.closed_at.0);
        if let Some(writer) = Writer::from_code(entry.stream) {
            let tenant = entry.tenant;
            self.open_groups.opened(group, StreamId { tenant, writer });
        }
    }

    /// A write to this chunk failed: it is taken out of use when it is empty.
    pub(crate) fn retire_chunk(&self, chunk: u32) {
        self.retiring.borrow_mut().insert(UnitId::chunk(chunk));
    }

    /// A write to this group failed: it is taken out of use when it is empty.
    pub(crate) fn retire_group(&self, group: u32) {
        self.retiring.borrow_mut().insert(UnitId::group(group));
    }

    /// This unit cannot be emptied before the next start, unless all in it dies.
    pub(crate) fn set_stuck(&self, unit: UnitId) {
        self.stuck.borrow_mut().insert(unit);
    }

    /// True if this unit could not be emptied, and still holds something.
    pub(crate) fn is_stuck(&self, shared: &Shared, unit: UnitId) -> bool {
        let is_empty = || {
            let unit = shared.units.unit(unit);
            unit.live() == 0 && unit.leaves() == 0
        };
        self.stuck.borrow().contains(&unit) && !is_empty()
    }

    /// Something of what this unit holds cannot be read now. Returns for how long it is left alone: longer each time, so
    /// that others have their turn.
    pub(crate) fn defer(&self, unit: UnitId) -> Nanos {
        let mut deferred = self.deferred.borrow_mut();
        let last = deferred.get(&unit).map(|deferral| deferral.pause.0 * 2);
        let pause = last.unwrap_or(RETRY_PAUSE.0).min(OUTAGE_PAUSE_MAX.0);
        let deferral = Deferral {
            pause: Nanos(pause),
            has_ended: false,
        };
        deferred.insert(unit, deferral);
        deferral.pause
    }

    /// This unit may be tried again.
    pub(crate) fn end_deferral(&self, unit: UnitId) {
        if let Some(deferral) = self.deferred.borrow_mut().get_mut(&unit) {
            deferral.has_ended = true;
        }
    }

    /// True if something of this unit could not be read a while ago.
    pub(crate) fn is_deferred(&self, unit: UnitId) -> bool {
        let deferred = self.deferred.borrow();
        deferred
            .get(&unit)
            .is_some_and(|deferral| !deferral.has_ended)
    }

    /// True if this unit will be taken out of use when it is empty.
    pub(crate) fn is_retiring(&self, unit: UnitId) -> bool {
        self.retiring.borrow().contains(&unit)
    }

    /// Nothing in this unit is needed once the next checkpoint has committed.
    pub(crate) fn emptied(&self, shared: &Shared, unit: UnitId) {
        shared.units.transition(unit, UnitState::Emptied);
        // Before anybody asks whether it is pinned: a repair that ends from here on tells.
        fence(Ordering::SeqCst);
        if unit.tier == Tier::Dense && shared.config.is_planted(Canary::DiscardBeforeCommit) {
            let there = shared.rc();
            let early = async move { there.discard_group(unit.index).await };
            shared.rc().spawn(early);
        }
        self.stuck.borrow_mut().remove(&unit);
        self.deferred.borrow_mut().remove(&unit);
        self.emptied.borrow_mut().push(unit);
        self.checkpoint_wanted.notify();
    }

    /// Units emptied before now: the checkpoint that begins now calls them free, and frees them when it commits. Their
    /// use ends: all that refers to it is older than the stamp they get. Those with a repair in flight are among
    /// them: they stay emptied, and every checkpoint calls them free until they are.
    /// Chunks that hold parts of the newest commit wait for a later one.
    pub(crate) fn take_emptied(&self, shared: &Shared) -> Vec<UnitId> {
        let mut emptied = self.emptied.borrow_mut();
        let (freeing, keep) = emptied
            .drain(..)
            .partition::<Vec<_>, _>(|unit| !self.keeps_parts(*unit));
        *emptied = keep;
        let stamp = shared.draw_stamp();
        for unit in &freeing {
            shared.units.end_use(*unit, stamp);
        }
        let is_group =
            |unit: &&UnitId| unit.tier == Tier::Dense && !shared.units.unit(**unit).is_pinned();
        self.freeing_groups
            .set(freeing.iter().filter(is_group).count());
        freeing
    }

    /// True if the next checkpoint can free this emptied unit.
    fn is_freeable(&self, shared: &Shared, unit: UnitId) -> bool {
        !self.keeps_parts(unit) && !shared.units.unit(unit).is_pinned()
    }

    /// True if this unit is a chunk with parts of a checkpoint that a start would read.
    fn keeps_parts(&self, unit: UnitId) -> bool {
        unit.tier == Tier::Fast && self.holds_parts(unit.index)
    }

    /// True if a checkpoint now pays: it frees several chunks at once, or all that are to be had of those
    /// that are waited for. (One checkpoint for each chunk could take more log than it frees.)
    ///
    /// Hosts that do not stand still get more at once: every checkpoint holds a share of the whole state.
    /// They are not slowed down first: cleaning that has emptied chunks meanwhile stops when it has enough.
    pub(crate) fn is_freeing_due(&self, shared: &Shared) -> bool {
        let is_short = self.free_chunks() <= shared.config.reserve.chunks as usize;
        let stands_still = self.has_waiters() || self.chunk_wanted.get() || is_short;
        let freeable = self.freeable_chunks(shared);
        let several = if stands_still {
            2
        } else {
            (shared.clean_spare() / FREED_AT_ONCE).max(2)
        };
        freeable >= several || (freeable == 1 && stands_still && self.is_cleaner_idle())
    }

    /// True if the cleaner reads no victim, or what it has waits for room itself.
    fn is_cleaner_idle(&self) -> bool {
        self.chunk_wanted.get() || self.cleaner_work.is_idle()
    }

    /// A stream begins to wait for a free group.
    pub(crate) fn add_group_waiter(&self) {
        self.common.group_waiters.fetch_add(1, Ordering::SeqCst);
        // Before victims are looked for: see `Shared::blocks_died`.
        fence(Ordering::SeqCst);
        self.gc_wanted.notify();
    }

    /// A stream looks again.
    pub(crate) fn remove_group_waiter(&self) {
        self.common.group_waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// True if a stream waits for a free group.
    pub(crate) fn has_group_waiters(&self) -> bool {
        self.common.group_waiters.load(Ordering::SeqCst) > 0
    }

    /// Blocks died: whoever found nothing to empty looks again, if it is waited for.
    pub(crate) fn blocks_died(&self) {
        if self.has_group_waiters() {
            self.gc_wanted.notify();
        }
        if self.has_waiters() {
            self.cleaner_wanted.notify();
        }
    }

    /// True if emptied groups are waited for: whoever has emptied all it wanted asks.
    pub(crate) fn are_groups_due(&self, shared: &Shared) -> bool {
        self.has_group_waiters() && self.freeable_groups(shared) > 0
    }

    /// Frees units after their checkpoint committed. Those with a repair in flight wait for the
    /// next one; those with a failed write are retired.
    pub(crate) fn free(&self, shared: &Shared, emptied: Vec<UnitId>) {
        let before = self.free_chunks();
        self.freeing_groups.set(0);
        for unit in emptied {
            let is_retiring = self.is_retiring(unit);
            if is_retiring && !shared.units.unit(unit).is_pinned() {
                self.retiring.borrow_mut().remove(&unit);
                shared.units.transition(unit, UnitState::Retired);
                shared.count("units_retired", 1);
            } else if is_retiring || !shared.units.try_free(unit) {
                self.emptied.borrow_mut().push(unit);
            } else {
                if unit.tier == Tier::Dense {
                    self.closed_at.borrow_mut().remove(&unit.index);
                }
                self.add_free(unit);
            }
        }
        let chunks = (self.free_chunks() - before) as u64;
        if chunks > 0 {
            let blocks = chunks * u64::from(shared.units.geometry().chunk_blocks());
            if let Some(pace) = self.pace.freed(shared.world.now(), blocks) {
                shared.pace.store(pace, Ordering::Relaxed);
            }
        }
        self.freed.notify();
        self.gc_wanted.notify();
        let is_wanted = self.chunk_wanted.take();
        let wake = move |there: &Rc<Shared>| {
            there.freed.notify();
            if is_wanted {
                there.shard().pump.notify();
            }
        };
        wake(&shared.rc());
        shared.tell_others(wake);
    }

    /// The parts a start needs have changed: note the chunks they lie in, and the commit's.
    pub(crate) fn set_parts(&self, shared: &Shared, parts: Vec<PartPlace>, commit: CommitPlace) {
        let geometry = shared.units.geometry();
        let mut chunks = BTreeMap::new();
        for sector in parts.iter().map(|part| part.sector).chain([commit.sector]) {
            *chunks.entry(geometry.chunk_of(sector)).or_insert(0) += 1;
        }
        *self.part_chunks.borrow_mut() = chunks;
        self.new_part_chunks.borrow_mut().clear();
        *self.parts.borrow_mut() = parts;
        self.commit.set(Some(commit));
    }

    /// A part of the checkpoint that is being taken lies in this chunk. A chunk full of parts is
    /// the cheapest to clean, and cleaned it would be kept all the same until the part is out of
    /// the window.
    pub(crate) fn note_part(&self, chunk: u32) {
        self.new_part_chunks.borrow_mut().insert(chunk);
    }

    /// True if a start would read checkpoint parts or the commit in this chunk, perhaps after the
    /// checkpoint that is being taken.
    pub(crate) fn holds_parts(&self, chunk: u32) -> bool {
        self.part_chunks.borrow().contains_key(&chunk)
            || self.new_part_chunks.borrow().contains(&chunk)
    }

    /// Asks for a checkpoint of the whole state if parts of earlier ones keep more chunks from
    /// being cleaned than that would.
    pub(crate) fn unpin_chunks(&self, shared: &Shared) {
        let pinned = self.chunks_with_parts();
        if pinned > self.pinned_by_whole.get() && shared.must_dump_everything() {
            self.ask_checkpoint();
        }
    }

    /// Chunks that checkpoint parts keep from being cleaned.
    pub(crate) fn chunks_with_parts(&self) -> usize {
        self.part_chunks.borrow().len()
    }

    /// Bytes of the tables of parts.
    pub(crate) fn table_bytes(&self) -> u64 {
        let parts = self.parts.borrow().capacity() * size_of::<PartPlace>();
        let chunks = self.part_chunks.borrow().len() * 2 * size_of::<(u32, u32)>();
        (parts + chunks) as u64
    }

    /// Wakes every flow that waits for pool-wide changes (the engine stops).
    pub(crate) fn wake_all(&self) {
        self.freed.notify();
        self.checkpoint_wanted.notify();
        self.cleaner_wanted.notify();
        self.committed.notify();
        self.gc_wanted.notify();
        self.discards.wanted.notify();
    }
}

#[cfg(test)]
mod tests;
