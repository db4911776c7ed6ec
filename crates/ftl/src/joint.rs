//! Groups that compaction and garbage collection share, on drives without placement.
//!
//! Such a drive mixes what is written at the same time in the units that it erases. Two open groups would
//! share them, die at different times, and leave the drive to move what is left of the other. So where both
//! writers have the one handle they take turns in one group, stripe by stripe.
//!
//! Under strong skew what passes the log is hot, what garbage collection moves is cold, and groups of either
//! alone take far fewer moves. So where most of what hosts write dies in the log, or what comes from it dies much
//! sooner in groups than what was collected before, the turns are as long as groups, as far as hosts, or those who
//! wait for groups, can wait.
//!
//! What is kept for garbage collection is counted in stripes here: compaction writes one only if the free
//! groups and what is left of the open one are more than the groups that the reserve leaves.
//!
//! Only the first reactor collects, so only its compaction shares; others have a group each, as everywhere.
//!
//! **Invariants**: whoever waits for room holds no turn, so the other goes on; who has the turn decides
//! only when something is written.

use crate::placement::Writer;
use crate::shared::Shared;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use varve_units::Nanos;

/// Pause until a writer looks again whether the other has filled its group. Arbitrary: about a stripe of a
/// fast drive.
const PAUSE: Nanos = Nanos::from_micros(500);
/// Turns are as long as groups if less than so many of 256 blocks of a chunk are alive when it is emptied.
/// Two fifths, between what was measured with modelled drives (ADR 2026-11-21-engine-shape, 51): more is alive
/// under uniform writes and at Zipf 0.8, where long turns gain little and hosts wait longer, less at Zipf 1.2.
const HOT_BELOW: u32 = 102;
/// Weight of the newest chunk: one of so many. Arbitrary.
const SMOOTHING: u32 = 16;
/// Victims whose blocks are remembered. Arbitrary: enough that no single one decides, few enough that a load which has
/// changed is seen within some per cent of a turn of the dense tier.
const REMEMBERED: u64 = 16;

/// Of 256 blocks of a chunk, those alive when it is emptied: a running average, times [`SMOOTHING`].
pub(crate) struct Survivors(Cell<u32>);

impl Default for Survivors {
    fn default() -> Self {
        Self(Cell::new(256 * SMOOTHING))
    }
}

impl Survivors {
    /// A chunk of so many blocks is emptied of those that are alive.
    pub(crate) fn note(&self, alive: u32, blocks: u32) {
        let newest = alive.saturating_mul(256) / blocks;
        let sum = self.0.get();
        self.0.set(sum - sum / SMOOTHING + newest);
    }

    /// Most of what hosts write dies in the log.
    fn are_few(&self) -> bool {
        self.0.get() / SMOOTHING < HOT_BELOW
    }
}

/// Blocks of victims of garbage collection.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lived {
    pub(crate) alive: u64,
    pub(crate) all: u64,
}

impl Lived {
    fn plus(self, more: Self) -> Self {
        Self {
            alive: self.alive + more.alive,
            all: self.all + more.all,
        }
    }

    fn halved(self) -> Self {
        Self {
            alive: self.alive / 2,
            all: self.all / 2,
        }
    }
}

/// What was alive in victims of garbage collection, by where it had come from. Of stripes with something alive: of
/// others nobody reads what was in them, so what comes from the log dies sooner than this says, if it dies together.
#[derive(Default)]
pub(crate) struct Origins {
    log: Cell<Lived>,
    collected: Cell<Lived>,
}

impl Origins {
    /// These blocks of a victim came from the log, and those had been collected before. `group` is how many blocks a
    /// group holds.
    pub(crate) fn note(&self, log: Lived, collected: Lived, group: u64) {
        self.log.set(self.log.get().plus(log));
        self.collected.set(self.collected.get().plus(collected));
        if self.log.get().all + self.collected.get().all > REMEMBERED * group {
            self.log.set(self.log.get().halved());
            self.collected.set(self.collected.get().halved());
        }
    }

    /// What comes from the log dies much sooner than what was collected before. `group` as above.
    fn differ(&self, group: u64) -> bool {
        let (log, collected) = (self.log.get(), self.collected.get());
        let is_telling = log.all.min(collected.all) >= group;
        // Both are shares of what there was, times the product of both: groups may be of thousands of millions of blocks.
        let share = |one: Lived, of: Lived| u128::from(one.alive) * u128::from(of.all);
        is_telling && share(log, collected) * 4 < share(collected, log) * 3
    }
}

impl Shared {
    /// True if garbage collection goes on, whether groups are short or not, until the open one, which is its own, is full:
    /// what it left would be filled by compaction, with what dies much sooner.
    pub(crate) fn fills_apart(&self) -> bool {
        self.fills_its_group() && self.origins_differ()
    }

    /// True if what the writers of a joint group write should lie apart.
    fn origins_differ(&self) -> bool {
        self.control().origins.differ(self.group_user_blocks())
    }

    /// True if the writers of a joint group should take turns of whole groups.
    fn turns_are_long(&self) -> bool {
        self.control().survivors.are_few() || self.origins_differ()
    }
}

impl Shared {
    /// True if garbage collection goes on after there are groups enough: the open one is its own, and it
    /// fills that.
    pub(crate) fn fills_its_group(&self) -> bool {
        self.is_joint
            && self.turns_are_long()
            && self.streams.joint_writer() == Some(Writer::GarbageCollection)
    }

    /// Waits while the open group is the other writer's and that one is at work.
    pub(crate) async fn make_way(&self, writer: Writer) {
        if !self.gives_way(writer) {
            return;
        }
        self.count("turns_waited", 1);
        // Garbage collection reads faster while compaction waits.
        let pausing = u32::from(writer == Writer::Compaction);
        self.pausing.fetch_add(pausing, Ordering::Relaxed);
        self.read_ended.notify();
        while !self.is_stopped() && self.gives_way(writer) {
            self.world.sleep(PAUSE).await;
        }
        self.pausing.fetch_sub(pausing, Ordering::Relaxed);
    }

    fn gives_way(&self, writer: Writer) -> bool {
        let control = self.control();
        let last = self.streams.joint_writer();
        if last.is_none_or(|last| last == writer) || !self.turns_are_long() {
            return false;
        }
        match writer {
            Writer::Compaction => {
                let work = &control.gc_work;
                work.running.get() > 0 && !work.all_wait() && !self.is_log_used_up()
            }
            Writer::GarbageCollection => {
                !control.has_group_waiters() && !control.cleaner_work.is_idle()
            }
        }
    }

    /// True if a writer may write a stripe to the joint group, or open another.
    pub(crate) fn has_joint_room(&self, writer: Writer) -> bool {
        let control = self.control();
        match writer {
            Writer::GarbageCollection => {
                let is_open = self.streams.joint_is_open();
                is_open || control.free_groups() > 0 || control.open_groups.has_idle()
            }
            Writer::Compaction => self.joint_stripes() > self.kept_stripes(),
        }
    }

    /// Stripes that compaction leaves to garbage collection.
    fn kept_stripes(&self) -> u64 {
        let group_stripes = u64::from(self.units.geometry().group_stripes());
        u64::from(self.config.reserve.gc_groups) * group_stripes
    }

    /// True if compaction goes on with groups that come back: a victim that gains less than a stripe would only
    /// take what it waits for, one after the other for ever.
    pub(crate) fn is_compaction_next(&self) -> bool {
        let coming = self.control().coming_groups(self) as u64;
        let stripes = coming * u64::from(self.units.geometry().group_stripes());
        self.is_joint && coming > 0 && self.joint_stripes() + stripes > self.kept_stripes()
    }

    /// Waits until a writer may write a stripe to the joint group. `None` if the engine stopped.
    pub(crate) async fn joint_room(&self, writer: Writer) -> Option<()> {
        let control = self.control();
        while !self.is_stopped() {
            if self.has_joint_room(writer) {
                return Some(());
            }
            control.wait_for_group(self, writer).await;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: u64 = 1000;

    fn lived(alive: u64, all: u64) -> Lived {
        Lived { alive, all }
    }

    #[test]
    fn origins_differ_by_what_dies() {
        let origins = Origins::default();
        assert!(!origins.differ(GROUP), "nothing is known yet");
        origins.note(lived(100, 900), lived(900, 1000), GROUP);
        assert!(!origins.differ(GROUP), "less than a group of one kind");
        origins.note(lived(10, 100), lived(0, 0), GROUP);
        assert!(origins.differ(GROUP));
        // As soon dead: the newest victims decide.
        for _ in 0..4 * REMEMBERED {
            origins.note(lived(300, 500), lived(310, 500), GROUP);
        }
        assert!(!origins.differ(GROUP));
        for _ in 0..4 * REMEMBERED {
            origins.note(lived(200, 500), lived(310, 500), GROUP);
        }
        assert!(origins.differ(GROUP));
    }

    #[test]
    fn survivors_follow_what_dies() {
        let survivors = Survivors::default();
        assert!(!survivors.are_few(), "nothing is known yet");
        (0..64).for_each(|_| survivors.note(77, 256));
        assert!(survivors.are_few(), "{}", survivors.0.get());
        (0..64).for_each(|_| survivors.note(180, 256));
        assert!(!survivors.are_few(), "{}", survivors.0.get());
        // One chunk says nothing.
        survivors.note(0, 256);
        assert!(!survivors.are_few(), "{}", survivors.0.get());
    }
}
