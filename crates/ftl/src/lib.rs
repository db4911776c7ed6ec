//! The host flash translation layer: every write goes to the log on the fast tier and is
//! acknowledged there; what is still alive later moves to the dense tier in full stripes.
//!
//! Reading order: [`geometry`], [`units`], [`map`], [`lane`], `shard`, `engine`; then the flows:
//! `read`, `merge`, `aging`, `checkpoint`, `recovery`, `cleaner`, `placement`, `gc`.
//!
//! **Not here**: redundancy (`array`), labels and drives (`pool`), the wire (`target`), time and
//! tasks (`io::World`).

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
use crate as ftl;

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

pub mod geometry;
mod keep_pace;
mod keeps;
pub mod lane;
pub mod load;
pub mod map;
pub mod units;

mod admission;
mod aging;
mod areas;
mod audit;
mod batch;
mod canary;
mod candidate;
mod catalogue;
mod changes;
mod checkpoint;
mod chunk_ages;
mod cleaner;

mod config;
mod contents;
mod control;
mod crossing;
mod discards;
mod engine;
mod error;
mod gate;
mod gc;
mod handles;
mod host;
mod idle;
mod joint;
mod lifetime;
mod limits;
mod memory;
mod merge;
mod narrow;
mod open_groups;
mod outage;
mod pace;
mod placement;
mod pool_clock;
mod posts;
mod preload;
mod progress;
mod read;
mod read_ahead;
mod rebuild;
mod recall;
mod recount;
mod recovery;
mod reserve;
mod retention;
mod roles;
mod rooms;
mod run_reads;
mod runs;
mod scrub;
mod seed;
mod shard;
mod shared;
mod shortage;
mod tally;
mod turn;
mod usage;
mod victim_chunks;
mod victims;
mod volumes;
mod waits;
mod ways;

pub use audit::{AuditError, AuditNews, AuditReport, AuditStep, BadCopy, Mapped};
pub use catalogue::NewVolume;
pub use config::{Canary, Config};
pub use engine::{Engine, Seats};
pub use error::{EngineError, StopReason};
pub use geometry::{Geometry, Tier};
pub use lane::LaneLimits;
pub use map::{CHAIN_AGE_MAX, MapLimits};
pub use memory::EngineMemory;
pub use outage::DenseOutage;
pub use rebuild::{
    Draft, FoundVolume, RebuildError, RebuildPhase, RebuildProgress, RebuildReport, Rebuilding,
};
pub use recall::Recall;
pub use recovery::{Damage, RecoverError, RecoveryReport, StartPhase};
pub use reserve::{CHUNKS_MIN, Demand, GROUPS_MIN, Reserve, ReserveError};
pub use roles::owners;
pub use scrub::{Beneath, ScrubLoss, ScrubProgress, ScrubReport};
pub use shared::Identity;
