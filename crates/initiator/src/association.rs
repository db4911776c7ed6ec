//! An association: the admin queue, its dialogue, the I/O queues.

use crate::config::{Config, Purpose};
use crate::dialogue::{Dialogue, Step, Turn};
use crate::error::Loss;
use crate::flights::{Owner, Transfer};
use crate::payload::Payload;
use crate::queue::{Done, Queue};
use crate::{ADMIN_ENTRIES, TRANSFER_BYTES_MAX};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use varve_nvme::Sqe;
use varve_nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData};
use varve_nvme::opcode::admin;
use varve_units::Nanos;
use zerocopy::IntoBytes;

/// Names a connection; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnectionId(pub u64);

/// A queue and its connection.
pub(crate) struct Link {
    pub queue: Queue,
    /// There is no byte stream yet; there has to be by then.
    pub stream_until: Option<Nanos>,
    /// Until ICResp is there.
    pub open_until: Nanos,
    pub is_open: bool,
    pub is_connected: bool,
}

/// How far an association is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The admin queue is being connected, or the dialogue is on.
    Starting,
    /// I/O queues are being connected.
    Queues,
    /// Requests are served.
    Ready,
    /// A shutdown was asked for.
    Ending,
}

/// An association.
pub(crate) struct Association {
    pub phase: Phase,
    pub admin: ConnectionId,
    pub links: BTreeMap<ConnectionId, Link>,
    pub dialogue: Dialogue,
    /// The dialogue's command is in flight or waits for its time.
    pub is_talking: bool,
    /// The dialogue goes on then.
    pub talk_at: Option<Nanos>,
    /// An event came while the dialogue was on.
    pub is_stale: bool,
    pub keep_alive_at: Option<Nanos>,
    /// A Keep Alive was not answered yet.
    pub is_asking: bool,
    cntlid: u16,
}

impl Link {
    pub fn new(now: Nanos, queue: Queue, config: &Config) -> Self {
        Self {
            queue,
            stream_until: Some(now + config.times.connect),
            open_until: now + config.times.connect + config.times.admin,
            is_open: false,
            is_connected: false,
        }
    }

    /// When it is late with something.
    pub fn deadline(&mut self) -> Option<Nanos> {
        let open = (!self.is_open).then_some(self.stream_until.unwrap_or(self.open_until));
        open.into_iter().chain(self.queue.deadline()).min()
    }
}

impl Association {
    pub fn new(now: Nanos, config: &Config, admin: ConnectionId, purpose: Purpose) -> Self {
        let queue = Queue::new(0, config.digests, TRANSFER_BYTES_MAX);
        let link = Link::new(now, queue, config);
        Self {
            phase: Phase::Starting,
            admin,
            links: BTreeMap::from([(admin, link)]),
            dialogue: Dialogue::new(purpose, config.queues),
            is_talking: false,
            talk_at: None,
            is_stale: false,
            keep_alive_at: None,
            is_asking: false,
            cntlid: CNTLID_DYNAMIC,
        }
    }

    /// Sends a command on the admin queue.
    ///
    /// Its slots suffice: one command of the dialogue, one Keep Alive, one request for events.
    fn submit_admin(
        &mut self,
        sqe: Sqe,
        transfer: Transfer,
        owner: Owner,
        deadline: Option<Nanos>,
    ) {
        if let Some(link) = self.links.get_mut(&self.admin) {
            link.queue.submit(sqe, transfer, owner, deadline);
        }
    }

    /// A queue takes capsules: Connect is the first.
    pub fn connect(&mut self, now: Nanos, config: &Config, id: ConnectionId) {
        let entries = self.dialogue.facts.queue_entries(config.queue_entries);
        let cntlid = self.cntlid;
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.is_open = true;
        let qid = link.queue.qid;
        let is_admin = qid == 0;
        let kato_ms = (config.times.keep_alive.0 / 1_000_000).min(u32::MAX.into()) as u32;
        let connect = Connect {
            recfmt: 0,
            qid,
            sqsize: if is_admin { ADMIN_ENTRIES } else { entries } - 1,
            flow_control: false,
            kato_ms: if is_admin { kato_ms } else { 0 },
        };
        let data = ConnectData::new(config.hostid, cntlid, &config.connect_to(), &config.host);
        let payload = Payload::Bytes(data.as_bytes().into());
        let length = size_of::<ConnectData>() as u32;
        let transfer = Transfer::ToController(payload, length);
        let deadline = now + config.times.admin;
        let sqe = connect.to_sqe(0);
        link.queue
            .submit(sqe, transfer, Owner::Connect, Some(deadline));
    }

    /// Connect of a queue was answered.
    pub fn connected(
        &mut self,
        now: Nanos,
        config: &Config,
        id: ConnectionId,
        done: &Done,
    ) -> Result<(), Loss> {
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        let is_admin = link.queue.qid == 0;
        if !done.status.is_success() {
            let status = done.status;
            let what = "connecting the admin queue";
            return Err(if is_admin {
                Loss::Command { what, status }
            } else {
                Loss::IoQueue(status)
            });
        }
        link.is_connected = true;
        if is_admin {
            link.queue.grow(ADMIN_ENTRIES - 1);
            self.cntlid = (done.result & 0xffff) as u16;
            self.talk(now, config);
        } else {
            let facts = &self.dialogue.facts;
            let entries = facts.queue_entries(config.queue_entries);
            link.queue.grow(facts.queue_commands(entries).max(1));
            link.queue.capsule_data_max = facts.capsule_data;
        }
        Ok(())
    }

    /// Sends the dialogue's next command.
    pub fn talk(&mut self, now: Nanos, config: &Config) {
        self.is_talking = true;
        self.talk_at = None;
        let (sqe, bytes) = self.dialogue.command();
        let transfer = match bytes {
            0 => Transfer::None,
            bytes => Transfer::ToHost(bytes),
        };
        let deadline = now + config.times.admin;
        self.submit_admin(sqe, transfer, Owner::Dialogue, Some(deadline));
    }

    /// The dialogue's command was answered. True if the dialogue is over.
    pub fn answered(&mut self, now: Nanos, config: &Config, done: &Done) -> Result<bool, Loss> {
        let step = self.dialogue.step;
        let turn = self.dialogue.answered(now, done)?;
        if step == Step::Controller {
            // It is ready by now, and says here whether it has the command.
            self.keep_alive_at = self.keep_alive_after(now, config);
        }
        match turn {
            Turn::Send => self.talk(now, config),
            Turn::Wait(until) => self.talk_at = Some(until),
            Turn::Over => {
                self.is_talking = false;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads again what an event said has changed, unless the dialogue is on.
    pub fn read_again(&mut self, now: Nanos, config: &Config) {
        if self.is_talking {
            self.is_stale = true;
            return;
        }
        self.is_stale = false;
        let step = match config.purpose {
            Purpose::Namespace(_) => Step::Changed,
            Purpose::Discovery => Step::LogHead,
        };
        self.dialogue.begin(step);
        self.talk(now, config);
    }

    /// Asks for the next event, if the controller has any.
    pub fn await_event(&mut self) {
        if self.dialogue.facts.events != 0 {
            let sqe = Sqe::new(admin::ASYNC_EVENT, 0, 0);
            self.submit_admin(sqe, Transfer::None, Owner::AsyncEvent, None);
        }
    }

    /// Sends a Keep Alive, unless the last one was not answered yet.
    pub fn keep_alive(&mut self, now: Nanos, config: &Config) {
        self.keep_alive_at = self.keep_alive_after(now, config);
        if self.is_asking {
            return;
        }
        self.is_asking = true;
        let sqe = Sqe::new(admin::KEEP_ALIVE, 0, 0);
        let deadline = now + config.times.admin;
        self.submit_admin(sqe, Transfer::None, Owner::KeepAlive, Some(deadline));
    }

    /// When something is to be done.
    pub fn deadline(&mut self) -> Option<Nanos> {
        let links = self.links.values_mut().filter_map(Link::deadline);
        let own = [self.talk_at, self.keep_alive_at].into_iter().flatten();
        links.chain(own).min()
    }

    /// True if all I/O queues are connected.
    pub fn has_all_queues(&self) -> bool {
        self.links.values().all(|link| link.is_connected)
    }

    /// The I/O queue with the most room.
    pub fn idlest(&mut self) -> Option<(ConnectionId, &mut Queue)> {
        let links = self.links.iter_mut();
        let queues = links.map(|(id, link)| (*id, &mut link.queue));
        let usable = queues.filter(|(_, queue)| queue.qid != 0 && queue.has_room());
        usable.min_by_key(|(_, queue)| queue.in_flight())
    }

    /// Connections, from now on the caller's.
    pub fn into_links(self) -> Vec<(ConnectionId, Link)> {
        self.links.into_iter().collect()
    }

    /// When the next Keep Alive goes out; never if this side wants none or the controller has none.
    fn keep_alive_after(&self, now: Nanos, config: &Config) -> Option<Nanos> {
        let timeout = config.times.keep_alive.0;
        let has_it = self.dialogue.facts.keep_alive_step > Nanos(0);
        (timeout > 0 && has_it).then(|| now + Nanos(timeout / 2))
    }
}
