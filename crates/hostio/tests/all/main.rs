//! The tests of this crate from outside in one binary: linked once, long ones run beside others.
//!
//! **Not here**: `held` and `terminate`, which need a process of their own.

#[path = "../common/mod.rs"]
mod common;

mod contract;
mod net;
mod pool_on_files;
mod preflight;
mod rings;
mod space;
