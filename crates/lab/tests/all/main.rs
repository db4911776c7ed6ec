//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod comparators;
mod drives;
mod experiments;
mod fio;
mod recovery;
mod rig;
mod rig_jobs;
mod rig_zones;
mod waf;

/// As in the program: with the system's own a fifth of the time of a rig goes by in it.
#[global_allocator]
static ALLOCATOR: varve_hostio::Allocator = varve_hostio::Allocator;
