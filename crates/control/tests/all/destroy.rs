//! Destructions that cannot reach every drive.

use crate::common::{Scratch, closed_pool, session};
use crate::labels::label_bytes;
use std::path::Path;
use varve_control::{Exit, Failure, scan};
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
