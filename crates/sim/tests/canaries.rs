//! Planted bugs are found, each on a seed that passes without it. Not here, because no seed tried
//! shows them: `StaleMemberAccepted`, `GenerationIgnored`.
//!
//! Where none of the seeds shows a bug any more, look for another:
//! `varve sim --seeds 0..500 --canary NAME`, in a build with the feature `canary`.

use varve_ftl::Canary;
use varve_sim::campaign::guarded;
use varve_sim::real::Real;
use varve_sim::run::{Failure, run};
use varve_sim::scenario::Options;

fn failure(seed: u64, canary: Option<Canary>) -> Option<Failure> {
    let report = guarded(seed, &|| run(seed, &Real::new(canary), Options::default()));
    report.failure
}

/// The bug makes a seed fail that passes without it.
fn finds(canary: Canary, seed: u64) {
    assert_eq!(failure(seed, None), None, "without the canary");
    let found = failure(seed, Some(canary));
    let found = found.unwrap_or_else(|| panic!("seed {seed} does not show {}", canary.name()));
    println!("{}: {} ({})", canary.name(), found.what, found.place);
}

#[test]
fn free_before_flush() {
    finds(Canary::FreeBeforeFlush, 0);
}

#[test]
fn unconditional_move() {
    finds(Canary::UnconditionalMove, 0);
}

#[test]
fn discard_not_logged() {
    finds(Canary::DiscardNotLogged, 0);
}

#[test]
fn leaf_through_off_by_one() {
    finds(Canary::LeafThroughOffByOne, 0);
}

#[test]
fn old_epoch_accepted() {
    finds(Canary::OldEpochAccepted, 0);
}

#[test]
fn live_block_with_zero_bit() {
    finds(Canary::LiveBlockWithZeroBit, 0);
}

#[test]
fn completion_order() {
    finds(Canary::CompletionOrder, 0);
}
