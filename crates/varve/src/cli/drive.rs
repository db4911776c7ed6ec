//! `varve drive`.

use super::Exit;
use super::front::{Front, parse_place};
use super::pool::drives;
use clap::{Args, Subcommand};
use varve_control::{DrivePath, ReplaceDrive, Reply, Request};

/// What to do with drives.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// List the drives of a pool, or of all
    List(List),
    /// Put another drive in the place of a lost one, and fill it
    Replace(Replace),
}

/// Options of `varve drive list`.
#[derive(Args)]
pub(crate) struct List {
    /// The pool; all if left out
    pool: Option<String>,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve drive replace`.
#[derive(Args)]
pub(crate) struct Replace {
    /// The drive that is to be replaced, as `varve drive list` shows it
    #[arg(value_name = "POOL/DRIVE", value_parser = parse_place)]
    drive: (String, String),
    /// The drive that takes its place; PATH:SIZE for a new sparse file
    #[arg(value_name = "PATH")]
    new: DrivePath,
    /// Also if the old one is still in use: it is given up first
    #[arg(long)]
    give_up: bool,
    /// Use the new one although it holds something, which is lost
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    front: Front,
}

impl Action {
    /// Does it.
    pub(crate) fn run(&self) -> Exit {
        match self {
            Self::List(options) => {
                let pool = options.pool.clone();
                options.front.run(Request::DriveList { pool }, show)
            }
            Self::Replace(options) => {
                let (pool, drive) = options.drive.clone();
                let request = ReplaceDrive {
                    pool,
                    drive,
                    new: options.new.clone(),
                    give_up: options.give_up,
                    overwrite: options.overwrite,
                };
                options.front.run(Request::DriveReplace(request), show)
            }
        }
    }
}

fn show(reply: &Reply) -> Exit {
    match reply {
        Reply::DriveList { drives: list } => print!("{}", drives(list)),
        Reply::Job(job) => {
            let bytes = super::table::size(job.done_bytes);
            println!(
                "drive {}/{} is whole again: {bytes} copied",
                job.pool, job.drive
            );
            if job.unreadable_ranges > 0 {
                println!(
                    "  {} ranges could not be read anywhere",
                    job.unreadable_ranges
                );
            }
        }
        other => unreachable!("no reply to a command for drives: {other:?}"),
    }
    Exit::Ok
}
