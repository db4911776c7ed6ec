//! The real world behind the seam: an executor in real time, drives in memory and on files and block
//! devices, byte streams, signals; all that waits for the kernel waits in one `io_uring` per reactor.
//!
//! **Invariants**: a reactor and its tasks belong to one thread, what reactors share says so; an
//! executor that has nothing to do sleeps; memory the kernel works on is freed by nobody.
//!
//! **Not here**: what the engine does with it, protocols; modelled drives (`media`), simulated time
//! (`sim`). `std` is what this crate is about.

mod allocator;
mod aside;
mod boot;
mod call;
mod cpu;
mod descriptors;
mod disk;
mod executor;
mod file;
mod hub;
mod io;
mod lock;
mod memory;
mod net;
mod preflight;
mod ram;
mod reactors;
mod ready;
mod ring;
mod signals;
mod spare;
mod stream;
mod vectors;

pub use allocator::{Allocator, keep_freed_memory};
pub use aside::aside;
pub use cpu::thread_cpu_time;
pub use descriptors::{open_descriptors, raise_descriptors};
pub use disk::{Disk, DiskKind, DiskOptions, FileDrive, OpenError};
pub use executor::{Executor, Stalled};
pub use file::replace_file;
pub use io::{Io, NoIo};
pub use memory::Piece;
pub use net::{Endpoint, Listener, Outgoing, Stream};
pub use preflight::{
    Content, DiskFacts, Finding, Magic, Preflight, Severity, User, Wanted, What, content,
    free_bytes, preflight,
};
pub use ram::{RamDrive, RamMemory, Traffic};
pub use reactors::run_reactors;
pub use signals::{Signal, Signals, hold_signals, on_signal, terminate};
