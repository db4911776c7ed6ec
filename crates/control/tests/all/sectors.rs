//! Pools that were made with smaller LBAs than their drives are given today.

use crate::common::{MIB, Scratch, session};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use varve_control::inspect::inspect;
use varve_control::{DrivePath, ImportPool, JobState, ReplaceDrive};
use varve_hostio::{Disk, DiskOptions, Executor, FileDrive, Io};
use varve_io::{Drive, World};
use varve_pool::label::{Owner, PoolId};
use varve_pool::{NewPool, Pool, PoolOptions, Protect, Settings, Tuning};

/// A pool of files with LBAs of 512 bytes, as pools on drives with 512-byte sectors above larger ones have them.
fn pool_of_small_lbas(scratch: &Scratch) -> Vec<PathBuf> {
    let paths = ["f0", "f1", "d0", "d1", "d2"].map(|name| scratch.path(name));
    let made = paths.clone();
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let flow = async move {
        let io = Io::of(&*world).unwrap();
        let options = DiskOptions {
            lba_bytes: Some(512),
            ..DiskOptions::default()
        };
        let open = |(index, path): (usize, &PathBuf)| {
            let bytes = if index < 2 { 64 * MIB } else { 128 * MIB };
            let disk = Disk::create(path, bytes, &options).unwrap();
            Rc::new(FileDrive::new(io.clone(), disk)) as Rc<dyn Drive>
        };
        let drives: Vec<_> = made.iter().enumerate().map(open).collect();
        let (fast, dense) = drives.split_at(2);
        let new = NewPool {
            id: PoolId([3; 16]),
            name: "p",
            fast,
            dense,
            options: PoolOptions {
                chunk_bytes: MIB,
                slices: 4,
                protect: Protect::Parity,
                strip_blocks: 16,
                zone_strips: 8,
                over_provision_per_mille: 200,
            },
        };
        let settings = Settings {
            owner: Owner([1; 16]),
            take_over: false,
            accept_loss: false,
            beat: None,
            lanes: 1,
            map_bytes: 8 * MIB,
            elided: false,
            tuning: Tuning::USUAL,
            bypass: true,
            canary: None,
        };
        let pool = Pool::create(world, new, settings).await.unwrap();
        pool.close(true).await.unwrap();
    };
    executor.run(flow).expect("it ends");
    paths.to_vec()
}

fn lba_bytes(path: &Path) -> u32 {
    let [label, _] = &inspect(path).unwrap().labels[..] else {
        panic!("a label has two copies");
    };
    label.as_ref().expect("a label").lba_bytes
}

/// Files have LBAs of 4096 bytes, but for a pool that has smaller ones: it is opened with its own, and so is what takes the
/// place of its drives.
#[test]
fn a_pool_of_small_lbas_keeps_them() {
    let scratch = Scratch::new();
    let paths = pool_of_small_lbas(&scratch);
    assert_eq!(lba_bytes(&paths[0]), 512);
    let new = DrivePath {
        path: scratch.path("f2"),
        create_bytes: Some(64 * MIB),
    };
    session(&scratch.path("home"), |pools| async move {
        let import = ImportPool {
            paths: paths.clone(),
            ..ImportPool::default()
        };
        assert_eq!(pools.import(&import).await.unwrap(), "p");
        let replace = ReplaceDrive {
            pool: "p".to_owned(),
            drive: "fast1".to_owned(),
            new,
            give_up: true,
            from_others: false,
            overwrite: false,
        };
        let job = pools.replace_drive(&replace).await.unwrap();
        let mut job = pools.wait_job(job.job, 0).await.unwrap();
        while job.state == JobState::Running {
            job = pools.wait_job(job.job, job.done_bytes).await.unwrap();
        }
        assert_eq!(job.state, JobState::Done, "{job:?}");
        pools.close_all().await;
        pools.open("p").await.unwrap();
        pools.close_all().await;
        assert_eq!(lba_bytes(&paths[0]), 512);
    });
}
