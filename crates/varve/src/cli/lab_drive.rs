//! `varve lab drive`.

use super::lab::watch;
use super::{Exit, complain};
use crate::envelope;
use clap::{Args, ValueEnum};
use varve_control::parse_bytes;
use varve_lab::drive::{DriveError, Job, Measure, measure};
use varve_media::{AnySheet, any_sheet};

/// Options of `varve lab drive`.
#[derive(Args)]
pub(crate) struct Options {
    /// Name of a drive; a wrong one lists them all
    model: String,
    /// What is done to it
    #[arg(long, value_enum)]
    job: JobName,
    /// Bytes of a command, such as 4k or 128k
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4k")]
    bs: u64,
    /// Commands in flight
    #[arg(long, value_name = "N", default_value_t = 256)]
    qd: u32,
    /// Seed of the places
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is done to the drive.
#[derive(Clone, Copy, ValueEnum)]
enum JobName {
    /// Reads, one behind the other
    Seqread,
    /// Writes, one behind the other
    Seqwrite,
    /// Reads anywhere
    Randread,
    /// Writes anywhere, in steady state
    Randwrite,
    /// Appends to one zone after the other, of zoned drives
    Append,
}

impl Options {
    /// Measures the drive and prints the result.
    pub(crate) fn run(&self) -> Exit {
        let sheet = match AnySheet::named(&self.model) {
            Ok(sheet) => sheet,
            Err(error) => {
                let names: Vec<_> = any_sheet::names().collect();
                let next = format!("name one of {}", names.join(", "));
                complain("no-model", &error.to_string(), &next);
                return Exit::NotFound;
            }
        };
        let what = Measure {
            job: self.job.job(),
            block_bytes: self.bs,
            depth: self.qd,
            seed: self.seed,
        };
        match measure(&sheet, &what, &watch()) {
            Ok(report) => {
                let text = if self.json {
                    envelope::json("LabDrive", &report)
                } else {
                    report.table()
                };
                print!("{text}");
                Exit::Ok
            }
            Err(error) => {
                complain(code(&error), &error.to_string(), &next(&error));
                Exit::Usage
            }
        }
    }
}

impl JobName {
    const fn job(self) -> Job {
        match self {
            Self::Seqread => Job::SeqRead,
            Self::Seqwrite => Job::SeqWrite,
            Self::Randread => Job::RandRead,
            Self::Randwrite => Job::RandWrite,
            Self::Append => Job::Append,
        }
    }
}

/// A stable word for an error.
const fn code(error: &DriveError) -> &'static str {
    match error {
        DriveError::Shape(_) | DriveError::ZoneShape(_) => "bad-shape",
        DriveError::Block(_) => "bad-block-size",
        DriveError::Depth(_) => "bad-depth",
        DriveError::InOrder => "in-order-only",
        DriveError::NoZones => "no-zones",
        _ => "bad-job",
    }
}

/// What to do about an error.
fn next(error: &DriveError) -> String {
    let option = |job: &Job| {
        let all = JobName::value_variants().iter();
        let name = all.filter(|name| name.job() == *job).find_map(|name| {
            let value = name.to_possible_value()?;
            Some(format!("--job {}", value.get_name()))
        });
        name.expect("each job has a name")
    };
    let options: Vec<_> = error.instead().iter().map(option).collect();
    if options.is_empty() {
        return "see `varve lab drive --help`".to_owned();
    }
    format!("use {}", options.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_answered_with_what_can() {
        assert_eq!(
            next(&DriveError::InOrder),
            "use --job seqwrite or --job append"
        );
        assert_eq!(next(&DriveError::Depth(0)), "see `varve lab drive --help`");
    }
}
