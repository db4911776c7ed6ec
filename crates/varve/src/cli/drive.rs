//! `varve drive`.

use super::Exit;
use super::front::{Front, parse_slot};
use super::hint::typed;
use super::pool::drives;
use super::table::count;
use clap::{Args, Subcommand};
use varve_control::{DrivePath, JobView, ReplaceDrive, Reply, Request};

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
    #[arg(value_name = "POOL/DRIVE", value_parser = parse_slot)]
    drive: (String, String),
    /// The drive that takes its place; PATH:SIZE for a new sparse file
    #[arg(value_name = "PATH")]
    new: DrivePath,
    /// Also if the old one is still in use: it is given up, and copied from as far as it can be read. Refused where it
    /// holds what no other drive does
    #[arg(long)]
    give_up: bool,
    /// With --give-up: fill the new one from the other drives alone, where the old one is not to be trusted
    /// and `varve check` says that the others hold everything
    #[arg(long, requires = "give_up")]
    from_others: bool,
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
                    from_others: options.from_others,
                    overwrite: options.overwrite,
                };
                options.front.run(Request::DriveReplace(request), show)
            }
        }
    }
}

/// What became of a drive that was filled: whole only if all that it should hold could be read.
fn filled(job: &JobView) -> String {
    let (pool, drive) = (&job.pool, &job.drive);
    let bytes = super::table::size(job.done_bytes);
    match job.unreadable_ranges {
        0 => format!("drive {pool}/{drive} is filled: {bytes} copied\n"),
        ranges => typed(&format!(
            "drive {pool}/{drive} takes part again, but is not whole: {} of {bytes} could not be read \
             anywhere\n  next: varve check {pool}, when it is closed, tells what is lost with them\n",
            count(ranges, "range")
        )),
    }
}

fn show(reply: &Reply) -> Exit {
    match reply {
        Reply::DriveList { drives: list } => print!("{}", drives(list)),
        Reply::Job(job) => print!("{}", filled(job)),
        other => unreachable!("no reply to a command for drives: {other:?}"),
    }
    Exit::Ok
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_control::JobState;

    /// What could not be read is said first, not behind a good word.
    #[test]
    fn a_drive_that_lacks_something_is_not_called_whole() {
        let job = |unreadable_ranges| JobView {
            job: 1,
            does: "replace-drive".to_owned(),
            pool: "p".to_owned(),
            drive: "dense1".to_owned(),
            state: JobState::Done,
            done_bytes: 1 << 30,
            total_bytes: 1 << 30,
            elapsed_ns: 1,
            bytes_per_s: 1,
            left_ns: None,
            unreadable_ranges,
            scrub: None,
            failure: None,
            rebuilt: None,
        };
        assert!(filled(&job(0)).starts_with("drive p/dense1 is filled"));
        let told = filled(&job(3));
        assert!(told.contains("not whole: 3 ranges"), "{told}");
        assert!(told.contains("varve check p"), "{told}");
    }
}
