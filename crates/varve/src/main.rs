//! The varve binary.

mod bench;
mod cli;
mod envelope;
mod progress;
mod remote;

fn main() -> std::process::ExitCode {
    cli::run()
}
