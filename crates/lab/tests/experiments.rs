//! Experiments in time, at a fraction of the size.

use varve_lab::experiments::{Ask, Finding, Outcome, named};
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
