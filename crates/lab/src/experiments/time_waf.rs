//! What each scheme writes for what hosts write, small and large.

use super::grid::{self, Grid};
use super::time_writes::random;
use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row};
use crate::rig::{SystemName, TierReport};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-waf",
    title: "Write amplification of every scheme at uniform random writes of 4 KiB and 64 KiB, tier by tier",
    source: "document 002, write amplification at 4 KiB and 64 KiB: a picture; what writes 4 KiB to a conventional QLC \
             drive suffers two levels of it, CSAL little; at 64 KiB there is hardly a difference",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// How far apart what hardly differs may be, per cent.
const TOLERANCE: f64 = 20.0;
const SYSTEMS: [SystemName; 6] = [
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::DmZoned,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
const SIZES: [&str; 2] = ["4 KiB", "64 KiB"];

/// Those of time-writes: both together run them once.
fn jobs(ask: &Ask) -> Vec<Job> {
    grid::jobs(&SYSTEMS, SIZES.len(), |system, size| {
        random(ask, system, size)
    })
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let grid = Grid::new(&SYSTEMS, SIZES.len(), findings);
    let flash = |system, size| {
        let waf = grid.window(system, size).waf_total;
        waf.expect("these systems have a dense drive that counts")
    };
    let others = [SystemName::DropIn, SystemName::OpenCas, SystemName::DmZoned];
    let least = others.map(|system| flash(system, 0));
    let least = least.into_iter().fold(f64::INFINITY, f64::min);
    let mut rows = Vec::new();
    for csal in [SystemName::CsalPaper, SystemName::CsalToday] {
        let row = Row::at_most(
            format!("{csal} by the least other, 4 KiB, flash of the dense drive, at most"),
            1.0,
            flash(csal, 0) / least,
            0.0,
        );
        rows.push(row.of(Origin::Order));
        let (ours, drop_in) = (flash(csal, 1), flash(SystemName::DropIn, 1));
        let what = format!("{csal} by drop-in, 64 KiB, flash of the dense drive");
        let row = Row::against(what, 1.0, ours / drop_in, TOLERANCE);
        rows.push(row.of(Origin::Order));
    }
    let mut plot = Plot::bars(
        "Flash of the dense drive by bytes of hosts",
        "bytes for a byte",
        SIZES.map(str::to_owned).to_vec(),
    )
    .in_ratios();
    for system in SYSTEMS {
        for (size, name) in SIZES.iter().enumerate() {
            let window = grid.window(system, size);
            let to = |tier: &Option<TierReport>| {
                let tier = tier.as_ref();
                tier.and_then(|tier| tier.written_per_host_byte)
                    .unwrap_or(0.0)
            };
            let dense = window.dense.as_ref();
            let device = dense.and_then(|dense| dense.waf_device).unwrap_or(1.0);
            for (what, ours) in [
                ("to the fast tier", to(&window.fast)),
                ("to the dense drive (D)", to(&window.dense)),
                ("waf_device", device),
                ("flash of the dense drive", flash(system, size)),
            ] {
                rows.push(Row::beside(format!("{system}, {name}, {what}"), ours));
            }
        }
        plot.series(
            system.name(),
            [0, 1].map(|size| flash(system, size)).to_vec(),
        );
    }
    Outcome::plotted("bytes for a byte of hosts, or ratio", rows, &NOTES, plot)
}

const NOTES: [&str; 3] = [
    "Flash is D times waf_device: what the scheme sends to the dense drive, and what the drive makes of it. The dense \
     drive of all is the conventional one, with an indirection unit of 64 KiB.",
    "The drive is full and overwritten twice before, and everything is written at random: in place each 4 KiB costs a \
     unit of 64 KiB and the collection of all that. How full the document's drives were is not told.",
    "What a drive of the fast tier makes of what it gets is not in here: it is written in order, but by open-cas.",
];
