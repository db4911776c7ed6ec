//! Serves a plan until a signal.

use super::ending;
use super::error::ServeError;
use super::exposition;
use super::identity;
use super::metrics::MetricsPort;
use super::notify::{self, State};
use super::opening;
use super::plan::{Plan, Source, TestNamespace};
use super::ports::Ports;
use super::readings::{Reader, Readings};
use super::report::{Serving, Shown};
use super::test_namespace;
use super::vigil;
use crate::signalled::Signalled;
use std::path::PathBuf;
use std::rc::Rc;
use varve_control::{Config, Home, Pools, http, line};
use varve_hostio::{Executor, Io, Signals, open_descriptors, raise_descriptors};
use varve_io::World;
use varve_nvme::Nqn;
use varve_server::{Namespaces, Numbers, Server, Unserved};
use varve_target::{Hosts, Subsystem};
use varve_units::{BLOCK_BYTES, Nanos};

/// Descriptors that connections leave at least, with an eighth of all: requests for commands and counters, and a
/// look at a few drives. Arbitrary.
const DESCRIPTORS_KEPT: u64 = 32;

/// Serves until SIGTERM or SIGINT, then drains, for the plan's time at most; a second signal ends the process at once.
/// `when_ready` is called when hosts can connect.
///
/// # Errors
/// What keeps it from serving, or from ending in good order.
pub(crate) fn run(
    plan: Plan,
    when_ready: impl FnOnce(&Serving) + 'static,
) -> Result<(), ServeError> {
    let executor = Executor::new();
    executor.spin(plan.spin);
    let world = executor.world();
    let served = executor.run(serve(world, plan, when_ready));
    served.map_err(|_| ServeError::Stalled)?
}

/// What every kind of namespace needs.
struct Frame {
    world: Rc<dyn World>,
    io: Io,
    /// Name of the subsystem, if one was given.
    name: Option<Nqn>,
    hosts: Hosts,
    ports: Ports,
    metrics: Option<MetricsPort>,
    signalled: Signalled,
    data_bytes: u64,
    /// How long a drain waits for what was taken.
    drain: Nanos,
}

async fn serve(
    world: Rc<dyn World>,
    plan: Plan,
    when_ready: impl FnOnce(&Serving),
) -> Result<(), ServeError> {
    let (name, hosts) = plan.check()?;
    let io = Io::of(&*world).map_err(ServeError::Io)?;
    // Before any other thread is there.
    let signals = Signals::take(io.clone()).map_err(ServeError::Signals)?;
    let signalled = Signalled::watch(&world, signals, draining, "ended before it was drained");
    // Before any pool is touched.
    let ports = Ports::bind(&*world, &io, &plan.listeners).await?;
    let bind =
        |address| MetricsPort::bind(address).map_err(|error| ServeError::Bind(address, error));
    let metrics = plan.metrics.map(bind).transpose()?;
    let frame = Frame {
        world,
        io,
        name,
        hosts,
        ports,
        metrics,
        signalled,
        data_bytes: plan.data_bytes,
        drain: plan.drain,
    };
    match plan.source {
        Source::Test(test) => serve_test(frame, test, when_ready).await,
        Source::Pools {
            state_dir,
            map_bytes,
            degraded,
        } => {
            let directory = state_dir.unwrap_or_else(Home::usual);
            serve_pools(
                frame,
                directory,
                Config {
                    map_bytes,
                    degraded,
                    beat: None,
                },
                when_ready,
            )
            .await
        }
    }
}

async fn serve_test(
    frame: Frame,
    test: TestNamespace,
    when_ready: impl FnOnce(&Serving),
) -> Result<(), ServeError> {
    let name = test_namespace::NQN.to_owned();
    let (server, nqn) = new_server(&frame, name, test_namespace::SERIAL.to_owned())?;
    let namespaces = vec![test_namespace::put(&frame.world, &server, test)?];
    let counted = server.clone();
    let nothing = Readings::default();
    let text = async move || exposition::text(&counted.counters(), &nothing);
    let metrics = open_metrics(frame.metrics, &frame.world, text)?;
    let serving = Serving {
        nqn,
        listeners: frame.ports.open(&server),
        namespaces,
        metrics,
        socket: None,
    };
    ready(&serving, &frame.signalled, when_ready);
    frame.signalled.wait().await;
    ending::of_server(&server, frame.drain).await;
    Ok(())
}

async fn serve_pools(
    frame: Frame,
    directory: PathBuf,
    config: Config,
    when_ready: impl FnOnce(&Serving),
) -> Result<(), ServeError> {
    let world = Rc::clone(&frame.world);
    let home = Home::open(&directory)?;
    let _alone = home.hold()?;
    // What it does not know it would serve as nothing at all.
    home.registry()?;
    let numbers = Numbers::open(home.directory()).map_err(ServeError::Numbers)?;
    let owner = home.owner()?.0;
    let hex: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("nqn.2026-11.io.varve:uuid:{}", identity::text(&owner));
    let (server, nqn) = new_server(&frame, name, format!("VARVE{}", &hex[..15]))?;
    let pools = Pools::new(Rc::clone(&world), home.clone(), config)?;
    let connected = server.clone();
    pools.serves(move || connected.hosts());
    let watch = pools.watch();
    // What would be opened from a signal on nobody would close.
    let signalled = frame.signalled.clone();
    opening::open_all(&world, &pools, signalled.came()).await;
    let namespaces = Namespaces::new(
        (Rc::clone(&world), frame.io.clone()),
        server.clone(),
        Rc::clone(&pools),
        numbers,
    );
    // The namespaces know the pools, which are not to keep them in turn.
    let numbered = Rc::downgrade(&namespaces);
    pools.numbers(move |volume| numbered.upgrade()?.number(volume));
    namespaces.settle(warn).await;
    world.spawn(Box::pin(vigil::watch(
        Rc::clone(&world),
        Rc::clone(&pools),
        Rc::clone(&namespaces),
    )));
    world.spawn(Box::pin(Rc::clone(&namespaces).follow(watch, warn)));
    let shown = namespaces.shown().into_iter().map(|(nsid, info)| {
        let volume = format!("{}/{}", info.pool, info.name);
        Shown::new(nsid, &volume, info.size.0 * BLOCK_BYTES, &info.uuid)
    });
    let counted = server.clone();
    let reader = Reader::new(Rc::clone(&world), home.clone(), Rc::clone(&pools));
    let text = async move || exposition::text(&counted.counters(), &reader.take().await);
    let metrics = open_metrics(frame.metrics, &world, text)?;
    let api = listen_for_commands(&world, &home, &pools)?;
    leave_descriptors(&server);
    let serving = Serving {
        nqn,
        namespaces: shown.collect(),
        metrics,
        socket: Some(home.socket().display().to_string()),
        listeners: frame.ports.open(&server),
    };
    ready(&serving, &signalled, when_ready);
    signalled.wait().await;
    let ended = ending::of_all(&world, api, &server, &pools, frame.drain).await;
    ended.map_err(ServeError::Control)
}

/// Connections leave descriptors to drives that are opened later, to commands and to counters. Where the kernel does
/// not tell how many there are, the target's bound has to do.
fn leave_descriptors(server: &Server) {
    let Ok((most, open)) = raise_descriptors().and_then(|most| Ok((most, open_descriptors()?)))
    else {
        return;
    };
    let left = most.saturating_sub(open + DESCRIPTORS_KEPT + most / 8);
    server.limit_connections(usize::try_from(left).unwrap_or(usize::MAX).max(1));
}

/// A server without namespaces, and its name: the one given, or `name`.
fn new_server(frame: &Frame, name: String, serial: String) -> Result<(Server, String), ServeError> {
    let name = match &frame.name {
        Some(given) => given.clone(),
        None => Nqn::new(&name).map_err(|error| ServeError::Name(name, error))?,
    };
    let nqn = name.as_str().to_owned();
    let firmware = env!("CARGO_PKG_VERSION").to_owned();
    let told = frame.ports.told();
    let subsystem = Subsystem::new(name, serial, firmware, frame.hosts.clone(), told);
    let server = Server::new(Rc::clone(&frame.world), subsystem);
    server.limit_data(frame.data_bytes);
    Ok((server, nqn))
}

fn open_metrics(
    port: Option<MetricsPort>,
    world: &Rc<dyn World>,
    text: impl AsyncFn() -> String + 'static,
) -> Result<Option<String>, ServeError> {
    let open = port.map(|port| port.open(world, text)).transpose();
    let address = open.map_err(ServeError::Thread)?;
    Ok(address.map(|address| address.to_string()))
}

/// Commands of the administrator; the thread that takes them ends with what this gives.
fn listen_for_commands(
    world: &Rc<dyn World>,
    home: &Home,
    pools: &Rc<Pools>,
) -> Result<http::Server, ServeError> {
    let (caller, line) = line(&**world).map_err(ServeError::Thread)?;
    world.spawn(Box::pin(Rc::clone(pools).serve(line)));
    http::listen(home, caller).map_err(|error| ServeError::Socket(home.socket(), error))
}

/// Says to everybody that hosts can connect, unless it is to end already.
fn ready(serving: &Serving, signalled: &Signalled, when_ready: impl FnOnce(&Serving)) {
    if !signalled.came().get() {
        when_ready(serving);
        tell_manager(State::Ready);
    }
}

/// Says to everybody that it ends.
fn draining() {
    eprintln!("draining; a second signal ends at once");
    tell_manager(State::Stopping);
}

fn tell_manager(state: State) {
    if let Err(error) = notify::notify(state) {
        eprintln!("warning: the service manager does not hear: {error}");
    }
}

fn warn(unserved: &Unserved) {
    eprintln!("warning: {unserved}");
}
