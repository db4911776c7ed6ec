//! Thin volumes in a pool that has less room than they promise.

use crate::common::{MIB, Scratch, new_pool, new_volume, pattern, session, session_beside};
use varve_control::{
    Config, CreatePool, CreateVolume, PoolView, Pools, Reply, Request, Trouble, Volume,
};
use varve_ftl::EngineError;
use varve_units::{LEAF_BLOCKS, Lba, Nanos};

async fn status(pools: &Pools) -> (PoolView, Vec<String>) {
    let view = pools.status("p").await.unwrap();
    let codes = view.findings.iter().map(|found| found.code.clone());
    let codes = codes.collect();
    (view, codes)
}

/// Writes from a block on, up to another one or until the pool is full; where it ended.
async fn fill(volume: &Volume, first: u64, end: u64) -> u64 {
    for lba in (first..end).step_by(40) {
        match volume.write(Lba(lba), pattern(lba, 40, 1), false).await {
            Ok(()) => {}
            Err(EngineError::CapacityExceeded) => return lba,
            Err(error) => panic!("block {lba}: {error}"),
        }
    }
    end
}

/// The promise is told when it is made; that it is nearly used, that it is, and that there is room again, when that
/// is so.
#[test]
fn a_pool_that_becomes_full_says_so() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = CreatePool {
        dense: scratch.drives("dense", 3, 64),
        ..new_pool(&scratch, "p")
    };
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let capacity = pools.status("p").await.unwrap().capacity_bytes.unwrap();
        let create = |name: &str, bytes: u64| {
            let new = new_volume("p", name, 1);
            Request::VolumeCreate(CreateVolume { bytes, ..new })
        };
        let told = async |request: Request| match pools.answer(request).await.unwrap() {
            Reply::Volume(view) => view.findings.into_iter().map(|one| one.code).collect(),
            other => panic!("{other:?}"),
        };
        let fits: Vec<String> = told(create("v", 16 * MIB)).await;
        assert!(fits.is_empty(), "{fits:?}");
        assert_eq!(told(create("w", 2 * capacity)).await, ["overcommit"]);
        let volume = pools.volume("p", "w").unwrap();
        let most = capacity * 91 / 100 / 4096;
        let (view, codes) = status(&pools).await;
        assert!(view.is_well() && codes.is_empty(), "{codes:?}");
        let first = fill(&volume, 0, most).await;
        let (view, codes) = status(&pools).await;
        assert_eq!(codes, ["nearly-full"]);
        assert!(!view.is_well() && pools.troubles("p").unwrap().is_empty());
        let end = fill(&volume, first.next_multiple_of(40), 2 * capacity / 4096).await;
        assert!(end < capacity / 4096 + 40, "{end}");
        let (view, codes) = status(&pools).await;
        assert_eq!((codes, view.is_well()), (vec!["full".to_owned()], false));
        assert_eq!(pools.troubles("p").unwrap(), [Trouble::Full]);
        pools.delete_volume("p", "w", true).await.unwrap();
        pools.create_volume(&new_volume("p", "x", 8)).await.unwrap();
        // A volume that was deleted is purged beside other work; a write waits for that if it has to.
        let volume = pools.volume("p", "x").unwrap();
        fill(&volume, 0, 2040).await;
        let (view, codes) = status(&pools).await;
        assert!(view.is_well(), "{codes:?}");
        assert!(pools.troubles("p").unwrap().is_empty());
        pools.close_all().await;
    });
}

/// A volume for which whoever serves has no number is made, and no host sees it: that is told.
#[test]
fn a_volume_that_no_host_sees_says_so() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    session(&scratch.path("home"), |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let told = async |name: &str| {
            let request = Request::VolumeCreate(new_volume("p", name, 4));
            match pools.answer(request).await.unwrap() {
                Reply::Volume(view) => view.findings,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told("alone").await, [], "nobody serves");
        pools.numbers(|volume| (volume.name == "seen").then_some(1));
        assert_eq!(told("seen").await, []);
        let [unserved] = &told("unseen").await[..] else {
            panic!("one thing is told");
        };
        assert_eq!(unserved.code, "unserved");
        assert!(unserved.text.contains("p/unseen"), "{unserved}");
        pools.close_all().await;
    });
}

/// One block in each leaf takes little room and many leaves: that these run out is told as well, before they do and
/// when they have, and no longer when there are some again.
#[test]
fn a_pool_that_is_written_sparsely_says_when_its_map_is_full() {
    let scratch = Scratch::new();
    let wanted = CreatePool {
        dense: scratch.drives("dense", 3, 64),
        ..new_pool(&scratch, "p")
    };
    let home = scratch.path("home");
    session_beside(&home, Config::default(), |world, pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let (view, codes) = status(&pools).await;
        assert!(view.is_well() && codes.is_empty(), "{codes:?}");
        let most = view.leaves_max.unwrap();
        assert_eq!(view.leaves, Some(0));
        let new = new_volume("p", "v", 2 * (most + 1));
        let volume = pools.create_volume(&new).await.unwrap();
        let write = async |leaf: u64, block: u64| {
            let lba = leaf * LEAF_BLOCKS + block;
            volume.write(Lba(lba), pattern(lba, 1, 1), false).await
        };
        for leaf in 0..most {
            write(leaf, 0).await.unwrap();
            let is_nearly = (leaf + 1) * 100 / most >= 90 && leaf + 1 < most;
            if is_nearly {
                let (view, codes) = status(&pools).await;
                assert_eq!(
                    (codes, view.is_well()),
                    (vec!["nearly-full-map".to_owned()], false)
                );
                assert_eq!(pools.troubles("p").unwrap(), []);
            }
        }
        assert_eq!(write(most, 0).await, Err(EngineError::CapacityExceeded));
        let (view, codes) = status(&pools).await;
        assert_eq!(
            (codes, view.is_well()),
            (vec!["full-map".to_owned()], false)
        );
        assert_eq!(view.leaves, view.leaves_max);
        assert!(
            view.used_bytes.unwrap() < view.capacity_bytes.unwrap() / 10,
            "{view:?}"
        );
        assert_eq!(pools.troubles("p").unwrap(), [Trouble::FullMap]);
        let next = "`varve volume list p`";
        assert!(view.findings[0].text.contains(next), "{:?}", view.findings);
        write(most - 1, 1).await.expect("its leaf is there");
        pools.delete_volume("p", "v", true).await.unwrap();
        while !pools.troubles("p").unwrap().is_empty() {
            world.sleep(Nanos::from_millis(20)).await;
        }
        let (view, codes) = status(&pools).await;
        assert!(view.is_well(), "{codes:?}");
        pools.close_all().await;
    });
}
