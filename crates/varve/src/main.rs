//! The varve binary.

mod bench;
mod cli;
mod envelope;
mod progress;
mod serve;

fn main() -> std::process::ExitCode {
    cli::run()
}
