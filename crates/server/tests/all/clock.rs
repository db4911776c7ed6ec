//! What a server does when its clock says that something is due.

use crate::scripted::{NQN, host_nqn};
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use varve_hostio::{Endpoint, Executor, Io, Listener};
use varve_io::{Receiver, Sender, Task, World, slot};
use varve_nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData};
use varve_nvme::opcode::admin::KEEP_ALIVE;
use varve_nvme::tcp::{Digests, Header, IcReq, encode};
use varve_nvme::{Nqn, Sqe};
use varve_server::Server;
use varve_target::{Hosts, Subsystem};
use varve_units::Nanos;
use zerocopy::IntoBytes;

/// A reactor whose clock the test moves.
struct Moved {
    inner: Rc<dyn World>,
    now: Cell<Nanos>,
    /// How long the machine slept.
    slept: Cell<Nanos>,
    timers: RefCell<Vec<(Nanos, Sender<()>)>>,
}

impl Moved {
    /// Time passes at once: timers fire, and nothing else happens.
    fn pass(&self, span: Nanos) {
        let now = self.now.get() + span;
        self.now.set(now);
        let timers = self.timers.take().into_iter();
        let (due, rest) = timers.partition(|(at, _)| *at <= now);
        *self.timers.borrow_mut() = rest;
        for (_, sender) in due {
            sender.send(());
        }
    }
}

impl World for Moved {
    fn now(&self) -> Nanos {
        self.now.get()
    }

    fn now_outside(&self) -> Nanos {
        self.now.get() + self.slept.get()
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        let (sender, receiver) = slot();
        self.timers
            .borrow_mut()
            .push((self.now.get() + span, sender));
        receiver
    }

    fn spawn(&self, task: Task) {
        self.inner.spawn(task);
    }

    fn yield_now(&self) -> Receiver<()> {
        self.inner.yield_now()
    }

    fn catch_up(&self) -> Receiver<()> {
        self.inner.catch_up()
    }
}

/// The host's end of a connection, written to at once: what it sends lies in the server's socket.
struct Plain {
    stream: TcpStream,
    waiting: Rc<dyn World>,
}

impl Plain {
    fn send(&self, header: &Header, data: &[u8]) {
        let mut bytes = encode(header, 0, data.len(), Digests::default(), 0).to_vec();
        bytes.extend_from_slice(data);
        (&self.stream).write_all(&bytes).expect("room");
    }

    /// Waits for so many bytes; false if the connection ended.
    async fn receive(&self, bytes: usize) -> bool {
        let mut buffer = vec![0; bytes];
        let mut here = 0;
        while here < bytes {
            match (&self.stream).read(&mut buffer[here..]) {
                Ok(0) => return false,
                Ok(count) => here += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.waiting.sleep(Nanos::from_millis(1)).await;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends a command; true if an answer came.
    async fn command(&self, sqe: Sqe, data: &[u8]) -> bool {
        self.send(&Header::CapsuleCmd(sqe), data);
        self.receive(CAPSULE_RESP_BYTES).await
    }
}

const IC_RESP_BYTES: usize = 128;
const CAPSULE_RESP_BYTES: usize = 24;

/// An admin queue with this keep-alive timeout.
async fn admin(to: SocketAddr, waiting: Rc<dyn World>, kato_ms: u32) -> Plain {
    let stream = TcpStream::connect(to).expect("a listener");
    stream.set_nonblocking(true).expect("not to wait");
    let host = Plain { stream, waiting };
    host.send(&Header::IcReq(IcReq::new(0, 0, 0)), &[]);
    assert!(host.receive(IC_RESP_BYTES).await);
    let connect = Connect {
        recfmt: 0,
        qid: 0,
        sqsize: 31,
        flow_control: true,
        kato_ms,
    };
    let subsystem = Nqn::new(NQN).expect("a name");
    let data = ConnectData::new([1; 16], CNTLID_DYNAMIC, &subsystem, &host_nqn(1));
    assert!(host.command(connect.to_sqe(0), data.as_bytes()).await);
    host
}

/// Runs a flow with a server whose clock it moves.
fn with_clock<Flow: Future<Output = ()> + 'static>(
    flow: impl FnOnce(Rc<dyn World>, Rc<Moved>, Server, SocketAddr) -> Flow,
) {
    let executor = Executor::new();
    let inner = executor.world();
    let moved = Rc::new(Moved {
        inner: Rc::clone(&inner),
        now: Cell::new(Nanos::from_secs(1)),
        slept: Cell::default(),
        timers: RefCell::default(),
    });
    let nqn = Nqn::new(NQN).expect("a name");
    let (serial, firmware) = ("TEST".to_owned(), "0".to_owned());
    let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, Vec::new());
    let server = Server::new(Rc::clone(&moved) as Rc<dyn World>, subsystem);
    let any = Endpoint::Tcp("127.0.0.1:0".parse().expect("an address"));
    let io = Io::of(&*inner).expect("a ring");
    let listener = Listener::bind(io, &any).expect("a port");
    let Endpoint::Tcp(to) = server.listen(listener) else {
        panic!("a TCP listener");
    };
    executor
        .run(flow(inner, moved, server, to))
        .expect("it ends");
}

/// Whatever the server's clock says when it looks: a host whose word lies in the socket unread is heard
/// before its keep-alive timeout counts, one that is silent is not kept.
#[test]
fn a_timeout_waits_for_a_reading() {
    with_clock(|inner, moved, server, to| async move {
        let host = admin(to, Rc::clone(&inner), 1000).await;
        for away_ms in [1000, 1100, 1900, 1000] {
            // Nothing of it is read before the clock has moved and all timers have fired.
            host.send(&Header::CapsuleCmd(Sqe::new(KEEP_ALIVE, 1, 0)), &[]);
            moved.pass(Nanos::from_millis(away_ms));
            assert!(host.receive(CAPSULE_RESP_BYTES).await, "{away_ms}");
            // Told the time again, it knows that this came just now.
            moved.pass(Nanos::from_millis(500));
            let keep_alive = Sqe::new(KEEP_ALIVE, 2, 0);
            assert!(host.command(keep_alive, &[]).await, "{away_ms}");
            assert_eq!(server.counters().controllers, 1);
        }
        moved.pass(Nanos::from_secs(1));
        assert!(!host.receive(1).await, "it was silent");
    });
}

/// For a host the time goes on while this machine sleeps: its association is not kept beyond it.
#[test]
fn a_timeout_goes_on_in_sleep() {
    with_clock(|inner, moved, server, to| async move {
        let host = admin(to, inner, 5000).await;
        moved.pass(Nanos::from_millis(500));
        assert_eq!(server.counters().controllers, 1);
        moved.slept.set(Nanos::from_secs(3600));
        moved.pass(Nanos::from_millis(500));
        assert!(!host.receive(1).await, "an hour ago");
    });
}
