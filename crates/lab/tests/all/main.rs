//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod drives;
mod experiments;
mod fio;
mod recovery;
mod rig;
mod rig_jobs;
mod rig_zones;
mod waf;
