//! Many seeds: what failed, what was seen, and what was never seen.
//!
//! Seeds are shared out over threads; each seed is a world of its own, so the result does not
//! depend on the number of threads.
//!
//! **Not here**: printing and arguments (the binary).

use crate::run::{Failure, Report, run_twice};
use crate::scenario::Options;
use crate::subject::Factory;
use crate::wire;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Features of the simulator itself that a campaign must have seen.
pub const FEATURES: [&str; 44] = [
    "audits",
    "bit_rot",
    "came_back",
    "clean_ends",
    "corruption_hit",
    "crash_at_action",
    "crash_at_flush",
    "crash_at_time",
    "crash_at_write",
    "crashes_in_recovery",
    "crowded",
    "gone",
    "handed_over",
    "host_create",
    "host_delete",
    "host_discard",
    "host_discard_huge",
    "host_flush",
    "host_read",
    "host_refused",
    "host_resize",
    "host_scan",
    "host_write",
    "host_write_fua",
    "host_write_zeroes",
    "lanes_changed",
    "lost_with_power",
    "lost_write",
    "media_error",
    "media_error_hit",
    "misdirected_write",
    "placement",
    "refused_write",
    "replaced",
    "slow",
    "short_lives",
    "stress_deletions",
    "stress_even",
    "stress_late_reads",
    "stress_losses",
    "stress_races",
    "stress_restarts",
    "stress_scatter",
    "write_error",
];

/// Seeds below which a feature that was not seen does not fail a campaign: a single seed has one
/// configuration. Arbitrary.
pub const COVERAGE_SEEDS_MIN: u64 = 100;

/// Makes the subject of one run.
pub type Make<'a> = &'a (dyn Fn() -> Box<dyn Factory> + Sync);

/// What a campaign found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Seeds that were run (twice each).
    pub seeds_run: u64,
    /// Host operations.
    pub operations: u64,
    /// Power failures.
    pub crashes: u64,
    /// Faults that struck, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// What was seen, by feature; features never seen stand at 0.
    pub coverage: BTreeMap<&'static str, u64>,
    /// Seeds that failed, in order.
    pub failed: Vec<(u64, Failure)>,
}

impl Summary {
    /// Features that were never seen.
    #[must_use]
    pub fn unseen(&self) -> Vec<&'static str> {
        let unseen = self.coverage.iter().filter(|(_, count)| **count == 0);
        unseen.map(|(&feature, _)| feature).collect()
    }

    /// True if no seed failed and, given enough seeds, every feature was seen.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        let is_covered = self.seeds_run < COVERAGE_SEEDS_MIN || self.unseen().is_empty();
        self.failed.is_empty() && is_covered
    }

    fn add(&mut self, report: Report) {
        self.seeds_run += 1;
        self.operations += report.operations;
        self.crashes += report.crashes;
        for (name, count) in report.faults {
            *self.faults.entry(name).or_default() += count;
            *self.coverage.entry(name).or_default() += count;
        }
        // What a life could have counted and did not is a feature only if it is asked for.
        for (feature, count) in report.coverage {
            if count > 0 {
                *self.coverage.entry(feature).or_default() += count;
            }
        }
        *self.coverage.entry("crashes_in_recovery").or_default() += report.recovery_crashes;
        if let Some(failure) = report.failure {
            self.failed.push((report.seed, failure));
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds_run += other.seeds_run;
        self.operations += other.operations;
        self.crashes += other.crashes;
        for (name, count) in other.faults {
            *self.faults.entry(name).or_default() += count;
        }
        for (feature, count) in other.coverage {
            *self.coverage.entry(feature).or_default() += count;
        }
        self.failed.extend(other.failed);
        self.failed.sort_by_key(|(seed, _)| *seed);
    }
}

/// Runs a seed; a panic of the subject is a failure like any other.
#[must_use]
pub fn guarded(seed: u64, run: &dyn Fn() -> Report) -> Report {
    let outcome = catch_unwind(AssertUnwindSafe(run));
    outcome.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Report {
            seed,
            operations: 0,
            crashes: 0,
            recovery_crashes: 0,
            actions: 0,
            faults: BTreeMap::new(),
            coverage: BTreeMap::new(),
            hash: 0,
            failure: Some(Failure {
                what: format!("panic: {}", text.unwrap_or("of unknown kind")),
                place: "see the message on standard error".to_owned(),
                trace: Vec::new(),
            }),
        }
    })
}

/// Runs all seeds on `threads` threads. `seen` is called after each seed, from any thread.
///
/// # Panics
/// If `threads` is 0.
pub fn campaign(
    seeds: Range<u64>,
    make: Make<'_>,
    options: Options,
    threads: usize,
    seen: &(dyn Fn(&Report) + Sync),
) -> Summary {
    assert!(threads > 0, "a campaign needs a thread");
    let left = Mutex::new(seeds);
    let work = || {
        let mut summary = Summary::default();
        loop {
            let seed = left.lock().expect("nothing panics with it in hand").next();
            let Some(seed) = seed else { return summary };
            let report = guarded(seed, &|| run_twice(seed, &|| make(), options));
            seen(&report);
            summary.add(report);
        }
    };
    let mut total = Summary::default();
    let features = FEATURES.iter().chain(&wire::FEATURES);
    for &feature in features.chain(make().features()) {
        total.coverage.insert(feature, 0);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            total.merge(worker.join().expect("a worker catches panics"));
        }
    });
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Bug, Reference};

    fn short() -> Options {
        Options {
            operations: 200,
            ..Options::default()
        }
    }

    /// The number of threads does not matter to what is found.
    #[test]
    fn threads_do_not_matter() {
        let make: Make<'_> = &|| Box::new(Reference::new(None));
        let one = campaign(0..6, make, short(), 1, &|_| {});
        let two = campaign(0..6, make, short(), 2, &|_| {});
        assert_eq!(one, two);
        assert!(one.has_passed(), "{:?}", one.failed);
        assert_eq!(one.seeds_run, 6);
    }

    /// A failing seed fails a campaign, and so does an unseen feature if it is long enough.
    #[test]
    fn failures_are_reported() {
        let make: Make<'_> = &|| Box::new(Reference::new(Some(Bug::MiscountsSpace)));
        let summary = campaign(3..4, make, short(), 1, &|_| {});
        assert!(!summary.has_passed());
        assert_eq!(summary.failed[0].0, 3);
        let empty = Summary {
            seeds_run: COVERAGE_SEEDS_MIN,
            coverage: [("gc_blocks", 0)].into(),
            ..Summary::default()
        };
        assert!(!empty.has_passed());
        assert_eq!(empty.unseen(), ["gc_blocks"]);
    }
}
