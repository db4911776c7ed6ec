//! How many processors a system has, and what that means for the engine.
//!
//! The engine of a rig is one reactor with one lane, as `Engine::create` makes it. What its work costs goes to
//! whichever of a rig's processors is free, while a reactor runs on one. So what it does with more than one is a
//! bound, and rows with one stand beside it. Pools of several reactors, which divide work in their own way and pay for what
//! crosses (`varve bench ram: --cores`), are not modelled.

use super::{Job, Row};
use crate::rig::{RigRequest, SystemName};

/// What rows and pictures call the engine on one processor.
pub(super) const ONE: &str = "varve, one processor";
/// The same on two, where it has more otherwise.
pub(super) const TWO: &str = "varve, two processors";

/// What has to be known of rates of systems whose processors are charged.
pub(super) const NOTE: &str = "Processors: csal-today has the one thread that it has, csal-paper two, as its artifact, varve two. \
    The engine of a rig is one reactor, whose work is charged to whichever of its processors is free: with two that is a bound, \
    what it could do if its work could be divided at will (pools of several reactors are not modelled). The daemon has one data \
    reactor: what it could do are the rows of \"varve, one processor\" (time-writes, time-skew, time-latency), which are those to \
    hold against csal-today.";

/// The engine as asked for, on so many processors.
pub(super) fn on(cores: usize, request: RigRequest) -> Job {
    assert_eq!(
        request.system,
        SystemName::Varve,
        "what others have is theirs"
    );
    Job::Rig(RigRequest { cores, ..request })
}

/// Rows of one figure each, called by `whose` and what it is of.
pub(super) fn rows(whose: &str, names: &[String], figures: &[f64], unit: &str) -> Vec<Row> {
    let named = names.iter().zip(figures);
    let row =
        |(name, figure): (&String, &f64)| Row::beside(format!("{whose}, {name}, {unit}"), *figure);
    named.map(row).collect()
}
