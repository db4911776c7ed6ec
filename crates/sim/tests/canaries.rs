//! Planted bugs are found, each on a seed that passes without it.
//!
//! Where a seed does not show its bug any more, look for another:
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
    // The engine's own assertions prove nothing about the checkers.
    assert!(!found.what.starts_with("panic"), "{}", found.what);
}

macro_rules! canaries {
    ($($name:ident: $canary:ident on $seed:literal,)*) => {$(
        #[test]
        fn $name() {
            finds(Canary::$canary, $seed);
        }
    )*};
}

canaries! {
    ack_before_second_mirror: AckBeforeSecondMirror on 0,
    free_before_flush: FreeBeforeFlush on 0,
    unconditional_move: UnconditionalMove on 2,
    leaf_through_off_by_one: LeafThroughOffByOne on 0,
    stale_member_accepted: StaleMemberAccepted on 5,
    live_block_with_zero_bit: LiveBlockWithZeroBit on 0,
    published_conflict_rule: PublishedConflictRule on 14,
}
