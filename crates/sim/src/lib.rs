//! The simulator: a whole pool, its drives, its hosts and their network in virtual time, from one seed.
//!
//! One thread, one clock that jumps, one order of everything that is ready, all drawn from the
//! seed. Drives lose, tear and reorder what was not flushed, and break in every way that
//! redundancy promises to survive, and in no other (the fault atlas). The checkers know what hosts
//! sent and what they were told, and share no code with the engine.
//!
//! Reading order: [`rng`], [`fingerprint`], [`executor`], [`platter`], [`cache`], [`atlas`],
//! [`laps`], [`drive`], [`content`], [`checker`], [`patience`], [`subject`], [`reference`], [`wire`], [`workload`],
//! [`host`], [`scenario`], [`guarantee`], [`run`], [`campaign`], [`shrink`].
//!
//! **Invariants**: a run is a function of its seed and subject; no wall clock, no thread, no
//! random hasher; drives outlive a crash, tasks of the pool do not.
//!
//! **Not here**: the engine (it is reached through [`subject::Subject`] only), target and initiator, media
//! timing models.

pub mod assumptions;
pub mod atlas;
pub mod cache;
pub mod campaign;
pub mod canary;
pub mod checker;
pub mod content;
pub mod drive;
pub mod executor;
pub mod fingerprint;
pub mod guarantee;
pub mod host;
pub mod laps;
mod life;
pub mod patience;
pub mod platter;
pub mod real;
pub mod reference;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod scrubs;
mod second_loss;
pub mod shortage;
pub mod shrink;
pub mod stress;
pub mod subject;
mod tier_outage;
pub mod wire;
pub mod workload;
