//! Which chunk the cleaner empties next, when, and how many at once.
//!
//! The oldest (of few chunks the cheapest), whenever fewer are free than the pool wants: what is moved out of a
//! chunk is what hosts have not overwritten yet, so waiting is worth something. While hosts send nothing (`idle`) the
//! pool wants more.
//!
//! **Invariants**: a chunk that holds parts a start would read is no victim; victims that are begun beside
//! others leave enough of the log for what each takes at worst.

use crate::geometry::{Tier, UnitId};
use crate::reserve::LEAF_LOG_BYTES;
use crate::shared::Shared;
use crate::units::{Unit, UnitState};
use core::sync::atomic::Ordering;
use varve_units::{BLOCK_BYTES, Lsn};

/// Chunks cleaned side by side at least: enough to fill stripes of several streams. Arbitrary.
const VICTIMS_MIN: usize = 4;
/// Small chunks cleaned side by side at most: cleaning one takes many times a drive's latency, however
/// little it holds. Arbitrary.
const VICTIMS_MAX: usize = 16;
/// Bytes of them. Arbitrary.
const VICTIMS_BYTES: u64 = 64 << 20;
/// Of so many chunks one may be cleaned. Arbitrary.
const VICTIM_SHARE: usize = 32;
/// Of so many chunks one may wait for stripes at least, and at most. Arbitrary.
const HANDS_LEAST: usize = 16;
const HANDS_MOST: usize = 8;

/// Chunks of a tier in which age tells something: of fewer each is a large part of what is free. Arbitrary.
const AGED_CHUNKS: u32 = 64;

/// Of the chunks that are not kept free under load one of so many is to be free in an idle one. Arbitrary: what hosts overwrite
/// most is in the other half.
const IDLE_SHARE: usize = 2;

impl Shared {
    /// Blocks of log that the leaves of a chunk take at most when they are merged into new ones. Records
    /// of moves are little beside them.
    pub(crate) fn log_of(&self, chunk: u32) -> u64 {
        let leaves = self.units.unit(UnitId::chunk(chunk)).leaves();
        (u64::from(leaves) * LEAF_LOG_BYTES).div_ceil(BLOCK_BYTES)
    }

    /// True if what is left of the log is enough to merge the leaves of a victim beside those in hand
    /// and, if it holds blocks, for a chunk of moves and remains. Victims that take what only they
    /// could free would wait for one another for ever. One alone is always begun, since the reserve has
    /// room for it, and one without leaves. Without a dense tier there is one at a time.
    fn has_log_for(&self, chunk: u32) -> bool {
        let work = &self.control().cleaner_work;
        let log = self.log_of(chunk);
        let is_bare = self.is_bare(UnitId::chunk(chunk));
        let moves = u64::from(self.units.geometry().chunk_blocks());
        let (others, taken) = match is_bare {
            // Where nothing but the reserve is left, what has merged its leaves may wait for this chunk's log.
            true if self.is_pressed() => work.merging(),
            true => (work.busy(), work.log()),
            false => (work.running.get(), work.log() + moves),
        };
        self.dense.is_none() || log == 0 || others == 0 || taken + log <= self.log_to_clean()
    }

    /// [`Shared::next_victim`], if what is left of the log is enough for it. Where it is not, one without blocks
    /// of hosts, if there is one: log is kept for the leaves of such, and nobody else's leaves are merged
    /// meanwhile.
    pub(crate) fn next_that_fits(&self, has_room: bool) -> Option<u32> {
        let best = self.next_victim(has_room)?;
        if self.has_log_for(best) {
            return Some(best);
        }
        let bare = self.next_victim(false);
        bare.filter(|chunk| self.has_log_for(*chunk))
    }

    /// Chunks cleaned side by side. Without a dense tier one at a time: what it holds goes back to
    /// the log, and must find room there before the next is begun.
    pub(crate) fn victims_max(&self) -> usize {
        if self.dense.is_none() {
            return 1;
        }
        let geometry = self.units.geometry();
        let fit = (VICTIMS_BYTES / geometry.chunk_bytes) as usize;
        let share = geometry.chunks as usize / VICTIM_SHARE;
        fit.min(share).clamp(VICTIMS_MIN, VICTIMS_MAX)
    }

    /// Chunks in the cleaner's hands, those included that wait for their last stripe to be written: they
    /// keep their space meanwhile. Of each stream one stripe is written and one fills, each with blocks of
    /// as many chunks as it is long, and of one that it shares with another: with fewer hands stripes
    /// would have to be padded.
    pub(crate) fn hands_max(&self) -> usize {
        let geometry = self.units.geometry();
        let chunks = geometry.chunks as usize;
        let (least, most) = (chunks / HANDS_LEAST, chunks / HANDS_MOST);
        if self.dense.is_none() {
            // What goes back to the log waits for no stripe.
            return self.victims_max().max(least);
        }
        let blocks = geometry.stripe_user_blocks();
        let stripe = blocks.div_ceil(geometry.chunk_blocks()) as usize + 1;
        let waiting = 2 * stripe * self.streams_in_use() as usize;
        self.victims_max().max(waiting.clamp(least, most))
    }

    /// Free chunks below which the cleaner works.
    fn clean_target(&self) -> usize {
        self.config.reserve.chunks as usize + self.clean_spare()
    }

    /// Free chunks above the reserve that the cleaner aims at.
    pub(crate) fn clean_spare(&self) -> usize {
        let spare = self.units.geometry().chunks as usize / 16;
        spare.max(usize::from(self.config.lanes) + 2)
    }

    pub(crate) fn is_short_of_chunks(&self) -> bool {
        self.coming_chunks() < self.clean_target()
    }

    /// True if hosts send nothing and less is free than bursts could use. Groups are taken that are there, not any for
    /// which others are to be copied. What is moved while a pool closes is for the next start to do again.
    fn makes_room_idly(&self) -> bool {
        let (chunks, target) = (self.units.geometry().chunks as usize, self.clean_target());
        let more = chunks.saturating_sub(target) / IDLE_SHARE;
        let control = self.control();
        let has_groups = !control.has_group_waiters()
            && control.ready_groups(self) > self.config.reserve.gc_groups as usize;
        let is_wanted = control.idle.is_on() && !self.is_closing.load(Ordering::Acquire);
        is_wanted && has_groups && self.coming_chunks() < target + more
    }

    /// Chunks that are free, or will be with the next checkpoint.
    fn coming_chunks(&self) -> usize {
        let control = self.control();
        control.free_chunks() + control.freeable_chunks(self)
    }

    /// True if a chunk is closed, and emptied the next checkpoint could free it.
    pub(crate) fn can_empty(&self, chunk: UnitId) -> bool {
        let control = self.control();
        self.units.unit(chunk).state() == UnitState::Closed
            && !control.holds_parts(chunk.index)
            && !control.is_stuck(self, chunk)
            && !control.is_deferred(chunk)
    }

    /// True if nothing but the reserve is left of the log: hosts wait.
    pub(crate) fn is_pressed(&self) -> bool {
        self.control().free_chunks() <= self.config.reserve.chunks as usize
    }

    /// True if a chunk could be emptied without a group, and something be gained by it.
    pub(crate) fn has_bare_chunk(&self) -> bool {
        let mut chunks = self.units.ids(Tier::Fast);
        chunks.any(|id| self.is_bare(id) && self.pays(id) && self.can_empty(id))
    }

    /// True if a chunk holds no blocks of hosts.
    pub(crate) fn is_bare(&self, chunk: UnitId) -> bool {
        self.units.unit(chunk).live() == 0
    }

    /// True if the leaves of a chunk, written again, take a quarter less than it.
    fn pays(&self, chunk: UnitId) -> bool {
        let blocks = u64::from(self.units.geometry().chunk_blocks());
        self.log_of(chunk.index) * 4 <= blocks * 3
    }

    /// The chunk to be emptied next, if one should be: the oldest. What is still live in it has had the longest
    /// time to die, what is hot stays in the log as long as it can, and what was written in order leaves in
    /// order. Of few chunks, and where nothing but the reserve is left, the cheapest. With `has_room` any; else,
    /// of chunks without blocks of hosts: those need neither stripes nor groups, and what waits for groups may
    /// wait for the log that they give back. In an idle pool there is one only if it holds blocks of hosts.
    fn next_victim(&self, has_room: bool) -> Option<u32> {
        let is_short = self.is_short_of_chunks();
        if !is_short && !self.makes_room_idly() {
            return None;
        }
        let blocks = self.units.geometry().chunk_blocks();
        let cost = |unit: &Unit| unit.live() + 2 * unit.leaves();
        // One full of leaves alone gives nothing back. Without a dense tier a full chunk does not either,
        // unless the map knows better.
        let pays = |id: UnitId, unit: &Unit| match self.dense {
            Some(_) if self.is_bare(id) => is_short && self.pays(id),
            Some(_) => has_room && (is_short || self.pays(id)),
            None => has_room && (cost(unit) < blocks || unit.is_doubtful()),
        };
        // What takes looking things up is asked last.
        let is_fit = |id: UnitId| pays(id, self.units.unit(id)) && self.can_empty(id);
        if self.units.geometry().chunks >= AGED_CHUNKS && !self.is_pressed() {
            let oldest = self.control().chunk_ages.oldest(&self.units, is_fit);
            return oldest.map(|id| id.index);
        }
        let mut best: Option<((u32, Lsn), UnitId)> = None;
        for id in self.units.ids(Tier::Fast) {
            let unit = self.units.unit(id);
            let key = (cost(unit), unit.stamp());
            let is_better = best.is_none_or(|(least, _)| key < least);
            if is_better && is_fit(id) {
                best = Some((key, id));
            }
        }
        best.map(|(_, id)| id.index)
    }
}
