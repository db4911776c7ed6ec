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

/// Opens every pool that can be opened; the others stay closed, and that is said. Drives that a killed
/// server still has are waited for; those that another process has are tried again beside other work, until the
/// server is `ending`.
pub(super) async fn open_all(world: &Rc<dyn World>, pools: &Rc<Pools>, ending: &Rc<Cell<bool>>) {
    let until = world.now() + REMAINS_TIME_MAX;
    for (pool, mut outcome) in pools.open_all().await {
        while matches!(outcome, Err(ControlError::InUse(_))) && world.now() < until {
            world.sleep(REMAINS_PAUSE).await;
            outcome = pools.open(&pool).await;
        }
        match outcome {
            Ok(()) => tell(pools, &pool).await,
            Err(ControlError::InUse(findings)) => {
                eprintln!(
                    "warning: pool {pool} is not open yet: another process has its drives (a command, say); it is \
                     opened when they are free"
                );
                show(&findings);
                let (clock, pools, ending) =
                    (Rc::clone(world), Rc::clone(pools), Rc::clone(ending));
                world.spawn(Box::pin(try_again(clock, pools, pool, ending)));
            }
            Err(error) => warn(&pool, error),
        }
    }
}

/// Opens a pool when its drives are free.
async fn try_again(world: Rc<dyn World>, pools: Rc<Pools>, pool: String, ending: Rc<Cell<bool>>) {
    let mut pause = AGAIN_PAUSE;
    loop {
        world.sleep(pause).await;
        if ending.get() {
            return;
        }
        match pools.open(&pool).await {
            Ok(()) => return tell(&pools, &pool).await,
            Err(ControlError::InUse(_)) => pause = Nanos(pause.0 * 2).min(AGAIN_PAUSE_MAX),
            // It was let go or destroyed meanwhile.
            Err(ControlError::NoPool(_)) => return,
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

/// A pool stays closed.
fn warn(pool: &str, error: ControlError) {
    let failure = Failure::from(error);
    eprintln!("warning: pool {pool} stays closed: {}", failure.error);
    for cause in &failure.causes {
        eprintln!("  because: {cause}");
    }
    show(&failure.findings);
    if let Some(next) = &failure.next {
        eprintln!("  next: {}", typed(next));
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
    use std::path::Path;
    use varve_control::{Config, CreatePool, DrivePath, Home};
    use varve_hostio::Executor;

    fn pool(directory: &Path) -> CreatePool {
        let drive = |name: &str| DrivePath {
            path: directory.join(name),
            create_bytes: Some(256 << 20),
        };
        CreatePool {
            pool: "p".to_owned(),
            fast: vec![drive("fast")],
            dense: Vec::new(),
            protect: None,
            over_provision: None,
            dense_model: None,
            overwrite: false,
            dry_run: false,
        }
    }

    /// Another control plane has the drives for longer than the remains of a killed server would; then they are free.
    #[test]
    fn a_pool_is_opened_when_its_drives_are_free() {
        let name = format!("varve-opening-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let (executor, scratch) = (Executor::new(), directory.clone());
        let world = executor.world();
        let opened = executor.run(async move {
            let home = Home::open(&scratch.join("home")).expect("a state directory");
            let new = || Pools::new(Rc::clone(&world), home.clone(), Config::default());
            let (other, pools) = (new().expect("one"), new().expect("another"));
            other.create_pool(&pool(&scratch)).await.expect("a pool");
            let ending = Rc::new(Cell::new(false));
            open_all(&world, &pools, &ending).await;
            let before = pools.open_names();
            other.close("p", false).await.expect("a close");
            let until = world.now() + Nanos::from_secs(60);
            while pools.open_names().is_empty() && world.now() < until {
                world.sleep(AGAIN_PAUSE).await;
            }
            let after = pools.open_names();
            ending.set(true);
            pools.close_all().await;
            (before, after)
        });
        let _ = std::fs::remove_dir_all(directory);
        let (before, after) = opened.expect("it ends");
        assert!(before.is_empty(), "{before:?}");
        assert_eq!(after, ["p"]);
    }
}
