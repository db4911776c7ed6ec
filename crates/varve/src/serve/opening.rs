//! Opens the pools at the start, and says what was found.

use super::ports::{REMAINS_PAUSE, REMAINS_TIME_MAX};
use crate::cli::{count, typed};
use std::cell::Cell;
use std::rc::Rc;
use varve_control::{ControlError, Failure, Finding, Pools, Severity};
use varve_io::World;
use varve_units::Nanos;

/// Between two tries at drives that another process has: at first, and at most. Arbitrary: soon after a command
/// that was quick, and nothing beside other work while a long one runs.
const AGAIN_PAUSE: Nanos = Nanos::from_millis(100);
const AGAIN_PAUSE_MAX: Nanos = Nanos::from_secs(5);
/// Between two looks whether drives are back. Arbitrary: soon for whoever brought one, and nothing beside other work.
const AWAY_PAUSE: Nanos = Nanos::from_secs(2);

/// Opens every pool that can be opened; the others stay closed, and that is said. Drives that a killed
/// server still has are waited for; those that another process has, and those that are away, are tried again
/// beside other work, until the server is `ending`.
pub(super) async fn open_all(world: &Rc<dyn World>, pools: &Rc<Pools>, ending: &Rc<Cell<bool>>) {
    let until = world.now() + REMAINS_TIME_MAX;
    for (pool, mut outcome) in pools.open_all().await {
        while matches!(outcome, Err(ControlError::InUse(_))) && world.now() < until {
            world.sleep(REMAINS_PAUSE).await;
            outcome = pools.open(&pool).await;
        }
        let lacks = match outcome {
            Ok(()) => {
                tell(pools, &pool).await;
                continue;
            }
            Err(error @ ControlError::InUse(_)) => {
                eprintln!(
                    "warning: pool {pool} is not open yet: another process has its drives (a command, say); it is \
                     opened when they are free"
                );
                if let ControlError::InUse(findings) = pools.with_users(error).await {
                    show(&findings);
                }
                Lacks::Locks
            }
            Err(error) => {
                let is_away = error.is_for_want_of_drives();
                warn(&pool, error);
                if !is_away {
                    continue;
                }
                Lacks::Drives
            }
        };
        let (clock, pools, ending) = (Rc::clone(world), Rc::clone(pools), Rc::clone(ending));
        world.spawn(Box::pin(try_again(clock, pools, pool, lacks, ending)));
    }
}

/// What a pool waits for that is not open yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lacks {
    /// Another process has its drives.
    Locks,
    /// Drives are away.
    Drives,
}

/// Opens a pool when its drives are there and free. As long as some are away it is tried only when others lie at
/// their paths than before: a try takes the drives that are there from others for a moment.
async fn try_again(
    world: Rc<dyn World>,
    pools: Rc<Pools>,
    pool: String,
    mut lacks: Lacks,
    ending: Rc<Cell<bool>>,
) {
    let (mut pause, mut seen) = (AGAIN_PAUSE, None);
    loop {
        let next = match lacks {
            Lacks::Locks => pause,
            Lacks::Drives => AWAY_PAUSE,
        };
        world.sleep(next).await;
        if lacks == Lacks::Drives && !ending.get() {
            match pools.look(&pool).await {
                Ok(now) if seen.as_ref() == Some(&now) => continue,
                Ok(now) => seen = Some(now),
                Err(ControlError::NoPool(_)) => return,
                Err(error) => return warn(&pool, error),
            }
        }
        // Somebody imported it meanwhile, on other terms say.
        if ending.get() || pools.open_names().contains(&pool) {
            return;
        }
        match pools.open(&pool).await {
            Ok(()) => return tell(&pools, &pool).await,
            Err(ControlError::InUse(_)) => {
                (lacks, seen) = (Lacks::Locks, None);
                pause = Nanos(pause.0 * 2).min(AGAIN_PAUSE_MAX);
            }
            // It was let go or destroyed meanwhile.
            Err(ControlError::NoPool(_)) => return,
            Err(error) if error.is_for_want_of_drives() => {
                if lacks == Lacks::Locks {
                    warn(&pool, error);
                }
                lacks = Lacks::Drives;
            }
            Err(error) => return warn(&pool, error),
        }
    }
}

/// What is to be known of a pool that is open.
async fn tell(pools: &Pools, pool: &str) {
    match pools.status(pool).await {
        Ok(view) => {
            let drives = count(view.drives.len() as u64, "drive");
            eprintln!("pool {pool}: {}, {drives}", view.health.word());
            show(&view.findings);
        }
        Err(error) => eprintln!("warning: the state of pool {pool} is not known: {error}"),
    }
}

/// A pool stays closed, or does until drives are back.
fn warn(pool: &str, error: ControlError) {
    let is_away = error.is_for_want_of_drives();
    let failure = Failure::from(error);
    eprintln!("warning: pool {pool} stays closed: {}", failure.error);
    for cause in &failure.causes {
        eprintln!("  because: {cause}");
    }
    show(&failure.findings);
    if let Some(next) = &failure.next {
        eprintln!("  next: {}", typed(next));
    }
    if is_away {
        eprintln!("  it is tried again by itself when other drives lie at the paths it knows");
    }
}

fn show(findings: &[Finding]) {
    for finding in findings {
        let word = match finding.severity {
            Severity::Warning => "warning",
            Severity::Confirm => "found",
            Severity::Refusal => "refused",
        };
        eprintln!("  {word}: {}", typed(&finding.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use varve_control::{Config, CreatePool, DrivePath, Health, Home};
    use varve_hostio::Executor;

    /// A directory that goes with all it holds.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("varve-opening-{name}-{}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&directory).expect("a directory");
            Self(directory)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn pool(directory: &Path, fast: &[&str]) -> CreatePool {
        let drive = |name: &&str| DrivePath {
            path: directory.join(name),
            create_bytes: Some(256 << 20),
        };
        CreatePool {
            pool: "p".to_owned(),
            fast: fast.iter().map(drive).collect(),
            dense: Vec::new(),
            protect: None,
            over_provision: None,
            dense_model: None,
            overwrite: false,
            dry_run: false,
        }
    }

    /// Waits until a pool is open, for a minute at most.
    async fn opened(world: &Rc<dyn World>, pools: &Pools) -> Vec<String> {
        let until = world.now() + Nanos::from_secs(60);
        while pools.open_names().is_empty() && world.now() < until {
            world.sleep(AGAIN_PAUSE).await;
        }
        pools.open_names()
    }

    /// Another control plane has the drives for longer than the remains of a killed server would; then they are free.
    #[test]
    fn a_pool_is_opened_when_its_drives_are_free() {
        let (executor, scratch) = (Executor::new(), Scratch::new("free"));
        let (world, directory) = (executor.world(), scratch.0.clone());
        let outcome = executor.run(async move {
            let home = Home::open(&directory.join("home")).expect("a state directory");
            let new = || Pools::new(Rc::clone(&world), home.clone(), Config::default());
            let (other, pools) = (new().expect("one"), new().expect("another"));
            let made = other.create_pool(&pool(&directory, &["fast"])).await;
            made.expect("a pool");
            let ending = Rc::new(Cell::new(false));
            open_all(&world, &pools, &ending).await;
            let before = pools.open_names();
            other.close("p", false).await.expect("a close");
            let after = opened(&world, &pools).await;
            ending.set(true);
            pools.close_all().await;
            (before, after)
        });
        let (before, after) = outcome.expect("it ends");
        assert!(before.is_empty(), "{before:?}");
        assert_eq!(after, ["p"]);
    }

    /// One drive of a mirror turns up late. Until then the pool is not opened without it, though it could be; then
    /// it is opened, and whole.
    #[test]
    fn a_pool_is_opened_when_its_drives_are_back() {
        let (executor, scratch) = (Executor::new(), Scratch::new("back"));
        let (world, directory) = (executor.world(), scratch.0.clone());
        let outcome = executor.run(async move {
            let home = Home::open(&directory.join("home")).expect("a state directory");
            let pools = Pools::new(Rc::clone(&world), home, Config::default()).expect("pools");
            let made = pools
                .create_pool(&pool(&directory, &["fast", "late"]))
                .await;
            made.expect("a pool");
            pools.close("p", false).await.expect("a close");
            let (place, away) = (directory.join("late"), directory.join("away"));
            std::fs::rename(&place, &away).expect("a drive goes");
            let ending = Rc::new(Cell::new(false));
            open_all(&world, &pools, &ending).await;
            // Looks that find nothing new.
            world.sleep(Nanos(AWAY_PAUSE.0 * 3)).await;
            let before = pools.open_names();
            std::fs::rename(&away, &place).expect("it comes back");
            let after = opened(&world, &pools).await;
            let health = pools.status("p").await.expect("its state").health;
            ending.set(true);
            pools.close_all().await;
            (before, after, health)
        });
        let (before, after, health) = outcome.expect("it ends");
        assert!(before.is_empty(), "{before:?}");
        assert_eq!((after, health), (vec!["p".to_owned()], Health::Ok));
    }
}
