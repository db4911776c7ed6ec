//! Pools on sparse files: made, opened again, moved to another machine, destroyed.

use crate::common::{MIB, Scratch, both, new_pool, new_volume, paths, pattern, session};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use varve_control::{
    Config, ControlError, CreatePool, DrivePath, Event, Exit, Failure, Health, Home, ImportPool,
    JobState, Pools, ReplaceDrive, Severity,
};
use varve_format::{LABEL_BYTES, Label};
use varve_ftl::EngineError;
use varve_hostio::{Executor, Signal};
use varve_io::{Blocks, World};
use varve_pool::label::LABEL_OFFSETS;
use varve_units::Lba;

fn exit(error: ControlError) -> Exit {
    Failure::from(error).exit
}

#[test]
fn what_was_written_is_there_after_a_close_and_handles_do_not_keep_pools() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "tank");
    session(&home, |pools| async move {
        let watch = pools.watch();
        let made = pools.create_pool(&wanted).await.unwrap();
        assert!(made.is_made && made.protect == "2+1" && made.capacity_bytes > 150 * MIB);
        let volume = new_volume("tank", "db", 100);
        let volume = pools.create_volume(&volume).await.unwrap();
        volume
            .write(Lba(10), pattern(10, 600, 1), false)
            .await
            .unwrap();
        volume.flush().await.unwrap();
        let view = pools.list_volumes(None).await.unwrap();
        assert_eq!(view[0].used_bytes, 600 * 4096);
        assert_eq!((view[0].bytes, view[0].unprotected_bytes), (100 * MIB, 0));
        assert!(matches!(watch.next().await, Event::PoolOpened { pool } if pool == "tank"));
        assert!(matches!(watch.next().await, Event::VolumeCreated(v) if v.info().name == "db"));
        for (_, outcome) in pools.close_all().await {
            outcome.unwrap();
        }
        assert!(matches!(watch.next().await, Event::PoolClosing { .. }));
        let read = volume.read(Lba(0), Blocks::zeroed(1)).await;
        assert!(matches!(read, Err(EngineError::Stopped)));
        // In the same process: nothing of the first opening holds the drives.
        let outcomes = pools.open_all().await;
        outcomes
            .into_iter()
            .for_each(|(_, outcome)| outcome.unwrap());
        let again = pools.volume("tank", "db").unwrap();
        assert_eq!(again.info(), volume.info());
        let read = again.read(Lba(10), Blocks::zeroed(600)).await.unwrap();
        assert_eq!(read.bytes(), pattern(10, 600, 1).bytes());
        pools.close_all().await;
        let status = pools.status("tank").await.unwrap();
        assert_eq!(status.health, Health::Closed);
        assert_eq!(status.drives.len(), 5);
    });
}

#[test]
fn volumes_grow_shrink_when_told_and_go() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = new_volume("p", "v", 10);
        pools.create_volume(&volume).await.unwrap();
        let twice = pools.create_volume(&volume).await.unwrap_err();
        assert_eq!(exit(twice), Exit::Conflict);
        let watch = pools.watch();
        let grown = pools
            .resize_volume("p", "v", 20 * MIB, false)
            .await
            .unwrap();
        assert_eq!(grown.info().size.0, 20 * MIB / 4096);
        let refused = pools.resize_volume("p", "v", MIB, false).await.unwrap_err();
        assert_eq!(exit(refused), Exit::Refused);
        pools.resize_volume("p", "v", MIB, true).await.unwrap();
        let odd = pools.resize_volume("p", "v", 5000, true).await.unwrap_err();
        assert_eq!(exit(odd), Exit::Usage);
        let destroyed = pools.destroy("p", false).await.unwrap_err();
        assert_eq!(exit(destroyed), Exit::Refused);
        pools.delete_volume("p", "v", true).await.unwrap();
        let gone = pools.delete_volume("p", "v", true).await.unwrap_err();
        assert_eq!(exit(gone), Exit::NotFound);
        let told: Vec<_> = std::iter::from_fn(|| watch.try_next()).collect();
        assert!(matches!(
            &told[..],
            [Event::VolumeResized(_), Event::VolumeResized(_), Event::VolumeDeleted(info)]
                if info.name == "v"
        ));
        pools.destroy("p", false).await.unwrap();
        assert!(pools.list().await.unwrap().is_empty());
        // What is left are blank drives.
        let again = varve_control::CreatePool {
            fast: existing(&wanted.fast),
            dense: existing(&wanted.dense),
            ..wanted
        };
        pools.create_pool(&again).await.unwrap();
        // Volumes that go with their pool are told of as others.
        pools.create_volume(&volume).await.unwrap();
        let watch = pools.watch();
        pools.destroy("p", true).await.unwrap();
        let told: Vec<_> = std::iter::from_fn(|| watch.try_next()).collect();
        assert!(matches!(
            &told[..],
            [Event::PoolClosing { .. }, Event::VolumeDeleted(info)] if info.name == "v"
        ));
    });
}

/// A signal that comes while drives are labelled takes back what was begun; the same drives make the pool afterwards.
#[test]
fn a_signal_takes_back_what_is_made() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let home = Home::open(&scratch.path("home")).unwrap();
    let pools = Pools::new(Rc::clone(&world), home, Config::default()).unwrap();
    let flow = async move {
        let last = paths(&wanted).pop().unwrap();
        let signal = async {
            while !last.exists() {
                world.yield_now().await;
            }
            pools.interrupt(Signal::Terminate);
        };
        let (made, ()) = both(pools.create_pool(&wanted), signal).await;
        assert_eq!(exit(made.unwrap_err()), Exit::Terminated);
        assert!(paths(&wanted).iter().all(|path| !path.exists()));
        assert!(pools.list().await.unwrap().is_empty());
    };
    executor.run(flow).expect("the session ends");
}

fn existing(drives: &[varve_control::DrivePath]) -> Vec<varve_control::DrivePath> {
    let existing = |drive: &varve_control::DrivePath| varve_control::DrivePath {
        create_bytes: None,
        ..drive.clone()
    };
    drives.iter().map(existing).collect()
}

#[test]
fn a_pool_moves_to_another_machine_when_released_or_taken_over() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let paths: Vec<_> = wanted
        .fast
        .iter()
        .chain(&wanted.dense)
        .map(|d| d.path.clone())
        .collect();
    let (here, there) = (scratch.path("here"), scratch.path("there"));
    session(&here, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools
            .create_volume(&new_volume("p", "v", 10))
            .await
            .unwrap();
        pools.close_all().await;
    });
    let import = ImportPool {
        paths,
        ..ImportPool::default()
    };
    let taken = ImportPool {
        take_over: true,
        ..import.clone()
    };
    let again = import.clone();
    session(&there, |pools| async move {
        let refused = pools.import(&import).await.unwrap_err();
        assert_eq!(exit(refused), Exit::Conflict);
        assert_eq!(pools.import(&taken).await.unwrap(), "p");
        assert!(pools.volume("p", "v").is_ok());
        let status = pools.status("p").await.unwrap();
        assert!(status.findings.is_empty(), "{status:?}");
        pools.close_all().await;
        let status = pools.status("p").await.unwrap();
        assert!(status.findings.is_empty(), "{status:?}");
    });
    session(&here, |pools| async move {
        let status = pools.status("p").await.unwrap();
        let [told] = &status.findings[..] else {
            panic!("somebody else has it: {status:?}");
        };
        assert_eq!(told.code, "owned-elsewhere");
    });
    session(&there, |pools| async move {
        pools.export("p", false).await.unwrap();
        assert!(pools.list().await.unwrap().is_empty());
    });
    session(&here, |pools| async move {
        let status = pools.status("p").await.unwrap();
        assert!(status.findings.is_empty(), "{status:?}");
        assert_eq!(pools.import(&again).await.unwrap(), "p");
        assert_eq!(pools.list_volumes(Some("p")).await.unwrap().len(), 1);
        pools.close_all().await;
    });
}

/// What a creation leaves that was cut short before its end: the labels, which say so.
fn cut_short(paths: &[PathBuf]) {
    for path in paths {
        let mut file = File::options().read(true).write(true).open(path).unwrap();
        for offset in LABEL_OFFSETS {
            let mut bytes = [0; LABEL_BYTES];
            file.seek(SeekFrom::Start(offset)).unwrap();
            file.read_exact(&mut bytes).unwrap();
            let Ok(mut label) = Label::decode(&bytes) else {
                continue;
            };
            label.is_unfinished = true;
            file.seek(SeekFrom::Start(offset)).unwrap();
            file.write_all(label.encode().bytes()).unwrap();
        }
    }
}

#[test]
fn a_creation_that_was_cut_short_is_repeated_with_the_same_drives_only() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let again = CreatePool {
        fast: existing(&wanted.fast),
        dense: existing(&wanted.dense),
        ..wanted.clone()
    };
    let mut swapped = again.clone();
    swapped.dense.swap(0, 1);
    let drives = again.fast.iter().chain(&again.dense);
    let paths: Vec<_> = drives.map(|drive| drive.path.clone()).collect();
    let files = paths.clone();
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.export("p", false).await.unwrap();
        cut_short(&files);
        let refused = pools.create_pool(&wanted).await.unwrap_err();
        let next = Failure::from(refused).next.unwrap_or_default();
        assert!(next.contains("without a size"), "{next}");
    });
    session(&home, |pools| async move {
        let import = ImportPool {
            paths,
            ..ImportPool::default()
        };
        let refused = Failure::from(pools.import(&import).await.unwrap_err());
        assert_eq!(refused.exit, Exit::Refused);
        assert!(
            refused
                .next
                .unwrap_or_default()
                .contains("varve pool create")
        );
        let refused = pools.create_pool(&swapped).await.unwrap_err();
        assert_eq!(exit(refused), Exit::Refused);
        let made = pools.create_pool(&again).await.unwrap();
        let begun_anew = made
            .findings
            .iter()
            .filter(|found| found.code == "unfinished");
        assert_eq!(begun_anew.count(), 5);
        pools
            .create_volume(&new_volume("p", "v", 10))
            .await
            .unwrap();
        pools.close_all().await;
    });
}

/// Drives larger than any there is are refused before anything is made.
#[test]
fn a_drive_of_absurd_size_is_refused() {
    let scratch = Scratch::new();
    let wanted = CreatePool {
        fast: scratch.drives("f", 1, u64::MAX / MIB / 2),
        dense: scratch.drives("d", 1, u64::MAX / MIB / 2),
        ..new_pool(&scratch, "p")
    };
    session(&scratch.path("home"), |pools| async move {
        let refused = Failure::from(pools.create_pool(&wanted).await.unwrap_err());
        assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
        assert!(wanted.fast.iter().all(|drive| !drive.path.exists()));
    });
}

/// The healthy drive is given up only for one that can take its place.
#[test]
fn a_drive_is_not_given_up_for_one_that_does_not_fit() {
    let scratch = Scratch::new();
    let pool = new_pool(&scratch, "p");
    let small = |name: &str, mib: u64| scratch.drives(name, 1, mib).remove(0);
    let news = [("fast0", small("sf", 63)), ("dense1", small("sd", 127))];
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        for (drive, new) in news {
            let path = new.path.clone();
            let wanted = ReplaceDrive {
                pool: "p".to_owned(),
                drive: drive.to_owned(),
                new,
                give_up: true,
                from_others: true,
                overwrite: false,
            };
            let refused = Failure::from(pools.replace_drive(&wanted).await.unwrap_err());
            assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
            assert!(!path.exists(), "{drive}");
            let drives = pools.list_drives(Some("p")).await.unwrap();
            assert!(
                drives.iter().all(|drive| drive.state == "live"),
                "{drives:?}"
            );
        }
        pools.close_all().await;
    });
}

/// A drive of the pool itself takes no other place, whatever may be overwritten, and not its own while it is there.
#[test]
fn a_drive_of_the_pool_replaces_none() {
    let scratch = Scratch::new();
    let pool = new_pool(&scratch, "p");
    let mut news = existing(&pool.dense);
    news.extend(existing(&pool.fast));
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        for new in news {
            let wanted = ReplaceDrive {
                pool: "p".to_owned(),
                drive: "dense1".to_owned(),
                new,
                give_up: true,
                from_others: true,
                overwrite: true,
            };
            let refused = Failure::from(pools.replace_drive(&wanted).await.unwrap_err());
            let codes: Vec<_> = refused
                .findings
                .iter()
                .map(|found| &found.code[..])
                .collect();
            assert_eq!(
                (refused.exit, &codes[..]),
                (Exit::Refused, &["own-drive"][..])
            );
            assert!(refused.next.unwrap().contains("not in the pool"));
        }
        let drives = pools.list_drives(Some("p")).await.unwrap();
        assert!(
            drives.iter().all(|drive| drive.state == "live"),
            "{drives:?}"
        );
        pools.close_all().await;
    });
}

/// What such a pool does not survive is told before it is made.
#[test]
fn a_mirror_of_two_without_a_dense_tier_is_told_to_rest_on_one() {
    let scratch = Scratch::new();
    session(&scratch.path("home"), |pools| async move {
        for (fast, dense, rests) in [(2, 0, true), (3, 0, false), (2, 1, false), (1, 0, false)] {
            let wanted = CreatePool {
                fast: scratch.drives("f", fast, 64),
                dense: scratch.drives("d", dense, 128),
                dry_run: true,
                ..new_pool(&scratch, "p")
            };
            let plan = pools.create_pool(&wanted).await.unwrap();
            let mut findings = plan.findings.iter();
            let told = findings.find(|one| one.code == "rests-on-one");
            assert_eq!(told.is_some(), rests, "{fast} fast, {dense} dense");
            let helps = "a third fast drive or a dense drive";
            assert!(told.is_none_or(|one| one.text.contains(helps)));
        }
    });
}

/// More drives than a pool can have are refused before anything is made, with other advice than larger ones,
/// also where there is no room for any of them.
#[test]
fn too_many_drives_are_refused() {
    /// 1 PiB, which no file system beneath a test has.
    const NO_ROOM_MIB: u64 = 1 << 30;
    let scratch = Scratch::new();
    let fast = scratch.drives("f", 2, NO_ROOM_MIB);
    session(&scratch.path("home"), |pools| async move {
        for count in [99, 120, 300] {
            let wanted = CreatePool {
                fast: fast.clone(),
                dense: scratch.drives("d", count, NO_ROOM_MIB),
                ..new_pool(&scratch, "p")
            };
            let refused = Failure::from(pools.create_pool(&wanted).await.unwrap_err());
            assert_eq!(refused.exit, Exit::Refused, "{refused:?}");
            assert_eq!(refused.findings[0].code, "too-many-drives");
            assert_eq!(refused.next.as_deref(), Some("make several pools of them"));
            assert!(!fast[0].path.exists());
        }
        let wanted = CreatePool {
            fast: scratch.drives("g", 5, NO_ROOM_MIB),
            ..new_pool(&scratch, "p")
        };
        let refused = Failure::from(pools.create_pool(&wanted).await.unwrap_err());
        assert_eq!(refused.findings[0].code, "too-many-fast");
        assert!(!wanted.fast[0].path.exists());
        let nowhere = ImportPool::default();
        let refused = Failure::from(pools.import(&nowhere).await.unwrap_err());
        assert_eq!((refused.exit, &refused.code[..]), (Exit::Usage, "no-paths"));
    });
}

/// What a refusal names as the least is the least: a block less is refused, so much is taken.
#[test]
fn a_drive_that_is_too_small_is_told_what_the_place_takes() {
    let scratch = Scratch::new();
    let pool = new_pool(&scratch, "p");
    let of = |drive: &str, path: &Path, bytes| ReplaceDrive {
        pool: "p".to_owned(),
        drive: drive.to_owned(),
        new: DrivePath {
            path: path.to_owned(),
            create_bytes: Some(bytes),
        },
        give_up: true,
        from_others: true,
        overwrite: false,
    };
    let places = ["fast0", "dense1"].map(|drive| (drive, scratch.path(&format!("new-{drive}"))));
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        for (drive, path) in places {
            let of = |bytes| of(drive, &path, bytes);
            let refused = pools.replace_drive(&of(16 * MIB)).await.unwrap_err();
            let refused = Failure::from(refused);
            let text = &refused.findings[0].text;
            let least = text
                .split("at least ")
                .nth(1)
                .and_then(|rest| rest.split(' ').next());
            let least: u64 = least.expect("a number").parse().expect("a number");
            let less = pools.replace_drive(&of(least - 4096)).await.unwrap_err();
            assert_eq!(Failure::from(less).findings[0].code, "too-small", "{drive}");
            let mut job = pools.replace_drive(&of(least)).await.unwrap();
            while job.state == JobState::Running {
                job = pools.wait_job(job.job, job.done_bytes).await.unwrap();
            }
            assert_eq!(job.state, JobState::Done, "{drive}: {job:?}");
        }
        pools.close_all().await;
    });
}

/// Two drives of which one is a copy of the other are told by their paths.
#[test]
fn a_copy_beside_its_original_is_named() {
    let scratch = Scratch::new();
    let pool = new_pool(&scratch, "p");
    let paths: Vec<_> = pool
        .fast
        .iter()
        .chain(&pool.dense)
        .map(|drive| drive.path.clone())
        .collect();
    let copy = scratch.path("copy");
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        pools.export("p", false).await.unwrap();
    });
    std::fs::copy(&paths[1], &copy).unwrap();
    let import = ImportPool {
        paths: paths.iter().chain([&copy]).cloned().collect(),
        ..ImportPool::default()
    };
    session(&scratch.path("home"), |pools| async move {
        let refused = Failure::from(pools.import(&import).await.unwrap_err());
        for path in [&paths[1], &copy] {
            let name = path.display().to_string();
            assert!(refused.error.contains(&name), "{name}: {refused:?}");
        }
    });
}

/// Of a pool whose drives are gone for good nothing is left but its name here, which can be let go by who says so.
#[test]
fn a_pool_that_is_gone_can_be_forgotten() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let pool = new_pool(&scratch, "p");
    let files: Vec<_> = pool.fast.iter().chain(&pool.dense).cloned().collect();
    session(&home, |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        pools.close_all().await;
    });
    std::fs::remove_file(&files[0].path).unwrap();
    session(&home, |pools| async move {
        // One drive is away: that is no reason to forget the others.
        pools.export("p", false).await.unwrap_err();
        assert_eq!(pools.list().await.unwrap().len(), 1);
    });
    for drive in &files[1..] {
        std::fs::remove_file(&drive.path).unwrap();
    }
    let again = new_pool(&scratch, "p");
    session(&home, |pools| async move {
        let import = ImportPool {
            pool: Some("p".to_owned()),
            degraded: true,
            ..ImportPool::default()
        };
        for refused in [
            Failure::from(pools.export("p", false).await.unwrap_err()),
            Failure::from(pools.import(&import).await.unwrap_err()),
        ] {
            assert_eq!((refused.exit, &*refused.code), (Exit::Refused, "pool-gone"));
            assert!(
                refused
                    .next
                    .unwrap()
                    .contains("varve pool export p --forget")
            );
        }
        let told = pools.export("p", true).await.unwrap();
        assert_eq!(told.expect("nobody was released").code, "not-released");
        assert!(pools.list().await.unwrap().is_empty());
        pools.create_pool(&again).await.unwrap();
        pools.close_all().await;
    });
}

/// A pool that has lost more than its redundancy is said to be faulted, is let go on request alone, and what is left
/// of it serves another pool.
#[test]
fn a_pool_beyond_rescue_can_be_let_go() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let pool = new_pool(&scratch, "p");
    let fast: Vec<_> = pool.fast.iter().map(|drive| drive.path.clone()).collect();
    session(&home, |pools| async move {
        pools.create_pool(&pool).await.unwrap();
        pools.close_all().await;
    });
    fast.iter()
        .for_each(|path| std::fs::remove_file(path).unwrap());
    let there = |drive: DrivePath| DrivePath {
        create_bytes: None,
        ..drive
    };
    let again = CreatePool {
        dense: new_pool(&scratch, "p")
            .dense
            .into_iter()
            .map(there)
            .collect(),
        overwrite: true,
        ..new_pool(&scratch, "q")
    };
    session(&home, |pools| async move {
        assert_eq!(pools.status("p").await.unwrap().health, Health::Faulted);
        let refused = Failure::from(pools.export("p", false).await.unwrap_err());
        assert!(refused.next.unwrap().contains("--forget"));
        let view = pools.status("p").await.unwrap();
        assert!(
            view.findings
                .iter()
                .any(|finding| finding.code == "unopened"),
            "{view:?}"
        );
        let told = pools.export("p", true).await.unwrap();
        let told = told.expect("it could not be released");
        assert_eq!(
            (&*told.code, told.severity),
            ("not-released", Severity::Warning)
        );
        assert!(pools.list().await.unwrap().is_empty());
        pools.create_pool(&again).await.unwrap();
        pools.close_all().await;
    });
}

/// Cut short at its worst, with no label left on any fast drive, a destruction is ended by the same command, and
/// until then the pool is not taken for one with drives missing.
#[test]
fn a_destruction_that_was_cut_short_goes_on() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let made = wanted.clone();
    session(&home, |pools| async move {
        pools.create_pool(&made).await.unwrap();
        pools
            .create_volume(&new_volume("p", "v", 10))
            .await
            .unwrap();
        pools.close_all().await;
    });
    let registry = home.join("registry.json");
    let text = std::fs::read_to_string(&registry).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["pools"][0]["destroying"] = true.into();
    std::fs::write(&registry, value.to_string()).unwrap();
    for drive in &wanted.fast {
        let mut file = File::options().write(true).open(&drive.path).unwrap();
        for offset in LABEL_OFFSETS {
            file.seek(SeekFrom::Start(offset)).unwrap();
            file.write_all(&[0; LABEL_BYTES]).unwrap();
        }
    }
    session(&home, |pools| async move {
        let refused = Failure::from(pools.open("p").await.unwrap_err());
        assert_eq!(refused.exit, Exit::Refused);
        assert!(refused.next.unwrap().contains("varve pool destroy p"));
        let status = pools.status("p").await.unwrap();
        assert_eq!(status.health, Health::Faulted);
        assert!(
            status
                .findings
                .iter()
                .any(|found| found.code == "half-destroyed")
        );
        pools.destroy("p", false).await.unwrap();
        assert!(pools.list().await.unwrap().is_empty());
        let again = CreatePool {
            fast: existing(&wanted.fast),
            dense: existing(&wanted.dense),
            ..wanted
        };
        pools.create_pool(&again).await.unwrap();
    });
}

/// A label of a drive, if it has one.
fn label_at(path: &Path) -> Option<Label> {
    let mut file = File::open(path).ok()?;
    LABEL_OFFSETS.into_iter().find_map(|offset| {
        let mut bytes = [0; LABEL_BYTES];
        file.seek(SeekFrom::Start(offset)).ok()?;
        file.read_exact(&mut bytes).ok()?;
        Label::decode(&bytes).ok()
    })
}

/// The power fails while a drive is being filled in another's place: the next start knows where it is.
#[test]
fn a_replacement_that_was_cut_short_is_found_again() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let new = scratch.path("other");
    let path = new.clone();
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = pools
            .create_volume(&new_volume("p", "v", 100))
            .await
            .unwrap();
        for first in (0..20_000).step_by(200) {
            let data = pattern(first, 200, 1);
            volume.write(Lba(first), data, false).await.unwrap();
        }
        volume.flush().await.unwrap();
        let wanted = ReplaceDrive {
            pool: "p".to_owned(),
            drive: "dense1".to_owned(),
            new: varve_control::DrivePath {
                path,
                create_bytes: Some(128 * MIB),
            },
            give_up: true,
            from_others: true,
            overwrite: false,
        };
        let mut job = pools.replace_drive(&wanted).await.unwrap();
        // The other drives' labels name it before it is filled; its own may come a moment later.
        while job.state == JobState::Running
            && (job.done_bytes == 0 || label_at(&wanted.new.path).is_none())
        {
            job = pools.wait_job(job.job, job.done_bytes).await.unwrap();
        }
    });
    session(&home, |pools| async move {
        for (_, outcome) in pools.open_all().await {
            outcome.unwrap();
        }
        let drives = pools.list_drives(Some("p")).await.unwrap();
        let dense1 = drives.iter().find(|drive| drive.drive == "dense1").unwrap();
        assert_eq!(dense1.path.as_deref(), Some(new.as_path()), "{drives:?}");
        let volume = pools.volume("p", "v").unwrap();
        for first in (0..20_000).step_by(200) {
            let read = volume.read(Lba(first), Blocks::zeroed(200)).await.unwrap();
            assert!(read.bytes() == pattern(first, 200, 1).bytes(), "{first}");
        }
        pools.close_all().await;
    });
}
