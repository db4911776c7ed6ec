//! What less of the map in memory costs.

use super::time_writes::{request, writes};
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row, processors};
use crate::rig::{Law, Mix, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-map-cache",
    title: "CSAL and the engine with less and less of the map in memory: random and skewed reads and writes of 4 KiB",
    source: "document 002, sweep of the L2P cache: a figure without numbers; 2 GiB of 16 in its configuration",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// Shares of the map in memory, per cent: of today's CSAL, and of those whose runs take longer.
const ALL_SHARES: [f64; 7] = [100.0, 50.0, 25.0, 12.5, 6.25, 3.0, 1.0];
const SOME_SHARES: [f64; 3] = [100.0, 12.5, 3.0];
const SWEEPS: [Sweep; 3] = [
    Sweep {
        system: SystemName::CsalToday,
        shares: &ALL_SHARES,
    },
    Sweep {
        system: SystemName::CsalPaper,
        shares: &SOME_SHARES,
    },
    Sweep {
        system: SystemName::Varve,
        shares: &SOME_SHARES,
    },
];
/// Law, reads per cent, name.
const LOADS: [(Law, u32, &str); 4] = [
    (Law::Uniform, 100, "reads"),
    (Law::Zipf(1.2), 100, "reads, Zipf 1.2"),
    (Law::Uniform, 0, "writes"),
    (Law::Zipf(1.2), 0, "writes, Zipf 1.2"),
];
const REQUESTS: u64 = 200_000;
const SMALLER: u32 = 4;

/// A system with less and less of its map.
struct Sweep {
    system: SystemName,
    shares: &'static [f64],
}

impl Sweep {
    fn jobs(&self, ask: &Ask) -> Vec<Job> {
        let of = |(law, reads_per_cent, _): (Law, u32, &str)| {
            let mix = Mix {
                reads_per_cent,
                ..writes(law, 4096)
            };
            let shares = self.shares.iter().copied();
            shares.map(move |map_cache| {
                Job::Rig(RigRequest {
                    map_cache,
                    passes: 1.0,
                    scale: ask.scale * SMALLER,
                    ..request(ask, self.system, mix, REQUESTS)
                })
            })
        };
        LOADS.into_iter().flat_map(of).collect()
    }

    /// Rows and picture of what its jobs found.
    fn shown(&self, findings: &[Finding]) -> (Vec<Row>, Plot) {
        let system = self.system;
        let mut plot = Plot::lines(
            &format!("Requests of {system} with less of the map in memory"),
            "per cent of those with all of it",
            "map in memory, per cent",
            self.shares.to_vec(),
        );
        let mut rows = Vec::new();
        for ((.., name), of_load) in LOADS.iter().zip(findings.chunks(self.shares.len())) {
            let iops = of_load.iter().map(|found| found.rig().window.iops() as f64);
            let iops: Vec<f64> = iops.collect();
            let what = format!("{system}, {name}, all of the map, thousand/s");
            rows.push(Row::beside(what, iops[0] / 1e3));
            let by_all: Vec<f64> = iops.iter().map(|one| 100.0 * one / iops[0]).collect();
            rows.extend(
                self.shares
                    .iter()
                    .zip(&by_all)
                    .skip(1)
                    .map(|(share, by_all)| {
                        Row::beside(format!("{system}, {name}, {share} % of the map"), *by_all)
                    }),
            );
            plot.series(name, by_all);
        }
        (rows, plot)
    }
}

fn jobs(ask: &Ask) -> Vec<Job> {
    SWEEPS.iter().flat_map(|sweep| sweep.jobs(ask)).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let mut left = findings;
    let shown = SWEEPS.iter().map(|sweep| {
        let (its, others) = left.split_at(sweep.shares.len() * LOADS.len());
        left = others;
        sweep.shown(its)
    });
    let (rows, plots): (Vec<_>, Vec<_>) = shown.unzip();
    Outcome {
        unit: "per cent, or as said",
        rows: rows.concat(),
        notes: NOTES.map(str::to_owned).to_vec(),
        parameters: Vec::new(),
        stated: Vec::new(),
        plots,
    }
}

const NOTES: [&str; 4] = [
    "A miss reads a page from the fast drive before the request goes on, and writes one that was changed first; pages \
     are 4 KiB and the least recently used goes, as in SPDK's lib/ftl.",
    "Where something else is the limit (the dense drive at uniform reads and writes, the processor at skewed writes) \
     misses cost latency, not rate: the fast drive has reads to spare. Skewed reads come from the fast drive, \
     and their pages compete with them; hot blocks are scattered, so nearly every page holds some.",
    "Shares are of four bytes a block for both, so 12.5 % is what CSAL has in the document and a large pool of the engine by \
     default. The engine keeps leaves there, nine bytes a block, and what was written since; 100 % is all of it. With \
     less a write merges its leaf sooner, which the fast drive takes.",
    processors::NOTE,
];
