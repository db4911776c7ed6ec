//! The server: a target, its connections and its namespaces' stores, on one reactor.
//!
//! Streams come from sockets, or from whatever else is an [`Acceptor`].

use crate::connection::{Flow, Line};
use crate::counters::Counters;
use crate::store::{Content, Step, Store};
use crate::stream::{Acceptor, ByteStream, Sockets};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use varve_ftl::Recall;
use varve_hostio::{Endpoint, Listener};
use varve_io::{Event, World};
use varve_target::{
    Action, Completion, ConnectionId, Failure, Namespace, NamespaceError, Operation, Segment,
    Subsystem, TICK_MAX, Tag, Target, Warnings,
};
use varve_units::{Nanos, PLANTS_BUGS};

/// The target is told the time this seldom, and every [`TICK_MAX`] at least while there are
/// connections: what a deadline set meanwhile may be late by.
const TICK_MIN: Nanos = Nanos::from_millis(1);
/// After a failed accept (too many open files, say) the next one waits. Arbitrary.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// A server; clones are the same one.
#[derive(Clone)]
pub struct Server(Rc<Core>);

/// What flows of a server share.
pub(crate) struct Core {
    pub world: Rc<dyn World>,
    target: RefCell<Target<Content>>,
    stores: RefCell<BTreeMap<u32, Rc<dyn Store>>>,
    lines: RefCell<BTreeMap<ConnectionId, Rc<Line>>>,
    counters: RefCell<Counters>,
    /// Connections at once; the target has a bound of its own.
    connections_max: Cell<usize>,
    is_draining: Cell<bool>,
    draining: Event,
    /// A connection came or went, or an operation ended while the server drains.
    changed: Event,
    /// A planted bug: writes are answered when they begin.
    is_hasty: Cell<bool>,
}

impl Server {
    /// A server of `subsystem`, without namespaces and listeners yet.
    #[must_use]
    pub fn new(world: Rc<dyn World>, subsystem: Subsystem) -> Self {
        let core = Rc::new(Core {
            world,
            target: RefCell::new(Target::new(subsystem)),
            stores: RefCell::default(),
            lines: RefCell::default(),
            counters: RefCell::default(),
            connections_max: Cell::new(usize::MAX),
            is_draining: Cell::new(false),
            draining: Event::new(),
            changed: Event::new(),
            is_hasty: Cell::new(false),
        });
        core.world.spawn(Box::pin(keep_time(Rc::clone(&core))));
        Self(core)
    }

    /// Accepts hosts from now on, until the server drains. Gives where it listens.
    pub fn listen(&self, listener: Listener) -> Endpoint {
        let endpoint = listener.endpoint().clone();
        self.accept(Sockets(Rc::new(listener)));
        endpoint
    }

    /// Accepts hosts from anywhere, until the server drains.
    pub fn accept(&self, from: impl Acceptor + 'static) {
        let accepting = accept(Rc::clone(&self.0), from);
        self.0.world.spawn(Box::pin(accepting));
    }

    /// Bounds the data of all connections together ([`varve_target::Target::limit_data`]).
    pub fn limit_data(&self, bytes: u64) {
        self.0.target.borrow_mut().limit_data(bytes);
        self.0.run();
    }

    /// Bounds the connections there may be at once, beside the target's own bound. Further ones are closed
    /// as soon as they are accepted.
    pub fn limit_connections(&self, most: usize) {
        self.0.connections_max.set(most);
    }

    /// Plants bugs that the simulator must find: a host's new I/O queues are let in `early`, writes are
    /// answered when they begin (`hasty`). No effect in builds that can plant no bugs.
    pub fn plant(&self, early: bool, hasty: bool) {
        self.0.target.borrow_mut().let_queues_in_early(early);
        self.0.is_hasty.set(PLANTS_BUGS && hasty);
    }

    /// Where hosts are told to connect. Those that want to know of changes are told.
    pub fn advertise(&self, listeners: Vec<varve_target::Listener>) {
        self.0.target.borrow_mut().set_listeners(listeners);
        self.0.run();
    }

    /// How what is behind all namespaces fares. Hosts that want to know of a warning which was not there before are told.
    pub fn warn(&self, warnings: Warnings) {
        self.0.target.borrow_mut().warn(warnings);
        self.0.run();
    }

    /// Adds a namespace, or changes its size or its store. Hosts are told.
    ///
    /// # Errors
    /// Ids, sizes and identifiers that hosts would not accept.
    pub fn put(
        &self,
        nsid: u32,
        namespace: Namespace,
        store: Rc<dyn Store>,
    ) -> Result<(), NamespaceError> {
        self.0.target.borrow_mut().put_namespace(nsid, namespace)?;
        self.0.stores.borrow_mut().insert(nsid, store);
        self.0.run();
        Ok(())
    }

    /// Takes a namespace away. Hosts are told; operations in flight end as its store decides.
    pub fn remove(&self, nsid: u32) {
        self.0.target.borrow_mut().remove_namespace(nsid);
        let store = self.0.stores.borrow_mut().remove(&nsid);
        drop(store);
        self.0.run();
    }

    /// Names of the hosts that are connected and see the namespaces.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let hosts = self.0.target.borrow().hosts();
        hosts.iter().map(|host| host.as_str().to_owned()).collect()
    }

    /// What it did so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = *self.0.counters.borrow();
        counters.connections = self.0.lines.borrow().len() as u64;
        let target = self.0.target.borrow();
        counters.controllers = target.controllers() as u64;
        (counters.data_bytes, counters.data_waits) = target.data();
        counters.critical_warning = target.warnings().bits().into();
        counters
    }

    /// Its innards, for other parts of it.
    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.0
    }
}

impl Core {
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Takes no more hosts and commands.
    pub fn begin_draining(&self) {
        self.is_draining.set(true);
        self.lines.borrow().values().for_each(|line| line.wake());
        self.draining.notify();
    }

    /// Operations of hosts in the hands of stores.
    pub fn in_flight(&self) -> u64 {
        self.counters.borrow().in_flight
    }

    /// Ends when no connection and no operation is left.
    pub async fn emptied(&self) {
        while !self.lines.borrow().is_empty() || self.in_flight() > 0 {
            self.changed.listen().await;
        }
    }

    /// Ends all connections; operations are answered to nobody.
    pub fn end_all(self: &Rc<Self>) {
        self.target.borrow_mut().end_all();
        self.run();
    }

    pub fn is_closing(&self, id: ConnectionId) -> bool {
        self.target.borrow().is_closing(id)
    }

    pub fn is_connected(&self, id: ConnectionId) -> bool {
        self.target.borrow().is_connected(id)
    }

    fn open(self: &Rc<Self>, stream: Box<dyn ByteStream>) {
        let now = self.world.now_outside();
        let has_room = self.lines.borrow().len() < self.connections_max.get();
        let accepted = has_room.then(|| self.target.borrow_mut().accept(now));
        let Some(id) = accepted.flatten() else {
            self.counters.borrow_mut().refused += 1;
            return;
        };
        self.counters.borrow_mut().accepted += 1;
        let line = Line::new(id);
        self.lines.borrow_mut().insert(id, Rc::clone(&line));
        self.changed.notify();
        let core = Rc::clone(self);
        self.world.spawn(Box::pin(async move {
            Flow::new(Rc::clone(&core), Rc::clone(&line), stream).await;
            line.recall.recall();
            core.target.borrow_mut().closed(id);
            core.lines.borrow_mut().remove(&id);
            core.run();
            core.changed.notify();
        }));
    }

    /// Gives the target bytes of a host; how many it took.
    pub fn receive(self: &Rc<Self>, id: ConnectionId, bytes: &[u8]) -> usize {
        let now = self.world.now_outside();
        let taken = self.target.borrow_mut().receive(now, id, bytes);
        self.run();
        taken
    }

    /// Bytes of data being received that are not here yet.
    pub fn missing(&self, id: ConnectionId) -> usize {
        self.target.borrow().missing(id)
    }

    /// The data being received, with room for what is missing.
    pub fn lend(&self, id: ConnectionId) -> Vec<u8> {
        self.target.borrow_mut().lend(id)
    }

    /// What was lent, with more bytes; gives those that belong behind it.
    pub fn give_back(self: &Rc<Self>, id: ConnectionId, data: Vec<u8>) -> Vec<u8> {
        let now = self.world.now_outside();
        let surplus = self.target.borrow_mut().give_back(now, id, data);
        self.run();
        surplus
    }

    /// What a connection has to send next; to be called again when that was sent, until it is nothing.
    pub fn transmit(self: &Rc<Self>, id: ConnectionId) -> Vec<Segment<Content>> {
        let segments = self.target.borrow_mut().transmit(id);
        // What was sent, and what is being sent, makes room for commands that waited.
        self.run();
        segments
    }

    /// Carries out what the target wants, and wakes the connections that have something to do.
    fn run(self: &Rc<Self>) {
        loop {
            let action = self.target.borrow_mut().next_action();
            let Some(action) = action else { break };
            self.begin(action);
        }
        loop {
            let woken = self.target.borrow_mut().next_woken();
            let Some(id) = woken else { break };
            if let Some(line) = self.lines.borrow().get(&id) {
                line.wake();
            }
        }
    }

    fn begin(self: &Rc<Self>, action: Action) {
        let Action {
            connection,
            tag,
            nsid,
            operation,
        } = action;
        self.counters.borrow_mut().begin(&operation);
        let is_hasty = self.is_hasty.get() && matches!(operation, Operation::Write { .. });
        let line = self.lines.borrow().get(&connection).cloned();
        let recall = match &line {
            Some(line) => line.recall.clone(),
            // Its connection ended before it began.
            None => Recall::recalled(),
        };
        let flow = match self.step(nsid, operation, &recall) {
            Step::Done(result) => return self.complete(connection, tag, result),
            Step::Later(flow) if is_hasty => {
                self.world.spawn(Box::pin(async move { drop(flow.await) }));
                return self.complete(connection, tag, Ok(None));
            }
            Step::Later(flow) => flow,
        };
        self.counters.borrow_mut().in_flight += 1;
        let core = Rc::clone(self);
        self.world.spawn(Box::pin(async move {
            let result = flow.await;
            {
                let mut counters = core.counters.borrow_mut();
                counters.in_flight -= 1;
                counters.orphaned += u64::from(!core.lines.borrow().contains_key(&connection));
            }
            core.complete(connection, tag, result);
            core.run();
            if core.is_draining() {
                // Whoever waits for the end of this has to be told: a shutdown's flush has no answer.
                core.lines.borrow().values().for_each(|line| line.wake());
                core.changed.notify();
            }
        }));
    }

    fn complete(&self, connection: ConnectionId, tag: Tag, result: Completion<Content>) {
        // One that was recalled did not fail: nobody waited for it.
        let is_failure = matches!(&result, Err(failure) if *failure != Failure::Recalled);
        self.counters.borrow_mut().failures += u64::from(is_failure);
        self.target.borrow_mut().complete(connection, tag, result);
    }

    fn step(&self, nsid: Option<u32>, operation: Operation, recall: &Recall) -> Step {
        let stores = self.stores.borrow();
        let Some(nsid) = nsid else {
            assert!(
                matches!(operation, Operation::Flush),
                "only a flush is of all"
            );
            let steps = stores
                .values()
                .map(|store| store.begin(Operation::Flush, recall));
            return all(steps.collect());
        };
        match stores.get(&nsid) {
            Some(store) => store.begin(operation, recall),
            None => Step::Done(Err(Failure::NoNamespace)),
        }
    }
}

/// Several flushes as one.
fn all(steps: Vec<Step>) -> Step {
    let mut done = Ok(None);
    let mut flows = Vec::new();
    for step in steps {
        match step {
            Step::Done(Err(failure)) => done = Err(failure),
            Step::Done(Ok(_)) => {}
            Step::Later(flow) => flows.push(flow),
        }
    }
    if flows.is_empty() {
        return Step::Done(done);
    }
    Step::Later(Box::pin(async move {
        let mut done = done;
        for flow in flows {
            done = flow.await.and(done);
        }
        done
    }))
}

/// Accepts hosts until the server drains.
async fn accept(core: Rc<Core>, from: impl Acceptor) {
    while !core.is_draining() {
        let accepted = {
            let mut accepting = from.accept();
            let mut draining = pin!(core.draining.listen());
            poll_fn(|context| match accepting.as_mut().poll(context) {
                Poll::Ready(accepted) => Poll::Ready(Some(accepted)),
                Poll::Pending => draining.as_mut().poll(context).map(|()| None),
            })
            .await
        };
        match accepted {
            None => return,
            Some(Ok(stream)) => core.open(stream),
            Some(Err(_)) => {
                core.counters.borrow_mut().refused += 1;
                core.world.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Tells the target the time as it passes for hosts, until this drains, and each time reads first: a timeout
/// ends nobody whose word lies in a socket. What hosts send to one that drains is thrown away, so nothing is known of
/// their silence, and the drain has a limit of its own.
async fn keep_time(core: Rc<Core>) {
    loop {
        if core.lines.borrow().is_empty() {
            core.changed.listen().await;
            continue;
        }
        let now = core.world.now_outside();
        let deadline = core.target.borrow().deadline();
        let pause = deadline.map_or(TICK_MAX, |at| at.since(now).clamp(TICK_MIN, TICK_MAX));
        core.world.sleep(pause).await;
        let read = core.world.now_outside();
        core.world.catch_up().await;
        if core.is_draining() {
            return;
        }
        core.target
            .borrow_mut()
            .tick(core.world.now_outside(), read);
        core.run();
    }
}
