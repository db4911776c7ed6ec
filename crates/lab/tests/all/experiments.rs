//! Experiments at a fraction of the size.
//!
//! What of the laboratory every run of the tests holds is listed in `docs/lab.md`, "What is tested".

use varve_lab::experiments::{Ask, EXPERIMENTS, Finding, Outcome, Verdict, named};
use varve_lab::recovery::unwatched;

fn outcome(name: &str, scale: u32) -> Outcome {
    let ask = Ask { seed: 5, scale };
    let experiment = named(name).expect(name);
    let jobs = (experiment.jobs)(&ask);
    let run = |job: &varve_lab::experiments::Job| {
        job.run(&unwatched())
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let findings: Vec<Finding> = jobs.iter().map(run).collect();
    experiment.conclude(&ask, &findings)
}

/// Misses of the map cost skewed reads, which come from the fast drive, and the more the fewer pages are
/// in memory; uniform reads wait for the dense drive anyway.
#[test]
fn a_smaller_map_cache_costs_skewed_reads() {
    let outcome = outcome("time-map-cache", 8);
    let of = |load: &str| -> Vec<f64> {
        let rows = outcome.rows.iter().filter(|row| {
            let share = row
                .what
                .strip_prefix(load)
                .and_then(|rest| rest.strip_prefix(", "));
            share.is_some_and(|share| share.ends_with("% of the map") && !share.contains(','))
        });
        rows.map(|row| row.ours).collect()
    };
    let skewed = of("csal-today, reads, Zipf 1.2");
    assert_eq!(skewed.len(), 6, "{:?}", outcome.rows);
    assert!(skewed.is_sorted_by(|more, less| more > less), "{skewed:?}");
    assert!(skewed[0] < 95.0 && skewed[5] < 70.0, "{skewed:?}");
    let uniform = of("csal-today, reads");
    assert_eq!(uniform.len(), 6);
    assert!(
        uniform.iter().all(|share| (98.0..102.0).contains(share)),
        "{uniform:?}"
    );
}

/// A start reads what the document's three ways would take as long for as it says, and the engine's start is shorter
/// than the shortest of them at half of the size too.
#[test]
fn starts_take_what_is_published() {
    let outcome = outcome("time-recovery", 2);
    let off: Vec<_> = outcome
        .rows
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Off | Verdict::Unjudged))
        .collect();
    assert!(off.is_empty(), "{off:?}");
    assert_eq!(outcome.count(Verdict::Reproduced), 3);
}

/// Every experiment asks for what can be, whole and at half of the size (`waf-scale` has no more room below): what is wrong
/// with a request is found here, not after minutes.
#[test]
fn every_experiment_asks_for_what_can_be() {
    for scale in [1, 2] {
        for experiment in EXPERIMENTS {
            let ask = Ask { seed: 5, scale };
            let jobs = (experiment.jobs)(&ask);
            assert!(!jobs.is_empty(), "{}", experiment.name);
            for job in &jobs {
                let checked = job.check();
                assert!(checked.is_ok(), "{}: {checked:?}: {job:?}", experiment.name);
            }
        }
    }
}
