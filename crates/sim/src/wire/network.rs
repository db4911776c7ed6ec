//! The network between hosts and the target: who gets a connection, and what becomes of connections.
//!
//! What it may do to them is what networks do within the premises of NVMe/TCP: no byte is late by more
//! than [`HOLD_MAX`], which is less than what a host waits for after a loss it knows nothing about.

use super::connection::{Connection, HostEnd, TargetEnd};
use crate::executor::Reactor;
use crate::fingerprint::Action;
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::rc::Rc;
use varve_initiator::{StreamEnd, Transport};
use varve_io::{Event, World};
use varve_server::stream::Call;
use varve_server::{Acceptor, ByteStream};
use varve_units::Nanos;

/// Longest time that bytes may be held up: twice the keep-alive timeout of hosts.
pub const HOLD_MAX: Nanos = Nanos::from_secs(2);
/// Longest stall that nobody gives a connection up for. Arbitrary.
const STALL_MAX: Nanos = Nanos::from_millis(20);
/// Longest time in which nobody gets a connection. Arbitrary.
const CLOSED_MAX: Nanos = Nanos::from_secs(1);

/// What was seen of the network, by feature.
#[derive(Default)]
pub struct Tally(RefCell<BTreeMap<&'static str, u64>>);

/// Faults, among the features.
const FAULTS: [&str; 6] = [
    "nvme_path_failure",
    "nvme_refused",
    "nvme_reset",
    "nvme_stall",
    "nvme_stall_long",
    "nvme_unreachable",
];

impl Tally {
    /// Counts a feature once more.
    pub fn count(&self, feature: &'static str) {
        *self.0.borrow_mut().entry(feature).or_default() += 1;
    }

    fn some(&self, is_fault: bool) -> BTreeMap<&'static str, u64> {
        let all = self.0.borrow();
        let some = all
            .iter()
            .filter(|(name, _)| FAULTS.contains(name) == is_fault);
        some.map(|(&name, &count)| (name, count)).collect()
    }

    /// Faults that struck so far.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.some(true)
    }

    /// What else was seen so far.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.some(false)
    }
}

/// Where a life of the target accepts.
struct Inbox {
    machine: Rc<Reactor>,
    waiting: RefCell<VecDeque<TargetEnd>>,
    arrived: Event,
}

/// The network; it outlives the target's lives.
pub struct Network {
    hosts: Rc<Reactor>,
    rng: RefCell<Rng>,
    tally: Rc<Tally>,
    inbox: RefCell<Option<Rc<Inbox>>>,
    connections: RefCell<Vec<Rc<Connection>>>,
    made: Cell<u64>,
    refused_until: Cell<Nanos>,
    unreachable_until: Cell<Nanos>,
}

impl Network {
    /// A network of these hosts, without a target.
    #[must_use]
    pub fn new(hosts: Rc<Reactor>, rng: Rng, tally: Rc<Tally>) -> Rc<Self> {
        Rc::new(Self {
            hosts,
            rng: RefCell::new(rng),
            tally,
            inbox: RefCell::default(),
            connections: RefCell::default(),
            made: Cell::new(0),
            refused_until: Cell::new(Nanos(0)),
            unreachable_until: Cell::new(Nanos(0)),
        })
    }

    /// A target begins to accept.
    #[must_use]
    pub fn listen(self: &Rc<Self>, machine: &Rc<Reactor>) -> Door {
        let inbox = Rc::new(Inbox {
            machine: Rc::clone(machine),
            waiting: RefCell::default(),
            arrived: Event::new(),
        });
        self.inbox.replace(Some(Rc::clone(&inbox)));
        Door {
            network: Rc::clone(self),
            inbox,
        }
    }

    async fn connect(self: Rc<Self>, host: u64) -> Result<HostEnd, StreamEnd> {
        let number = self.made.get();
        self.made.set(number + 1);
        let rng = self.rng.borrow().split_at("connection", number);
        let connection = Connection::new(number, host, rng, Rc::clone(&self.tally));
        self.hosts.sleep(connection.latency()).await;
        while self.unreachable_until.get() > self.hosts.now() {
            let span = self.unreachable_until.get().since(self.hosts.now());
            self.hosts.sleep(span).await;
        }
        let inbox = self.inbox.borrow().clone();
        let Some(inbox) = inbox.filter(|_| self.refused_until.get() <= self.hosts.now()) else {
            self.tally.count("nvme_refused");
            self.hosts.sleep(connection.latency()).await;
            return Err(StreamEnd::Peer);
        };
        let end = TargetEnd::new(Rc::clone(&connection), Rc::clone(&inbox.machine));
        inbox.waiting.borrow_mut().push_back(end);
        inbox.arrived.notify();
        {
            let mut connections = self.connections.borrow_mut();
            connections.retain(|one| !one.is_over());
            connections.push(Rc::clone(&connection));
        }
        self.hosts.sleep(connection.latency()).await;
        Ok(HostEnd::new(connection, Rc::clone(&self.hosts)))
    }

    /// Lets one random fault strike. Paths fail, and fall silent for long, for a host as a whole.
    pub fn inject(&self) {
        let now = self.hosts.now();
        let rng = &mut *self.rng.borrow_mut();
        let kind = rng.weighted(&[5, 4, 4, 4, 1, 1]);
        self.hosts.journal().add(Action::Fault, &[kind as u64]);
        let connections = self.connections.borrow();
        let whole: Vec<_> = connections.iter().filter(|one| one.is_whole()).collect();
        if whole.is_empty() {
            return;
        }
        let one = rng.pick(&whole);
        let of_host = whole.iter().filter(|other| other.host == one.host);
        let late = |rng: &mut Rng, most: Nanos| now + Nanos(rng.magnitude(1 << 14, most.0));
        let feature = match kind {
            0 => {
                one.reset(now);
                "nvme_reset"
            }
            1 => {
                let until = late(rng, HOLD_MAX);
                let given_up = now + Nanos(rng.magnitude(1 << 10, until.since(now).0));
                of_host.for_each(|one| one.fail_path(given_up, until));
                "nvme_path_failure"
            }
            2 => {
                let until = late(rng, STALL_MAX);
                let (up, down) = rng.pick(&[(true, true), (true, false), (false, true)]);
                if !one.hold(until, up, down) {
                    return;
                }
                "nvme_stall"
            }
            3 => {
                let until = now + Nanos(rng.within(HOLD_MAX.0 / 16, HOLD_MAX.0));
                let down = rng.chance(1, 2);
                if of_host.filter(|one| one.hold(until, true, down)).count() == 0 {
                    return;
                }
                "nvme_stall_long"
            }
            4 => {
                self.refused_until.set(late(rng, CLOSED_MAX));
                one.reset(now);
                "nvme_reset"
            }
            _ => {
                self.unreachable_until.set(late(rng, CLOSED_MAX));
                one.reset(now);
                "nvme_unreachable"
            }
        };
        self.tally.count(feature);
    }

    /// Faults stop: whatever is held arrives, whoever connects is let in.
    pub fn calm(&self) {
        self.refused_until.set(Nanos(0));
        self.unreachable_until.set(Nanos(0));
        self.connections
            .borrow()
            .iter()
            .for_each(|one| one.release());
    }

    /// The power of the target's machine fails: what was under way is lost, and hosts hear of it sooner
    /// or later.
    pub fn power_fail(&self) {
        let now = self.hosts.now();
        let inbox = self.inbox.replace(None);
        let rng = &mut *self.rng.borrow_mut();
        for connection in &*self.connections.borrow() {
            let told = rng
                .chance(1, 2)
                .then(|| now + Nanos(rng.magnitude(1_000, 1 << 26)));
            connection.power_fail(told);
        }
        drop(inbox);
    }
}

/// Where a life of the target takes hosts in.
pub struct Door {
    network: Rc<Network>,
    inbox: Rc<Inbox>,
}

impl Acceptor for Door {
    fn accept(&self) -> Call<Box<dyn ByteStream>> {
        let (inbox, tally) = (Rc::clone(&self.inbox), Rc::clone(&self.network.tally));
        Box::pin(async move {
            loop {
                let end = inbox.waiting.borrow_mut().pop_front();
                if let Some(end) = end {
                    tally.count("nvme_connect");
                    return Ok(Box::new(end) as Box<dyn ByteStream>);
                }
                inbox.arrived.listen().await;
            }
        })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut inbox = self.network.inbox.borrow_mut();
        if inbox
            .as_ref()
            .is_some_and(|inbox| Rc::ptr_eq(inbox, &self.inbox))
        {
            *inbox = None;
        }
    }
}

/// How a host gets connections.
pub struct Way {
    /// The network.
    pub network: Rc<Network>,
    /// The host's number.
    pub host: u64,
}

impl Transport for Way {
    type Stream = HostEnd;

    fn connect(&self) -> impl Future<Output = Result<HostEnd, StreamEnd>> + 'static {
        Rc::clone(&self.network).connect(self.host)
    }
}
