//! How long a start takes after the loss of power.

use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::comparators::CSAL_PAPER;
use crate::drive::{Job as DriveJob, Measure};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-recovery",
    title: "A start after the loss of power: the drives' part of it, by how fast they are read; of the engine also an estimate \
            of all",
    source: "document 002, recovery: naive 2622.64 s, P2L 7.44 s, checkpoint 5.14 s",
    is_drawn: true,
    quick: Some(2),
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// Published seconds.
const PUBLISHED: [f64; 3] = [2622.64, 7.44, 5.14];
const CAPACITY: u64 = 15_360_000_000_000;
/// The engine's run is smaller by this, at `--scale 1`; twice as much is the most that it can be.
const SCALE: u64 = 256;

/// Processor time of a start of 15.36 TB at 1/8, milliseconds: scanning headers, which takes as long at every size; and what
/// grows with it: walking the log, loading slices, redoing 234,296 records (1.08 us each), the commit.
///
/// # Source
/// `varve lab recovery`, 26 November, `docs/figures.md`, "What was found": measured beside other work. At 1/32 the same comes to
/// 4.9 s.
const SCAN_MS: f64 = 8.7;
const GROWS_MS: [f64; 4] = [22.8, 370.9, 253.0, 43.1];
const MEASURED_AT: f64 = 8.0;

/// Seconds of one processor that a start at the whole size takes, by that.
fn cpu_estimated() -> f64 {
    (SCAN_MS + MEASURED_AT * GROWS_MS.iter().sum::<f64>()) / 1e3
}

fn jobs(ask: &Ask) -> Vec<Job> {
    let reads = |model| Job::Drive {
        model,
        what: Measure {
            job: DriveJob::SeqRead,
            block_bytes: 128 << 10,
            depth: 256,
            seed: ask.seed,
        },
    };
    vec![
        reads("qlc-002"),
        reads("slc-002"),
        Job::Start {
            capacity: CAPACITY,
            dram: None,
            scale: SCALE * u64::from(ask.scale.min(2)),
            seed: ask.seed,
        },
    ]
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let rate = |at: usize| findings[at].drive().bytes_per_s as f64;
    let (dense, fast) = (rate(0), rate(1));
    let read_bytes = findings[2].start().read_bytes;
    let csal = CSAL_PAPER.start;
    let ours = [
        csal.drive / dense + csal.others_s,
        csal.p2l / dense + csal.rest_of_drive_s + csal.others_s,
        (csal.recent_p2l + csal.map) / dense + csal.rest_of_drive_s + csal.others_s,
    ];
    let varve = read_bytes as f64 / fast;
    let names = ["csal, the whole drive", "csal, P2L", "csal, checkpoint"];
    let mut rows: Vec<Row> = names
        .iter()
        .zip(PUBLISHED)
        .zip(ours)
        .map(|((name, published), ours)| Row::made_of(format!("{name}, s"), published, ours))
        .collect();
    let estimated = varve + cpu_estimated();
    let beside = [
        ("varve, the fast drive's part alone, s", varve),
        (
            "varve, ESTIMATE: that and the processor's part, s",
            estimated,
        ),
        ("varve, read, GB", read_bytes as f64 / 1e9),
    ];
    rows.extend(beside.map(|(what, ours)| Row::beside(what.to_owned(), ours)));
    let shown = [
        "csal, P2L",
        "csal, checkpoint",
        "varve, drive alone",
        "varve, estimate of all",
    ];
    let mut plot = Plot::bars(
        "A start: CSAL's as published, by our drive's rate; the engine's",
        "seconds",
        shown.map(str::to_owned).to_vec(),
    );
    plot.series("time", vec![ours[1], ours[2], varve, estimated]);
    let mut outcome = Outcome::plotted("as said", rows, &NOTES, plot);
    outcome.state("csal-paper", &CSAL_PAPER.stated_start());
    outcome
}

const NOTES: [&str; 3] = [
    "The document's times are its volumes by the drive's 6.0 GB/s, to the digit, and what it lists beside; \
     only the rate is ours. That is arithmetic, so these rows have no verdict: the models of CSAL have no recovery, neither by \
     P2L nor by checkpoints, nor the document's rule of which of two copies is the newer.",
    "The engine's start is at the worst instant of its checkpoint cycle, extrapolated. What it reads takes the fast drive a \
     fraction of the published times, but that is the drive's part alone and says nothing of which start is shorter.",
    "The estimate adds 5.5 s of one processor to that, as if nothing were read meanwhile: what varve lab recovery took at 1/8 of this size on one machine on 26 \
     November, beside other work, times 8 (4.9 s by 1/32; docs/figures.md). It is no measurement of a start of this size, and by \
     it the engine's is no shorter than CSAL's with checkpoints. Of CSAL's processor time the document lists 1.64 s of all else.",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// As `docs/figures.md` tells it, in its last column.
    #[test]
    fn the_processor_takes_what_was_measured() {
        assert_eq!((cpu_estimated() * 10.0).round(), 55.0);
    }
}
