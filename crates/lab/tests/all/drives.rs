//! Each modelled drive does what is published of it. Those of document 002 are in the laboratory's short set
//! (`crates/varve/tests/laboratory.rs`), as experiment `drive-table`.

use std::rc::Rc;
use varve_lab::drive::{DriveError, DriveReport, Job, Measure, measure};
use varve_lab::recovery::Watch;
use varve_media::{AnySheet, any_sheet};

const JOBS: [Job; 4] = [Job::SeqRead, Job::SeqWrite, Job::RandRead, Job::RandWrite];

fn unseen() -> Watch {
    Rc::new(|_, _, _| {})
}

fn run(name: &str, job: Job, depth: u32) -> DriveReport {
    let sheet = AnySheet::named(name).expect(name);
    let block_bytes = match job {
        Job::SeqRead | Job::SeqWrite => 128 << 10,
        Job::RandRead | Job::Append => 4096,
        Job::RandWrite => {
            let size = sheet.published().random_write_bytes.as_ref();
            size.expect("it takes writes anywhere").value
        }
    };
    let what = Measure {
        job,
        block_bytes,
        depth,
        seed: 1,
    };
    measure(&sheet, &what, &unseen()).expect(name)
}

/// Within 5 % at this depth.
fn check(name: &str, depth: u32) {
    check_jobs(name, JOBS, depth);
}

fn check_jobs<const N: usize>(name: &str, jobs: [Job; N], depth: u32) {
    assert!(any_sheet::names().any(|known| known == name), "{name}");
    let wrong = jobs.map(|job| {
        let report = run(name, job, depth);
        let said = report.comparison.expect("it is published");
        println!(
            "{name} {job:?}: {} against {}, {:+.1} %, waf {:?}",
            said.measured, said.published, said.off_per_cent, report.waf_device
        );
        said.off_per_cent.abs() > 5.0
    });
    assert_eq!(wrong, [false; N], "{jobs:?}");
}

#[test]
fn p5800x() {
    check("optane-p5800x", 16);
}

/// It has no garbage collection: whatever is written is written once, and depth 1 takes some
/// microseconds.
#[test]
fn optane_writes_in_place() {
    for (job, least_us, most_us) in [(Job::RandRead, 4.5, 5.5), (Job::RandWrite, 5.0, 6.0)] {
        let report = run("optane-p5800x", job, 1);
        let mean_us = report.latency.mean_ns as f64 / 1e3;
        assert!((least_us..most_us).contains(&mean_us), "{job:?}: {mean_us}");
        let waf = (job == Job::RandWrite).then_some(1.0);
        assert_eq!(report.waf_device, waf, "{job:?}");
    }
}

#[test]
fn p5810() {
    check("slc-p5810", 256);
}

#[test]
fn p5520() {
    check("tlc-p5520", 256);
}

#[test]
fn p5316() {
    check("qlc-p5316", 256);
}

#[test]
fn p5336() {
    check("qlc-p5336", 256);
}

/// With one of its eight handles in use.
#[test]
fn pm9d3a() {
    check("fdp-pm9d3a", 4096);
}

#[test]
fn zn540() {
    let jobs = [Job::SeqRead, Job::SeqWrite, Job::RandRead, Job::Append];
    check_jobs("zns-zn540", jobs, 128);
}

/// Zones are written to their ends and reset when their turn comes, whatever the size of a command;
/// at depth 1 the resets are what is missing from the rate.
#[test]
fn zones_are_written_one_after_the_other() {
    let sheet = AnySheet::named("zns-zn540").expect("it comes with the program");
    let write = |block_bytes| {
        let what = Measure {
            job: Job::SeqWrite,
            block_bytes,
            depth: 1,
            seed: 1,
        };
        measure(&sheet, &what, &unseen()).expect("a possible measure")
    };
    for block_bytes in [100 << 10, 128 << 10] {
        let report = write(block_bytes);
        assert_eq!(report.waf_device.map(|waf| (waf * 1e3).round()), Some(1e3));
        // A zone takes 0.94 s. The buffer goes on for 11 of the 16 ms of a reset.
        let share = report.bytes_per_s as f64 / 1.2e9;
        assert!((0.990..0.998).contains(&share), "{block_bytes}: {share}");
    }
}

#[test]
fn zones_are_not_written_anywhere() {
    let refused = |name: &str, job| {
        let sheet = AnySheet::named(name).expect(name);
        let what = Measure {
            job,
            block_bytes: 4096,
            depth: 1,
            seed: 1,
        };
        measure(&sheet, &what, &unseen()).expect_err("it cannot be")
    };
    let zoned = refused("zns-zn540", Job::RandWrite);
    assert_eq!(zoned, DriveError::InOrder);
    assert_eq!(refused("qlc-002", Job::Append), DriveError::NoZones);
    assert_eq!(refused("slc-002", Job::Append), DriveError::NoZones);
}

/// What is published holds for drives that are kept busy, and for the sizes it names.
#[test]
fn only_like_is_compared_with_like() {
    assert!(run("mlc-002", Job::RandRead, 255).comparison.is_none());
    let sheet = AnySheet::named("mlc-002").expect("it comes with the program");
    let what = Measure {
        job: Job::RandRead,
        block_bytes: 8192,
        depth: 256,
        seed: 1,
    };
    let report = measure(&sheet, &what, &unseen()).expect("a possible measure");
    assert!(report.comparison.is_none());
}

#[test]
fn a_seed_gives_the_same_figures() {
    let once = || run("mlc-002", Job::RandWrite, 32);
    assert_eq!(once(), once());
}
