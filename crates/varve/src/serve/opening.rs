//! Opens the pools at the start, and says what was found.

use super::ports::{REMAINS_PAUSE, REMAINS_TIME_MAX};
use varve_control::{ControlError, Failure, Finding, Pools, Severity};
use varve_io::World;

/// Opens every pool that can be opened; the others stay closed, and that is said. Drives that a killed
/// server still has are waited for.
pub(super) async fn open_all(world: &dyn World, pools: &Pools) {
    let until = world.now() + REMAINS_TIME_MAX;
    for (pool, mut outcome) in pools.open_all().await {
        while matches!(outcome, Err(ControlError::InUse(_))) && world.now() < until {
            world.sleep(REMAINS_PAUSE).await;
            outcome = pools.open(&pool).await;
        }
        match outcome {
            Ok(()) => tell(pools, &pool).await,
            Err(error) => warn(&pool, error),
        }
    }
}

/// What is to be known of a pool that is open.
async fn tell(pools: &Pools, pool: &str) {
    match pools.status(pool).await {
        Ok(view) => {
            let drives = view.drives.len();
            eprintln!("pool {pool}: {}, {drives} drives", view.health.word());
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
        eprintln!("  next: {next}");
    }
}

fn show(findings: &[Finding]) {
    for finding in findings {
        let word = match finding.severity {
            Severity::Warning => "warning",
            Severity::Confirm => "found",
            Severity::Refusal => "refused",
        };
        eprintln!("  {word}: {finding}");
    }
}
