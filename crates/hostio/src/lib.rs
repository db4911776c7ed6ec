//! The real world behind the seam: an executor in real time, drives in memory.
//!
//! **Invariants**: a reactor and its tasks belong to one thread, what reactors share says so; an
//! executor that has nothing to do sleeps.
//!
//! **Not here**: what the engine does with it; modelled drives (`media`), simulated time (`sim`).
//! `std` is what this crate is about.

mod cpu;
mod disk;
mod executor;
mod hub;
mod io;
mod lock;
mod memory;
mod ram;
mod reactors;
mod ready;
mod ring;
mod spare;
mod stream;

pub use cpu::thread_cpu_time;
pub use disk::{Disk, DiskKind, DiskOptions, FileDrive, OpenError};
pub use executor::{Executor, Stalled};
pub use io::{Io, NoIo};
pub use ram::{RamDrive, RamMemory, Traffic};
pub use reactors::run_reactors;
