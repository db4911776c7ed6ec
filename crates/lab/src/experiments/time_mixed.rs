//! Four kinds of load side by side, in time.

use super::time_writes::request;
use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::fio::Plan;
use crate::rig::{Hosts, JobFile, Law, Mix, Pace, RigRequest, SystemName, Window};
use std::sync::Arc;

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-mixed",
    title: "Document 000's configuration 3 in time: four writers of 4 KiB (in order, uniform, Zipf 0.8, Zipf 1.2)",
    source: "document 000, configuration 3; document 002: media-level 3.8 mixed, 2.3 apart (facts A6, A13)",
    is_drawn: true,
    jobs,
    outcome,
};

const FILE: &str = include_str!("../../../../workloads/000-configuration-3.fio");
const NAME: &str = "workloads/000-configuration-3.fio";
const TOLERANCE: f64 = 20.0;
/// Published: mixed, apart.
const PUBLISHED: [f64; 2] = [3.8, 2.3];
/// Mixed, apart, ours.
const SYSTEMS: [SystemName; 3] = [
    SystemName::CsalToday,
    SystemName::CsalPaper,
    SystemName::Varve,
];
/// A third of the file: its job that writes in order would end all after 3.2 million writes.
const REQUESTS: u64 = 1_000_000;

fn file() -> Arc<JobFile> {
    let plan: Plan = FILE.parse().expect("it is tested that the file is one");
    let file = JobFile::new(NAME, &plan);
    Arc::new(file.expect("it is tested that a rig can do it"))
}

fn jobs(ask: &Ask) -> Vec<Job> {
    let hosts = Hosts::Fio(file());
    // What the file says stands in for it.
    let nothing = Mix {
        jobs: 1,
        depth: 1,
        bytes: 4096,
        reads_per_cent: 0,
        law: Law::Uniform,
        pace: Pace::Closed,
    };
    let of = |system| {
        Job::Rig(RigRequest {
            hosts: hosts.clone(),
            ..request(ask, system, nothing, REQUESTS)
        })
    };
    SYSTEMS.map(of).to_vec()
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
        against("media by hosts, mixed (csal-today)", PUBLISHED[0], media[0]),
        against("media by hosts, apart (csal-paper)", PUBLISHED[1], media[1]),
        against(
            "D mixed by D apart",
            PUBLISHED[0] / PUBLISHED[1],
            dense(windows[0]) / dense(windows[1]),
        ),
    ];
    for (system, window) in SYSTEMS.iter().zip(&windows) {
        let device = window.dense.as_ref().and_then(|dense| dense.waf_device);
        let all = window.written_per_s() as f64 / 1e6;
        rows.push(Row::beside(format!("{system}, MB/s"), all));
        rows.push(Row::beside(format!("{system}, D"), dense(window)));
        rows.push(Row::beside(
            format!("{system}, waf_device"),
            device.unwrap_or(1.0),
        ));
    }
    rows.push(Row::beside("media by hosts, varve".to_owned(), media[2]));
    let names: Vec<String> = windows[0].jobs.iter().map(|job| job.name.clone()).collect();
    let mut plot = Plot::bars("Four writers", "MB a second", names.clone());
    for (system, window) in SYSTEMS.iter().zip(&windows) {
        let rate = |way: &crate::rig::Way| way.bytes_per_s as f64 / 1e6;
        let jobs = window.jobs.iter().map(|job| job.writes.as_ref());
        let rates: Vec<f64> = jobs.map(|way| way.map_or(0.0, rate)).collect();
        for (job, rate) in names.iter().zip(&rates) {
            rows.push(Row::beside(format!("{system}, {job}, MB/s"), *rate));
        }
        plot.series(system.name(), rates);
    }
    Outcome::plotted("as said", rows, &NOTES, plot)
}

const NOTES: [&str; 3] = [
    "The documents tell neither sizes of the jobs' areas nor how full the drive was, and their figures do not say \
     whether what the fast tier absorbs is in them: here it is in all. Each job has a quarter of the addresses.",
    "The published drive of the second figure is a zoned one, whose zones are its erase units. Here bands are 72 to \
     an erase unit of a conventional drive, and what csal-paper deallocates in four streams leaves holes that the \
     drive itself has to collect (waf_device): the ratio of D is what placement does.",
    "A third of the file is measured: the job that writes in order would end it after 3.2 million writes.",
];

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_is_a_load() {
        assert_eq!(super::file().name(), super::NAME);
    }
}
