//! Uniform writes over over-provisioning, beside the formula.

use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row};
use crate::waf::{PolicyName, WafRequest, Workload};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-formula",
    title: "Uniform random writes, one stream, greedy: over over-provisioning, beside the formula",
    source: "WA = a/(a + W0(-a e^-a)): Desnoyers 2012; Xiang and Kurkoski 2012",
    is_drawn: true,
    quick: Some(8),
    is_scaled: true,
    scale_max: 4,
    jobs,
    outcome,
};

/// Over-provisioning, per cent of raw.
const OVER_PROVISIONS: [f64; 7] = [7.0, 10.0, 12.5, 15.0, 20.0, 28.0, 40.0];
/// How far off ours may be.
const TOLERANCE: f64 = 3.0;

fn jobs(ask: &Ask) -> Vec<Job> {
    let request = super::waf_policies::request(ask, Workload::Uniform, PolicyName::Greedy1);
    let with = |over_provision| {
        Job::Waf(WafRequest {
            over_provision,
            measure: 2.0,
            ..request.clone()
        })
    };
    OVER_PROVISIONS.map(with).to_vec()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let found = findings.iter().map(Finding::waf);
    let ours: Vec<f64> = found.clone().map(|report| report.waf_ftl).collect();
    let theory = found.map(|report| report.waf_theory.expect("uniform, no fast tier"));
    let theory: Vec<f64> = theory.collect();
    let row = |((per_cent, ours), theory): ((&f64, &f64), &f64)| {
        Row::against(
            format!("over-provisioning {per_cent} %"),
            *theory,
            *ours,
            TOLERANCE,
        )
        .of(Origin::Theory)
    };
    let mut plot = Plot::lines(
        "Uniform random writes",
        "waf_ftl",
        "over-provisioning, per cent of raw",
        OVER_PROVISIONS.to_vec(),
    );
    plot.series("formula", theory.clone());
    plot.series("greedy-1", ours.clone());
    Outcome {
        unit: "waf_ftl",
        rows: OVER_PROVISIONS
            .iter()
            .zip(&ours)
            .zip(&theory)
            .map(row)
            .collect(),
        notes: Vec::new(),
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}
