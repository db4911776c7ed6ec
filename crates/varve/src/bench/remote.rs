//! A benchmark of a remote namespace.
//!
//! What lies behind the namespace is not known here, so nothing is said about steady state.

use super::report::{PathFigures, PathSetup, Report};
use super::run::BenchError;
use super::standing::{Standing, Wanted};
use crate::load::Store;
use crate::remote::{Address, Remote, Terms, Unreachable, connect};
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_hostio::Executor;
use varve_initiator::Event;
use varve_io::{Drive, World};
use varve_units::Nanos;

/// A benchmark of a remote namespace, as asked for.
pub(crate) struct RemoteRequest {
    /// The namespace.
    pub(crate) address: Address,
    /// How it is used.
    pub(crate) terms: Terms,
    /// What is measured.
    pub(crate) wanted: Wanted,
}

/// Runs a benchmark of a remote namespace on the calling thread.
pub(crate) fn run_remote(request: RemoteRequest) -> Result<Report, BenchError> {
    let executor = Executor::new();
    let world = executor.world();
    let outcome = executor.run(async move {
        let connected = connect(&world, &request.address, request.terms).await;
        let drive = connected.map_err(BenchError::Unreachable)?;
        let report = measured(world, &request, &drive).await;
        drive.close().await;
        report
    });
    outcome.map_err(BenchError::Stalled)?
}

async fn measured(
    world: Rc<dyn World>,
    request: &RemoteRequest,
    drive: &Rc<Remote>,
) -> Result<Report, BenchError> {
    let store = (Store::Remote(Rc::clone(drive)), drive.info().bytes);
    let run = Standing::new(world, request.wanted, store, &BTreeMap::new)?;
    let window = run.run().await;
    let mut events = drive.take_events();
    if (window.is_err() || run.has_failed()) && was_deleted(&run, drive, &mut events).await {
        let deleted = Unreachable::Deleted(request.address.clone());
        return Err(BenchError::Unreachable(deleted));
    }
    let window = window?;
    let target = (request.address.to_string(), run.bytes());
    let (path, figures) = (path(drive, request.terms), figures(events));
    let report = Report::of_remote(target, &request.wanted.load, &window, path, figures);
    Ok(run.judged(report))
}

fn path(drive: &Remote, terms: Terms) -> PathSetup {
    let namespace = drive.namespace();
    let queues = drive.queues();
    PathSetup {
        nsid: namespace.nsid,
        lba_bytes: namespace.block_bytes,
        io_queues: queues.map(|(count, _)| count),
        queue_commands: queues.map(|(_, commands)| commands),
        header_digest: terms.digests.header,
        data_digest: terms.digests.data,
    }
}

/// Looks at what the target says of a namespace of which operations failed, and the pause between: it is asked when it
/// tells of a change, which may be a moment later. Arbitrary: a second together.
const LOOKS: u32 = 100;
const LOOK: Nanos = Nanos::from_millis(10);

/// True if the target has taken the namespace away; what happened meanwhile is added to `events`.
async fn was_deleted(run: &Standing<'_>, drive: &Remote, events: &mut Vec<Event>) -> bool {
    for _ in 0..LOOKS {
        let mut lost = events.iter().rev().filter_map(|event| match event {
            Event::Lost { loss, is_final } => Some((loss, *is_final)),
            _ => None,
        });
        match lost.next() {
            Some((loss, true)) => return loss.is_no_namespace(),
            _ => run.pause(LOOK).await,
        }
        events.extend(drive.take_events());
    }
    false
}

/// What happened to associations, of the newest events.
fn figures(events: Vec<Event>) -> PathFigures {
    let losses = events.into_iter();
    let losses = losses.filter_map(|event| match event {
        Event::Lost { loss, .. } => Some(loss.to_string()),
        _ => None,
    });
    let losses: Vec<_> = losses.collect();
    PathFigures {
        associations_lost: losses.len() as u64,
        last_loss: losses.into_iter().next_back(),
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
