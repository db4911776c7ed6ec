//! The real world behind the seam: an executor in real time, drives in memory.
//!
//! **Invariants**: everything here belongs to one thread; an executor that has nothing to do
//! sleeps.
//!
//! **Not here**: what the engine does with it; modelled drives (`media`), simulated time (`sim`).
//! `std` is what this crate is about.

mod cpu;
mod executor;
mod memory;
mod ram;
mod ready;
mod stream;

pub use cpu::thread_cpu_time;
pub use executor::{Executor, Stalled};
pub use ram::{RamDrive, Traffic};
