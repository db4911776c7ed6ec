//! How far a check is, told to who waits for it.

use std::cell::Cell;
use varve_pool::AuditStep;
use varve_units::Nanos;

/// Silence before something is told, and between two times.
const PAUSE: Nanos = Nanos::from_secs(1);

/// How far a check is with the part that it is at: parts follow one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckStep {
    /// The pool.
    pub pool: String,
    /// What is read.
    pub of: &'static str,
    /// Hundredths of it that were.
    pub per_cent: u64,
    /// Time that the rest of it takes, at the rate so far, if there is one.
    pub left_ns: Option<u64>,
}

/// Tells steps now and then.
pub(crate) struct Steps<'a> {
    now: &'a dyn Fn() -> Nanos,
    pool: &'a str,
    watch: &'a dyn Fn(&CheckStep),
    told: Cell<Nanos>,
    /// The part that is read, how far it was, and since when: it may begin again.
    part: Cell<(&'static str, u64, Nanos)>,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(
        now: &'a dyn Fn() -> Nanos,
        pool: &'a str,
        watch: &'a dyn Fn(&CheckStep),
    ) -> Self {
        let begun = now();
        Self {
            now,
            pool,
            watch,
            told: Cell::new(begun),
            part: Cell::new(("", 0, begun)),
        }
    }

    /// So far it is.
    pub(crate) fn note(&self, step: AuditStep) {
        let now = (self.now)();
        let (of, before, mut begun) = self.part.get();
        if of != step.of || step.done < before {
            begun = now;
        }
        self.part.set((step.of, step.done, begun));
        if now.since(self.told.get()) < PAUSE || step.all == 0 {
            return;
        }
        self.told.set(now);
        let left = u128::from(now.since(begun).0) * u128::from(step.all - step.done);
        let left = left.checked_div(u128::from(step.done));
        (self.watch)(&CheckStep {
            pool: self.pool.to_owned(),
            of: step.of,
            per_cent: step.done * 100 / step.all,
            left_ns: left.and_then(|left| u64::try_from(left).ok()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Nothing in the first second, then once a second, with what is left of the part by its own rate.
    #[test]
    fn steps_are_told_once_a_second() {
        let (clock, told) = (Cell::new(Nanos(0)), RefCell::new(Vec::new()));
        let now = || clock.get();
        let watch = |step: &CheckStep| told.borrow_mut().push(step.clone());
        let steps = Steps::new(&now, "tank", &watch);
        let at = |ms: u64, of, done, all| {
            clock.set(Nanos::from_millis(ms));
            steps.note(AuditStep { of, done, all });
        };
        at(900, "leaves", 9, 10);
        assert!(told.borrow().is_empty());
        at(1_000, "blocks", 0, 400);
        at(1_900, "blocks", 90, 400);
        at(2_000, "blocks", 100, 400);
        at(3_000, "copies", 0, 0);
        // The same part once more: its time counts from there.
        at(3_900, "blocks", 0, 20);
        at(4_900, "blocks", 10, 20);
        let of = |of, per_cent, left_s: Option<u64>| CheckStep {
            pool: "tank".to_owned(),
            of,
            per_cent,
            left_ns: left_s.map(|left| left * 1_000_000_000),
        };
        assert_eq!(
            *told.borrow(),
            [
                of("blocks", 0, None),
                of("blocks", 25, Some(3)),
                of("blocks", 0, None),
                of("blocks", 50, Some(1))
            ]
        );
    }
}
