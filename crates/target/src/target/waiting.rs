//! Connects of I/O queues that wait until nothing of an earlier association of their host is left at
//! the backend.
//!
//! **Invariants**: who waits has an association that could have one more queue (whether that one is looked at when its
//! turn comes); a host has few that wait, and none waits for long.

use super::Target;
use crate::action::Tag;
use crate::admin::Reply;
use crate::connection::{Connection, ConnectionId, Phase};
use crate::controller::Host;
use crate::slots::State;
use crate::{CONNECT_WAIT_MAX, CONNECTS_WAITING_MAX, fabrics};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use varve_nvme::{Nqn, Status};
use varve_units::Nanos;

/// A Connect of an I/O queue that waits.
struct Waiting {
    tag: Tag,
    /// The controller it names.
    cntlid: u16,
    /// Its host, if the name is one.
    host: Option<Host>,
}

impl<D: AsRef<[u8]>> Target<D> {
    /// Connections that wait to be I/O queues of a host's association end with it. Left alone they
    /// would be refused much later.
    pub(super) fn close_waiting(&mut self, cntlid: u16, host: &Host) {
        let waiting: Vec<_> = self.waiting.keys().copied().collect();
        for id in waiting {
            if self
                .connecting(id)
                .is_some_and(|one| one.cntlid == cntlid && one.host.as_ref() == Some(host))
            {
                self.close(id);
            }
        }
    }

    /// Whose connection it is.
    pub(super) fn host_of(&self, connection: &Connection<D>) -> Option<Host> {
        let controller = self.shared.controllers.get(&connection.queue?.cntlid)?;
        Some(controller.host.clone())
    }

    /// Hosts of whom commands of an association that ended are at the backend.
    fn with_remains(&self) -> BTreeSet<Host> {
        let all = self.connections.values();
        let ending = all.filter(|one| one.phase == Phase::Closing && one.slots.at_backend() > 0);
        let ending = ending.filter_map(|one| self.host_of(one));
        let gone = self.remains.values().map(|(whose, ..)| whose.clone());
        ending.chain(gone).collect()
    }

    /// Answers Connects of I/O queues: with success those whose host has nothing left at the backend, with an
    /// error those that would have one anyway, are too many for one host or have waited for too long.
    pub(super) fn connect_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let with_remains = self.with_remains();
        let mut counts = BTreeMap::new();
        let waiting: Vec<_> = self
            .waiting
            .iter()
            .map(|(id, since)| (*id, *since))
            .collect();
        for (id, since) in waiting {
            let Some(Waiting { tag, host, .. }) = self.connecting(id) else {
                self.waiting.remove(&id);
                continue;
            };
            let host = host.filter(|host| !self.is_early && with_remains.contains(host));
            let Some(host) = host else {
                self.answer_connect(id, tag, None);
                continue;
            };
            match self.why_not_wait(id, tag, since) {
                None if counts.get(&host) == Some(&CONNECTS_WAITING_MAX) => {
                    self.answer_connect(id, tag, Some(Status::ConnectBusy.into()));
                }
                None => *counts.entry(host).or_default() += 1,
                refusal => self.answer_connect(id, tag, refusal),
            }
        }
    }

    /// Why a Connect is not to wait (any longer).
    fn why_not_wait(&mut self, id: ConnectionId, tag: Tag, since: Nanos) -> Option<Reply> {
        if self.shared.clock.ran().since(since) >= CONNECT_WAIT_MAX {
            return Some(Status::ConnectBusy.into());
        }
        let slot = self.connections.get_mut(&id)?.slots.get_mut(tag)?;
        let State::Connecting(data) = &slot.state else {
            return None;
        };
        fabrics::check_association(&mut self.shared, data).err()
    }

    /// Answers a Connect that waits: as its association allows, unless it is refused.
    fn answer_connect(&mut self, id: ConnectionId, tag: Tag, refusal: Option<Reply>) {
        self.waiting.remove(&id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(slot) = connection.slots.remove(tag) else {
            return;
        };
        let State::Connecting(data) = &slot.state else {
            return;
        };
        let answer = match refusal {
            Some(reply) => Err(reply),
            None => fabrics::connect_queue(connection, &mut self.shared, &slot.sqe, data),
        };
        match answer {
            Ok(result) => connection.succeed(&slot.sqe, result),
            Err(reply) => connection.fail(&mut self.shared, &slot.sqe, reply),
        }
        self.woken.insert(id);
    }

    /// When the first of them will have waited for too long, in the time the caller ran.
    pub(super) fn waiting_until(&self) -> Option<Nanos> {
        let first = self.waiting.values().min();
        first.map(|since| *since + CONNECT_WAIT_MAX)
    }

    /// The Connect that a connection waits with.
    fn connecting(&mut self, id: ConnectionId) -> Option<Waiting> {
        if !self.is_live(id) {
            return None;
        }
        let slots = &mut self.connections.get_mut(&id)?.slots;
        let tag = slots.find(|slot| matches!(slot.state, State::Connecting(_)))?;
        let State::Connecting(data) = &slots.get_mut(tag)?.state else {
            return None;
        };
        let host = Nqn::from_field(&data.hostnqn).ok().map(|nqn| Host {
            nqn,
            id: data.hostid,
        });
        Some(Waiting {
            tag,
            cntlid: data.cntlid.get(),
            host,
        })
    }
}
