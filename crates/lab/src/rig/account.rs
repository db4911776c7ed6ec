//! What drives and software have done, and what of it was done in a window.

use super::report::{JobReport, TierReport, Way, Window};
use super::round::{Measured, Seen};
use super::station::{Station, Traffic};
use super::system::{Role, System};
use crate::drive::latency;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_media::Counters;

/// What each drive, and the software, has done so far.
#[derive(Default)]
pub(crate) struct Sums {
    drives: Vec<(Role, Traffic, Counters)>,
    software: BTreeMap<&'static str, u64>,
}

impl Sums {
    /// As things stand.
    pub(crate) fn of(system: &dyn System) -> Self {
        let of = |(role, drive): (Role, Rc<Station>)| (role, drive.traffic(), drive.counters());
        Self {
            drives: system.drives().into_iter().map(of).collect(),
            software: system.counters(),
        }
    }
}

/// What a round comes to. Figures are told for each job if the jobs have names.
pub(super) fn window(measured: &Measured, names: &[String]) -> Window {
    let all = together(&measured.seen);
    let host_bytes = all.bytes[1];
    let (before, after) = &measured.sums;
    let tier = |role| tier(role, host_bytes, before, after);
    let dense = tier(Role::Dense);
    let waf_total =
        dense.and_then(|(_, media)| (host_bytes > 0).then(|| media as f64 / host_bytes as f64));
    let [reads, writes] = ways(&all);
    let jobs = names.iter().zip(&measured.seen).map(|(name, seen)| {
        let [reads, writes] = ways(seen);
        JobReport {
            name: name.clone(),
            virtual_ns: seen.span.0,
            reads,
            writes,
        }
    });
    Window {
        virtual_ns: all.span.0,
        is_cut: measured.is_cut,
        is_empty: all.requests == [0, 0],
        offered_iops: None,
        bursts: None,
        reads,
        writes,
        jobs: jobs.collect(),
        fast: tier(Role::Fast).map(|(report, _)| report),
        dense: dense.map(|(report, _)| report),
        waf_total,
        counters: counters(before, after),
    }
}

/// What all jobs have seen.
fn together(seen: &[Seen]) -> Seen {
    let mut all = Seen::default();
    for one in seen {
        for way in 0..2 {
            all.latencies_ns[way].extend_from_slice(&one.latencies_ns[way]);
            all.requests[way] += one.requests[way];
            all.bytes[way] += one.bytes[way];
        }
        all.span = all.span.max(one.span);
    }
    all
}

fn ways(seen: &Seen) -> [Option<Way>; 2] {
    let per_second = |amount: u64| {
        let amount = u128::from(amount) * 1_000_000_000;
        (amount / u128::from(seen.span.0.max(1))) as u64
    };
    [0, 1].map(|at| {
        let requests = seen.requests[at];
        (requests > 0).then(|| Way {
            requests,
            iops: per_second(requests),
            bytes_per_s: per_second(seen.bytes[at]),
            latency: latency(&seen.latencies_ns[at]),
            within_2_ms_per_cent: within(&seen.latencies_ns[at], 2_000_000),
        })
    })
}

/// Requests that took `most_ns` at most, per cent of all.
fn within(latencies_ns: &[u64], most_ns: u64) -> f64 {
    let within = latencies_ns.iter().filter(|took| **took <= most_ns).count();
    100.0 * within as f64 / latencies_ns.len().max(1) as f64
}

/// What was counted in the window. Gauges, which go down as well, are as they were at its end.
fn counters(before: &Sums, after: &Sums) -> BTreeMap<&'static str, u64> {
    let since = |(name, count): (&&'static str, &u64)| {
        let earlier = before.software.get(name).copied().unwrap_or(0);
        (*name, count.checked_sub(earlier).unwrap_or(*count))
    };
    after.software.iter().map(since).collect()
}

/// What a tier did in the window, and the bytes its media were programmed with.
fn tier(role: Role, host_bytes: u64, before: &Sums, after: &Sums) -> Option<(TierReport, u64)> {
    let mut report = TierReport {
        drives: 0,
        read_bytes: 0,
        written_bytes: 0,
        moved_bytes: 0,
        written_per_host_byte: None,
        waf_device: None,
    };
    let (mut to_drives, mut media) = (0, 0);
    let both = before.drives.iter().zip(&after.drives);
    for ((_, traffic, counters), (_, traffic_after, after)) in both.filter(|(b, _)| b.0 == role) {
        let traffic = traffic_after.since(traffic);
        let counters = after.since(counters);
        report.drives += 1;
        report.read_bytes += traffic.read_bytes;
        report.written_bytes += traffic.written_bytes;
        report.moved_bytes += counters.gc_moved_bytes + counters.rmw_bytes;
        to_drives += counters.host_bytes;
        media += counters.media_bytes;
    }
    let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
    report.written_per_host_byte = ratio(report.written_bytes, host_bytes);
    report.waf_device = ratio(media, to_drives);
    (report.drives > 0).then_some((report, media))
}
