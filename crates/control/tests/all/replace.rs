//! Drives that come back, and drives that take another's place.

use crate::common::{
    MIB, Mount, Scratch, closed_pool, ended, new_pool, new_volume, paths, pattern, session,
};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use varve_control::{
    CreatePool, DrivePath, DriveView, Exit, Failure, Finding, ImportPool, JobState, Pools,
    ReplaceDrive, Reply, Request, local, scan,
};
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
        from_others: false,
        overwrite: false,
    }
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

/// A drive whose place another one took is of no use to the pool any more: it may take a place again, if what it holds
/// may go. Its old labels are not taken for the pool's.
#[test]
fn a_drive_that_was_replaced_may_take_another_place() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let former = wanted.dense[1].path.clone();
    let fresh = scratch.drives("fresh", 1, 128).remove(0);
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = pools.create_volume(&new_volume("p", "v", 16)).await;
        volume
            .unwrap()
            .write(Lba(0), pattern(0, 200, 1), true)
            .await
            .unwrap();
        let first = ReplaceDrive {
            new: fresh,
            give_up: true,
            ..by("dense1", &former)
        };
        let job = pools.replace_drive(&first).await.unwrap();
        assert_eq!(ended(&pools, job).await.state, JobState::Done);
        let mut again = ReplaceDrive {
            give_up: true,
            ..by("dense2", &former)
        };
        let refused = Failure::from(pools.replace_drive(&again).await.unwrap_err());
        assert!(refused.next.unwrap().contains("--overwrite"));
        again.overwrite = true;
        let job = pools.replace_drive(&again).await.unwrap();
        assert_eq!(ended(&pools, job).await.state, JobState::Done);
        assert_eq!(states(&pools).await, ["live"; 5]);
        pools.close_all().await;
    });
    session(&home, |pools| async move {
        pools.open("p").await.unwrap();
        assert_eq!(states(&pools).await, ["live"; 5]);
        assert!(pools.check_pool("p").await.unwrap().agrees);
        pools.close_all().await;
    });
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

/// A new drive that does not take the zeroes it is to begin with: the old one stays what it was.
#[test]
fn a_drive_is_not_given_up_for_one_that_cannot_be_blanked() {
    let scratch = Scratch::new();
    let (home, mount) = (scratch.path("home"), scratch.path("small"));
    let Some(small) = Mount::tmpfs(&mount, 8 * MIB) else {
        return;
    };
    let new = mount.join("new");
    std::fs::write(&new, "something").unwrap();
    let file = std::fs::File::options().write(true).open(&new).unwrap();
    file.set_len(128 * MIB).unwrap();
    // Behind a page for the registry, which lies elsewhere, there is no room at all.
    std::fs::write(mount.join("ballast"), vec![1; 8 * MIB as usize]).unwrap_err();
    let pool = new_pool(&scratch, "p");
    session(&home, |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        let wanted = ReplaceDrive {
            give_up: true,
            from_others: true,
            overwrite: true,
            ..by("dense1", &new)
        };
        pools.replace_drive(&wanted).await.unwrap_err();
        assert_eq!(states(&pools).await, ["live"; 5]);
        pools.close_all().await;
    });
    drop(small);
}

/// The new drive is looked at before the pool is opened without the old one: who named the wrong path has lost nothing.
#[test]
fn a_pool_is_not_opened_without_a_drive_for_one_that_will_not_do() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let pool = new_pool(&scratch, "p");
    let (lost, away) = (paths(&pool)[3].clone(), scratch.path("away"));
    session(&home, |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        pools.close_all().await;
    });
    std::fs::rename(&lost, &away).unwrap();
    let full = scratch.path("full");
    std::fs::write(&full, vec![1; 128 * MIB as usize]).unwrap();
    let small = DrivePath {
        path: scratch.path("little"),
        create_bytes: Some(100 * MIB),
    };
    let wanted = by("dense1", &full);
    let too_small = ReplaceDrive {
        new: small.clone(),
        ..wanted.clone()
    };
    for (wanted, code) in [(wanted, "holds-data"), (too_small, "too-small")] {
        let refused = local::run(&home, Request::DriveReplace(wanted), |_| {}).unwrap_err();
        assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
        assert_eq!(refused.findings[0].code, code);
    }
    assert!(!small.path.exists());
    std::fs::rename(&away, &lost).unwrap();
    session(&home, |pools| async move {
        pools.open("p").await.unwrap();
        assert_eq!(states(&pools).await, ["live"; 5]);
        pools.close_all().await;
    });
}

/// A file that was made for a replacement that cannot be is taken away again.
#[test]
fn a_replacement_that_cannot_begin_leaves_no_file() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let pool = new_pool(&scratch, "p");
    let all = paths(&pool);
    let new = scratch.drives("new", 1, 128).remove(0);
    let registry = home.join("registry.json");
    session(&home, |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        pools.close_all().await;
        std::fs::remove_file(&all[2]).unwrap();
        let import = ImportPool {
            pool: Some("p".to_owned()),
            degraded: true,
            ..ImportPool::default()
        };
        pools.import(&import).await.unwrap();
        let wanted = ReplaceDrive {
            new: new.clone(),
            give_up: true,
            from_others: true,
            ..by("dense1", &new.path)
        };
        // The others of its tier do not hold everything.
        let refused = Failure::from(pools.replace_drive(&wanted).await.unwrap_err());
        assert_eq!(refused.code, "drive-needed", "{refused:?}");
        assert!(!new.path.exists());
        let known = std::fs::read_to_string(registry).unwrap();
        assert!(!known.contains("new0"), "{known}");
        pools.close_all().await;
    });
}

/// What the pool's status says of a replacement that has not ended.
async fn replacing(pools: &Pools) -> Option<Finding> {
    let told = pools.status("p").await.unwrap().findings;
    told.into_iter().find(|finding| finding.code == "replacing")
}

/// Begins a replacement; waits, if it is to, until a part is copied and the new drive has a label.
async fn begin(pools: &Pools, wanted: &ReplaceDrive, is_begun: bool) {
    let mut job = pools.replace_drive(wanted).await.unwrap();
    let is_labelled = || scan(&wanted.new.path).label().is_some();
    while is_begun && job.state == JobState::Running && (job.done_bytes == 0 || !is_labelled()) {
        job = pools.wait_job(job.job, job.done_bytes).await.unwrap();
    }
    assert_eq!(job.state, JobState::Running);
    let told = replacing(pools).await.unwrap();
    assert_eq!(told.path.as_ref(), Some(&wanted.new.path));
}

/// A replacement that was cut short, at once or in the midst of its copy, is told by the pool's status, and the same
/// command ends it; so it does where it had ended, and nobody had heard of that.
#[test]
fn a_replacement_that_was_cut_short_is_ended_by_the_same_command() {
    for (is_begun, has_label) in [(false, false), (true, false), (true, true)] {
        let scratch = Scratch::new();
        let home = scratch.path("home");
        let pool = new_pool(&scratch, "p");
        let new = scratch.drives("new", 1, 128).remove(0);
        let wanted = ReplaceDrive {
            new: new.clone(),
            give_up: true,
            from_others: true,
            ..by("dense1", &new.path)
        };
        let first = wanted.clone();
        session(&home, |pools| async move {
            pools.create_pool(&pool).await.unwrap();
            let volume = new_volume("p", "v", 100);
            let volume = pools.create_volume(&volume).await.unwrap();
            for lba in (0..20_000).step_by(200) {
                let data = pattern(lba, 200, 1);
                volume.write(Lba(lba), data, false).await.unwrap();
            }
            begin(&pools, &first, is_begun).await;
        });
        if is_begun && !has_label {
            // The others' labels name it, and its own did not get there.
            let file = std::fs::File::options().write(true).open(&new.path);
            file.unwrap().write_all_at(&[0; MIB as usize], 0).unwrap();
        }
        let path = new.path.clone();
        session(&home, |pools| async move {
            let text = replacing(&pools).await.unwrap().text;
            let next = format!("varve drive replace p/dense1 {}", path.display());
            assert!(text.contains(&next), "{text}");
        });
        let registry = std::fs::read(home.join("registry.json")).unwrap();
        for _ in 0..2 {
            let request = Request::DriveReplace(wanted.clone());
            let reply = local::run(&home, request, |_| {}).unwrap();
            let Reply::Job(job) = reply else {
                panic!("no job: {reply:?}");
            };
            assert_eq!(job.state, JobState::Done, "{job:?}");
            let known = std::fs::read_to_string(home.join("registry.json")).unwrap();
            assert!(!known.contains("replacing"), "{known}");
            // As it is when the command ends a moment too early.
            std::fs::write(home.join("registry.json"), &registry).unwrap();
        }
        session(&home, |pools| async move {
            assert_eq!(replacing(&pools).await, None);
            pools.open("p").await.unwrap();
            assert_eq!(states(&pools).await, ["live"; 5]);
            let drives = pools.list_drives(Some("p")).await.unwrap();
            assert_eq!(drives[3].path.as_ref(), Some(&new.path));
            assert!(pools.check_pool("p").await.unwrap().agrees);
            pools.close_all().await;
        });
    }
}

/// The kinds of flash that the models of a pool's drives are of, in their order.
async fn sheets(pools: &Pools) -> Vec<Option<String>> {
    let drives = pools.list_drives(Some("p")).await.unwrap();
    let sheet = |drive: DriveView| drive.model.map(|model| model.sheet);
    drives.into_iter().map(sheet).collect()
}

/// A drive that takes the place of one with a model has one of the same kind, whether the old one is there or not.
#[test]
fn a_drive_that_replaces_one_with_a_model_has_one_too() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let pool = CreatePool {
        dense_model: Some("qlc-002".to_owned()),
        ..new_pool(&scratch, "p")
    };
    let all = paths(&pool);
    let new = scratch.drives("new", 3, 128);
    let kind = || Some("qlc-002".to_owned());
    let expected = [None, None, kind(), kind(), kind()];
    let wanted = |drive: &str, new: &DrivePath| ReplaceDrive {
        new: new.clone(),
        give_up: true,
        ..by(drive, &new.path)
    };
    let [first, fast] = [wanted("dense1", &new[0]), wanted("fast1", &new[1])];
    session(&home, |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        for wanted in [first, fast] {
            let job = pools.replace_drive(&wanted).await.unwrap();
            assert_eq!(ended(&pools, job).await.state, JobState::Done);
        }
        assert_eq!(sheets(&pools).await, expected);
        pools.close_all().await;
    });
    std::fs::remove_file(&all[4]).unwrap();
    let second = wanted("dense2", &new[2]);
    let kept = std::fs::read(scratch.path("new0.model")).unwrap();
    session(&home, |pools| async move {
        let job = pools.replace_drive(&second).await.unwrap();
        assert_eq!(ended(&pools, job).await.state, JobState::Done);
        assert_eq!(sheets(&pools).await[4], kind());
        pools.close_all().await;
    });
    assert!(kept.starts_with(b"qlc-002\n") && kept.len() > 100);
}

/// A replacement that is refused leaves the drive that was named as it was, whatever may be overwritten: here the pool cannot
/// be opened, as another drive is away as well.
#[test]
fn a_refused_replacement_overwrites_nothing() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let all = closed_pool(&scratch, &home);
    std::fs::rename(&all[0], scratch.path("away")).unwrap();
    let new = scratch.path("other");
    let junk: Vec<u8> = (0..128 * MIB / 4)
        .flat_map(|word| (word as u32).to_le_bytes())
        .collect();
    std::fs::write(&new, &junk).unwrap();
    let wanted = ReplaceDrive {
        give_up: true,
        overwrite: true,
        ..by("dense0", &new)
    };
    session(&home, |pools| async move {
        let refused = Failure::from(pools.replace_drive(&wanted).await.unwrap_err());
        assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
        pools.close_all().await;
    });
    assert!(
        std::fs::read(&new).unwrap() == junk,
        "nothing was overwritten"
    );
}

/// A drive of another pool that is known here replaces none, whatever may be overwritten, whether the pool is open or not.
#[test]
fn a_drive_of_another_pool_replaces_none() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let (pool, other) = (new_pool(&scratch, "p"), new_pool(&scratch, "q"));
    let wanted = ReplaceDrive {
        give_up: true,
        overwrite: true,
        ..by("dense0", &paths(&other)[3])
    };
    let closed = wanted.clone();
    let refuse = |pools: Rc<Pools>, wanted: ReplaceDrive| async move {
        let refused = Failure::from(pools.replace_drive(&wanted).await.unwrap_err());
        let codes: Vec<_> = refused
            .findings
            .iter()
            .map(|found| &found.code[..])
            .collect();
        assert_eq!((refused.exit, &codes[..]), (Exit::Refused, &["member"][..]));
        let next = refused.next.unwrap_or_default();
        assert!(!next.contains("--overwrite"), "{next}");
    };
    session(&home, |pools| async move {
        pools.create_pool(&other).await.unwrap();
        // Closed, so that nothing but the label tells whose it is.
        pools.close_all().await;
        pools.create_pool(&pool).await.unwrap();
        refuse(Rc::clone(&pools), wanted).await;
        pools.close_all().await;
    });
    session(&home, |pools| async move {
        refuse(Rc::clone(&pools), closed).await;
        pools.open("q").await.unwrap();
        assert!(
            pools
                .list_drives(Some("q"))
                .await
                .unwrap()
                .iter()
                .all(|drive| drive.state == "live")
        );
        pools.close_all().await;
    });
}
