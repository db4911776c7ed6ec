//! The machine as its caller sees it: connections, time, actions, what one does to another.

mod waiting;

use crate::action::{Action, Completion, Tag};
use crate::connection::{Connection, ConnectionId, Phase};
use crate::controller::Host;
use crate::outgoing::Segment;
use crate::room::Turn;
use crate::shared::{Effect, Shared};
use crate::subsystem::{Listener, Namespace, NamespaceError, Subsystem};
use crate::warnings::Warnings;
use crate::{CONNECT_TIME_MAX, CONNECTIONS_MAX, STALL_TIME_MAX};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use varve_nvme::event::Notice;
use varve_nvme::identify::ControllerKind;
use varve_nvme::{Nqn, Sqe, opcode};
use varve_units::{Nanos, PLANTS_BUGS};

/// An NVMe/TCP target. `D` is what the backend gives as content of blocks.
#[derive(Debug)]
pub struct Target<D> {
    shared: Shared,
    connections: BTreeMap<ConnectionId, Connection<D>>,
    /// Connections that are gone with commands at the backend: whose, how many, bytes of data.
    remains: BTreeMap<ConnectionId, (Host, usize, u64)>,
    /// Connects of I/O queues that wait, and since when in the time the caller ran.
    waiting: BTreeMap<ConnectionId, Nanos>,
    /// Connections that have something to send or to end.
    woken: BTreeSet<ConnectionId>,
    next_id: u64,
    /// A planted bug: I/O queues do not wait for what is left of their host's old ones.
    is_early: bool,
    /// What a Connect waits for may have come: a new one, a connection that ended, the last command of one that did.
    may_connect: bool,
}

impl<D: AsRef<[u8]>> Target<D> {
    /// A target that serves `subsystem` and the discovery subsystem.
    #[must_use]
    pub fn new(subsystem: Subsystem) -> Self {
        Self {
            shared: Shared::new(subsystem),
            connections: BTreeMap::new(),
            remains: BTreeMap::new(),
            waiting: BTreeMap::new(),
            woken: BTreeSet::new(),
            next_id: 1,
            is_early: false,
            may_connect: false,
        }
    }

    /// Plants a bug that the simulator must find: a host's new I/O queues are let in while commands of
    /// its lost association are at the backend. No effect in builds that can plant no bugs.
    pub fn let_queues_in_early(&mut self, is_early: bool) {
        self.is_early = PLANTS_BUGS && is_early;
    }

    /// Bounds the data of all connections together; as much again is for connections that hold nothing, a
    /// command each. A bound below that of one connection is raised to it.
    pub fn limit_data(&mut self, bytes: u64) {
        self.shared.budget.set_max(bytes.max(crate::DATA_BYTES_MAX));
        self.settle();
    }

    /// Bytes of data that all connections hold, and how often one had to wait for room.
    #[must_use]
    pub fn data(&self) -> (u64, u64) {
        let budget = &self.shared.budget;
        (budget.used(), budget.waits())
    }

    /// A host connected. `None` if there are too many: the connection is to be closed.
    #[must_use]
    pub fn accept(&mut self, now: Nanos) -> Option<ConnectionId> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return None;
        }
        if self.connections.is_empty() {
            self.shared.clock.start(now);
        }
        self.shared.clock.tell(now);
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        let connection = Connection::new(id, self.shared.clock.ran());
        self.connections.insert(id, connection);
        Some(id)
    }

    /// Bytes of a host. Gives how many were taken; the rest is to be given again after
    /// [`Target::transmit`], or once it is woken. Nobody is woken where none was taken: who gives them again whenever
    /// that happens would never come to send. Bytes of a connection that ends are dropped.
    pub fn receive(&mut self, now: Nanos, id: ConnectionId, bytes: &[u8]) -> usize {
        self.hear(now, id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return bytes.len();
        };
        let taken = connection.receive(&mut self.shared, now, bytes);
        connection.recount(&mut self.shared);
        if taken > 0 {
            self.woken.insert(id);
        }
        self.settle();
        taken
    }

    /// Bytes of data of the PDU being received that are not here yet; 0 between data.
    #[must_use]
    pub fn missing(&self, id: ConnectionId) -> usize {
        self.connections.get(&id).map_or(0, Connection::missing)
    }

    /// The data being received as far as it is here, with room for the rest behind it, for who wants to
    /// receive it there without a copy. [`Target::give_back`] follows before the next
    /// [`Target::receive`].
    ///
    /// # Panics
    /// If nothing is missing.
    #[must_use]
    pub fn lend(&mut self, id: ConnectionId) -> Vec<u8> {
        let connection = self.connections.get_mut(&id);
        connection.expect("data of a connection").lend()
    }

    /// What was lent, with more bytes behind. Gives those that lie beyond the data, for
    /// [`Target::receive`].
    ///
    /// # Panics
    /// If nothing was lent.
    #[must_use]
    pub fn give_back(&mut self, now: Nanos, id: ConnectionId, data: Vec<u8>) -> Vec<u8> {
        self.hear(now, id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return Vec::new();
        };
        let surplus = connection.give_back(&mut self.shared, now, data);
        connection.recount(&mut self.shared);
        self.woken.insert(id);
        self.settle();
        surplus
    }

    /// Bytes of a host came. Once it is due they need not be a command to show that the host is there:
    /// what lies in the socket behind them has not been read yet.
    fn hear(&mut self, now: Nanos, id: ConnectionId) {
        self.shared.clock.tell(now);
        let queue = self.connections.get(&id).and_then(|one| one.queue);
        let controller = queue.and_then(|one| self.shared.controllers.get_mut(&one.cntlid));
        let due = controller.filter(|one| one.deadline().is_some_and(|at| at <= now));
        if let Some(controller) = due {
            controller.hear(self.shared.clock, now);
        }
    }

    /// The next command for the backend.
    pub fn next_action(&mut self) -> Option<Action> {
        self.shared.actions.pop_front()
    }

    /// The backend's answer to an action.
    ///
    /// # Panics
    /// If the action was answered before, or a read's data has not the length asked for.
    pub fn complete(&mut self, id: ConnectionId, tag: Tag, result: Completion<D>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.complete(&mut self.shared, tag, result);
            connection.recount(&mut self.shared);
            self.may_connect |=
                connection.phase == Phase::Closing && connection.slots.at_backend() == 0;
            self.woken.insert(id);
        } else {
            let remain = self.remains.get_mut(&id);
            let (_, count, bytes) = remain.expect("an action is answered once");
            *count -= 1;
            if *count == 0 {
                self.shared.budget.count(*bytes, 0);
                self.remains.remove(&id);
                self.may_connect = true;
            }
        }
        self.settle();
    }

    /// A connection that has something to send, is to be ended, or takes input again, each named once.
    pub fn next_woken(&mut self) -> Option<ConnectionId> {
        loop {
            let id = self.woken.pop_first()?;
            let connection = self.connections.get_mut(&id);
            let has_work = connection.is_some_and(|one| {
                let is_resumed = core::mem::take(&mut one.is_resumed);
                is_resumed || !one.outgoing.is_empty() || one.phase == Phase::Closing
            });
            if has_work {
                return Some(id);
            }
        }
    }

    /// What a connection has to send next, in order, for one gathering send; a transfer's data at most.
    /// To be called again when that was sent, and not before, until there is nothing: until then its
    /// data counts against what all connections hold, and a batch that is sent shows that its host reads.
    #[must_use]
    pub fn transmit(&mut self, id: ConnectionId) -> Vec<Segment<D>> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Vec::new();
        };
        let segments = connection.transmit(&mut self.shared);
        if !connection.outgoing.is_empty() {
            self.woken.insert(id);
        }
        self.recount(id);
        self.share();
        segments
    }

    fn recount(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.recount(&mut self.shared);
        }
    }

    /// Gives those in line for room their turns, while there is any.
    fn share(&mut self) {
        while let Some(id) = self.shared.budget.first() {
            let Some(connection) = self.connections.get_mut(&id) else {
                self.shared.budget.next(false);
                continue;
            };
            let turn = connection.take_turn(&mut self.shared);
            if turn == Turn::Blocked {
                return self.share_with_idle();
            }
            let is_more = connection.end_turn(turn);
            self.shared.budget.next(is_more);
            if turn == Turn::Used {
                self.woken.insert(id);
            }
        }
    }

    /// The first in line has no room. Those behind it that hold nothing may begin a command.
    fn share_with_idle(&mut self) {
        for id in self.shared.budget.waiting_idle() {
            let idle = self.connections.get_mut(&id).filter(|one| one.counted == 0);
            if idle.is_some_and(|connection| connection.pump(&mut self.shared)) {
                self.woken.insert(id);
            }
            if self.shared.budget.has_refused_idle() {
                return;
            }
        }
    }

    /// True if the connection is to be closed after what it has to send.
    #[must_use]
    pub fn is_closing(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(&id);
        connection.is_none_or(|one| one.phase == Phase::Closing)
    }

    /// True once Connect succeeded: what a connection holds before is to be little.
    #[must_use]
    pub fn is_connected(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(&id);
        connection.is_some_and(|one| one.queue.is_some())
    }

    /// A connection was closed, by either side. With that of an admin queue its association ends, with
    /// that of an I/O queue that has commands at the backend all its I/O queues.
    pub fn closed(&mut self, id: ConnectionId) {
        self.end(id);
        let Some(mut connection) = self.connections.remove(&id) else {
            return;
        };
        let left = connection.leave(&mut self.shared);
        self.may_connect = true;
        self.waiting.remove(&id);
        self.woken.remove(&id);
        let at_backend = connection.slots.at_backend();
        if let (Some(host), true) = (self.host_of(&connection), at_backend > 0) {
            self.remains.insert(id, (host, at_backend, left));
        }
        // Only now: whose the remains are stands in the controller.
        if let Some(queue) = connection.queue {
            self.forget(queue.cntlid, queue.qid, id);
        }
        self.settle();
    }

    /// The connection's association ends if it carries the admin queue. If it carries an I/O queue with
    /// commands at the backend, the other I/O queues end: what the host writes there could be overtaken
    /// by those. The admin queue stays, for a shutdown in order. (spec: base 2.0 §3.3.2.3: without
    /// deletion of I/O queues the loss of one ends the association.)
    fn end(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let Some(queue) = connection.queue else {
            return;
        };
        if queue.qid == 0 {
            self.mark_ended(queue.cntlid);
            self.close_queues(queue.cntlid);
        } else if connection.slots.at_backend() > 0 {
            self.close_queues(queue.cntlid);
        }
    }

    fn mark_ended(&mut self, cntlid: u16) {
        if let Some(controller) = self.shared.controllers.get_mut(&cntlid)
            && !controller.is_ended
        {
            controller.is_ended = true;
            let host = controller.host.clone();
            self.close_waiting(cntlid, &host);
        }
    }

    /// Takes a queue out of its controller; a controller without connections is gone.
    fn forget(&mut self, cntlid: u16, qid: u16, id: ConnectionId) {
        let Some(controller) = self.shared.controllers.get_mut(&cntlid) else {
            return;
        };
        if controller.queues.get(&qid) == Some(&id) {
            controller.queues.remove(&qid);
        }
        let has_admin = self.connections.contains_key(&controller.admin);
        if !has_admin && controller.queues.is_empty() {
            self.shared.controllers.remove(&cntlid);
        }
    }

    /// When [`Target::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        let controllers = self.shared.controllers.values();
        let alive =
            controllers.filter_map(|one| self.is_live(one.admin).then(|| one.deadline())?);
        let connections = self.connections.values();
        let young = connections
            .filter(|one| one.queue.is_none() && one.phase != Phase::Closing)
            .filter(|one| !self.waiting.contains_key(&one.id))
            .map(|one| one.opened + CONNECT_TIME_MAX)
            .chain(self.waiting_until());
        let clock = self.shared.clock;
        let young = young.map(|at| clock.told() + at.since(clock.ran()));
        alive.chain(young).min()
    }

    fn is_live(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(&id);
        connection.is_some_and(|one| one.phase != Phase::Closing)
    }

    /// Ends associations that were silent for their keep-alive timeout, connections without a
    /// Connect, and the waiting of Connects that waited for too long. To be called every [`TICK_MAX`](crate::TICK_MAX) at least while there are connections.
    ///
    /// What lay in the sockets at `read` has been given, of each connection once: a timeout that is due
    /// later ends nothing yet, since its host's word may lie there unread. Who has not read since the
    /// last tick says the same again.
    pub fn tick(&mut self, now: Nanos, read: Nanos) {
        let clock = &mut self.shared.clock;
        clock.tell(now);
        clock.note_reading(read);
        let clock = *clock;
        let is_silent = |at| clock.has_missed(at);
        let controllers = self.shared.controllers.values();
        let silent = controllers.filter(|one| one.deadline().is_some_and(is_silent));
        let silent: Vec<_> = silent.map(|one| (one.cntlid, one.admin)).collect();
        for (cntlid, admin) in silent {
            self.mark_ended(cntlid);
            self.close_queues(cntlid);
            self.close(admin);
        }
        if self.waiting_until().is_some_and(|at| at <= clock.ran()) {
            self.connect_waiting();
        }
        let late = self.connections.values().filter(|one| {
            one.queue.is_none()
                && !self.waiting.contains_key(&one.id)
                && one.opened + CONNECT_TIME_MAX <= clock.ran()
        });
        let late: Vec<_> = late.map(|one| one.id).collect();
        for id in late.into_iter().chain(self.stalled()) {
            self.close(id);
        }
        self.settle();
    }

    /// Connections whose hosts keep room that others wait for and do nothing about it.
    fn stalled(&self) -> Vec<ConnectionId> {
        if !self.shared.budget.is_wanted() {
            return Vec::new();
        }
        let all = self.connections.values();
        let open = all.filter(|one| one.phase == Phase::Open);
        let is_late = |since| self.shared.clock.ran().since(since) >= STALL_TIME_MAX;
        open.filter(|one| one.stalled_since().is_some_and(is_late))
            .map(|one| one.id)
            .collect()
    }

    /// Ends all associations and connections. What they have to send is sent; what is at the backend is not answered
    /// any more.
    pub fn end_all(&mut self) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            self.close(id);
        }
        self.settle();
    }

    fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.phase != Phase::Closing
        {
            connection.phase = Phase::Closing;
            self.may_connect = true;
            self.woken.insert(id);
        }
    }

    /// The connections of a controller's I/O queues end.
    fn close_queues(&mut self, cntlid: u16) {
        let controller = self.shared.controllers.get(&cntlid);
        let queues = controller.map(|one| one.queues.values().copied().collect());
        let queues: Vec<ConnectionId> = queues.unwrap_or_default();
        for id in queues {
            self.close(id);
        }
    }

    /// Does what connections did to one another.
    fn settle(&mut self) {
        while let Some(effect) = self.shared.effects.pop_front() {
            match effect {
                Effect::CloseQueues(cntlid) => self.close_queues(cntlid),
                Effect::Notify(cntlid) => self.notify(cntlid),
                Effect::Abort {
                    cntlid,
                    qid,
                    cid,
                    by,
                    by_cid,
                } => {
                    let is_aborted = self.abort(cntlid, qid, cid);
                    if let Some(connection) = self.connections.get_mut(&by) {
                        // Bit 0 says that nothing was aborted.
                        let sqe = Sqe::new(opcode::admin::ABORT, by_cid, 0);
                        connection.succeed(&sqe, u64::from(!is_aborted));
                    }
                }
                Effect::Connect(id) => {
                    self.waiting.insert(id, self.shared.clock.ran());
                    self.may_connect = true;
                }
            }
        }
        // Connections that end by an error of their own take their association with them.
        let woken: Vec<_> = self.woken.iter().copied().collect();
        for id in woken {
            if !self.is_live(id) {
                self.end(id);
            }
        }
        if core::mem::take(&mut self.may_connect) {
            self.connect_waiting();
        }
        self.share();
    }

    fn notify(&mut self, cntlid: u16) {
        let admin = self.shared.controllers.get(&cntlid).map(|one| one.admin);
        let connection = admin.and_then(|admin| self.connections.get_mut(&admin));
        if let Some(connection) = connection {
            connection.notify(&mut self.shared);
            self.woken.insert(connection.id);
        }
    }

    fn abort(&mut self, cntlid: u16, qid: u16, cid: u16) -> bool {
        let controller = self.shared.controllers.get(&cntlid);
        let id = controller.and_then(|controller| match qid {
            0 => Some(controller.admin),
            _ => controller.queues.get(&qid).copied(),
        });
        let connection = id.and_then(|id| self.connections.get_mut(&id));
        connection.is_some_and(|connection| {
            self.woken.insert(connection.id);
            connection.abort_waiting(&mut self.shared, cid)
        })
    }

    /// Adds a namespace, or changes its size or what it says about itself. Hosts are told.
    ///
    /// # Errors
    /// Ids, sizes and identifiers that hosts would not accept.
    pub fn put_namespace(&mut self, nsid: u32, namespace: Namespace) -> Result<(), NamespaceError> {
        namespace.check(nsid)?;
        let old = self.shared.subsystem.namespaces.insert(nsid, namespace);
        if old.as_ref() != self.shared.subsystem.namespaces.get(&nsid) {
            self.changed(nsid);
        }
        Ok(())
    }

    /// Takes a namespace away. Hosts are told; commands at the backend are answered as it decides.
    pub fn remove_namespace(&mut self, nsid: u32) {
        if self.shared.subsystem.namespaces.remove(&nsid).is_some() {
            self.changed(nsid);
        }
    }

    fn changed(&mut self, nsid: u32) {
        for controller in self.shared.controllers.values_mut() {
            if controller.kind == ControllerKind::Io {
                controller.changed.insert(nsid);
                controller.raise(Notice::NamespaceAttribute);
                let effect = Effect::Notify(controller.cntlid);
                self.shared.effects.push_back(effect);
            }
        }
        self.settle();
    }

    /// How what is behind all namespaces fares. Hosts that want to know of a warning which was not there before are told.
    pub fn warn(&mut self, warnings: Warnings) {
        let before = core::mem::replace(&mut self.shared.warnings, warnings);
        if before == warnings {
            return;
        }
        let fresh = warnings.since(before);
        for controller in self.shared.controllers.values_mut() {
            if controller.kind == ControllerKind::Io {
                controller.warn(fresh, warnings);
                let effect = Effect::Notify(controller.cntlid);
                self.shared.effects.push_back(effect);
            }
        }
        self.settle();
    }

    /// Critical Warning as hosts read it.
    #[must_use]
    pub fn warnings(&self) -> Warnings {
        self.shared.warnings
    }

    /// Changes where hosts reach the target. Hosts with a persistent discovery connection are told.
    pub fn set_listeners(&mut self, listeners: Vec<Listener>) {
        self.shared.subsystem.listeners = listeners;
        self.shared.discovery_generation += 1;
        for controller in self.shared.controllers.values_mut() {
            if controller.kind == ControllerKind::Discovery {
                controller.raise(Notice::DiscoveryLog);
                let effect = Effect::Notify(controller.cntlid);
                self.shared.effects.push_back(effect);
            }
        }
        self.settle();
    }

    /// Names of the hosts that have controllers for I/O, each once.
    #[must_use]
    pub fn hosts(&self) -> BTreeSet<Nqn> {
        let controllers = self.shared.controllers.values();
        let io = controllers.filter(|one| one.kind == ControllerKind::Io && !one.is_ended);
        io.map(|one| one.host.nqn.clone()).collect()
    }

    /// Controllers that hosts have.
    #[must_use]
    pub fn controllers(&self) -> usize {
        self.shared.controllers.len()
    }
}
