//! What was not named is left alone, and what cannot be remembered is not made.

use crate::common::{Scratch, new_pool, paths, session};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use varve_control::{ControlError, CreatePool, DrivePath, Exit, Failure, ImportPool, ReplaceDrive};

fn code(error: ControlError) -> (Exit, String) {
    let failure = Failure::from(error);
    assert!(failure.next.is_some(), "{failure:?}");
    (failure.exit, failure.code)
}

/// A file beside a drive that is no model of one stays as it is, and the drive is not taken; a model goes with what it
/// told of.
#[test]
fn a_file_beside_a_drive_is_left_alone() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let mine = scratch.path("p-dense1.model");
    let modelled = CreatePool {
        dense_model: Some("qlc-002".to_owned()),
        ..wanted.clone()
    };
    std::fs::write(&mine, "weights of mine\n").unwrap();
    session(&home, |pools| async move {
        for wanted in [&wanted, &modelled] {
            let refused = pools.create_pool(wanted).await.unwrap_err();
            assert_eq!(code(refused), (Exit::Refused, "no-model".to_owned()));
            assert_eq!(std::fs::read(&mine).unwrap(), b"weights of mine\n");
            assert!(paths(wanted).iter().all(|path| !path.exists()));
        }
        std::fs::write(&mine, "qlc-002\n").unwrap();
        pools.create_pool(&wanted).await.unwrap();
        assert!(!mine.exists(), "what it told of is over");
        let spare = scratch.drives("spare", 1, 128).remove(0);
        let beside = scratch.path("spare0.model");
        std::fs::write(&beside, [0xff; 4096]).unwrap();
        let replace = replacement(spare.clone());
        let refused = pools.replace_drive(&replace).await.unwrap_err();
        assert_eq!(code(refused), (Exit::Refused, "no-model".to_owned()));
        assert_eq!(std::fs::read(&beside).unwrap(), [0xff; 4096]);
        assert!(!spare.path.exists());
        pools.close_all().await;
    });
}

fn replacement(new: DrivePath) -> ReplaceDrive {
    ReplaceDrive {
        pool: "p".to_owned(),
        drive: "dense0".to_owned(),
        new,
        give_up: true,
        from_others: false,
        overwrite: false,
    }
}

/// Sums over drives are made for those of 1 PiB at most, whichever way a drive comes in.
#[test]
fn a_replacement_of_absurd_size_is_refused() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let large = scratch.drives("large", 1, (1 << 30) + 1).remove(0);
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let replace = replacement(large.clone());
        let refused = Failure::from(pools.replace_drive(&replace).await.unwrap_err());
        assert!(
            refused.findings.iter().any(|one| one.code == "too-large"),
            "{refused:?}"
        );
        assert!(!large.path.exists());
        pools.close_all().await;
    });
}

/// A path that no document can hold is refused before anything is opened.
#[test]
fn a_path_that_is_no_text_is_refused() {
    let scratch = Scratch::new();
    let odd = scratch.path("").join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).unwrap();
    let import = ImportPool {
        paths: vec![odd.join("d")],
        ..ImportPool::default()
    };
    session(&scratch.path("home"), |pools| async move {
        let refused = pools.import(&import).await.unwrap_err();
        assert_eq!(code(refused), (Exit::Usage, "bad-path".to_owned()));
    });
}

/// Over the socket nobody knows whose directory a relative path is meant in, and a field that is not known may have been
/// to keep something from harm.
#[test]
fn what_is_sent_says_all_and_nothing_else() {
    let read = |text: &str| serde_json::from_str::<CreatePool>(text);
    let text = r#"{"pool":"p","fast":[{"path":"/f","create_bytes":1}],"dense":[],"dry_run":true}"#;
    let read_back = read(text).unwrap();
    assert_eq!(read_back.fast[0].path, PathBuf::from("/f"));
    assert!(read_back.dry_run);
    for (from, to) in [
        ("dry_run", "dryrun"),
        ("\"/f\"", "\"f\""),
        ("\"/f\"", "\"./f\""),
        ("create_bytes", "bytes"),
    ] {
        assert!(read(&text.replace(from, to)).is_err(), "{to}");
    }
    assert!(
        "f".parse::<DrivePath>()
            .is_ok_and(|drive| drive.path.is_absolute())
    );
}
