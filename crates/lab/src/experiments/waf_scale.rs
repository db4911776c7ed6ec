//! Whether the size of a run matters: the same at a quarter of it.

use super::waf_policies::{LOADS, request};
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Row};
use crate::waf::{PolicyName, WafRequest};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-scale",
    title: "The same runs at a quarter of the size, the skew of the whole kept",
    source: "none: what the laboratory says of small runs has to hold for large ones",
    is_drawn: false,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// How many times smaller the second run of each pair is.
const SMALLER: u32 = 4;
/// How far apart they may be.
const TOLERANCE: f64 = 5.0;
const FAST_TIER: f64 = 5.0;
const POLICIES: [PolicyName; 3] = [PolicyName::CsalToday, PolicyName::Sepbit, PolicyName::Varve];

fn jobs(ask: &Ask) -> Vec<Job> {
    let at = |scale| Ask { scale, ..*ask };
    let both = [at(ask.scale), at(ask.scale * SMALLER)];
    let of = |policy: PolicyName| {
        LOADS.into_iter().flat_map(move |load| {
            both.map(|ask| {
                Job::Waf(WafRequest {
                    fast_tier: FAST_TIER,
                    ..request(&ask, load.clone(), policy)
                })
            })
        })
    };
    POLICIES.into_iter().flat_map(of).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let of = |finding: &Finding| finding.waf().dense_writes_per_host_write;
    let pairs = findings.as_chunks::<2>().0.iter();
    let runs = POLICIES
        .into_iter()
        .flat_map(|policy| LOADS.map(|load| (policy, load)));
    let row = |((policy, load), [whole, quarter]): ((PolicyName, _), &[Finding; 2])| {
        Row::against(
            format!("{policy}, {load}"),
            of(whole),
            of(quarter),
            TOLERANCE,
        )
        .of(Origin::Simulation)
    };
    Outcome {
        unit: "D",
        rows: runs.zip(pairs).map(row).collect(),
        notes: vec!["What stands under \"original\" is ours at the larger size.".to_owned()],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: Vec::new(),
    }
}
