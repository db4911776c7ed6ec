//! How fast arrays are at random 16 KiB I/O, and the engine above one.

use super::array_io::{CORES, OVER_PROVISION, request};
use super::job_file::Embedded;
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row, processors};
use crate::rig::{Protect, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "array-16k",
    title: "Random 16 KiB I/O at 100/0, 70/30, 50/50, 30/70, 0/100 reads/writes on eight drives: RAID-0, 10, 5, \
            6 in place, and the engine above two parities",
    source: "document 004, benchmark of random 16 KiB I/O: the host FTL is at or above RAID-0",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// Ratios below 1 by more than this are told as such.
const TOLERANCE: f64 = 5.0;
/// The nearest sheet to the document's drives.
const DENSE: &str = "tlc-p5520";
/// Its drives are this much smaller at least: so the rates of RAID-0 and RAID-6 differ by 2 % from
/// those of the smallest drives that have the sheet's times. At a sixteenth RAID-0 is 9 % slower,
/// and the engine more than a quarter.
const SMALLER: u32 = 8;
const REQUESTS: u64 = 100_000;
const READS: [u32; 5] = [100, 70, 50, 30, 0];
/// The document's jobs, by mix.
const FILES: [Embedded; 5] = [
    Embedded {
        name: "workloads/004-random-16k-100-0.fio",
        text: include_str!("../../../../workloads/004-random-16k-100-0.fio"),
    },
    Embedded {
        name: "workloads/004-random-16k-70-30.fio",
        text: include_str!("../../../../workloads/004-random-16k-70-30.fio"),
    },
    Embedded {
        name: "workloads/004-random-16k-50-50.fio",
        text: include_str!("../../../../workloads/004-random-16k-50-50.fio"),
    },
    Embedded {
        name: "workloads/004-random-16k-30-70.fio",
        text: include_str!("../../../../workloads/004-random-16k-30-70.fio"),
    },
    Embedded {
        name: "workloads/004-random-16k-0-100.fio",
        text: include_str!("../../../../workloads/004-random-16k-0-100.fio"),
    },
];
const SYSTEMS: [SystemName; 5] = [
    SystemName::Raid0,
    SystemName::Raid10,
    SystemName::Raid5,
    SystemName::Raid6,
    SystemName::Varve,
];

/// The engine on fewer processors than the document's machine has: what that is called, and how many.
const FEWER: [(&str, usize); 2] = [(processors::TWO, 2), (processors::ONE, 1)];

/// A system under one of the files.
fn mixed(ask: &Ask, system: SystemName, at: usize) -> RigRequest {
    RigRequest {
        hosts: FILES[at].hosts(),
        dense: DENSE,
        protect: match system {
            SystemName::Varve => Protect::Parity2,
            _ => Protect::None,
        },
        scale: ask.scale * SMALLER,
        requests: REQUESTS,
        ..request(ask, system, READS[at])
    }
}

/// All mixes of each system, then of the engine on fewer processors.
fn jobs(ask: &Ask) -> Vec<Job> {
    let all = SYSTEMS
        .into_iter()
        .flat_map(|system| (0..READS.len()).map(move |at| Job::Rig(mixed(ask, system, at))));
    let fewer = FEWER.into_iter().flat_map(|(_, cores)| {
        let of = move |at| processors::on(cores, mixed(ask, SystemName::Varve, at));
        (0..READS.len()).map(of)
    });
    all.chain(fewer).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let of = |found: &[Finding]| -> Vec<f64> {
        let rate = |finding: &Finding| {
            let report = finding.rig();
            let ways = [&report.window.reads, &report.window.writes];
            let iops = |way: &Option<crate::rig::Way>| way.as_ref().map_or(0, |way| way.iops);
            ways.map(iops).iter().sum::<u64>() as f64 / 1e3
        };
        found.iter().map(rate).collect()
    };
    let rates: Vec<Vec<f64>> = findings.chunks(READS.len()).map(of).collect();
    let writes = READS.map(|reads| f64::from(100 - reads)).to_vec();
    let mut plot = Plot::lines(
        "Random 16 KiB I/O on eight drives",
        "thousand I/Os a second",
        "writes, per cent",
        writes,
    );
    let mut rows = Vec::new();
    for (system, rates_of) in SYSTEMS.iter().zip(&rates) {
        plot.series(system.name(), rates_of.clone());
        for (at, reads) in READS.iter().enumerate() {
            let ratio = rates_of[at] / rates[0][at];
            let mix = format!("{reads}/{}", 100 - reads);
            rows.push(match system {
                SystemName::Varve => {
                    let what = format!("{mix}, varve by raid-0, at least");
                    Row::at_least(what, 1.0, ratio, TOLERANCE).of(Origin::Order)
                }
                SystemName::Raid0 => {
                    let what = format!("{mix}, raid-0, thousand I/Os a second");
                    Row::beside(what, rates_of[at])
                }
                _ => Row::beside(format!("{mix}, {system} by raid-0"), ratio),
            });
        }
    }
    for ((name, _), rates_of) in FEWER.iter().zip(&rates[SYSTEMS.len()..]) {
        plot.series(name, rates_of.clone());
        let by = rates_of.iter().zip(&rates[0]).zip(READS);
        rows.extend(by.map(|((ours, raid_0), reads)| {
            let what = format!("{reads}/{}, {name}, by raid-0", 100 - reads);
            Row::beside(what, ours / raid_0)
        }));
    }
    Outcome {
        unit: "ratio, or as said",
        rows,
        notes: notes(),
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: vec![plot],
    }
}

/// What has to be known beside the figures.
fn notes() -> Vec<String> {
    vec![
        format!(
            "Jobs are those of the document's files (workloads/004-random-16k-*.fio): 120 clones of one job at depth 16, which are one \
             tenant here. The document tells no duration; a window ends after {REQUESTS} requests. Nothing is overwritten before \
             the file that only reads."
        ),
        format!(
            "The engine has one drive of the fast tier, which takes every write first, keeps {OVER_PROVISION} % \
             of its blocks back and is charged for its processors; arrays in place export all and are \
             charged nothing."
        ),
        format!(
            "The document's machine has {CORES} processors, and \"varve\" as many. The engine below is one reactor, whose \
             work goes to whichever is free: that is a bound, what it could do if its work could be divided at will. The daemon has one data reactor: \"{}\" is what it could do.",
            processors::ONE
        ),
        "No compression.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Hosts;

    /// Figures are told of findings by their places.
    #[test]
    fn the_engine_on_fewer_processors_comes_last() {
        let jobs = jobs(&Ask { seed: 1, scale: 1 });
        assert_eq!(jobs.len(), (SYSTEMS.len() + FEWER.len()) * READS.len());
        for (at, job) in jobs.iter().enumerate() {
            let Job::Rig(request) = job else {
                panic!("all are rigs")
            };
            let (place, mix) = (at / READS.len(), at % READS.len());
            let last = SYSTEMS.len() - 1;
            assert_eq!(request.system, SYSTEMS[place.min(last)], "job {at}");
            assert_eq!(
                request.cores,
                [CORES, 2, 1][place.saturating_sub(last)],
                "job {at}"
            );
            let file = format!(
                "workloads/004-random-16k-{}-{}.fio",
                READS[mix],
                100 - READS[mix]
            );
            let Hosts::Fio(of) = &request.hosts else {
                panic!("all are files")
            };
            assert_eq!(of.name(), file, "job {at}");
        }
    }
}
