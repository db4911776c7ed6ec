//! A dense tier that takes nothing: hosts that would have to wait for it are refused.
//!
//! 1. A stripe is refused, for want of space beneath sparse drives or because the tier does not answer. It is
//!    written again and again, less and less often. Hosts wait meanwhile where there is no room in the log: space
//!    may be coming, discards make some; a drive may be back in a moment.
//! 2. Refused still when attempts are as far apart as they get, the tier is *full* or *away*: from then on
//!    hosts get an error wherever they would wait for what only the tier's cleaning can free. Reads go on.
//! 3. A tier that cannot be read either may leave nothing to write: garbage collection frees no group then, and
//!    compaction waits for one. It is away when victims are left alone for as long as one ever is, for a while in which
//!    no stripe was written.
//! 4. The first stripe that is written ends this.
//!
//! **Invariants**: while the tier is short something is tried again, so it is seen when it is back;
//! what is refused was not queued, and gives back what was set aside for it; deallocations leave
//! each owner a chunk, in which the moves of that stripe find room.
//!
//! **Not here**: pools that hold as much as they may (`admission`); a tier that never answers a command.

use crate::error::EngineError;
use crate::gate::log_cost;
use crate::limits::OUTAGE_PAUSE_MAX;
use crate::posts::Common;
use crate::shared::Shared;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use varve_io::IoError;
use varve_units::Nanos;

/// Why the dense tier takes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// There is no room beneath it.
    Full = 1,
    /// It does not answer, or refuses for another reason.
    Away = 2,
}

/// Whether the dense tier takes stripes, for all reactors.
#[derive(Default)]
pub(crate) struct DenseState {
    /// The shortage, 0 for none.
    shortage: AtomicU8,
    /// When a victim could not be read first, since a stripe was written; 0 if none was wanted.
    unread_at: AtomicU64,
}

impl Shortage {
    /// What an error of the tier means if it goes on.
    fn of(error: IoError) -> Option<Self> {
        match error {
            // Of a place, not of the tier: the group is given up.
            IoError::Media => None,
            IoError::NoSpace => Some(Self::Full),
            _ => Some(Self::Away),
        }
    }

    /// Times that it began.
    const fn counter(self) -> &'static str {
        match self {
            Self::Full => "dense_full",
            Self::Away => "dense_outages",
        }
    }

    /// What hosts are told, and how it is counted.
    pub(crate) const fn refusal(self) -> (EngineError, &'static str) {
        match self {
            Self::Full => (EngineError::Io(IoError::NoSpace), "no_space_refusals"),
            Self::Away => (EngineError::DenseAway, "away_refusals"),
        }
    }
}

impl Common {
    /// Why the dense tier has taken nothing for long, if so.
    pub(crate) fn dense_shortage(&self) -> Option<Shortage> {
        match self.dense_state.shortage.load(Ordering::SeqCst) {
            1 => Some(Shortage::Full),
            2 => Some(Shortage::Away),
            _ => None,
        }
    }

    /// Why a write of so many blocks of log would wait for what the dense tier cannot take, if so.
    pub(crate) fn starvation(&self, cost: u64) -> Option<Shortage> {
        self.dense_shortage().filter(|_| cost > self.log_room())
    }
}

impl Shared {
    /// Refuses a write of `blocks` blocks that would wait for what the dense tier cannot take.
    pub(crate) fn refuse_starved(&self, blocks: u64) -> Result<(), EngineError> {
        match self.starvation(log_cost(blocks)) {
            Some(why) => Err(self.refusal(why)),
            None => Ok(()),
        }
    }

    /// Refuses a deallocation that would leave moves no room in the log. It takes little itself and may
    /// be what makes room, so it has most of the reserve.
    pub(crate) fn refuse_hole(&self) -> Result<(), EngineError> {
        let Some(why) = self.dense_shortage() else {
            return Ok(());
        };
        let reserve = &self.config.reserve;
        let owners = u32::from(self.config.owners());
        let least = reserve.urgent_chunks + reserve.upkeep_chunks + owners;
        if self.free_chunks.load(Ordering::SeqCst) > least {
            return Ok(());
        }
        Err(self.refusal(why))
    }

    /// One more operation of a host is refused.
    pub(crate) fn refusal(&self, why: Shortage) -> EngineError {
        self.count_refusal(why);
        why.refusal().0
    }

    /// Counts one that is refused.
    pub(crate) fn count_refusal(&self, why: Shortage) {
        self.count(why.refusal().1, 1);
    }

    /// A stripe, or a flush of one, was refused; `pause` is what its writer waits before the next attempt.
    pub(crate) fn note_outage(&self, error: IoError, pause: Nanos) {
        if let Some(why) = Shortage::of(error)
            && pause >= OUTAGE_PAUSE_MAX
        {
            self.begin_shortage(why);
        }
    }

    /// A group cannot be read now, and is left alone for `pause` as a victim.
    pub(crate) fn note_unread_victim(&self, pause: Nanos) {
        if pause < OUTAGE_PAUSE_MAX {
            return;
        }
        let (unread_at, now) = (&self.dense_state.unread_at, self.world.now());
        let first = unread_at.load(Ordering::Relaxed);
        if self.group_waiters.load(Ordering::SeqCst) == 0 {
            unread_at.store(0, Ordering::Relaxed);
        } else if first == 0 {
            unread_at.store(now.0.max(1), Ordering::Relaxed);
        } else if now.since(Nanos(first)) >= OUTAGE_PAUSE_MAX {
            self.begin_shortage(Shortage::Away);
        }
    }

    fn begin_shortage(&self, why: Shortage) {
        let before = self.dense_state.shortage.swap(why as u8, Ordering::SeqCst);
        if before != why as u8 {
            self.count(why.counter(), 1);
            self.tell_shortage();
            self.tell_others(|there| there.tell_shortage());
        }
    }

    /// A stripe was written.
    pub(crate) fn note_stripe(&self) {
        let state = &self.dense_state;
        state.unread_at.store(0, Ordering::Relaxed);
        if self.dense_shortage().is_some() {
            state.shortage.store(0, Ordering::SeqCst);
        }
    }

    /// Who waits for the tier's cleaning, or for the tier itself, looks again, and finds that it is in vain.
    fn tell_shortage(&self) {
        self.freed.notify();
        self.purged.notify();
        self.refuse_passage();
    }
}
