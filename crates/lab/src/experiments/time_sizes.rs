//! Writes of all sizes in time.

use super::grid::{self, Grid};
use super::time_writes::{request, writes};
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row, processors};
use crate::rig::{Law, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-sizes",
    title: "Uniform random and sequential writes of eight tenants, 4 KiB to 1 MiB, of every scheme on flash",
    source: "document 002, uniform writes over sizes: a picture; CSAL the fastest at random writes and equal to the \
             disks in order, Open-CAS at or below the drop-in drive at large writes in order",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

const SYSTEMS: [SystemName; 6] = [
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::DmZoned,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
/// Eight disks in order, MB a second: 0.26 GB each, as the document's table has it and ours do.
const DISKS: f64 = 8.0 * 260.0;
/// How far behind another one may be and still count as no slower, per cent.
const TOLERANCE: f64 = 5.0;
/// KiB of a request.
const SIZES: [u32; 5] = [4, 16, 64, 256, 1024];
const ORDERS: [(Law, &str); 2] = [(Law::Uniform, "random"), (Law::Sequential, "in order")];
const LOADS: usize = SIZES.len() * ORDERS.len();
/// Bytes of a window at most: as many as half of the addresses there are.
const WINDOW_BYTES: u64 = 3 << 29;
/// Requests of one at most. A rig has four thousand at least, so windows of 1 MiB overwrite all there is.
const REQUESTS: u64 = 200_000;
/// Whole drives stand in time-writes, at 4 and 64 KiB.
const SMALLER: u32 = 4;

/// All sizes in one order, then in the other.
fn jobs(ask: &Ask) -> Vec<Job> {
    grid::jobs(&SYSTEMS, LOADS, |system, load| {
        let (law, _) = ORDERS[load / SIZES.len()];
        let bytes = u64::from(SIZES[load % SIZES.len()]) << 10;
        let requests = (WINDOW_BYTES / bytes).min(REQUESTS);
        let request = request(ask, system, writes(law, bytes), requests);
        RigRequest {
            passes: request.passes.min(1.0),
            scale: ask.scale * SMALLER,
            ..request
        }
    })
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let grid = Grid::new(&SYSTEMS, LOADS, findings);
    let rate = |system, order: usize, size| grid.rate(system, order * SIZES.len() + size);
    let mut rows = orders(&rate);
    let mut plots = Vec::new();
    for (order, (_, name)) in ORDERS.iter().enumerate() {
        let mut plot = Plot::octaves(
            &format!("Writes of eight tenants, {name}"),
            "MB a second",
            "KiB of a write",
            SIZES.map(f64::from).to_vec(),
        );
        for system in SYSTEMS {
            let rates = (0..SIZES.len()).map(|size| rate(system, order, size));
            let rates: Vec<f64> = rates.collect();
            for (kib, rate) in SIZES.iter().zip(&rates) {
                let what = format!("{system}, {name}, {kib} KiB, MB/s");
                rows.push(Row::beside(what, *rate));
            }
            plot.series(system.name(), rates);
        }
        plots.push(plot);
    }
    Outcome {
        unit: "ratio, or as said",
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
        parameters: Vec::new(),
        stated: Vec::new(),
        plots,
    }
}

/// Writes in order of this size come to the published rate that CSAL's processor is charged by, as in `time_writes`.
const CHARGED_KIB: u32 = 4;

/// What the document's picture shows, as orders.
fn orders(rate: &impl Fn(SystemName, usize, usize) -> f64) -> Vec<Row> {
    const RANDOM: usize = 0;
    const IN_ORDER: usize = 1;
    let others = [SystemName::DropIn, SystemName::OpenCas, SystemName::DmZoned];
    let csal = SystemName::CsalPaper;
    let mut rows = Vec::new();
    for (size, kib) in SIZES.into_iter().enumerate() {
        let fastest = others.map(|system| rate(system, RANDOM, size));
        let fastest = fastest.into_iter().fold(0.0, f64::max);
        let row = Row::at_least(
            format!("csal-paper by the fastest other, random, {kib} KiB, at least"),
            1.0,
            rate(csal, RANDOM, size) / fastest,
            TOLERANCE,
        );
        rows.push(row.of(Origin::Order));
        let what = format!("csal-paper by eight disks, in order, {kib} KiB, at least");
        let by_disks = rate(csal, IN_ORDER, size) / DISKS;
        rows.push(match kib {
            CHARGED_KIB => Row::made_of(what, 1.0, by_disks),
            _ => Row::at_least(what, 1.0, by_disks, TOLERANCE).of(Origin::Order),
        });
    }
    let (last, drop_in) = (SIZES.len() - 1, SystemName::DropIn);
    let row = Row::at_most(
        format!(
            "open-cas by drop-in, in order, {} KiB, at most",
            SIZES[last]
        ),
        1.0,
        rate(SystemName::OpenCas, IN_ORDER, last) / rate(drop_in, IN_ORDER, last),
        TOLERANCE,
    );
    rows.push(row.of(Origin::Order));
    rows
}

const NOTES: [&str; 5] = [
    "csal-paper by the disks in order has no verdict at 4 KiB: its processor is charged by its published rate of such \
     writes.",
    "Drives are a quarter as large as in time-writes, overwritten once instead of twice, and windows shorter: figures of \
     4 and 64 KiB are not those of time-writes, which tell how fast a system is; these tell how that hangs on sizes.",
    "Disks are not in the picture: a modelled one keeps so many writes in its cache, whatever their size, and a window of \
     large ones fits in. In order they write what their table says (drive-table); at random time-writes has them.",
    "A band of csal-paper has room for 1,024 writes as long as there are 400 bands: of 256 KiB and 1 MiB it is less, and \
     chance decides a little which is emptied.",
    processors::NOTE,
];
