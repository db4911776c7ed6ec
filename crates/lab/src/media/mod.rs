//! What the pool stands on: two modelled tiers that complete every command at once.

mod drive;
mod leaves;
mod pack;
mod region;
mod store;

pub(crate) use drive::{Keeping, Kind, ModelDrive, Moved, Traffic};
