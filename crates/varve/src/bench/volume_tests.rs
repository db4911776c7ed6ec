//! A pool on sparse files, and the benchmark that opens it.

use super::*;
use crate::bench::run::Load;
use crate::load::{Direction, Order};
use std::path::Path;
use std::time::Duration;
use varve_control::{CreatePool, CreateVolume, DrivePath, Exit};

const MIB: u64 = 1 << 20;

/// A directory that goes with all it holds.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn scratch(name: &str) -> Scratch {
    let name = format!("varve-bench-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).expect("a scratch directory");
    Scratch(path)
}

/// Pool `p` with volumes `v` of 48 MiB and `big`, in a state directory of its own.
fn made(scratch: &Scratch) -> PathBuf {
    let home = scratch.0.join("home");
    let at = scratch.0.clone();
    let drives = move |name: &str, count: usize, mib: u64| -> Vec<DrivePath> {
        let drive = |index| DrivePath {
            path: at.join(format!("{name}{index}")),
            create_bytes: Some(mib * MIB),
        };
        (0..count).map(drive).collect()
    };
    with_pools(&home, |pools| async move {
        let pool = CreatePool {
            pool: "p".to_owned(),
            fast: drives("f", 2, 32),
            dense: drives("d", 3, 48),
            protect: None,
            over_provision: None,
            dense_model: None,
            overwrite: false,
            dry_run: false,
        };
        pools.create_pool(&pool).await.expect("a pool");
        // The second is larger than the pool.
        for (name, mib) in [("v", 48), ("big", 256)] {
            let volume = CreateVolume {
                pool: "p".to_owned(),
                volume: name.to_owned(),
                bytes: mib * MIB,
                tenant: 0,
            };
            pools.create_volume(&volume).await.expect("a volume");
        }
        pools.close_all().await;
    });
    home
}

fn with_pools<Flow: Future<Output = ()> + 'static>(
    home: &Path,
    flow: impl FnOnce(Rc<Pools>) -> Flow,
) {
    let executor = Executor::new();
    let home = Home::open(home).expect("a state directory");
    let pools = Pools::new(executor.world(), home, Config::default()).expect("a control plane");
    executor.run(flow(pools)).expect("no deadlock");
}

fn request(home: &Path, direction: Direction) -> VolumeRequest {
    VolumeRequest {
        home: home.to_owned(),
        pool: "p".to_owned(),
        volume: "v".to_owned(),
        wanted: Wanted {
            load: Load {
                direction,
                order: Order::Uniform,
                bytes: 4096,
                in_flight: 16,
                verifies: true,
                seed: 5,
            },
            size: None,
            runtime: Duration::from_millis(300),
        },
        overwrite: true,
    }
}

/// What a volume holds is not overwritten unless that was said; an empty one is nobody's.
#[test]
fn a_volume_that_holds_something_is_not_overwritten_unasked() {
    let scratch = scratch("held");
    let home = made(&scratch);
    let unasked = |direction, verifies| {
        let mut unasked = request(&home, direction);
        unasked.overwrite = false;
        unasked.wanted.load.verifies = verifies;
        unasked.wanted.size = Some(MIB);
        unasked.wanted.runtime = Duration::from_millis(20);
        run_volume(unasked)
    };
    assert!(unasked(Direction::Write, false).is_ok(), "it was empty");
    for (direction, verifies) in [(Direction::Write, false), (Direction::Read, true)] {
        let Err(BenchError::HoldsData(what)) = unasked(direction, verifies) else {
            panic!("{direction:?}, {verifies}");
        };
        assert!(what.starts_with("p/v holds up to "), "{what}");
    }
    assert!(unasked(Direction::Read, false).is_ok(), "it only reads");
}

#[test]
fn a_volume_is_measured_and_reads_back() {
    let scratch = scratch("measured");
    let home = made(&scratch);
    for direction in [Direction::Read, Direction::Write] {
        let report = run_volume(request(&home, direction)).expect("a result");
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!(json["setup"]["target"], "pool:p/v");
        assert_eq!(json["setup"]["user_bytes"], 48 * MIB);
        assert_eq!(json["errors"], 0, "{json}");
        assert!(json["iops"].as_u64().is_some_and(|iops| iops > 0));
        assert!(json["map_hit_ratio"].is_null() == (direction == Direction::Write));
        assert!(
            json["fast_writes_per_host_write"].is_null(),
            "not known: {json}"
        );
        assert!(json["compacted_blocks"].is_u64(), "{json}");
    }
}

/// It was closed in good order: nothing that hosts wrote is redone, and map, P2L and checksums agree. What
/// cleaner and garbage collection append while it closes is redone.
#[test]
fn the_pool_is_as_good_as_before() {
    let scratch = scratch("after");
    let home = made(&scratch);
    run_volume(request(&home, Direction::Write)).expect("a result");
    with_pools(&home, |pools| async move {
        pools.open("p").await.expect("an open pool");
        let check = pools.check_pool("p").await.expect("a check");
        assert!(check.agrees && check.redone_of_hosts == 0, "{check:?}");
        assert!(
            check.redone_records > 0 && check.mapped_blocks > 0,
            "{check:?}"
        );
        pools.close_all().await;
    });
}

#[test]
fn what_is_not_there_or_in_use_is_refused() {
    let scratch = scratch("refused");
    let home = made(&scratch);
    let exit = |request: VolumeRequest| match run_volume(request) {
        Err(BenchError::Control(failure)) => {
            assert!(failure.next.is_some(), "{failure:?}");
            failure.exit
        }
        other => panic!("{}", other.is_ok()),
    };
    let mut other = request(&home, Direction::Read);
    other.pool = "q".to_owned();
    assert_eq!(exit(other), Exit::NotFound);
    let mut other = request(&home, Direction::Read);
    other.volume = "w".to_owned();
    assert_eq!(exit(other), Exit::NotFound);
    let daemon = Home::open(&home).expect("a state directory");
    let held = daemon.hold().expect("no other daemon");
    assert_eq!(exit(request(&home, Direction::Read)), Exit::Conflict);
    drop(held);
    let mut large = request(&home, Direction::Read);
    large.wanted.load.bytes = 64 * MIB;
    let refused = run_volume(large);
    assert!(matches!(refused, Err(BenchError::Small { .. })));
}

/// A window without garbage collection is told, beside a result that counts: a load of a small part of a pool
/// may never need any.
#[test]
fn a_small_part_of_a_pool_is_a_result() {
    let scratch = scratch("small");
    let home = made(&scratch);
    let mut small = request(&home, Direction::Write);
    small.wanted.size = Some(MIB);
    small.wanted.runtime = Duration::from_millis(20);
    let report = run_volume(small).expect("a result");
    let short = report.shortcoming().expect("a moment is no steady state");
    assert!(!short.is_failure, "{}", short.what);
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!(json["shortcoming"], short.what);
    assert!(short.what.contains("not steady state"), "{json}");
    assert_eq!(json["verified_blocks"], MIB / BLOCK_BYTES);
    assert_eq!(json["drives_lost"], serde_json::Value::Null);
    // That the pool goes on without a drive weighs more.
    let report = report.with_lost(vec!["fast1".to_owned()]);
    let short = report.shortcoming().expect("a drive was lost");
    assert!(!short.is_failure && short.what.contains("fast1"));
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!(json["drives_lost"], serde_json::json!(["fast1"]));
    assert_eq!(json["shortcoming"], short.what);
}

#[test]
fn a_pool_without_room_is_told() {
    let scratch = scratch("full");
    let home = made(&scratch);
    let mut big = request(&home, Direction::Write);
    big.volume = "big".to_owned();
    let Err(BenchError::Load(failed)) = run_volume(big) else {
        panic!("256 MiB do not fit");
    };
    assert!(failed.what.contains("no room"), "{failed:?}");
    assert!(failed.next.contains("varve pool status"), "{failed:?}");
}
