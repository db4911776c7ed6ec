//! Whole stripes of RAID-5 against updates in place.

use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Row};
use crate::comparators::{MD, USUAL};
use crate::drive::{Job as Work, Measure};
use crate::rig::{Hosts, Law, Mix, Pace, Protect, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "array-stripes",
    title: "RAID-5 on five drives, written in order: whole stripes, and a strip of a stripe at a time in place",
    source: "document 000, full-stripe RAID: (N-1)*W against N*W/(2+2*W/R), about twice as much",
    is_drawn: false,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

/// A drive that collects, which the document's arrays are of, and one that has no state.
const DRIVES_OF: [(&str, &str); 2] = [("qlc-002", "QLC"), ("slc-002", "SLC")];
/// Jobs of each.
const EACH: usize = 4;
/// SPDK's full-stripe RAID below its FTL has a power of two of data drives and one more.
const DRIVES: u32 = 5;
const DATA: u64 = DRIVES as u64 - 1;
/// The document: about twice.
const TWICE: f64 = 2.0;
/// How far off a figure may be.
const TOLERANCE: f64 = 20.0;
/// Requests in flight: more than five drives need, of any size.
const DEPTH: u32 = 256;
/// Bytes of a command by which a drive's own rates are measured.
const LARGE: u64 = 128 << 10;

fn jobs(ask: &Ask) -> Vec<Job> {
    let alone = |model, job| Job::Drive {
        model,
        what: Measure {
            job,
            block_bytes: LARGE,
            depth: DEPTH,
            seed: ask.seed,
        },
    };
    let of = |(model, _)| -> [Job; EACH] {
        [
            alone(model, Work::SeqRead),
            alone(model, Work::SeqWrite),
            Job::Rig(in_order(ask, model, DATA * MD.chunk_bytes)),
            Job::Rig(in_order(ask, model, MD.chunk_bytes)),
        ]
    };
    DRIVES_OF.into_iter().flat_map(of).collect()
}

/// Writes in order, each of so many bytes.
fn in_order(ask: &Ask, dense: &'static str, bytes: u64) -> RigRequest {
    RigRequest {
        system: SystemName::Raid5,
        hosts: Hosts::Mix(Mix {
            jobs: 1,
            depth: DEPTH,
            bytes,
            reads_per_cent: 0,
            law: Law::Sequential,
            pace: Pace::Closed,
        }),
        fast: "slc-002",
        dense,
        drives: DRIVES,
        protect: Protect::None,
        groups_per_unit: 1,
        rmw_level: USUAL.rmw_level,
        over_provision: USUAL.over_provision,
        fast_tier: USUAL.fast_tier,
        map_cache: USUAL.map_cache,
        // Parity is written once for each strip of the fill: after a pass in order a drive has nothing of that any more.
        passes: 1.0,
        zipf_ranks: 1,
        cores: USUAL.cores,
        scale: ask.scale,
        requests: 40_000,
        seed: ask.seed,
    }
}

/// What the document's formulas have for drives that read and write at such rates: whole stripes, in place.
fn by_formula(read: f64, write: f64) -> [f64; 2] {
    let drives = f64::from(DRIVES);
    [
        (drives - 1.0) * write,
        drives * write / (2.0 + 2.0 * write / read),
    ]
}

/// What the jobs of one drive found.
fn rows(name: &str, found: &[Finding]) -> Vec<Row> {
    let alone = |at: usize| found[at].drive().bytes_per_s as f64 / 1e6;
    let written = |at: usize| found[at].rig().window.written_per_s() as f64 / 1e6;
    let (read, write) = (alone(0), alone(1));
    let formula = by_formula(read, write);
    let (whole, in_place) = (written(2), written(3));
    let by = |what: &str, theory, ours| {
        let what = format!("{name}, {what}, MB/s");
        Row::against(what, theory, ours, TOLERANCE).of(Origin::Theory)
    };
    let dense = found[3].rig().window.dense.as_ref();
    let waf_device = dense.and_then(|dense| dense.waf_device).unwrap_or(1.0);
    let beside = |what: &str, ours| Row::beside(format!("{name}, {what}"), ours);
    vec![
        Row::against(
            format!("{name}, whole stripes by strips in place"),
            TWICE,
            whole / in_place,
            TOLERANCE,
        ),
        by("whole stripes, by (N-1)*W", formula[0], whole),
        by("strips in place, by N*W/(2+2*W/R)", formula[1], in_place),
        beside("the formulas' ratio", formula[0] / formula[1]),
        beside("waf_device, strips in place", waf_device),
        beside("R, the drive alone, MB/s", read),
        beside("W, the drive alone, MB/s", write),
    ]
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let of_drives = DRIVES_OF.iter().zip(findings.chunks(EACH));
    Outcome {
        unit: "ratio, or as said",
        rows: of_drives
            .flat_map(|((_, name), found)| rows(name, found))
            .collect(),
        notes: NOTES.map(str::to_owned).to_vec(),
        parameters: Vec::new(),
        stated: Vec::new(),
        plots: Vec::new(),
    }
}

const NOTES: [&str; 4] = [
    "\"About twice\" is the document's; its formulas have (N-1)/N times 2+2*W/R, which is that of drives that read much faster than they write.",
    "QLC in place: each strip of a stripe writes the parity once more, and the drive, which is full, copies what lies between the dead parity \
     (waf_device). The formula knows nothing of that, so the rate is lower than it says and whole stripes gain more.",
    "SLC in place: the modelled drive reads and writes at the same time, each at its own rate, where the formula adds both; so it is faster than \
     the formula says and whole stripes gain less.",
    "R and W are those of the modelled drive alone, in order, in commands of 128 KiB. Strips in place are whole chunks of 512 KiB, \
     one request each: the old strip and the old parity are read, both written. md would gather such requests of one stripe if they came \
     together; the model does not.",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// As the document writes them: 10 GB/s of whole stripes, by hand 4.41 in place.
    #[test]
    fn formulas_are_the_documents() {
        let [whole, in_place] = by_formula(6.0, 2.5);
        assert!((whole - 10.0).abs() < 1e-9 && (in_place - 4.411_764).abs() < 1e-5);
    }
}
