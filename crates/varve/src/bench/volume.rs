//! A benchmark of a volume, its pool opened in this process: what a host would get without a network.

use super::report::Report;
use super::run::BenchError;
use super::standing::{Standing, Wanted};
use crate::load::Store;
use std::path::PathBuf;
use std::rc::Rc;
use varve_control::{Config, ControlError, Failure, Home, Pools, Volume};
use varve_hostio::Executor;
use varve_io::World;
use varve_units::BLOCK_BYTES;

/// A benchmark of a volume, as asked for.
pub(crate) struct VolumeRequest {
    /// State directory that knows the pool.
    pub(crate) home: PathBuf,
    /// The pool.
    pub(crate) pool: String,
    /// The volume.
    pub(crate) volume: String,
    /// What is measured.
    pub(crate) wanted: Wanted,
    /// Also if it writes where the volume holds something.
    pub(crate) overwrite: bool,
}

/// Opens a pool, measures a volume of it on the calling thread, and closes the pool in good order.
pub(crate) fn run_volume(request: VolumeRequest) -> Result<Report, BenchError> {
    let executor = Executor::new();
    let world = executor.world();
    let outcome = executor.run(async move {
        let home = Home::find(&request.home).map_err(refused)?;
        let home = home.ok_or_else(|| refused(ControlError::NoState(request.home.clone())))?;
        // A pool that is not known changes nothing there.
        if home
            .registry()
            .map_err(refused)?
            .get(&request.pool)
            .is_none()
        {
            return Err(refused(ControlError::NoPool(request.pool.clone())));
        }
        // No daemon begins to serve the pool meanwhile.
        let _alone = home.hold().map_err(refused)?;
        let pools = Pools::new(Rc::clone(&world), home, Config::default()).map_err(refused)?;
        let report = measured(world, &request, &pools).await;
        let closed = pools.close_all().await;
        let failed = closed.into_iter().find_map(|(_, outcome)| outcome.err());
        match failed {
            Some(error) if report.is_ok() => Err(refused(error)),
            _ => report,
        }
    });
    outcome.map_err(BenchError::Stalled)?
}

async fn measured(
    world: Rc<dyn World>,
    request: &VolumeRequest,
    pools: &Rc<Pools>,
) -> Result<Report, BenchError> {
    pools.open(&request.pool).await.map_err(refused)?;
    let volume = pools.volume(&request.pool, &request.volume);
    let volume: Volume = volume.map_err(refused)?;
    if request.wanted.load.writes() && !request.overwrite {
        let empty = pools.holds_nothing(&request.pool, &request.volume).await;
        empty.map_err(|error| match error {
            ControlError::HoldsData { .. } => BenchError::HoldsData(error.to_string()),
            error => refused(error),
        })?;
    }
    let bytes = volume.info().size.0 * BLOCK_BYTES;
    let counters = || pools.counters(&request.pool).unwrap_or_default();
    let store = (Store::Volume(volume), bytes);
    let run = Standing::new(world, request.wanted, store, &counters)?;
    let live = live_drives(pools, &request.pool).await?;
    let window = run.run().await?;
    let left = live_drives(pools, &request.pool).await?;
    let lost = live.into_iter().filter(|drive| !left.contains(drive));
    let lost = lost.collect();
    let target = format!("pool:{}/{}", request.pool, request.volume);
    let has_dense = pools.has_dense_tier(&request.pool).map_err(refused)?;
    let target = (target, run.bytes(), has_dense);
    let report = Report::of_volume(target, &request.wanted.load, &window);
    Ok(run.judged(report).with_lost(lost))
}

/// Drives of the pool that are in use, by name.
async fn live_drives(pools: &Rc<Pools>, pool: &str) -> Result<Vec<String>, BenchError> {
    let drives = pools.list_drives(Some(pool)).await.map_err(refused)?;
    let live = drives.into_iter().filter(|drive| drive.state == "live");
    Ok(live.map(|drive| drive.drive).collect())
}

/// What the control plane says. Where a daemon is in the way it can be asked too.
fn refused(error: ControlError) -> BenchError {
    let is_served = matches!(error, ControlError::Daemon(_) | ControlError::InUse(_));
    let mut failure = Failure::from(error);
    if is_served {
        let next =
            "end the daemon, or measure through it: varve bench nvme+tcp://HOST:PORT/NQN?nsid=N";
        failure.next = Some(next.to_owned());
    }
    BenchError::Control(Box::new(failure))
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
