//! Destructions that cannot reach every drive.

use crate::common::{Scratch, closed_pool, new_pool, new_volume, session};
use crate::labels::label_bytes;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use varve_control::{Exit, Failure, ImportPool, Request, scan};
use varve_hostio::{Disk, DiskOptions};

/// As a destruction leaves it that was cut short before it took the first label.
fn cut_short(home: &Path) {
    let registry = home.join("registry.json");
    let text = std::fs::read_to_string(&registry).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["pools"][0]["destroying"] = true.into();
    std::fs::write(&registry, value.to_string()).unwrap();
}

/// Somebody else has the first drive: the others lose their labels, it is named, and the same command ends what is
/// left when it is free.
#[test]
fn a_destruction_does_what_it_can_and_tells_what_is_left() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let all = closed_pool(&scratch, &home);
    cut_short(&home);
    let held = Disk::open(&all[0], &DiskOptions::default()).unwrap();
    let left = all.clone();
    session(&home, |pools| async move {
        let refused = Failure::from(pools.destroy("p", false).await.unwrap_err());
        assert_eq!(
            (refused.exit, &*refused.code),
            (Exit::Conflict, "half-destroyed"),
            "{refused:?}"
        );
        let told: Vec<_> = refused
            .findings
            .iter()
            .map(|one| one.path.clone())
            .collect();
        assert_eq!(told, [Some(left[0].clone())]);
        let next = refused.next.unwrap();
        assert!(
            next.contains("varve pool destroy p") && next.contains("--forget"),
            "{next}"
        );
        assert_eq!(pools.list().await.unwrap().len(), 1);
    });
    assert!(scan(&all[0]).label().is_some());
    assert!(all[1..].iter().all(|path| scan(path).label().is_none()));
    drop(held);
    session(&home, |pools| async move {
        pools.destroy("p", false).await.unwrap();
        assert!(pools.list().await.unwrap().is_empty());
    });
    assert!(label_bytes(&all[0]).iter().all(|byte| *byte == 0));
}

/// Or it is let go, with what is left.
#[test]
fn a_destruction_that_cannot_end_is_forgotten_on_request() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let all = closed_pool(&scratch, &home);
    cut_short(&home);
    let held = Disk::open(&all[4], &DiskOptions::default()).unwrap();
    session(&home, |pools| async move {
        pools.destroy("p", false).await.unwrap_err();
        let refused = Failure::from(pools.export("p", false).await.unwrap_err());
        assert_eq!(refused.code, "half-destroyed", "{refused:?}");
        pools.export("p", true).await.unwrap();
        assert!(pools.list().await.unwrap().is_empty());
    });
    drop(held);
    assert!(scan(&all[4]).label().is_some(), "it is left as it was");
}

/// Hosts keep a pool that has volumes, until they are gone or somebody insists.
#[test]
fn hosts_keep_a_pool_with_volumes() {
    let scratch = Scratch::new();
    let new = new_pool(&scratch, "p");
    session(&scratch.path("home"), |pools| async move {
        let is_connected = Rc::new(Cell::new(true));
        let asked = Rc::clone(&is_connected);
        pools.serves(move || {
            asked
                .get()
                .then(|| "nqn.2026-11.io.example:host".to_owned())
                .into_iter()
                .collect()
        });
        let export = |cut_off| Request::PoolExport {
            pool: "p".to_owned(),
            forget: false,
            cut_off,
        };
        let destroy = |with_volumes, cut_off| Request::PoolDestroy {
            pool: "p".to_owned(),
            with_volumes,
            cut_off,
        };
        pools.create_pool(&new).await.unwrap();
        pools
            .create_volume(&new_volume("p", "v", 10))
            .await
            .unwrap();
        for request in [export(false), destroy(true, false)] {
            let refused = pools.answer(request).await.unwrap_err();
            assert_eq!(
                (refused.exit, &*refused.code),
                (Exit::Conflict, "hosts-connected")
            );
            assert!(format!("{refused:?}").contains("nqn.2026-11.io.example:host"));
        }
        // That volumes would be lost is the first thing to know.
        let refused = pools.answer(destroy(false, false)).await.unwrap_err();
        assert_eq!(&*refused.code, "has-volumes");
        // Nobody loses a pool without volumes.
        pools.delete_volume("p", "v", true).await.unwrap();
        pools.answer(export(false)).await.unwrap();
        let all = new.fast.iter().chain(&new.dense);
        let back = ImportPool {
            paths: all.map(|drive| drive.path.clone()).collect(),
            ..ImportPool::default()
        };
        pools.import(&back).await.unwrap();
        pools
            .create_volume(&new_volume("p", "v", 10))
            .await
            .unwrap();
        is_connected.set(false);
        pools.answer(export(false)).await.unwrap();
        pools.import(&back).await.unwrap();
        is_connected.set(true);
        pools.answer(destroy(true, true)).await.unwrap();
    });
}
