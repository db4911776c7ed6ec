//! The caller's clock as it was told, and how far the sockets were read.
//!
//! A host's silence is known only of what was read: its word may lie in a socket while a timer falls due,
//! since the caller's process did not run (a paused machine, an overloaded one) or had other things to do.
//! So the caller says, with each tick, since when it has read: what lay in the sockets at that time was
//! given to the target before the tick. Silence counts up to there and no further, however long the
//! caller was away.
//!
//! What is read may be as old as the last reading: it counts as life up to one timeout from that. A host that
//! gave its association up waits for twice the timeout from its last byte on; it must not find the
//! association longer alive than that.
//!
//! What needs several exchanges with a host is measured in the time the caller ran: a stop is not the
//! host's fault, and one reading does not show what it would have done meanwhile.

use varve_units::Nanos;

/// See the module.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Clock {
    told: Nanos,
    /// What lay in the sockets then was given before anything that is given now.
    read: Nanos,
    ran: Nanos,
}

impl Clock {
    /// The caller was idle with good reason, without connections.
    pub fn start(&mut self, now: Nanos) {
        self.told = self.told.max(now);
        self.read = self.told;
    }

    /// The caller says the time. More than it may leave between two ticks counts as a stop.
    pub fn tell(&mut self, now: Nanos) {
        self.ran = self.ran + now.since(self.told).min(crate::TICK_MAX);
        self.told = self.told.max(now);
    }

    /// What lay in the sockets at `read` was given.
    pub fn note_reading(&mut self, read: Nanos) {
        self.read = self.read.max(read.min(self.told));
    }

    /// The time as it was last told.
    pub fn told(&self) -> Nanos {
        self.told
    }

    /// How long the caller ran so far, while there were connections.
    pub fn ran(&self) -> Nanos {
        self.ran
    }

    /// True if what was due at `at` is known to have been missed.
    pub fn has_missed(&self, at: Nanos) -> bool {
        at <= self.read
    }

    /// When what a host sent counts as heard, if it has to be heard every `timeout`.
    pub fn heard(&self, now: Nanos, timeout: Nanos) -> Nanos {
        now.min(self.read + timeout)
    }
}
