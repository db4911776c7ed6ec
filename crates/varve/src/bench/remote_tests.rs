//! The whole path: bench, initiator and sockets here, sockets and target on another thread.

use super::*;
use crate::bench::run::{FILL_BLOCKS, Load};
use crate::cli::Exit;
use crate::load::{Direction, Order};
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use varve_hostio::Io;
use varve_hostio::{Endpoint, Listener, Outgoing, Stream};
use varve_io::Event as Signal;
use varve_nvme::Nqn;
use varve_nvme::tcp::Digests;
use varve_target::{ConnectionId, Failure, Hosts, Namespace, Operation, Subsystem, Target};

const NQN: &str = "nqn.2026-11.io.varve:test";
const BLOCK: usize = 4096;
const DISK_BLOCKS: usize = 4096;

/// A target with memory behind it.
struct Machine {
    target: RefCell<Target<Vec<u8>>>,
    disk: RefCell<Vec<u8>>,
    streams: RefCell<BTreeMap<ConnectionId, Rc<Stream>>>,
    changed: Signal,
    /// Connections so far.
    accepted: std::cell::Cell<u64>,
    /// Commands so far.
    performed: std::cell::Cell<u64>,
    habit: Habit,
}

/// How a target behaves.
#[derive(Clone, Copy)]
enum Habit {
    Good,
    /// After so many commands all connections are ended once.
    CutsAfter(u64),
    /// After so many commands its namespace is deleted.
    DeletesAfter(u64),
    /// Its store has no room for new blocks.
    Full,
    /// Of what was written a bit behind the first sector is lost.
    Garbles,
}

impl Machine {
    fn settle(&self) {
        loop {
            let action = self.target.borrow_mut().next_action();
            let Some(action) = action else { break };
            let answer = self.perform(action.operation);
            let mut target = self.target.borrow_mut();
            target.complete(action.connection, action.tag, answer);
        }
        self.changed.notify();
    }

    fn perform(&self, operation: Operation) -> Result<Option<Vec<u8>>, Failure> {
        self.performed.set(self.performed.get() + 1);
        let mut disk = self.disk.borrow_mut();
        let at = |lba: u64| lba as usize * BLOCK;
        match operation {
            Operation::Read { lba, blocks } => {
                let mut data = disk[at(lba)..at(lba + u64::from(blocks))].to_vec();
                if matches!(self.habit, Habit::Garbles) {
                    data.chunks_exact_mut(BLOCK)
                        .for_each(|block| block[3000] ^= 1);
                }
                return Ok(Some(data));
            }
            Operation::Write { .. } if matches!(self.habit, Habit::Full) => {
                return Err(Failure::NoSpace);
            }
            Operation::Write { lba, data, .. } => {
                disk[at(lba)..at(lba) + data.len()].copy_from_slice(&data);
            }
            Operation::Flush => {}
            other => panic!("a bench does not ask for {other:?}"),
        }
        Ok(None)
    }

    async fn receive(self: Rc<Self>, world: Rc<dyn World>, id: ConnectionId, stream: Rc<Stream>) {
        let mut memory = Vec::with_capacity(64 << 10);
        while let Ok((count, bytes)) = stream.receive(memory).await {
            if count == 0 {
                break;
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let taken = self.target.borrow_mut().receive(world.now(), id, rest);
                rest = &rest[taken..];
                self.settle();
                if taken == 0 {
                    self.changed.listen().await;
                }
            }
            memory = bytes;
            memory.clear();
        }
        self.streams.borrow_mut().remove(&id);
        let _ = stream.shutdown(std::net::Shutdown::Both);
        self.target.borrow_mut().closed(id);
        self.settle();
    }

    /// One flow sends for all connections: slow, and simple.
    async fn send(self: Rc<Self>) {
        loop {
            let woken = self.target.borrow_mut().next_woken();
            let Some(id) = woken else {
                self.changed.listen().await;
                continue;
            };
            let stream = self.streams.borrow().get(&id).cloned();
            let mut all = Outgoing::new();
            for segment in self.target.borrow_mut().transmit(id) {
                all.push(segment.as_ref());
            }
            if let Some(stream) = stream {
                let _ = stream.send(all).await;
                if self.target.borrow().is_closing(id) {
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                }
            }
            self.changed.notify();
        }
    }

    async fn accept(self: Rc<Self>, world: Rc<dyn World>, listener: Listener) {
        while let Ok(stream) = listener.accept().await {
            let id = self.target.borrow_mut().accept(world.now()).expect("room");
            let stream = Rc::new(stream);
            self.streams.borrow_mut().insert(id, Rc::clone(&stream));
            self.accepted.set(self.accepted.get() + 1);
            let receive = Rc::clone(&self).receive(Rc::clone(&world), id, stream);
            world.spawn(Box::pin(receive));
        }
    }
}

/// Serves on another thread until the last controller is gone; gives the port.
#[expect(
    clippy::disallowed_methods,
    reason = "a target of its own thread, as another process has it"
)]
fn serve(habit: Habit) -> (u16, JoinHandle<u64>) {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let executor = Executor::new();
        let world = executor.world();
        let flow = async move {
            let io = Io::of(&*world).expect("io_uring");
            let any = Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
            let listener = Listener::bind(io, &any).expect("a port");
            let Endpoint::Tcp(place) = listener.endpoint().clone() else {
                unreachable!("it was TCP");
            };
            let machine = machine(habit);
            world.spawn(Box::pin(Rc::clone(&machine).send()));
            let accept = Rc::clone(&machine).accept(Rc::clone(&world), listener);
            world.spawn(Box::pin(accept));
            sender.send(place.port()).expect("somebody waits");
            until_left(&machine, habit).await;
            machine.accepted.get()
        };
        executor.run(flow).expect("no deadlock")
    });
    (receiver.recv().expect("a port"), thread)
}

fn machine(habit: Habit) -> Rc<Machine> {
    let nqn = Nqn::new(NQN).expect("a name");
    let (serial, firmware) = ("VARVE0001".to_owned(), "0.1".to_owned());
    let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, Vec::new());
    let mut target = Target::new(subsystem);
    let namespace = Namespace {
        blocks: DISK_BLOCKS as u64,
        nguid: [7; 16],
        uuid: [9; 16],
        is_volatile: false,
        is_thin: false,
        atomic_blocks: 0,
    };
    target.put_namespace(1, namespace).expect("a good one");
    Rc::new(Machine {
        target: RefCell::new(target),
        disk: RefCell::new(vec![0; DISK_BLOCKS * BLOCK]),
        streams: RefCell::default(),
        changed: Signal::new(),
        accepted: std::cell::Cell::new(0),
        performed: std::cell::Cell::new(0),
        habit,
    })
}

/// Ends when a host came and has shut its controller down.
async fn until_left(machine: &Rc<Machine>, habit: Habit) {
    while machine.target.borrow().controllers() == 0 {
        machine.changed.listen().await;
    }
    if let Habit::CutsAfter(commands) = habit {
        while machine.performed.get() < commands {
            machine.changed.listen().await;
        }
        let all: Vec<_> = machine.streams.borrow().values().cloned().collect();
        for stream in all {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        while machine.target.borrow().controllers() > 0 {
            machine.changed.listen().await;
        }
        while machine.target.borrow().controllers() == 0 {
            machine.changed.listen().await;
        }
    }
    if let Habit::DeletesAfter(commands) = habit {
        while machine.performed.get() < commands {
            machine.changed.listen().await;
        }
        machine.target.borrow_mut().remove_namespace(1);
        machine.settle();
    }
    while machine.target.borrow().controllers() > 0 {
        machine.changed.listen().await;
    }
}

fn request(port: u16, direction: Direction, bytes: u64) -> RemoteRequest {
    RemoteRequest {
        address: format!("nvme+tcp://127.0.0.1:{port}/{NQN}")
            .parse()
            .expect("an address"),
        terms: Terms {
            queues: 2,
            depth: 8,
            digests: Digests::default(),
        },
        wanted: Wanted {
            load: Load {
                direction,
                order: Order::Uniform,
                bytes,
                in_flight: 16,
                verifies: true,
                seed: 5,
            },
            size: None,
            runtime: Duration::from_millis(200),
        },
    }
}

#[test]
fn a_remote_namespace_is_measured_and_reads_back() {
    for (direction, bytes, digests) in [
        (Direction::Write, 4096, 0),
        (Direction::Read, 4096, 3),
        (Direction::Write, 768 << 10, 3),
        (Direction::Read, 2 << 20, 0),
    ] {
        let (port, thread) = serve(Habit::Good);
        let mut request = request(port, direction, bytes);
        request.terms.digests = Digests::from_bits(digests);
        let report = run_remote(request).expect("a result");
        assert!(report.shortcoming().is_none(), "{direction:?} {bytes}");
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
        assert!(json["iops"].as_u64().is_some_and(|iops| iops > 0));
        assert_eq!(json["setup"]["io_queues"], 2);
        assert_eq!(json["setup"]["queue_commands"], 8);
        assert_eq!(json["associations_lost"], 0);
        assert!(json["setup"]["fast_bytes"].is_null(), "{json}");
        assert!(
            json["verified_blocks"].as_u64()
                >= json["setup"]["user_bytes"].as_u64().map(|all| all / 4096),
            "each block is read back: {json}"
        );
        // Of the admin queue, two for I/O, and one that asks whether the port is meant for discovery.
        assert_eq!(thread.join().expect("it served"), 4);
    }
}

/// A target that ends all connections in the middle: the run goes on and every block reads back.
#[test]
fn a_loss_in_the_window_is_made_good() {
    let (port, thread) = serve(Habit::CutsAfter(DISK_BLOCKS as u64 / FILL_BLOCKS + 500));
    let mut request = request(port, Direction::Write, 4096);
    request.wanted.runtime = Duration::from_secs(1);
    let report = run_remote(request).expect("a result");
    assert!(report.shortcoming().is_none());
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!(json["associations_lost"], 1, "{json}");
    assert!(json["last_loss"].is_string(), "{json}");
    // With the one that asks whether the port is meant for discovery.
    assert_eq!(thread.join().expect("it served"), 7);
}

#[test]
fn no_target_no_result() {
    // A port that was free a moment ago.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("an address").port();
    drop(socket);
    let refused = run_remote(request(port, Direction::Read, 4096));
    let Err(error @ BenchError::Unreachable(_)) = refused else {
        panic!("nobody listens there");
    };
    let what = error.to_string();
    assert!(
        what.contains(&format!("127.0.0.1:{port}")) && what.contains("refused"),
        "{what}"
    );
    assert!(error.next().contains("port"), "{}", error.next());
}

/// What does not exist is told by its number, and as a thing that does not exist.
#[test]
fn a_namespace_that_is_not_there_is_named() {
    let (port, thread) = serve(Habit::Good);
    let mut request = request(port, Direction::Read, 4096);
    request.address = format!("nvme+tcp://127.0.0.1:{port}/{NQN}?nsid=99")
        .parse()
        .expect("an address");
    let Err(BenchError::Unreachable(error)) = run_remote(request) else {
        panic!("there is one namespace");
    };
    let what = error.to_string();
    assert!(
        what.contains(NQN) && what.contains("namespace 99"),
        "{what}"
    );
    assert_eq!(error.exit(), Exit::NotFound);
    assert!(error.next().contains("nsid"), "{}", error.next());
    thread.join().expect("it served");
}

/// A namespace that is deleted while it is measured is called that, before the window and in it, and is nothing that
/// exists.
#[test]
fn a_namespace_that_is_deleted_is_called_that() {
    let filled = DISK_BLOCKS as u64 / FILL_BLOCKS;
    for commands in [filled / 2, filled + 500] {
        let (port, thread) = serve(Habit::DeletesAfter(commands));
        let mut request = request(port, Direction::Write, 4096);
        request.wanted.runtime = Duration::from_secs(20);
        let Err(BenchError::Unreachable(error)) = run_remote(request) else {
            panic!("it was deleted after {commands} commands");
        };
        assert!(error.to_string().contains("was deleted"), "{error}");
        assert_eq!(error.exit(), Exit::NotFound);
        thread.join().expect("it served");
    }
}

/// A block that begins as it was written and goes on otherwise is no right block.
#[test]
fn what_lies_behind_the_first_sector_counts() {
    let (port, thread) = serve(Habit::Garbles);
    let report = run_remote(request(port, Direction::Read, 4096)).expect("a result");
    let short = report.shortcoming().expect("every read is wrong");
    assert!(short.is_failure, "{}", short.what);
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    let first = json["first_error"].as_str();
    assert!(
        first.is_some_and(|what| what.contains("goes on otherwise")),
        "{json}"
    );
    thread.join().expect("it served");
}

/// That the far pool is full is no bug of ours, whether it is met before the window or in it.
#[test]
fn a_target_without_room_is_told() {
    let (port, thread) = serve(Habit::Full);
    let Err(error) = run_remote(request(port, Direction::Write, 4096)) else {
        panic!("nothing can be written");
    };
    let (what, next) = (error.to_string(), error.next());
    assert!(what.contains("out of space"), "{what}");
    assert!(next.contains("varve pool status"), "{next}");
    thread.join().expect("it served");
    let (port, thread) = serve(Habit::Full);
    let mut request = request(port, Direction::Write, 4096);
    request.wanted.load.verifies = false;
    let report = run_remote(request).expect("a result");
    let short = report.shortcoming().expect("no write succeeded");
    assert!(short.is_failure && short.next.contains("varve pool status"));
    thread.join().expect("it served");
}

/// What was never written asks no drive: a rate of such reads is told as one, and how much was used.
#[test]
fn zeroes_and_sizes_are_told() {
    let (port, thread) = serve(Habit::Good);
    let mut request = request(port, Direction::Read, 4096);
    request.wanted.load.verifies = false;
    request.wanted.size = Some(10 << 30);
    let report = run_remote(request).expect("a result");
    let short = report.shortcoming().expect("nothing was written");
    assert!(
        !short.is_failure && short.what.starts_with("100 %"),
        "{}",
        short.what
    );
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!(json["shortcoming"], short.what);
    assert_eq!(json["zeroes_per_cent"], 100);
    assert_eq!(json["setup"]["asked_bytes"], 10_u64 << 30);
    assert_eq!(json["setup"]["user_bytes"], 16 << 20);
    let table = report.table();
    assert!(
        table.contains("16 MiB: there is no more, 10 GiB were asked for"),
        "{table}"
    );
    thread.join().expect("it served");
}
