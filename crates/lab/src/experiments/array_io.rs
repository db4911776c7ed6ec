//! What parity in place costs, and what a host FTL above full stripes costs, in I/Os.

use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Row};
use crate::rig::{Hosts, Law, Mix, Pace, Protect, RigReport, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "array-io",
    title: "Reads and writes per 100 I/Os of hosts, 70 of them reads: RAID-6 and RAID-5 in place, and the \
            engine above full stripes, on eight drives",
    source: "document 004, tables of RAID-6 and RAID-5",
    is_drawn: false,
    quick: None,
    is_scaled: true,
    scale_max: 4,
    jobs,
    outcome,
};

/// How far off ours may be: the host FTL's figures follow from its WA, which the document sets to 2.
const TOLERANCE: f64 = 10.0;
const TOLERANCE_FTL: f64 = 20.0;
/// Drives of the document's array.
pub(super) const DRIVES: u32 = 8;
/// What the host FTL keeps back: with it the engine writes about twice what hosts wrote, which the
/// document takes for granted.
pub(super) const OVER_PROVISION: f64 = 30.0;
/// As many requests in flight as the document's 120 jobs of 16 have. Jobs of a mix are tenants, of which a rig has 64 at most;
/// in a job file, as `workloads/004-*.fio`, clones of a job are one.
const JOBS: u32 = 60;
const DEPTH: u32 = 32;
const BYTES: u64 = 16 << 10;
/// Cores of the document's machine (two of 32).
pub(super) const CORES: usize = 64;
/// Flash that costs about 2 under random writes, as the document takes for granted, by its sheet.
const DENSE: &str = "slc-p5810";
/// The document's endurance: one drive write a day at a WA of 2.
const RATED_WAF: f64 = 2.0;
const READS: u32 = 70;

/// A line of the document's tables.
struct Line {
    name: &'static str,
    system: SystemName,
    protect: Protect,
    rmw_level: u8,
    /// Strips of a stripe that hold data.
    data: f64,
    /// Reads and writes at the SSDs, and at NAND.
    drives: [f64; 2],
    nand: [f64; 2],
    /// Array writes per day.
    per_day: f64,
}

const LINES: [Line; 5] = [
    Line {
        name: "RAID-6, reconstruct",
        system: SystemName::Raid6,
        protect: Protect::None,
        rmw_level: 0,
        data: 6.0,
        drives: [220.0, 90.0],
        nand: [310.0, 180.0],
        per_day: 0.4,
    },
    Line {
        name: "RAID-5, modify",
        system: SystemName::Raid5,
        protect: Protect::None,
        rmw_level: 1,
        data: 7.0,
        drives: [130.0, 60.0],
        nand: [190.0, 120.0],
        per_day: 0.6,
    },
    Line {
        name: "RAID-5, reconstruct",
        system: SystemName::Raid5,
        protect: Protect::None,
        rmw_level: 0,
        data: 7.0,
        drives: [250.0, 60.0],
        nand: [310.0, 120.0],
        per_day: 0.6,
    },
    Line {
        name: "host FTL, 6+2",
        system: SystemName::Varve,
        protect: Protect::Parity2,
        rmw_level: 1,
        data: 6.0,
        drives: [100.0, 80.0],
        nand: [100.0, 80.0],
        per_day: 1.0,
    },
    Line {
        name: "host FTL, 7+1",
        system: SystemName::Varve,
        protect: Protect::Parity1,
        rmw_level: 1,
        data: 7.0,
        drives: [100.0, 69.0],
        nand: [100.0, 69.0],
        per_day: 1.0,
    },
];

/// A system on the document's array, under loads like its own.
pub(super) fn request(ask: &Ask, system: SystemName, reads_per_cent: u32) -> RigRequest {
    RigRequest {
        system,
        hosts: Hosts::Mix(Mix {
            jobs: JOBS,
            depth: DEPTH,
            bytes: BYTES,
            reads_per_cent,
            law: Law::Uniform,
            pace: Pace::Closed,
        }),
        fast: "slc-002",
        dense: DENSE,
        drives: DRIVES,
        protect: Protect::None,
        groups_per_unit: 1,
        rmw_level: 1,
        over_provision: OVER_PROVISION,
        fast_tier: 5.0,
        map_cache: 100.0,
        passes: 1.0,
        zipf_ranks: 1,
        cores: CORES,
        scale: ask.scale,
        requests: 200_000,
        seed: ask.seed,
    }
}

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |line: &Line| {
        Job::Rig(RigRequest {
            protect: line.protect,
            rmw_level: line.rmw_level,
            ..request(ask, line.system, READS)
        })
    };
    let mut jobs: Vec<Job> = LINES.iter().map(of).collect();
    // What md does unless told otherwise; the document counts the dearer method.
    jobs.push(Job::Rig(request(ask, SystemName::Raid6, READS)));
    jobs
}

/// I/Os per 100 of hosts, of the size of theirs.
struct Counts {
    drives: [f64; 2],
    nand: [f64; 2],
    fast: [f64; 2],
    host_writes: f64,
}

impl Counts {
    fn of(report: &RigReport) -> Self {
        let requests = |way: &Option<crate::rig::Way>| way.as_ref().map_or(0, |way| way.requests);
        let (reads, writes) = (
            requests(&report.window.reads),
            requests(&report.window.writes),
        );
        let hosts = (reads + writes) as f64 * BYTES as f64;
        let per = |bytes: f64| 100.0 * bytes / hosts;
        let dense = report
            .window
            .dense
            .as_ref()
            .expect("arrays have dense drives");
        let (read, written) = (dense.read_bytes as f64, dense.written_bytes as f64);
        let programmed = written * dense.waf_device.unwrap_or(1.0);
        let fast = report.window.fast.as_ref().map_or([0.0; 2], |fast| {
            [per(fast.read_bytes as f64), per(fast.written_bytes as f64)]
        });
        Self {
            drives: [per(read), per(written)],
            nand: [per(read + dense.moved_bytes as f64), per(programmed)],
            fast,
            host_writes: 100.0 * writes as f64 / (reads + writes) as f64,
        }
    }
}

impl Line {
    fn is_ftl(&self) -> bool {
        self.system == SystemName::Varve
    }

    fn rows(&self, counts: &Counts) -> Vec<Row> {
        let tolerance = if self.is_ftl() {
            TOLERANCE_FTL
        } else {
            TOLERANCE
        };
        let mut rows = Vec::new();
        for (at, original, ours) in [
            ("SSDs", self.drives, counts.drives),
            ("NAND", self.nand, counts.nand),
        ] {
            for (way, what) in ["reads", "writes"].iter().enumerate() {
                let what = format!("{}, {what} at {at}", self.name);
                rows.push(Row::against(what, original[way], ours[way], tolerance));
            }
        }
        let per_host_write = counts.nand[1] / counts.host_writes;
        rows.push(Row::against(
            format!("{}, array writes per day", self.name),
            self.per_day,
            f64::from(DRIVES) * RATED_WAF / (self.data * per_host_write),
            TOLERANCE_FTL,
        ));
        if self.is_ftl() {
            rows.extend(self.rows_of_ftl(counts));
        }
        rows
    }

    /// What the FTL itself writes; what theory makes of that; and what the document has not: a fast
    /// tier.
    fn rows_of_ftl(&self, counts: &Counts) -> Vec<Row> {
        let drives = f64::from(DRIVES);
        let from_ftl = counts.drives[1] * self.data / drives;
        let dense_writes = from_ftl / counts.host_writes;
        let reads = 100.0 - counts.host_writes;
        let moved = counts.host_writes * (dense_writes - 1.0);
        let beside = |what: &str, ours| Row::beside(format!("{}, {what}", self.name), ours);
        vec![
            Row::against(
                format!("{}, writes from the FTL", self.name),
                60.0,
                from_ftl,
                TOLERANCE_FTL,
            ),
            beside("reads at SSDs by theory at this D", reads + moved),
            beside("reads at the fast tier", counts.fast[0]),
            beside("writes at the fast tier", counts.fast[1]),
        ]
    }
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let mut rows = Vec::new();
    for (line, finding) in LINES.iter().zip(findings) {
        rows.extend(line.rows(&Counts::of(finding.rig())));
    }
    let modified = Counts::of(findings[LINES.len()].rig());
    for (what, theory, ours) in [
        ("reads", 160.0, modified.drives[0]),
        ("writes", 90.0, modified.drives[1]),
    ] {
        let what = format!("RAID-6, modify, {what} at SSDs (by theory)");
        let row = Row::against(what, theory, ours, TOLERANCE);
        rows.push(row.of(Origin::Theory));
    }
    Outcome {
        unit: "I/Os per 100 of hosts",
        rows,
        notes: vec![
            format!(
                "NAND is measured: {DENSE} costs about 2 under random writes, which the document takes for \
                 granted; parity in place is written more often than data."
            ),
            "RAID-6, reconstruct, is what the document counts; md modifies parity where that reads less \
             (rmw_level 1)."
                .to_owned(),
            format!(
                "The host FTL keeps {OVER_PROVISION} % back so that it writes about twice what hosts wrote, and \
                 has a fast tier, which the document's has not; its array is the full stripes that it would \
                 write. No compression."
            ),
        ],
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: Vec::new(),
    }
}
