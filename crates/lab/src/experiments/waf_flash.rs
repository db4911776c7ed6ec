//! What the flash of a conventional drive has to write for each write of hosts.
//!
//! A policy with several open units sorts what it writes, and its D falls. A drive that knows nothing of them mixes them
//! again in what it erases at once, and copies what is left. D alone does not say what that comes to.

use super::waf_fast_tier::FAST_TIER;
use super::waf_policies::{LOADS, request};
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::waf::{PolicyName, WafRequest, Workload};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-flash",
    title: "Blocks of flash that a conventional drive programs for each write of hosts, behind a fast tier of 5 %",
    source: "none published; D of waf-fast-tier times what the drive below makes of it",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

const POLICIES: [PolicyName; 7] = [
    PolicyName::CsalToday,
    PolicyName::CsalPaper,
    PolicyName::Greedy2,
    PolicyName::CostBenefit2,
    PolicyName::Sepbit,
    PolicyName::Oracle,
    PolicyName::Varve,
];

/// Those of the other experiments, a hot tenth that moves, and four tenants.
fn loads() -> Vec<Workload> {
    let more = [Workload::HotCold(2.0), Workload::Mixed4];
    LOADS.into_iter().chain(more).collect()
}

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |policy: PolicyName| {
        loads().into_iter().map(move |load| {
            Job::Waf(WafRequest {
                fast_tier: FAST_TIER,
                ..request(ask, load, policy)
            })
        })
    };
    POLICIES.into_iter().flat_map(of).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let loads = loads();
    let mut rows = Vec::new();
    let mut plot = Plot::bars(
        "Flash programmed for each host write, fast tier 5 %",
        "blocks",
        loads.iter().map(ToString::to_string).collect(),
    );
    for (policy, found) in POLICIES.into_iter().zip(findings.chunks(loads.len())) {
        let flash = |finding: &Finding| finding.waf().flash_writes_per_host_write.unwrap_or(0.0);
        let ours: Vec<f64> = found.iter().map(flash).collect();
        for ((load, finding), flash) in loads.iter().zip(found).zip(&ours) {
            rows.push(Row::beside(format!("{policy}, {load}"), *flash));
            let device = finding.waf().waf_device.unwrap_or(1.0);
            rows.push(Row::beside(format!("{policy}, {load}, waf_device"), device));
        }
        plot.series(policy.name(), ours);
    }
    Outcome {
        unit: "blocks of flash for a host's",
        rows,
        notes: vec![
            "The drive erases units as large as the policy's own, and gets what the policy's streams write in the order in \
             which they write it."
                .to_owned(),
            "Varve has one open group on such a drive, and its P2L and the padding of its stripes are counted; models have \
             neither."
                .to_owned(),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}
