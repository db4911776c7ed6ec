//! The checkers find every bug of the broken pools; that they find none in the correct one is in `campaign`.

use varve_sim::reference::{Bug, Reference};
use varve_sim::run::{Report, run};
use varve_sim::scenario::Options;

/// Seeds within which a bug must be found.
const SEEDS: u64 = 50;

fn first_failure(bug: Bug) -> Option<Report> {
    let reports = (0..SEEDS).map(|seed| {
        let options = Options::default();
        run(seed, &Reference::new(Some(bug)), options)
    });
    reports.into_iter().find(|report| report.failure.is_some())
}

/// Every bug is found.
#[test]
fn every_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        match first_failure(bug) {
            Some(report) => {
                let failure = report.failure.expect("a failed run");
                println!(
                    "{bug:?}: seed {}: {} ({})",
                    report.seed, failure.what, failure.place
                );
            }
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, []);
}

/// The same seed does the same twice; another seed does something else.
#[test]
fn runs_are_deterministic() {
    let hash = |seed| run(seed, &Reference::new(None), Options::default()).hash;
    for seed in 0..5 {
        assert_eq!(hash(seed), hash(seed));
        assert_ne!(hash(seed), hash(seed + 1));
    }
}

/// A crash after every action of a short run, sampled.
#[test]
fn crash_at_every_action() {
    let options = Options::crash_at(20, u64::MAX);
    let whole = run(1, &Reference::new(None), options);
    assert_eq!(whole.failure, None);
    assert!(whole.actions > 100);
    let mut missed = Vec::new();
    for action in (1..whole.actions).step_by(37) {
        let options = Options::crash_at(20, action);
        let report = run(1, &Reference::new(None), options);
        assert_eq!(report.failure, None, "action {action}");
        if report.crashes == 0 {
            missed.push(action);
        }
    }
    // The last action of a life: it has ended before the power can fail.
    assert!(missed.len() <= 1, "of {}: {missed:?}", whole.actions);
}
