//! What policies that learn which blocks are hot make of a hot tenth that moves.

use super::waf_fast_tier::FAST_TIER;
use super::waf_policies::request;
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::waf::{PolicyName, WafRequest, Workload};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-drift",
    title: "Dense-tier writes for each host write where the hot tenth of the blocks drifts",
    source: "none published; nine of ten writes go to a tenth of the blocks, fast tier 5 %",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// Of the size of the other experiments of placement: what is compared are shares of a volume.
const SMALLER: u32 = 4;
/// Overwrites of the volume for which a block stays hot. It is written nine times in each while it is.
const SPANS: [f64; 3] = [0.5, 2.0, 8.0];
const POLICIES: [PolicyName; 5] = [
    PolicyName::CsalToday,
    PolicyName::CostBenefit2,
    PolicyName::Sepbit,
    PolicyName::Oracle,
    PolicyName::Varve,
];

fn jobs(ask: &Ask) -> Vec<Job> {
    let ask = Ask {
        scale: ask.scale * SMALLER,
        ..*ask
    };
    let of = |policy: PolicyName| {
        SPANS.map(|span| {
            Job::Waf(WafRequest {
                fast_tier: FAST_TIER,
                ..request(&ask, Workload::HotCold(span), policy)
            })
        })
    };
    POLICIES.into_iter().flat_map(of).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let mut rows = Vec::new();
    let mut plot = Plot::lines(
        "Dense-tier writes for each host write, fast tier 5 %",
        "D",
        "overwrites of the volume for which a block stays hot",
        SPANS.to_vec(),
    );
    for (policy, found) in POLICIES.into_iter().zip(findings.chunks(SPANS.len())) {
        let of = |finding: &Finding| finding.waf().dense_writes_per_host_write;
        let ours: Vec<f64> = found.iter().map(of).collect();
        for (span, dense) in SPANS.iter().zip(&ours) {
            rows.push(Row::beside(format!("{policy}, hotcold:{span}"), *dense));
        }
        plot.series(policy.name(), ours);
    }
    Outcome {
        unit: "D",
        rows,
        notes: vec![
            "A block is written nine times in each overwrite of the volume while it is hot, and once in nine overwrites \
             otherwise."
                .to_owned(),
            "The oracle is told of each block how often it is written now, not when it will cool."
                .to_owned(),
            "Varve is the real engine: on this drive with one group for what hosts wrote and what collection moves. What the \
             drive makes of several open ones stands in waf-flash."
                .to_owned(),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}
