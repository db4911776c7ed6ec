//! Four kinds of load side by side, in time.

use super::job_file::Embedded;
use super::time_writes::request;
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row, processors};
use crate::rig::{Law, Mix, Pace, RigRequest, SystemName, Window};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-mixed",
    title: "Document 000's configuration 3 in time: four writers of 4 KiB (in order, uniform, Zipf 0.8, Zipf 1.2)",
    source: "document 000, configuration 3: CSAL on a standard SSD 3.8, on a zoned one 2.3; document 002: the media's \
             amplification some 3.8 where data of several lifetimes share an erase unit, 2.3 where they do not",
    is_drawn: true,
    quick: None,
    is_scaled: true,
    scale_max: 1,
    jobs,
    outcome,
};

const FILE: Embedded = Embedded {
    name: "workloads/000-configuration-3.fio",
    text: include_str!("../../../../workloads/000-configuration-3.fio"),
};
const TOLERANCE: f64 = 20.0;
/// Document 000, of one CSAL: on a standard drive, and on a zoned one.
const PUBLISHED: [f64; 2] = [3.8, 2.3];
/// A system on a drive: what rows and pictures call it, the system, the drive.
type Scheme = (&'static str, SystemName, &'static str);
const STANDARD: &str = "qlc-002";
const ZONED: &str = "zns-zn540";
const PLACED: &str = "fdp-pm9d3a";
const SCHEMES: [Scheme; 7] = [
    ("csal-today", SystemName::CsalToday, STANDARD),
    ("csal-paper", SystemName::CsalPaper, STANDARD),
    ("varve", SystemName::Varve, STANDARD),
    ("csal-paper on zones", SystemName::CsalPaper, ZONED),
    ("varve on zones", SystemName::Varve, ZONED),
    ("csal-paper with handles", SystemName::CsalPaper, PLACED),
    ("varve with handles", SystemName::Varve, PLACED),
];
/// Places among them: the document's pair, CSAL on a standard drive and on zones, and today's, which mixes tenants.
const MIXED: usize = 0;
const ON_STANDARD: usize = 1;
const ON_ZONES: usize = 3;
/// A third of the file: its job that writes in order would end all after 3.2 million writes.
const REQUESTS: u64 = 1_000_000;

fn jobs(ask: &Ask) -> Vec<Job> {
    let hosts = FILE.hosts();
    // What the file says stands in for it.
    let nothing = Mix {
        jobs: 1,
        depth: 1,
        bytes: 4096,
        reads_per_cent: 0,
        law: Law::Uniform,
        pace: Pace::Closed,
    };
    let of = |(_, system, dense): Scheme| {
        Job::Rig(RigRequest {
            hosts: hosts.clone(),
            dense,
            ..request(ask, system, nothing, REQUESTS)
        })
    };
    SCHEMES.map(of).to_vec()
}

/// Bytes written to the dense drive by bytes of hosts.
fn dense(window: &Window) -> f64 {
    let tier = window.dense.as_ref().expect("there is a dense drive");
    tier.written_per_host_byte.expect("hosts wrote")
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let windows: Vec<&Window> = findings.iter().map(|found| &found.rig().window).collect();
    let media: Vec<f64> = windows
        .iter()
        .map(|window| window.waf_total.expect("hosts wrote"))
        .collect();
    let against =
        |what: &str, published, ours| Row::against(what.to_owned(), published, ours, TOLERANCE);
    let mut rows = vec![
        against(
            "media by hosts, csal-paper on a standard drive",
            PUBLISHED[0],
            media[ON_STANDARD],
        ),
        against(
            "media by hosts, csal-paper on zones",
            PUBLISHED[1],
            media[ON_ZONES],
        ),
        against(
            "media by hosts, csal-paper, standard by zones",
            PUBLISHED[0] / PUBLISHED[1],
            media[ON_STANDARD] / media[ON_ZONES],
        ),
        Row::beside(
            "media by hosts, csal-today by csal-paper on zones".to_owned(),
            media[MIXED] / media[ON_ZONES],
        ),
        Row::beside(
            "D, csal-today by csal-paper on a standard drive".to_owned(),
            dense(windows[MIXED]) / dense(windows[ON_STANDARD]),
        ),
    ];
    for ((scheme, ..), window) in SCHEMES.iter().zip(&windows) {
        let device = window.dense.as_ref().and_then(|dense| dense.waf_device);
        let all = window.written_per_s() as f64 / 1e6;
        rows.push(Row::beside(format!("{scheme}, MB/s"), all));
        rows.push(Row::beside(format!("{scheme}, D"), dense(window)));
        rows.push(Row::beside(
            format!("{scheme}, waf_device"),
            device.unwrap_or(1.0),
        ));
    }
    for (at, (scheme, ..)) in SCHEMES.iter().enumerate() {
        if ![ON_STANDARD, ON_ZONES].contains(&at) {
            let what = format!("media by hosts, {scheme}");
            rows.push(Row::beside(what, media[at]));
        }
    }
    let names: Vec<String> = windows[0].jobs.iter().map(|job| job.name.clone()).collect();
    let mut plot = Plot::bars("Four writers", "MB a second", names.clone());
    for ((scheme, ..), window) in SCHEMES.iter().zip(&windows) {
        let rate = |way: &crate::rig::Way| way.bytes_per_s as f64 / 1e6;
        let jobs = window.jobs.iter().map(|job| job.writes.as_ref());
        let rates: Vec<f64> = jobs.map(|way| way.map_or(0.0, rate)).collect();
        for (job, rate) in names.iter().zip(&rates) {
            rows.push(Row::beside(format!("{scheme}, {job}, MB/s"), *rate));
        }
        plot.series(scheme, rates);
    }
    Outcome::plotted("as said", rows, &NOTES, plot)
}

const NOTES: [&str; 7] = [
    "The published pair is of one CSAL, which document 000 had on a standard drive (3.8) and on a zoned one (2.3): here \
     csal-paper on both. It is not told which CSAL that was, nor whether it knew tenants; csal-today, which mixes them, stands \
     beside. Document 002 has the same two figures without drives, of data that share erase units or do not: waf-isolation \
     holds placement against them.",
    "The documents tell neither sizes of the jobs' areas nor how full the drive was, and their figures do not say \
     whether what the fast tier absorbs is in them: here it is in all. Each job has a quarter of the addresses.",
    "On the standard drive four streams of csal-paper share erase units and die at different times, which leaves holes that \
     the drive itself has to collect (waf_device); zones are the erase units, so nothing is left to collect there.",
    "On zones a band of CSAL, and a group of the engine, is a zone, and waf_device 1. The document has four zoned \
     drives of 4 TB; here it is one of 1 TB, whose 1.2 GB/s of flash limit the rates.",
    "With handles: each stream has a placement handle, and bands of CSAL, groups of the engine, are as long as the \
     drive's reclaim units. CSAL has no such backend.",
    "A third of the file is measured: the job that writes in order would end it after 3.2 million writes.",
    processors::NOTE,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are told of findings by their places.
    #[test]
    fn schemes_are_where_they_are_looked_for() {
        let ask = Ask { seed: 1, scale: 8 };
        let jobs: Vec<_> = jobs(&ask)
            .into_iter()
            .map(|job| match job {
                Job::Rig(request) => (request.system, request.dense),
                _ => panic!("all are rigs"),
            })
            .collect();
        assert_eq!(jobs[MIXED], (SystemName::CsalToday, STANDARD));
        assert_eq!(jobs[ON_STANDARD], (SystemName::CsalPaper, STANDARD));
        assert_eq!(jobs[ON_ZONES], (SystemName::CsalPaper, ZONED));
        assert_eq!(jobs.len(), SCHEMES.len());
    }
}
