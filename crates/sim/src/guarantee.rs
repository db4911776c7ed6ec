//! What every seed has had when it ends, or it has shown nothing: work, crashes, a fast tier that
//! wrapped, garbage collection, a fault.
//!
//! A run goes on, within bounds, until all of it was seen; a seed that ends without is a failure
//! of the simulator.
//!
//! **Not here**: what a campaign as a whole must have seen (`campaign`).

use crate::laps::Laps;
use std::collections::BTreeMap;

/// Host operations a run must have had.
pub const OPERATIONS_MIN: u64 = 2_000;
/// Crashes a run must have had.
pub const CRASHES_MIN: u64 = 3;

/// Faults that are injected, by their names in the tally of a drive.
pub const FAULTS: [&str; 18] = [
    "bad_range",
    "bit_rot",
    "flush_error",
    "gone",
    "hung_reads",
    "lost_write",
    "media_error",
    "misdirected_read",
    "misdirected_write",
    "no_space",
    "outage",
    "read_only",
    "refused_flush",
    "refused_stripe",
    "refused_write",
    "slow",
    "slow_reads",
    "write_error",
];

/// What a run has had so far.
pub struct Seen<'a> {
    /// Host operations ended.
    pub operations: u64,
    /// Power failures.
    pub crashes: u64,
    /// Of these, during a start.
    pub recovery_crashes: u64,
    /// Faults that struck, by kind.
    pub faults: &'a BTreeMap<&'static str, u64>,
    /// What was seen, by feature.
    pub coverage: &'a BTreeMap<&'static str, u64>,
    /// The chunks of the fast tier, if it is a log.
    pub laps: Option<&'a Laps>,
}

impl Seen<'_> {
    /// What hosts and faults have not brought about yet: more work would.
    #[must_use]
    pub fn missing_work(&self, essentials: &[&'static str]) -> Vec<&'static str> {
        let never =
            |name: &&&'static str| self.coverage.get(**name).is_none_or(|count| *count == 0);
        let mut missing: Vec<&'static str> = essentials.iter().filter(never).copied().collect();
        if self.operations < OPERATIONS_MIN {
            missing.push("operations");
        }
        if self.laps.is_some_and(|laps| laps.left() > 0) {
            missing.push("wrapped_fast_tier");
        }
        if !FAULTS.iter().any(|fault| self.faults.contains_key(fault)) {
            missing.push("fault");
        }
        missing
    }

    /// Crashes that have not happened yet.
    #[must_use]
    pub fn missing_crashes(&self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.crashes < CRASHES_MIN {
            missing.push("crashes");
        }
        if self.recovery_crashes == 0 {
            missing.push("crash_in_recovery");
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laps::LogArea;

    /// Each thing that lacks is named; nothing else is.
    #[test]
    fn what_lacks_is_named() {
        let laps = Laps::new(LogArea {
            base: 0,
            chunk_bytes: 1 << 20,
            chunks: 1,
        });
        let mut seen = Seen {
            operations: OPERATIONS_MIN - 1,
            crashes: 2,
            recovery_crashes: 0,
            faults: &[("replaced", 1)].into(),
            coverage: &[("gc_blocks", 0), ("chunks_cleaned", 3)].into(),
            laps: Some(&laps),
        };
        assert_eq!(
            seen.missing_work(&["chunks_cleaned", "gc_blocks", "checkpoints"]),
            [
                "gc_blocks",
                "checkpoints",
                "operations",
                "wrapped_fast_tier",
                "fault"
            ]
        );
        assert_eq!(seen.missing_crashes(), ["crashes", "crash_in_recovery"]);
        seen.operations += 1;
        seen.laps = None;
        let faults = [("bit_rot", 1)].into();
        seen.faults = &faults;
        assert!(seen.missing_work(&["chunks_cleaned"]).is_empty());
        (seen.crashes, seen.recovery_crashes) = (3, 1);
        assert!(seen.missing_crashes().is_empty());
    }
}
