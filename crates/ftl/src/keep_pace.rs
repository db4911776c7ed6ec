//! Compaction makes way for garbage collection, where each has groups of its own.
//!
//! Both write to the same drives. Were compaction to fill the groups that it has while more are made, all
//! would stand still until there is another. So garbage collection works in bursts (`victims`), and compaction
//! waits as long as one lasts, while the log has room for what hosts write.
//!
//! **Not here**: drives without placement, whose groups both share (`joint`).
//!
//! It says nothing about what is right, only about when: nobody waits unless a victim is being read, and
//! nobody while hosts are slowed down.

use crate::shared::{FIRST, Shared};
use alloc::rc::Rc;
use core::sync::atomic::Ordering;
use varve_units::Nanos;

/// Pause until compaction looks again. Arbitrary: about a stripe of a fast drive.
const PAUSE: Nanos = Nanos::from_micros(500);

impl Shared {
    /// Waits, before a stripe of compaction is written, while garbage collection is at work.
    pub(crate) async fn keep_pace(&self) {
        let wait = |first: Rc<Self>| async move {
            if first.is_stopped() || !first.makes_way() {
                return;
            }
            first.count("compaction_pauses", 1);
            first.pausing.fetch_add(1, Ordering::Relaxed);
            first.read_ended.notify();
            while !first.is_stopped() && first.makes_way() {
                first.world.sleep(PAUSE).await;
            }
            first.pausing.fetch_sub(1, Ordering::Relaxed);
        };
        // An engine that stopped is noticed by whoever writes.
        let _ = self.call(FIRST, wait).await;
    }

    fn makes_way(&self) -> bool {
        let work = &self.control().gc_work;
        !self.is_joint && work.running.get() > 0 && !work.all_wait() && !self.is_slowed()
    }
}
