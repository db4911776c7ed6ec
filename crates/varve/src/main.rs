//! The varve binary.

mod bench;
mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
