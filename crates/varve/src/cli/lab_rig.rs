//! `varve lab rig`.

use super::lab::{BUG, now, watch};
use super::{Exit, complain, job_file};
use crate::envelope;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_control::parse_bytes;
use varve_lab::comparators::USUAL;
use varve_lab::rig::{
    Bursts, Hosts, JobFile, Law, Mix, Pace, Protect, REQUESTS_MIN, Rate, RigError, RigReport,
    RigRequest, Setting, SystemName, run,
};
use varve_media::any_sheet;

/// Options of `varve lab rig`.
#[derive(Args)]
pub(crate) struct Options {
    /// What stands on the drives; a wrong name lists them all
    #[arg(value_name = "SYSTEM", value_parser = str::parse::<SystemName>)]
    system: SystemName,
    /// The jobs of a job file of fio, as fio:FILE, in place of all that is said of jobs here
    #[arg(long, value_name = "LOAD", value_parser = parse_load,
          conflicts_with_all = ["rw", "bs", "zipf", "reads", "jobs", "iodepth", "rate_iops", "bursts"])]
    workload: Option<PathBuf>,
    /// What hosts do; needed unless --workload says it
    #[arg(long, value_enum, required_unless_present = "workload")]
    rw: Option<Way>,
    /// Bytes of a request, such as 4k: 1 MiB at most, of raid-* 4 MiB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4k")]
    bs: u64,
    /// Skew of random places, in place of equal chances: THETA of Zipf's law
    #[arg(long, value_name = "THETA")]
    zipf: Option<f64>,
    /// Ranks of Zipf's law for each place: how many times smaller the dense drive is than what it
    /// stands for
    #[arg(long, value_name = "N", default_value_t = 1)]
    zipf_ranks: u32,
    /// Requests that read, per cent; for --rw randrw [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    reads: Option<u32>,
    /// Jobs, each a tenant with an equal part of the addresses
    #[arg(long, value_name = "N", default_value_t = 8)]
    jobs: u32,
    /// Requests that each job keeps in flight; with --rate-iops, that it has there at most
    #[arg(long, value_name = "N", default_value_t = 128)]
    iodepth: u32,
    /// An open loop: so many requests a second of all jobs, as Poisson processes, or with % that share
    /// of what a closed loop does just before; latency counts from the intended start
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate_iops: Option<Rate>,
    /// The open loop in bursts of all jobs at once, with silence between them: FACTOR times as many a second
    /// as --rate-iops says, which holds on average, and so many requests in a burst on average
    #[arg(long, value_name = "FACTOR:REQUESTS", value_parser = parse_bursts, requires = "rate_iops")]
    bursts: Option<(u32, u64)>,
    /// Drive of the fast tier of csal-*, open-cas, dm-zoned and varve, as `varve lab drive` knows it
    /// [default: slc-002]
    #[arg(long, value_name = "DRIVE")]
    fast: Option<String>,
    /// Drive of the dense tier; hdd-array has disks, hdd-002 [default: qlc-002]
    #[arg(long, value_name = "DRIVE")]
    dense: Option<String>,
    /// Dense drives: eight of hdd-array and raid-*, one of the others if nothing is said
    #[arg(long, value_name = "N")]
    drives: Option<u32>,
    /// What the dense tier of varve adds to its data: none, parity1 or parity2 [default: none]
    #[arg(long, value_name = "HOW", value_parser = str::parse::<Protect>)]
    protect: Option<Protect>,
    /// Groups that varve makes of each erase unit of a conventional drive: with more than a few, groups that die
    /// at different times share what the drive erases at once [default: 1]
    #[arg(long, value_name = "N")]
    groups_per_unit: Option<u32>,
    /// As Linux md has it, for raid-5 and raid-6: 0 always reconstructs parity from all data, 1 does
    /// what reads less, 2 modifies parity if both read as much [default: 1]
    #[arg(long, value_name = "LEVEL")]
    rmw_level: Option<u8>,
    /// Blocks of the dense tier that csal-* and varve do not export, per cent of all [default: 18]
    #[arg(long, value_name = "PERCENT")]
    over_provision: Option<f64>,
    /// Fast tier, per cent of what is exported, where there is one [default: 5]
    #[arg(long, value_name = "PERCENT")]
    fast_tier: Option<f64>,
    /// Memory that csal-* and varve have for their map, per cent of four bytes a block; 100 is all of it
    /// [default: 12.5]
    #[arg(long, value_name = "PERCENT")]
    map_cache: Option<f64>,
    /// Overwrite all addresses this many times before time counts
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    passes: f64,
    /// Processors for the software of csal-paper and varve; csal-today has one, that of others is not charged. The engine is
    /// one reactor whose work goes to whichever is free: 1 is what the daemon has [default: 2]
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    /// Make the dense drive smaller by this
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    scale: u32,
    /// Requests of the window at most, and half as many before it, 4096 or more; of a job file, requests of
    /// each group of jobs at most
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Seed of the places
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What hosts do.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Each job reads its part in order
    Read,
    /// Each job writes its part in order
    Write,
    /// Reads anywhere
    Randread,
    /// Writes anywhere
    Randwrite,
    /// Reads and writes anywhere, as --reads says
    Randrw,
}

/// A report and how long it took.
#[derive(Serialize)]
struct Timed<'a> {
    #[serde(flatten)]
    report: &'a RigReport,
    elapsed_s: f64,
}

impl Options {
    /// Measures and prints the result.
    pub(crate) fn run(&self) -> Exit {
        let request = match self.request() {
            Ok(request) => request,
            Err(exit) => return exit,
        };
        let begun = now();
        match run(&request, &watch()) {
            Ok(report) => {
                let elapsed_s = (begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
                if self.json {
                    let timed = Timed {
                        report: &report,
                        elapsed_s,
                    };
                    print!("{}", envelope::json("LabRig", &timed));
                } else {
                    print!("{}", report.table());
                    println!("{:<18} {elapsed_s} s", "took");
                }
                Exit::Ok
            }
            Err(error) => {
                complain(code_of(&error), &error.to_string(), next_of(&error));
                match error {
                    RigError::Engine(_) | RigError::Stopped(..) => Exit::Failed,
                    _ => Exit::Usage,
                }
            }
        }
    }

    /// Refuses what would change nothing, by its name: a report would tell it as if it had.
    fn has_uses(&self) -> Result<(), Exit> {
        let of_system = [
            ("--dense", self.dense.is_some(), Setting::Dense),
            ("--fast", self.fast.is_some(), Setting::Fast),
            ("--fast-tier", self.fast_tier.is_some(), Setting::Fast),
            (
                "--over-provision",
                self.over_provision.is_some(),
                Setting::OverProvision,
            ),
            ("--map-cache", self.map_cache.is_some(), Setting::MapCache),
            ("--cores", self.cores.is_some(), Setting::Cores),
            ("--protect", self.protect.is_some(), Setting::Protect),
            (
                "--groups-per-unit",
                self.groups_per_unit.is_some(),
                Setting::GroupsPerUnit,
            ),
            ("--rmw-level", self.rmw_level.is_some(), Setting::RmwLevel),
        ];
        for (option, is_given, setting) in of_system {
            if is_given && !self.system.has(setting) {
                let what = format!("{option} changes nothing of {}", self.system);
                complain("unfit-option", &what, "leave it out");
                return Err(Exit::Usage);
            }
        }
        if self.reads.is_some() && self.rw != Some(Way::Randrw) {
            complain("unfit-option", "--reads is for --rw randrw", "leave it out");
            return Err(Exit::Usage);
        }
        if self.workload.is_none() && self.requests < REQUESTS_MIN {
            let what = format!("a window has {REQUESTS_MIN} requests at least");
            complain("too-few-requests", &what, "give more --requests");
            return Err(Exit::Usage);
        }
        Ok(())
    }

    fn request(&self) -> Result<RigRequest, Exit> {
        self.has_uses()?;
        Ok(RigRequest {
            system: self.system,
            hosts: match (&self.workload, self.rw) {
                (Some(file), _) => Hosts::Fio(Arc::new(read(file)?)),
                (None, Some(way)) => Hosts::Mix(self.mix(way)?),
                (None, None) => unreachable!("one of both is required"),
            },
            fast: known(self.fast.as_deref().unwrap_or("slc-002"))?,
            dense: known(self.dense.as_deref().unwrap_or("qlc-002"))?,
            drives: self.drives.unwrap_or(self.system.drives()),
            protect: self.protect.unwrap_or(Protect::None),
            groups_per_unit: self.groups_per_unit.unwrap_or(1),
            rmw_level: self.rmw_level.unwrap_or(USUAL.rmw_level),
            over_provision: self.over_provision.unwrap_or(USUAL.over_provision),
            fast_tier: self.fast_tier.unwrap_or(USUAL.fast_tier),
            map_cache: self.map_cache.unwrap_or(USUAL.map_cache),
            passes: self.passes,
            zipf_ranks: self.zipf_ranks,
            cores: self.cores.unwrap_or(USUAL.cores),
            scale: self.scale,
            requests: self.requests,
            seed: self.seed,
        })
    }

    fn mix(&self, way: Way) -> Result<Mix, Exit> {
        let law = match (way, self.zipf) {
            (Way::Read | Way::Write, Some(_)) => {
                complain(
                    "unfit-option",
                    "--zipf is for random places",
                    "leave it out, or give --rw randwrite",
                );
                return Err(Exit::Usage);
            }
            (Way::Read | Way::Write, None) => Law::Sequential,
            (_, Some(theta)) => Law::Zipf(theta),
            (_, None) => Law::Uniform,
        };
        Ok(Mix {
            jobs: self.jobs,
            depth: self.iodepth,
            bytes: self.bs,
            reads_per_cent: match way {
                Way::Read | Way::Randread => 100,
                Way::Write | Way::Randwrite => 0,
                Way::Randrw => self.reads.unwrap_or(50),
            },
            law,
            pace: self.pace(),
        })
    }

    fn pace(&self) -> Pace {
        match (self.rate_iops, self.bursts) {
            (Some(rate), Some((factor, requests))) => Pace::Bursts(Bursts {
                rate,
                factor,
                requests,
            }),
            (Some(rate), None) => Pace::Open(rate),
            (None, _) => Pace::Closed,
        }
    }
}

fn parse_load(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("fio:") {
        Some("") => Err("the name of a job file follows fio:".to_owned()),
        Some(file) => Ok(file.into()),
        None => Err("fio:FILE".to_owned()),
    }
}

/// Requests a second, or a share of those of a closed loop.
fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate = match text.strip_suffix('%') {
        Some(share) => share.parse().map(Rate::PerCent),
        None => text.parse().map(Rate::Iops),
    };
    rate.map_err(|_| "requests a second, or per cent with %".to_owned())
}

/// How many times the average rate, and requests of a burst.
fn parse_bursts(text: &str) -> Result<(u32, u64), String> {
    let parts = text.split_once(':');
    let parsed = parts.and_then(|(factor, requests)| {
        let (factor, requests) = (factor.parse().ok()?, requests.parse().ok()?);
        Some((factor, requests))
    });
    parsed.ok_or_else(|| "FACTOR:REQUESTS, such as 4:20000".to_owned())
}

/// Reads a job file, or tells why it is no load.
fn read(file: &Path) -> Result<JobFile, Exit> {
    let plan = job_file::read(file)?;
    JobFile::new(&file.display().to_string(), &plan)
        .map_err(|error| job_file::refused(file, &error.to_string(), error.next()))
}

/// A drive that there is a sheet of.
fn known(name: &str) -> Result<&'static str, Exit> {
    any_sheet::names()
        .find(|known| *known == name)
        .ok_or_else(|| {
            let names: Vec<_> = any_sheet::names().collect();
            let next = format!("name one of {}", names.join(", "));
            complain("no-model", &format!("there is no drive {name:?}"), &next);
            Exit::NotFound
        })
}

/// A stable word for an error.
const fn code_of(error: &RigError) -> &'static str {
    match error {
        RigError::Drive(_) | RigError::ZoneShape(_) => "bad-shape",
        RigError::Pool(_) => "bad-pool",
        RigError::Bytes { .. } => "bad-block-size",
        RigError::Area(_) => "bad-area",
        RigError::Zoned(_) => "zoned",
        RigError::Disk { .. } => "disk",
        RigError::Limits(_) => "bad-limits",
        RigError::Drives { .. } => "bad-drives",
        RigError::Protect(_) => "bad-protection",
        RigError::Engine(_) => "engine",
        RigError::Stopped(..) => "stopped",
        _ => "bad-experiment",
    }
}

/// What would help.
fn next_of(error: &RigError) -> &'static str {
    match error {
        RigError::Pool(_) => "give another --over-provision, --fast-tier or --scale",
        RigError::Area(error) => error.next(),
        RigError::Zoned(error) => error.next(),
        RigError::Disk { .. } => {
            "name a flash drive with --dense, or take drop-in, hdd-array or raid-0"
        }
        RigError::Drive(_) => "give a smaller --scale",
        RigError::Drives { .. } => "give another --drives",
        RigError::Protect(_) => "leave --protect out",
        RigError::Engine(_) | RigError::Stopped(..) => BUG,
        _ => "see `varve lab rig --help`",
    }
}
