//! What less of the map in memory costs.

use super::time_writes::request;
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::rig::{Law, Mix, Pace, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-map-cache",
    title: "CSAL with less and less of its map in memory: random and skewed reads and writes of 4 KiB",
    source: "document 002, sweep of the L2P cache: a figure without numbers; 2 GiB of 16 in its configuration \
             (csal.md A.2, A.5)",
    is_drawn: true,
    jobs,
    outcome,
};

/// Pages of the map in memory, per cent.
const SHARES: [f64; 7] = [100.0, 50.0, 25.0, 12.5, 6.25, 3.0, 1.0];
/// Law, reads per cent, name.
const LOADS: [(Law, u32, &str); 4] = [
    (Law::Uniform, 100, "reads"),
    (Law::Zipf(1.2), 100, "reads, Zipf 1.2"),
    (Law::Uniform, 0, "writes"),
    (Law::Zipf(1.2), 0, "writes, Zipf 1.2"),
];
const SYSTEM: SystemName = SystemName::CsalToday;
const REQUESTS: u64 = 200_000;
const SMALLER: u32 = 4;

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |(law, reads_per_cent, _): (Law, u32, &str)| {
        let mix = Mix {
            jobs: 8,
            depth: 128,
            bytes: 4096,
            reads_per_cent,
            law,
            pace: Pace::Closed,
        };
        SHARES.map(|map_cache| {
            Job::Rig(RigRequest {
                map_cache,
                passes: 1.0,
                scale: ask.scale * SMALLER,
                ..request(ask, SYSTEM, mix, REQUESTS)
            })
        })
    };
    LOADS.into_iter().flat_map(of).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let mut plot = Plot::lines(
        "Requests with less of the map in memory",
        "per cent of those with all of it",
        "map in memory, per cent",
        SHARES.to_vec(),
    );
    let mut rows = Vec::new();
    for ((.., name), of_load) in LOADS.iter().zip(findings.chunks(SHARES.len())) {
        let iops = of_load.iter().map(|found| found.rig().window.iops() as f64);
        let iops: Vec<f64> = iops.collect();
        let what = format!("{name}, all of the map, thousand/s");
        rows.push(Row::beside(what, iops[0] / 1e3));
        let by_all: Vec<f64> = iops.iter().map(|one| 100.0 * one / iops[0]).collect();
        for (share, by_all) in SHARES.iter().zip(&by_all).skip(1) {
            rows.push(Row::beside(
                format!("{name}, {share} % of the map"),
                *by_all,
            ));
        }
        plot.series(name, by_all);
    }
    Outcome {
        unit: "per cent, or as said",
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
        parameters: Vec::new(),
        plots: vec![plot],
    }
}

const NOTES: [&str; 3] = [
    "A miss reads a page from the fast drive before the request goes on, and writes one that was changed first; pages \
     are 4 KiB and the least recently used goes, as in SPDK's lib/ftl.",
    "Where something else is the limit (the dense drive at uniform reads and writes, the processor at skewed writes) \
     misses cost latency, not rate: the fast drive has reads to spare. Skewed reads come from the fast drive, \
     and their pages compete with them; hot blocks are scattered, so nearly every page holds some.",
    "The engine is not here: its map is resident in a rig. varve lab recovery runs it, without time, with little of \
     the map in memory.",
];
