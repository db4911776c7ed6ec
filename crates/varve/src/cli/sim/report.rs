//! What a campaign found, for programs and for people.

use crate::envelope;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use varve_sim::campaign::{COVERAGE_SEEDS_MIN, Summary};
use varve_sim::canary::Canary;
use varve_sim::run::Failure;
use varve_sim::shrink::Shrunk;

/// A bug that can be planted.
#[derive(Serialize)]
struct Plantable {
    name: &'static str,
    about: &'static str,
}

#[derive(Serialize)]
struct Canaries {
    canaries: Vec<Plantable>,
}

/// All bugs that can be planted, as a document.
pub(super) fn canaries() -> String {
    let canaries = Canary::all().map(|canary| Plantable {
        name: canary.name(),
        about: canary.about(),
    });
    let canaries = canaries.collect();
    envelope::json("Canaries", &Canaries { canaries })
}

/// A shorter run of a failing seed that fails too.
#[derive(Serialize)]
struct Shorter {
    operations: u64,
    what: String,
    command: String,
}

/// A failing seed.
#[derive(Serialize)]
pub(super) struct Failed {
    seed: u64,
    what: String,
    place: String,
    /// The last commands of each drive, oldest first.
    last_commands: Vec<String>,
    command: String,
    shrunk: Option<Shorter>,
}

impl Failed {
    /// A failure with the command that repeats it, and a shorter run of it with its own.
    pub(super) fn new(
        seed: u64,
        failure: &Failure,
        command: String,
        shrunk: Option<(Shrunk, String)>,
    ) -> Self {
        let shrunk = shrunk.map(|(shrunk, command)| Shorter {
            operations: shrunk.options.operations,
            what: shrunk
                .report
                .failure
                .map_or_else(String::new, |failure| failure.what),
            command,
        });
        Self {
            seed,
            what: failure.what.clone(),
            place: failure.place.clone(),
            last_commands: failure.trace.clone(),
            command,
            shrunk,
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "seed {}: {}", self.seed, self.what)?;
        writeln!(text, "  in      {}", self.place)?;
        for command in &self.last_commands {
            writeln!(text, "  drive   {command}")?;
        }
        writeln!(text, "  repeat  {}", self.command)?;
        if let Some(shorter) = &self.shrunk {
            writeln!(text, "  shorter {}", shorter.command)?;
            writeln!(text, "          {}", shorter.what)?;
        }
        writeln!(text)
    }
}

/// What a campaign found.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    passed: bool,
    first_seed: u64,
    canary: Option<&'static str>,
    seeds_run: u64,
    operations: u64,
    crashes: u64,
    failed: Vec<Failed>,
    /// Features that were never seen; a failure from a hundred seeds on.
    unseen: Vec<&'static str>,
    faults: &'a BTreeMap<&'static str, u64>,
    coverage: &'a BTreeMap<&'static str, u64>,
}

impl<'a> Report<'a> {
    /// Gathers what is to be told.
    pub(super) fn new(
        seeds: &Range<u64>,
        canary: Option<Canary>,
        summary: &'a Summary,
        failed: Vec<Failed>,
    ) -> Self {
        Self {
            passed: summary.has_passed(),
            first_seed: seeds.start,
            canary: canary.map(Canary::name),
            seeds_run: summary.seeds_run,
            operations: summary.operations,
            crashes: summary.crashes,
            failed,
            unseen: summary.unseen(),
            faults: &summary.faults,
            coverage: &summary.coverage,
        }
    }

    /// As JSON, with a line end.
    pub(super) fn json(&self) -> String {
        envelope::json("Simulation", self)
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string can grow");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        for failed in &self.failed {
            failed.write(text)?;
        }
        let mut line = |name: &str, count: u64| writeln!(text, "{name:<28} {count}");
        line("seeds run", self.seeds_run)?;
        line("seeds failed", self.failed.len() as u64)?;
        line("host operations", self.operations)?;
        line("crashes", self.crashes)?;
        line("faults", self.faults.values().sum())?;
        line(
            "features seen",
            (self.coverage.len() - self.unseen.len()) as u64,
        )?;
        line("features never seen", self.unseen.len() as u64)?;
        if !self.unseen.is_empty() {
            writeln!(text, "  {}", self.unseen.join(" "))?;
        }
        Ok(())
    }

    /// Why the campaign failed, and the command that comes next.
    ///
    /// # Panics
    /// If it has passed.
    pub(super) fn verdict(&self) -> (String, String) {
        if let Some(first) = self.failed.first() {
            let what = format!("{} of {} seeds failed", self.failed.len(), self.seeds_run);
            return (what, first.command.clone());
        }
        assert!(self.seeds_run >= COVERAGE_SEEDS_MIN, "nothing failed");
        let what = format!("never seen: {}", self.unseen.join(", "));
        let (from, to) = (
            self.first_seed,
            self.first_seed.saturating_add(self.seeds_run * 4),
        );
        (
            what,
            format!("varve sim --seeds {from}..{to}, or more faults in the scenarios"),
        )
    }
}
