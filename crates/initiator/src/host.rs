//! The machine as its caller sees it: connections, time, requests, loss and return.

use crate::association::{Association, ConnectionId, Link, Phase};
use crate::config::{Config, Purpose};
use crate::dialogue::{Step, is_same};
use crate::error::Loss;
use crate::facts::NamespaceInfo;
use crate::flights::Owner;
use crate::payload::Segment;
use crate::queue::{Done, Queue, Told};
use crate::requests::{Completion, Limits, Operation, Requests};
use crate::{IO_QUEUES_MAX, QUEUE_ENTRIES_MAX};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use varve_nvme::discovery::Found;
use varve_nvme::event::Notice;
use varve_nvme::tcp::MAXH2CDATA_MIN;
use varve_units::{Nanos, PLANTS_BUGS};

mod loss;

use loss::Dying;

/// What the machine asks of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Open a byte stream; [`Host::connected`] or [`Host::closed`] follows.
    Connect(ConnectionId),
    /// Send what [`Host::transmit`] still gives, end the sending direction, receive until the peer
    /// ends its own; [`Host::closed`] follows.
    Close(ConnectionId),
    /// End it at once; nothing follows.
    Drop(ConnectionId),
}

/// What the machine tells its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The namespace is there: at first, again after a loss, or with another size or state.
    Ready(NamespaceInfo),
    /// The discovery log, at first and whenever it has changed.
    Log(Vec<Found>),
    /// The association ended or did not come about; another one will be tried unless `is_final`.
    Lost {
        /// Why.
        loss: Loss,
        /// Nothing is tried any more, and every request fails.
        is_final: bool,
    },
    /// All connections are closed after [`Host::close`].
    Closed,
}

/// Where the machine is.
enum State {
    /// Without an association, waiting for the next attempt.
    Down { retry_at: Nanos },
    /// With one.
    Up(Box<Association>),
    /// For good.
    Over,
}

/// An NVMe/TCP host of one subsystem.
pub struct Host {
    config: Config,
    state: State,
    dying: BTreeMap<ConnectionId, Dying>,
    requests: Requests,
    namespace: Option<NamespaceInfo>,
    limits: Option<Limits>,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
    woken: BTreeSet<ConnectionId>,
    next_id: u64,
    /// Since when there is no association that serves requests.
    down_since: Option<Nanos>,
    attempts: u32,
    /// What the controller rounds keep-alive timeouts up to; 0 if it has no keep alive.
    keep_alive_step: Nanos,
    /// Commands of earlier associations may be executed until then.
    quiet_until: Nanos,
    last_sent: Nanos,
    is_closing: bool,
    /// A planted bug: nothing is waited for after a loss.
    is_restless: bool,
}

impl Host {
    /// A host that begins to connect.
    ///
    /// # Panics
    /// For no or too many queues or entries, or a host identifier of zeroes.
    #[must_use]
    pub fn new(now: Nanos, config: Config) -> Self {
        assert!((1..=IO_QUEUES_MAX).contains(&config.queues), "I/O queues");
        let entries = 2..=QUEUE_ENTRIES_MAX;
        assert!(entries.contains(&config.queue_entries), "queue entries");
        assert!(config.hostid != [0; 16], "a host has an identifier");
        let mut host = Self {
            config,
            state: State::Down { retry_at: now },
            dying: BTreeMap::new(),
            requests: Requests::default(),
            namespace: None,
            limits: None,
            actions: VecDeque::new(),
            events: VecDeque::new(),
            woken: BTreeSet::new(),
            next_id: 1,
            down_since: Some(now),
            attempts: 0,
            keep_alive_step: Nanos(0),
            quiet_until: now,
            last_sent: now,
            is_closing: false,
            is_restless: false,
        };
        host.tick(now);
        host
    }

    /// Plants bugs that the simulator must find: `restless`, it sends again while an old connection may
    /// still be read; `vouching`, a flush succeeds although a cache was lost. No effect in builds
    /// that can plant no bugs.
    pub fn plant(&mut self, restless: bool, vouching: bool) {
        self.is_restless = PLANTS_BUGS && restless;
        self.requests.plant(vouching);
    }

    /// The caller was told that a cache was lost ([`Failure::CacheLost`](crate::Failure::CacheLost)), and
    /// asks of flushes from now on nothing for writes that were answered before the loss: all who
    /// wrote know. Until then every flush fails, because nobody here knows whose writes it is for.
    pub fn accept_loss(&mut self) {
        self.requests.accept_loss();
    }

    fn new_id(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        id
    }

    /// The namespace as it was last seen.
    #[must_use]
    pub const fn namespace(&self) -> Option<&NamespaceInfo> {
        self.namespace.as_ref()
    }

    /// True if requests are served now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(&self.state, State::Up(up) if up.phase == Phase::Ready)
    }

    /// I/O queues that the controller gave, and commands each takes at a time; `None` while there is
    /// no association.
    #[must_use]
    pub fn queues(&self) -> Option<(u16, u16)> {
        let State::Up(up) = &self.state else {
            return None;
        };
        let facts = &up.dialogue.facts;
        let entries = facts.queue_entries(self.config.queue_entries);
        let is_ready = up.phase == Phase::Ready;
        is_ready.then(|| (facts.queues, facts.queue_commands(entries)))
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.requests.len()
    }

    /// Takes a request; a [`Completion`] with its `id` follows. Without an association it waits for
    /// the next one.
    ///
    /// # Panics
    /// Before the namespace is known, and if data is not whole blocks.
    pub fn submit(&mut self, now: Nanos, id: u64, operation: Operation) {
        let limits = self.limits.expect("requests follow Event::Ready");
        if matches!(self.state, State::Over) || self.is_closing {
            self.requests.refuse(id);
            return;
        }
        self.requests.submit(id, operation, &limits);
        self.dispatch(now);
    }

    /// A request that ended.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.requests.next_completion()
    }

    /// What the caller is to do next.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A connection that has something to send, each named once.
    pub fn next_woken(&mut self) -> Option<ConnectionId> {
        self.woken.pop_first()
    }

    /// All that a connection has to send, in order.
    #[must_use]
    pub fn transmit(&mut self, now: Nanos, id: ConnectionId) -> Vec<Segment> {
        self.last_sent = now;
        if let Some(dying) = self.dying.get_mut(&id) {
            return core::mem::take(&mut dying.segments);
        }
        match self.link(id) {
            Some(link) if link.stream_until.is_none() => link.queue.transmit(),
            _ => Vec::new(),
        }
    }

    fn link(&mut self, id: ConnectionId) -> Option<&mut Link> {
        match &mut self.state {
            State::Up(up) => up.links.get_mut(&id),
            State::Down { .. } | State::Over => None,
        }
    }

    /// A byte stream is there.
    pub fn connected(&mut self, id: ConnectionId) {
        if let Some(link) = self.link(id) {
            link.stream_until = None;
            self.woken.insert(id);
        }
    }

    /// Bytes of the peer.
    pub fn receive(&mut self, now: Nanos, id: ConnectionId, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(link) = self.link(id) else {
                return;
            };
            let received = link.queue.receive(rest);
            let mut settled = Ok(());
            while settled.is_ok()
                && let Some(told) = self.link(id).and_then(|link| link.queue.told.pop_front())
            {
                settled = self.settle(now, id, told);
            }
            match settled.and(received) {
                Ok(taken) => rest = &rest[taken..],
                Err(loss) => {
                    self.lose(now, loss);
                    return;
                }
            }
        }
        self.dispatch(now);
        self.wake(id);
    }

    fn wake(&mut self, id: ConnectionId) {
        if self.link(id).is_some_and(|link| link.queue.has_output()) {
            self.woken.insert(id);
        }
    }

    fn settle(&mut self, now: Nanos, id: ConnectionId, told: Told) -> Result<(), Loss> {
        let State::Up(up) = &mut self.state else {
            return Ok(());
        };
        match told {
            Told::Open => up.connect(now, &self.config, id),
            Told::Data {
                owner,
                offset,
                bytes,
            } => {
                match owner {
                    Owner::Part(part) => self.requests.fill(part, offset, &bytes),
                    _ => up.dialogue.fill(&bytes),
                }
                if let Some(link) = up.links.get_mut(&id) {
                    link.queue.recycle(bytes);
                }
            }
            Told::Done(done) => match done.owner {
                Owner::Part(part) => self.requests.answered(now, part, &done),
                _ => self.on_admin(now, id, &done)?,
            },
        }
        Ok(())
    }

    /// A command that is not a request's was answered.
    fn on_admin(&mut self, now: Nanos, id: ConnectionId, done: &Done) -> Result<(), Loss> {
        let State::Up(up) = &mut self.state else {
            return Ok(());
        };
        match done.owner {
            Owner::Connect => {
                up.connected(now, &self.config, id, done)?;
                if up.phase == Phase::Queues && up.has_all_queues() {
                    self.ready();
                }
            }
            Owner::Dialogue => {
                if up.answered(now, &self.config, done)? {
                    self.on_dialogue_over(now)?;
                }
            }
            Owner::KeepAlive => {
                up.is_asking = false;
                if !done.status.is_success() {
                    let (what, status) = ("Keep Alive", done.status);
                    return Err(Loss::Command { what, status });
                }
            }
            Owner::AsyncEvent if done.status.is_success() => {
                up.await_event();
                let notice = Notice::from_result((done.result & 0xffff_ffff) as u32);
                if notice.is_some_and(|notice| notice != Notice::Reliability) {
                    up.read_again(now, &self.config);
                }
            }
            Owner::AsyncEvent | Owner::Part(_) => {}
        }
        let admin = self.admin();
        admin.into_iter().for_each(|admin| self.wake(admin));
        Ok(())
    }

    fn admin(&self) -> Option<ConnectionId> {
        match &self.state {
            State::Up(up) => Some(up.admin),
            State::Down { .. } | State::Over => None,
        }
    }

    /// The admin queue has said what it was asked.
    fn on_dialogue_over(&mut self, now: Nanos) -> Result<(), Loss> {
        let State::Up(up) = &mut self.state else {
            return Ok(());
        };
        match up.phase {
            Phase::Ending => {
                self.end(now);
                return Ok(());
            }
            Phase::Starting if self.config.purpose == Purpose::Discovery => {
                up.phase = Phase::Ready;
                up.await_event();
                self.down_since = None;
                self.attempts = 0;
                self.events.push_back(Event::Log(up.dialogue.log.clone()));
            }
            Phase::Ready if self.config.purpose == Purpose::Discovery => {
                self.events.push_back(Event::Log(up.dialogue.log.clone()));
            }
            Phase::Starting => {
                self.take_namespace()?;
                self.open_queues(now);
            }
            Phase::Queues | Phase::Ready => {
                let before = self.namespace;
                self.take_namespace()?;
                if self.is_ready() && self.namespace != before {
                    self.events.extend(self.namespace.map(Event::Ready));
                }
            }
        }
        if let State::Up(up) = &mut self.state {
            if self.is_closing && up.phase == Phase::Ready {
                self.shut_down(now);
            } else if up.is_stale {
                up.read_again(now, &self.config);
            }
        }
        Ok(())
    }

    /// The namespace and what its controller takes, if it is the one requests are for.
    fn take_namespace(&mut self) -> Result<(), Loss> {
        let State::Up(up) = &self.state else {
            return Ok(());
        };
        let found = up.dialogue.namespace.ok_or(Loss::NoNamespace)?;
        if let Some(before) = &self.namespace
            && !is_same(before, &found)
        {
            return Err(Loss::OtherNamespace);
        }
        self.namespace = Some(found);
        self.limits = Some(up.dialogue.facts.limits(&found));
        self.keep_alive_step = up.dialogue.facts.keep_alive_step;
        Ok(())
    }

    /// Connects the I/O queues.
    fn open_queues(&mut self, now: Nanos) {
        let State::Up(up) = &mut self.state else {
            return;
        };
        up.phase = Phase::Queues;
        let facts = up.dialogue.facts;
        let data_max = facts.transfer_bytes.max(MAXH2CDATA_MIN);
        for qid in 1..=facts.queues {
            let id = self.new_id();
            let State::Up(up) = &mut self.state else {
                return;
            };
            let queue = Queue::new(qid, self.config.digests, data_max);
            up.links.insert(id, Link::new(now, queue, &self.config));
            self.actions.push_back(Action::Connect(id));
        }
    }

    /// Requests can be served.
    fn ready(&mut self) {
        let State::Up(up) = &mut self.state else {
            return;
        };
        up.phase = Phase::Ready;
        up.await_event();
        self.down_since = None;
        self.attempts = 0;
        self.events.extend(self.namespace.map(Event::Ready));
    }

    /// Sends what requests want while queues have room.
    fn dispatch(&mut self, now: Nanos) {
        let (State::Up(up), Some(limits)) = (&mut self.state, &self.limits) else {
            return;
        };
        if up.phase != Phase::Ready {
            return;
        }
        while let Some((id, queue)) = up.idlest() {
            let Some(part) = self.requests.next_part(now, limits) else {
                return;
            };
            let (sqe, transfer) = self.requests.command(part, limits);
            let deadline = now + self.config.times.command;
            queue.submit(sqe, transfer, Owner::Part(part), Some(deadline));
            self.woken.insert(id);
        }
    }

    /// When [`Host::tick`] has something to do.
    #[must_use]
    pub fn deadline(&mut self) -> Option<Nanos> {
        let dying = self.dying.values().map(|one| one.until).min();
        let own = match &mut self.state {
            State::Up(up) => {
                // A part that is due while no queue has room goes out when an answer makes some: time
                // has nothing to do for it, and its deadline would be in the past until then.
                let parts = self.requests.deadline();
                let parts = parts.filter(|_| up.phase == Phase::Ready && up.idlest().is_some());
                up.deadline().into_iter().chain(parts).min()
            }
            State::Down { retry_at } => {
                let lost_at = self.down_since.map(|since| since + self.config.times.loss);
                let retry_at = (*retry_at).max(self.quiet_until);
                let retry_at = self.dying.is_empty().then_some(retry_at);
                retry_at.into_iter().chain(lost_at).min()
            }
            State::Over => None,
        };
        dying.into_iter().chain(own).min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Nanos) {
        let late = self.dying.iter().filter(|(_, one)| one.until <= now);
        let late: Vec<_> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.actions.push_back(Action::Drop(id));
            if let Some(dying) = self.dying.remove(&id) {
                self.bury(&dying, false);
            }
        }
        match &mut self.state {
            State::Up(_) => self.tick_up(now),
            State::Down { retry_at } => {
                let retry_at = (*retry_at).max(self.quiet_until);
                let lost_at = self.down_since.map(|since| since + self.config.times.loss);
                if lost_at.is_some_and(|at| at <= now) {
                    self.state = State::Over;
                    self.requests.fail_all();
                    let (loss, is_final) = (Loss::Timeout, true);
                    self.events.push_back(Event::Lost { loss, is_final });
                } else if self.dying.is_empty() && retry_at <= now {
                    self.associate(now);
                }
            }
            State::Over => {}
        }
        self.note_closed();
    }

    /// Begins an association. Which namespace it is for is settled by the first that had one: the first
    /// namespace there is may be another one by now, and that would end everything.
    fn associate(&mut self, now: Nanos) {
        // What came before is dead.
        self.requests.end_unanswered(self.config.resends_max);
        let admin = self.new_id();
        let purpose = match (self.config.purpose, &self.namespace) {
            (Purpose::Namespace(_), Some(taken)) => Purpose::Namespace(Some(taken.nsid)),
            (purpose, _) => purpose,
        };
        let up = Association::new(now, &self.config, admin, purpose);
        self.state = State::Up(Box::new(up));
        self.actions.push_back(Action::Connect(admin));
    }

    fn tick_up(&mut self, now: Nanos) {
        let State::Up(up) = &mut self.state else {
            return;
        };
        let mut links = up.links.values_mut();
        let is_late = links.any(|link| link.deadline().is_some_and(|at| at <= now));
        if is_late {
            return self.lose(now, Loss::Timeout);
        }
        let admin = up.admin;
        if up.keep_alive_at.is_some_and(|at| at <= now) {
            up.keep_alive(now, &self.config);
        }
        if up.talk_at.is_some_and(|at| at <= now) {
            up.talk(now, &self.config);
        }
        self.wake(admin);
        self.dispatch(now);
    }

    /// Asks for an orderly end: the controller is shut down, then all connections are closed, then
    /// [`Event::Closed`] is told. Requests that have not ended fail, further ones are refused. Asked
    /// again before that, it changes nothing: the shutdown goes on.
    pub fn close(&mut self, now: Nanos) {
        if self.is_closing {
            return;
        }
        self.is_closing = true;
        match &self.state {
            State::Up(up) if up.phase == Phase::Ready && !up.is_talking => self.shut_down(now),
            // The shutdown follows what is being asked.
            State::Up(up) if up.phase == Phase::Ready => {}
            State::Up(_) => self.end(now),
            State::Down { .. } => {
                self.state = State::Over;
                self.requests.fail_all();
            }
            State::Over => {}
        }
        self.tick(now);
    }

    fn shut_down(&mut self, now: Nanos) {
        let State::Up(up) = &mut self.state else {
            return;
        };
        up.phase = Phase::Ending;
        up.dialogue.begin(Step::Shutdown);
        up.talk(now, &self.config);
        let admin = up.admin;
        self.requests.fail_all();
        self.wake(admin);
    }

    /// The association ends because the caller wants it.
    fn end(&mut self, now: Nanos) {
        let State::Up(up) = core::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        for (id, link) in up.into_links() {
            self.put_down(now, id, link, None);
        }
        self.requests.fail_all();
    }
}
