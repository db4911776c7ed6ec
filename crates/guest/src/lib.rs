//! A Linux guest in QEMU as client of tests, and the replay of what a guest's drives were sent.
//!
//! [`prepare`] downloads a kernel, QEMU and the guest's programs through apt without changing the
//! system, and makes the guest's memory disk of them; it works offline afterwards. [`Machine`]
//! boots it with a script, follows its console and answers its marks. [`suite`] is the tests.
//! [`log_writes`] reads the log of the kernel's dm-log-writes.
//!
//! What cannot be prepared is reported as skipped, with the reason; never as passed.
//!
//! **Not here**: anything of Varve. The guest sees the program that a user would run.

pub mod log_writes;

mod apt;
mod bundle;
mod clock;
mod console;
mod cpio;
mod distribution;
mod error;
mod image;
mod machine;
mod modules;
mod prepare;
mod recipe;
mod scenarios;
mod server;
mod staging;
mod suite;

pub use error::Unprepared;
pub use machine::{Boot, Machine};
pub use prepare::{Prepared, prepare};
pub use suite::{Verdict, names, run};
