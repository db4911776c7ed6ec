//! The command line: one file per subcommand, each with its options and its `run`.
//!
//! Standard output is data, standard error is progress and errors. Exit codes are [`Exit`].

mod bench;
mod inspect;
mod lab;
mod lab_drive;
mod sim;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Host flash translation layer: makes dense flash behave like fast, safe, ordinary disks.
#[derive(Parser)]
#[command(name = "varve", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what the engine costs and does under a load
    Bench(bench::Options),
    /// Show what lies on media
    Inspect(inspect::Options),
    /// Run the engine on modelled drives, at sizes no test machine has
    Lab(lab::Options),
    /// Run the engine in virtual time, with crashes and faults drawn from seeds
    Sim(sim::Options),
}

/// How a command ended, as its exit code tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// It failed.
    Failed = 1,
    /// It was asked for something that makes no sense.
    Usage = 2,
    /// It cannot run here; nothing was changed.
    Refused = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Parses the arguments and runs the subcommand. A usage error ends the process with code 2.
pub(crate) fn run() -> ExitCode {
    let exit = match Cli::parse().command {
        Command::Bench(options) => options.run(),
        Command::Inspect(options) => options.run(),
        Command::Lab(options) => options.run(),
        Command::Sim(options) => options.run(),
    };
    exit.into()
}

/// Tells on standard error what went wrong and what to do next.
pub(crate) fn complain(what: &str, next: &str) {
    eprintln!("error: {what}");
    if !next.is_empty() {
        eprintln!("next:  {next}");
    }
}
