//! Composes the engine, arrays and drives into a pool of volumes.
//!
//! **Not here**: how a tier maps blocks (`ftl`), how arrays rebuild them (`array`).

#![no_std]

extern crate alloc;

pub mod label;

mod assembly;
mod defects;
mod error;
mod gate;
mod losses;
mod options;
mod pool;
mod rebuild;
mod rehearsal;
mod replace;
mod rows;
mod scrub;
mod settings;
mod tier;

pub use assembly::{check_dense, least_bytes};
pub use defects::Defects;
pub use error::PoolError;
pub use options::{PlanError, PoolOptions, Protect, check_counts, engine_geometry};
pub use pool::{NewPool, Pool};
pub use rebuild::{FastNeeds, RebuildMap, Rebuilt};
pub use replace::{Slot, SlotStatus};
pub use settings::{BEAT, Settings, Tuning, engine_config};
pub use varve_array::{Faults, MemberState as SlotState, Progress, RestoreError, Restored};
pub use varve_ftl::{AuditStep, ScrubLoss, ScrubProgress, ScrubReport};
