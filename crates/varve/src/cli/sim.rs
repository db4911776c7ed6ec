//! `varve sim`.
//!
//! **Not here**: what a seed means and what counts as a failure (`varve-sim`).

mod report;

use super::{Exit, complain};
use crate::progress::Progress;
use clap::Args;
use report::{Failed, Report};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use varve_sim::campaign::{Make, Summary, campaign};
use varve_sim::canary::Canary;
use varve_sim::real::Real;
use varve_sim::run;
use varve_sim::scenario;
use varve_sim::shrink::shrink;
use varve_units::{Nanos, PLANTS_BUGS};

/// A campaign that is shorter shows no progress.
const SILENCE: Nanos = Nanos::from_secs(2);

/// Options of `varve sim`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seeds A, A+1, ... B-1; each is run twice, and both runs must do the same
    #[arg(long, value_name = "A..B", default_value = "0..100")]
    seeds: String,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
    /// Plant a bug, which must be found; `list` shows what there is. Builds of tests, and with `--features canary`
    #[arg(long, value_name = "NAME")]
    canary: Option<String>,
    /// Host operations of one seed
    #[arg(long, default_value_t = scenario::Options::default().operations,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    operations: u64,
    /// Let nothing but the power fail
    #[arg(long)]
    no_faults: bool,
    /// One crash, at this action of the run
    #[arg(long, value_name = "N")]
    crash_at: Option<u64>,
    /// Threads; the result does not depend on them [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Look for the fewest operations with which a failing seed still fails
    #[arg(long)]
    shrink: bool,
    /// Show the pool of each start, and why one could not be opened or a drive not be replaced
    #[arg(long)]
    verbose: bool,
}

/// A question that makes no sense: how the process ends, a word for programs, what is wrong, what to ask instead.
struct Nonsense(Exit, &'static str, String, String);

impl Options {
    /// Runs the campaign and prints what it found.
    pub(crate) fn run(&self) -> Exit {
        varve_hostio::keep_freed_memory();
        if self.canary.as_deref() == Some("list") {
            self.list_canaries();
            return Exit::Ok;
        }
        let (seeds, canary) = match self.parsed() {
            Ok(parsed) => parsed,
            Err(Nonsense(exit, code, what, next)) => {
                complain(code, &what, &next);
                return exit;
            }
        };
        if canary.is_some() && !PLANTS_BUGS {
            complain(
                "no-canaries",
                "this build can plant no bugs",
                "cargo run --release --features canary --package varve -- sim --canary ...",
            );
            return Exit::Refused;
        }
        let make: Make<'_> = &|| Box::new(Real::new(canary).verbose(self.verbose));
        let summary = self.campaign(seeds.clone(), make);
        let failed = summary.failed.iter();
        let failed = failed.map(|(seed, failure)| self.failed(*seed, failure, make));
        let report = Report::new(&seeds, canary, &summary, failed.collect());
        if self.json {
            print!("{}", report.json());
        } else {
            print!("{}", report.text());
        }
        if summary.has_passed() {
            return Exit::Ok;
        }
        let (what, next) = report.verdict();
        let code = match summary.failed.is_empty() {
            true => "never-seen",
            false => "seeds-failed",
        };
        complain(code, &what, &next);
        Exit::Failed
    }

    fn list_canaries(&self) {
        if self.json {
            print!("{}", report::canaries());
            return;
        }
        for canary in Canary::all() {
            println!("{:<26} {}", canary.name(), canary.about());
        }
    }

    fn parsed(&self) -> Result<(Range<u64>, Option<Canary>), Nonsense> {
        let seeds = parse_seeds(&self.seeds)?;
        let name = self.canary.as_deref();
        let canary = name.map(|name| {
            self.planted().ok_or_else(|| {
                let what = format!("there is no canary {name:?}");
                let next = "varve sim --canary list".to_owned();
                Nonsense(Exit::NotFound, "no-canary", what, next)
            })
        });
        Ok((seeds, canary.transpose()?))
    }

    /// The bug that is planted, if there is one of this name.
    fn planted(&self) -> Option<Canary> {
        let name = self.canary.as_deref()?;
        Canary::all().find(|canary| canary.name() == name)
    }

    fn scenario(&self) -> scenario::Options {
        scenario::Options {
            operations: self.operations,
            has_faults: !self.no_faults,
            crash_at: self.crash_at,
            stress: self.planted().and_then(Canary::stress),
        }
    }

    /// Runs all seeds, showing how far it is if that takes long.
    fn campaign(&self, seeds: Range<u64>, make: Make<'_>) -> Summary {
        let threads = self.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            |threads| threads as usize,
        );
        let count = seeds.end - seeds.start;
        let start = now();
        let elapsed = || Nanos(start.elapsed().as_nanos() as u64);
        let progress = Mutex::new(Progress::after("sim", elapsed(), SILENCE));
        let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        let seen = |report: &run::Report| {
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            let is_failed = u64::from(report.failure.is_some());
            let failed = failed.fetch_add(is_failed, Ordering::Relaxed) + is_failed;
            let mut progress = progress.lock().expect("showing progress does not panic");
            if let Some(failure) = &report.failure {
                progress.clear();
                eprintln!("seed {}: {}", report.seed, failure.what);
            }
            if progress.is_due(elapsed()) {
                let more = format!("{done} of {count} seeds, {failed} failed");
                progress.show(elapsed(), done as f64 / count as f64, &more);
            }
        };
        campaign(seeds, make, self.scenario(), threads, &seen)
    }

    /// What is told of a failing seed.
    fn failed(&self, seed: u64, failure: &run::Failure, make: Make<'_>) -> Failed {
        let shrunk = self
            .shrink
            .then(|| shrink(seed, &|| make(), self.scenario()));
        Failed::new(
            seed,
            failure,
            self.command(seed, self.scenario()),
            shrunk.flatten().map(|shrunk| {
                let command = self.command(seed, shrunk.options);
                (shrunk, command)
            }),
        )
    }

    /// The command that repeats a seed.
    fn command(&self, seed: u64, scenario: scenario::Options) -> String {
        let mut command = format!("varve sim --seeds {seed}..{}", seed + 1);
        if scenario.operations != scenario::Options::default().operations {
            command += &format!(" --operations {}", scenario.operations);
        }
        if !scenario.has_faults {
            command += " --no-faults";
        }
        if let Some(action) = scenario.crash_at {
            command += &format!(" --crash-at {action}");
        }
        if let Some(canary) = &self.canary {
            command += &format!(" --canary {canary}");
        }
        command
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a campaign takes is shown; nothing it does depends on that"
)]
fn now() -> Instant {
    Instant::now()
}

/// `A..B` with A below B.
fn parse_seeds(text: &str) -> Result<Range<u64>, Nonsense> {
    let wrong = |why: &str, next: String| {
        let what = format!("--seeds {text}: {why}");
        let next = format!("varve sim --seeds {next}");
        Err(Nonsense(Exit::Usage, "bad-seeds", what, next))
    };
    let numbers = text
        .split_once("..")
        .and_then(|(start, end)| Some((start.parse::<u64>().ok()?, end.parse::<u64>().ok()?)));
    match numbers {
        None => wrong("two numbers with `..` between", "0..100".to_owned()),
        Some((start, end)) if start > end => {
            wrong("the end lies before the start", format!("{end}..{start}"))
        }
        Some((start, end)) if start == end => match start.checked_add(1) {
            Some(next) => wrong("there is no seed in it", format!("{start}..{next}")),
            None => wrong("there is no seed in it", "0..100".to_owned()),
        },
        Some((start, end)) => Ok(start..end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(text: &str) -> String {
        parse_seeds(text)
            .map_err(|Nonsense(_, _, _, next)| next)
            .expect_err("nonsense")
    }

    /// A wrong range is answered with one that works.
    #[test]
    fn ranges_are_checked() {
        assert_eq!(parse_seeds("3..9").ok(), Some(3..9));
        assert_eq!(next("9..3"), "varve sim --seeds 3..9");
        assert_eq!(next("4..4"), "varve sim --seeds 4..5");
        assert_eq!(next("x..y"), "varve sim --seeds 0..100");
        assert_eq!(next("5"), "varve sim --seeds 0..100");
        assert_eq!(next("-1..5"), "varve sim --seeds 0..100");
        assert_eq!(next("18446744073709551615..18446744073709551615"), next(""));
    }

    /// The command names everything that is not as usual.
    #[test]
    fn commands_repeat_a_run() {
        let options = Options {
            seeds: "0..9".to_owned(),
            json: true,
            canary: Some("completion-order".to_owned()),
            operations: 300,
            no_faults: true,
            crash_at: Some(77),
            threads: None,
            shrink: false,
            verbose: false,
        };
        assert_eq!(
            options.command(4, options.scenario()),
            "varve sim --seeds 4..5 --operations 300 --no-faults --crash-at 77 \
             --canary completion-order"
        );
    }
}
