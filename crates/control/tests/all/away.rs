//! Drives that do not answer and that the others cannot do without: they stay live, and whoever asks is told.

use crate::common::{
    LoopDevice, MIB, Mount, Scratch, ended, new_pool, new_volume, pattern, session, session_beside,
};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use varve_control::{
    Config, CreatePool, DrivePath, Health, ImportPool, PoolView, Pools, Protect, ReplaceDrive,
    Trouble,
};
use varve_io::{Blocks, World};
use varve_units::{Lba, Nanos};

/// Between heartbeats: long enough that a drive that is busy is not silent for three of them.
const BEAT: Nanos = Nanos::from_millis(500);
/// How long a change of states may take. Far more than it does.
const PATIENCE: Nanos = Nanos::from_secs(120);
/// Blocks that are written: more than the fast drive has room for.
const BLOCKS: u64 = 20_000;

/// One drive a tier.
fn unprotected(scratch: &Scratch, dense: DrivePath) -> CreatePool {
    CreatePool {
        fast: scratch.drives("f", 1, 64),
        dense: vec![dense],
        protect: Some(Protect::None),
        ..new_pool(scratch, "p")
    }
}

/// The same with a dense drive that can be made to refuse writes; none where there are no such devices.
fn on_device(scratch: &Scratch) -> Option<(LoopDevice, CreatePool)> {
    let device = LoopDevice::over(&scratch.path("d"), 256 * MIB)?;
    let drive = DrivePath {
        path: device.path().to_owned(),
        create_bytes: None,
    };
    Some((device, unprotected(scratch, drive)))
}

/// Writes blocks one after the other, those again that are refused; true in the cell when all are.
async fn write_all(world: Rc<dyn World>, pools: Rc<Pools>, is_done: Rc<Cell<bool>>) {
    let volume = pools.volume("p", "v").unwrap();
    for first in (0..BLOCKS).step_by(40) {
        while volume
            .write(Lba(first), pattern(first, 40, 1), false)
            .await
            .is_err()
        {
            world.sleep(Nanos::from_millis(10)).await;
        }
    }
    is_done.set(true);
}

/// The status of the pool, once it is as wanted.
async fn until(world: &dyn World, pools: &Pools, wanted: impl Fn(&PoolView) -> bool) -> PoolView {
    let end = world.now() + PATIENCE;
    loop {
        let view = pools.status("p").await.unwrap();
        if wanted(&view) {
            return view;
        }
        assert!(world.now() < end, "{view:?}");
        world.sleep(Nanos::from_millis(50)).await;
    }
}

fn text<'a>(view: &'a PoolView, code: &str) -> Option<&'a str> {
    let mut found = view.findings.iter().filter(|found| found.code == code);
    found.next().map(|found| &*found.text)
}

/// Writes to a pool whose dense drive refuses them by and by; what is told until hosts are held up, and after it was
/// `mended`.
fn outage(
    home: &Path,
    wanted: CreatePool,
    breaks: impl Fn() + 'static,
    mends: impl Fn() + 'static,
    said: &'static str,
) {
    let config = Config {
        beat: Some(BEAT),
        ..Config::default()
    };
    session_beside(home, config, |world, pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = new_volume("p", "v", BLOCKS * 4096 / MIB + 1);
        let volume = pools.create_volume(&volume).await.unwrap();
        let view = pools.status("p").await.unwrap();
        assert!(view.is_well() && view.dense_away == Some(false), "{view:?}");
        breaks();
        let is_done = Rc::new(Cell::new(false));
        let writes = write_all(Rc::clone(&world), Rc::clone(&pools), Rc::clone(&is_done));
        world.spawn(Box::pin(writes));
        let view = until(&*world, &pools, |view| text(view, "dense-away").is_some()).await;
        assert!(
            view.health >= Health::Degraded && !view.is_well(),
            "{view:?}"
        );
        assert_eq!(
            (view.dense_away, &*view.drives[1].state),
            (Some(true), "live")
        );
        let held = until(&*world, &pools, |view| {
            view.health == Health::Faulted && text(view, "dense-away").unwrap_or("").contains(said)
        });
        let view = held.await;
        assert!(!is_done.get(), "hosts are held up");
        let told = text(&view, "dense-away").unwrap();
        assert!(told.contains("`varve drive list p`"), "{told}");
        let drives = vec!["dense0".to_owned()];
        let troubles = pools.troubles("p").unwrap();
        assert!(
            troubles.contains(&Trouble::DenseAway { drives }),
            "{troubles:?}"
        );
        mends();
        let view = until(&*world, &pools, |view| is_done.get() && view.is_well()).await;
        assert_eq!(view.dense_away, Some(false));
        assert_eq!(pools.troubles("p").unwrap(), []);
        for first in (0..BLOCKS).step_by(40) {
            let read = volume.read(Lba(first), Blocks::zeroed(40)).await.unwrap();
            assert!(read.bytes() == pattern(first, 40, 1).bytes(), "{first}");
        }
        pools.close_all().await;
    });
}

/// The only dense drive takes no writes for a while: a warning, then a fault when hosts are refused, and neither
/// afterwards.
#[test]
fn a_dense_drive_that_takes_no_writes_is_told_until_it_does() {
    let scratch = Scratch::new();
    let Some((device, wanted)) = on_device(&scratch) else {
        return;
    };
    let device = Rc::new(device);
    let (refusing, taking) = (Rc::clone(&device), device);
    outage(
        &scratch.path("home"),
        wanted,
        move || refusing.refuse_writes(true),
        move || taking.refuse_writes(false),
        "hosts' writes are refused",
    );
}

/// The same where there is no room beneath it.
#[test]
fn a_dense_drive_without_room_beneath_is_told_until_there_is_some() {
    let scratch = Scratch::new();
    let mount = scratch.path("small");
    let Some(small) = Mount::tmpfs(&mount, 128 * MIB) else {
        return;
    };
    let drive = DrivePath {
        path: mount.join("d"),
        create_bytes: Some(256 * MIB),
    };
    let ballast: PathBuf = mount.join("ballast");
    let gone = ballast.clone();
    outage(
        &scratch.path("home"),
        unprotected(&scratch, drive),
        move || std::fs::write(&ballast, vec![1; 112 * MIB as usize]).unwrap(),
        move || std::fs::remove_file(&gone).unwrap(),
        "hosts' writes are refused",
    );
    drop(small);
}

/// Most drives are away for a moment just when another one is to take a lost one's place: nobody knows whether it did.
/// It is told that nothing more can be noted, and an import opens the pool anew.
#[test]
fn labels_that_found_no_quorum_are_told_until_the_pool_is_opened_anew() {
    let scratch = Scratch::new();
    let devices =
        ["d0", "d1", "d2", "d3"].map(|name| LoopDevice::over(&scratch.path(name), 64 * MIB));
    let Some(away) = devices.into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
    let on = |device: &LoopDevice| DrivePath {
        path: device.path().to_owned(),
        create_bytes: None,
    };
    let lost = scratch.drives("lost", 1, 64).remove(0);
    let path = lost.path.clone();
    let wanted = CreatePool {
        dense: away.iter().map(on).chain([lost]).collect(),
        ..new_pool(&scratch, "p")
    };
    let replace = ReplaceDrive {
        pool: "p".to_owned(),
        drive: "dense4".to_owned(),
        new: scratch.drives("new", 1, 64).remove(0),
        give_up: false,
        from_others: false,
        overwrite: false,
    };
    let import = ImportPool {
        pool: Some("p".to_owned()),
        degraded: true,
        ..ImportPool::default()
    };
    let home = scratch.path("home");
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = pools.create_volume(&new_volume("p", "v", 4)).await;
        let volume = volume.unwrap();
        let written = volume.write(Lba(0), pattern(0, 40, 1), true).await;
        written.unwrap();
        pools.close_all().await;
    });
    std::fs::remove_file(path).unwrap();
    session_beside(&home, Config::default(), |world, pools| async move {
        pools.import(&import).await.unwrap();
        away.iter().for_each(|device| device.refuse_writes(true));
        let job = pools.replace_drive(&replace).await.unwrap();
        let told = ended(&pools, job).await.failure.expect("nobody knows");
        assert!(told.next.unwrap().contains("import --pool p"));
        away.iter().for_each(|device| device.refuse_writes(false));
        let view = pools.status("p").await.unwrap();
        assert!(text(&view, "labels-ended").is_some(), "{view:?}");
        let troubles = pools.troubles("p").unwrap();
        assert!(troubles.contains(&Trouble::LabelsEnded), "{troubles:?}");
        pools.import(&import).await.unwrap();
        let view = pools.status("p").await.unwrap();
        assert!(text(&view, "labels-ended").is_none(), "{view:?}");
        pools.replace_drive(&replace).await.unwrap();
        until(&*world, &pools, PoolView::is_well).await;
        let volume = pools.volume("p", "v").unwrap();
        let read = volume.read(Lba(0), Blocks::zeroed(40)).await.unwrap();
        assert!(read.bytes() == pattern(0, 40, 1).bytes());
        pools.close_all().await;
    });
}

/// Nobody writes: that the drive takes no labels tells, before hosts meet it.
#[test]
fn a_drive_of_an_idle_pool_that_takes_no_labels_is_told() {
    let scratch = Scratch::new();
    let Some((device, wanted)) = on_device(&scratch) else {
        return;
    };
    let config = Config {
        beat: Some(BEAT),
        ..Config::default()
    };
    session_beside(&scratch.path("home"), config, |world, pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        assert!(pools.status("p").await.unwrap().is_well());
        device.refuse_writes(true);
        let view = until(&*world, &pools, |view| text(view, "drive-silent").is_some()).await;
        assert_eq!((view.health, view.is_well()), (Health::Degraded, false));
        let drive = "dense0".to_owned();
        assert_eq!(pools.troubles("p").unwrap(), [Trouble::Silent { drive }]);
        device.refuse_writes(false);
        until(&*world, &pools, PoolView::is_well).await;
        assert_eq!(pools.troubles("p").unwrap(), []);
        pools.close_all().await;
    });
}
