//! Writes in time: the paper's schemes beside one another and beside the engine.

use super::grid::{self, Grid};
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row, processors};
use crate::comparators::USUAL;
use crate::rig::{Hosts, Law, Mix, Pace, Protect, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-writes",
    title: "Uniform random and sequential writes of eight tenants, 4 KiB and 64 KiB, of every scheme",
    source: "document 002, uniform writes: CSAL 8.28x Open-CAS at random writes, 5.24x dm-zoned and equal \
             to the disks at sequential ones, dm-zoned about 10 MB/s at random ones; the artifact's sample run: latencies",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// How far off a ratio may be before the report says that the model does not reproduce it.
const TOLERANCE: f64 = 20.0;
/// All schemes.
pub(super) const SYSTEMS: [SystemName; 7] = [
    SystemName::HddArray,
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::DmZoned,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
/// The document's CSAL-ZNS: what it is called, and its drive.
const ON_ZONES: (&str, &str) = ("csal-paper on zones", "zns-zn540");
/// Order, and bytes of a request.
const LOADS: [(Law, u64); 4] = [
    (Law::Uniform, 4 << 10),
    (Law::Uniform, 64 << 10),
    (Law::Sequential, 4 << 10),
    (Law::Sequential, 64 << 10),
];
/// Jobs, and requests of each in flight: the artifact's configuration.
const JOBS: u32 = 8;
const DEPTH: u32 = 128;
/// The document filled twice in order and then wrote everywhere once.
const PASSES: f64 = 2.0;
/// Requests of the window at most, 8 GiB and five seconds: so many that fast tiers are full and what
/// garbage collection does is seen for longer than one burst.
const REQUESTS: [u64; 4] = [800_000, 200_000, 600_000, 100_000];
/// Disks cost the model most, and have no state that a longer window would show.
const DISK_REQUESTS: u64 = 60_000;
/// Writers in order of the document's eight machines, eight jobs in each.
const STREAMS: u32 = 64;
/// What the document holds against one another under these, at which loads.
const STREAMED: [SystemName; 2] = [SystemName::HddArray, SystemName::DropIn];
const STREAMED_LOADS: [usize; 2] = [IN_ORDER_4K, IN_ORDER_64K];

/// A system under a load of the document's shape.
pub(super) fn request(ask: &Ask, system: SystemName, mix: Mix, requests: u64) -> RigRequest {
    RigRequest {
        system,
        hosts: Hosts::Mix(mix),
        fast: "slc-002",
        dense: "qlc-002",
        drives: system.drives(),
        protect: Protect::None,
        groups_per_unit: 1,
        rmw_level: USUAL.rmw_level,
        over_provision: USUAL.over_provision,
        fast_tier: USUAL.fast_tier,
        map_cache: USUAL.map_cache,
        // In order nothing is left behind that a second pass would change.
        passes: if mix.law == Law::Sequential {
            0.2
        } else {
            PASSES
        },
        // Disks are whole at every scale.
        zipf_ranks: match system {
            SystemName::HddArray => 1,
            _ => ask.scale,
        },
        cores: USUAL.cores,
        scale: ask.scale,
        requests,
        seed: ask.seed,
    }
}

/// What a reader has to know of rows that are off.
const NOTES: [&str; 8] = [
    "CSAL in order, 4 KiB: what the model charges a processor for a write and the block moved for it is the artifact's own rate \
     of such writes, so its rate here is that one again and has no verdict. At 64 KiB the charge does not bind.",
    "Latencies of the artifact: 1,024 requests in flight at 544 thousand a second are 1.88 ms on average, so where the rate is the \
     charge's the mean is too, and has no verdict. Its tail, half a second at 99.99 %, is of stalls that document 002 does not explain; nothing \
     in the model stands still for as long.",
    "Open-CAS: most random writes find no line and go through, so it is as fast as the drive below, which is \
     worn in here: 5.7 thousand 4 KiB writes a second, as the document's own table has it. The published \
     ratio asks for some twice as many; in which state the drive was is not told.",
    "dm-zoned: its zones are smaller here by as much as the drive is, so a zone is copied that much sooner, and its rate \
     is a real drive's many times over (2.5, 1.2 and 0.59 MB/s of random 4 KiB on drives of 1, 2 and 4 times the size); \
     its processor time is not charged, nor are its bitmaps read. The published 10 MB/s at random writes may \
     be of a cache that was not full.",
    "A drop-in drive below the disks at writes in order, as the document has it, needs more streams than the drive has buffers \
     for (32 here): eight tenants are fewer, the document's eight jobs of each of eight machines are more. Each is at 128 requests and \
     has a part of the addresses of its own; where the document's wrote is not told.",
    "CSAL on zones is the document's CSAL-ZNS, which had four drives of 4 TB; here it is one of 1 TB, whose flash \
     takes 1.2 GB/s.",
    processors::NOTE,
    "What a system is charged stands with its parameters (varve lab rig SYSTEM).",
];

/// Writes of the artifact's eight jobs.
pub(super) const fn writes(law: Law, bytes: u64) -> Mix {
    Mix {
        jobs: JOBS,
        depth: DEPTH,
        bytes,
        reads_per_cent: 0,
        law,
        pace: Pace::Closed,
    }
}

/// A system under random writes, of the smaller size and of the larger one.
pub(super) fn random(ask: &Ask, system: SystemName, size: usize) -> RigRequest {
    loaded(ask, system, [RANDOM_4K, RANDOM_64K][size])
}

/// A system under one of the loads.
fn loaded(ask: &Ask, system: SystemName, load: usize) -> RigRequest {
    let (law, bytes) = LOADS[load];
    let requests = match system {
        SystemName::HddArray => REQUESTS[load].min(DISK_REQUESTS),
        _ => REQUESTS[load],
    };
    request(ask, system, writes(law, bytes), requests)
}

/// A system under as many writers in order as the document has.
fn streamed(ask: &Ask, system: SystemName, load: usize) -> RigRequest {
    let (law, bytes) = LOADS[load];
    let mix = Mix {
        jobs: STREAMS,
        ..writes(law, bytes)
    };
    request(ask, system, mix, DISK_REQUESTS)
}

fn jobs(ask: &Ask) -> Vec<Job> {
    let standard = grid::jobs(&SYSTEMS, LOADS.len(), |system, load| {
        loaded(ask, system, load)
    });
    let on_zones = (0..LOADS.len()).map(|load| {
        Job::Rig(RigRequest {
            dense: ON_ZONES.1,
            ..loaded(ask, SystemName::CsalPaper, load)
        })
    });
    let on_one =
        (0..LOADS.len()).map(|load| processors::on(1, loaded(ask, SystemName::Varve, load)));
    let streamed = STREAMED
        .into_iter()
        .flat_map(|system| STREAMED_LOADS.map(|load| Job::Rig(streamed(ask, system, load))));
    let all = standard.into_iter().chain(on_zones).chain(on_one);
    all.chain(streamed).collect()
}

/// Place of a load in `LOADS`.
const RANDOM_4K: usize = 0;
const RANDOM_64K: usize = 1;
const IN_ORDER_4K: usize = 2;
const IN_ORDER_64K: usize = 3;

/// `on_one`: rates of the engine on one processor, by load.
fn headlines(rates: &Grid<'_>, on_one: &[f64]) -> Vec<Row> {
    let csal = SystemName::CsalPaper;
    let by = |other, load| rates.rate(csal, load) / rates.rate(other, load);
    let against =
        |what: &str, original, ours| Row::against(what.to_owned(), original, ours, TOLERANCE);
    let mut rows = vec![
        Row::made_of(
            "csal-paper by hdd-array, in order, 4 KiB".to_owned(),
            1.0,
            by(SystemName::HddArray, IN_ORDER_4K),
        ),
        against(
            "csal-paper by hdd-array, in order, 64 KiB",
            1.0,
            by(SystemName::HddArray, IN_ORDER_64K),
        )
        .of(Origin::Order),
        against(
            "csal-paper by open-cas, random, 4 KiB",
            8.28,
            by(SystemName::OpenCas, RANDOM_4K),
        ),
        against(
            "csal-paper by dm-zoned, in order, 4 KiB",
            5.24,
            by(SystemName::DmZoned, IN_ORDER_4K),
        ),
        against(
            "csal-paper by dm-zoned, in order, 64 KiB",
            5.24,
            by(SystemName::DmZoned, IN_ORDER_64K),
        ),
        against(
            "dm-zoned, random, 4 KiB, MB/s",
            10.0,
            rates.rate(SystemName::DmZoned, RANDOM_4K),
        ),
        Row::beside(
            "varve by open-cas, random, 4 KiB".to_owned(),
            rates.rate(SystemName::Varve, RANDOM_4K) / rates.rate(SystemName::OpenCas, RANDOM_4K),
        ),
        Row::beside(
            "varve by csal-paper, random, 4 KiB".to_owned(),
            rates.rate(SystemName::Varve, RANDOM_4K) / rates.rate(csal, RANDOM_4K),
        ),
        Row::beside(
            "varve by csal-paper, in order, 4 KiB".to_owned(),
            rates.rate(SystemName::Varve, IN_ORDER_4K) / rates.rate(csal, IN_ORDER_4K),
        ),
    ];
    for (load, name) in [
        (RANDOM_4K, "random, 4 KiB"),
        (IN_ORDER_4K, "in order, 4 KiB"),
    ] {
        rows.push(Row::beside(
            format!("{}, by csal-today, {name}", processors::ONE),
            on_one[load] / rates.rate(SystemName::CsalToday, load),
        ));
    }
    rows
}

/// `rates`: of those that the document holds against one another under its writers in order, by load.
fn of_streams(rates: &[f64]) -> Vec<Row> {
    let (disks, drop_in) = rates.split_at(STREAMED_LOADS.len());
    let mut rows = Vec::new();
    for (load, (disks, drop_in)) in STREAMED_LOADS.iter().zip(disks.iter().zip(drop_in)) {
        let what = format!("{STREAMS} writers in order, {} KiB", LOADS[*load].1 >> 10);
        let by = Row::at_least(
            format!("{what}, hdd-array by drop-in, at least"),
            1.0,
            disks / drop_in,
            0.0,
        );
        rows.push(by.of(Origin::Order));
        rows.push(Row::beside(format!("{what}, hdd-array, MB/s"), *disks));
        rows.push(Row::beside(format!("{what}, drop-in, MB/s"), *drop_in));
    }
    rows
}

/// The artifact's sample run, 4 KiB in order by eight jobs at depth 128: milliseconds.
const ARTIFACT_MEAN: f64 = 1.88;
const ARTIFACT: [(&str, f64); 4] = [
    ("50 %", 1.34),
    ("99 %", 4.0),
    ("99.9 %", 56.9),
    ("99.99 %", 501.0),
];

/// How long those writes take CSAL here.
fn latencies(rates: &Grid<'_>) -> Vec<Row> {
    let writes = &rates.window(SystemName::CsalPaper, IN_ORDER_4K).writes;
    let latency = &writes.as_ref().expect("writes were measured").latency;
    let what = |name: &str| format!("csal-paper, in order, 4 KiB, {name} of writes, ms");
    let millis = |ns: u64| ns as f64 / 1e6;
    let mut rows = vec![Row::made_of(
        what("mean"),
        ARTIFACT_MEAN,
        millis(latency.mean_ns),
    )];
    rows.extend(latency.percentiles().map(|(name, ns)| {
        let published = ARTIFACT.iter().find(|(other, _)| *other == name);
        let (_, published) = published.expect("all four are published");
        Row::against(what(name), *published, millis(ns), TOLERANCE)
    }));
    rows
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let (standard, others) = findings.split_at(SYSTEMS.len() * LOADS.len());
    let rates = Grid::new(&SYSTEMS, LOADS.len(), standard);
    let names = LOADS.map(|(law, bytes)| {
        let order = if law == Law::Uniform {
            "random"
        } else {
            "in order"
        };
        format!("{order}, {} KiB", bytes >> 10)
    });
    let mut plot = Plot::bars("Writes of eight tenants", "MB a second", names.to_vec());
    for system in SYSTEMS {
        let of = (0..LOADS.len()).map(|load| rates.rate(system, load));
        plot.series(system.name(), of.collect());
    }
    let written = |finding: &Finding| finding.rig().window.written_per_s() as f64 / 1e6;
    let others: Vec<f64> = others.iter().map(written).collect();
    let (on_zones, others) = others.split_at(LOADS.len());
    let (on_one, streamed) = others.split_at(LOADS.len());
    plot.series(ON_ZONES.0, on_zones.to_vec());
    plot.series(processors::ONE, on_one.to_vec());
    let mut rows = headlines(&rates, on_one);
    rows.extend(of_streams(streamed));
    rows.extend(latencies(&rates));
    for system in SYSTEMS {
        for (load, name) in names.iter().enumerate() {
            let what = format!("{system}, {name}, MB/s");
            rows.push(Row::beside(what, rates.rate(system, load)));
        }
    }
    for (whose, rates) in [(ON_ZONES.0, on_zones), (processors::ONE, on_one)] {
        rows.extend(processors::rows(whose, &names, rates, "MB/s"));
    }
    Outcome {
        unit: "ratio, or as said",
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates are told of findings by their places: systems, then CSAL on zones, then the engine on one processor, each
    /// under all loads, then what is held against one another under many writers.
    #[test]
    fn jobs_are_where_their_rates_are_looked_for() {
        let jobs = jobs(&Ask { seed: 1, scale: 8 });
        let (zoned, one) = (SYSTEMS.len(), SYSTEMS.len() + 1);
        let standard = (one + 1) * LOADS.len();
        assert_eq!(jobs.len(), standard + STREAMED.len() * STREAMED_LOADS.len());
        for (at, job) in jobs.iter().take(standard).enumerate() {
            let Job::Rig(request) = job else {
                panic!("all are rigs")
            };
            let place = at / LOADS.len();
            let systems = [&SYSTEMS[..], &[SystemName::CsalPaper, SystemName::Varve]].concat();
            assert_eq!(request.system, systems[place], "job {at}");
            assert_eq!(request.dense == ON_ZONES.1, place == zoned, "job {at}");
            assert_eq!(request.cores == 1, place == one, "job {at}");
            let Hosts::Mix(mix) = &request.hosts else {
                panic!("all are mixes")
            };
            assert_eq!((mix.law, mix.bytes), LOADS[at % LOADS.len()], "job {at}");
        }
        for (at, job) in jobs[standard..].iter().enumerate() {
            let Job::Rig(request) = job else {
                panic!("all are rigs")
            };
            let (place, load) = (at / STREAMED_LOADS.len(), at % STREAMED_LOADS.len());
            let bytes = LOADS[STREAMED_LOADS[load]].1;
            assert_eq!(request.system, STREAMED[place], "streams {at}");
            let mix = Mix {
                jobs: STREAMS,
                ..writes(Law::Sequential, bytes)
            };
            assert_eq!(request.hosts, Hosts::Mix(mix), "streams {at}");
        }
    }
}
