//! A connection: two directions, a host's end and the target's.
//!
//! A reset that reaches a host means that the target's machine has forgotten the connection: nothing that
//! was sent will still be read. A path that fails means nothing of that kind: what was sent may arrive
//! later, and the target is not told.

use super::network::Tally;
use super::pipe::{Broken, Pipe};
use crate::executor::Reactor;
use crate::rng::Rng;
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::rc::Rc;
use varve_initiator::{ByteStream, Segment, StreamEnd};
use varve_io::World;
use varve_server::stream::Call;
use varve_server::{ByteStream as TargetStream, Content};
use varve_target::Segment as TargetSegment;
use varve_units::Nanos;

/// A connection.
pub(super) struct Connection {
    /// Whose it is.
    pub host: u64,
    /// Host to target.
    pub up: Pipe,
    /// Target to host.
    pub down: Pipe,
    latency: Nanos,
    tally: Rc<Tally>,
    /// The target has closed it or does not know it any more.
    is_target_gone: Cell<bool>,
    is_host_gone: Cell<bool>,
    /// Nothing that either end does reaches the other.
    is_cut_off: Cell<bool>,
    was_held: Cell<bool>,
}

impl Connection {
    pub fn new(number: u64, host: u64, mut rng: Rng, tally: Rc<Tally>) -> Rc<Self> {
        let latency = Nanos(rng.magnitude(1_000, 100_000));
        Rc::new(Self {
            host,
            up: Pipe::new(number * 2, rng.split("up"), latency),
            down: Pipe::new(number * 2 + 1, rng.split("down"), latency),
            latency,
            tally,
            is_target_gone: Cell::new(false),
            is_host_gone: Cell::new(false),
            is_cut_off: Cell::new(false),
            was_held: Cell::new(false),
        })
    }

    /// The way through the network.
    pub const fn latency(&self) -> Nanos {
        self.latency
    }

    /// True if neither end will do anything with it.
    pub const fn is_over(&self) -> bool {
        self.is_target_gone.get() && self.is_host_gone.get()
    }

    /// True if both ends believe in it.
    pub const fn is_whole(&self) -> bool {
        !self.is_target_gone.get() && !self.is_host_gone.get() && !self.is_cut_off.get()
    }

    fn count_cut(&self, was_cut: bool) {
        if was_cut {
            self.tally.count("nvme_cut");
        }
    }

    /// The target's machine forgets it and says so: both ends are told, the host behind some of the
    /// answers that are under way.
    pub fn reset(&self, now: Nanos) {
        self.is_target_gone.set(true);
        self.count_cut(self.up.cut(0));
        self.up.break_off(now, Broken::Reset);
        self.up.refuse(Broken::Reset);
        self.count_cut(self.down.cut(self.down.any_place()));
        self.down.break_off(now + self.latency, Broken::Reset);
        self.down.refuse(Broken::Reset);
    }

    /// The network fails, and the host gives up at `given_up`. What it has sent by then still reaches the
    /// target, at `until` if the connection was not held before; the target is told nothing.
    pub fn fail_path(&self, given_up: Nanos, until: Nanos) {
        self.is_cut_off.set(true);
        if !self.was_held.replace(true) {
            self.up.hold(until);
        }
        self.count_cut(self.down.cut(self.down.any_place()));
        self.down.lose_rest();
        self.down.break_off(given_up, Broken::Silent);
    }

    /// Nothing arrives before `until`. A connection is held once only: no byte is late by more than
    /// that.
    pub fn hold(&self, until: Nanos, up: bool, down: bool) -> bool {
        if self.was_held.replace(true) {
            return false;
        }
        if up {
            self.up.hold(until);
        }
        if down {
            self.down.hold(until);
        }
        true
    }

    /// Whatever is held arrives.
    pub fn release(&self) {
        self.up.release();
        self.down.release();
    }

    /// The power of the target's machine fails. The host is told at `told`, or when it sends something.
    pub fn power_fail(&self, told: Option<Nanos>) {
        if self.is_target_gone.replace(true) {
            return;
        }
        self.up.cut(0);
        self.up.lose_rest();
        self.down.cut(0);
        self.down.lose_rest();
        if let Some(at) = told {
            self.down.break_off(at, Broken::Reset);
        }
    }

    /// The host sent something; a machine that does not know the connection says so.
    fn knock(&self, now: Nanos) {
        if self.is_target_gone.get() && !self.is_cut_off.get() {
            let at = now + self.latency + self.latency;
            self.down.break_off(at, Broken::Reset);
        }
    }

    fn leave_host(&self, now: Nanos) {
        if self.is_host_gone.replace(true) {
            return;
        }
        self.down.cut(0);
        self.down.break_off(now, Broken::Silent);
        if self.is_cut_off.get() {
            self.up.lose_rest();
        } else {
            self.up.end();
            self.down.refuse(Broken::Reset);
        }
    }

    /// The target closes it: with what it has not read, by a reset.
    fn leave_target(&self, now: Nanos) {
        if self.is_target_gone.replace(true) {
            return;
        }
        if !self.is_host_gone.get() && (self.is_cut_off.get() || self.was_held.get()) {
            self.tally.count("nvme_expiry");
        }
        let is_unread = self.up.cut(0);
        self.up.refuse(Broken::Reset);
        if is_unread {
            self.count_cut(self.down.cut(self.down.any_place()));
            self.down.break_off(now + self.latency, Broken::Reset);
        } else {
            self.down.end();
        }
    }
}

/// A host's end.
pub struct HostEnd {
    connection: Rc<Connection>,
    world: Rc<Reactor>,
}

impl HostEnd {
    pub(super) const fn new(connection: Rc<Connection>, world: Rc<Reactor>) -> Self {
        Self { connection, world }
    }
}

const fn end_of(broken: Broken) -> StreamEnd {
    match broken {
        Broken::Reset => StreamEnd::Peer,
        Broken::Silent => StreamEnd::Unknown,
    }
}

impl ByteStream for HostEnd {
    fn receive(
        &self,
        into: Vec<u8>,
    ) -> impl Future<Output = Result<(usize, Vec<u8>), StreamEnd>> + 'static {
        let (connection, world) = (Rc::clone(&self.connection), Rc::clone(&self.world));
        async move {
            let received = connection.down.receive(&world, into).await;
            received.map_err(end_of)
        }
    }

    fn send(
        &self,
        segments: Vec<Segment>,
    ) -> impl Future<Output = Result<(), StreamEnd>> + 'static {
        let (connection, world) = (Rc::clone(&self.connection), Rc::clone(&self.world));
        async move {
            let parts: Vec<&[u8]> = segments.iter().map(AsRef::as_ref).collect();
            let sent = connection.up.send(&world, &parts).await;
            connection.knock(world.now());
            sent.map_err(end_of)
        }
    }

    fn end_sending(&self) {
        if self.connection.is_cut_off.get() {
            self.connection.up.lose_rest();
        } else {
            self.connection.up.end();
        }
        self.connection.knock(self.world.now());
    }

    fn end(&self) {
        self.connection.leave_host(self.world.now());
    }
}

impl Drop for HostEnd {
    fn drop(&mut self) {
        self.end();
    }
}

/// The target's end.
pub(super) struct TargetEnd {
    connection: Rc<Connection>,
    world: Rc<Reactor>,
}

impl TargetEnd {
    pub const fn new(connection: Rc<Connection>, world: Rc<Reactor>) -> Self {
        Self { connection, world }
    }
}

fn error_of(broken: Broken) -> io::Error {
    match broken {
        Broken::Reset => io::ErrorKind::ConnectionReset.into(),
        Broken::Silent => io::ErrorKind::TimedOut.into(),
    }
}

impl TargetStream for TargetEnd {
    fn receive(&self, into: Vec<u8>) -> Call<(usize, Vec<u8>)> {
        let (connection, world) = (Rc::clone(&self.connection), Rc::clone(&self.world));
        Box::pin(async move {
            let received = connection.up.receive(&world, into).await;
            received.map_err(error_of)
        })
    }

    fn send(&self, what: Vec<TargetSegment<Content>>) -> Call<()> {
        let (connection, world) = (Rc::clone(&self.connection), Rc::clone(&self.world));
        Box::pin(async move {
            let parts: Vec<&[u8]> = what.iter().map(AsRef::as_ref).collect();
            let sent = connection.down.send(&world, &parts).await;
            sent.map_err(error_of)
        })
    }

    fn end_sending(&self) -> io::Result<()> {
        self.connection.down.end();
        Ok(())
    }
}

impl Drop for TargetEnd {
    fn drop(&mut self) {
        self.connection.leave_target(self.world.now());
    }
}
