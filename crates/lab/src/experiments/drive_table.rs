//! The table of drives that document 002 begins with.

use super::{Ask, Experiment, Finding, Job, Outcome, Row};
use crate::drive::{Job as Work, Measure};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "drive-table",
    title: "SLC, MLC, TLC, QLC and hard disk alone: sequential bandwidth, random operations",
    source: "document 002, table of drives; a device write amplification of up to 16 at 4 KiB",
    is_drawn: false,
    quick: Some(1),
    is_scaled: false,
    scale_max: 64,
    jobs,
    outcome,
};

/// How far off ours may be: what the issue of the laboratory asks for.
const TOLERANCE: f64 = 5.0;
/// The drive with an IU of 64 KiB, and how often over it is written where 4 KiB are (document 002: up to 16 times).
const COARSE: &str = "qlc-002";
const UNIT_WAF: f64 = 16.0;
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

/// What random writes of 4 KiB cost the QLC drive, whose IU is 64 KiB.
fn units(findings: &[Finding]) -> [Row; 2] {
    let of_drive = TABLE.iter().position(|line| line.model == COARSE);
    let line = of_drive.expect("it is in the table");
    let of_writes = WORK.iter().position(|(job, _)| *job == Work::RandWrite);
    let at = line * WORK.len() + of_writes.expect("it is measured");
    let report = findings[at].drive();
    let all = report.waf_device.expect("it was written to");
    let of_units = report.waf_of_units().expect("it was written to");
    [
        Row::against(
            "QLC, random 4 KiB, waf_device of its IU alone".to_owned(),
            UNIT_WAF,
            of_units,
            TOLERANCE,
        ),
        Row::beside("QLC, random 4 KiB, waf_device".to_owned(), all),
    ]
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
    rows.extend(units(findings));
    Outcome {
        unit: "figure",
        rows,
        notes: vec![
            "Sizes do not scale: each drive is the smallest that has the times of its sheet."
                .to_owned(),
            "The document's 16 are 64 KiB by 4, the IU written whole for each write. A drive that is full and written at random \
             collects besides: that is the other row, and what multiplies the one with the other is in time-waf and time-production."
                .to_owned(),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: Vec::new(),
    }
}
