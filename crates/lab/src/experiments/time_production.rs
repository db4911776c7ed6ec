//! What a day of a busy user costs the dense drive's flash.

use super::grid::{self, Grid};
use super::time_writes::{request, writes};
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::rig::{Law, RigRequest, SystemName, Window};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-production",
    title: "A day of the user whom 0.1 % outdo, 2.54 TB in 4 KiB writes: what the dense drive's flash takes under each \
            scheme, beside its rating",
    source: "document 002, production: 99.9 % of users write at most 2.54 TB a day, for which a drop-in QLC drive \
             programs 51.76 TB; the P5316 is rated 15.36 TB a day",
    is_drawn: true,
    quick: Some(16),
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// TB a day that 99.9 % of users stay below, and what the drive then programs.
const LOGICAL: f64 = 2.54;
const NAND: f64 = 51.76;
/// TB a day that the drive is rated for.
const RATED: f64 = 15.36;
/// TB of the dense drive, and of the fast one.
const DENSE: f64 = 15.36;
const FAST: f64 = 0.8;
const TOLERANCE: f64 = 20.0;
const SYSTEMS: [SystemName; 5] = [
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
/// Law, name, how often all is overwritten before: where the fast tier absorbs most, it takes several times until the
/// dense one collects garbage.
const LAWS: [(Law, &str, f64); 3] = [
    (Law::Uniform, "uniform", 1.0),
    (Law::Zipf(0.8), "Zipf 0.8", 1.0),
    (Law::Zipf(1.2), "Zipf 1.2", 8.0),
];
const REQUESTS: u64 = 200_000;
/// What writes in place is slow, and soon shows what it costs.
const SLOW_REQUESTS: u64 = 40_000;
const SMALLER: u32 = 2;

fn jobs(ask: &Ask) -> Vec<Job> {
    grid::jobs(&SYSTEMS, LAWS.len(), |system, load| {
        let requests = match system {
            SystemName::DropIn | SystemName::OpenCas => SLOW_REQUESTS,
            _ => REQUESTS,
        };
        let (law, _, passes) = LAWS[load];
        RigRequest {
            passes,
            scale: ask.scale * SMALLER,
            ..request(ask, system, writes(law, 4096), requests)
        }
    })
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let grid = Grid::new(&SYSTEMS, LAWS.len(), findings);
    let names = LAWS.map(|(_, name, _)| name.to_owned());
    let title = "Flash programmed for 2.54 TB of writes";
    let mut plot = Plot::bars(title, "TB a day", names.to_vec());
    let mut rows = Vec::new();
    for system in SYSTEMS {
        let nand = |load| {
            let waf = grid.window(system, load).waf_total;
            waf.expect("these systems have a dense drive that counts") * LOGICAL
        };
        let nand = [0, 1, 2].map(nand);
        for (name, nand) in names.iter().zip(nand) {
            let what = format!("{system}, {name}");
            rows.push(match system {
                SystemName::DropIn => Row::against(what, NAND, nand, TOLERANCE),
                SystemName::OpenCas => Row::beside(what, nand),
                _ => Row::at_most(format!("{what}, at most the rating"), RATED, nand, 0.0),
            });
        }
        rows.extend(daily(system, &names, nand, |load| {
            grid.window(system, load)
        }));
        // One scale for all: what writes in place is off it by far, and stands in the table.
        if system != SystemName::DropIn && system != SystemName::OpenCas {
            plot.series(system.name(), nand.to_vec());
        }
    }
    Outcome::plotted("TB a day", rows, &NOTES, plot)
}

/// Drive writes a day: what the flash of the dense drive takes of that, by its size, and what the fast drive is written with.
fn daily<'a>(
    system: SystemName,
    names: &[String],
    nand: [f64; 3],
    window: impl Fn(usize) -> &'a Window,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (load, (name, nand)) in names.iter().zip(nand).enumerate() {
        let what = format!("{system}, {name}, drive writes a day of flash");
        let original = match system {
            SystemName::DropIn => NAND,
            _ => RATED,
        };
        rows.push(Row::made_of(what, original / DENSE, nand / DENSE));
        let fast = window(load).fast.as_ref();
        if let Some(written) = fast.and_then(|fast| fast.written_per_host_byte) {
            let what = format!("{system}, {name}, drive writes a day of the fast drive");
            rows.push(Row::beside(what, written * LOGICAL / FAST));
        }
    }
    rows
}

const NOTES: [&str; 4] = [
    "The document's NAND column is its logical one times 20.38 at every percentile, so it was reckoned with one factor; \
     how full the drives were, and which I/Os they got, it does not tell (more than 60 % of all up to 8 KiB). Here the drop-in \
     drive is full and gets 4 KiB alone: 16 for the indirection unit of 64 KiB, times what its own collection costs.",
    "Flash of the dense drive alone; the fast drive takes all writes once or more, and is made for it.",
    "Drive writes a day are TB a day by 15.36 TB, of the fast drive by 0.8: those of the dense drive are the rows above in the \
     unit of sheets, beside 51.76 TB of the drop-in drive and the rating of the others, so they have no verdict of their own. Document 000 asks 37 a day of a fast drive at worst and does not tell of what size, so it is no original here; P5810 and P5800X \
     are rated 50 and 100.",
    "The picture has no bars of what writes in place.",
];
