//! What reaches the dense tier, all told, behind a fast tier of 5 %.

use super::waf_policies::{LOADS, request};
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row};
use crate::waf::{PolicyName, WafRequest};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-fast-tier",
    title: "Dense-tier writes for each host write behind a fast tier of 5 % of the user's blocks",
    source: "an independent simulation of these rules behind a FIFO log: 2.0 M blocks, 200 groups, 20 %",
    is_drawn: true,
    quick: Some(8),
    is_scaled: true,
    scale_max: 2,
    jobs,
    outcome,
};

/// Fast tier, per cent of the user's blocks.
pub(super) const FAST_TIER: f64 = 5.0;
/// How far off ours may be.
const TOLERANCE: f64 = 5.0;
/// What was published of each but the last, by load; the oracle's is not told for the last load.
const PUBLISHED: [[Option<f64>; 4]; 3] = [
    [Some(2.18), Some(1.73), Some(1.09), Some(0.43)],
    [Some(2.17), Some(1.49), Some(0.82), Some(0.25)],
    [Some(2.18), Some(1.37), Some(0.72), None],
];
const POLICIES: [PolicyName; 4] = [
    PolicyName::CsalToday,
    PolicyName::Sepbit,
    PolicyName::Oracle,
    PolicyName::Varve,
];

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |policy: PolicyName| {
        LOADS.map(|load| {
            Job::Waf(WafRequest {
                fast_tier: FAST_TIER,
                ..request(ask, load, policy)
            })
        })
    };
    POLICIES.into_iter().flat_map(of).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let mut rows = Vec::new();
    let mut plot = Plot::bars(
        "Dense-tier writes for each host write, fast tier 5 %",
        "D",
        LOADS.map(|load| load.to_string()).to_vec(),
    );
    for (at, (policy, found)) in POLICIES
        .into_iter()
        .zip(findings.chunks(LOADS.len()))
        .enumerate()
    {
        let of = |finding: &Finding| finding.waf().dense_writes_per_host_write;
        let ours: Vec<f64> = found.iter().map(of).collect();
        let published = PUBLISHED.get(at).copied().unwrap_or_default();
        for ((load, dense), published) in LOADS.iter().zip(&ours).zip(published) {
            let what = format!("{policy}, {load}");
            rows.push(match published {
                Some(published) => {
                    Row::against(what, published, *dense, TOLERANCE).of(Origin::Simulation)
                }
                None => Row::beside(what, *dense),
            });
        }
        plot.series(policy.name(), ours);
    }
    Outcome {
        unit: "D",
        rows,
        notes: vec![
            "Models use all of the log; SPDK's own begins to compact at 80 % of its chunks."
                .to_owned(),
            "Varve is the real engine: its log keeps blocks that are overwritten soon, which is not in D but in what the log \
             is written with, and holds headers, leaves and checkpoints as well; its dense tier does not sort by lifetime."
                .to_owned(),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}
