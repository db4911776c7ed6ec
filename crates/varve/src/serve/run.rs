//! Serves a plan until a signal.

use super::error::ServeError;
use super::identity;
use super::plan::{ListenerPlan, Plan, TestKind, TestNamespace};
use super::report::{Open, Serving, Shown};
use crate::cli::Exit;
use std::net::SocketAddr;
use std::rc::Rc;
use varve_hostio::{Endpoint, Executor, Io, Listener, Signals};
use varve_io::World;
use varve_server::{NullStore, RamStore, Server, Store};
use varve_target::{Namespace, Subsystem};
use varve_units::BLOCK_BYTES;

/// Identity of the test namespace without a memory, always the same: so is its content.
const NULL_ID: [u8; 16] = *b"varve null\x40\x00\x80tst";
/// Blocks of a command that tests write atomically: all a command can have, no power is lost in RAM.
const TEST_ATOMIC_BLOCKS: u16 = 128;

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends the process at once.
/// `when_ready` is called when hosts can connect.
///
/// # Errors
/// What keeps it from serving.
pub(crate) fn run(
    plan: Plan,
    when_ready: impl FnOnce(&Serving) + 'static,
) -> Result<(), ServeError> {
    let executor = Executor::new();
    let world = executor.world();
    let served = executor.run(serve(world, plan, when_ready));
    served.map_err(|_| ServeError::Stalled)?
}

async fn serve(
    world: Rc<dyn World>,
    plan: Plan,
    when_ready: impl FnOnce(&Serving),
) -> Result<(), ServeError> {
    let (nqn, hosts) = plan.check()?;
    let io = Io::of(&*world).map_err(ServeError::Io)?;
    // Before any other thread is there.
    let signals = Signals::take(io.clone()).map_err(ServeError::Signals)?;
    let bound = bind_all(&io, &plan.listeners)?;
    let subsystem = Subsystem::new(
        nqn,
        "VARVETEST".to_owned(),
        env!("CARGO_PKG_VERSION").to_owned(),
        hosts,
        bound.iter().map(|(_, told)| *told).collect(),
    );
    let server = Server::new(Rc::clone(&world), subsystem);
    let mut serving = Serving {
        nqn: plan.nqn.clone(),
        listeners: Vec::new(),
        namespaces: Vec::new(),
    };
    if let Some(test) = plan.test {
        serving.namespaces.push(put_test(&world, &server, test)?);
    }
    for (listener, told) in bound {
        let address = server.listen(listener).to_string();
        serving.listeners.push(Open {
            address,
            advertise: told.advertise.ip(),
            port: told.advertise.port(),
            is_discovery: told.is_discovery,
        });
    }
    when_ready(&serving);
    signals.next().await.map_err(ServeError::Signals)?;
    eprintln!("draining; a second signal ends at once");
    world.spawn(Box::pin(async move {
        // Signals that cannot be read are as good as none.
        if signals.next().await.is_ok() {
            eprintln!("ended before it was drained");
            std::process::exit(Exit::Failed as i32);
        }
    }));
    server.drain().await;
    Ok(())
}

/// Opens all ports, or none.
fn bind_all(
    io: &Io,
    plans: &[ListenerPlan],
) -> Result<Vec<(Listener, varve_target::Listener)>, ServeError> {
    let bind = |plan: &ListenerPlan| {
        let failed = |error| ServeError::Bind(plan.address, error);
        let listener = Listener::bind(io.clone(), &Endpoint::Tcp(plan.address)).map_err(failed)?;
        let port = match listener.endpoint() {
            Endpoint::Tcp(address) => address.port(),
            Endpoint::Unix(_) => plan.address.port(),
        };
        let told = varve_target::Listener {
            advertise: SocketAddr::new(
                plan.advertise.unwrap_or(plan.address.ip()),
                plan.advertise_port.unwrap_or(port),
            ),
            is_discovery: plan.is_discovery,
        };
        Ok((listener, told))
    };
    plans.iter().map(bind).collect()
}

fn put_test(
    world: &Rc<dyn World>,
    server: &Server,
    test: TestNamespace,
) -> Result<Shown, ServeError> {
    let blocks = test.bytes / BLOCK_BYTES;
    let (name, id, store): (_, _, Rc<dyn Store>) = match test.kind {
        TestKind::Null => ("null", NULL_ID, Rc::new(NullStore::new())),
        TestKind::Ram => {
            // Its content is new, so it is another disk than that of the last start.
            let id = identity::new_uuid().map_err(ServeError::Identity)?;
            ("ram", id, Rc::new(RamStore::new(Rc::clone(world), blocks)))
        }
    };
    let namespace = Namespace {
        blocks,
        nguid: id,
        uuid: id,
        is_volatile: false,
        is_thin: true,
        atomic_blocks: TEST_ATOMIC_BLOCKS,
    };
    let put = server.put(1, namespace, store);
    put.map_err(ServeError::Namespace)?;
    Ok(Shown::new(1, name, test.bytes, &id))
}
