//! Reads in time.

use super::grid::{self, Grid};
use super::job_file::Embedded;
use super::time_writes::{request, writes};
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Row, processors};
use crate::rig::{Law, Mix, Pace, RigRequest, SystemName, Window};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-reads",
    title: "Reads of eight tenants, uniform and by Zipf's law, 4 KiB and 64 KiB, of every scheme, and reads beside \
            writes",
    source: "document 002, reads: CSAL the fastest of all, far above the disks; mixed 64 KiB reads with 4 KiB and \
             64 KiB writes: the fastest in both directions; without figures",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// By how much CSAL may be behind another and still count as no slower, per cent.
const TOLERANCE: f64 = 5.0;
const SYSTEMS: [SystemName; 7] = [
    SystemName::HddArray,
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::DmZoned,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
/// Those that CSAL is to be ahead of.
const OTHERS: [SystemName; 4] = [
    SystemName::HddArray,
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::DmZoned,
];
/// Law, bytes of a request, reads per cent, and its name.
const LOADS: [(Law, u64, u32, &str); 7] = [
    (Law::Uniform, 4 << 10, 100, "uniform, 4 KiB"),
    (Law::Zipf(0.8), 4 << 10, 100, "Zipf 0.8, 4 KiB"),
    (Law::Zipf(1.2), 4 << 10, 100, "Zipf 1.2, 4 KiB"),
    (Law::Uniform, 64 << 10, 100, "uniform, 64 KiB"),
    (Law::Zipf(0.8), 64 << 10, 100, "Zipf 0.8, 64 KiB"),
    (Law::Zipf(1.2), 64 << 10, 100, "Zipf 1.2, 64 KiB"),
    (Law::Uniform, 64 << 10, 50, "half writes, 64 KiB"),
];
/// Requests of a window at most, by load; reads leave no state that a longer one would show.
const REQUESTS: [u64; 7] = [200_000, 200_000, 200_000, 60_000, 60_000, 60_000, 60_000];
const DISK_REQUESTS: u64 = 20_000;
/// Reads of 64 KiB beside writes of 4 KiB, of each job.
const FILE: Embedded = Embedded {
    name: "workloads/002-reads-64k-writes-4k.fio",
    text: include_str!("../../../../workloads/002-reads-64k-writes-4k.fio"),
};
const FILE_REQUESTS: u64 = 150_000;
/// Places of the loads that have both: those of one size, and the file.
const HALF: usize = 6;
const FILED: usize = 7;
/// Rates of reads are those of the smallest drive with all dies at work, also at a quarter of it.
const SMALLER: u32 = 4;

fn jobs(ask: &Ask) -> Vec<Job> {
    let file = FILE.hosts();
    grid::jobs(&SYSTEMS, FILED + 1, |system, load| {
        if load == FILED {
            let half = filed(ask, system);
            let hosts = file.clone();
            return RigRequest { hosts, ..half };
        }
        let (law, bytes, reads_per_cent, _) = LOADS[load];
        let mix = Mix {
            jobs: 8,
            depth: 128,
            bytes,
            reads_per_cent,
            law,
            pace: Pace::Closed,
        };
        let requests = match system {
            SystemName::HddArray => DISK_REQUESTS,
            _ => REQUESTS[load],
        };
        RigRequest {
            passes: 0.5,
            scale: ask.scale * SMALLER,
            ..request(ask, system, mix, requests)
        }
    })
}

/// What the file stands in for.
fn filed(ask: &Ask, system: SystemName) -> RigRequest {
    RigRequest {
        passes: 0.5,
        scale: ask.scale * SMALLER,
        ..request(ask, system, writes(Law::Uniform, 4096), FILE_REQUESTS)
    }
}

/// Writes of the loads that have both, in their systems' order.
fn beside_reads(grid: &Grid<'_>) -> Vec<Row> {
    let written = |system, load| {
        let window: &Window = grid.window(system, load);
        window.written_per_s() as f64 / 1e6
    };
    let mut rows = Vec::new();
    for (load, name) in [
        (HALF, "half writes, 64 KiB"),
        (FILED, "half writes, 4 KiB beside 64 KiB"),
    ] {
        let fastest = OTHERS.map(|system| written(system, load));
        let fastest = fastest.into_iter().fold(0.0, f64::max);
        let row = Row::at_least(
            format!("csal-paper by the fastest other, {name}, written, at least"),
            1.0,
            written(SystemName::CsalPaper, load) / fastest,
            TOLERANCE,
        );
        rows.push(row.of(Origin::Order));
        for system in SYSTEMS {
            let what = format!("{system}, {name}, MB/s written");
            rows.push(Row::beside(what, written(system, load)));
        }
    }
    rows
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let grid = Grid::new(&SYSTEMS, FILED + 1, findings);
    let rate = |system, load| grid.window(system, load).read_per_s() as f64 / 1e6;
    let names = LOADS.iter().map(|(.., name)| (*name).to_owned());
    let names: Vec<String> = names.chain(["beside 4 KiB writes".to_owned()]).collect();
    let mut rows = Vec::new();
    for (load, name) in names.iter().enumerate() {
        let fastest = OTHERS.map(|system| rate(system, load));
        let fastest = fastest.into_iter().fold(0.0, f64::max);
        let csal = rate(SystemName::CsalPaper, load);
        let row = Row::at_least(
            format!("csal-paper by the fastest other, {name}, at least"),
            1.0,
            csal / fastest,
            TOLERANCE,
        );
        rows.push(row.of(Origin::Order));
        let what = format!("varve by csal-paper, {name}");
        rows.push(Row::beside(what, rate(SystemName::Varve, load) / csal));
    }
    let what = |system: SystemName, name: &str| format!("{system}, {name}, MB/s read");
    let (plot, bars) = grid::bars("Reads of eight tenants", &SYSTEMS, &names, rate, what);
    rows.extend(bars);
    rows.extend(beside_reads(&grid));
    Outcome::plotted("ratio, or as said", rows, &NOTES, plot)
}

const NOTES: [&str; 6] = [
    "Before, half of the addresses are overwritten at the places that will be read: a cache and a fast tier hold what \
     was written last. Uniform, Zipf 0.8 and Zipf 1.2 are the document's.",
    "A model of CSAL is charged no processor for reads, the engine 0.87 us each and 0.6 us for each further block on \
     two processors. Both have memory for an eighth of a map of four bytes a block.",
    "Skewed reads come from the fast drive, and csal-* read a page of the map there for most of them, which the \
     others need not: with all of its map in memory CSAL reads 1.7 times as much (time-map-cache).",
    "The document's mixes have reads of 64 KiB and writes of 4 KiB or 64 KiB in jobs of their own; here each job does both, \
     one after the other as they come, so what is slow at one waits with the other.",
    "Disks keep all writes of such a window in their caches, so in the mixes they do little but read.",
    processors::NOTE,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The laws of document 002's picture at both sizes, each by its name, and the load of both directions where it is
    /// looked for.
    #[test]
    fn reads_are_by_the_laws_of_the_document() {
        for (bytes, kib) in [(4 << 10, 4), (64 << 10, 64)] {
            for (law, name) in [
                (Law::Uniform, "uniform"),
                (Law::Zipf(0.8), "Zipf 0.8"),
                (Law::Zipf(1.2), "Zipf 1.2"),
            ] {
                let load = (law, bytes, 100);
                let mut found = LOADS.iter();
                let found = found.find(|(law, bytes, reads, _)| (*law, *bytes, *reads) == load);
                let (.., found) = found.expect(name);
                assert_eq!(*found, format!("{name}, {kib} KiB"));
            }
        }
        assert_eq!((LOADS[HALF].2, FILED), (50, LOADS.len()));
    }
}
