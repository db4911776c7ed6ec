//! The varve binary.

#[macro_use]
mod out;

mod bench;
mod cli;
mod demo;
mod envelope;
mod load;
mod memory;
mod progress;
mod remote;
mod serve;
mod signalled;

/// A run of the simulator allocates and frees some thousand buffers a millisecond.
#[global_allocator]
static ALLOCATOR: varve_hostio::Allocator = varve_hostio::Allocator;

fn main() -> std::process::ExitCode {
    cli::run()
}
