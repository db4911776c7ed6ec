//! A remote namespace as a drive, in virtual time: the target behind pipes of bytes that take a
//! while, and a switch that cuts them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::rc::Rc;
use varve_initiator::{
    ByteStream, Config, Event, Failure, Loss, Operation, RemoteDrive, Segment, StreamEnd,
    Transport, discover,
};
use varve_io::{
    Blocks, Command, Drive, Event as Signal, Gather, Handle, IoError, Sectors, Target as Memory,
    World,
};
use varve_nvme::Nqn;
use varve_nvme::tcp::Digests;
use varve_sim::executor::{Executor, Journal, Stop};
use varve_sim::rng::Rng;
use varve_target::{
    ConnectionId, Hosts, Listener, Namespace, Operation as Task, Subsystem, Target,
};
use varve_units::Nanos;

const BLOCK: usize = 4096;
const DISK_BLOCKS: u64 = 1024;
/// Bytes that one receive gives at most: streams cut where they like.
const PIECE: usize = 3000;
/// One way through the network.
const DELAY: Nanos = Nanos::from_micros(50);

/// One direction of a stream.
#[derive(Default)]
struct Pipe {
    bytes: RefCell<VecDeque<u8>>,
    changed: Signal,
    is_over: Cell<bool>,
}

impl Pipe {
    fn push(&self, bytes: &[u8]) {
        if !self.is_over.get() {
            self.bytes.borrow_mut().extend(bytes);
        }
        self.changed.notify();
    }

    fn end(&self) {
        self.is_over.set(true);
        self.changed.notify();
    }

    /// Some bytes; none at the end.
    async fn take(&self) -> Vec<u8> {
        loop {
            let taken: Vec<u8> = {
                let mut bytes = self.bytes.borrow_mut();
                let count = bytes.len().min(PIECE);
                bytes.drain(..count).collect()
            };
            if !taken.is_empty() || self.is_over.get() {
                return taken;
            }
            self.changed.listen().await;
        }
    }
}

/// The target's machine and what it serves.
struct Machine {
    target: RefCell<Target<Vec<u8>>>,
    disk: RefCell<Vec<u8>>,
    out: RefCell<BTreeMap<ConnectionId, Rc<Pipe>>>,
    ins: RefCell<BTreeMap<ConnectionId, Rc<Pipe>>>,
    is_down: Cell<bool>,
    flushes: Cell<u32>,
}

impl Machine {
    fn new() -> Rc<Self> {
        let listener = Listener {
            advertise: "192.0.2.1:4420".parse().expect("an address"),
            is_discovery: false,
        };
        let nqn = nqn();
        let (serial, firmware) = ("VARVE0001".to_owned(), "0.1".to_owned());
        let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, vec![listener]);
        let mut target = Target::new(subsystem);
        let namespace = Namespace {
            blocks: DISK_BLOCKS,
            nguid: [7; 16],
            uuid: [9; 16],
            is_volatile: true,
            is_thin: true,
            atomic_blocks: 512,
        };
        target.put_namespace(1, namespace).expect("a good one");
        Rc::new(Self {
            target: RefCell::new(target),
            disk: RefCell::new(vec![0; DISK_BLOCKS as usize * BLOCK]),
            out: RefCell::default(),
            ins: RefCell::default(),
            is_down: Cell::new(false),
            flushes: Cell::new(0),
        })
    }

    /// Executes and sends what the target wants.
    fn settle(&self) {
        loop {
            let action = self.target.borrow_mut().next_action();
            let Some(action) = action else { break };
            let answer = self.perform(action.operation);
            let mut target = self.target.borrow_mut();
            target.complete(action.connection, action.tag, Ok(answer));
        }
        let mut target = self.target.borrow_mut();
        while let Some(id) = target.next_woken() {
            let pipe = self.out.borrow().get(&id).cloned();
            for segment in target.transmit(id) {
                if let Some(pipe) = &pipe {
                    pipe.push(segment.as_ref());
                }
            }
            if target.is_closing(id) {
                pipe.into_iter().for_each(|pipe| pipe.end());
            }
        }
    }

    fn perform(&self, task: Task) -> Option<Vec<u8>> {
        let mut disk = self.disk.borrow_mut();
        let bytes =
            |lba: u64, blocks: u32| lba as usize * BLOCK..(lba as usize + blocks as usize) * BLOCK;
        match task {
            Task::Read { lba, blocks } => return Some(disk[bytes(lba, blocks)].to_vec()),
            Task::Write { lba, data, .. } => {
                let blocks = (data.len() / BLOCK) as u32;
                disk[bytes(lba, blocks)].copy_from_slice(&data);
            }
            Task::WriteZeroes { lba, blocks, .. } => disk[bytes(lba, blocks)].fill(0),
            Task::Deallocate { ranges } => {
                for (lba, blocks) in ranges {
                    disk[bytes(lba, blocks)].fill(0);
                }
            }
            Task::Flush => self.flushes.set(self.flushes.get() + 1),
        }
        None
    }

    /// Serves one connection.
    async fn serve(self: Rc<Self>, world: Rc<dyn World>, id: ConnectionId, from: Rc<Pipe>) {
        loop {
            let bytes = from.take().await;
            world.sleep(DELAY).await;
            if bytes.is_empty() {
                break;
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let now = world.now();
                let taken = self.target.borrow_mut().receive(now, id, rest);
                rest = &rest[taken..];
                self.settle();
            }
        }
        self.target.borrow_mut().closed(id);
        self.settle();
        self.ins.borrow_mut().remove(&id);
        if let Some(pipe) = self.out.borrow_mut().remove(&id) {
            pipe.end();
        }
    }

    /// All connections end at once.
    fn cut(&self) {
        let all = self.ins.borrow().values().cloned().collect::<Vec<_>>();
        for pipe in all {
            pipe.bytes.borrow_mut().clear();
            pipe.end();
        }
        for pipe in self.out.borrow().values() {
            pipe.bytes.borrow_mut().clear();
            pipe.end();
        }
    }
}

/// Streams to the machine.
struct Wire {
    machine: Rc<Machine>,
    world: Rc<dyn World>,
}

struct End {
    out: Rc<Pipe>,
    back: Rc<Pipe>,
    world: Rc<dyn World>,
}

impl Transport for Wire {
    type Stream = End;

    fn connect(&self) -> impl Future<Output = Result<End, StreamEnd>> + 'static {
        let (machine, world) = (Rc::clone(&self.machine), Rc::clone(&self.world));
        async move {
            world.sleep(DELAY).await;
            if machine.is_down.get() {
                return Err(StreamEnd::Peer);
            }
            let (out, back) = (Rc::new(Pipe::default()), Rc::new(Pipe::default()));
            let id = machine.target.borrow_mut().accept(world.now());
            let id = id.expect("room");
            machine.out.borrow_mut().insert(id, Rc::clone(&back));
            machine.ins.borrow_mut().insert(id, Rc::clone(&out));
            let serve = Rc::clone(&machine).serve(Rc::clone(&world), id, Rc::clone(&out));
            world.spawn(Box::pin(serve));
            Ok(End { out, back, world })
        }
    }
}

impl ByteStream for End {
    fn receive(
        &self,
        mut into: Vec<u8>,
    ) -> impl Future<Output = Result<(usize, Vec<u8>), StreamEnd>> + 'static {
        let back = Rc::clone(&self.back);
        async move {
            let bytes = back.take().await;
            into.extend_from_slice(&bytes);
            Ok((bytes.len(), into))
        }
    }

    fn send(
        &self,
        segments: Vec<Segment>,
    ) -> impl Future<Output = Result<(), StreamEnd>> + 'static {
        let (out, world) = (Rc::clone(&self.out), Rc::clone(&self.world));
        async move {
            world.sleep(DELAY).await;
            for segment in segments {
                out.push(segment.as_ref());
            }
            Ok(())
        }
    }

    fn end_sending(&self) {
        self.out.end();
    }

    fn end(&self) {
        self.out.end();
        self.back.end();
    }
}

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-11.io.varve:test").expect("a name")
}

fn config() -> Config {
    let host = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
    let mut config = Config::new(nqn(), None, Nqn::new(host).expect("a name"), [0x42; 16]);
    config.queues = 2;
    config.digests = Digests {
        header: true,
        data: true,
    };
    config
}

fn wire(machine: &Rc<Machine>, world: &Rc<dyn World>) -> Wire {
    Wire {
        machine: Rc::clone(machine),
        world: Rc::clone(world),
    }
}

/// Runs a flow with a world of virtual time and a machine.
fn run<Flow: Future<Output = ()> + 'static>(flow: impl FnOnce(Rc<dyn World>, Rc<Machine>) -> Flow) {
    let mut executor = Executor::new(Rc::new(Journal::default()), Rng::new(1), Nanos(1));
    executor.reactor().set_patience(Nanos::from_secs(3600));
    let world: Rc<dyn World> = executor.reactor();
    let outcome: Result<(), Stop> = executor.run(flow(world, Machine::new()));
    assert_eq!(outcome, Ok(()));
}

fn pattern(seed: u64, blocks: usize) -> Blocks {
    let mut all = Blocks::zeroed(blocks);
    let mut rng = Rng::new(seed);
    for word in all.bytes_mut().chunks_exact_mut(8) {
        word.copy_from_slice(&rng.bits().to_le_bytes());
    }
    all
}

fn gather(seed: u64, blocks: usize) -> Gather {
    let mut gather = Gather::new();
    gather.push_data(pattern(seed, blocks));
    gather
}

async fn connect(world: &Rc<dyn World>, machine: &Rc<Machine>) -> Rc<RemoteDrive<Wire>> {
    let transport = wire(machine, world);
    let drive = RemoteDrive::connect(Rc::clone(world), transport, config()).await;
    Rc::new(drive.expect("a drive"))
}

#[test]
fn it_is_a_drive() {
    run(|world, machine| async move {
        let drive = connect(&world, &machine).await;
        let info = drive.info();
        assert_eq!((info.bytes, info.lba_bytes), (DISK_BLOCKS * 4096, 4096));
        assert!(info.volatile_cache && info.copies == 1);
        let plain: &dyn Drive = &*drive;
        let offset = 7 * BLOCK as u64;
        // Metadata and data in one write, longer than one command.
        let mut both = Gather::new();
        both.push_meta(Sectors::from_bytes(&[5; BLOCK]));
        both.push_data(pattern(1, 200));
        plain.write(offset, both).await.expect("a write");
        plain.flush().await.expect("a flush");
        assert_eq!(machine.flushes.get(), 1);
        let meta = plain.read_meta(offset, Sectors::zeroed(8), 0).await;
        assert!(meta.expect("a read").bytes() == [5; BLOCK]);
        let data = plain
            .read_data(offset + BLOCK as u64, Blocks::zeroed(200), 0)
            .await;
        assert!(data.expect("a read").bytes() == pattern(1, 200).bytes());
        let discard = Command::Discard {
            offset,
            length: 100 * BLOCK as u64,
        };
        assert!(drive.submit(discard).await.is_ok());
        let gone = plain.read_data(offset, Blocks::zeroed(100), 0).await;
        assert!(gone.expect("a read").bytes().iter().all(|byte| *byte == 0));
        let (lba, data) = (107, gather(1, 1));
        let differs = drive.request(Operation::Compare { lba, data }).await;
        assert!(matches!(differs, Err(Failure::Status(_))));
        drive.close().await;
        // One more flush of the controller's shutdown.
        assert_eq!(machine.flushes.get(), 2);
        assert_eq!(machine.target.borrow().controllers(), 0);
        assert!(machine.out.borrow().is_empty());
        assert_eq!(plain.flush().await, Err(IoError::Gone));
    });
}

#[test]
fn commands_wait_for_a_target_that_is_away() {
    run(|world, machine| async move {
        let drive = connect(&world, &machine).await;
        let mut flights = Vec::new();
        for index in 0..64_u64 {
            let (offset, gather) = (index * 4 * BLOCK as u64, gather(index, 4));
            flights.push(drive.submit(Command::Write {
                offset,
                gather,
                handle: Handle::default(),
            }));
        }
        machine.is_down.set(true);
        machine.cut();
        world.sleep(Nanos::from_secs(20)).await;
        assert!(matches!(drive.take_events()[0], Event::Lost { .. }));
        machine.is_down.set(false);
        for flight in flights {
            assert!(flight.await.is_ok());
        }
        let plain: &dyn Drive = &*drive;
        for index in 0..64_u64 {
            let offset = index * 4 * BLOCK as u64;
            let found = plain.read_data(offset, Blocks::zeroed(4), 0).await;
            assert!(found.expect("a read").bytes() == pattern(index, 4).bytes());
        }
        let back = drive.take_events();
        assert!(matches!(back.last(), Some(Event::Ready(_))), "{back:?}");
        drive.close().await;
    });
}

/// Losses while a few flows keep the drive busy.
#[test]
fn losses_under_load() {
    run(|world, machine| async move {
        let drive = connect(&world, &machine).await;
        let flows: Vec<_> = (0..8_u64)
            .map(|flow| {
                let drive = Rc::clone(&drive);
                world.run(async move {
                    let plain: &dyn Drive = &*drive;
                    for turn in 1..60_u64 {
                        let blocks = 1 + (turn * 7 % 40) as usize;
                        let (seed, offset) = (flow << 32 | turn, flow * 64 * BLOCK as u64);
                        let written = plain.write(offset, gather(seed, blocks)).await;
                        written.expect("a write");
                        let found = plain.read_data(offset, Blocks::zeroed(blocks), 0).await;
                        let found = found.expect("a read");
                        assert!(found.bytes() == pattern(seed, blocks).bytes());
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            world.sleep(Nanos::from_millis(3)).await;
            machine.cut();
            world.sleep(Nanos::from_millis(150)).await;
        }
        for flow in flows {
            flow.await;
        }
        let events = drive.take_events();
        let losses = events
            .iter()
            .filter(|one| matches!(one, Event::Lost { .. }));
        assert!(losses.count() >= 4, "{events:?}");
        drive.close().await;
    });
}

/// What was lost while it takes leave can be asked for: a flush in flight fails for it.
#[test]
fn a_loss_under_a_leave_is_told() {
    run(|world, machine| async move {
        let drive = connect(&world, &machine).await;
        let plain: &dyn Drive = &*drive;
        plain.write(0, gather(1, 1)).await.expect("a write");
        let flush = drive.request(Operation::Flush);
        machine.cut();
        drive.close().await;
        assert!(flush.await.is_err());
        let events = drive.take_events();
        let lost = |event: &Event| matches!(event, Event::Lost { is_final: true, .. });
        assert!(events.iter().any(lost), "{events:?}");
        assert!(!events.contains(&Event::Closed));
    });
}

/// Two that take leave at once both come to an end, and the controller is shut down.
#[test]
fn two_leaves_at_once() {
    run(|world, machine| async move {
        let drive = connect(&world, &machine).await;
        let leave = || {
            let drive = Rc::clone(&drive);
            world.run(async move { drive.close().await })
        };
        let (first, second) = (leave(), leave());
        first.await;
        second.await;
        // A third finds nothing to do.
        drive.close().await;
        assert_eq!(machine.flushes.get(), 1, "the controller's shutdown");
        assert_eq!(machine.target.borrow().controllers(), 0);
    });
}

#[test]
fn there_is_no_drive_without_a_target() {
    run(|world, machine| async move {
        machine.is_down.set(true);
        let transport = wire(&machine, &world);
        let drive = RemoteDrive::connect(Rc::clone(&world), transport, config()).await;
        assert_eq!(drive.err().map(|error| error.0), Some(Loss::NotConnected));
    });
}

#[test]
fn the_discovery_log_of_a_target() {
    run(|world, machine| async move {
        let transport = wire(&machine, &world);
        let config = Config::discovery(config().host, config().hostid);
        let found = discover(Rc::clone(&world), transport, config).await;
        let found = found.expect("a log");
        assert!(found.iter().any(|one| one.subsystem == nqn()), "{found:?}");
        assert_eq!(machine.target.borrow().controllers(), 0);
    });
}

/// Reads fill the memory they bring.
#[test]
fn memory_comes_back() {
    run(|world, machine| async move {
        let drive = connect(&world, &machine).await;
        let into = Memory::Meta(Sectors::from_bytes(&[1; BLOCK]));
        let (offset, copy) = (0, 0);
        let read = drive.submit(Command::Read { offset, into, copy }).await;
        let Ok(varve_io::Done::Read(Memory::Meta(sectors))) = read else {
            panic!("other memory than was brought");
        };
        assert!(sectors.bytes().iter().all(|byte| *byte == 0));
        drive.close().await;
    });
}
