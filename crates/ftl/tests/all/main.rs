//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

#[path = "../common/mod.rs"]
mod common;

mod aging;
mod audit;
mod bypass;
mod bypass_faults;
mod faults;
mod idle;
mod lane;
mod limits;
mod lost_leaf;
mod map_model;
mod reads;
mod rebuild;
mod recall;
mod resize;
mod restart;
mod retention;
mod scrub;
mod short_log;

// What the helpers, which the unit tests have too, call the crate.
use varve_ftl as ftl;
