//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod common;

mod hang;
mod layout;
mod mirror;
mod model;
mod narrow;
mod scrub;
mod stripe;
