//! Skewed writes in time.

use super::grid::{self, Grid};
use super::time_writes::{request, writes};
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Row, processors};
use crate::rig::{Law, Mix, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-skew",
    title: "Writes by Zipf's law: 4 KiB and 64 KiB of eight tenants of every scheme, and document 000's 64 KiB on TLC and on \
            SLC with QLC",
    source: "document 000, configuration 2: 64 KiB, Zipf 1.2: 1875 MiB/s on one TLC drive, 3317 MiB/s on SLC and QLC \
             under CSAL; document 002: CSAL the fastest at Zipf 0.8 and 1.2, 4 KiB and 64 KiB, without figures",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

const TOLERANCE: f64 = 20.0;
const SYSTEMS: [SystemName; 6] = [
    SystemName::HddArray,
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
/// Exponent and KiB of a request.
const LOADS: [(f64, u64); 4] = [(0.8, 4), (1.2, 4), (0.8, 64), (1.2, 64)];
/// By load, of what has a log: the dense tier is written once or so while they last, so that what is emptied when the window
/// opens has had its turn when it closes. On smaller drives fewer do.
const REQUESTS: [u64; 4] = [1_200_000, 9_000_000, 130_000, 500_000];
/// What writes in place is slow, and soon shows how slow: half of them before the window, more than disks' caches take.
const SLOW_REQUESTS: u64 = 40_000;

/// Overwrites before the window: until what the dense drive does no longer changes with their number. Measured of
/// `csal-paper`, whose drive takes longest to come there, 4 KiB at `--scale 4`: at Zipf 0.8 914 MB/s after one, 565, then
/// 500, after two, 470 to 515 after four and after eight; at Zipf 1.2 1750 after four, of which the drive programs more and more, 1660 after
/// eight and after sixteen.
const fn passes(theta: f64) -> f64 {
    if theta < 1.0 { 3.0 } else { 8.0 }
}

/// Exponent of document 000's second configuration.
const THETA_2: f64 = 1.2;
/// Document 000's second configuration: whose drives, and MiB a second if it was published.
const CONFIGURATION_2: [(SystemName, &str, Option<f64>); 4] = [
    (SystemName::DropIn, "tlc-p5520", Some(1875.0)),
    (SystemName::CsalPaper, QLC, Some(3317.0)),
    (SystemName::CsalToday, QLC, Some(3317.0)),
    (SystemName::Varve, QLC, None),
];
const QLC: &str = "qlc-p5336";
/// The smallest model of `qlc-p5336` is four times as large as that of `qlc-002`.
const SMALLER: u32 = 4;
const REQUESTS_2: u64 = 60_000;

const fn skewed(theta: f64, jobs: u32, bytes: u64) -> Mix {
    Mix {
        jobs,
        ..writes(Law::Zipf(theta), bytes)
    }
}

/// A system under one of the loads.
fn loaded(ask: &Ask, system: SystemName, load: usize) -> RigRequest {
    let (theta, kib) = LOADS[load];
    let requests = match system {
        SystemName::HddArray | SystemName::DropIn | SystemName::OpenCas => SLOW_REQUESTS,
        _ => REQUESTS[load] / u64::from(ask.scale),
    };
    RigRequest {
        passes: passes(theta),
        ..request(ask, system, skewed(theta, 8, kib << 10), requests)
    }
}

/// A system as in the second configuration.
fn configured(ask: &Ask, system: SystemName, dense: &'static str) -> RigRequest {
    let smaller = if system == SystemName::DropIn {
        1
    } else {
        SMALLER
    };
    RigRequest {
        dense,
        fast: "slc-p5810",
        passes: passes(THETA_2),
        scale: ask.scale * smaller,
        ..request(ask, system, skewed(THETA_2, 1, 64 << 10), REQUESTS_2)
    }
}

/// The grid, the second configuration, and the engine on one processor under all of that.
fn jobs(ask: &Ask) -> Vec<Job> {
    let mut jobs = grid::jobs(&SYSTEMS, LOADS.len(), |system, load| {
        loaded(ask, system, load)
    });
    jobs.extend(CONFIGURATION_2.map(|(system, dense, _)| Job::Rig(configured(ask, system, dense))));
    let varve = SystemName::Varve;
    jobs.extend((0..LOADS.len()).map(|load| processors::on(1, loaded(ask, varve, load))));
    jobs.push(processors::on(1, configured(ask, varve, QLC)));
    jobs
}

fn outcome(ask: &Ask, findings: &[Finding]) -> Outcome {
    let (grid, others) = findings.split_at(SYSTEMS.len() * LOADS.len());
    let grid = Grid::new(&SYSTEMS, LOADS.len(), grid);
    let (configuration_2, on_one) = others.split_at(CONFIGURATION_2.len());
    let written = |finding: &Finding| finding.rig().window.written_per_s() as f64;
    let mib = |finding| written(finding) / f64::from(1 << 20);
    let mut rows = Vec::new();
    for ((system, dense, published), finding) in CONFIGURATION_2.iter().zip(configuration_2) {
        let ours = mib(finding);
        let what = format!("{system} on {dense}, 64 KiB, Zipf 1.2, MiB/s");
        rows.push(match published {
            Some(published) => Row::against(what, *published, ours, TOLERANCE),
            None => Row::beside(what, ours),
        });
    }
    rows.push(Row::beside(
        format!("{} on {QLC}, 64 KiB, Zipf 1.2, MiB/s", processors::ONE),
        mib(&on_one[LOADS.len()]),
    ));
    let others = [
        SystemName::HddArray,
        SystemName::DropIn,
        SystemName::OpenCas,
    ];
    for (load, (theta, kib)) in LOADS.into_iter().enumerate() {
        let fastest = others.map(|system| grid.rate(system, load));
        let fastest = fastest.into_iter().fold(0.0, f64::max);
        let row = Row::at_least(
            format!("csal-paper by the fastest other, {kib} KiB, Zipf {theta}, at least"),
            1.0,
            grid.rate(SystemName::CsalPaper, load) / fastest,
            0.0,
        );
        rows.push(row.of(Origin::Order));
    }
    let names = LOADS.map(|(theta, kib)| format!("Zipf {theta}, {kib} KiB"));
    let title = "Skewed writes of eight tenants";
    let rate = |system, load| grid.rate(system, load);
    let what = |system: SystemName, name: &str| format!("{system}, {name}, MB/s");
    let (mut plot, bars) = grid::bars(title, &SYSTEMS, &names, rate, what);
    rows.extend(bars);
    let on_one = on_one.iter().take(LOADS.len());
    let on_one: Vec<f64> = on_one.map(|finding| written(finding) / 1e6).collect();
    rows.extend(processors::rows(processors::ONE, &names, &on_one, "MB/s"));
    for (load, name) in names.iter().enumerate() {
        let what = format!("{}, by csal-today, {name}", processors::ONE);
        let by = on_one[load] / grid.rate(SystemName::CsalToday, load);
        rows.push(Row::beside(what, by));
    }
    plot.series(processors::ONE, on_one);
    let mut outcome = Outcome::plotted("ratio, or as said", rows, &NOTES, plot);
    if ask.scale > 1 {
        outcome.notes.push(SMALLER_NOTE.to_owned());
    }
    outcome
}

/// What is told where sizes are divided. Measured at a quarter, seed 1.
const SMALLER_NOTE: &str = "At a quarter of the size these rows are more than 5 % off those of the whole, all others are not: csal-paper of 4 KiB \
     (46 and 58 % above: the smaller the drive, the fewer of its bands share an erase unit) and at Zipf 0.8 of 64 KiB (9 % below), csal-today at Zipf 1.2 (9 and \
     6 % below), the engine at Zipf 0.8 (8 and 11 % below: its groups have fewer stripes), drop-in drives at Zipf 1.2 of 64 KiB (qlc-002 10 % above, tlc-p5520 8 % \
     below), and ratios of those. docs/lab.md, Size of a rig.";

const NOTES: [&str; 5] = [
    "Neither document tells what had been done to the drives before. Here they are overwritten by the same load until more of it \
     changes little: three times at Zipf 0.8, eight times at 1.2.",
    "Zipf's law is over the blocks there are, of drives a thousand times smaller: under an exponent of 1.2 a larger \
     population is kinder to a fast tier of the same share.",
    "Under skew csal-paper makes a conventional drive collect garbage of its own: what streams of tenants and of garbage \
     collection write at one time shares erase units and dies at different times. On zones nothing does (time-mixed).",
    "Which CSAL document 000 measured is not told; both are set against it. Its jobs did not know tenants.",
    processors::NOTE,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates are told of findings by their places: what the engine does on one processor comes last, and is asked for
    /// what it is asked for on two.
    #[test]
    fn the_engine_on_one_processor_comes_last() {
        let jobs = jobs(&Ask { seed: 1, scale: 2 });
        let both = SYSTEMS.len() * LOADS.len() + CONFIGURATION_2.len();
        assert_eq!(jobs.len(), both + LOADS.len() + 1);
        let of_two = (0..LOADS.len()).map(|load| (SYSTEMS.len() - 1) * LOADS.len() + load);
        for (at, twin) in of_two.chain([both - 1]).enumerate() {
            let (Job::Rig(one), Job::Rig(two)) = (&jobs[both + at], &jobs[twin]) else {
                panic!("all are rigs")
            };
            assert_eq!((one.cores, two.cores), (1, 2), "{at}");
            let again = RigRequest {
                cores: 2,
                ..one.clone()
            };
            assert_eq!(format!("{again:?}"), format!("{two:?}"), "{at}");
            assert_eq!(two.system, SystemName::Varve);
        }
    }
}
