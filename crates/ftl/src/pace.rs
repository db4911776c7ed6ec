//! How fast cleaning frees the log, measured while it works: what host writes are slowed down to
//! when room runs short.
//!
//! It says nothing about what is right, only about when.

use core::cell::Cell;
use varve_units::Nanos;

/// Weight of the newest measurement: one of so many. Arbitrary: a few frees.
const SMOOTHING: u64 = 4;

/// A running average of the time that cleaning takes for a block.
#[derive(Default)]
pub(crate) struct Pace {
    /// When cleaning began, or last freed something; nothing before it has begun once.
    since: Cell<Option<Nanos>>,
    is_paused: Cell<bool>,
    average: Cell<Option<u64>>,
}

impl Pace {
    /// Cleaning begins after a rest.
    pub(crate) fn begin(&self, now: Nanos) {
        self.since.set(Some(now));
        self.is_paused.set(false);
    }

    /// Hosts were idle: the time until cleaning begins again is not its own, and what it had begun before tells nothing,
    /// if it had begun at all.
    pub(crate) fn pause(&self) {
        let had_begun = self.since.take().is_some();
        self.is_paused.set(had_begun);
    }

    /// True if it has not begun since.
    pub(crate) const fn is_paused(&self) -> bool {
        self.is_paused.get()
    }

    /// Cleaning has freed `blocks` blocks of log. Returns the nanoseconds it takes for one; nothing of what a start
    /// frees before cleaning begins: the time since the clock did says nothing.
    pub(crate) fn freed(&self, now: Nanos, blocks: u64) -> Option<u64> {
        assert!(blocks > 0, "something was freed");
        let since = self.since.get()?;
        self.since.set(Some(now));
        let newest = now.0.saturating_sub(since.0) / blocks;
        let average = self.average.get().unwrap_or(newest);
        let average = (average * (SMOOTHING - 1) + newest) / SMOOTHING;
        self.average.set(Some(average));
        Some(average)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_cleaning_does() {
        let pace = Pace::default();
        assert_eq!(pace.freed(Nanos(4_000_000), 256), None, "a start's");
        pace.begin(Nanos(5_000_000));
        // 1 us a block from the start, whatever the time before was.
        assert_eq!(pace.freed(Nanos(5_256_000), 256), Some(1_000));
        // A rest does not count.
        pace.begin(Nanos(90_000_000));
        assert_eq!(pace.freed(Nanos(90_512_000), 512), Some(1_000));
        // Nor does the time in which hosts were idle, whatever was begun before or is freed first.
        pace.begin(Nanos(91_000_000));
        pace.pause();
        assert!(pace.is_paused());
        assert_eq!(pace.freed(Nanos(28_800_000_000_000), 512), None);
        pace.begin(Nanos(28_800_000_000_000));
        assert!(!pace.is_paused());
        assert_eq!(pace.freed(Nanos(28_800_000_512_000), 512), Some(1_000));
        // Four times slower: most of the way in a few frees.
        let mut now = 28_800_000_512_000;
        let mut last = 0;
        for _ in 0..8 {
            now += 256 * 4_000;
            last = pace.freed(Nanos(now), 256).unwrap();
        }
        assert!((3_500..=4_000).contains(&last), "{last}");
    }
}
