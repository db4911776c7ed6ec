//! The experiment on a pool that is small enough to be run whole.

use serde_json::Value;
use std::rc::Rc;
use varve_lab::plan::{Plan, PlanRequest};
use varve_lab::recovery::{Fill, Request, creation, experiment};

fn report(fill: Fill, seed: u64) -> Value {
    let plan = PlanRequest {
        capacity: 2_000_000_000,
        dram: Some(6 << 20),
        scale: 1,
        over_provision: 30,
        fast_per_cent: 10,
    };
    let plan = Plan::new(&plan).unwrap();
    let request = Request {
        seed,
        depth: 32,
        fill,
        overwrites: if fill == Fill::Written { 2.0 } else { 0.0 },
        turns: 2,
        bandwidth: 13_000_000_000,
    };
    let report = experiment(&plan, &request, Rc::new(|_, _, _| ())).unwrap();
    serde_json::to_value(report).unwrap()
}

/// Takes out what is measured in real time.
fn without_times(mut report: Value) -> Value {
    for (part, field) in [
        ("window", "cpu_ns_per_write"),
        ("window", "writes_per_cpu_s"),
        ("restart", "cpu_ns"),
        ("restart", "model_cpu_ns"),
    ] {
        assert!(report[part][field].take().is_u64(), "{part} {field}");
    }
    for phase in report["restart"]["phases"].as_array_mut().unwrap() {
        assert!(phase["cpu_ns"].take().is_u64());
        assert!(phase["model_cpu_ns"].take().is_u64());
    }
    assert!(report["create_cpu_ns"].take().is_u64());
    report
}

#[test]
fn a_start_redoes_an_interval_and_the_seed_decides_all_but_times() {
    let one = without_times(report(Fill::Nothing, 5));
    assert_eq!(one, without_times(report(Fill::Nothing, 5)));
    let of = |part: &str, field: &str| one[part][field].as_f64().unwrap();
    assert!(of("restart", "records") > 0.0 && of("restart", "read_bytes") > 0.0);
    let parts = ["data", "headers", "leaves", "checkpoints"];
    let sum: f64 = parts
        .iter()
        .map(|part| of("window", &format!("fast_{part}_per_host")))
        .sum();
    assert!((sum - of("window", "fast_per_host")).abs() < 0.001);
    assert!(of("window", "fast_data_per_host") >= 0.999);
    assert_eq!(of("window", "collected_per_host"), 0.0);
    assert!(one["extrapolated"].is_null());
}

/// Pools of which a mean is taken. One alone may meet a burst of merges, and what a start reads depends on the
/// instant. One fewer is written than stated: that takes ten times as long.
const POOLS: [u64; 5] = [5, 6, 7, 8, 9];

/// A stated past stands for a fill and overwrites that no large pool could be given.
#[test]
fn a_past_measures_like_a_fill_and_overwrites() {
    let reports = |fill, pools: &[u64]| -> Vec<Value> {
        pools.iter().map(|seed| report(fill, *seed)).collect()
    };
    // Side by side: the longest test of all would else keep one processor busy while the other idles.
    let (written, past) = std::thread::scope(|scope| {
        let halves = [&POOLS[..2], &POOLS[2..4]];
        let halves = halves.map(|pools| scope.spawn(move || reports(Fill::Written, pools)));
        let past = reports(Fill::Past, &POOLS);
        let written = halves.map(|half| half.join().expect("it reports its own failures"));
        (written.concat(), past)
    });
    // Two overwrites are not the steady state of garbage collection, and long chains all begin empty
    // in a past, so leaves come less often: those are compared by hand (docs/figures.md).
    for (part, field, tolerance) in [
        ("window", "fast_per_host", 0.03),
        ("window", "compacted_per_host", 0.08),
        ("window", "checkpoint_bytes", 0.06),
        ("restart", "read_bytes", 0.25),
    ] {
        let of = |report: &Value| report[part][field].as_f64().unwrap();
        let mean = |reports: &[Value]| reports.iter().map(of).sum::<f64>() / reports.len() as f64;
        let (one, other) = (mean(&written), mean(&past));
        assert!(one > 0.0, "{part} {field}");
        let off = (other / one - 1.0).abs();
        assert!(
            off < tolerance,
            "{part} {field}: {one} written, {other} stated"
        );
    }
}

/// 122.88 TB come to be without a pass over their size: nothing is read and what is written is one checkpoint
/// (350 KiB). The time of it is not asserted, `varve lab recovery` measures it.
#[test]
fn creation_makes_no_pass_over_a_pool() {
    let plan = PlanRequest {
        capacity: 122_880_000_000_000,
        dram: None,
        scale: 1,
        over_provision: 20,
        fast_per_cent: 3,
    };
    let created = creation(&Plan::new(&plan).unwrap()).unwrap();
    assert!(created.written > 0, "{created:?}");
    assert!(created.written < 1 << 20, "{created:?}");
    assert_eq!(created.read, 0);
}
