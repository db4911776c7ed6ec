//! Systems under the same loads, one after the other.

use super::plot::Plot;
use super::{Finding, Job, Row};
use crate::rig::{RigRequest, SystemName, Window};

/// What systems did under the same loads.
pub(super) struct Grid<'a> {
    systems: &'a [SystemName],
    loads: usize,
    findings: &'a [Finding],
}

/// The jobs of a grid: all loads of the first system, then of the next.
pub(super) fn jobs(
    systems: &[SystemName],
    loads: usize,
    request: impl Fn(SystemName, usize) -> RigRequest,
) -> Vec<Job> {
    let of = |system: &SystemName| {
        (0..loads)
            .map(|load| Job::Rig(request(*system, load)))
            .collect()
    };
    systems
        .iter()
        .flat_map(|system| -> Vec<Job> { of(system) })
        .collect()
}

impl<'a> Grid<'a> {
    /// What the jobs of these systems and so many loads found.
    ///
    /// # Panics
    /// If there are not as many findings.
    pub(super) fn new(systems: &'a [SystemName], loads: usize, findings: &'a [Finding]) -> Self {
        assert_eq!(findings.len(), systems.len() * loads, "a finding for each");
        Self {
            systems,
            loads,
            findings,
        }
    }

    /// What a system did under a load.
    ///
    /// # Panics
    /// If the system is not in the grid.
    pub(super) fn window(&self, system: SystemName, load: usize) -> &'a Window {
        let at = self.systems.iter().position(|other| *other == system);
        let at = at.expect("the system is among those measured");
        &self.findings[at * self.loads + load].rig().window
    }

    /// Bytes a second of a system under a load, in millions, both directions.
    pub(super) fn rate(&self, system: SystemName, load: usize) -> f64 {
        let window = self.window(system, load);
        (window.read_per_s() + window.written_per_s()) as f64 / 1e6
    }
}

/// Bars of the rates of systems under loads of these names, and a row for each, called as `what` says.
pub(super) fn bars(
    title: &str,
    systems: &[SystemName],
    names: &[String],
    rate: impl Fn(SystemName, usize) -> f64,
    what: impl Fn(SystemName, &str) -> String,
) -> (Plot, Vec<Row>) {
    let mut plot = Plot::bars(title, "MB a second", names.to_vec());
    let mut rows = Vec::new();
    for system in systems {
        let rates: Vec<f64> = (0..names.len()).map(|load| rate(*system, load)).collect();
        let named = names.iter().zip(&rates);
        rows.extend(named.map(|(name, rate)| Row::beside(what(*system, name), *rate)));
        plot.series(system.name(), rates);
    }
    (plot, rows)
}
