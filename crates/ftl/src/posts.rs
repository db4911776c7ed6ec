//! What all reactors of a pool look at at once: atomics, and what never changes.
//!
//! Each reactor has a [`Post`], which it alone writes and the others read; the few counters that
//! several reactors change are changed once a batch or once a command.
//!
//! **Orderings.** A post is published by `Release` and read by `Acquire`: who reads a word sees all
//! that its reactor did before it wrote it (the writes a flush covers, the records a stamp is above).
//! What is reserved and compared, and who waits beside what he waits for, is `SeqCst`: two reactors
//! each write one word and read the other's, and one of them must see the other. Counters that only
//! tell when something is due (`log_records`, `log_bytes`, `pace`) are `Relaxed`: no other memory is
//! read because of them, and a look that comes late is made up for by the next.
//!
//! **Invariants**
//! - The clock is at or above every stamp that was drawn; a lane looks at it before it seals.
//! - What a command may newly map stands in `pending_*` or in its owner's post, at no time in
//!   neither: the post is raised before the pending is lowered.
//! - A unit that is to be freed gets a new stamp first, then every reactor is called (a checkpoint does), then it
//!   is freed. A report of death that looked at the old stamp has ended by then, one that begins later is older
//!   than the new one.

use crate::config::Config;
use crate::error::StopReason;
use crate::geometry::UnitId;
use crate::lifetime::Lifetimes;
use crate::shared::Identity;
use crate::shortage::DenseState;
use crate::tally::Tally;
use crate::units::{UnitState, UnitTable};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use varve_io::{IoError, ReactorId};
use varve_units::Lsn;

/// What one reactor lets the others know. Two cache lines: neighbours are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Post {
    /// The LSN its lane's next record gets.
    next_lsn: AtomicU64,
    /// Its lane is acknowledged up to here.
    acked: AtomicU64,
    /// Its lane is durable up to here; a flush by any reactor raises it.
    durable: AtomicU64,
    /// Upper bound of the blocks its slices map.
    used_upper: AtomicU64,
    /// Leaves of its slices.
    leaves: AtomicU64,
    /// Host writes wait there for room.
    waits: AtomicBool,
}

/// On cache lines of its own: what reactors change once a command must not share them with what
/// they only read.
#[repr(align(128))]
pub(crate) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What all reactors of a pool look at.
pub struct Common {
    pub(crate) units: UnitTable,
    /// What is known of how long blocks live.
    pub(crate) lifetimes: Arc<Lifetimes>,
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    posts: Box<[Post]>,
    /// What lanes began with: older records are of engines before.
    first_lsn: Lsn,
    clock: AtomicU64,
    stopped: AtomicU32,
    pub(crate) is_closing: AtomicBool,
    /// The start has ended: checkpoints are taken, chunks are cleaned.
    pub(crate) is_serving: AtomicBool,
    /// Records sealed since the last checkpoint began.
    pub(crate) log_records: Apart<AtomicU64>,
    /// Bytes submitted since the last checkpoint began.
    pub(crate) log_bytes: Apart<AtomicU64>,
    /// Someone has told the checkpointer that enough was logged.
    is_checkpoint_told: AtomicBool,
    /// Blocks that commands under way may newly map.
    pub(crate) pending_blocks: Apart<AtomicU64>,
    /// Leaves that commands under way will make.
    pub(crate) pending_leaves: AtomicU64,
    /// Blocks of log that admitted host writes will take.
    pub(crate) pending_log: Apart<AtomicU64>,
    /// Blocks of log that blocks on their way back to it will take.
    pub(crate) pending_keeps: AtomicU64,
    /// Free chunks kept for leaves.
    pub(crate) upkeep_chunks: AtomicU32,
    /// Free chunks, as control has them.
    pub(crate) free_chunks: AtomicU32,
    /// Nanoseconds that cleaning takes for a block of log; 0 if nothing was freed yet.
    pub(crate) pace: AtomicU64,
    /// Host writes that wait for room in the log.
    pub(crate) waiters: AtomicU32,
    /// Streams that wait for a free group.
    pub(crate) group_waiters: AtomicU32,
    /// Streams that wait for garbage collection to be as far as they are.
    pub(crate) pausing: AtomicU32,
    /// Deleted volumes whose blocks are being given back.
    pub(crate) purges: AtomicU32,
    /// Stripes may be narrow: the newest two commits say so, so whichever of them a start goes by.
    pub(crate) has_narrow: AtomicBool,
    /// The newest commit says so.
    pub(crate) said_narrow: AtomicBool,
    /// Commits are to say so.
    pub(crate) wants_narrow: AtomicBool,
    /// Whether the dense tier takes stripes (`shortage`).
    pub(crate) dense_state: DenseState,
    /// Hosts have sent something since the pool was last looked at (`idle`). Apart: every command reads it.
    pub(crate) hosts_came: Apart<AtomicBool>,
    pub(crate) tally: Tally,
}

impl Common {
    pub(crate) fn new(
        units: UnitTable,
        config: Config,
        identity: Identity,
        first_lsn: Lsn,
    ) -> Self {
        assert!(config.lanes > 0, "a pool has at least one lane");
        let post = |_| Post {
            next_lsn: AtomicU64::new(first_lsn.0),
            acked: AtomicU64::new(first_lsn.0 - 1),
            durable: AtomicU64::new(first_lsn.0 - 1),
            ..Post::default()
        };
        Self {
            lifetimes: Arc::new(Lifetimes::new(units.geometry())),
            units,
            config,
            identity,
            posts: (0..config.lanes).map(post).collect(),
            first_lsn,
            clock: AtomicU64::new(first_lsn.0),
            stopped: AtomicU32::new(0),
            is_closing: AtomicBool::new(false),
            is_serving: AtomicBool::new(false),
            log_records: Apart(AtomicU64::new(0)),
            log_bytes: Apart(AtomicU64::new(0)),
            is_checkpoint_told: AtomicBool::new(false),
            pending_blocks: Apart(AtomicU64::new(0)),
            pending_leaves: AtomicU64::new(0),
            pending_log: Apart(AtomicU64::new(0)),
            pending_keeps: AtomicU64::new(0),
            upkeep_chunks: AtomicU32::new(0),
            free_chunks: AtomicU32::new(0),
            pace: AtomicU64::new(0),
            waiters: AtomicU32::new(0),
            group_waiters: AtomicU32::new(0),
            pausing: AtomicU32::new(0),
            purges: AtomicU32::new(0),
            has_narrow: AtomicBool::new(false),
            said_narrow: AtomicBool::new(false),
            wants_narrow: AtomicBool::new(false),
            dense_state: DenseState::default(),
            hosts_came: Apart(AtomicBool::new(true)),
            tally: Tally::new(config.lanes),
        }
    }

    /// All reactors of the pool.
    pub(crate) fn reactors(&self) -> impl Iterator<Item = ReactorId> + use<> {
        (0..self.config.lanes).map(ReactorId)
    }

    fn post(&self, of: ReactorId) -> &Post {
        &self.posts[usize::from(of.0)]
    }

    /// Draws a stamp for a unit about to be opened, or whose use ends: no record that can refer to an earlier use of
    /// it has this or a later LSN, and every record that will refer to the new use does (ADR 5, 6).
    ///
    /// References to the earlier use were sealed before the unit was emptied, which their reactors
    /// have told this one since. Those to the new use come after the stamp was handed out: their
    /// lane sees the clock before it seals them.
    pub(crate) fn draw_stamp(&self) -> Lsn {
        let lanes = self.posts.iter();
        let next = lanes
            .map(|post| post.next_lsn.load(Ordering::Acquire))
            .max();
        let next = next.expect("a pool has at least one lane");
        Lsn(self.clock.fetch_max(next, Ordering::AcqRel).max(next))
    }

    /// True if of a victim each death that the map sees was told: it was not in use at the last start, which knows of
    /// some that it tells nobody, and no leaf of those that name its blocks was lost. Of no other unit: moves to one that
    /// is written may be on their way, and one that was emptied hears of nothing any more.
    pub(crate) fn hears_of_deaths(&self, victim: UnitId) -> bool {
        let unit = self.units.unit(victim);
        // The stamp first: who sees that of a use that ended sees that it did.
        let is_ours = unit.stamp() >= self.first_lsn && !unit.is_doubtful();
        is_ours && unit.state() == UnitState::Cleaning
    }

    /// The newest stamp.
    pub(crate) fn clock(&self) -> Lsn {
        Lsn(self.clock.load(Ordering::Acquire))
    }

    /// The LSN the next record of a lane gets.
    pub(crate) fn set_next_lsn(&self, of: ReactorId, lsn: Lsn) {
        self.post(of).next_lsn.store(lsn.0, Ordering::Release);
    }

    /// A lane is acknowledged up to `lsn`. Released: a flush that covers it by this word also
    /// covers the writes that ended before.
    pub(crate) fn set_acked(&self, of: ReactorId, lsn: Lsn) {
        self.post(of).acked.store(lsn.0, Ordering::Release);
    }

    /// Up to where each lane is acknowledged now.
    pub(crate) fn acked(&self) -> Box<[u64]> {
        let posts = self.posts.iter();
        posts
            .map(|post| post.acked.load(Ordering::Acquire))
            .collect()
    }

    /// Each lane is durable up to where it was acknowledged when the flush began.
    pub(crate) fn set_durable(&self, acked: &[u64]) {
        for (post, lsn) in self.posts.iter().zip(acked) {
            post.durable.fetch_max(*lsn, Ordering::AcqRel);
        }
    }

    /// Up to where a lane is durable.
    pub(crate) fn durable(&self, of: ReactorId) -> Lsn {
        Lsn(self.post(of).durable.load(Ordering::Acquire))
    }

    /// What the slices of a reactor map and hold.
    pub(crate) fn set_used(&self, of: ReactorId, used_upper: u64, leaves: u64) {
        let post = self.post(of);
        post.used_upper.store(used_upper, Ordering::Release);
        post.leaves.store(leaves, Ordering::Release);
    }

    /// Blocks that all volumes together map, at most.
    pub(crate) fn used_upper(&self) -> u64 {
        let posts = self.posts.iter();
        posts
            .map(|post| post.used_upper.load(Ordering::Acquire))
            .sum()
    }

    /// Blocks mapped, at most, and blocks set aside for writes on their way.
    pub(crate) fn room_taken(&self) -> (u64, u64) {
        // In the order of `reserve_blocks`.
        let pending = self.pending_blocks.load(Ordering::SeqCst);
        (self.used_upper(), pending)
    }

    /// Leaves that all volumes together have.
    pub(crate) fn leaves(&self) -> u64 {
        let posts = self.posts.iter();
        posts.map(|post| post.leaves.load(Ordering::Acquire)).sum()
    }

    /// Adds to what commands under way hold of something, and tells what that was. With one reactor nobody else
    /// looks at it, and a locked instruction, which waits for all stores before it, is not needed.
    #[inline]
    fn add(&self, to: &AtomicU64, by: u64) -> u64 {
        if self.config.lanes > 1 {
            return to.fetch_add(by, Ordering::SeqCst);
        }
        let before = to.load(Ordering::Relaxed);
        to.store(before + by, Ordering::Relaxed);
        before
    }

    /// The reverse of [`Common::add`].
    #[inline]
    fn sub(&self, from: &AtomicU64, by: u64) {
        if self.config.lanes > 1 {
            from.fetch_sub(by, Ordering::SeqCst);
        } else {
            from.store(from.load(Ordering::Relaxed) - by, Ordering::Relaxed);
        }
    }

    /// Sets aside blocks that need no room, or for which there is some.
    #[inline]
    pub(crate) fn pend_blocks(&self, blocks: u64) {
        self.add(&self.pending_blocks, blocks);
    }

    /// Blocks that were set aside are mapped, or will not be.
    #[inline]
    pub(crate) fn unpend_blocks(&self, blocks: u64) {
        self.sub(&self.pending_blocks, blocks);
    }

    /// Log that was set aside is written, or will not be.
    #[inline]
    pub(crate) fn unpend_log(&self, cost: u64) {
        self.sub(&self.pending_log, cost);
    }

    /// Sets room aside for `blocks` that a command may newly map, if `fresh` of them fit.
    ///
    /// `own` is what the same command has set aside before, of which so many were not fresh.
    pub(crate) fn reserve_blocks(&self, blocks: u64, fresh: u64, own: u64) -> bool {
        // Reserved before it is compared: of two that want the last room one sees the other.
        // Pending before mapped: what moves from the first to the second meanwhile counts twice.
        let pending = self.add(&self.pending_blocks, blocks);
        let fits = self.used_upper() + pending - own + fresh <= self.config.reserve.capacity_blocks;
        if !fits {
            self.unpend_blocks(blocks);
        }
        fits
    }

    /// Sets room aside for one more leaf.
    pub(crate) fn reserve_leaf(&self) -> bool {
        let pending = self.pending_leaves.fetch_add(1, Ordering::SeqCst);
        let fits = self.leaves() + pending < self.config.map.leaves_max as u64;
        if !fits {
            self.pending_leaves.fetch_sub(1, Ordering::SeqCst);
        }
        fits
    }

    /// Blocks that fit the chunks above the reserve, however badly they are used.
    pub(crate) fn log_room(&self) -> u64 {
        let free = u64::from(self.free_chunks.load(Ordering::SeqCst));
        let spare = free.saturating_sub(u64::from(self.config.reserve.chunks));
        spare * u64::from(self.units.geometry().chunk_blocks()) / 2
    }

    /// Blocks of the free chunks that not only a checkpoint may open.
    pub(crate) fn log_to_clean(&self) -> u64 {
        let free = u64::from(self.free_chunks.load(Ordering::SeqCst));
        let chunks = free.saturating_sub(u64::from(self.config.reserve.urgent_chunks));
        chunks * u64::from(self.units.geometry().chunk_blocks())
    }

    /// True if less than two chunks are left before those that only a checkpoint may open: hosts wait,
    /// and what is left is for the cleaner. A pool without a dense tier has nobody who takes it away:
    /// there one victim at a time is emptied, and goes before all else.
    pub(crate) fn is_log_short(&self) -> bool {
        let geometry = self.units.geometry();
        geometry.groups > 0 && self.log_to_clean() < 2 * u64::from(geometry.chunk_blocks())
    }

    /// Free chunks that are kept for leaves now, above those kept for checkpoints.
    pub(crate) fn upkeep_chunks(&self) -> u32 {
        self.upkeep_chunks.load(Ordering::SeqCst)
    }

    /// True if only what is kept for leaves is left beside what is kept for checkpoints: it is for those
    /// of the cleaner's victims.
    pub(crate) fn is_log_for_upkeep(&self) -> bool {
        let upkeep = self.upkeep_chunks();
        let free = self.free_chunks.load(Ordering::SeqCst);
        upkeep > 0 && free <= self.config.reserve.urgent_chunks + upkeep
    }

    /// Blocks of log on their way.
    pub(crate) fn pending_log(&self) -> u64 {
        self.pending_log.load(Ordering::SeqCst)
    }

    /// Sets `cost` blocks of log aside: what is on its way and this must fit the room, and the
    /// `window` unless nothing else is on its way. Who is refused wakes who waits ([`Common::take_waiting`]): what it
    /// held for a moment may have been all that was in their way.
    pub(crate) fn reserve_log(&self, cost: u64, window: u64) -> bool {
        let pending = self.add(&self.pending_log, cost);
        let fits = pending + cost <= self.log_room() && (pending == 0 || pending + cost <= window);
        if !fits {
            self.unpend_log(cost);
        }
        fits
    }

    /// Host writes wait at a reactor for room. To be said before it looks a last time: whoever
    /// makes room from then on tells it.
    pub(crate) fn set_waits(&self, at: ReactorId) {
        self.post(at).waits.store(true, Ordering::SeqCst);
    }

    /// Reactors other than `but` at which host writes wait, each named once.
    pub(crate) fn take_waiting(&self, but: ReactorId) -> impl Iterator<Item = ReactorId> + '_ {
        self.reactors().filter(move |id| {
            let waits = &self.post(*id).waits;
            *id != but && waits.load(Ordering::SeqCst) && waits.swap(false, Ordering::SeqCst)
        })
    }

    /// True if enough was logged since the last checkpoint.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.log_records.load(Ordering::Relaxed) >= self.config.checkpoint_records
            || self.log_bytes.load(Ordering::Relaxed) >= self.config.checkpoint_bytes
    }

    /// The checkpointer hears from here on what it is told, and looks whether a checkpoint is due. Either it sees what
    /// a lane has counted, or the lane sees that it is to be told.
    pub(crate) fn hear_of_checkpoints(&self) {
        self.is_checkpoint_told.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// True if nobody has told the checkpointer since it looked last: the caller does, once it has counted what makes a
    /// checkpoint due.
    pub(crate) fn tells_checkpointer(&self) -> bool {
        // With the one in `hear_of_checkpoints`.
        fence(Ordering::SeqCst);
        let is_told = &self.is_checkpoint_told;
        !is_told.load(Ordering::Relaxed) && !is_told.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) != 0
    }

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        reason(self.stopped.load(Ordering::Acquire))
    }

    /// Stops the pool; false if it was stopped already.
    pub(crate) fn set_stopped(&self, why: StopReason) -> bool {
        let code = code(why);
        let done = self
            .stopped
            .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        done.is_ok()
    }
}

/// Errors that can stop a pool, in the order of their codes.
const ERRORS: [IoError; 5] = [
    IoError::Media,
    IoError::Gone,
    IoError::Timeout,
    IoError::NoSpace,
    IoError::ReadOnly,
];
const FENCED: u32 = 2;
const LOG: u32 = 16;
const FLUSH: u32 = 32;

fn code(why: StopReason) -> u32 {
    // An error without a code counts as a drive that is gone.
    let number = |error| ERRORS.iter().position(|known| *known == error).unwrap_or(1) as u32;
    match why {
        StopReason::Closed => 1,
        StopReason::Fenced => FENCED,
        StopReason::Log(error) => LOG + number(error),
        StopReason::Flush(error) => FLUSH + number(error),
    }
}

fn reason(code: u32) -> Option<StopReason> {
    let error = |base| ERRORS.get((code - base) as usize).copied();
    match code {
        0 => None,
        FLUSH.. => error(FLUSH).map(StopReason::Flush),
        LOG.. => error(LOG).map(StopReason::Log),
        FENCED => Some(StopReason::Fenced),
        _ => Some(StopReason::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::Pool;
    use crate::geometry::Tier;
    use crate::units::UnitRestore;

    const ROUNDS: u32 = 60_000;

    /// Lets two threads go on at once, as near as can be: a lock would wake one after the other.
    #[derive(Default)]
    struct Turn(AtomicU32);

    impl Turn {
        fn wait(&self) {
            let mine = self.0.fetch_add(1, Ordering::AcqRel) / 2;
            let mut spins = 0;
            while self.0.load(Ordering::Acquire) / 2 == mine {
                spins += 1;
                if spins < 1_000 {
                    core::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Whoever comes last goes on first, by how much nobody knows: each waits a while, in all combinations.
    fn pause(steps: u32) {
        (0..steps * 8).for_each(|step| {
            core::hint::black_box(step);
        });
    }

    /// Runs both sides at once, many times; the rounds whose outcome is wrong.
    fn race<A: Send, B>(
        one: impl Fn() -> A + Sync,
        other: impl Fn() -> B,
        is_right: impl Fn(A, B) -> bool,
    ) -> usize {
        let turn = Turn::default();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    turn.wait();
                    pause(round / 97 % 97);
                    let done = sender.send(one());
                    done.expect("the other side runs");
                    turn.wait();
                }
            });
            let round = |round: &u32| {
                turn.wait();
                pause(round % 97);
                let mine = other();
                let theirs = receiver.recv().expect("the other side runs");
                let is_right = is_right(theirs, mine);
                turn.wait();
                !is_right
            };
            (0..ROUNDS).filter(round).count()
        })
    }

    /// A write that is refused held its room for a moment: another owner's that found none because of that is woken.
    #[test]
    fn who_is_refused_wakes_who_waits() {
        let mut pool = Pool::new(3, 1, 1);
        pool.set_lanes(2);
        let engine = pool.create();
        let common = engine.shared.common();
        let room = common.log_room();
        assert!(room > 1 && common.pending_log() == 0);
        let (one, other) = (ReactorId(0), ReactorId(1));
        let refuse = || {
            assert!(
                !common.reserve_log(room + 1, u64::MAX),
                "more than there is"
            );
            common.take_waiting(one).any(|woken| woken == other)
        };
        let pass = || {
            common.set_waits(other);
            common.pending_log() < common.log_room()
        };
        let wrong = race(refuse, pass, |is_woken, passes| is_woken || passes);
        assert_eq!(wrong, 0, "rounds in which one waits that nobody wakes");
    }

    /// A checkpoint that became due while the checkpointer looked is seen by it, or it is told.
    #[test]
    fn a_checkpoint_that_is_due_is_not_forgotten() {
        let engine = Pool::new(3, 1, 1).create();
        let common = engine.shared.common();
        let enough = common.config.checkpoint_records;
        let forget = || {
            common.log_records.store(0, Ordering::SeqCst);
            common.is_checkpoint_told.store(true, Ordering::SeqCst);
        };
        forget();
        let count = || {
            common.log_records.fetch_add(enough, Ordering::Relaxed);
            common.is_checkpoint_due() && common.tells_checkpointer()
        };
        let look = || {
            common.hear_of_checkpoints();
            common.is_checkpoint_due()
        };
        let wrong = race(count, look, |is_told, is_seen| {
            forget();
            is_told || is_seen
        });
        assert_eq!(wrong, 0, "rounds in which nobody knew");
    }

    /// Live bits stand for the map of victims alone that came into use since the start: scrubs ask of other units too.
    #[test]
    fn deaths_are_heard_of_victims() {
        let engine = Pool::new(3, 1, 1).create();
        let common = engine.shared.common();
        let units = &common.units;
        let free = |id: &UnitId| units.unit(*id).state() == UnitState::Free;
        let chunk = units.ids(Tier::Fast).filter(free).last();
        let chunk = chunk.expect("a new pool has free chunks");
        units.open(chunk, common.draw_stamp());
        let hears_as = |state| {
            units.transition(chunk, state);
            common.hears_of_deaths(chunk)
        };
        assert!(!common.hears_of_deaths(chunk), "while it is written");
        assert!(!hears_as(UnitState::Closed));
        assert!(hears_as(UnitState::Cleaning));
        units.set_doubtful(chunk, true);
        assert!(!common.hears_of_deaths(chunk), "a leaf was lost");
        units.set_doubtful(chunk, false);
        assert!(!hears_as(UnitState::Emptied));
        let before = UnitRestore {
            state: UnitState::Cleaning,
            generation: units.unit(chunk).generation(),
            stamp: Lsn(common.first_lsn.0 - 1),
            write_pointer: 0,
            is_resumed: false,
        };
        units.restore(chunk, &before);
        assert!(!common.hears_of_deaths(chunk), "in use before the start");
    }

    #[test]
    fn reasons_survive_their_codes() {
        for why in ERRORS
            .into_iter()
            .flat_map(|e| [StopReason::Log(e), StopReason::Flush(e)])
        {
            assert_eq!(reason(code(why)), Some(why));
        }
        for why in [StopReason::Closed, StopReason::Fenced] {
            assert_eq!(reason(code(why)), Some(why));
        }
        assert_eq!(reason(0), None);
    }
}
