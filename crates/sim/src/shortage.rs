//! When there is no room left beneath the dense drive, and which refusals that explains.
//!
//! Where the dense tier is one drive only: of several, one that finds no room alone is lost to the pool,
//! and the others hold what it would.

use crate::rng::Rng;
use std::cell::Cell;
use varve_units::Nanos;

/// Of so many lives with such a drive one. Arbitrary.
const LIVES_ONE_IN: u64 = 2;
/// Of so many times that room runs out one until the life ends: hosts may not wait for that.
const FOR_GOOD_ONE_IN: u64 = 3;
/// Host operations of a life before it. Arbitrary.
const OPERATIONS_BEFORE: u64 = 250;
/// How long it is, otherwise.
const SPAN_NS: (u64, u64) = (1 << 20, 4 << 30);
/// How long after it hosts may still be refused in process: the pool tries again once a second.
const AFTER: Nanos = Nanos::from_secs(2);
/// The same over a network, where an answer may be late.
const AFTER_WIRE: Nanos = Nanos::from_secs(60);

/// Room beneath the dense drive, over all lives of a pool.
#[derive(Default)]
pub struct Shortage {
    /// There is none until then, unless it was made before.
    until: Cell<Option<Nanos>>,
}

/// A shortage to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// Host operations of the life before.
    pub after: u64,
    /// How long; `None`: until the life ends.
    pub span: Option<Nanos>,
}

impl Planned {
    /// What happens in a life, if anything.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Option<Self> {
        if !rng.chance(1, LIVES_ONE_IN) {
            return None;
        }
        let after = rng.below(OPERATIONS_BEFORE);
        let is_short = !rng.chance(1, FOR_GOOD_ONE_IN);
        let span = is_short.then(|| Nanos(rng.magnitude(SPAN_NS.0, SPAN_NS.1)));
        Some(Self { after, span })
    }
}

impl Shortage {
    /// Room has run out; until when.
    pub fn begin(&self, now: Nanos, span: Option<Nanos>) -> Nanos {
        let until = span.map_or(Nanos(u64::MAX), |span| now + span);
        self.until.set(Some(until));
        until
    }

    /// There is room from now on.
    pub fn end(&self, now: Nanos) {
        self.until.set(self.until.get().map(|until| until.min(now)));
    }

    /// A stripe is refused for another reason. Where the pool has not noticed yet that there is room again,
    /// it notices one attempt later.
    pub fn prolong(&self, now: Nanos) {
        if self.explains(now, false) {
            self.until.set(self.until.get().max(Some(now)));
        }
    }

    /// True if a refusal that a host sees now may be for want of room.
    #[must_use]
    pub fn explains(&self, now: Nanos, over_wire: bool) -> bool {
        let after = if over_wire { AFTER_WIRE } else { AFTER };
        let until = self.until.get();
        until.is_some_and(|until| now.0 <= until.0.saturating_add(after.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals are explained while it lasts and until the pool has noticed its end.
    #[test]
    fn refusals_are_explained_for_a_while() {
        let shortage = Shortage::default();
        assert!(!shortage.explains(Nanos(0), true));
        let until = shortage.begin(Nanos::from_secs(5), Some(Nanos::from_secs(1)));
        assert_eq!(until, Nanos::from_secs(6));
        assert!(shortage.explains(Nanos::from_secs(8), false));
        assert!(!shortage.explains(Nanos::from_secs(9), false));
        assert!(shortage.explains(Nanos::from_secs(9), true));
        shortage.prolong(Nanos::from_secs(9));
        assert!(
            !shortage.explains(Nanos::from_secs(9), false),
            "it had been noticed"
        );
        shortage.begin(Nanos::from_secs(9), None);
        assert!(shortage.explains(Nanos::from_secs(900), false));
        shortage.end(Nanos::from_secs(900));
        shortage.end(Nanos::from_secs(950));
        assert!(!shortage.explains(Nanos::from_secs(903), false));
        shortage.prolong(Nanos::from_secs(902));
        assert!(shortage.explains(Nanos::from_secs(904), false));
        assert!(!shortage.explains(Nanos::from_secs(905), false));
    }
}
