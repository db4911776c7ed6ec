//! A remote namespace as a drive: the machine driven over a transport.
//!
//! Three kinds of flow share the machine: one per connection that receives, one that sends, and one
//! that watches the time. Each looks, waits, looks again; no borrow of the machine lives across an
//! await. After each step [`Driver::poke`] does what the machine asks for.

use crate::association::ConnectionId;
use crate::config::Config;
use crate::error::{Failure, Loss};
use crate::facts::NamespaceInfo;
use crate::host::{Action, Event, Host};
use crate::payload::Segment;
use crate::requests::{Completion, Operation};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use varve_io::{
    Command, Completion as DriveCompletion, Done, Drive, DriveInfo, Event as Signal, GAP_BLOCKS,
    Outcome, Receiver, Sender, World, slot,
};
use varve_nvme::discovery::Found;
use varve_units::Nanos;

/// Memory a connection receives into, in bytes. Arbitrary: some commands' worth in one call.
const RECEIVE_BYTES: usize = 256 << 10;

/// What happened is kept for who asks: so many of the newest. Arbitrary.
const EVENTS_MAX: usize = 64;

/// How a byte stream ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// The peer ended it or does not know it any more: nothing that was sent will still arrive.
    Peer,
    /// This side gave it up, or the network failed: what was sent may still arrive.
    Unknown,
}

/// A connected byte stream. One call per direction is in flight at a time.
pub trait ByteStream: 'static {
    /// Receives what is there, or waits for some, behind what `into` holds, as far as its capacity
    /// goes; 0 if the peer has ended its side.
    ///
    /// # Errors
    /// How the stream ended.
    fn receive(
        &self,
        into: Vec<u8>,
    ) -> impl Future<Output = Result<(usize, Vec<u8>), StreamEnd>> + 'static;

    /// Sends all segments in order.
    ///
    /// # Errors
    /// How the stream ended.
    fn send(&self, segments: Vec<Segment>)
    -> impl Future<Output = Result<(), StreamEnd>> + 'static;

    /// Ends the sending direction; what was sent still arrives.
    fn end_sending(&self);

    /// Ends both directions; calls in flight end.
    fn end(&self);
}

/// Makes byte streams to one target.
pub trait Transport: 'static {
    /// Its streams.
    type Stream: ByteStream;

    /// A new stream.
    ///
    /// # Errors
    /// How it ended before it began.
    fn connect(&self) -> impl Future<Output = Result<Self::Stream, StreamEnd>> + 'static;
}

/// Why there is no drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectError(pub Loss);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for ConnectError {}

/// Who waits for a request.
enum Waiting {
    Drive(Sender<Outcome>),
    Caller(Sender<Completion>),
}

/// A stream and its sender's signal.
struct Link<S> {
    stream: S,
    wake: Signal,
    is_closing: Cell<bool>,
    is_over: Cell<bool>,
    /// How a send failed: after that, what the receiver sees is this side's own doing.
    failed: Cell<Option<StreamEnd>>,
}

/// The machine with all it needs to run.
struct Driver<T: Transport> {
    host: RefCell<Host>,
    world: Rc<dyn World>,
    transport: T,
    /// Connections that wait for their stream.
    connecting: RefCell<BTreeSet<ConnectionId>>,
    links: RefCell<BTreeMap<ConnectionId, Rc<Link<T::Stream>>>>,
    /// By the id of their requests.
    waiting: RefCell<Vec<Option<Waiting>>>,
    free: RefCell<Vec<usize>>,
    /// What happened and was not looked at.
    events: RefCell<Vec<Event>>,
    happened: Signal,
    /// The timer waits for this time.
    armed: Cell<Option<Nanos>>,
    timer: Signal,
    /// The end that was asked for has come.
    is_over: Cell<bool>,
}

/// A namespace of a target as a drive. It reconnects by itself; while it does, commands wait.
pub struct RemoteDrive<T: Transport> {
    driver: Rc<Driver<T>>,
    info: NamespaceInfo,
}

impl<T: Transport> Driver<T> {
    fn start(world: Rc<dyn World>, transport: T, config: Config) -> Rc<Self> {
        let host = Host::new(world.now(), config);
        let driver = Rc::new(Self {
            host: RefCell::new(host),
            world,
            transport,
            connecting: RefCell::default(),
            links: RefCell::default(),
            waiting: RefCell::default(),
            free: RefCell::default(),
            events: RefCell::default(),
            happened: Signal::new(),
            armed: Cell::new(None),
            timer: Signal::new(),
            is_over: Cell::new(false),
        });
        driver.poke();
        let timer = Rc::clone(&driver);
        driver.world.spawn(Box::pin(timer.watch_time()));
        driver
    }

    /// Does what the machine asks for.
    fn poke(self: &Rc<Self>) {
        loop {
            let action = self.host.borrow_mut().next_action();
            match action {
                Some(action) => self.act(action),
                None => break,
            }
        }
        loop {
            let completion = self.host.borrow_mut().next_completion();
            match completion {
                Some(completion) => self.complete(completion),
                None => break,
            }
        }
        loop {
            let woken = self.host.borrow_mut().next_woken();
            let Some(id) = woken else { break };
            if let Some(link) = self.links.borrow().get(&id) {
                link.wake.notify();
            }
        }
        loop {
            let event = self.host.borrow_mut().next_event();
            let Some(event) = event else { break };
            if event == Event::Closed {
                // For all who wait for the end, however many: not one of what happened, which the
                // first who asks would take from the others.
                self.is_over.set(true);
                self.timer.notify();
                self.happened.notify();
                continue;
            }
            let mut events = self.events.borrow_mut();
            if events.len() == EVENTS_MAX {
                events.remove(0);
            }
            events.push(event);
            drop(events);
            self.happened.notify();
        }
        let deadline = self.host.borrow_mut().deadline();
        let is_earlier = match (deadline, self.armed.get()) {
            (Some(deadline), Some(armed)) => deadline < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_earlier {
            self.timer.notify();
        }
    }

    fn act(self: &Rc<Self>, action: Action) {
        match action {
            Action::Connect(id) => {
                self.connecting.borrow_mut().insert(id);
                let flow = Rc::clone(self).carry(id);
                self.world.spawn(Box::pin(flow));
            }
            Action::Close(id) => {
                if let Some(link) = self.links.borrow().get(&id) {
                    link.is_closing.set(true);
                    link.wake.notify();
                }
            }
            Action::Drop(id) => {
                self.connecting.borrow_mut().remove(&id);
                let link = self.links.borrow_mut().remove(&id);
                if let Some(link) = link {
                    link.is_over.set(true);
                    link.stream.end();
                    link.wake.notify();
                }
            }
        }
    }

    fn complete(&self, completion: Completion) {
        let index = completion.id as usize;
        let waiting = self.waiting.borrow_mut()[index].take();
        self.free.borrow_mut().push(index);
        match waiting.expect("a request ends once") {
            Waiting::Caller(sender) => sender.send(completion),
            Waiting::Drive(sender) => sender.send(match (completion.result, completion.memory) {
                (Ok(()), Some(memory)) => Ok(Done::Read(memory)),
                (Ok(()), None) => Ok(Done::Nothing),
                (Err(failure), _) => Err(failure.io_error()),
            }),
        }
    }

    fn submit(self: &Rc<Self>, operation: Operation, waiting: Waiting) {
        let index = match self.free.borrow_mut().pop() {
            Some(index) => index,
            None => {
                let mut all = self.waiting.borrow_mut();
                all.push(None);
                all.len() - 1
            }
        };
        self.waiting.borrow_mut()[index] = Some(waiting);
        let now = self.world.now();
        self.host.borrow_mut().submit(now, index as u64, operation);
        self.poke();
    }

    /// A connection from its beginning to its end; this flow receives.
    async fn carry(self: Rc<Self>, id: ConnectionId) {
        let stream = self.transport.connect().await;
        if !self.connecting.borrow_mut().remove(&id) {
            // Nobody waits for it any more.
            return;
        }
        let end = match stream {
            Err(end) => end,
            Ok(stream) => {
                let link = Rc::new(Link {
                    stream,
                    wake: Signal::new(),
                    is_closing: Cell::new(false),
                    is_over: Cell::new(false),
                    failed: Cell::new(None),
                });
                self.links.borrow_mut().insert(id, Rc::clone(&link));
                let sender = Rc::clone(&self).send(id, Rc::clone(&link));
                self.world.spawn(Box::pin(sender));
                self.host.borrow_mut().connected(id);
                self.poke();
                let end = self.receive(id, &link).await;
                link.failed.get().unwrap_or(end)
            }
        };
        let link = self.links.borrow_mut().remove(&id);
        if let Some(link) = link {
            link.is_over.set(true);
            link.stream.end();
            link.wake.notify();
        }
        let now = self.world.now();
        let by_peer = end == StreamEnd::Peer;
        self.host.borrow_mut().closed(now, id, by_peer);
        self.poke();
    }

    async fn receive(self: &Rc<Self>, id: ConnectionId, link: &Link<T::Stream>) -> StreamEnd {
        let mut memory = Vec::with_capacity(RECEIVE_BYTES);
        loop {
            match link.stream.receive(memory).await {
                Err(end) => return end,
                Ok((0, _)) => return StreamEnd::Peer,
                Ok((_, bytes)) => {
                    let now = self.world.now();
                    self.host.borrow_mut().receive(now, id, &bytes);
                    self.poke();
                    memory = bytes;
                    memory.clear();
                }
            }
        }
    }

    /// Sends what a connection has to send.
    async fn send(self: Rc<Self>, id: ConnectionId, link: Rc<Link<T::Stream>>) {
        while !link.is_over.get() {
            let segments = self.host.borrow_mut().transmit(self.world.now(), id);
            if !segments.is_empty() {
                if let Err(end) = link.stream.send(segments).await {
                    // The receiver tells the machine.
                    link.failed.set(Some(end));
                    link.stream.end();
                    return;
                }
            } else if link.is_closing.get() {
                link.stream.end_sending();
                return;
            } else {
                link.wake.listen().await;
            }
        }
    }

    async fn watch_time(self: Rc<Self>) {
        while !self.is_over.get() {
            let now = self.world.now();
            let deadline = self.host.borrow_mut().deadline();
            self.armed.set(deadline);
            match deadline {
                Some(at) if at <= now => {
                    self.host.borrow_mut().tick(now);
                    self.poke();
                }
                Some(at) => {
                    let sleep = self.world.sleep(at.since(now));
                    either(sleep, self.timer.listen()).await;
                }
                None => self.timer.listen().await,
            }
        }
    }

    /// The next thing that happened.
    async fn next_event(&self) -> Event {
        loop {
            let first = {
                let mut events = self.events.borrow_mut();
                (!events.is_empty()).then(|| events.remove(0))
            };
            match first {
                Some(event) => return event,
                None => self.happened.listen().await,
            }
        }
    }

    /// Ends all in good order.
    async fn close(self: &Rc<Self>) {
        if self.is_over.get() {
            return;
        }
        let now = self.world.now();
        self.host.borrow_mut().close(now);
        self.poke();
        while !self.is_over.get() {
            self.happened.listen().await;
        }
    }
}

/// Ends with the first of both.
async fn either(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        let is_over =
            first.as_mut().poll(context).is_ready() || second.as_mut().poll(context).is_ready();
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

impl<T: Transport> RemoteDrive<T> {
    /// Connects to the namespace that `config` names.
    ///
    /// # Errors
    /// Why the first attempt failed; later losses are made good by new attempts.
    pub async fn connect(
        world: Rc<dyn World>,
        transport: T,
        config: Config,
    ) -> Result<Self, ConnectError> {
        let driver = Driver::start(world, transport, config);
        loop {
            match driver.next_event().await {
                Event::Ready(info) => return Ok(Self { driver, info }),
                Event::Lost { loss, .. } => {
                    driver.close().await;
                    return Err(ConnectError(loss));
                }
                Event::Log(_) | Event::Closed => {}
            }
        }
    }

    /// The namespace as it was when the drive was opened.
    #[must_use]
    pub const fn namespace(&self) -> &NamespaceInfo {
        &self.info
    }

    /// I/O queues that the controller gave, and commands each takes at a time; `None` while there is
    /// no association.
    #[must_use]
    pub fn queues(&self) -> Option<(u16, u16)> {
        self.driver.host.borrow().queues()
    }

    /// Plants bugs: see [`Host::plant`].
    pub fn plant(&self, restless: bool, vouching: bool) {
        self.driver.host.borrow_mut().plant(restless, vouching);
    }

    /// What happened since the last call: losses, returns, other sizes.
    #[must_use]
    pub fn take_events(&self) -> Vec<Event> {
        self.driver.events.take()
    }

    /// See [`Host::accept_loss`]. A drive whose flush failed is lost to whoever uses it as nothing but a
    /// drive: connecting anew is what helps there.
    pub fn accept_loss(&self) {
        self.driver.host.borrow_mut().accept_loss();
    }

    /// Does something a drive has no command for.
    ///
    /// # Errors
    /// Why it failed.
    ///
    /// # Panics
    /// If data is not whole blocks.
    pub fn request(
        &self,
        operation: Operation,
    ) -> impl Future<Output = Result<(), Failure>> + 'static {
        let (sender, receiver): (_, Receiver<Completion>) = slot();
        self.driver.submit(operation, Waiting::Caller(sender));
        async move { receiver.await.result }
    }

    /// Shuts the controller down and closes all connections. Commands that have not ended fail.
    pub async fn close(&self) {
        self.driver.close().await;
    }

    /// First block and number of blocks of a range.
    fn blocks(&self, offset: u64, length: u64) -> (u64, u64) {
        let DriveInfo {
            bytes, lba_bytes, ..
        } = self.info();
        let lba_bytes = u64::from(lba_bytes);
        assert!(
            offset.is_multiple_of(lba_bytes) && length.is_multiple_of(lba_bytes),
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset.checked_add(length).is_some_and(|end| end <= bytes),
            "range {offset}+{length} beyond the end"
        );
        (offset / lba_bytes, length / lba_bytes)
    }
}

impl<T: Transport> Drive for RemoteDrive<T> {
    fn info(&self) -> DriveInfo {
        DriveInfo {
            bytes: self.info.blocks * u64::from(self.info.block_bytes),
            lba_bytes: self.info.block_bytes,
            volatile_cache: self.info.is_volatile,
            copies: 1,
            handles: 1,
            gap_blocks: GAP_BLOCKS,
        }
    }

    fn submit(&self, command: Command) -> DriveCompletion {
        let operation = match command {
            Command::Read { offset, into, copy } => {
                assert_eq!(copy, 0, "a plain drive has one copy");
                let (lba, _) = self.blocks(offset, into.bytes());
                Operation::Read { lba, into }
            }
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                let (lba, _) = self.blocks(offset, gather.bytes());
                let (data, fua) = (gather, false);
                Operation::Write { lba, data, fua }
            }
            Command::Flush => Operation::Flush,
            Command::Discard { offset, length } => {
                let (lba, blocks) = self.blocks(offset, length);
                if !self.info.has_deallocate {
                    return DriveCompletion::ready(Ok(Done::Nothing));
                }
                let ranges = ranges(lba, blocks);
                Operation::Deallocate { ranges }
            }
        };
        let (sender, completion) = DriveCompletion::waiting();
        self.driver.submit(operation, Waiting::Drive(sender));
        completion
    }
}

/// A run of blocks as ranges a Dataset Management can name.
fn ranges(lba: u64, blocks: u64) -> Vec<(u64, u32)> {
    const STEP: u64 = 1 << 31;
    let starts = (0..blocks).step_by(STEP as usize);
    let range = |at: u64| (lba + at, (blocks - at).min(STEP) as u32);
    starts.map(range).collect()
}

/// The discovery log of a target.
///
/// # Errors
/// Why it could not be read.
pub async fn discover<T: Transport>(
    world: Rc<dyn World>,
    transport: T,
    config: Config,
) -> Result<Vec<Found>, ConnectError> {
    let driver = Driver::start(world, transport, config);
    let outcome = loop {
        match driver.next_event().await {
            Event::Log(found) => break Ok(found),
            Event::Lost { loss, .. } => break Err(ConnectError(loss)),
            Event::Ready(_) | Event::Closed => {}
        }
    };
    driver.close().await;
    outcome
}
