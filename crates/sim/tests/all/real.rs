//! The real pool under the simulator: fresh seeds, and a crash after every action.

use varve_sim::campaign::campaign;
use varve_sim::real::Real;
use varve_sim::run::run;
use varve_sim::scenario::Options;

/// Seeds run by each test run: about a hundred seconds of one slow processor. `make sim` runs more.
const SEEDS: std::ops::Range<u64> = 114..126;

/// Every seed passes, twice alike, and no run is without crashes.
#[test]
fn seeds_pass() {
    let make = || -> Box<dyn varve_sim::subject::Factory> { Box::new(Real::new(None)) };
    let summary = campaign(SEEDS, &make, Options::default(), 2, &|report| {
        assert!(
            report.failure.is_some() || report.crashes >= 3,
            "seed {} has had too few crashes",
            report.seed
        );
    });
    assert_eq!(summary.failed, []);
    assert_eq!(summary.seeds_run, SEEDS.end - SEEDS.start);
}

/// The power fails after each action of a short scenario in turn, sampled where it is long: what
/// was acknowledged as durable is there after every one of them.
#[test]
fn crash_after_every_action() {
    let operations = 12;
    let pool = Real::new(None);
    let whole = run(3, &pool, Options::crash_at(operations, u64::MAX));
    assert_eq!(whole.failure, None);
    assert!(whole.actions > 500, "{} actions", whole.actions);
    let step = (whole.actions / 60).max(1);
    for action in (1..whole.actions).step_by(step as usize) {
        let report = run(3, &pool, Options::crash_at(operations, action));
        assert_eq!(
            report.failure, None,
            "varve sim --seeds 3..4 --operations {operations} --no-faults --crash-at {action}"
        );
        assert_eq!(report.crashes, 1, "action {action}");
    }
}
