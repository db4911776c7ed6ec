//! Experiments at a fraction of the size.
//!
//! What of the laboratory every run of the tests holds is listed in `docs/lab.md`, "What is tested".

use varve_lab::experiments::{Ask, EXPERIMENTS, Job, named};
use varve_lab::recovery::unwatched;
use varve_lab::rig::{self, Hosts, Law, SystemName};

/// Misses of the map cost skewed reads, which come from the fast drive, and the more the fewer pages are
/// in memory; uniform reads wait for the dense drive anyway.
#[test]
fn a_smaller_map_cache_costs_skewed_reads() {
    let ask = Ask { seed: 5, scale: 8 };
    let jobs = (named("time-map-cache").unwrap().jobs)(&ask);
    // By the law, with less and less of the map.
    let of = |law: Law| -> Vec<f64> {
        let reads = jobs.iter().filter_map(|job| match job {
            Job::Rig(request) => {
                let of_csal = request.system == SystemName::CsalToday;
                let is_read = matches!(&request.hosts, Hosts::Mix(mix) if mix.reads_per_cent == 100 && mix.law == law);
                (of_csal && is_read).then_some(request)
            }
            _ => None,
        });
        let iops = |request| match rig::run(request, &unwatched()) {
            Ok(report) => report.window.iops() as f64,
            Err(error) => panic!("{error}"),
        };
        reads.map(iops).collect()
    };
    let skewed = of(Law::Zipf(1.2));
    assert_eq!(skewed.len(), 7);
    assert!(skewed.is_sorted_by(|more, less| more > less), "{skewed:?}");
    let share = |part: f64| part / skewed[0];
    assert!(
        share(skewed[1]) < 0.95 && share(skewed[6]) < 0.7,
        "{skewed:?}"
    );
    let uniform = of(Law::Uniform);
    assert_eq!(uniform.len(), 7);
    let is_near = |one: &f64| (0.98..1.02).contains(&(one / uniform[0]));
    assert!(uniform.iter().all(is_near), "{uniform:?}");
}

/// Every experiment asks for what can be, at every scale that it is run at: what is wrong with a request is found here, not
/// after minutes.
#[test]
fn every_experiment_asks_for_what_can_be() {
    for scale in [1, 2, 4, 8, 64] {
        for experiment in EXPERIMENTS {
            let asked = Ask { seed: 5, scale };
            // At a half each can be run, though not all are.
            let ask = if scale == 2 {
                asked
            } else {
                experiment.bounded(asked)
            };
            assert!(ask.scale <= scale, "{}", experiment.name);
            let jobs = (experiment.jobs)(&ask);
            assert!(!jobs.is_empty(), "{}", experiment.name);
            for job in &jobs {
                let checked = job.check();
                assert!(checked.is_ok(), "{}: {checked:?}: {job:?}", experiment.name);
            }
        }
    }
}
