//! The clock that the ages of groups go by: it goes on over starts.
//!
//! A world's clock may begin anew with each start. Groups that were closed in an earlier life would be of the future
//! then, and young until this life is as old as that one was: collection would take any other group before them.

use core::cell::Cell;
use varve_units::Nanos;

/// How far the pool's clock is ahead of the world's.
#[derive(Default)]
pub(crate) struct PoolClock {
    ahead: Cell<Nanos>,
}

impl PoolClock {
    /// This moment was recorded in an earlier life: no later one may be before it. `now` is the world's.
    pub(crate) fn restore(&self, now: Nanos, recorded: Nanos) {
        self.ahead.set(self.ahead.get().max(recorded.since(now)));
    }

    /// Now, where the world says `now`.
    pub(crate) fn at(&self, now: Nanos) -> Nanos {
        Nanos(now.0.saturating_add(self.ahead.get().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Nanos = Nanos::from_secs(24 * 3600);

    #[test]
    fn what_an_earlier_life_closed_is_older_than_what_this_one_closes() {
        let clock = PoolClock::default();
        let old = [Nanos(25 * DAY.0), Nanos(30 * DAY.0), Nanos(1)];
        for closed in old {
            clock.restore(Nanos(5), closed);
        }
        let soon = clock.at(Nanos(1_000_000_005));
        let ages = old.map(|closed| soon.since(closed));
        assert_eq!(ages[1], Nanos::from_secs(1), "the newest");
        assert_eq!(ages[0], Nanos(5 * DAY.0 + 1_000_000_000));
        // A world that goes on over starts is the pool's clock.
        let clock = PoolClock::default();
        clock.restore(Nanos(100), Nanos(90));
        assert_eq!(clock.at(Nanos(110)), Nanos(110));
        // What no clock can have said breaks nothing.
        clock.restore(Nanos(0), Nanos(u64::MAX));
        assert_eq!(clock.at(Nanos(7)), Nanos(u64::MAX));
    }
}
