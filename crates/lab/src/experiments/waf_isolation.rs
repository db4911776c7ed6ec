//! Four tenants with one set of zones or with zones of their own.

use super::waf_policies::request;
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::comparators::USUAL;
use crate::waf::{PolicyName, WafRequest, Workload};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "waf-isolation",
    title: "Four tenants (seq, uniform, zipf 0.8, zipf 1.2): mixed in zones, and in zones of their own",
    source: "document 000, configuration 3; document 002: media-level 3.8 mixed, 2.3 apart",
    is_drawn: true,
    quick: Some(8),
    is_scaled: true,
    scale_max: 4,
    jobs,
    outcome,
};

/// How far off a ratio may be before the report says that the model does not reproduce it.
const TOLERANCE: f64 = 20.0;
/// Published: mixed, apart.
const PUBLISHED: [f64; 2] = [3.8, 2.3];
const POLICIES: [PolicyName; 3] = [
    PolicyName::CsalToday,
    PolicyName::CsalPaper,
    PolicyName::Varve,
];

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |policy| {
        Job::Waf(WafRequest {
            over_provision: USUAL.over_provision,
            fast_tier: USUAL.fast_tier,
            ..request(ask, Workload::Mixed4, policy)
        })
    };
    POLICIES.map(of).to_vec()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let reports: Vec<_> = findings.iter().map(Finding::waf).collect();
    let ftl: Vec<f64> = reports.iter().map(|report| report.waf_ftl).collect();
    let per_host: Vec<f64> = reports
        .iter()
        .map(|report| report.dense_writes_per_host_write)
        .collect();
    let names = POLICIES.map(|policy| policy.name().to_owned());
    let mut plot = Plot::bars("Four tenants", "blocks written", names.to_vec());
    plot.series("waf_ftl", ftl.clone());
    plot.series("D", per_host.clone());
    let mut rows = vec![
        Row::against(
            "waf_ftl mixed (csal-today)".to_owned(),
            PUBLISHED[0],
            ftl[0],
            TOLERANCE,
        ),
        Row::against(
            "waf_ftl apart (csal-paper)".to_owned(),
            PUBLISHED[1],
            ftl[1],
            TOLERANCE,
        ),
        Row::against(
            "mixed by apart".to_owned(),
            PUBLISHED[0] / PUBLISHED[1],
            ftl[0] / ftl[1],
            TOLERANCE,
        ),
        Row::beside("waf_ftl, varve".to_owned(), ftl[2]),
    ];
    let of_host = POLICIES.iter().zip(&per_host);
    rows.extend(of_host.map(|(policy, dense)| Row::beside(format!("D, {policy}"), *dense)));
    Outcome {
        unit: "blocks for a block",
        rows,
        notes: vec![
            "What was published is of the media: all that the drives' flash was programmed with. The judged rows hold waf_ftl \
             against it, which leaves out what the drive below does itself, and what the fast tier absorbs: it goes by \
             blocks that reached the dense tier, D by blocks of hosts. They say whether placement costs about as much, not \
             that media were written as much; time-mixed has media."
                .to_owned(),
            "The documents do not tell sizes of the jobs' areas, nor what share of the drive they \
             fill; here each tenant has a quarter of the volume and a quarter of the writes."
                .to_owned(),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}
