//! Brings a system into its state and measures it.

use super::account::window;
use super::build::build;
use super::check::{IOPS_MAX, check};
use super::error::RigError;
use super::file::JobFile;
use super::hosts::Hosts;
use super::load::{Load, Turns};
use super::mix::{Law, Mix};
use super::open_loop::OpenLoop;
use super::pace::Rate;
use super::report::{RigParameters, RigReport, Window};
use super::request::{REQUESTS_MIN, RigRequest};
use super::round::Span;
use super::system::System;
use super::worker::{Source, Worker};
use crate::comparators::of_system;
use crate::recovery::Watch;
use std::cell::RefCell;
use std::rc::Rc;
use varve_sim::executor::{Executor, Journal, Reactor, Stop};
use varve_sim::rng::Rng;
use varve_units::Nanos;

/// Time before the window, and of the window, at most.
pub(super) const RAMP: Nanos = Nanos::from_secs(2);
pub(super) const WINDOW: Nanos = Nanos::from_secs(5);
/// What is written in larger pieces takes fewer of them.
const WINDOW_BYTES: u64 = 8 << 30;
/// The same under skew. Little of it reaches a dense tier behind a log, and what collection costs goes up and down while its
/// groups are emptied in turn: five of the engine's, at Zipf 1.2 of 4 KiB, wrote 0.27 to 0.49 times what hosts did, one after the
/// other, before half of its groups had had their turn. So there it is the experiment that says how long is long enough.
const SKEWED: (Nanos, u64) = (Nanos::from_secs(30), 64 << 30);

/// Measures a system under a load.
///
/// # Errors
/// If the request makes no sense, or the engine fails.
pub fn run(request: &RigRequest, watch: &Watch) -> Result<RigReport, RigError> {
    check(request)?;
    let journal = Rc::new(Journal::default());
    let rng = Rng::new(request.seed);
    let mut executor = Executor::new(journal, rng, Nanos(0)).in_order();
    let built = Built::default();
    let flow = life(
        executor.reactor(),
        request.clone(),
        Rc::clone(watch),
        Rc::clone(&built),
    );
    let lived = executor.run(flow);
    let system = built.take();
    let gauges = system.map(|system| system.gauges()).unwrap_or_default();
    executor.crash();
    lived.map_err(|stop| {
        let why = match stop {
            Stop::Deadlock => "everything waits for everything",
            Stop::Runaway => "flows run on without a request that ends",
            Stop::Stuck => "no request has ended for a minute of virtual time",
            Stop::Crash | Stop::Failed => "it was told to",
        };
        RigError::Stopped(why, gauges)
    })?
}

/// The system of a run, once there is one.
type Built = Rc<RefCell<Option<Rc<dyn System>>>>;

async fn life(
    reactor: Rc<Reactor>,
    request: RigRequest,
    watch: Watch,
    built: Built,
) -> Result<RigReport, RigError> {
    let system = build(&reactor, &request).await?;
    built.replace(Some(Rc::clone(&system)));
    let load = Rc::new(Load {
        reactor,
        system: Rc::clone(&system),
        watch,
    });
    let mut windows = match &request.hosts {
        Hosts::Mix(mix) => mixed(&load, &request, mix).await?,
        Hosts::Fio(file) => filed(&load, &request, file).await?,
    };
    let last = windows.pop().expect("there is a round");
    Ok(RigReport {
        parameters: RigParameters {
            made_of: system.parameters().into_iter().collect(),
            user_bytes: system.bytes(),
            stated: [of_system(&request), system.stated()].concat(),
            request,
        },
        earlier: windows,
        window: last,
    })
}

/// Brings the system into the state that measuring begins in.
async fn prepare(
    load: &Rc<Load>,
    request: &RigRequest,
    workers: &[Rc<Worker>],
    turns: Turns,
) -> Result<(), RigError> {
    let system = &load.system;
    // What does not keep a state needs none.
    if system.drives().iter().any(|(_, drive)| drive.has_state()) {
        load.fill().await.map_err(RigError::Engine)?;
        let aged = load
            .age(workers, turns, (request.passes, request.hosts.bytes()))
            .await;
        aged.map_err(RigError::Engine)?;
    }
    system.start();
    Ok(())
}

/// The round of a mix; of a share of a closed loop's rate, that loop before it.
async fn mixed(load: &Rc<Load>, request: &RigRequest, mix: &Mix) -> Result<Vec<Window>, RigError> {
    if load.system.bytes() / u64::from(mix.jobs) < mix.bytes {
        return Err(RigError::Limits(
            "room for a request in each job's part of the volume",
        ));
    }
    let places = mix.places(load.system.bytes(), request.zipf_ranks, request.seed);
    let places = places.into_iter().map(Source::Places);
    let workers: Vec<_> = places
        .map(|places| Rc::new(Worker::new((0, 0, mix.depth), places, None, None)))
        .collect();
    prepare(load, request, &workers, Turns::Equal).await?;
    let (time, bytes) = match mix.law {
        Law::Zipf(_) => SKEWED,
        Law::Sequential | Law::Uniform => (WINDOW, WINDOW_BYTES),
    };
    let requests = (bytes / mix.bytes).clamp(REQUESTS_MIN, request.requests.max(REQUESTS_MIN));
    let counted = Span::Counted {
        ramp: (RAMP, requests / 2),
        window: (time, requests),
    };
    let mut windows = Vec::new();
    let iops = match mix.pace.rate() {
        Some(Rate::Iops(iops)) => iops,
        rate @ (None | Some(Rate::PerCent(_))) => {
            let measured = load.measure(&workers, 1, counted, rate.is_some()).await;
            let window = window(&measured.map_err(RigError::Engine)?, &[]);
            let iops = window.iops();
            windows.push(window);
            let Some(Rate::PerCent(share)) = rate else {
                return Ok(windows);
            };
            (iops * u64::from(share) / 100).max(1)
        }
    };
    let bursts = mix.pace.bursts();
    if bursts.is_some_and(|bursts| iops.saturating_mul(bursts.factor.into()) > IOPS_MAX) {
        return Err(RigError::Limits(
            "at most 10000000 requests a second in a burst",
        ));
    }
    let open = OpenLoop {
        iops,
        bursts,
        requests,
        seed: request.seed,
    };
    windows.push(open.run(load, &workers).await?);
    Ok(windows)
}

/// The rounds of a file, one for each group of jobs.
async fn filed(
    load: &Rc<Load>,
    request: &RigRequest,
    file: &JobFile,
) -> Result<Vec<Window>, RigError> {
    let draws = (request.zipf_ranks, request.seed);
    let size = load.system.bytes();
    let groups = file.groups().iter();
    let groups = groups.map(|group| Ok((group, file.workers(group, size, draws)?)));
    let groups = groups.collect::<Result<Vec<_>, RigError>>()?;
    let writes = |workers: &[Rc<Worker>]| workers.iter().any(|worker| worker.writes);
    let first = groups.iter().find(|(_, workers)| writes(workers));
    let first = first.map_or(&[][..], |(_, workers)| workers);
    prepare(load, request, first, Turns::ByDepth(request.seed)).await?;
    let mut windows = Vec::new();
    for (group, workers) in &groups {
        let span = Span::Timed {
            ramp: Nanos(group[0].ramp_ns),
            requests: request.requests,
        };
        let measured = load.measure(workers, group.len(), span, true).await;
        let names: Vec<String> = group.iter().map(|job| job.name.clone()).collect();
        windows.push(window(&measured.map_err(RigError::Engine)?, &names));
    }
    Ok(windows)
}
