//! Compaction keeps the pace of garbage collection.
//!
//! Were compaction to fill the groups that it has at full speed, garbage collection, which has the same
//! drives, would fall behind, and then all would stand still until it has made another. So compaction waits
//! for it all along: what is about to be free has to grow as open groups fill. Hosts feel less of that, by
//! what the log takes meanwhile and by what their writes cost (`gate`).
//!
//! It says nothing about what is right, only about when: nobody waits unless a victim is being read, and
//! nobody while hosts have no log.

use crate::geometry::UnitId;
use crate::placement::{StreamId, Writer};
use crate::rooms::Rooms;
use crate::shared::{FIRST, Shared};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use varve_units::Nanos;

/// Pause until compaction looks again. Arbitrary: about a stripe of a fast drive.
const PAUSE: Nanos = Nanos::from_micros(500);
/// Of the groups that nobody fills so many may be wanted at once. Arbitrary: where there are few they are
/// worth more full than free.
const SPARE_SHARE: u32 = 8;

impl Shared {
    /// Waits, before a stripe of compaction is written, until garbage collection is far enough.
    pub(crate) async fn keep_pace(&self) {
        let wait = |first: Rc<Self>| async move {
            if first.is_stopped() || !first.is_ahead_of_gc() {
                return;
            }
            first.count("compaction_pauses", 1);
            first.pausing.fetch_add(1, Ordering::Relaxed);
            while !first.is_stopped() && first.is_ahead_of_gc() {
                first.world.sleep(PAUSE).await;
            }
            first.pausing.fetch_sub(1, Ordering::Relaxed);
        };
        // An engine that stopped is noticed by whoever writes.
        let _ = self.call(FIRST, wait).await;
    }

    /// True if garbage collection is at work and has made less room than compaction is to take.
    fn is_ahead_of_gc(&self) -> bool {
        let work = &self.control().gc_work;
        let is_at_work = work.running.get() > 0 && !work.all_wait();
        is_at_work && !self.is_pressed() && self.stripes_made() < self.stripes_wanted()
    }

    /// Stripes that are free or about to be: in free groups, in those of garbage collection, and of each
    /// victim as much of a group as it is emptied.
    fn stripes_made(&self) -> u64 {
        let control = self.control();
        let stripes = u64::from(self.units.geometry().group_stripes());
        let victims = control.gc_victims.borrow();
        let made = victims.iter().map(|(group, victim)| {
            let live = self.units.unit(UnitId::group(*group)).live();
            let moved = u64::from(victim.live.saturating_sub(live));
            match victim.live {
                0 => stripes,
                all => stripes * moved / u64::from(all),
            }
        });
        let open = self.rooms_in_use().left();
        control.ready_groups() as u64 * stripes + open + made.sum::<u64>()
    }

    /// Stripes that there should be: what is kept for garbage collection, another group for each that it
    /// has open, and what compaction's streams are to open.
    fn stripes_wanted(&self) -> u64 {
        let stripes = u64::from(self.units.geometry().group_stripes());
        let kept = u64::from(self.config.reserve.gc_groups) + self.rooms_in_use().streams();
        kept * stripes + self.stripes_ahead()
    }

    /// Room of garbage collection's streams that its victims go to.
    fn rooms_in_use(&self) -> Rooms {
        let stripes = self.units.geometry().group_stripes();
        let is_collapsed = self.control().gc_is_collapsed.get();
        let used = |stream: StreamId| !is_collapsed || stream == StreamId::LAST_RESORT;
        let left = self.stripes_left(Writer::GarbageCollection).into_iter();
        let left: Vec<_> = left
            .filter(|(stream, _)| used(*stream))
            .map(|(_, left)| left)
            .collect();
        match left.is_empty() {
            true => Rooms::new(alloc::vec![0], stripes),
            false => Rooms::new(left, stripes),
        }
    }

    /// Stripes of free groups that compaction's streams are to open.
    pub(crate) fn stripes_ahead(&self) -> u64 {
        let most = self.spare_groups() / SPARE_SHARE * self.units.geometry().group_stripes();
        self.rooms_of(Writer::Compaction).ahead().min(most.into())
    }
}
