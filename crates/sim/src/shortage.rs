//! When the dense drive takes nothing, for want of room beneath it or because it is away, and which refusals
//! that explains.
//!
//! Where the dense tier is one drive: of several, one that refuses alone is lost to the pool, and the others hold what it
//! would. All of several: `tier_outage`.

use crate::rng::Rng;
use std::cell::Cell;
use varve_io::IoError;
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

/// What a drive that is away says of each command. Arbitrary.
const ABSENCES: [IoError; 3] = [IoError::Gone, IoError::Timeout, IoError::ReadOnly];

/// Whether the dense drive takes what it is sent, over all lives of a pool.
#[derive(Default)]
pub struct Shortage {
    /// It takes nothing until then, unless it did before.
    until: Cell<Option<Nanos>>,
    /// The same of reads.
    unread_until: Cell<Option<Nanos>>,
}

/// What a drive refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What it says.
    pub error: IoError,
    /// True if it refuses reads too.
    pub reads: bool,
    /// True if nothing gets through: no flush, nor what concerns its labels.
    pub is_whole: bool,
}

/// A shortage to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// Host operations of the life before.
    pub after: u64,
    /// How long; `None`: until the life ends.
    pub span: Option<Nanos>,
    /// What is refused.
    pub refusal: Refusal,
}

impl Refusal {
    /// There is no room for what is written.
    pub const NO_SPACE: Self = Self {
        error: IoError::NoSpace,
        reads: false,
        is_whole: false,
    };

    /// The drive is away, for writes at least.
    fn draw_absence(rng: &mut Rng) -> Self {
        Self {
            error: rng.pick(&ABSENCES),
            reads: rng.chance(1, 2),
            is_whole: false,
        }
    }

    /// Its name among the faults.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.error {
            IoError::NoSpace => "no_space",
            _ => "outage",
        }
    }
}

impl Planned {
    /// Whether room runs out in a life.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Option<Self> {
        let (after, span) = draw_span(rng)?;
        let refusal = Refusal::NO_SPACE;
        Some(Self {
            after,
            span,
            refusal,
        })
    }

    /// Whether the drive goes away in a life, for a while.
    #[must_use]
    pub fn draw_absence(rng: &mut Rng) -> Option<Self> {
        let (after, span) = draw_span(rng)?;
        let refusal = Refusal::draw_absence(rng);
        Some(Self {
            after,
            span,
            refusal,
        })
    }
}

/// When in a life it begins, if it does, and how long it is.
fn draw_span(rng: &mut Rng) -> Option<(u64, Option<Nanos>)> {
    if !rng.chance(1, LIVES_ONE_IN) {
        return None;
    }
    let after = rng.below(OPERATIONS_BEFORE);
    let is_short = !rng.chance(1, FOR_GOOD_ONE_IN);
    let span = is_short.then(|| Nanos(rng.magnitude(SPAN_NS.0, SPAN_NS.1)));
    Some((after, span))
}

impl Shortage {
    /// It has begun; until when.
    pub fn begin(&self, now: Nanos, planned: &Planned) -> Nanos {
        let until = planned.span.map_or(Nanos(u64::MAX), |span| now + span);
        self.until.set(Some(until));
        if planned.refusal.reads {
            self.unread_until.set(Some(until));
        }
        until
    }

    /// All is taken from now on.
    pub fn end(&self, now: Nanos) {
        for until in [&self.until, &self.unread_until] {
            until.set(until.get().map(|until| until.min(now)));
        }
    }

    /// A stripe is refused for another reason. Where the pool has not noticed yet that all is taken again,
    /// it notices one attempt later.
    pub fn prolong(&self, now: Nanos) {
        if self.explains(now, false) {
            self.until.set(self.until.get().max(Some(now)));
        }
    }

    /// True if a refusal of a change that a host sees now may be for it.
    #[must_use]
    pub fn explains(&self, now: Nanos, over_wire: bool) -> bool {
        is_within(self.until.get(), now, over_wire)
    }

    /// The same of a read.
    #[must_use]
    pub fn explains_read(&self, now: Nanos, over_wire: bool) -> bool {
        is_within(self.unread_until.get(), now, over_wire)
    }
}

fn is_within(until: Option<Nanos>, now: Nanos, over_wire: bool) -> bool {
    let after = if over_wire { AFTER_WIRE } else { AFTER };
    until.is_some_and(|until| now.0 <= until.0.saturating_add(after.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(span: Option<Nanos>, reads: bool) -> Planned {
        let error = IoError::Gone;
        Planned {
            after: 0,
            span,
            refusal: Refusal {
                error,
                reads,
                is_whole: false,
            },
        }
    }

    /// Refusals are explained while it lasts and until the pool has noticed its end.
    #[test]
    fn refusals_are_explained_for_a_while() {
        let shortage = Shortage::default();
        assert!(!shortage.explains(Nanos(0), true));
        let short = planned(Some(Nanos::from_secs(1)), false);
        let until = shortage.begin(Nanos::from_secs(5), &short);
        assert_eq!(until, Nanos::from_secs(6));
        assert!(shortage.explains(Nanos::from_secs(8), false));
        assert!(!shortage.explains(Nanos::from_secs(9), false));
        assert!(shortage.explains(Nanos::from_secs(9), true));
        shortage.prolong(Nanos::from_secs(9));
        assert!(
            !shortage.explains(Nanos::from_secs(9), false),
            "it had been noticed"
        );
        assert!(!shortage.explains_read(Nanos::from_secs(7), true));
        shortage.begin(Nanos::from_secs(9), &planned(None, true));
        assert!(shortage.explains(Nanos::from_secs(900), false));
        assert!(shortage.explains_read(Nanos::from_secs(900), false));
        shortage.end(Nanos::from_secs(900));
        shortage.end(Nanos::from_secs(950));
        assert!(!shortage.explains(Nanos::from_secs(903), false));
        assert!(!shortage.explains_read(Nanos::from_secs(903), false));
        shortage.prolong(Nanos::from_secs(902));
        assert!(shortage.explains(Nanos::from_secs(904), false));
        assert!(!shortage.explains(Nanos::from_secs(905), false));
    }
}
