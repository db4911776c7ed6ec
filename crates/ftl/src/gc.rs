//! Garbage collection: groups to groups.
//!
//! On the first reactor, with streams of their own: one set of them for the pool is what the reserve
//! of groups is derived from.
//!
//! `victims` chooses what is emptied next. The P2L of a victim's stripes says what each block
//! was; the map says whether it still is; the checksum says whether it was read well.

use crate::areas::read_area;
use crate::candidate::Candidate;
use crate::config::Canary;
use crate::geometry::UnitId;
use crate::joint::Lived;
use crate::limits::GC_STRIPES_MAX;
use crate::placement::Writer;
use crate::progress::Progress;
use crate::shared::Shared;
use crate::units::UnitState;
use crate::victims::Victim;
use crate::ways::Ways;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use varve_format::{P2l, P2lEntry};
use varve_units::VolumeId;

/// Stripes of a victim, and who takes which.
struct Stripes {
    next: Cell<u32>,
    end: u32,
    /// One of them cannot be read.
    unreadable: Cell<bool>,
}

impl Stripes {
    fn take(&self) -> Option<u32> {
        let stripe = self.next.get();
        self.next.set(stripe + 1);
        (stripe < self.end).then_some(stripe)
    }
}

impl Shared {
    /// Empties groups whenever fewer are free than the pool wants, or one is to be filled with nothing but what is
    /// collected; runs for the engine's life.
    ///
    /// One victim is read at a time. What it leaves of a stripe waits for the next victim to fill
    /// it: padding is written only if groups are short, none comes back and no other victim is to be had.
    pub(crate) async fn run_gc(self: Rc<Self>) {
        let control = self.control();
        let work = &control.gc_work;
        while !self.is_stopped() {
            // What is still read goes where its room was found.
            let is_spreading = control.spread_victims() > 0 && !work.all_wait();
            if !is_spreading && !self.can_spread() {
                self.gather_tails();
                self.hand_back_groups();
            }
            let victim = if self.may_collect() {
                self.next_group()
            } else {
                None
            };
            if let Some(victim) = victim {
                self.begin(victim);
                continue;
            }
            if self.must_recount() {
                self.recount().await;
                continue;
            }
            if control.are_groups_due(&self) {
                // Hosts wait for them; another victim takes longer than a checkpoint.
                control.ask_checkpoint();
            }
            if work.all_wait() && (self.is_short_of_groups() || control.has_group_waiters()) {
                self.gather_tails();
                self.hand_back_groups();
                // With a group that comes back there may be room for a victim that fills the stripe: padded, both
                // would take what they give, over and over.
                if control.coming_groups(&self) == 0 {
                    self.flush_streams(Writer::GarbageCollection);
                } else if control.freeable_groups(&self) > 0 {
                    control.ask_checkpoint();
                }
            }
            control.gc_wanted.listen().await;
        }
    }

    /// True unless the log is as good as full: moves take log, and so do the leaves that they make long.
    /// What is left is for the cleaner then, which gives back more than it takes, unless it waits for
    /// groups itself.
    fn may_collect(&self) -> bool {
        self.control().has_group_waiters() || !self.is_log_short()
    }

    fn begin(self: &Rc<Self>, victim: u32) {
        let control = self.control();
        let work = &control.gc_work;
        let is_spread = self.can_spread();
        control.gc_is_collapsed.set(!is_spread);
        self.units
            .transition(UnitId::group(victim), UnitState::Cleaning);
        let was_lean = work.running.get() > 0 && control.gc_is_lean.get();
        control.gc_is_lean.set(was_lean || self.is_lean(victim));
        work.running.set(work.running.get() + 1);
        let held = self.units.unit(UnitId::group(victim)).live();
        let begun = Victim { is_spread, held };
        control.gc_victims.borrow_mut().insert(victim, begun);
        let shared = Rc::clone(self);
        self.spawn(async move {
            shared.collect(victim).await;
            if !shared.is_stopped() {
                let control = shared.control();
                let work = &control.gc_work;
                work.running.set(work.running.get() - 1);
                control.gc_victims.borrow_mut().remove(&victim);
                control.gc_wanted.notify();
                control.freed.notify();
            }
        });
    }

    async fn collect(self: &Rc<Self>, group: u32) {
        let id = UnitId::group(group);
        let progress = Rc::new(Progress::default());
        let geometry = *self.units.geometry();
        let stripes = self.units.unit(id).write_pointer() / geometry.stripe_blocks;
        let stripes = Rc::new(Stripes {
            next: Cell::new(0),
            end: stripes,
            unreadable: Cell::new(false),
        });
        let readers: Vec<_> = (0..GC_STRIPES_MAX.min(stripes.end as usize))
            .map(|_| {
                let (shared, stripes) = (Rc::clone(self), Rc::clone(&stripes));
                let progress = Rc::clone(&progress);
                self.world
                    .run(async move { shared.collect_stripes(id, &stripes, &progress).await })
            })
            .collect();
        for reader in readers {
            reader.await;
        }
        let unreadable = stripes.unreadable.get();
        let work = &self.control().gc_work;
        work.settles(1);
        self.control().gc_wanted.notify();
        progress.settled().await;
        work.settles(-1);
        if self.is_stopped() {
            return;
        }
        if unreadable || progress.has_failed() {
            self.count("gc_failures", 1);
            if progress.is_away() {
                self.defer(id);
                return;
            }
            if unreadable && !progress.has_failed() {
                self.control().set_stuck(id);
            }
            self.units.transition(id, UnitState::Closed);
            self.world.sleep(crate::limits::RETRY_PAUSE).await;
            return;
        }
        self.count("groups_collected", 1);
        self.control().emptied(self, id);
    }

    /// Moves what is live in one stripe after the other, while others do the same.
    async fn collect_stripes(
        self: &Rc<Self>,
        id: UnitId,
        stripes: &Stripes,
        progress: &Rc<Progress>,
    ) {
        while let Some(stripe) = stripes.take() {
            if self.is_stopped() || progress.has_failed() {
                return;
            }
            if !self.stripe_has_live(id.index, stripe) {
                continue;
            }
            match self.read_p2l(id.index, stripe).await {
                Ok(entries) => {
                    if self.is_joint {
                        self.note_origins((id.index, stripe), &entries);
                    }
                    let candidates = self.stripe_candidates(id.index, stripe, &entries).await;
                    let writer = Writer::GarbageCollection;
                    self.move_all(id, &candidates, writer, progress).await;
                }
                Err(ways) if ways.is_lost() => stripes.unreadable.set(true),
                Err(_) => progress.keep(),
            }
        }
    }

    /// Notes what became of the blocks of a victim's stripe, by where they had come from.
    fn note_origins(&self, (group, stripe): (u32, u32), entries: &[P2lEntry]) {
        let unit = self.units.unit(UnitId::group(group));
        let Some(oldest_of_log) = self.lifetimes.oldest_of_log(unit.stamp()) else {
            return;
        };
        let (mut log, mut collected) = (Lived::default(), Lived::default());
        for (block, entry) in (self.stripe_first_user_block(stripe)..).zip(entries) {
            if entry.volume == VolumeId(0) {
                continue;
            }
            let of = match entry.birth >= oldest_of_log {
                true => &mut log,
                false => &mut collected,
            };
            of.all += 1;
            of.alive += u64::from(unit.is_set(block));
        }
        let origins = &self.control().origins;
        origins.note(log, collected, self.group_user_blocks());
    }

    pub(crate) fn stripe_has_live(&self, group: u32, stripe: u32) -> bool {
        let blocks = self.units.geometry().stripe_blocks;
        let unit = self.units.unit(UnitId::group(group));
        (stripe * blocks..(stripe + 1) * blocks).any(|bit| unit.is_set(bit))
    }

    /// First block of user data of a stripe, counted from the group's start.
    pub(crate) fn stripe_first_user_block(&self, stripe: u32) -> u32 {
        self.units.geometry().stripe_first_user_block(stripe)
    }

    /// The P2L of a stripe, by whichever area and copy passes its checks, or what all came to.
    ///
    /// In a group that a start went on with, the stripe may have been written before by the start
    /// whose log lost its moves, in the same generation. Should a drive then have lost the later
    /// write of the area, the earlier one is still there and passes its checks. So all copies are
    /// asked and the highest epoch counts.
    pub(crate) async fn read_p2l(&self, group: u32, stripe: u32) -> Result<Vec<P2lEntry>, Ways> {
        let newest = self.newest_p2l(group, stripe).await;
        newest.map(|p2l| p2l.entries)
    }

    /// [`Shared::read_p2l`] with what else it says, its epoch not folded.
    pub(crate) async fn newest_p2l(&self, group: u32, stripe: u32) -> Result<P2l, Ways> {
        let unit = self.units.unit(UnitId::group(group));
        let (generation, is_resumed) = (unit.generation(), unit.is_resumed());
        let trusting = self.config.is_planted(Canary::P2lUnverified);
        // Asked for each time: a drive may be kept, one way more, or let go meanwhile.
        let copies = || self.dense.as_ref().map_or(0, |dense| dense.info().copies);
        let geometry = self.units.geometry();
        let mut ways = Ways::default();
        loop {
            let mut newest: Option<P2l> = None;
            for place in geometry.p2l_places(group, stripe) {
                for copy in 0..copies() {
                    let dense = self.dense.as_deref().expect("a group lies on a dense tier");
                    let (at, of) = ((place, copy), (group, stripe));
                    let p2l = match read_area(dense, geometry, &self.identity, at, of).await {
                        Ok(Some(p2l)) if trusting || p2l.generation == generation => p2l,
                        Ok(_) => {
                            ways.note_mismatch();
                            continue;
                        }
                        Err(error) => {
                            ways.note_error(error);
                            continue;
                        }
                    };
                    if !is_resumed {
                        return Ok(p2l);
                    }
                    if newest.as_ref().is_none_or(|other| other.epoch < p2l.epoch) {
                        newest = Some(p2l);
                    }
                }
            }
            if newest.is_none() {
                // Of the two layouts each overwrites the other's area, on every drive that takes it.
                newest = self
                    .leading_p2l((group, stripe), generation, &mut ways)
                    .await;
                if !is_resumed && let Some(p2l) = newest {
                    return Ok(p2l);
                }
            }
            match newest {
                Some(p2l) if !ways.is_pending() => return Ok(p2l),
                _ if ways.tries_again() => {}
                _ => return Err(ways),
            }
        }
    }

    /// Blocks of a stripe that the map perhaps still needs.
    pub(crate) async fn stripe_candidates(
        &self,
        group: u32,
        stripe: u32,
        entries: &[P2lEntry],
    ) -> Vec<Candidate> {
        let geometry = self.units.geometry();
        let first = self.stripe_first_user_block(stripe);
        let trusting = self.config.is_planted(Canary::P2lUnverified);
        let unit = self.units.unit(UnitId::group(group));
        let mut found = Vec::with_capacity(entries.len());
        for (block, entry) in (first..).zip(entries) {
            if entry.volume != VolumeId(0) && unit.is_set(block) {
                found.push(Candidate::listed(entry, geometry.dense_ppa(group, block)));
            }
        }
        if trusting {
            // At their word, as the live bits are.
            return found;
        }
        self.perhaps_live(UnitId::group(group), found).await
    }
}

#[cfg(test)]
mod tests;
