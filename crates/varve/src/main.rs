//! The varve binary.

mod bench;
mod cli;
mod envelope;
mod progress;

fn main() -> std::process::ExitCode {
    cli::run()
}
