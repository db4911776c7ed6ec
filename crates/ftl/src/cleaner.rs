//! The one cleaner of the log: empties chunks, so that they can be written again.
//!
//! It walks a victim's headers and asks of each record whether it is live. Live blocks go to the
//! dense tier (compaction), sorted by stream, or, where they are hot or there is none, back to the log's head;
//! live leaves are merged with their chains; everything else is dead once a later checkpoint has
//! committed.
//!
//! The first reactor picks victims, and deals them to those that place (in a pool without a dense tier to who wrote
//! them). What lives is asked of the owners of the slices, all of a victim in one call.
//!
//! **Not here**: which chunk is a victim (`victim_chunks`).
//!
//! **Invariants**: a victim is emptied only after the last of its moves was applied.

use crate::candidate::Candidate;
use crate::config::Canary;
use crate::contents::Unknown;
use crate::geometry::{Tier, UnitId};
use crate::keeps::{KEEPS_BYTES, are_copied};
use crate::limits::{CLEANER_RUN_MAX, GC_STRIPES_MAX};
use crate::map::{LeafKey, Map};
use crate::placement::{Stream, StreamId, Writer};
use crate::progress::Progress;
use crate::read_ahead::{ReadAhead, blocks_apart};
use crate::retention::Census;
use crate::shard::Shard;
use crate::shared::{FIRST, Shared};
use crate::units::UnitState;
use crate::ways::Ways;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use varve_format::{Brought, BroughtBlock, PayloadPlace, Record, block_crc, crc24};
use varve_io::{Blocks, ReactorId};
use varve_units::{BLOCK_BYTES, Ppa, VolumeId};

/// Victims in the hands of the cleaner, or of garbage collection.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) running: Cell<usize>,
    /// Those that wait for their last moves.
    pub(crate) waiting: Cell<usize>,
    /// Those of the cleaner's without blocks of hosts: they wait for no stripe.
    bare: Cell<usize>,
    /// Blocks of log that the leaves of each take at most, until its blocks have found their stripes.
    log: RefCell<BTreeMap<u32, u64>>,
    /// The same of those whose leaves are being merged.
    merging: RefCell<BTreeMap<u32, u64>>,
}

impl Work {
    /// So many victims more wait for their last moves.
    pub(crate) fn settles(&self, by: isize) {
        let waiting = self.waiting.get().checked_add_signed(by);
        let waiting = waiting.expect("a victim begins to wait before it ends");
        self.waiting.set(waiting);
    }

    /// Sets log aside for the leaves of a victim.
    fn takes_log(&self, victim: u32, blocks: u64) {
        self.log.borrow_mut().insert(victim, blocks);
        self.merging.borrow_mut().insert(victim, blocks);
    }

    /// The leaves of a victim are merged. What was set aside for them stays so for other victims with blocks of hosts:
    /// it paces them.
    fn has_merged(&self, victim: u32) {
        self.merging.borrow_mut().remove(&victim);
    }

    /// A victim takes no more log.
    fn gives_log_back(&self, victim: u32) {
        self.has_merged(victim);
        self.log.borrow_mut().remove(&victim);
    }

    /// Blocks of log that are set aside for leaves of victims.
    pub(crate) fn log(&self) -> u64 {
        self.log.borrow().values().sum()
    }

    /// Victims whose leaves are being merged, and blocks of log that these are still to take at most.
    pub(crate) fn merging(&self) -> (usize, u64) {
        let merging = self.merging.borrow();
        (merging.len(), merging.values().sum())
    }

    /// True if a chunk without blocks of hosts is in the cleaner's hands.
    pub(crate) fn has_bare(&self) -> bool {
        self.bare.get() > 0
    }

    /// Those that are read.
    pub(crate) fn busy(&self) -> usize {
        self.running.get() - self.waiting.get()
    }

    /// True if nothing is being read: there are no victims, or all of them wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.get() == self.running.get()
    }

    /// True if there are victims and all of them wait: nothing fills the stripes they wait for.
    pub(crate) fn all_wait(&self) -> bool {
        let waiting = self.waiting.get();
        waiting > 0 && waiting + self.bare.get() == self.running.get()
    }
}

/// How the work on a victim ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing in it is needed once the next checkpoint has committed.
    Emptied,
    /// It cannot be emptied before the next start.
    Stuck,
    /// Something of what it holds cannot be read now; it is to be tried after a while.
    Deferred,
    /// Something in it could not be moved; it may be tried again.
    Failed,
}

/// A run of candidates, the first of them that was not handed on yet, and what was read.
type Left<'a, Read> = (&'a [Candidate], usize, Read);

impl Shared {
    /// Cleans chunks whenever fewer are free than the pool wants; runs for the engine's life.
    pub(crate) async fn run_cleaner(self: Rc<Self>) {
        let control = self.control();
        while !self.is_stopped() {
            let work = &control.cleaner_work;
            let has_room =
                work.busy() < self.victims_max() && work.running.get() < self.hands_max();
            let is_pressed = self.is_pressed();
            let victim = if has_room || is_pressed {
                self.next_that_fits(has_room)
            } else {
                None
            };
            control.look_for_upkeep(&self, is_pressed);
            let Some(victim) = victim else {
                if work.running.get() == 0 && self.is_short_of_chunks() {
                    // Parts of old checkpoints may be all that keeps victims away.
                    control.unpin_chunks(&self);
                }
                if work.all_wait() && self.is_short_of_chunks() {
                    self.flush_streams(Writer::Compaction);
                    self.tell_others(|there| there.flush_streams(Writer::Compaction));
                }
                control.cleaner_wanted.listen().await;
                continue;
            };
            let id = UnitId::chunk(victim);
            self.units.transition(id, UnitState::Cleaning);
            let is_first = work.running.get() == 0 && control.freeable_chunks(&self) == 0;
            if is_first || control.pace.is_paused() {
                control.pace.begin(self.world.now());
            }
            work.running.set(work.running.get() + 1);
            work.takes_log(victim, self.log_of(victim));
            let is_bare = self.is_bare(id);
            let is_idle = !self.is_short_of_chunks();
            // Of an idle pool's chunks blocks are younger than those that hosts have the cleaner come for.
            let may_stay = !is_bare && !is_idle && self.dense.is_some();
            work.bare.set(work.bare.get() + usize::from(is_bare));
            let shared = Rc::clone(&self);
            if is_idle {
                self.count("chunks_cleaned_idle", 1);
            }
            self.spawn(async move { shared.have_cleaned(id, (is_bare, may_stay)).await });
        }
    }

    /// Has a victim emptied by the reactor whose turn it is, but for what stays in the log if that may be.
    async fn have_cleaned(self: &Rc<Self>, id: UnitId, (is_bare, may_stay): (bool, bool)) {
        let what = (is_bare, may_stay);
        let clean = move |there: Rc<Self>| async move { there.clean(id.index, what).await };
        let verdict = self.call(self.worker(id), clean).await;
        if self.is_stopped() {
            return;
        }
        let control = self.control();
        if let Ok(Some(verdict)) = verdict {
            if verdict != Verdict::Emptied {
                control.idle.end();
            }
            self.conclude(id, verdict, "clean_failures").await;
        }
        let work = &control.cleaner_work;
        work.running.set(work.running.get() - 1);
        work.bare.set(work.bare.get() - usize::from(is_bare));
        work.gives_log_back(id.index);
        control.cleaner_wanted.notify();
        control.checkpoint_wanted.notify();
    }

    /// What becomes of a victim.
    pub(crate) async fn conclude(
        self: &Rc<Self>,
        id: UnitId,
        verdict: Verdict,
        failures: &'static str,
    ) {
        let control = self.control();
        match verdict {
            Verdict::Emptied => control.emptied(self, id),
            Verdict::Stuck => {
                control.set_stuck(id);
                self.units.transition(id, UnitState::Closed);
            }
            Verdict::Deferred => {
                self.defer(id);
            }
            Verdict::Failed => {
                self.count(failures, 1);
                self.units.transition(id, UnitState::Closed);
                self.world.sleep(crate::limits::RETRY_PAUSE).await;
            }
        }
    }

    /// A unit of which something cannot be read now is no victim for a while: what it holds stays where it is.
    pub(crate) fn defer(self: &Rc<Self>, id: UnitId) {
        let pause = self.control().defer(id);
        if id.tier == Tier::Dense {
            self.note_unread_victim(pause);
        }
        self.units.transition(id, UnitState::Closed);
        let shared = Rc::clone(self);
        self.spawn(async move {
            shared.world.sleep(pause).await;
            if !shared.is_stopped() {
                let control = shared.control();
                control.end_deferral(id);
                match id.tier {
                    Tier::Fast => control.cleaner_wanted.notify(),
                    Tier::Dense => control.gc_wanted.notify(),
                }
            }
        });
    }

    /// Who empties a chunk: in a pool without a dense tier who wrote it, else those who place in turn.
    pub(crate) fn worker(&self, id: UnitId) -> ReactorId {
        let dealt = |among: u16| ReactorId((id.index % u32::from(among)) as u16);
        let worker = match self.dense {
            Some(_) => dealt(self.placers()),
            None => {
                let home = self.units.unit(id).home();
                home.unwrap_or_else(|| dealt(self.config.lanes))
            }
        };
        if worker != FIRST {
            self.count("victims_crossed", 1);
        }
        worker
    }

    /// Bytes of the cleaner's and garbage collection's buffers at most: for each victim, or stripe of
    /// one, that is read the blocks under way, and what it brought and candidates, a block each at worst.
    /// What was brought takes less than its records would, however its list has grown.
    pub(crate) fn cleaner_bytes(&self) -> u64 {
        let geometry = self.units.geometry();
        const BROUGHT: usize = size_of::<(PayloadPlace, Record)>();
        const { assert!(2 * size_of::<BroughtBlock>() <= BROUGHT) };
        let block = (BROUGHT + size_of::<Candidate>()) as u64;
        let bytes = |blocks: u32| {
            let under_way = (CLEANER_RUN_MAX as u64).min(blocks.into()) * BLOCK_BYTES;
            under_way + u64::from(blocks) * block
        };
        KEEPS_BYTES * u64::from(self.config.lanes)
            + self.victims_max() as u64 * bytes(geometry.chunk_blocks())
            + GC_STRIPES_MAX as u64 * bytes(geometry.stripe_blocks)
    }

    /// Empties one chunk, on whichever reactor; a bare one waits for no stripe, and some of what it holds may stay in the
    /// log. `None` if the engine stopped.
    async fn clean(
        self: &Rc<Self>,
        chunk: u32,
        (is_bare, may_stay): (bool, bool),
    ) -> Option<Verdict> {
        let id = UnitId::chunk(chunk);
        // What is moved must be durable in the log first: births in P2L are then below every LSN
        // that a start hands out.
        if self.flush_log().await.is_err() || self.is_stopped() {
            return None;
        }
        if self.units.unit(id).live() == 0 && self.units.unit(id).leaves() == 0 {
            self.count("chunks_cleaned", 1);
            return Some(Verdict::Emptied);
        }
        let brought = self.read_brought(chunk).await;
        if self.is_stopped() {
            return None;
        }
        let brought = match brought {
            Ok(brought) => brought,
            Err(Unknown::Lost) => {
                self.count("chunks_stuck", 1);
                return Some(Verdict::Stuck);
            }
            Err(Unknown::Away) => {
                self.count("chunks_deferred", 1);
                return Some(Verdict::Deferred);
            }
        };
        let progress = Rc::new(Progress::default());
        let (candidates, is_leaf_away) = self.sort_out(id, brought, may_stay).await;
        self.tell_control(move |control, shared| {
            control.cleaner_work.has_merged(chunk);
            if shared.is_pressed() && shared.has_bare_chunk() {
                // A chunk full of leaves may fit now, and others may wait for the log that it gives back.
                control.cleaner_wanted.notify();
            }
        });
        debug_assert!(candidates.is_sorted_by_key(|candidate| self.place_offset(candidate.ppa)));
        self.move_all(id, &candidates, Writer::Compaction, &progress)
            .await;
        if may_stay {
            self.note_survivors(candidates.len() - progress.retained());
        }
        // Many victims may wait at once: what they were read into must not.
        drop(candidates);
        let settles = isize::from(!is_bare);
        self.tell_control(move |control, _| {
            control.cleaner_work.gives_log_back(chunk);
            control.cleaner_work.settles(settles);
            control.cleaner_wanted.notify();
        });
        progress.settled().await;
        self.tell_control(move |control, _| control.cleaner_work.settles(-settles));
        if self.is_stopped() {
            return None;
        }
        if progress.is_away() || is_leaf_away {
            self.count("chunks_deferred", 1);
            return Some(Verdict::Deferred);
        }
        if progress.has_failed() || self.units.unit(id).leaves() > 0 {
            return Some(Verdict::Failed);
        }
        self.count("chunks_cleaned", 1);
        Some(Verdict::Emptied)
    }

    pub(crate) fn place_offset(&self, ppa: Ppa) -> u64 {
        self.units.geometry().offset(ppa).unwrap_or(0)
    }

    /// Asks of what the batches of a chunk brought what is live: blocks are returned as they lie, leaves
    /// merged. Also whether a leaf cannot be read now.
    async fn sort_out(
        &self,
        id: UnitId,
        brought: Brought,
        may_stay: bool,
    ) -> (Vec<Candidate>, bool) {
        let census = may_stay.then(|| Census::of(&brought));
        let (unit, geometry) = (self.units.unit(id), self.units.geometry());
        let mut blocks = Vec::with_capacity(unit.live() as usize);
        for one in &brought.blocks {
            let ppa = Ppa::fast(one.sector);
            if unit.is_set(geometry.bit_in(id, ppa)) {
                blocks.push(Candidate::brought(one));
            }
        }
        let mut leaves: BTreeMap<ReactorId, Vec<(LeafKey, u64)>> = BTreeMap::new();
        for one in &brought.leaves {
            let (volume, leaf) = (one.volume, one.leaf);
            let key = LeafKey { volume, leaf };
            let owner = self.owner_of_leaf(key);
            leaves.entry(owner).or_default().push((key, one.sector));
        }
        drop(brought);
        let mut blocks = self.perhaps_live(id, blocks).await;
        if let Some(census) = census {
            self.choose_who_stays(id, census, &mut blocks);
        }
        let mut is_away = false;
        for (owner, leaves) in leaves {
            let merge =
                move |there: Rc<Self>| async move { there.shard().merge_live(leaves).await };
            match self.call(owner, merge).await {
                Ok(are_merged) => is_away |= !are_merged,
                Err(_) => break,
            }
        }
        (blocks, is_away)
    }

    /// Candidates of a unit, whose live bits are set, that the map perhaps still needs, in order. One definition of
    /// liveness for compaction and garbage collection.
    pub(crate) async fn perhaps_live(
        &self,
        unit: UnitId,
        mut candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let mut last = None;
        candidates.retain(|candidate| self.is_known(&mut last, candidate));
        if self.config.owners() == 1 {
            let owner = self.config.first_owner();
            return self.live_at(owner, unit, candidates).await;
        }
        let mut by_owner: BTreeMap<ReactorId, Vec<Candidate>> = BTreeMap::new();
        for candidate in candidates {
            let owner = self.owner_of_leaf(candidate.key());
            by_owner.entry(owner).or_default().push(candidate);
        }
        let mut live = Vec::new();
        for (owner, asked) in by_owner {
            live.append(&mut self.live_at(owner, unit, asked).await);
        }
        live.sort_unstable_by_key(|candidate| self.place_offset(candidate.ppa));
        live
    }

    /// Those of an owner's candidates that its map perhaps still needs, in order.
    async fn live_at(
        &self,
        owner: ReactorId,
        unit: UnitId,
        mut candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let ask = move |there: Rc<Self>| async move {
            let shard = there.shard();
            let map = shard.map.borrow();
            if map.sees_all() && there.hears_of_deaths(unit) {
                // Bits say what the map would, which has to be fetched for it. Some may have died since they were asked.
                let (bits, geometry) = (there.units.unit(unit), there.units.geometry());
                candidates.retain(|one| bits.is_set(geometry.bit_in(unit, one.ppa)));
                debug_assert!(
                    !map.is_strict() || ask_map(&map, &candidates).iter().all(|live| *live),
                    "live bits of a victim are what the map says"
                );
                return candidates;
            }
            let mut live = ask_map(&map, &candidates).into_iter();
            candidates.retain(|_| live.next() == Some(true));
            candidates
        };
        if owner != self.reactor {
            self.count("questions_crossed", 1);
        }
        // An engine that is gone moves nothing.
        self.call(owner, ask).await.unwrap_or_default()
    }

    /// True if blocks of a candidate's volume can be live. `last` is the volume asked for before.
    fn is_known(&self, last: &mut Option<(VolumeId, bool)>, candidate: &Candidate) -> bool {
        match *last {
            Some((volume, is_present)) if volume == candidate.volume => is_present,
            _ => {
                let is_present = self.is_present(candidate.volume);
                *last = Some((candidate.volume, is_present));
                is_present
            }
        }
    }

    /// Reads the candidates of one unit in runs, verifies them and hands them to their streams.
    pub(crate) async fn move_all(
        self: &Rc<Self>,
        unit: UnitId,
        candidates: &[Candidate],
        writer: Writer,
        progress: &Rc<Progress>,
    ) {
        let mut reads = ReadAhead::new(self, unit, candidates);
        let mut target = None;
        while !self.is_stopped()
            && let Some((run, read)) = reads.next().await
        {
            let run = &candidates[run];
            let read = read.ok().map(Rc::new);
            let mut placed = 0;
            if let Some(blocks) = &read {
                let left = (run, 0, blocks);
                placed = self.place_verified((unit.tier, left), writer, (&mut target, progress));
            }
            if placed < run.len() {
                let left = (run, placed, read);
                let moved = self.move_run((unit, left), writer, (&mut target, progress));
                if moved.await.is_err() {
                    // It may be there when a drive is: the unit is cleaned another time. What else is in it stays too,
                    // for moving it would take room and give none back.
                    progress.keep();
                    self.count("clean_read_errors", 1);
                    break;
                }
            }
            if let Some((_, stream)) = &target {
                stream.wake();
            }
            if writer == Writer::Compaction {
                self.keeps_make_way().await;
            }
        }
        reads.end().await;
    }

    /// Hands what was read of a run, from candidate `index` on, to its streams; an error if some of it cannot be
    /// read now.
    async fn move_run(
        self: &Rc<Self>,
        (unit, (run, mut index, read)): (UnitId, Left<'_, Option<Rc<Blocks>>>),
        writer: Writer,
        (target, progress): (&mut Option<(VolumeId, Rc<Stream>)>, &Rc<Progress>),
    ) -> Result<(), Ways> {
        let stay = run.iter().filter(|one| one.stays).count();
        let is_copied = are_copied(stay, run.len());
        while let Some(candidate) = run.get(index) {
            if let Some(blocks) = &read {
                let left = (run, index, blocks);
                let placed = self.place_verified((unit.tier, left), writer, (target, progress));
                index += placed;
                if placed > 0 {
                    continue;
                }
            }
            index += 1;
            let at = place_in(unit.tier, run, candidate);
            let data = match &read {
                Some(blocks) if self.is_sound(blocks, at, candidate, writer) => {
                    Some((Rc::clone(blocks), at))
                }
                _ => match self.read_other_copy(unit, candidate).await {
                    Ok(block) => Some((Rc::new(block), 0)),
                    Err(ways) if ways.is_lost() => None,
                    Err(ways) => return Err(ways),
                },
            };
            let Some((blocks, at)) = data else {
                self.declare_lost(unit, candidate, progress).await;
                continue;
            };
            let item = candidate.with(at);
            if self.dense.is_none() {
                // Back to the log: no stream is ever started.
                self.re_append(&item, &blocks, progress).await;
                continue;
            }
            if candidate.stays && self.retain(item, &blocks, is_copied, progress) {
                continue;
            }
            let stream = self.target(target, candidate.volume, writer);
            if self.room_at(stream) > 0 {
                self.place_now(stream, core::iter::once(item), &blocks, progress);
            } else {
                // It may not know yet what its queue is full of.
                stream.wake();
                let id = stream.id();
                self.place(id, item, &blocks, progress).await;
            }
        }
        Ok(())
    }

    /// Hands those blocks of a run that pass their check and are of one volume to its stream, from `index` on,
    /// for as long as nothing is to be awaited. Returns how many.
    fn place_verified(
        self: &Rc<Self>,
        (tier, (run, index, blocks)): (Tier, Left<'_, &Rc<Blocks>>),
        writer: Writer,
        (target, progress): (&mut Option<(VolumeId, Rc<Stream>)>, &Rc<Progress>),
    ) -> usize {
        let volume = run[index].volume;
        let at = |of: &Candidate| place_in(tier, run, of);
        let is_other = target.as_ref().is_none_or(|(last, _)| *last != volume);
        let first = &run[index];
        let is_unsound = || !self.is_sound(blocks, at(first), first, writer);
        if self.dense.is_none() || first.stays || (is_other && is_unsound()) {
            return 0;
        }
        let stream = self.target(target, volume, writer);
        // The first of them was checked before its stream was asked for.
        let mut is_checked = is_other;
        let passes = |one: &&Candidate| {
            core::mem::take(&mut is_checked)
                || (one.volume == volume
                    && !one.stays
                    && self.is_sound(blocks, at(one), one, writer))
        };
        let left = run[index..].iter().take(self.room_at(stream));
        let count = left.take_while(passes).count();
        let items = run[index..index + count].iter();
        let items = items.map(|one| one.with(at(one)));
        self.place_now(stream, items, blocks, progress);
        count
    }

    /// True if what was read of a candidate passes its check.
    fn is_sound(&self, blocks: &Blocks, at: usize, of: &Candidate, writer: Writer) -> bool {
        let trusting =
            writer == Writer::GarbageCollection && self.config.is_planted(Canary::P2lUnverified);
        trusting || block_crc(blocks.block(at)) == of.crc
    }

    /// The stream of a volume's blocks: that of the last block, most often.
    fn target<'a>(
        self: &Rc<Self>,
        last: &'a mut Option<(VolumeId, Rc<Stream>)>,
        volume: VolumeId,
        writer: Writer,
    ) -> &'a Rc<Stream> {
        if let Some((_, stream)) = last.take_if(|(of, _)| *of != volume) {
            stream.wake();
        }
        let named = || self.stream_named(self.stream(volume, writer));
        &last.get_or_insert_with(|| (volume, named())).1
    }

    /// A block by whichever copy passes its check, or what all copies came to.
    pub(crate) async fn read_other_copy(
        &self,
        unit: UnitId,
        candidate: &Candidate,
    ) -> Result<Blocks, Ways> {
        let drive = self.drive_of(unit);
        let offset = self.place_offset(candidate.ppa);
        let mut ways = Ways::default();
        loop {
            for copy in 0..drive.info().copies {
                let into = Blocks::new(1, self.config.elided);
                match drive.read_data(offset, into, copy).await {
                    Ok(blocks) if block_crc(blocks.block(0)) == candidate.crc => {
                        if ways.mends() {
                            self.count("clean_repairs", 1);
                        }
                        return Ok(blocks);
                    }
                    Ok(_) => ways.note_mismatch(),
                    Err(error) => ways.note_error(error),
                }
            }
            let narrow = self.read_narrow(candidate.ppa, crc24(candidate.crc)).await;
            if let Some(good) = narrow.filter(|one| block_crc(one.block(0)) == candidate.crc) {
                return Ok(good);
            }
            if !ways.tries_again() {
                return Err(ways);
            }
        }
    }

    /// No copy of a block passes its check: from now on reads of this block fail, and only of
    /// this block (design.md 4.11).
    pub(crate) async fn declare_lost(
        self: &Rc<Self>,
        unit: UnitId,
        candidate: &Candidate,
        progress: &Rc<Progress>,
    ) {
        let bit = self.units.geometry().bit_in(unit, candidate.ppa);
        let is_live = self.units.unit(unit).is_set(bit);
        if !is_live {
            return;
        }
        let needed = self.perhaps_live(unit, alloc::vec![*candidate]).await;
        if needed.is_empty() {
            return;
        }
        self.count("blocks_lost", 1);
        let Candidate {
            volume,
            lba,
            ppa,
            class,
            ..
        } = *candidate;
        let moved = varve_format::MoveItem {
            lba,
            old: ppa,
            new: Ppa::LOST,
            class,
        };
        self.append_moves(volume, alloc::vec![moved], progress)
            .await;
    }

    /// The stream a volume's blocks go to.
    fn stream(&self, volume: VolumeId, writer: Writer) -> StreamId {
        if writer == Writer::GarbageCollection && self.control().gc_is_collapsed.get() {
            return StreamId::LAST_RESORT;
        }
        let tenant = self.stream_of(self.tenant_of(volume));
        StreamId { tenant, writer }
    }
}

impl Shard {
    /// Merges those leaves of which the image at the given sector is the newest. False if a copy of one is away: that
    /// leaf stays, and its chunk is not emptied.
    async fn merge_live(&self, leaves: Vec<(LeafKey, u64)>) -> bool {
        let mut are_merged = true;
        for (key, sector) in leaves {
            if self.shared.is_stopped() {
                break;
            }
            let live = self.map.borrow().is_leaf_live(key, sector);
            if live {
                are_merged &= self.merge_now(key).await.is_ok();
            }
        }
        are_merged
    }
}

/// Of each candidate whether the map perhaps needs it.
fn ask_map(map: &Map, candidates: &[Candidate]) -> Vec<bool> {
    let mut live = alloc::vec![false; candidates.len()];
    let asked = candidates.iter();
    let asked = asked.map(|one| (one.key(), one.lba.index() as u16, one.ppa));
    map.perhaps_live(asked, &mut live);
    live
}

/// Which of the blocks read for a run is a candidate's.
fn place_in(tier: Tier, run: &[Candidate], of: &Candidate) -> usize {
    blocks_apart(tier, run[0].ppa, of.ppa).expect("a run is read in blocks")
}
