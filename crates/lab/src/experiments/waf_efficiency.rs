//! How much of what compaction and garbage collection go through need not be moved.

use super::waf_policies::request;
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::waf::{PolicyName, WafReport, WafRequest, Workload};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-efficiency",
    title: "What compaction and garbage collection need not move, behind fast tiers of several sizes",
    source: "document 002, efficiency of collection and compaction: a figure without numbers",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// Fast tier, per cent of the user's blocks.
const TIERS: [f64; 3] = [5.0, 10.0, 20.0];
/// What is run at every size of the tier: the engine takes longer.
const RUNS: [(PolicyName, Workload); 8] = [
    (PolicyName::CsalToday, Workload::Uniform),
    (PolicyName::CsalToday, Workload::Zipf(0.8)),
    (PolicyName::CsalToday, Workload::Zipf(0.99)),
    (PolicyName::CsalToday, Workload::Zipf(1.2)),
    (PolicyName::CsalPaper, Workload::Uniform),
    (PolicyName::CsalPaper, Workload::Zipf(0.99)),
    (PolicyName::Varve, Workload::Uniform),
    (PolicyName::Varve, Workload::Zipf(0.99)),
];
/// How many times smaller than the other experiments without time.
const SMALLER: u32 = 4;

fn jobs(ask: &Ask) -> Vec<Job> {
    let ask = Ask {
        scale: ask.scale * SMALLER,
        ..*ask
    };
    let of = |(policy, load): (PolicyName, Workload)| {
        TIERS.map(|fast_tier| {
            Job::Waf(WafRequest {
                fast_tier,
                ..request(&ask, load.clone(), policy)
            })
        })
    };
    RUNS.into_iter().flat_map(of).collect()
}

/// Of what hosts wrote, per cent that was dead when its chunk was emptied.
fn compaction(report: &WafReport) -> f64 {
    100.0 * (1.0 - report.compacted_blocks as f64 / report.host_blocks as f64)
}

/// Of what victims held, per cent that was dead. As many blocks are written as victims give room for.
fn collection(report: &WafReport) -> f64 {
    let (new, moved) = (report.compacted_blocks, report.collected_blocks);
    100.0 * new as f64 / (new + moved) as f64
}

/// A share of dead blocks, per cent.
type Share = fn(&WafReport) -> f64;
const KINDS: [(&str, Share); 2] = [("compaction", compaction), ("collection", collection)];

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let plot = |title| {
        let caption = "fast tier, per cent of the user's blocks";
        Plot::lines(title, "per cent dead", caption, TIERS.to_vec())
    };
    let mut plots = [plot("Emptied chunks"), plot("Emptied groups")];
    let mut rows = Vec::new();
    for ((policy, load), found) in RUNS.iter().zip(findings.chunks(TIERS.len())) {
        for (plot, (kind, share)) in plots.iter_mut().zip(KINDS) {
            let shares: Vec<f64> = found.iter().map(|one| share(one.waf())).collect();
            let at_tiers = TIERS.iter().zip(&shares);
            rows.extend(at_tiers.map(|(tier, share)| {
                Row::beside(
                    format!("{kind}, {policy}, {load}, fast tier {tier} %"),
                    *share,
                )
            }));
            plot.series(&format!("{policy}, {load}"), shares);
        }
    }
    Outcome {
        unit: "per cent dead",
        rows,
        notes: vec![
            "Compaction: of what hosts wrote to the fast tier, how much was overwritten before its chunk was \
             emptied. Collection: of what emptied groups held, how much was dead, 100 by waf_ftl. The better the first, \
             the worse the second: what is left is written more evenly."
                .to_owned(),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: plots.into(),
    }
}
