//! Planted bugs are found, each on a seed that passes without it.
//!
//! Every change of the engine can shift what a seed does. `canaries/hints.txt` says where each bug
//! was found last; where the hint is stale the seeds from 0 on are tried, and the new hint is
//! printed, to be committed.
//!
//! A finding is what somebody outside the engine sees: a checker, or an error that a host or an
//! operator gets. Panics of the engine and what its own audit says prove nothing about the
//! checkers.

use std::io::Write;
use varve_ftl::Canary as Pool;
use varve_sim::campaign::guarded;
use varve_sim::canary::Canary;
use varve_sim::real::Real;
use varve_sim::run::{Failure, run};
use varve_sim::scenario::Options;
use varve_sim::wire::WireCanary as Wire;

/// Seeds within which each bug must be found.
const SEEDS: u64 = 500;
/// Where each bug was found last: a line is a canary's name and a seed.
const HINTS: &str = include_str!("canaries/hints.txt");

/// Why a seed fails under what this bug needs to show, planted or not.
fn failure(seed: u64, canary: Canary, is_planted: bool) -> Option<Failure> {
    let options = Options {
        stress: canary.stress(),
        ..Options::default()
    };
    let factory = || Real::new(is_planted.then_some(canary));
    guarded(seed, &|| run(seed, &factory(), options)).failure
}

/// What shows the bug on a seed that passes without it, if anything does.
fn finding(canary: Canary, seed: u64) -> Option<Failure> {
    let found = failure(seed, canary, true)?;
    let is_inside = ["panic", "audit"]
        .iter()
        .any(|how| found.what.starts_with(how));
    (!is_inside && failure(seed, canary, false).is_none()).then_some(found)
}

fn hint(canary: Canary) -> Option<u64> {
    let mut lines = HINTS.lines().filter_map(|line| line.split_once(' '));
    let (_, seed) = lines.find(|(name, _)| *name == canary.name())?;
    Some(seed.trim().parse().expect("a hint is a seed"))
}

fn is_found(canary: Canary) {
    let hint = hint(canary);
    if let Some(found) = hint.and_then(|seed| finding(canary, seed)) {
        println!("{}: {} ({})", canary.name(), found.what, found.place);
        return;
    }
    let mut seeds = (0..SEEDS).filter(|seed| Some(*seed) != hint);
    let found = seeds.find_map(|seed| Some((seed, finding(canary, seed)?)));
    let (seed, found) =
        found.unwrap_or_else(|| panic!("no seed below {SEEDS} shows {}", canary.name()));
    println!("{}: {} ({})", canary.name(), found.what, found.place);
    // Not by a macro: what those print is shown only where a test fails.
    let line = format!("the hint is stale, the new one: {} {seed}\n", canary.name());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Each canary has its hint, and each hint its canary.
#[test]
fn hints_are_complete() {
    let hinted: Vec<&str> = HINTS
        .lines()
        .filter_map(|line| Some(line.split_once(' ')?.0))
        .collect();
    let all: Vec<&str> = Canary::all().map(Canary::name).collect();
    assert_eq!(hinted, all);
}

macro_rules! canaries {
    ($($name:ident: $kind:ident $canary:ident,)*) => {$(
        #[test]
        fn $name() {
            is_found(Canary::$kind($kind::$canary));
        }
    )*};
}

canaries! {
    ack_before_second_mirror: Pool AckBeforeSecondMirror,
    free_before_flush: Pool FreeBeforeFlush,
    free_before_commit: Pool FreeBeforeCommit,
    discard_before_commit: Pool DiscardBeforeCommit,
    unconditional_move: Pool UnconditionalMove,
    discard_not_logged: Pool DiscardNotLogged,
    leaf_through_off_by_one: Pool LeafThroughOffByOne,
    old_epoch_accepted: Pool OldEpochAccepted,
    stale_member_accepted: Pool StaleMemberAccepted,
    generation_ignored: Pool GenerationIgnored,
    p2l_unverified: Pool P2lUnverified,
    live_block_with_zero_bit: Pool LiveBlockWithZeroBit,
    completion_order: Pool CompletionOrder,
    published_conflict_rule: Pool PublishedConflictRule,
    tail_not_equalised: Pool TailNotEqualised,
    repair_unpinned: Pool RepairUnpinned,
    lowest_birth_wins: Pool LowestBirthWins,
    scrub_trusts_data: Pool ScrubTrustsData,
    narrow_without_sum: Pool NarrowWithoutSum,
    queue_before_remains: Wire QueueBeforeRemains,
    answer_before_write: Wire AnswerBeforeWrite,
    no_quiet_time: Wire NoQuietTime,
    flush_vouches_for_lost: Wire FlushVouchesForLost,
}
