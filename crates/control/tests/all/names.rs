//! Names that are given to pools, and a state directory that does not take them.

use crate::common::{MIB, Scratch, both, new_pool, new_volume, paths, session};
use crate::labels::label_bytes;
use std::rc::Rc;
use varve_control::{Config, CreatePool, Exit, Failure, Home, ImportPool, Pools};
use varve_hostio::Executor;
use varve_io::World;

/// Two commands of the same moment, each a control plane of its own: one makes the pool, the other is told that there is
/// one, and leaves nothing.
#[test]
fn of_two_creations_of_one_name_one_is_refused() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let one = new_pool(&scratch, "p");
    let other = CreatePool {
        fast: scratch.drives("q-fast", 2, 64),
        dense: scratch.drives("q-dense", 3, 128),
        ..one.clone()
    };
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let pools = || {
        let home = Home::open(&home).unwrap();
        Pools::new(Rc::clone(&world), home, Config::default()).unwrap()
    };
    let (first, second) = (pools(), pools());
    let flow = async move {
        let made = both(first.create_pool(&one), second.create_pool(&other)).await;
        let made = [(made.0, one), (made.1, other)];
        let refused = made.iter().filter_map(|(made, wanted)| match made {
            Ok(_) => None,
            Err(error) => Some((error.code(), wanted.clone())),
        });
        let refused: Vec<_> = refused.collect();
        let [(code, wanted)] = &refused[..] else {
            panic!("{} of two are refused", refused.len());
        };
        assert_eq!(*code, "pool-exists");
        assert!(paths(wanted).iter().all(|path| !path.exists()));
        assert_eq!(first.list().await.unwrap().len(), 1);
        first.close_all().await;
        second.close_all().await;
    };
    executor.run(flow).expect("the session ends");
}

/// A directory lies where drafts of the registry are to be written, so that root cannot write them either.
fn spoil(home: &std::path::Path) {
    std::fs::create_dir(home.join("registry.json.new")).unwrap();
}

/// What cannot be remembered is not made.
#[test]
fn a_pool_is_not_made_where_it_cannot_be_remembered() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    session(&home, |_| async {});
    spoil(&home);
    let blank = scratch.path("blank");
    std::fs::write(&blank, vec![7; 64 * MIB as usize]).unwrap();
    let mut existing = wanted.clone();
    existing.overwrite = true;
    existing.fast[0].path = blank.clone();
    existing.fast[0].create_bytes = None;
    for wanted in [wanted, existing] {
        session(&home, |pools| async move {
            let refused = Failure::from(pools.create_pool(&wanted).await.unwrap_err());
            assert_eq!(
                (refused.exit, &*refused.code),
                (Exit::Failed, "state-directory")
            );
            assert!(pools.open_names().is_empty());
        });
    }
    let mut left = std::fs::read_dir(scratch.path("")).unwrap();
    let is_drive = |name: &std::ffi::OsStr| name != "home" && name != "blank";
    assert!(left.all(|entry| !is_drive(&entry.unwrap().file_name())));
    assert!(std::fs::read(&blank).unwrap().iter().all(|byte| *byte == 7));
}

/// The state directory takes no more when the drives have their labels already: they lose them again, and files that
/// were made go.
#[test]
fn a_pool_that_cannot_be_remembered_after_all_is_taken_back() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let mut wanted = new_pool(&scratch, "p");
    let (made, own) = (wanted.fast[0].path.clone(), scratch.path("own"));
    let file = std::fs::File::create(&own).unwrap();
    file.set_len(128 * MIB).unwrap();
    wanted.dense[2].path = own.clone();
    wanted.dense[2].create_bytes = None;
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let state = Home::open(&home).unwrap();
    let pools = Pools::new(Rc::clone(&world), state, Config::default()).unwrap();
    let (new, all) = (made.clone(), paths(&wanted));
    let flow = async move {
        let spoil = async {
            while !new.exists() || label_bytes(&new).iter().all(|byte| *byte == 0) {
                world.yield_now().await;
            }
            spoil(&home);
        };
        let (refused, ()) = both(pools.create_pool(&wanted), spoil).await;
        assert_eq!(refused.unwrap_err().code(), "state-directory");
        assert!(pools.open_names().is_empty());
    };
    executor.run(flow).expect("the session ends");
    let left: Vec<_> = all.iter().filter(|path| path.exists()).collect();
    assert_eq!(left, [&own]);
    assert!(label_bytes(&own).iter().all(|byte| *byte == 0));
}

/// An import that cannot be remembered opens nothing: what would be served today would not be after a restart.
#[test]
fn a_pool_is_not_imported_where_it_cannot_be_remembered() {
    let scratch = Scratch::new();
    let (here, there) = (scratch.path("here"), scratch.path("there"));
    let wanted = new_pool(&scratch, "p");
    let all = paths(&wanted);
    session(&there, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = new_volume("p", "v", 10);
        pools.create_volume(&volume).await.unwrap();
        pools.export("p", false).await.unwrap();
    });
    session(&here, |_| async {});
    spoil(&here);
    let before: Vec<_> = all.iter().map(|path| label_bytes(path)).collect();
    let import = ImportPool {
        paths: all.clone(),
        ..ImportPool::default()
    };
    let again = import.clone();
    session(&here, |pools| async move {
        let refused = Failure::from(pools.import(&import).await.unwrap_err());
        assert_eq!(refused.code, "state-directory", "{refused:?}");
        assert!(pools.open_names().is_empty());
    });
    let after: Vec<_> = all.iter().map(|path| label_bytes(path)).collect();
    assert!(before == after, "labels were written");
    std::fs::remove_dir(here.join("registry.json.new")).unwrap();
    session(&here, |pools| async move {
        pools.import(&again).await.unwrap();
        pools.close_all().await;
    });
}

/// Nor is a pool left open whose paths could not be remembered when it had been opened.
#[test]
fn an_import_that_cannot_be_remembered_after_all_is_closed() {
    let scratch = Scratch::new();
    let (here, there) = (scratch.path("here"), scratch.path("there"));
    let wanted = new_pool(&scratch, "p");
    let all = paths(&wanted);
    session(&there, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.export("p", false).await.unwrap();
    });
    let before = label_bytes(&all[0]);
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let home = Home::open(&here).unwrap();
    let pools = Pools::new(Rc::clone(&world), home, Config::default()).unwrap();
    let flow = async move {
        let import = ImportPool {
            paths: all.clone(),
            ..ImportPool::default()
        };
        let spoil = async {
            while label_bytes(&all[0]) == before {
                world.yield_now().await;
            }
            spoil(&here);
        };
        let (refused, ()) = both(pools.import(&import), spoil).await;
        assert_eq!(refused.unwrap_err().code(), "state-directory");
        assert!(pools.open_names().is_empty());
        std::fs::remove_dir(here.join("registry.json.new")).unwrap();
        pools.import(&import).await.unwrap();
        pools.close_all().await;
    };
    executor.run(flow).expect("the session ends");
}

/// An import that fails leaves what is known of the pool as it was.
#[test]
fn an_import_that_fails_is_not_remembered() {
    let scratch = Scratch::new();
    let (here, there) = (scratch.path("here"), scratch.path("there"));
    let wanted = new_pool(&scratch, "p");
    let import = ImportPool {
        paths: paths(&wanted),
        ..ImportPool::default()
    };
    session(&there, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.close_all().await;
    });
    session(&here, |pools| async move {
        let refused = Failure::from(pools.import(&import).await.unwrap_err());
        assert_eq!(refused.code, "owned-elsewhere", "{refused:?}");
        assert!(pools.list().await.unwrap().is_empty());
    });
}
