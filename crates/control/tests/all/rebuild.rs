//! Pools whose fast drives are gone.

use crate::common::{MIB, Scratch, new_pool, new_volume, paths, pattern, session};
use std::path::Path;
use varve_control::{
    DrivePath, Exit, Failure, ImportPool, JobState, JobView, NamedVolume, Pools, RebuildPool,
    RebuildView, Reply, Request, local,
};
use varve_io::Blocks;
use varve_units::Lba;

/// Blocks of the volume: more than the fast tier holds.
const BLOCKS: u64 = 24_000;
/// Blocks of a write.
const RUN: u64 = 40;

/// A closed pool `p` with a volume, and the rebuild of it.
fn past(scratch: &Scratch, home: &Path) -> RebuildPool {
    let wanted = new_pool(scratch, "p");
    session(home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = pools.create_volume(&new_volume("p", "v", 128)).await;
        let volume = volume.unwrap();
        for first in (0..BLOCKS).step_by(RUN as usize) {
            let data = pattern(first, RUN as usize, 3);
            volume.write(Lba(first), data, false).await.unwrap();
        }
        volume.flush().await.unwrap();
        pools.close_all().await;
    });
    RebuildPool {
        pool: "p".to_owned(),
        fast: scratch.drives("new", 2, 64),
        drives: Vec::new(),
        volumes: [(1, named("db"))].into(),
        overwrite: false,
        force: false,
        take_over: false,
    }
}

fn named(name: &str) -> NamedVolume {
    let name = name.to_owned();
    NamedVolume {
        name,
        bytes: Some(128 * MIB),
    }
}

fn lose_fast(scratch: &Scratch) {
    for name in ["p-fast0", "p-fast1"] {
        std::fs::remove_file(scratch.path(name)).unwrap();
    }
}

async fn ended(pools: &Pools, wanted: &RebuildPool) -> Result<RebuildView, Failure> {
    let job = pools.rebuild_pool(wanted).await;
    let mut job: JobView = job.map_err(Failure::from)?;
    while job.state == JobState::Running {
        job = pools.wait_job(job.job, job.done_bytes).await.unwrap();
    }
    assert_eq!(job.done_bytes, job.total_bytes);
    match job.failure {
        Some(failure) => Err(failure),
        None => Ok(job.rebuilt.expect("what was found")),
    }
}

fn refused(home: &Path, wanted: &RebuildPool) -> Failure {
    let wanted = wanted.clone();
    session(home, |pools| async move {
        let outcome = ended(&pools, &wanted).await;
        pools.close_all().await;
        outcome.expect_err("it is refused")
    })
}

/// Opens the pool, which agrees with its drives; all but what was in the log alone is there.
fn check(home: &Path, volume: &'static str) {
    session(home, move |pools| async move {
        pools.open("p").await.unwrap();
        assert!(pools.check_pool("p").await.unwrap().agrees);
        let volume = pools.volume("p", volume).unwrap();
        let mut there = 0;
        // What nobody named is as large as what was found.
        for lba in 0..BLOCKS.min(volume.info().size.0) {
            let read = volume.read(Lba(lba), Blocks::zeroed(1)).await.unwrap();
            if read.bytes() == pattern(lba, 1, 3).bytes() {
                there += 1;
            } else {
                assert!(read.bytes().iter().all(|byte| *byte == 0), "block {lba}");
            }
        }
        assert!(there > BLOCKS / 2, "{there} blocks");
        pools.close_all().await;
    });
}

/// Fast drives that were put back from copies are as good as gone: whoever opens the pool is told what helps, and that does.
#[test]
fn a_pool_whose_fast_drives_were_put_back_is_made_anew() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = past(&scratch, &home);
    let files = ["p-fast0", "p-fast1"]
        .map(|name| (scratch.path(name), scratch.path(&format!("{name}.old"))));
    for (file, copy) in &files {
        std::fs::copy(file, copy).unwrap();
    }
    session(&home, |pools| async move {
        pools.open("p").await.unwrap();
        let volume = pools.volume("p", "v").unwrap();
        let data = pattern(0, RUN as usize, 3);
        volume.write(Lba(0), data, true).await.unwrap();
        drop(volume);
        pools.close_all().await;
    });
    for (file, copy) in &files {
        std::fs::rename(copy, file).unwrap();
    }
    let rebuilt = session(&home, |pools| async move {
        let import = ImportPool {
            pool: Some("p".to_owned()),
            degraded: true,
            accept_loss: true,
            ..ImportPool::default()
        };
        for refused in [
            Failure::from(pools.open("p").await.unwrap_err()),
            Failure::from(pools.import(&import).await.unwrap_err()),
        ] {
            assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
            assert!(refused.findings.iter().any(|one| one.code == "put-back"));
            let next = refused.next.unwrap();
            assert!(next.contains("varve check p --rebuild"), "{next}");
        }
        let status = pools.status("p").await.unwrap();
        assert!(status.findings.iter().any(|one| one.code == "no-fast"));
        let rebuilt = ended(&pools, &wanted).await.unwrap();
        pools.close_all().await;
        rebuilt
    });
    assert!(rebuilt.findings.iter().any(|one| one.code == "put-back"));
    check(&home, "db");
}

#[test]
fn a_pool_without_its_fast_drives_is_made_anew() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = past(&scratch, &home);
    // As long as it can be opened nothing is given up for less.
    let whole = refused(&home, &wanted);
    assert_eq!((whole.exit, &*whole.code), (Exit::Refused, "map-whole"));
    assert!(
        !wanted.fast[0].path.exists(),
        "what was made for it is gone"
    );
    lose_fast(&scratch);
    let reply = local::ask(&home, Request::PoolRebuild(wanted), |_| ()).unwrap();
    let Reply::PoolRebuild(view) = reply else {
        panic!("{reply:?}");
    };
    let [volume] = &view.volumes[..] else {
        panic!("{view:?}");
    };
    assert_eq!((volume.number, &*volume.volume), (1, "db"));
    assert!(volume.mapped_bytes > BLOCKS * 4096 / 2);
    assert_eq!((view.lost_blocks, view.unreadable_stripes), (0, 0));
    let codes: Vec<&str> = view.findings.iter().map(|found| &*found.code).collect();
    for code in ["log-lost", "freed-data", "new-identities"] {
        assert!(codes.contains(&code), "{codes:?}");
    }
    check(&home, "db");
}

/// One dense drive is away as well: parity has what it held.
#[test]
fn a_dense_drive_may_be_away_too() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = past(&scratch, &home);
    lose_fast(&scratch);
    let away = scratch.path("away");
    std::fs::rename(scratch.path("p-dense1"), &away).unwrap();
    let mut wanted = wanted;
    wanted.volumes.insert(9, named("nowhere"));
    let view = session(
        &home,
        move |pools| async move { ended(&pools, &wanted).await },
    );
    let view = view.unwrap();
    assert_eq!(view.away, ["dense1"]);
    let mut codes = view.findings.iter().map(|found| &*found.code);
    assert!(codes.any(|code| code == "volume-not-found"), "{view:?}");
    // It is lost to the pool, and may be filled again; it is not believed.
    std::fs::rename(away, scratch.path("p-dense1")).unwrap();
    session(&home, |pools| async move {
        pools.open("p").await.unwrap();
        let drives = pools.list_drives(Some("p")).await.unwrap();
        let states = drives.iter().map(|drive| (&*drive.drive, &*drive.state));
        let states: Vec<_> = states.collect();
        assert!(states.contains(&("dense1", "lost")), "{states:?}");
        pools.close_all().await;
    });
}

/// A process that ends early leaves files that were made for it: the same command goes on with them.
#[test]
fn a_rebuild_that_is_cut_short_is_given_again() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = past(&scratch, &home);
    lose_fast(&scratch);
    let begun = wanted.clone();
    session(&home, |pools| async move {
        let job = pools.rebuild_pool(&begun).await.unwrap();
        assert_eq!(job.state, JobState::Running);
    });
    assert!(wanted.fast[0].path.exists());
    let again = wanted.clone();
    session(&home, |pools| async move { ended(&pools, &again).await }).unwrap();
    check(&home, "db");
}

#[test]
fn fast_drives_that_will_not_do_are_refused() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = past(&scratch, &home);
    let other = new_pool(&scratch, "other");
    let [foreign, ..] = &paths(&other)[..] else {
        panic!("five drives");
    };
    let foreign = foreign.clone();
    session(&home, |pools| async move {
        pools.create_pool(&other).await.unwrap();
        pools.close_all().await;
    });
    let with = |path: &Path| RebuildPool {
        fast: vec![
            wanted.fast[0].clone(),
            DrivePath {
                path: path.to_owned(),
                create_bytes: None,
            },
        ],
        overwrite: true,
        ..wanted.clone()
    };
    let codes = |failure: Failure| -> Vec<String> {
        let codes = failure.findings.iter().map(|found| found.code.clone());
        codes.collect()
    };
    // A member of a pool that is known here, and of the pool itself, is no new drive whatever may be overwritten.
    assert_eq!(codes(refused(&home, &with(&foreign))), ["member"]);
    let dense = scratch.path("p-dense0");
    assert_eq!(codes(refused(&home, &with(&dense))), ["member"]);
    // Its own fast drive is asked about.
    let mut own = with(&scratch.path("p-fast0"));
    own.overwrite = false;
    assert_eq!(codes(refused(&home, &own)), ["holds-data"]);
    lose_fast(&scratch);
    let mut one = wanted.clone();
    one.fast.truncate(1);
    assert_eq!(refused(&home, &one).code, "fast-count");
    let mut twice = wanted.clone();
    twice.volumes = [(1, named("db")), (2, named("db"))].into();
    assert_eq!(refused(&home, &twice).code, "bad-name");
    twice.volumes = [(1, named("volume-2"))].into();
    assert_eq!(refused(&home, &twice).code, "bad-name");
    let mut small = wanted.clone();
    small.fast[1].create_bytes = Some(20 * MIB);
    let small = refused(&home, &small);
    assert_eq!(small.exit, Exit::Refused, "{small:?}");
    let unknown = RebuildPool {
        pool: "nobody".to_owned(),
        ..wanted.clone()
    };
    assert_eq!(refused(&home, &unknown).code, "no-pool");
    for drive in &wanted.fast {
        assert!(!drive.path.exists(), "{} is left", drive.path.display());
    }
    let again = wanted.clone();
    session(&home, |pools| async move { ended(&pools, &again).await }).unwrap();
    check(&home, "db");
}

/// Its own fast drives, whose log nobody can read any more, are used again by an explicit word.
#[test]
fn its_own_fast_drives_are_used_again() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let mut wanted = past(&scratch, &home);
    for (drive, name) in wanted.fast.iter_mut().zip(["p-fast0", "p-fast1"]) {
        *drive = DrivePath {
            path: scratch.path(name),
            create_bytes: None,
        };
        let file = std::fs::OpenOptions::new().write(true).open(&drive.path);
        let file = file.unwrap();
        file.set_len(MIB).unwrap();
        file.set_len(64 * MIB).unwrap();
    }
    wanted.overwrite = true;
    wanted.volumes.clear();
    session(&home, |pools| async move { ended(&pools, &wanted).await }).unwrap();
    check(&home, "volume-1");
}
