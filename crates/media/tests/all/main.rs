//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod common;

mod model;
mod modelled;
mod placement;
mod sheets;
mod snapshot;
mod theory;
mod timed;
mod zoned_times;
mod zones;
