//! A seeded executor, drives in memory, a small pool and hosts for the tests of this crate.

#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]

mod drive;
mod executor;
mod pool;

pub use drive::MemoryDrive;
pub use executor::Executor;
pub use pool::{Host, Pool, VOLUME_BLOCKS, first_word};
