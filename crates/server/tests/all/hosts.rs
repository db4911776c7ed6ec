//! Hosts over real sockets: good ones are served, bad ones cost themselves only.

use crate::scripted::{Host, NQN, identify_sqe, pattern, read_sqe, write_sqe};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use varve_ftl::Recall;
use varve_hostio::{Endpoint, Executor, Io, Listener, thread_cpu_time};
use varve_io::{Event, World};
use varve_nvme::fabrics::PropertyAccess;
use varve_nvme::opcode::io as opcodes;
use varve_nvme::property::{CC, Configuration, Shutdown};
use varve_nvme::{Nqn, Sqe};
use varve_server::{Left, NullStore, RamStore, Server, Step, Store};
use varve_target::{Hosts, Namespace, Operation, Subsystem, Warnings};
use varve_units::{BLOCK, Nanos};

const BLOCKS: u64 = 4096;

fn namespace(blocks: u64) -> Namespace {
    Namespace {
        blocks,
        nguid: [7; 16],
        uuid: [9; 16],
        is_volatile: true,
        is_thin: true,
        atomic_blocks: 0,
    }
}

/// A server with its reactor.
struct Bench {
    world: Rc<dyn World>,
    io: Io,
    server: Server,
    to: SocketAddr,
}

/// Runs a flow with a server of one namespace.
fn with_server<Flow: Future<Output = ()> + 'static>(
    store: impl FnOnce(&Rc<dyn World>) -> Rc<dyn Store>,
    flow: impl FnOnce(Bench) -> Flow,
) {
    let executor = Executor::new();
    let world = executor.world();
    let io = Io::of(&*world).unwrap();
    let nqn = Nqn::new(NQN).unwrap();
    let (serial, firmware) = ("TEST".to_owned(), "0".to_owned());
    let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, Vec::new());
    let server = Server::new(Rc::clone(&world), subsystem);
    server.put(1, namespace(BLOCKS), store(&world)).unwrap();
    let any = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let listener = Listener::bind(io.clone(), &any).unwrap();
    let Endpoint::Tcp(to) = server.listen(listener) else {
        panic!("a TCP listener");
    };
    let bench = Bench {
        world,
        io,
        server,
        to,
    };
    executor.run(flow(bench)).unwrap();
}

fn ram(world: &Rc<dyn World>) -> Rc<dyn Store> {
    Rc::new(RamStore::new(Rc::clone(world), BLOCKS))
}

impl Bench {
    async fn admin(&self, number: u8, digests: bool) -> Host {
        Host::admin(&self.io, self.to, number, 0, digests).await
    }

    async fn queue(&self, admin: &Host, number: u8, qid: u16) -> Host {
        admin.queue(&self.io, self.to, number, qid).await
    }
}

#[test]
fn what_is_written_is_read() {
    with_server(ram, |bench| async move {
        for digests in [false, true] {
            let admin = bench.admin(1, digests).await;
            let mut queue = bench.queue(&admin, 1, 1).await;
            // In the capsule, by R2T, and as large as it gets.
            for (lba, blocks) in [(0, 1), (5, 2), (100, 3), (500, 128)] {
                let data = pattern(lba | u64::from(digests) << 32, blocks * BLOCK);
                assert_eq!(queue.write(lba, &data).await, 0);
                let answer = queue.read(lba, blocks as u32).await;
                assert_eq!(answer.status, 0);
                assert!(answer.data == data, "lba {lba} digests {digests}");
            }
            assert_eq!(queue.flush().await, 0);
            let mut zeroes = Sqe::new(opcodes::WRITE_ZEROES, 0, 1);
            zeroes.set_cdw(10, 501);
            assert_eq!(queue.command(zeroes, &[]).await.status, 0);
            let answer = queue.read(500, 3).await;
            assert!(answer.data[..BLOCK].iter().any(|&byte| byte != 0));
            assert!(answer.data[BLOCK..2 * BLOCK].iter().all(|&byte| byte == 0));
            assert!(answer.data[2 * BLOCK..].iter().any(|&byte| byte != 0));
            assert_eq!(queue.read(BLOCKS - 1, 2).await.status, 0x080);
        }
        let counters = bench.server.counters();
        assert_eq!((counters.writes, counters.reads), (8, 10));
        assert_eq!((counters.accepted, counters.in_flight), (4, 0));
    });
}

/// Commands of several queues at full depth, sent together.
#[test]
fn queues_at_full_depth_are_answered() {
    with_server(ram, |bench| async move {
        let admin = bench.admin(1, false).await;
        let ended: Vec<_> = [1, 2, 3, 4]
            .map(|qid| async_queue(&bench, &admin, qid))
            .into();
        for queue in ended {
            queue.await.await;
        }
        let counters = bench.server.counters();
        assert_eq!(counters.reads, 4 * 20 * 127);
        assert_eq!(counters.failures, 0);
    });
}

async fn async_queue(bench: &Bench, admin: &Host, qid: u16) -> varve_io::Receiver<()> {
    let mut queue = bench.queue(admin, 1, qid).await;
    bench.world.run(async move {
        for _ in 0..20 {
            let mut bytes = Vec::new();
            let mut open: Vec<u16> = (0..127)
                .map(|at| queue.capsule(read_sqe(at, 1), &[], &mut bytes))
                .collect();
            queue.send(&bytes).await;
            while !open.is_empty() {
                let answer = queue.answer(&[]).await.expect("an answer");
                assert_eq!((answer.status, answer.data.len()), (0, BLOCK));
                open.retain(|cid| *cid != answer.cid);
            }
        }
    })
}

/// Commands whose answers are more than an admin queue may have unsent: what waits for them to be sent
/// must let the reactor send them. Linux asks so for what it finds in a scan.
#[test]
fn an_admin_queue_with_more_to_answer_than_fits_is_answered() {
    with_server(ram, |bench| async move {
        let mut admin = bench.admin(1, false).await;
        for _ in 0..20 {
            let mut bytes = Vec::new();
            for _ in 0..31 {
                admin.capsule(identify_sqe(1, 0), &[], &mut bytes);
            }
            admin.send(&bytes).await;
            for _ in 0..31 {
                let answer = admin.answer(&[]).await.expect("an answer");
                assert_eq!((answer.status, answer.data.len()), (0, BLOCK));
            }
        }
    });
}

/// Holds operations until it is told to let them go.
struct HeldStore {
    is_open: Cell<bool>,
    opened: Event,
    held: Cell<usize>,
    seen: RefCell<Vec<u64>>,
    recalls: RefCell<Vec<Recall>>,
}

impl HeldStore {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            is_open: Cell::new(false),
            opened: Event::new(),
            held: Cell::new(0),
            seen: RefCell::default(),
            recalls: RefCell::default(),
        })
    }

    /// Operations that nobody waits for any more.
    fn recalled(&self) -> usize {
        let recalls = self.recalls.borrow();
        recalls.iter().filter(|one| one.is_recalled()).count()
    }

    fn open(&self) {
        self.is_open.set(true);
        self.opened.notify();
    }
}

struct Held(Rc<HeldStore>);

impl Store for Held {
    fn begin(&self, operation: Operation, recall: &Recall) -> Step {
        let store = Rc::clone(&self.0);
        store.recalls.borrow_mut().push(recall.clone());
        store.held.set(store.held.get() + 1);
        Step::Later(Box::pin(async move {
            while !store.is_open.get() {
                store.opened.listen().await;
            }
            store.held.set(store.held.get() - 1);
            if let Operation::Write { lba, .. } = operation {
                store.seen.borrow_mut().push(lba);
            }
            Ok(None)
        }))
    }
}

async fn until(world: &dyn World, what: impl Fn() -> bool) {
    for _ in 0..2000 {
        if what() {
            return;
        }
        world.sleep(Nanos::from_millis(5)).await;
    }
    panic!("it does not come");
}

/// An old write must not land on a new one: the next I/O queue of the same host waits for what the
/// lost association left behind, another host's does not.
#[test]
fn a_lost_association_is_waited_for() {
    let store = HeldStore::new();
    let held = Rc::clone(&store);
    with_server(
        |_| Rc::new(Held(held)),
        |bench| async move {
            let admin = bench.admin(1, false).await;
            let mut queue = bench.queue(&admin, 1, 1).await;
            let mut bytes = Vec::new();
            for lba in 0..5 {
                queue.capsule(write_sqe(lba, BLOCK), &[1; BLOCK], &mut bytes);
            }
            queue.send(&bytes).await;
            until(&*bench.world, || store.held.get() == 5).await;
            assert_eq!(store.recalled(), 0);
            drop((admin, queue));
            until(&*bench.world, || bench.server.counters().connections == 0).await;
            assert_eq!(store.recalled(), 5, "nobody is told of them");

            let admin = bench.admin(1, false).await;
            let other = bench.admin(2, false).await;
            drop(bench.queue(&other, 2, 1).await);
            let (io, to, cntlid) = (bench.io.clone(), bench.to, admin.cntlid);
            let is_connected = Rc::new(Cell::new(false));
            let connected = Rc::clone(&is_connected);
            let seen = Rc::clone(&store);
            let connecting = bench.world.run(async move {
                let mut again = Host::open(&io, to, false).await;
                again.cntlid = cntlid;
                let answer = again.connect(1, 1, 127, 0).await;
                connected.set(true);
                assert_eq!(seen.seen.borrow().len(), 5, "after what was left");
                (answer.status, again)
            });
            bench.world.sleep(Nanos::from_millis(200)).await;
            assert!(!is_connected.get(), "its old writes are not done");
            store.open();
            let (status, mut again) = connecting.await;
            assert_eq!(status, 0);
            assert_eq!(again.write(9, &[2; BLOCK]).await, 0);
            assert_eq!(*store.seen.borrow(), [0, 1, 2, 3, 4, 9]);
            assert_eq!(store.recalled(), 5, "not of the one that came after");
        },
    );
}

/// What was taken is answered before the connection ends; nothing more is taken.
#[test]
fn draining_answers_what_was_taken() {
    let store = HeldStore::new();
    let held = Rc::clone(&store);
    with_server(
        |_| Rc::new(Held(held)),
        |bench| async move {
            let admin = bench.admin(1, false).await;
            let mut queue = bench.queue(&admin, 1, 1).await;
            let mut bytes = Vec::new();
            let taken = queue.capsule(write_sqe(3, BLOCK), &[1; BLOCK], &mut bytes);
            queue.send(&bytes).await;
            until(&*bench.world, || store.held.get() == 1).await;
            let server = bench.server.clone();
            let is_drained = Rc::new(Cell::new(false));
            let drained = Rc::clone(&is_drained);
            let draining = bench.world.run(async move {
                server.drain().await;
                drained.set(true);
            });
            bench.world.sleep(Nanos::from_millis(50)).await;
            let mut bytes = Vec::new();
            queue.capsule(write_sqe(4, BLOCK), &[1; BLOCK], &mut bytes);
            queue.send(&bytes).await;
            bench.world.sleep(Nanos::from_millis(50)).await;
            assert!(!is_drained.get());
            assert_eq!(store.held.get(), 1, "nothing more is taken");
            store.open();
            let answer = queue.answer(&[]).await.expect("an answer");
            assert_eq!((answer.cid, answer.status), (taken, 0));
            assert_eq!(queue.answer(&[]).await, None);
            drop((queue, admin));
            draining.await;
            assert_eq!(bench.server.counters().connections, 0);
            let refused =
                varve_hostio::Stream::connect(bench.io.clone(), &Endpoint::Tcp(bench.to)).await;
            assert!(refused.is_err(), "nobody listens any more");
        },
    );
}

/// A drain throws away what hosts send, keep-alives too: it is not their silence, and what was taken is answered.
#[test]
fn a_drain_ends_nobody_for_silence() {
    let store = HeldStore::new();
    let held = Rc::clone(&store);
    with_server(
        |_| Rc::new(Held(held)),
        |bench| async move {
            let admin = Host::admin(&bench.io, bench.to, 1, 2000, false).await;
            let mut queue = bench.queue(&admin, 1, 1).await;
            let mut bytes = Vec::new();
            let taken = queue.capsule(write_sqe(3, BLOCK), &[1; BLOCK], &mut bytes);
            queue.send(&bytes).await;
            until(&*bench.world, || store.held.get() == 1).await;
            let server = bench.server.clone();
            let limit = Nanos::from_secs(60);
            let draining = bench
                .world
                .run(async move { server.drain_within(limit).await });
            bench.world.sleep(Nanos::from_millis(4500)).await;
            store.open();
            let answer = queue.answer(&[]).await.expect("an answer");
            assert_eq!((answer.cid, answer.status), (taken, 0));
            drop((queue, admin));
            assert_eq!(draining.await, Left::default());
        },
    );
}

/// Writes that nothing can carry out keep a drain for its limit and no longer: their hosts lose the connection, the
/// store is told, and who drains what was left.
#[test]
fn a_drain_ends_in_time() {
    let store = HeldStore::new();
    let held = Rc::clone(&store);
    with_server(
        |_| Rc::new(Held(held)),
        |bench| async move {
            let mut admin = bench.admin(1, false).await;
            let mut queue = bench.queue(&admin, 1, 1).await;
            let mut bytes = Vec::new();
            for lba in 0..3 {
                queue.capsule(write_sqe(lba, BLOCK), &[1; BLOCK], &mut bytes);
            }
            queue.send(&bytes).await;
            until(&*bench.world, || store.held.get() == 3).await;
            let server = bench.server.clone();
            let limit = Nanos::from_millis(20);
            let draining = bench
                .world
                .run(async move { server.drain_within(limit).await });
            assert_eq!(queue.answer(&[]).await, None, "no answer to any of them");
            assert_eq!(admin.pdu().await, None);
            assert_eq!(store.recalled(), 3);
            drop((queue, admin));
            let left = Left {
                unanswered: 3,
                held: 3,
            };
            assert_eq!(draining.await, left, "a store that does not let go");
            assert_eq!(bench.server.counters().connections, 0);
            store.open();
            bench.server.drain().await;
        },
    );
}

/// A host that does not read its answers keeps neither others nor the end waiting.
#[test]
fn a_host_that_does_not_read_costs_itself_only() {
    with_server(ram, |bench| async move {
        let admin = bench.admin(1, false).await;
        let mut deaf = bench.queue(&admin, 1, 1).await;
        let mut bytes = Vec::new();
        for _ in 0..127 {
            deaf.capsule(read_sqe(0, 128), &[], &mut bytes);
        }
        deaf.send(&bytes).await;
        let mut queue = bench.queue(&admin, 1, 2).await;
        for lba in 0..50 {
            assert_eq!(queue.write(lba, &pattern(lba, BLOCK)).await, 0);
            assert!(queue.read(lba, 1).await.data == pattern(lba, BLOCK));
        }
        let before = bench.world.now();
        bench.server.drain().await;
        let took = bench.world.now().since(before);
        assert!(took < Nanos::from_secs(10), "{took}");
        drop((deaf, queue, admin));
    });
}

/// Bytes that are no PDUs end with a TermReq that the host can read, and a close.
#[test]
fn a_host_that_talks_nonsense_is_told_and_closed() {
    with_server(ram, |bench| async move {
        let admin = bench.admin(1, false).await;
        let mut queue = bench.queue(&admin, 1, 1).await;
        let mut bad = bench.queue(&admin, 1, 2).await;
        bad.send(&pattern(77, 100_000)).await;
        let told = bad.pdu().await.expect("a TermReq");
        assert!(matches!(
            told.header,
            varve_nvme::tcp::Header::C2hTermReq(_)
        ));
        assert_eq!(bad.pdu().await, None);
        drop(bad);
        assert_eq!(queue.write(1, &[5; BLOCK]).await, 0);
        until(&*bench.world, || bench.server.counters().connections == 2).await;
    });
}

/// Silence longer than the keep-alive timeout ends an association, traffic keeps it.
#[test]
fn silent_hosts_are_given_up() {
    with_server(ram, |bench| async move {
        // Long beside what this thread may have to wait for its turn.
        let mut live = Host::admin(&bench.io, bench.to, 1, 3000, false).await;
        let mut silent = Host::admin(&bench.io, bench.to, 2, 3000, false).await;
        let mut queue = bench.queue(&silent, 2, 1).await;
        let world = Rc::clone(&bench.world);
        let has_ended = Rc::new(Cell::new(false));
        let ended = Rc::clone(&has_ended);
        let kept = bench.world.run(async move {
            while !ended.get() {
                world.sleep(Nanos::from_millis(100)).await;
                assert_eq!(live.keep_alive().await, 0);
            }
        });
        assert_eq!(silent.pdu().await, None);
        assert_eq!(queue.pdu().await, None);
        drop((silent, queue));
        has_ended.set(true);
        kept.await;
    });
}

/// Hosts are told when a namespace changes, comes or goes.
#[test]
fn changes_of_namespaces_are_told() {
    with_server(ram, |bench| async move {
        let mut admin = bench.admin(1, false).await;
        admin.enable_events().await;
        let store = ram(&bench.world);
        type Change = Box<dyn Fn(&Server, &Rc<dyn Store>)>;
        let changes: [Change; 3] = [
            Box::new(|server, store| {
                let larger = namespace(BLOCKS * 2);
                server.put(1, larger, Rc::clone(store)).unwrap();
            }),
            Box::new(|server, store| {
                let mut other = namespace(8);
                other.nguid = [1; 16];
                server.put(2, other, Rc::clone(store)).unwrap();
            }),
            Box::new(|server, _| server.remove(2)),
        ];
        for (change, nsid) in changes.iter().zip([1_u32, 2, 2]) {
            admin.ask_for_event().await;
            bench.world.sleep(Nanos::from_millis(20)).await;
            change(&bench.server, &store);
            assert_eq!(admin.changed_namespaces().await, [nsid]);
        }
        // A write behind the end that it had before.
        let mut queue = bench.queue(&admin, 1, 1).await;
        assert_eq!(
            queue.read(BLOCKS + 1, 1).await.status,
            0x080,
            "the store is smaller"
        );
        bench.server.remove(1);
        assert_eq!(queue.read(0, 1).await.status, 0x00b);
        assert_eq!(queue.flush().await, 0x00b);
    });
}

/// Critical warnings reach hosts that want to know at once, and those that ask by the log.
#[test]
fn warnings_are_told() {
    with_server(ram, |bench| async move {
        let [mut told, mut other] = [bench.admin(1, false).await, bench.admin(2, false).await];
        told.enable_event_bits(1 << 2).await;
        let asked = told.ask_for_event().await;
        other.ask_for_event().await;
        assert_eq!(told.critical_warning().await, 0, "of a test namespace");
        bench.server.warn(Warnings {
            is_degraded: true,
            is_read_only: true,
        });
        assert_eq!(told.told_event().await, (asked, 0x0002_0001));
        assert_eq!(other.critical_warning().await, 12, "and no event");
        assert_eq!(bench.server.counters().critical_warning, 12);
    });
}

/// Eight connected hosts that ask for nothing.
#[test]
fn an_idle_server_sleeps() {
    with_server(
        |_| Rc::new(NullStore::new()),
        |bench| async move {
            let mut hosts = Vec::new();
            for number in 1..=8 {
                let admin = bench.admin(number, false).await;
                hosts.push(bench.queue(&admin, number, 1).await);
                hosts.push(admin);
            }
            let before = thread_cpu_time();
            bench.world.sleep(Nanos::from_secs(2)).await;
            let spent = thread_cpu_time().since(before);
            println!("idle with 8 hosts: {spent} in 2 s");
            assert!(spent < Nanos::from_millis(20), "{spent}");
            drop(hosts);
        },
    );
}

/// All room is in use by commands that the store does not answer, and a small queue that waits for some says more than
/// may be unsent: the others go on.
#[test]
fn a_queue_without_room_leaves_the_reactor_alone() {
    let store = HeldStore::new();
    let held = Rc::clone(&store);
    with_server(
        |_| Rc::new(Held(held)),
        |bench| async move {
            bench.server.limit_data(4 << 20);
            let mut hosts = Vec::new();
            for number in 1..=16 {
                let admin = bench.admin(number, false).await;
                let mut queue = bench.queue(&admin, number, 1).await;
                let mut bytes = Vec::new();
                let blocks = if number == 1 { 1 } else { 128 };
                queue.capsule(read_sqe(0, blocks), &[], &mut bytes);
                queue.send(&bytes).await;
                hosts.push((admin, queue));
            }
            until(&*bench.world, || store.held.get() == 16).await;
            let mut admin = bench.admin(17, false).await;
            let mut small = Host::open(&bench.io, bench.to, false).await;
            small.cntlid = admin.cntlid;
            assert_eq!(small.connect(17, 1, 31, 0).await.status, 0);
            let mut bytes = Vec::new();
            small.capsule(read_sqe(0, 128), &[], &mut bytes);
            for _ in 0..600 {
                small.capsule(Sqe::new(0x55, 0, 1), &[], &mut bytes);
            }
            small.send(&bytes).await;
            assert_eq!(admin.keep_alive().await, 0);
            drop((hosts, small));
        },
    );
}

/// A host shuts its controller down and says nothing more; the server drains meanwhile.
#[test]
fn a_shutdown_that_ends_late_keeps_no_drain_waiting() {
    let store = HeldStore::new();
    let held = Rc::clone(&store);
    with_server(
        |_| Rc::new(Held(held)),
        |bench| async move {
            let mut admin = bench.admin(1, false).await;
            let down = Configuration::enabled(6).with_shutdown(Shutdown::Normal);
            let down = PropertyAccess {
                offset: CC,
                is_wide: false,
                value: u64::from(down.0),
            };
            assert_eq!(admin.command(down.set(0), &[]).await.status, 0);
            until(&*bench.world, || store.held.get() == 1).await;
            let server = bench.server.clone();
            let is_drained = Rc::new(Cell::new(false));
            let drained = Rc::clone(&is_drained);
            let draining = bench.world.run(async move {
                server.drain().await;
                drained.set(true);
            });
            bench.world.sleep(Nanos::from_millis(50)).await;
            store.open();
            until(&*bench.world, || is_drained.get()).await;
            draining.await;
            drop(admin);
        },
    );
}
