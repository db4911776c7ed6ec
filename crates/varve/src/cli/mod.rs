//! The command line: one file per subcommand, each with its options and its `run`.
//!
//! Standard output is data, standard error is progress and errors. Exit codes are [`Exit`]. With `--json`
//! a command that fails leaves a document too (`failure`).

mod bench;
mod bench_pool;
mod check;
mod defect;
mod demo;
mod detached;
mod drive;
mod failure;
mod front;
mod hint;
mod inspect;
mod job_file;
mod lab;
mod lab_drive;
mod lab_jobs;
mod lab_memory;
mod lab_rig;
mod lab_run;
mod lab_waf;
mod pool;
mod rebuild;
mod scrub;
mod serve;
mod sim;
mod table;
mod usage;
mod volume;

pub(crate) use failure::{abandon, complain, note};
pub(crate) use hint::{ALLOW_IO, NO_IO, typed};
pub(crate) use table::{count, size};
pub(crate) use varve_control::Exit;

use crate::out;
use clap::{CommandFactory, Parser, Subcommand};
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

/// Parses the arguments and runs the subcommand.
pub(crate) fn run() -> ExitCode {
    let exit = defect::guard(|| match Cli::try_parse() {
        Ok(cli) => {
            if cli.command.is_cut_short() {
                failure::outlive_signals(cli.command.may_ask_a_daemon());
            }
            cli.command.run()
        }
        Err(error) => usage::explain(&error, &Cli::command()),
    });
    let exit = exit.unwrap_or_else(|what| {
        // The panic has told it on standard error.
        let next = "run it again with RUST_BACKTRACE=1 and report what it prints";
        failure::keep(failure::plain(
            "defect",
            &format!("a defect of varve: {what}"),
            next,
        ));
        Exit::Failed
    });
    let exit = out::end(exit);
    failure::end(exit);
    ExitCode::from(exit as u8)
}

impl Command {
    /// True if a signal may end it anywhere: all others end in good order, by themselves.
    const fn is_cut_short(&self) -> bool {
        !matches!(
            self,
            Self::Demo(_) | Self::Serve(_) | Self::Pool(pool::Action::Create(_))
        )
    }

    /// True if a daemon may be asked, which goes on with it after a signal has ended the command.
    const fn may_ask_a_daemon(&self) -> bool {
        matches!(
            self,
            Self::Check(_) | Self::Drive(_) | Self::Pool(_) | Self::Volume(_)
        )
    }

    fn run(&self) -> Exit {
        match self {
            Self::Bench(options) => options.run(),
            Self::Check(options) => options.run(),
            Self::Demo(options) => options.run(),
            Self::Drive(action) => action.run(),
            Self::Inspect(options) => options.run(),
            Self::Lab(options) => options.run(),
            Self::Serve(options) => options.run(),
            Self::Pool(action) => action.run(),
            Self::Sim(options) => options.run(),
            Self::Volume(action) => action.run(),
        }
    }
}
