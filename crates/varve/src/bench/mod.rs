//! The benchmark: an engine on drives in memory, brought to steady state, measured for a while.
//!
//! 1. `plan`: sizes of both tiers and the engine's settings. 2. `rig`: drives, arrays, engine.
//! 3. `run`: fill in order; overwrite until the fast tier has wrapped and garbage collection runs;
//!    the measured window. 4. `report`.
//!
//! With several cores each reactor has a generator of its own (`station`). Its blocks are of all reactors
//! alike, as those of a host are whose connection lives on one core: with two, half of the commands
//! cross. A run that stands still is ended, and what each reactor waits for told (`watch`).
//!
//! What is there already (`standing`) is loaded by the same flows and checked by the same oracle: a remote
//! namespace (`remote`), of whose target's state nothing is known here, or a volume whose pool is opened in
//! this process (`volume`).
//!
//! The load's own cost (random numbers, payload, check, histogram) is part of what is measured.
//!
//! **Not here**: the command line (`cli`).

mod plan;
mod remote;
mod report;
mod rig;
mod run;
mod standing;
mod station;
mod volume;
mod watch;

pub(crate) use plan::{PlanError, PlanRequest};
pub(crate) use remote::{RemoteRequest, run_remote};
pub(crate) use run::{BenchError, Load, Request, run};
pub(crate) use standing::Wanted;
pub(crate) use volume::{VolumeRequest, run_volume};
