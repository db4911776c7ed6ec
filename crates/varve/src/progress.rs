//! Progress on standard error: what is going on, how far it is, how long it will take.

use std::io::{IsTerminal, Write, stderr};
use varve_units::Nanos;

/// Time between two lines.
const INTERVAL: Nanos = Nanos::from_secs(1);

/// Progress of one phase.
pub(crate) struct Progress {
    name: &'static str,
    started: Nanos,
    next: Nanos,
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    /// A phase that begins now.
    pub(crate) fn new(name: &'static str, now: Nanos) -> Self {
        Self::after(name, now, INTERVAL)
    }

    /// A phase that begins now and shows nothing before it has lasted this long.
    pub(crate) fn after(name: &'static str, now: Nanos, delay: Nanos) -> Self {
        Self {
            name,
            started: now,
            next: now + delay,
            is_terminal: stderr().is_terminal(),
            is_shown: false,
        }
    }

    /// True if a line is due.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// Shows how far the phase is (0 to 1) and what else there is to tell.
    pub(crate) fn show(&mut self, now: Nanos, share: f64, more: &str) {
        self.next = now + INTERVAL;
        self.is_shown = true;
        let share = share.clamp(0.0, 1.0);
        let spent = now.since(self.started).0 as f64 / 1e9;
        let left = if share > 0.005 {
            format!("{:.0} s left", spent / share * (1.0 - share))
        } else {
            "time left unknown".to_owned()
        };
        let line = format!("{:<8} {:>3.0} %  {left}  {more}", self.name, share * 100.0);
        // Progress that cannot be shown is no reason to fail.
        let _ = if self.is_terminal {
            write!(stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(stderr(), "{line}")
        };
    }

    /// Makes room for a line of its own in the midst of a phase.
    pub(crate) fn clear(&self) {
        if self.is_terminal && self.is_shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    /// Ends the phase's line.
    fn drop(&mut self) {
        if self.is_terminal && self.is_shown {
            let _ = writeln!(stderr());
        }
    }
}
