//! `varve lab`.

use super::bench_pool::parse_times;
use super::lab_memory::refusal;
use super::{Exit, complain};
use crate::envelope;
use crate::memory;
use crate::progress::Progress;
use clap::{Args, Subcommand, ValueEnum};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use varve_control::{SizeError, parse_bytes};
use varve_lab::plan::{Plan, PlanRequest};
use varve_lab::recovery::{Fill, Request, Watch, experiment};
use varve_units::Nanos;

/// What to do when the engine fails.
pub(super) const BUG: &str = "report this as a bug, with the command line";

/// Options of `varve lab`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// The experiments: what each reproduces, and of which document
    List(super::lab_run::ListOptions),
    /// Run one experiment: published figures beside ours
    Run(super::lab_run::RunOptions),
    /// Run all experiments, on all processors
    All(super::lab_run::AllOptions),
    /// What a pool of a capacity costs: fast-tier writes, checkpoints, memory, a start after the
    /// loss of power at the worst instant
    Recovery(Recovery),
    /// What a modelled drive does alone, in virtual time, beside what is published of it
    Drive(super::lab_drive::Options),
    /// Write amplification of a placement policy: the engine's beside others', without time
    Waf(super::lab_waf::Options),
    /// A storage system on modelled drives in virtual time: the engine, or a model of another
    Rig(super::lab_rig::Options),
}

/// Options of `varve lab recovery`.
#[derive(Args)]
struct Recovery {
    /// Exported bytes of the pool, such as 15.36TB (powers of 1000) or 1TiB
    #[arg(long, value_parser = parse_quantity)]
    capacity: u64,
    /// Limit of all memory [default: the larger of 96 MiB and 0.02 % of the capacity]
    #[arg(long, value_name = "BYTES", value_parser = parse_quantity)]
    dram: Option<u64>,
    /// Run at 1/N with all ratios kept, a power of two
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u64,
    /// Seed of the places written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Dense data blocks that are not exported, per cent of all
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    over_provision: u32,
    /// Fast tier, per cent of the dense tier
    #[arg(long, value_name = "PERCENT", default_value_t = 3)]
    fast_tier: u32,
    /// Writes in flight, 65536 at most
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    iodepth: u32,
    /// What the volume holds at first
    #[arg(long, value_enum, default_value = "past")]
    fill: Filling,
    /// Overwrite the volume this many times, at least, before the measured window
    #[arg(long, value_name = "TIMES", default_value_t = 0.0, value_parser = parse_times)]
    overwrites: f64,
    /// Bytes a second that a start reads from the fast tier
    #[arg(long, value_name = "BYTES", value_parser = parse_quantity, default_value = "13GB")]
    bandwidth: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the volume holds at first.
#[derive(Clone, Copy, ValueEnum)]
enum Filling {
    /// All its blocks, where uniform overwrites would have left them, stated and not written
    Past,
    /// All its blocks, written in order; add --overwrites for garbage collection to be steady
    Written,
    /// Nothing: garbage collection has nothing to do
    Nothing,
}

impl Options {
    /// Runs the experiment and prints its result.
    pub(crate) fn run(&self) -> Exit {
        // A run of a pool of full size takes what memory there is: what it frees others need. And a start is measured with
        // its checksums.
        if !matches!(self.experiment, Experiment::Recovery(_)) {
            varve_hostio::keep_freed_memory();
            varve_format::make_checksums_symbolic();
        }
        match &self.experiment {
            Experiment::Recovery(recovery) => recovery.run(),
            Experiment::Drive(drive) => drive.run(),
            Experiment::Waf(waf) => waf.run(),
            Experiment::Rig(rig) => rig.run(),
            Experiment::List(list) => list.run(),
            Experiment::Run(run) => run.run(),
            Experiment::All(all) => all.run(),
        }
    }
}

impl Recovery {
    fn run(&self) -> Exit {
        let pool = PlanRequest {
            capacity: self.capacity,
            dram: self.dram,
            scale: self.scale,
            over_provision: self.over_provision,
            fast_per_cent: self.fast_tier,
        };
        let plan = match Plan::new(&pool) {
            Ok(plan) => plan,
            Err(error) => {
                complain(
                    "bad-pool",
                    &error.to_string(),
                    "give another --scale or --capacity",
                );
                return Exit::Usage;
            }
        };
        let request = Request {
            seed: self.seed,
            depth: self.iodepth,
            fill: match self.fill {
                Filling::Past => Fill::Past,
                Filling::Written => Fill::Written,
                Filling::Nothing => Fill::Nothing,
            },
            overwrites: self.overwrites,
            turns: 0,
            bandwidth: self.bandwidth,
        };
        if let Some(available) = memory::available()
            && let Some((what, next)) = refusal(&pool, &request, available)
        {
            complain("no-memory", &what, &next);
            return Exit::Refused;
        }
        match experiment(&plan, &request, watch()) {
            Ok(report) => {
                let text = if self.json {
                    envelope::json("LabRecovery", &report)
                } else {
                    report.table()
                };
                print!("{text}");
                match report.shortcoming() {
                    None => Exit::Ok,
                    Some(what) => {
                        let next = "`varve lab recovery --help` tells what can be given: --dram is the limit of memory, \
                                    --scale how small a run is";
                        complain("not-steady", what, next);
                        Exit::Failed
                    }
                }
            }
            Err(error) => {
                complain("engine", &error.to_string(), BUG);
                Exit::Failed
            }
        }
    }
}

/// Shows phases on standard error, in real time.
pub(super) fn watch() -> Watch {
    let start = now();
    let shown: RefCell<Option<(&'static str, Progress)>> = RefCell::new(None);
    Rc::new(move |name, share, more| {
        let now = Nanos(start.elapsed().as_nanos() as u64);
        let mut shown = shown.borrow_mut();
        if shown.as_ref().is_none_or(|(before, _)| *before != name) {
            *shown = Some((name, Progress::new(name, now)));
        }
        if let Some((_, progress)) = shown.as_mut()
            && progress.is_due(now)
        {
            progress.show(now, share, more);
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "progress is shown in real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Bytes of what a pool and its machine have: 10 PB at most.
fn parse_quantity(text: &str) -> Result<u64, SizeError> {
    let bytes = parse_bytes(text)?;
    let is_possible = bytes <= 10_000_000_000_000_000;
    is_possible
        .then_some(bytes)
        .ok_or_else(|| SizeError::TooLarge(text.to_owned()))
}
