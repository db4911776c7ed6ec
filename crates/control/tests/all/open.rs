//! Opening pools whose drives are not as they were, and pools that are open already.

use crate::common::{
    MIB, Mount, Scratch, both, closed_pool, new_pool, new_volume, one_in_the_way, paths, pattern,
    session,
};
use std::os::unix::fs::symlink;
use varve_control::{CreatePool, DrivePath, Exit, Failure, ImportPool, Reply, Request, local};
use varve_io::Blocks;
use varve_units::Lba;

fn import(pool: &str) -> ImportPool {
    ImportPool {
        pool: Some(pool.to_owned()),
        ..ImportPool::default()
    }
}

/// A drive that takes no writes is as good as missing: it is told so, and can be done without.
#[test]
fn a_drive_that_cannot_be_opened_for_writing_is_a_missing_one() {
    let scratch = Scratch::new();
    let (home, mount) = (scratch.path("home"), scratch.path("frozen"));
    let Some(frozen) = Mount::tmpfs(&mount, 256 * MIB) else {
        return;
    };
    let mut wanted = new_pool(&scratch, "p");
    wanted.dense[1].path = mount.join("dense1");
    let path = wanted.dense[1].path.clone();
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.close_all().await;
    });
    frozen.freeze();
    session(&home, |pools| async move {
        let refused = Failure::from(pools.open("p").await.unwrap_err());
        let told = one_in_the_way(&refused);
        assert_eq!((&*told.code, told.path.as_ref()), ("open", Some(&path)));
        assert_eq!(told.text, "drive dense1: is read-only");
        assert!(refused.next.unwrap().contains("--degraded"));
        let degraded = ImportPool {
            degraded: true,
            ..import("p")
        };
        pools.import(&degraded).await.unwrap();
        let drives = pools.list_drives(Some("p")).await.unwrap();
        assert_eq!(drives[3].state, "lost");
        pools.close_all().await;
    });
    drop(frozen);
}

/// A pool that stopped for want of room is opened again by an import, where it is open: what was acknowledged is there,
/// and hosts can write.
#[test]
fn an_import_opens_a_pool_again_that_has_stopped() {
    let scratch = Scratch::new();
    let (home, mount) = (scratch.path("home"), scratch.path("small"));
    let Some(small) = Mount::tmpfs(&mount, 48 * MIB) else {
        return;
    };
    let ballast = mount.join("ballast");
    std::fs::write(&ballast, vec![1; 16 * MIB as usize]).unwrap();
    let wanted = CreatePool {
        fast: vec![DrivePath {
            path: mount.join("f"),
            create_bytes: Some(64 * MIB),
        }],
        ..new_pool(&scratch, "p")
    };
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = pools
            .create_volume(&new_volume("p", "v", 100))
            .await
            .unwrap();
        let mut written = 0;
        while volume
            .write(Lba(written), pattern(written, 100, 1), true)
            .await
            .is_ok()
        {
            written += 100;
            assert!(written < 25_000, "there was room for all");
        }
        let view = pools.status("p").await.unwrap();
        assert!(view.stopped.is_some(), "{written} blocks");
        // What it holds is not known, and is not told as nothing.
        assert_eq!((view.used_bytes, view.volumes), (None, None));
        let found = view.findings.iter().find(|found| found.code == "stopped");
        let next = &found.unwrap_or_else(|| panic!("{view:?}")).text;
        assert!(
            next.contains("make room") && next.contains("varve pool import --pool p"),
            "{next}"
        );
        std::fs::remove_file(&ballast).unwrap();
        assert_eq!(pools.import(&import("p")).await.unwrap(), "p");
        let view = pools.status("p").await.unwrap();
        assert_eq!((view.stopped, view.is_open), (None, true));
        let volume = pools.volume("p", "v").unwrap();
        for lba in (0..written).step_by(100) {
            let read = volume.read(Lba(lba), Blocks::zeroed(100)).await.unwrap();
            assert!(read.bytes() == pattern(lba, 100, 1).bytes(), "{lba}");
        }
        volume
            .write(Lba(0), pattern(0, 100, 2), true)
            .await
            .unwrap();
        // One that works is left alone.
        assert_eq!(pools.import(&import("p")).await.unwrap(), "p");
        volume
            .write(Lba(0), pattern(0, 100, 3), true)
            .await
            .unwrap();
        pools.close_all().await;
    });
    drop(small);
}

/// One drive under two names, or named twice, is told as that, not as in use.
#[test]
fn a_drive_that_is_named_twice_is_told_so() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let all = paths(&wanted);
    let link = scratch.path("link");
    symlink(&all[3], &link).unwrap();
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.export("p", false).await.unwrap();
        for again in [&link, &all[3]] {
            let import = ImportPool {
                paths: all.iter().chain([again]).cloned().collect(),
                ..ImportPool::default()
            };
            let refused = Failure::from(pools.import(&import).await.unwrap_err());
            assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
            let [told] = &refused.findings[..] else {
                panic!("one drive is named twice: {refused:?}");
            };
            assert_eq!((&*told.code, told.path.as_ref()), ("twice", Some(again)));
            assert!(told.text.contains(&*all[3].to_string_lossy()), "{told:?}");
            assert!(refused.next.unwrap().contains("once"));
        }
        let import = ImportPool {
            paths: all,
            ..ImportPool::default()
        };
        pools.import(&import).await.unwrap();
        pools.close_all().await;
    });
}

/// What a volume has when its turn comes decides whether it would become smaller.
#[test]
fn a_volume_that_grows_meanwhile_is_not_made_smaller() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = new_volume("p", "v", 10);
        pools.create_volume(&volume).await.unwrap();
        let grown = pools.resize_volume("p", "v", 30 * MIB, false);
        let less = pools.resize_volume("p", "v", 20 * MIB, false);
        let (grown, less) = both(grown, less).await;
        grown.unwrap();
        assert_eq!(Failure::from(less.unwrap_err()).code, "would-shrink");
        let volume = pools.volume("p", "v").unwrap();
        assert_eq!(volume.info().size.0, 30 * MIB / 4096);
        pools.close_all().await;
    });
}

/// The list of all volumes names the pools whose volumes it lacks, and why, whoever makes it: a daemon, or a command
/// that opens the pools itself.
#[test]
fn a_list_of_all_volumes_names_the_pools_that_it_lacks() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let lost = closed_pool(&scratch, &home);
    let (other, third) = (new_pool(&scratch, "q"), new_pool(&scratch, "r"));
    session(&home, |pools| async move {
        for wanted in [other, third] {
            pools.create_pool(&wanted).await.unwrap();
        }
        let volume = new_volume("q", "v", 10);
        pools.create_volume(&volume).await.unwrap();
        pools.close_all().await;
    });
    std::fs::remove_file(&lost[0]).unwrap();
    let told = |reply: Reply| {
        let Reply::VolumeList { volumes, findings } = reply else {
            panic!("a list of volumes: {reply:?}");
        };
        let names: Vec<_> = volumes.into_iter().map(|volume| volume.pool).collect();
        let texts: Vec<_> = findings.into_iter().map(|finding| finding.text).collect();
        assert_eq!(names, ["q"], "{texts:?}");
        texts
    };
    let all = Request::VolumeList { pool: None };
    let alone = told(local::run(&home, all.clone(), |_| {}).unwrap());
    let served = session(&home, |pools| async move {
        pools.open_all().await;
        pools.close("r", false).await.unwrap();
        let reply = pools.answer(all).await.unwrap();
        pools.close_all().await;
        reply
    });
    let served = told(served);
    let [of_alone] = &alone[..] else {
        panic!("one pool is left out: {alone:?}");
    };
    assert!(
        of_alone.contains("pool p") && of_alone.contains("varve pool status p"),
        "{of_alone}"
    );
    assert_eq!(&served[0], of_alone);
    assert!(
        served[1].contains("pool r") && served[1].contains("is closed"),
        "{served:?}"
    );
}

/// Of paths without a label it is told what each is.
#[test]
fn an_import_of_what_is_no_drive_tells_what_that_is() {
    let scratch = Scratch::new();
    let (none, text) = (scratch.path("none"), scratch.path("text"));
    std::fs::write(&text, vec![7; MIB as usize]).unwrap();
    let wanted = ImportPool {
        paths: vec![none, text],
        ..ImportPool::default()
    };
    session(&scratch.path("home"), |pools| async move {
        let refused = Failure::from(pools.import(&wanted).await.unwrap_err());
        let codes = refused.findings.iter().map(|found| &found.code[..]);
        assert_eq!(codes.collect::<Vec<_>>(), ["missing", "no-label"]);
        assert_eq!(refused.exit, Exit::NotFound);
    });
}
