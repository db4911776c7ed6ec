//! What bursts cost: writes that come faster than they can be kept up with, and then none.

use super::grid::{self, Grid};
use super::time_writes::{request, writes};
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row, processors};
use crate::rig::{Bursts, Law, Mix, Pace, Rate, RigRequest, SystemName, Way};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-bursts",
    title: "Random 4 KiB writes of eight tenants in bursts at twice what each system can sustain, half of that on \
            average: of a 64th, a 16th and a quarter of the fast tier",
    source: "none: no document tells figures of bursts; 2 ms are the engine's target (time-latency)",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

const SYSTEMS: [SystemName; 5] = [
    SystemName::DropIn,
    SystemName::OpenCas,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
/// Average rate, per cent of the closed loop's, and how many times that in a burst.
const SHARE: u32 = 50;
const FACTOR: u32 = 4;
/// Burst, per cent of the fast tier on average. A 64th of 0.8 TB are 12.5 GB: six seconds at 2 GB/s. Drives
/// are a thousand times smaller here, and as fast.
const SIZES: [f64; 3] = [1.5625, 6.25, 25.0];
/// Blocks of the fast tier at full size: 5 % of the 82 % of 15 GiB that are exported. Systems round it, each in its
/// own way, and open-cas, which exports all, has a fifth more.
const TIER_BLOCKS: f64 = 161_000.0;
/// As in time-production.
const SMALLER: u32 = 2;
/// Requests of a window, on average: eight of the largest bursts, 128 of the smallest.
const REQUESTS: u64 = 160_000;

fn jobs(ask: &Ask) -> Vec<Job> {
    let scale = ask.scale * SMALLER;
    grid::jobs(&SYSTEMS, SIZES.len(), |system, size| {
        let requests = SIZES[size] / 100.0 * TIER_BLOCKS / f64::from(scale);
        let mix = Mix {
            pace: Pace::Bursts(Bursts {
                rate: Rate::PerCent(SHARE),
                factor: FACTOR,
                requests: requests as u64,
            }),
            ..writes(Law::Uniform, 4096)
        };
        RigRequest {
            passes: 1.0,
            scale,
            ..request(ask, system, mix, REQUESTS)
        }
    })
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let grid = Grid::new(&SYSTEMS, SIZES.len(), findings);
    let mut plot = Plot::octaves(
        "Writes that take two milliseconds at most",
        "per cent",
        "a burst, per cent of the fast tier, on average",
        SIZES.to_vec(),
    );
    let mut rows = Vec::new();
    for (at, system) in SYSTEMS.into_iter().enumerate() {
        let closed = findings[at * SIZES.len()].rig().earlier[0].iops();
        rows.push(Row::beside(
            format!("{system}, closed loop, thousand/s"),
            closed as f64 / 1e3,
        ));
        let mut within = Vec::new();
        for (size, per_cent) in SIZES.into_iter().enumerate() {
            let writes = grid.window(system, size).writes.as_ref();
            let writes = writes.expect("all requests write");
            within.push(writes.within_2_ms_per_cent);
            rows.extend(of_size(&format!("{system}, {per_cent} %"), writes));
        }
        plot.series(system.name(), within);
    }
    Outcome::plotted("as said", rows, &NOTES, plot)
}

/// Rows of a system's writes in bursts of one size.
fn of_size(what: &str, writes: &Way) -> Vec<Row> {
    let mut rows = vec![Row::beside(
        format!("{what}, within 2 ms, per cent"),
        writes.within_2_ms_per_cent,
    )];
    let row = |(name, ns)| Row::beside(format!("{what}, {name} of writes, ms"), ns as f64 / 1e6);
    rows.extend(writes.latency.percentiles().map(row));
    rows
}

const NOTES: [&str; 5] = [
    "Bursts and the silences between them have exponential lengths, the same for all systems in requests; in a burst \
     writes come at random at twice what the closed loop did just before, so drop-in and open-cas are asked for far \
     fewer than the others. Latency is from the intended start.",
    "A window has eight of the largest bursts, and one long burst decides its last percentiles: they swing from seed \
     to seed.",
    "What takes a burst is room in the fast tier: csal-* have a fifth of it (SPDK begins to compact when four fifths \
     of the chunks are full), the engine what its cleaner keeps free. open-cas has none once its lines are dirty: what \
     cleans them when nothing comes for ten seconds never wakes here.",
    "Processors are charged for writes and for what is moved behind them: at twice what can be sustained that may be all of \
     the one of csal-today, or of the two of csal-paper and varve (varve lab rig varve --cores 8 has more).",
    processors::NOTE,
];
