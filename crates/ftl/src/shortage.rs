//! No room left beneath a dense tier of sparse drives: hosts that would have to wait for it are refused.
//!
//! 1. A stripe is refused for want of space. It is written again and again, less and less often. Hosts
//!    wait meanwhile where there is no room in the log: space may be coming, discards make some.
//! 2. Refused still when attempts are as far apart as they get, the tier is *full*: from then on
//!    hosts get an error wherever they would wait for what only the tier's cleaning can free.
//! 3. The first stripe that is written ends this.
//!
//! **Invariants**: while the tier is full a stripe is tried again, so it is seen when there is room;
//! what is refused was not queued, and gives back what was set aside for it; deallocations leave
//! each owner a chunk, in which the moves of that stripe find room.
//!
//! **Not here**: pools that hold as much as they may (`admission`).

use crate::error::EngineError;
use crate::gate::log_cost;
use crate::limits::OUTAGE_PAUSE_MAX;
use crate::posts::Common;
use crate::shared::Shared;
use core::sync::atomic::Ordering;
use varve_io::IoError;
use varve_units::Nanos;

/// What hosts are told.
const NO_SPACE: EngineError = EngineError::Io(IoError::NoSpace);

impl Common {
    pub(crate) fn is_dense_full(&self) -> bool {
        self.is_dense_full.load(Ordering::SeqCst)
    }

    /// True if a write of so many blocks of log would wait for what the dense tier cannot take.
    pub(crate) fn is_starved(&self, cost: u64) -> bool {
        self.is_dense_full() && cost > self.log_room()
    }
}

impl Shared {
    /// Refuses a write of `blocks` blocks that would wait for what the dense tier cannot take.
    pub(crate) fn refuse_starved(&self, blocks: u64) -> Result<(), EngineError> {
        if self.is_starved(log_cost(blocks)) {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// Refuses a deallocation that would leave moves no room in the log. It takes little itself and may
    /// be what makes room, so it has most of the reserve.
    pub(crate) fn refuse_hole(&self) -> Result<(), EngineError> {
        if !self.is_dense_full() {
            return Ok(());
        }
        let reserve = &self.config.reserve;
        let owners = u32::from(self.config.owners());
        let least = reserve.urgent_chunks + reserve.upkeep_chunks + owners;
        if self.free_chunks.load(Ordering::SeqCst) > least {
            return Ok(());
        }
        Err(self.refusal())
    }

    /// One more operation of a host is refused.
    pub(crate) fn refusal(&self) -> EngineError {
        self.count("no_space_refusals", 1);
        NO_SPACE
    }

    /// A stripe was refused for want of space; `pause` is what its writer waits before the next attempt.
    pub(crate) fn note_no_space(&self, pause: Nanos) {
        if pause >= OUTAGE_PAUSE_MAX && !self.is_dense_full.swap(true, Ordering::SeqCst) {
            self.count("dense_full", 1);
            // Who waits looks again, and finds that it is in vain.
            self.wake_for_room();
            self.tell_others(|there| there.wake_for_room());
        }
    }

    /// A stripe was written.
    pub(crate) fn note_dense_room(&self) {
        if self.is_dense_full() {
            self.is_dense_full.store(false, Ordering::SeqCst);
        }
    }

    fn wake_for_room(&self) {
        self.freed.notify();
        self.purged.notify();
    }
}
