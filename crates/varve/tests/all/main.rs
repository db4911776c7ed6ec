//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod daemon;
#[path = "../../../server/tests/scripted/mod.rs"]
mod scripted;

mod commands;
mod demo;
mod failures;
mod lab;
mod serve;
mod serve_pools;
mod warnings;
