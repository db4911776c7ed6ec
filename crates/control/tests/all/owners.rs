//! Two machines that reach the same drives; the other one is a hand that writes labels.

use crate::common::{Scratch, new_pool, new_volume, paths, pattern};
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use varve_control::{
    Config, Event, Exit, Failure, Health, Home, ImportPool, Pools, Trouble, Watch,
};
use varve_format::{LABEL_BYTES, Label};
use varve_ftl::EngineError;
use varve_hostio::Executor;
use varve_io::World;
use varve_pool::label::LABEL_OFFSETS;
use varve_units::{Lba, Nanos};

/// Between heartbeats: long enough that a drive that is busy is not silent for three of them.
const BEAT: Nanos = Nanos::from_millis(500);

fn session<T: 'static, F: Future<Output = T> + 'static>(
    home: &Path,
    flow: impl FnOnce(Rc<dyn World>, Rc<Pools>) -> F,
) -> T {
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let home = Home::open(home).expect("a state directory");
    let config = Config {
        beat: Some(BEAT),
        ..Config::default()
    };
    let pools = Pools::new(Rc::clone(&world), home, config).expect("a control plane");
    executor.run(flow(world, pools)).expect("the session ends")
}

/// A buffer that the page cache can be passed with.
#[repr(C, align(4096))]
struct Page([u8; LABEL_BYTES]);

/// Writes a label where a pool may be writing: past the page cache, as that does. Through it, the pool's next flush would fail
/// for a page that could not be dropped.
fn put(path: &Path, bytes: &[u8], offset: u64) {
    let mut page = Box::new(Page([0; LABEL_BYTES]));
    page.0.copy_from_slice(bytes);
    let mut options = File::options();
    let file = options.write(true).custom_flags(libc::O_DIRECT).open(path);
    // A file system in memory may have no such way, and the pool none either.
    let file = file.unwrap_or_else(|_| File::options().write(true).open(path).unwrap());
    file.write_all_at(&page.0, offset).unwrap();
}

/// Both copies of a drive's label, the newest first.
fn labels(file: &File) -> Vec<(u64, Label)> {
    let copy = |offset| {
        let mut bytes = [0; LABEL_BYTES];
        file.read_exact_at(&mut bytes, offset).unwrap();
        Some((offset, Label::decode(&bytes).ok()?))
    };
    let mut found: Vec<_> = LABEL_OFFSETS.into_iter().filter_map(copy).collect();
    found.sort_by_key(|(_, label)| std::cmp::Reverse(label.copy_sequence));
    found
}

/// Another machine writes a label to each drive, over the older copy.
fn write_labels(paths: &[PathBuf], change: impl Fn(&mut Label)) {
    for path in paths {
        let found = labels(&File::open(path).unwrap());
        let mut label = found[0].1.clone();
        label.copy_sequence += 1;
        change(&mut label);
        let offset = found.last().unwrap().0;
        put(path, label.encode().bytes(), offset);
    }
}

/// Another machine takes the pool over; the event by which its owner learns of it. A heartbeat that is under way may write
/// over a label, so they are written until it has looked at them, as whoever takes over does.
async fn take_over(
    world: &dyn World,
    watch: &Watch,
    drives: &[PathBuf],
    change: impl Fn(&mut Label),
) -> Event {
    loop {
        write_labels(drives, &change);
        world.sleep(Nanos(BEAT.0 / 4)).await;
        if let Some(event) = watch.try_next() {
            return event;
        }
    }
}

/// A pool that another machine takes over stops by its next heartbeat, says so everywhere, and can be let go.
#[test]
fn a_pool_that_was_taken_over_stops_and_says_so() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let drives = paths(&wanted);
    session(&scratch.path("home"), |world, pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let volume = pools
            .create_volume(&new_volume("p", "v", 10))
            .await
            .unwrap();
        volume.write(Lba(0), pattern(0, 8, 1), true).await.unwrap();
        let watch = pools.watch();
        let taken = take_over(&*world, &watch, &drives, |label| {
            label.epoch = 2;
            label.owner = [9; 16];
        });
        let taken = taken.await;
        assert!(matches!(taken, Event::PoolTaken { pool } if pool == "p"));
        let write = volume.write(Lba(0), pattern(0, 8, 2), true).await;
        assert_eq!(write, Err(EngineError::Stopped));
        let status = pools.status("p").await.unwrap();
        assert_eq!(status.health, Health::Faulted);
        let how = status.stopped.unwrap_or_default();
        assert!(
            how.contains("owner 0909") && how.contains("taken the pool over"),
            "{how}"
        );
        let told = status
            .findings
            .iter()
            .find(|one| one.code == "taken-over")
            .unwrap();
        assert!(
            told.text.contains("varve pool export p --forget"),
            "{told:?}"
        );
        let troubles = pools.troubles("p").unwrap();
        let [Trouble::Taken(_), ..] = &troubles[..] else {
            panic!("{troubles:?}");
        };
        assert!(troubles[0].next("p").unwrap().contains("export p --forget"));
        let bytes = || drives.iter().map(|path| std::fs::read(path).unwrap());
        let before: Vec<_> = bytes().collect();
        let refused = Failure::from(pools.export("p", false).await.unwrap_err());
        assert_eq!(
            (refused.exit, &*refused.code),
            (Exit::Conflict, "taken-over")
        );
        assert!(refused.next.unwrap().contains("--forget"));
        // Opening it again is refused as of any pool of others.
        let refused = Failure::from(pools.open("p").await.unwrap_err());
        assert_eq!(refused.code, "owned-elsewhere");
        pools
            .export("p", true)
            .await
            .unwrap()
            .expect("it was not released");
        assert!(pools.list().await.unwrap().is_empty());
        world.sleep(Nanos(3 * BEAT.0)).await;
        assert!(bytes().zip(before).all(|(now, before)| now == before));
    });
}

/// What is forgotten while it is open and another's is closed without a word to its drives.
#[test]
fn a_pool_that_was_taken_over_is_let_go_while_it_is_open() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let drives = paths(&wanted);
    session(&scratch.path("home"), |world, pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let watch = pools.watch();
        let taken = take_over(&*world, &watch, &drives, |label| label.epoch = 2).await;
        assert!(matches!(taken, Event::PoolTaken { .. }));
        let left = pools
            .export("p", true)
            .await
            .unwrap()
            .expect("why it was not released");
        assert!(left.text.contains("taken the pool over"), "{left:?}");
        assert!(pools.list().await.unwrap().is_empty());
    });
}

/// Where most drives serve another pool by now a pool stops; one alone is no reason to, nor are labels that are gone: they
/// are written again.
#[test]
fn a_pool_whose_drives_serve_another_one_stops() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let drives = paths(&wanted);
    session(&scratch.path("home"), |world, pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        let write = |path: &PathBuf, bytes: &[u8]| {
            let all = LABEL_OFFSETS.into_iter();
            all.for_each(|offset| put(path, bytes, offset));
        };
        drives
            .iter()
            .for_each(|path| write(path, &[0; LABEL_BYTES]));
        let found = |path: &PathBuf| labels(&File::open(path).unwrap());
        while drives.iter().any(|path| found(path).len() < 2) {
            world.sleep(Nanos(BEAT.0 / 4)).await;
        }
        let mut other = found(&drives[0]).remove(0).1;
        other.pool = [9; 16];
        let other = other.encode();
        write(&drives[4], other.bytes());
        world.sleep(Nanos(2 * BEAT.0)).await;
        assert_eq!(pools.troubles("p").unwrap(), []);
        let watch = pools.watch();
        // A heartbeat that is under way may write over it.
        while watch.try_next().is_none() {
            drives.iter().for_each(|path| write(path, other.bytes()));
            world.sleep(Nanos(BEAT.0 / 4)).await;
        }
        let status = pools.status("p").await.unwrap();
        let how = status.stopped.unwrap_or_default();
        assert!(how.contains("labels of another pool"), "{how}");
        let bytes = || drives.iter().map(|path| std::fs::read(path).unwrap());
        let before: Vec<_> = bytes().collect();
        pools
            .export("p", true)
            .await
            .unwrap()
            .expect("it was not released");
        world.sleep(Nanos(3 * BEAT.0)).await;
        assert!(bytes().zip(before).all(|(now, before)| now == before));
    });
}

/// A take-over of a pool whose owner lives is refused; of one that is silent it is not.
#[test]
fn a_take_over_asks_whether_the_owner_lives() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "p");
    let drives = paths(&wanted);
    let import = ImportPool {
        paths: drives.clone(),
        take_over: true,
        ..ImportPool::default()
    };
    session(&scratch.path("here"), |_, pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools
            .create_volume(&new_volume("p", "v", 10))
            .await
            .unwrap();
        pools.close_all().await;
    });
    // As it is while it is in use.
    write_labels(&drives, |label| label.is_clean = false);
    session(&scratch.path("there"), |world, pools| async move {
        let (clock, is_refused) = (Rc::clone(&world), Rc::new(Cell::new(false)));
        let is_dead = Rc::clone(&is_refused);
        let owner = world.run(async move {
            while !is_dead.get() {
                write_labels(&drives, |label| label.heartbeat += 1);
                clock.sleep(Nanos(BEAT.0 / 2)).await;
            }
        });
        let refused = Failure::from(pools.import(&import).await.unwrap_err());
        is_refused.set(true);
        owner.await;
        assert_eq!(
            (refused.exit, &*refused.code),
            (Exit::Conflict, "owner-alive")
        );
        let why = refused.causes.join(", ");
        assert!(why.contains("still uses the pool"), "{why}");
        assert!(refused.next.unwrap().contains("varve pool export p there"));
        assert_eq!(pools.import(&import).await.unwrap(), "p");
        assert!(pools.volume("p", "v").is_ok());
        pools.close_all().await;
    });
}
