//! One pool that is open and one that is closed, as collectors read them.

use super::*;
use std::collections::BTreeSet;
use varve_control::{DriveView, FaultsView, VolumeView};

fn drive(pool: &str, drive: &str, state: &str) -> DriveView {
    DriveView {
        pool: pool.to_owned(),
        drive: drive.to_owned(),
        path: None,
        replaced_by: None,
        state: state.to_owned(),
        bytes: 64,
        rebuilt_bytes: None,
        rebuild_bytes: None,
        faults: (state == "live").then_some(FaultsView {
            read_errors: 2,
            write_errors: 0,
            repairs: 5,
        }),
        model: None,
    }
}

fn pool(name: &str, health: Health, drives: Vec<DriveView>) -> PoolView {
    let is_open = health == Health::Ok;
    PoolView {
        pool: name.to_owned(),
        id: String::new(),
        health,
        is_open,
        protect: "2+1".to_owned(),
        fast_copies: 2,
        raw_bytes: 128,
        capacity_bytes: Some(100),
        used_bytes: is_open.then_some(40),
        unprotected_bytes: is_open.then_some(0),
        leaves: is_open.then_some(7),
        leaves_max: Some(70),
        dense_away: is_open.then_some(true),
        volumes: is_open.then_some(1),
        stopped: None,
        counters: BTreeMap::from([("gc_blocks".to_owned(), 3)]),
        jobs: Vec::new(),
        scrub: None,
        drives,
        findings: Vec::new(),
    }
}

fn readings() -> Readings {
    let volume = VolumeView {
        pool: "a".to_owned(),
        volume: "db".to_owned(),
        id: 1,
        nsid: None,
        uuid: String::new(),
        nguid: String::new(),
        bytes: 1 << 20,
        tenant: 0,
        used_bytes: 40,
        unprotected_bytes: 0,
        findings: Vec::new(),
    };
    let half_replaced = vec![
        drive("b-1", "dense0", "lost"),
        drive("b-1", "dense0", "rebuilding"),
    ];
    Readings {
        pools: vec![
            pool("a", Health::Ok, vec![drive("a", "fast0", "live")]),
            pool("b-1", Health::Faulted, half_replaced),
        ],
        volumes: vec![volume],
    }
}

#[test]
fn pools_drives_and_volumes_are_told() {
    let server = Counters {
        reads: 7,
        ..Counters::default()
    };
    let text = text(&server, &readings());
    for line in [
        "varve_reads_total 7",
        "varve_pool_open{pool=\"a\"} 1",
        "varve_pool_open{pool=\"b-1\"} 0",
        "varve_pool_health{pool=\"b-1\",health=\"faulted\"} 1",
        "varve_pool_health{pool=\"b-1\",health=\"ok\"} 0",
        "varve_pool_used_bytes{pool=\"a\"} 40",
        "varve_pool_capacity_bytes{pool=\"b-1\"} 100",
        "varve_pool_leaves{pool=\"a\"} 7",
        "varve_pool_leaves_max{pool=\"b-1\"} 70",
        "varve_pool_dense_away{pool=\"a\"} 1",
        "varve_drive_state{pool=\"b-1\",drive=\"dense0\",state=\"lost\"} 1",
        "varve_drive_state{pool=\"b-1\",drive=\"dense0\",state=\"rebuilding\"} 1",
        "varve_drive_state{pool=\"a\",drive=\"fast0\",state=\"lost\"} 0",
        "varve_drive_read_errors_total{pool=\"a\",drive=\"fast0\"} 2",
        "varve_drive_repairs_total{pool=\"a\",drive=\"fast0\"} 5",
        "varve_volume_size_bytes{pool=\"a\",volume=\"db\"} 1048576",
        "varve_pool_gc_blocks_total{pool=\"a\"} 3",
        "varve_pool_repairs_total{pool=\"a\"} 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    for absent in [
        "varve_pool_used_bytes{pool=\"b-1\"}",
        "varve_pool_leaves{pool=\"b-1\"}",
        "varve_pool_dense_away{pool=\"b-1\"}",
        "varve_pool_repairs_total{pool=\"b-1\"}",
        "varve_drive_repairs_total{pool=\"b-1\"",
    ] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
}

/// Collectors refuse a sample that is there twice, and people a name without a meaning.
#[test]
fn every_sample_is_there_once_and_described() {
    let text = text(&Counters::default(), &readings());
    let mut seen = BTreeSet::new();
    let mut described = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let (what, rest) = rest.split_once(' ').expect("a kind of comment");
            let (name, told) = rest.split_once(' ').expect("a name and more");
            assert!(described.insert((what, name)), "{line} twice");
            let is_good = match what {
                "TYPE" => ["counter", "gauge"].contains(&told),
                "HELP" => told.len() > 5,
                _ => false,
            };
            assert!(is_good, "{line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a value");
        assert!(
            value.parse::<u64>().is_ok() && seen.insert(sample),
            "{line}"
        );
        let name = sample.split('{').next().expect("a name");
        for what in ["TYPE", "HELP"] {
            assert!(described.contains(&(what, name)), "{what} of {name}");
        }
    }
    assert!(seen.len() > 60, "{seen:?}");
}

#[test]
fn labels_are_escaped() {
    assert_eq!(pair("pool", "a\\b\"c\nd"), "pool=\"a\\\\b\\\"c\\nd\"");
}

/// The page of metrics has each of them, as it is told here, and no others.
#[test]
fn the_page_lists_all() {
    let page = include_str!("../../../../docs/metrics.md");
    let rows: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let families = families(&Counters::default(), &readings());
    let expected: Vec<String> = families
        .iter()
        .map(|family| format!("| `{}` | {} | {} |", family.name, family.kind, family.help))
        .collect();
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(rows, expected);
}
