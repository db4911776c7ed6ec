//! `varve lab waf`.

use super::lab::{BUG, now, watch};
use super::{Exit, complain, job_file};
use crate::envelope;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_lab::waf::{FioLoad, PolicyName, WafError, WafReport, WafRequest, Workload, run};

/// Options of `varve lab waf`.
#[derive(Args)]
pub(crate) struct Options {
    /// What is written: uniform, seq, zipf:THETA, hotcold or hotcold:SPAN (nine of ten writes to a tenth of
    /// the blocks, which drifts: a block stays hot for SPAN overwrites of the volume, 2 by default), mixed4
    /// (four tenants: seq, uniform, zipf:0.8, zipf:1.2) or fio:FILE (the writes of a job file of fio)
    #[arg(long, value_name = "LOAD", value_parser = parse_load)]
    workload: Load,
    /// Where it is put: varve (the engine itself), csal-today, csal-paper, greedy-1, fifo-1,
    /// greedy-2, cost-benefit-2, sepbit or oracle
    #[arg(long, value_name = "NAME", value_parser = str::parse::<PolicyName>)]
    policy: PolicyName,
    /// Blocks of the dense tier that are not exported, per cent of all
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    over_provision: f64,
    /// Fast tier, per cent of the user's blocks; 0 for none, which the engine cannot do
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    fast_tier: f64,
    /// Groups of the dense tier: as many as a large drive has erase units
    #[arg(long, value_name = "N", default_value_t = 200)]
    groups: u32,
    /// Blocks of 4 KiB of the dense tier
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pages: u64,
    /// Overwrite the volume this many times before the measured window
    #[arg(long, value_name = "TIMES", default_value_t = 4.0)]
    warm_up: f64,
    /// Overwrite the volume this many times in the measured window
    #[arg(long, value_name = "TIMES", default_value_t = 4.0)]
    measure: f64,
    /// Ranks of Zipf's law for each block: how many times smaller the run is than what it stands for
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    zipf_ranks: u32,
    /// Seed of the places written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A load as the command line names it.
#[derive(Clone)]
enum Load {
    Named(Workload),
    File(PathBuf),
}

fn parse_load(text: &str) -> Result<Load, String> {
    match text.strip_prefix("fio:") {
        Some("") => Err("the name of a job file follows fio:".to_owned()),
        Some(file) => Ok(Load::File(file.into())),
        None => text.parse().map(Load::Named),
    }
}

/// Reads a job file, or tells why it is no load.
fn read(file: &Path) -> Result<Workload, Exit> {
    let plan = job_file::read(file)?;
    let load = FioLoad::new(&file.display().to_string(), &plan);
    let load = load.map_err(|error| job_file::refused(file, &error.to_string(), error.next()))?;
    Ok(Workload::Fio(Arc::new(load)))
}

/// A report and how long it took.
#[derive(Serialize)]
struct Timed<'a> {
    #[serde(flatten)]
    report: &'a WafReport,
    elapsed_s: f64,
}

impl Options {
    /// Runs the policy and prints the result.
    pub(crate) fn run(&self) -> Exit {
        let workload = match &self.workload {
            Load::Named(workload) => workload.clone(),
            Load::File(file) => match read(file) {
                Ok(workload) => workload,
                Err(exit) => return exit,
            },
        };
        let request = WafRequest {
            workload,
            policy: self.policy,
            over_provision: self.over_provision,
            fast_tier: self.fast_tier,
            groups: self.groups,
            blocks: self.pages,
            warm_up: self.warm_up,
            measure: self.measure,
            ranks_per_block: self.zipf_ranks,
            seed: self.seed,
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
                    print!("{}", envelope::json("LabWaf", &timed));
                } else {
                    print!("{}", report.table());
                    println!("{:<28} {elapsed_s} s", "took");
                }
                Exit::Ok
            }
            Err(error) => {
                complain(code_of(&error), &error.to_string(), next_of(&error));
                match error {
                    WafError::Engine(_) => Exit::Failed,
                    _ => Exit::Usage,
                }
            }
        }
    }
}

/// A stable word for an error.
const fn code_of(error: &WafError) -> &'static str {
    match error {
        WafError::OverProvision(_) => "bad-over-provision",
        WafError::FastTier(_) => "bad-fast-tier",
        WafError::FastTierTooSmall | WafError::Reserve(_) => "too-small",
        WafError::NoFastTier => "no-fast-tier",
        WafError::Groups(_) | WafError::Blocks { .. } | WafError::Drive(_) => "bad-shape",
        WafError::Window => "bad-window",
        WafError::Area(_) => "bad-area",
        WafError::Capacity { .. } => "no-room",
        WafError::Engine(_) => "engine",
        _ => "bad-experiment",
    }
}

/// What would help.
fn next_of(error: &WafError) -> &'static str {
    match error {
        WafError::NoFastTier => "give --fast-tier 5, or another --policy",
        WafError::FastTierTooSmall => "give a larger --fast-tier, or 0, or more --pages",
        WafError::Blocks { .. } => "give other --pages or --groups",
        WafError::Capacity { .. } => "give a larger --over-provision or more --groups",
        WafError::Area(error) => error.next(),
        WafError::Reserve(_) => "give more --pages or a larger --fast-tier",
        WafError::Engine(_) => BUG,
        _ => "see `varve lab waf --help`",
    }
}
