//! A campaign over the correct pool sees every feature and fails nowhere.

use varve_sim::campaign::{COVERAGE_SEEDS_MIN, campaign};
use varve_sim::reference::Reference;
use varve_sim::scenario::Options;

/// Enough seeds that an unseen feature would fail the campaign.
#[test]
fn every_feature_is_seen() {
    let make = || -> Box<dyn varve_sim::subject::Factory> { Box::new(Reference::new(None)) };
    let summary = campaign(0..COVERAGE_SEEDS_MIN, &make, Options::default(), 2, &|_| {});
    println!("{:?}", summary.coverage);
    assert!(
        summary.has_passed(),
        "unseen {:?}, failed {:?}",
        summary.unseen(),
        summary.failed
    );
}
