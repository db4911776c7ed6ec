//! The table of drives that document 002 begins with.

use super::{Ask, Experiment, Finding, Job, Outcome, Row};
use crate::drive::{Job as Work, Measure};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "drive-table",
    title: "SLC, MLC, TLC, QLC and hard disk alone: sequential bandwidth, random operations",
    source: "document 002, table of drives",
    is_drawn: false,
    quick: Some(1),
    is_scaled: false,
    jobs,
    outcome,
};

/// How far off ours may be: what the issue of the laboratory asks for.
const TOLERANCE: f64 = 5.0;
/// Bytes of sequential commands.
const LARGE: u64 = 128 << 10;

/// A line of the table: GB/s read and written, thousand operations a second read and written.
struct Line {
    model: &'static str,
    name: &'static str,
    published: [f64; 4],
    /// Commands in flight.
    depth: u32,
}

const TABLE: [Line; 5] = [
    Line {
        model: "slc-002",
        name: "SLC",
        published: [7.2, 6.1, 1500.0, 1350.0],
        depth: 256,
    },
    Line {
        model: "mlc-002",
        name: "MLC",
        published: [7.0, 5.2, 1300.0, 800.0],
        depth: 256,
    },
    Line {
        model: "tlc-002",
        name: "TLC",
        published: [6.8, 4.2, 1000.0, 150.0],
        depth: 256,
    },
    Line {
        model: "qlc-002",
        name: "QLC",
        published: [6.0, 2.5, 800.0, 5.7],
        depth: 256,
    },
    Line {
        model: "hdd-002",
        name: "HDD",
        published: [0.26, 0.26, 0.24, 0.46],
        depth: 64,
    },
];

const WORK: [(Work, &str); 4] = [
    (Work::SeqRead, "read, GB/s"),
    (Work::SeqWrite, "write, GB/s"),
    (Work::RandRead, "random reads, thousand/s"),
    (Work::RandWrite, "random writes, thousand/s"),
];

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |line: &Line| {
        WORK.map(|(job, _)| {
            let is_sequential = matches!(job, Work::SeqRead | Work::SeqWrite);
            Job::Drive {
                model: line.model,
                what: Measure {
                    job,
                    block_bytes: if is_sequential { LARGE } else { 4096 },
                    depth: line.depth,
                    seed: ask.seed,
                },
            }
        })
    };
    TABLE.iter().flat_map(of).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let mut rows = Vec::new();
    for (line, found) in TABLE.iter().zip(findings.chunks(WORK.len())) {
        for (at, ((job, what), finding)) in WORK.iter().zip(found).enumerate() {
            let report = finding.drive();
            let ours = match job {
                Work::SeqRead | Work::SeqWrite => report.bytes_per_s as f64 / 1e9,
                Work::RandRead | Work::RandWrite | Work::Append => report.iops as f64 / 1e3,
            };
            let what = format!("{}, {what}", line.name);
            rows.push(Row::against(what, line.published[at], ours, TOLERANCE));
        }
    }
    Outcome {
        unit: "figure",
        rows,
        notes: vec![
            "Sizes do not scale: each drive is the smallest that has the times of its sheet."
                .to_owned(),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: Vec::new(),
    }
}
