//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod common;

mod drive_faults;
mod label_choice;
mod label_crash;
mod label_create;
mod label_quorum;
mod label_session;
mod label_store;
mod narrow;
mod rebuild;
mod replace;
mod scrub;
