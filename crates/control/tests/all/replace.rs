//! Drives that come back, and drives that take another's place.

use crate::common::{MIB, Mount, Scratch, new_pool, new_volume, paths, pattern, session};
use std::path::Path;
use varve_control::{DrivePath, ImportPool, JobState, JobView, Pools, ReplaceDrive};
use varve_units::Lba;

/// The drive at `path` for a place of pool `p`, as it is.
fn by(drive: &str, path: &Path) -> ReplaceDrive {
    ReplaceDrive {
        pool: "p".to_owned(),
        drive: drive.to_owned(),
        new: DrivePath {
            path: path.to_owned(),
            create_bytes: None,
        },
        give_up: false,
        overwrite: false,
    }
}

async fn ended(pools: &Pools, mut job: JobView) -> JobView {
    while job.state == JobState::Running {
        job = pools.wait_job(job.job, job.done_bytes).await.unwrap();
    }
    job
}

/// States of all drives, in their order.
async fn states(pools: &Pools) -> Vec<String> {
    let drives = pools.list_drives(Some("p")).await.unwrap();
    drives.into_iter().map(|drive| drive.state).collect()
}

/// True if this process has the file open.
fn is_open(path: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut open = open.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    open.any(|target| target == path)
}

/// A drive that was away, and is lost to the pool for that, is found again when the pool is opened next: it is not
/// used, not kept open either, and can be filled again.
#[test]
fn a_lost_drive_comes_back_where_its_pool_is_open() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let all = paths(&wanted);
    let (lost, away) = (all[3].clone(), scratch.path("away"));
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.close_all().await;
    });
    let import = ImportPool {
        paths: all,
        degraded: true,
        ..ImportPool::default()
    };
    let again = import.clone();
    std::fs::rename(&lost, &away).unwrap();
    session(&home, |pools| async move {
        pools.import(&import).await.unwrap();
        pools.close_all().await;
    });
    std::fs::rename(&away, &lost).unwrap();
    session(&home, |pools| async move {
        pools.import(&again).await.unwrap();
        assert_eq!(states(&pools).await[3], "lost");
        let job = pools.replace_drive(&by("dense1", &lost)).await.unwrap();
        let job = ended(&pools, job).await;
        assert_eq!(job.state, JobState::Done, "{job:?}");
        assert_eq!(states(&pools).await, ["live"; 5]);
        pools.close_all().await;
    });
}

/// A drive fails while its pool is in use: it is let go, can be taken away, and comes back to the same pool.
#[test]
fn a_drive_that_failed_comes_back_where_its_pool_is_open() {
    let scratch = Scratch::new();
    let (home, mount) = (scratch.path("home"), scratch.path("small"));
    let Some(small) = Mount::tmpfs(&mount, 64 * MIB) else {
        return;
    };
    let mut wanted = new_pool(&scratch, "p");
    let lost = mount.join("dense1");
    wanted.dense[1].path = lost.clone();
    let ballast = mount.join("ballast");
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        std::fs::write(&ballast, vec![1; 60 * MIB as usize]).unwrap();
        let volume = pools
            .create_volume(&new_volume("p", "v", 100))
            .await
            .unwrap();
        for first in (0..25_000).step_by(200) {
            let data = pattern(first, 200, 1);
            volume.write(Lba(first), data, false).await.unwrap();
        }
        volume.flush().await.unwrap();
        assert_eq!(states(&pools).await[3], "lost");
        assert!(!is_open(&lost));
        std::fs::remove_file(&ballast).unwrap();
        let job = pools.replace_drive(&by("dense1", &lost)).await.unwrap();
        let job = ended(&pools, job).await;
        assert_eq!(job.state, JobState::Done, "{job:?}");
        assert_eq!(states(&pools).await, ["live"; 5]);
        pools.close_all().await;
    });
    drop(small);
}
