//! A campaign over the correct pool sees every feature and fails nowhere.

use varve_sim::campaign::{COVERAGE_SEEDS_MIN, campaign};
use varve_sim::reference::Reference;
use varve_sim::scenario::Options;

/// Enough seeds that an unseen feature would fail the campaign; the correct pool passes them all, and its runs are as hard
/// as promised.
#[test]
fn every_feature_is_seen() {
    let make = || -> Box<dyn varve_sim::subject::Factory> { Box::new(Reference::new(None)) };
    let summary = campaign(
        0..COVERAGE_SEEDS_MIN,
        &make,
        Options::default(),
        2,
        &|report| {
            let is_hard =
                report.operations >= 2_000 && report.crashes >= 3 && report.recovery_crashes >= 1;
            assert!(report.failure.is_some() || is_hard, "{report:?}");
        },
    );
    println!("{:?}", summary.coverage);
    assert!(
        summary.has_passed(),
        "unseen {:?}, failed {:?}",
        summary.unseen(),
        summary.failed
    );
}
