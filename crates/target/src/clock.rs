//! The caller's clock as it was told, and whether the caller was stopped meanwhile.
//!
//! A process that did not run for a while (a paused machine, an overloaded one) finds in its sockets
//! what hosts sent meanwhile, and its own timers overdue. A host's silence is only known when that was
//! read, so after a gap timers strike at a later tick.
//!
//! What is found then may be as old as the gap: it counts as life up to one timeout from the gap's
//! beginning and not to its end. A host that gave its association up waits for twice the timeout from
//! its last byte on; it must not find the association longer alive than that.

use varve_units::Nanos;

/// Without a word for longer the caller was stopped: twice what it may leave between two ticks.
const GAP_MAX: Nanos = Nanos(2 * crate::TICK_MAX.0);
/// Ticks after a gap that strike nobody. Arbitrary: between two of them a caller reads once from each
/// connection, and any byte will do.
const READING_TICKS: u8 = 4;
/// Until the next of these.
const READING_PAUSE: Nanos = Nanos::from_millis(1);

/// A gap after which what came meanwhile is still being read.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// When the caller was last heard before it.
    since: Nanos,
    ticks_left: u8,
}

/// See the module.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Clock {
    told: Nanos,
    gap: Option<Gap>,
    /// Since when there was no gap.
    awake_since: Nanos,
}

impl Clock {
    /// The caller was idle with good reason, without connections.
    pub fn start(&mut self, now: Nanos) {
        self.told = now;
        self.gap = None;
        self.awake_since = now;
    }

    /// The caller says the time.
    pub fn tell(&mut self, now: Nanos) {
        if now.since(self.told) > GAP_MAX {
            // A gap behind a gap: what is read now may be as old as the first one.
            let since = self.gap.map_or(self.told, |gap| gap.since);
            self.gap = Some(Gap {
                since,
                ticks_left: READING_TICKS,
            });
            self.awake_since = now;
        }
        self.told = self.told.max(now);
    }

    /// How long something that began at `since` took without a gap.
    pub fn waited(&self, now: Nanos, since: Nanos) -> Nanos {
        now.since(since.max(self.awake_since))
    }

    /// The time as it was last told.
    pub fn told(&self) -> Nanos {
        self.told
    }

    /// A tick. True if timers may strike.
    pub fn tick(&mut self, now: Nanos) -> bool {
        self.tell(now);
        let Some(gap) = &mut self.gap else {
            return true;
        };
        if gap.ticks_left > 0 {
            gap.ticks_left -= 1;
            return false;
        }
        self.gap = None;
        true
    }

    /// When a tick is wanted to end the reading after a gap.
    pub fn deadline(&self) -> Option<Nanos> {
        self.gap.map(|_| self.told + READING_PAUSE)
    }

    /// True while what is read may have come during a gap.
    pub fn is_behind(&self) -> bool {
        self.gap.is_some()
    }

    /// When what a host sent counts as heard, if it has to be heard every `timeout`.
    pub fn heard(&self, now: Nanos, timeout: Nanos) -> Nanos {
        self.gap.map_or(now, |gap| now.min(gap.since + timeout))
    }
}
