//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

#[path = "../../../control/tests/common/mod.rs"]
mod common;
#[path = "../scripted/mod.rs"]
mod scripted;

mod clock;
mod hosts;
mod volumes;
