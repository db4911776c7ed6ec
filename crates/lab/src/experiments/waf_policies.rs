//! What CSAL's open-source rule and others cost without a fast tier.

use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row};
use crate::waf::{PolicyName, WafRequest, Workload};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-policies",
    title: "Write amplification of placement policies without a fast tier, uniform and skewed",
    source: "an independent simulation of these rules: 2.0 M blocks, 200 groups, 20 % (documents 000 and 002 tell no such figures)",
    is_drawn: true,
    quick: Some(8),
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// Dense tier of the published figures.
pub(super) const BLOCKS: u64 = 2_000_000;
pub(super) const GROUPS: u32 = 200;
/// Loads of the published figures.
pub(super) const LOADS: [Workload; 4] = [
    Workload::Uniform,
    Workload::Zipf(0.8),
    Workload::Zipf(0.99),
    Workload::Zipf(1.2),
];

/// A policy and what was published of it, by load.
struct Known {
    policy: PolicyName,
    published: [f64; 4],
}

/// How far off ours may be: what the issue of the laboratory asks for.
const TOLERANCE: f64 = 5.0;
/// All of them, from the one that knows least to the one that knows all.
const ALL: [Known; 7] = [
    Known {
        policy: PolicyName::CsalToday,
        published: [2.70, 3.46, 4.18, 4.46],
    },
    Known {
        policy: PolicyName::Greedy1,
        published: [2.68, 3.42, 4.06, 4.56],
    },
    Known {
        policy: PolicyName::Fifo1,
        published: [2.70, 3.45, 4.11, 4.69],
    },
    Known {
        policy: PolicyName::Greedy2,
        published: [2.68, 2.92, 3.13, 2.87],
    },
    Known {
        policy: PolicyName::CostBenefit2,
        published: [2.68, 2.66, 2.09, 1.38],
    },
    Known {
        policy: PolicyName::Sepbit,
        published: [2.69, 2.32, 1.75, 1.24],
    },
    Known {
        policy: PolicyName::Oracle,
        published: [2.69, 2.01, 1.45, 1.06],
    },
];

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |known: &Known| LOADS.map(|load| Job::Waf(request(ask, load, known.policy)));
    ALL.iter().flat_map(of).collect()
}

/// The geometry of the published figures, without a fast tier.
pub(super) fn request(ask: &Ask, workload: Workload, policy: PolicyName) -> WafRequest {
    WafRequest {
        workload,
        policy,
        over_provision: 20.0,
        fast_tier: 0.0,
        groups: GROUPS,
        blocks: BLOCKS / u64::from(ask.scale),
        warm_up: 4.0,
        measure: 4.0,
        ranks_per_block: ask.scale,
        seed: ask.seed,
    }
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let mut rows = Vec::new();
    let mut plot = Plot::bars(
        "Dense-tier writes by blocks that reach the tier",
        "waf_ftl",
        LOADS.map(|load| load.to_string()).to_vec(),
    );
    for (known, found) in ALL.iter().zip(findings.chunks(LOADS.len())) {
        let ours: Vec<f64> = found.iter().map(|finding| finding.waf().waf_ftl).collect();
        for (at, (load, waf)) in LOADS.iter().zip(&ours).enumerate() {
            let what = format!("{}, {load}", known.policy);
            let row = Row::against(what, known.published[at], *waf, TOLERANCE);
            rows.push(row.of(Origin::Simulation));
        }
        plot.series(known.policy.name(), ours);
    }
    Outcome {
        unit: "waf_ftl",
        rows,
        notes: vec!["The engine always has a fast tier: it stands in waf-fast-tier.".to_owned()],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}
