//! Drives of a pool that somebody put to another use: what lies there is theirs.

use crate::common::{MIB, Scratch, new_pool, new_volume, one_in_the_way, paths, session};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use varve_control::{CreatePool, DrivePath, Exit, Failure, ImportPool};

/// As `parted` does it: the first 440 bytes stay, the second copy of the label lies in the gap before the first
/// partition.
fn partition(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let mut table = vec![0; 34 * 512 - 440];
    table[70..72].copy_from_slice(&[0x55, 0xaa]);
    table[72..80].copy_from_slice(b"EFI PART");
    file.write_all_at(&table, 440).unwrap();
    file.write_all_at(b"somebody's file system", MIB).unwrap();
}

/// The first 2 MiB: table, gap and the start of the partition.
fn start(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 2 << 20];
    let file = File::open(path).unwrap();
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn import(paths: Vec<std::path::PathBuf>, degraded: bool) -> ImportPool {
    ImportPool {
        paths,
        degraded,
        ..ImportPool::default()
    }
}

/// No command writes to it: it is a missing drive, which is told with what it holds.
#[test]
fn a_drive_put_to_another_use_is_a_missing_one_and_stays_as_it_is() {
    let scratch = Scratch::new();
    let (home, other) = (scratch.path("home"), scratch.path("other"));
    let wanted = new_pool(&scratch, "p");
    let (all, taken) = (paths(&wanted), wanted.dense[1].path.clone());
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = new_volume("p", "v", 10);
        pools.create_volume(&volume).await.unwrap();
        pools.close_all().await;
    });
    partition(&taken);
    let before = start(&taken);
    let (path, there) = (taken.clone(), all.clone());
    session(&home, |pools| async move {
        let refused = [
            Failure::from(pools.open("p").await.unwrap_err()),
            Failure::from(pools.destroy("p", true).await.unwrap_err()),
            Failure::from(pools.import(&import(all, false)).await.unwrap_err()),
        ];
        for refused in refused {
            let told = one_in_the_way(&refused);
            assert_eq!(
                (&*told.code, told.path.as_ref()),
                ("other-use", Some(&path))
            );
            assert!(told.text.starts_with("was drive dense1 of pool p"));
            assert!(told.text.contains("a partition table (GPT)"), "{told:?}");
            assert!(refused.next.unwrap().contains("--degraded"));
        }
        let status = pools.status("p").await.unwrap();
        assert!(status.findings.iter().any(|one| one.code == "other-use"));
        // Nothing else of the pool is here.
        let alone = pools.import(&import(vec![path], false)).await;
        let refused = Failure::from(alone.unwrap_err());
        assert_eq!(refused.findings[0].code, "other-use");
    });
    assert!(
        start(&taken) == before,
        "somebody else's drive was written to"
    );
    let elsewhere = import(there.clone(), true);
    session(&other, |pools| async move {
        let refused = Failure::from(pools.import(&elsewhere).await.unwrap_err());
        assert_eq!(refused.exit, Exit::Conflict, "{refused:?}");
    });
    session(&home, |pools| async move {
        pools.import(&import(there, true)).await.unwrap();
        assert_eq!(pools.list_drives(Some("p")).await.unwrap()[3].state, "lost");
        pools.destroy("p", true).await.unwrap();
    });
    assert!(
        start(&taken) == before,
        "somebody else's drive was written to"
    );
}

/// A new pool takes it only if that is said.
#[test]
fn a_drive_put_to_another_use_is_taken_only_with_overwrite() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let taken = wanted.dense[1].path.clone();
    let again = CreatePool {
        pool: "q".to_owned(),
        fast: scratch.drives("q-fast", 1, 64),
        dense: vec![DrivePath {
            path: taken.clone(),
            create_bytes: None,
        }],
        ..wanted.clone()
    };
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.close_all().await;
    });
    partition(&taken);
    session(&scratch.path("other"), |pools| async move {
        let refused = Failure::from(pools.create_pool(&again).await.unwrap_err());
        let told = |text: &str| {
            let mut findings = refused.findings.iter();
            findings.any(|one| one.code == "holds-data" && one.text.contains(text))
        };
        assert!(told("a partition table (GPT)"), "{refused:?}");
        let overwrite = CreatePool {
            overwrite: true,
            ..again
        };
        pools.create_pool(&overwrite).await.unwrap();
    });
}
