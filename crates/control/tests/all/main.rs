//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

#[path = "../common/mod.rs"]
mod common;

mod away;
mod beside;
mod closing;
mod damage;
mod destroy;
mod full;
mod http;
mod labels;
mod losses;
mod names;
mod open;
mod other_use;
mod owners;
mod pools;
mod rebuild;
mod replace;
mod scrub;
mod sectors;
