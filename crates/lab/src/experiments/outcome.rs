//! What an experiment comes to.

use super::plot::Plot;
use crate::comparators::{Stated, StatedOf, join};
use crate::rig::RigParameters;
use crate::waf::Parameters;
use serde::Serialize;
use std::fmt::Write;

/// Whether ours is what was published.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Reproduced,
    /// Outside it.
    Off,
    /// At a fraction of the size, where neither says anything: tolerances hold at the whole.
    Unjudged,
    /// It is not judged: nothing was published of it, or ours is made of what was.
    Beside,
}

/// Whose the original of a row is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A figure that a document tells, or a ratio of two.
    Document,
    /// Which is more, or that both are as much, as a document tells it without a figure: 1 stands for that.
    Order,
    /// A run of the project's own: an independent simulation of the same rules, or this one at another size.
    Simulation,
    /// A formula.
    Theory,
    /// A target or a limit of the project.
    Target,
}

/// A figure.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// What it is of.
    pub what: String,
    /// What it stands beside.
    pub original: Option<f64>,
    /// Whose that is.
    pub original_of: Option<Origin>,
    /// What came out here.
    pub ours: f64,
    /// How much more, per cent.
    pub off_per_cent: Option<f64>,
    /// How far off it may be, per cent.
    pub tolerance_per_cent: Option<f64>,
    /// The comparison.
    pub verdict: Verdict,
}

impl Origin {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [
        Self::Document,
        Self::Order,
        Self::Simulation,
        Self::Theory,
        Self::Target,
    ];

    /// In a word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Order => "order",
            Self::Simulation => "simulation",
            Self::Theory => "theory",
            Self::Target => "target",
        }
    }

    /// In words, after how many rows have it.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Document => "have a document's figure as original",
            Self::Order => "an order that a document tells without figures",
            Self::Simulation => "a simulation of the project's own",
            Self::Theory => "a formula",
            Self::Target => "a target or limit of the project",
        }
    }
}

impl Row {
    /// A figure beside what a document tells of it, unless [`of`](Self::of) says otherwise.
    #[must_use]
    pub fn against(what: String, original: f64, ours: f64, tolerance_per_cent: f64) -> Self {
        let off = (ours / original - 1.0) * 100.0;
        let is_near = off.abs() <= tolerance_per_cent;
        Self {
            what,
            original: Some(original),
            original_of: Some(Origin::Document),
            ours,
            off_per_cent: Some((off * 100.0).round() / 100.0),
            tolerance_per_cent: Some(tolerance_per_cent),
            verdict: if is_near {
                Verdict::Reproduced
            } else {
                Verdict::Off
            },
        }
    }

    /// The same with an original that is no document's figure.
    #[must_use]
    pub fn of(self, origin: Origin) -> Self {
        Self {
            original_of: Some(origin),
            ..self
        }
    }

    /// A figure beside one that was published as the least: any more is as good.
    #[must_use]
    pub fn at_least(what: String, original: f64, ours: f64, tolerance_per_cent: f64) -> Self {
        let mut row = Self::against(what, original, ours, tolerance_per_cent);
        if ours >= original {
            row.verdict = Verdict::Reproduced;
        }
        row
    }

    /// A figure beside one that is the most: any less is as good.
    #[must_use]
    pub fn at_most(what: String, original: f64, ours: f64, tolerance_per_cent: f64) -> Self {
        let mut row = Self::against(what, original, ours, tolerance_per_cent);
        if ours <= original {
            row.verdict = Verdict::Reproduced;
        }
        row
    }

    /// A figure beside a published one that it was made of in part: their nearness says nothing.
    #[must_use]
    pub fn made_of(what: String, original: f64, ours: f64) -> Self {
        Self {
            tolerance_per_cent: None,
            verdict: Verdict::Beside,
            ..Self::against(what, original, ours, 0.0)
        }
    }

    /// A figure of which nothing was published.
    #[must_use]
    pub const fn beside(what: String, ours: f64) -> Self {
        Self {
            what,
            original: None,
            original_of: None,
            ours,
            off_per_cent: None,
            tolerance_per_cent: None,
            verdict: Verdict::Beside,
        }
    }
}

/// What a job ran.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[serde(untagged)]
pub enum Ran {
    /// A placement policy.
    Waf(Box<Parameters>),
    /// A storage system.
    Rig(Box<RigParameters>),
}

impl Ran {
    /// Name of the policy or system.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Waf(parameters) => parameters.policy().name(),
            Self::Rig(parameters) => parameters.request.system.name(),
        }
    }

    /// The rest, in a line.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Waf(parameters) => parameters.line(),
            Self::Rig(parameters) => parameters.line(),
        }
    }
}

/// What an experiment comes to.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Outcome {
    /// Unit of all figures.
    pub unit: &'static str,
    /// The figures.
    pub rows: Vec<Row>,
    /// What has to be known beside them.
    pub notes: Vec<String>,
    /// What was run, job by job.
    pub parameters: Vec<Ran>,
    /// What each comparator, and the engine, went by in all jobs, with whose values these are.
    pub stated: Vec<StatedOf>,
    /// Pictures of them.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

impl Outcome {
    /// What rows and one picture show.
    pub(super) fn plotted(unit: &'static str, rows: Vec<Row>, notes: &[&str], plot: Plot) -> Self {
        Self {
            unit,
            rows,
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            parameters: Vec::new(),
            stated: Vec::new(),
            plots: vec![plot],
        }
    }

    /// Adds what something went by, of one job.
    pub(super) fn state(&mut self, of: &str, parameters: &[Stated]) {
        join(&mut self.stated, of, parameters);
    }

    /// At a fraction of the size a figure says nothing, neither outside its tolerance nor within it.
    pub(super) fn leave_unjudged(&mut self) {
        for row in &mut self.rows {
            if matches!(row.verdict, Verdict::Off | Verdict::Reproduced) {
                row.verdict = Verdict::Unjudged;
            }
        }
    }

    /// Rows of a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    }

    /// Rows with a verdict whose original is of that kind.
    #[must_use]
    pub(super) fn judged_by(&self, origin: Origin) -> usize {
        let is_judged = |row: &&Row| matches!(row.verdict, Verdict::Reproduced | Verdict::Off);
        let judged = self.rows.iter().filter(is_judged);
        judged.filter(|row| row.original_of == Some(origin)).count()
    }

    /// A table for people.
    ///
    /// # Panics
    /// Never: a string can grow.
    #[must_use]
    pub fn table(&self) -> String {
        let width = self
            .rows
            .iter()
            .map(|row| row.what.len())
            .max()
            .unwrap_or(0)
            .max(8);
        let mut table = format!(
            "{:<width$}  {:>10}  {:<10}  {:>10}  {:>8}  {:>9}  verdict\n",
            self.unit, "original", "of", "ours", "off", "tolerance"
        );
        for row in &self.rows {
            let original = row.original.map_or(String::new(), number);
            let off = row
                .off_per_cent
                .map_or(String::new(), |off| format!("{off:+.1} %"));
            let tolerance = row
                .tolerance_per_cent
                .map_or(String::new(), |per_cent| format!("{per_cent} %"));
            writeln!(
                table,
                "{:<width$}  {original:>10}  {:<10}  {:>10}  {off:>8}  {tolerance:>9}  {}",
                row.what,
                row.original_of.map_or("", Origin::name),
                number(row.ours),
                row.verdict.name()
            )
            .expect("a string can grow");
        }
        for note in &self.notes {
            writeln!(table, "note: {note}").expect("a string can grow");
        }
        table
    }
}

impl Verdict {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Off => "OFF",
            Self::Unjudged => "not judged at this scale",
            Self::Beside => "beside",
        }
    }
}

/// As many digits as tell something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is within its tolerance by chance is told no more than what is not; what is beside stays so.
    #[test]
    fn a_fraction_is_not_judged() {
        let row = |ours| Row::against(String::new(), 2.0, ours, 10.0);
        let plot = Plot::lines("", "", "", Vec::new());
        let rows = vec![row(2.0), row(3.0), Row::beside(String::new(), 4.0)];
        let mut outcome = Outcome::plotted("", rows, &[], plot);
        assert_eq!(outcome.count(Verdict::Off), 1);
        outcome.leave_unjudged();
        let verdicts: Vec<_> = outcome.rows.iter().map(|row| row.verdict).collect();
        let expected = [Verdict::Unjudged, Verdict::Unjudged, Verdict::Beside];
        assert_eq!(verdicts, expected);
        assert!(outcome.table().contains("not judged at this scale"));
    }

    /// An original is a document's if nothing is said, and only what has a verdict counts.
    #[test]
    fn originals_are_told_apart() {
        let row = |ours| Row::at_least(String::new(), 2.0, ours, 10.0);
        let rows = vec![
            row(2.0),
            row(3.0).of(Origin::Target),
            row(1.0).of(Origin::Target),
            Row::made_of(String::new(), 2.0, 2.0),
            Row::beside(String::new(), 4.0),
        ];
        let plot = Plot::lines("", "", "", Vec::new());
        let mut outcome = Outcome::plotted("", rows, &[], plot);
        let of = |outcome: &Outcome| Origin::ALL.map(|origin| outcome.judged_by(origin));
        assert_eq!(of(&outcome), [1, 0, 0, 0, 2]);
        assert_eq!(outcome.table().matches("  target  ").count(), 2);
        outcome.leave_unjudged();
        assert_eq!(of(&outcome), [0; 5]);
    }

    /// However near it is, or far.
    #[test]
    fn what_is_made_of_the_published_has_no_verdict() {
        for ours in [2.0, 9.0] {
            let row = Row::made_of(String::new(), 2.0, ours);
            assert_eq!(
                (row.verdict, row.tolerance_per_cent),
                (Verdict::Beside, None)
            );
            assert_eq!(row.off_per_cent, Some((ours / 2.0 - 1.0) * 100.0));
        }
    }

    /// A bound is kept by whatever lies on its good side, however far, and by its tolerance on the other.
    #[test]
    fn bounds_have_one_good_side() {
        let most = |ours| Row::at_most(String::new(), 2.0, ours, 10.0).verdict;
        let least = |ours| Row::at_least(String::new(), 2.0, ours, 10.0).verdict;
        for (ours, is_most, is_least) in [
            (0.1, Verdict::Reproduced, Verdict::Off),
            (1.9, Verdict::Reproduced, Verdict::Reproduced),
            (2.1, Verdict::Reproduced, Verdict::Reproduced),
            (9.0, Verdict::Off, Verdict::Reproduced),
        ] {
            assert_eq!((most(ours), least(ours)), (is_most, is_least), "{ours}");
        }
    }
}
