//! Opening pools whose drives are not as they were, and pools that are open already.

use crate::common::{MIB, Mount, Scratch, new_pool, session};
use varve_control::{Exit, Failure, ImportPool};

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
        assert_eq!(
            (refused.exit, &*refused.code),
            (Exit::Refused, "drives-missing"),
            "{refused:?}"
        );
        let [told] = &refused.findings[..] else {
            panic!("one drive is in the way: {refused:?}");
        };
        assert_eq!((&*told.code, told.path.as_ref()), ("open", Some(&path)));
        assert!(told.text.contains("dense1"), "{told:?}");
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
