//! The clock that goes on while the machine sleeps.
//!
//! A reactor's own clock and its timers stand still then (`CLOCK_MONOTONIC`), and so they should: drives are
//! asleep too, and a command of theirs is not late for a night that nobody worked. Only who counts the
//! silence of other machines needs this one. It has no timers: those who need it look twice a second.

use crate::executor::origin;
use std::time::{Duration, Instant};
use varve_units::Nanos;

/// The time since a reactor's clock began, sleep included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootClock {
    began: Duration,
    /// Where the kernel has no such clock (older than 2.6.39, a sandbox).
    awake: Instant,
}

impl BootClock {
    /// The clock of a reactor whose own began at `origin`.
    pub(crate) fn since(began_at: Instant) -> Self {
        let began = boot_time().unwrap_or_default();
        Self {
            began: began.saturating_sub(origin().saturating_duration_since(began_at)),
            awake: began_at,
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        let passed = match boot_time() {
            Some(now) => now.saturating_sub(self.began),
            None => self.awake.elapsed(),
        };
        Nanos(passed.as_nanos() as u64)
    }
}

/// Since the machine was started.
#[expect(unsafe_code, reason = "a system call without a safe wrapper in std")]
fn boot_time() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, exclusive `timespec` for the length of the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    (failed == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No time is lost: it goes at least as fast as the clock that stands still in sleep.
    #[test]
    fn it_does_not_stand_still() {
        let began = origin();
        let clock = BootClock::since(began);
        let before = clock.now();
        let start = origin();
        while start.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let passed = start.elapsed();
        assert!(clock.now().since(before) >= Nanos(passed.as_nanos() as u64));
    }
}
