//! The command line: one file per subcommand, each with its options and its `run`.
//!
//! Standard output is data, standard error is progress and errors. Exit codes are [`Exit`].

mod bench;
mod bench_pool;
mod check;
mod demo;
mod drive;
mod front;
mod inspect;
mod lab;
mod lab_drive;
mod pool;
mod serve;
mod sim;
mod table;
mod volume;

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
    /// Check a pool that no host uses: map against P2L against checksums, every copy
    Check(check::Options),
    /// Show what Varve does: a pool on sparse files, a self-test, a server to connect to
    Demo(demo::Options),
    /// Drives of pools: list, replace
    #[command(subcommand)]
    Drive(drive::Action),
    /// Show what lies on media
    Inspect(inspect::Options),
    /// Run the engine on modelled drives, at sizes no test machine has
    Lab(lab::Options),
    /// Serve namespaces to NVMe/TCP hosts until a signal
    Serve(serve::Options),
    /// Pools: create, list, status, import, export, destroy
    #[command(subcommand)]
    Pool(pool::Action),
    /// Run the engine in virtual time, with crashes and faults drawn from seeds
    Sim(sim::Options),
    /// Volumes: create, list, resize, delete
    #[command(subcommand)]
    Volume(volume::Action),
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
    /// What it was to act on does not exist.
    NotFound = 3,
    /// It cannot run here; nothing was changed.
    Refused = 4,
    /// Someone else uses it, or it exists already.
    Conflict = 5,
    /// What was looked at is not as it should be.
    Degraded = 6,
}

impl From<varve_control::Exit> for Exit {
    fn from(exit: varve_control::Exit) -> Self {
        match exit {
            varve_control::Exit::Ok => Self::Ok,
            varve_control::Exit::Failed => Self::Failed,
            varve_control::Exit::Usage => Self::Usage,
            varve_control::Exit::NotFound => Self::NotFound,
            varve_control::Exit::Refused => Self::Refused,
            varve_control::Exit::Conflict => Self::Conflict,
            varve_control::Exit::Degraded => Self::Degraded,
        }
    }
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
        Command::Check(options) => options.run(),
        Command::Demo(options) => options.run(),
        Command::Drive(action) => action.run(),
        Command::Inspect(options) => options.run(),
        Command::Lab(options) => options.run(),
        Command::Serve(options) => options.run(),
        Command::Pool(action) => action.run(),
        Command::Sim(options) => options.run(),
        Command::Volume(action) => action.run(),
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
