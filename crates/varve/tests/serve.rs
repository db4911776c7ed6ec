//! `varve serve` as a process: it says where it listens, serves, refuses, drains and ends.

#[path = "../../server/tests/scripted/mod.rs"]
mod scripted;

use scripted::{Host, pattern};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::rc::Rc;
use varve_hostio::{Executor, Io};
use varve_io::World;
use varve_units::{BLOCK, Nanos};

/// A server process; killed if a test fails.
struct Daemon {
    process: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.arg("serve").args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Daemon {
    /// Starts one on free ports; where it listens for I/O and for discovery.
    fn start(arguments: &[&str]) -> (Self, SocketAddr, SocketAddr) {
        let free = "--listen 127.0.0.1:0 --discovery 127.0.0.1:0 --json";
        let free: Vec<&str> = free.split(' ').chain(arguments.iter().copied()).collect();
        let mut process = command(&free).spawn().expect("the binary");
        let mut out = BufReader::new(process.stdout.take().expect("its output"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let serving: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(serving["kind"], "Serving", "{line}");
        let address = |index: usize| {
            let text = serving["listeners"][index]["address"].as_str();
            text.expect("an address").parse().expect("an address")
        };
        let (io, discovery) = (address(0), address(1));
        (Self { process, out }, io, discovery)
    }

    fn signal(&self) {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args(["-TERM", &id]).status();
        assert!(status.expect("kill(1)").success());
    }

    /// Waits for its end; what it wrote to standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.process.wait().expect("its end");
        let mut text = String::new();
        let mut errors = self.process.stderr.take().expect("its errors");
        errors.read_to_string(&mut text).expect("text");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "", "data on standard output are what was asked for");
        (status, text)
    }

    /// Time on processors of all its threads.
    fn cpu(&self) -> Nanos {
        let tasks = format!("/proc/{}/task", self.process.id());
        let spent = std::fs::read_dir(tasks).expect("its threads").map(|task| {
            let path = task.expect("a thread").path().join("schedstat");
            let text = std::fs::read_to_string(path).expect("times");
            let first = text.split(' ').next().expect("a number");
            first.parse::<u64>().expect("nanoseconds")
        });
        Nanos(spent.sum())
    }
}

/// Runs a flow of a host.
fn run<T: 'static, Flow>(flow: impl FnOnce(Rc<dyn World>, Io) -> Flow) -> T
where
    Flow: Future<Output = T> + 'static,
{
    let executor = Executor::new();
    let world = executor.world();
    let io = Io::of(&*world).expect("io_uring");
    executor.run(flow(world, io)).expect("an end")
}

#[test]
fn serves_until_it_is_asked_to_end() {
    let (daemon, to, discovery) = Daemon::start(&["--test-namespace", "ram", "--size", "64m"]);
    run(async move |_, io| {
        let mut told = Host::open(&io, discovery, false).await;
        assert_ne!(told.connect(1, 1, 31, 0).await.status, 0, "no admin queue");
        let admin = Host::admin(&io, to, 1, 0, false).await;
        let mut queue = admin.queue(&io, to, 1, 1).await;
        let data = pattern(1, 64 * BLOCK);
        assert_eq!(queue.write(100, &data).await, 0);
        assert!(queue.read(100, 64).await.data == data);
        assert_eq!(queue.read(16 << 10, 1).await.status, 0x080, "64 MiB");
    });
    daemon.signal();
    let (status, text) = daemon.end();
    assert_eq!(status.code(), Some(0), "{text}");
}

/// A busy port is refused before anything is served, and what to do is said.
#[test]
fn a_busy_port_is_refused() {
    let (_daemon, to, _) = Daemon::start(&["--test-namespace", "null"]);
    let listen = to.to_string();
    for arguments in [["--listen", &listen], ["--discovery", &listen]] {
        let free = ["--listen", "127.0.0.1:0", "--discovery", "127.0.0.1:0"];
        let other = if arguments[0] == "--listen" {
            &free[2..]
        } else {
            &free[..2]
        };
        let all = [&["--test-namespace", "null"], &arguments[..], other].concat();
        let output = command(&all).output().expect("the binary");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{text}");
        assert!(
            text.contains("another process does") && text.contains("next:"),
            "{text}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let table: [(&[&str], i32, &str); 4] = [
        (&["--listen", "0.0.0.0:0"], 4, "any host would be let in"),
        (
            &[
                "--listen",
                "0.0.0.0:0",
                "--allow-host",
                "nqn.2026-11.host:1",
            ],
            4,
            "no address that hosts could connect to",
        ),
        (&["--nqn", "varve"], 2, "no NVMe name"),
        (
            &[
                "--listen",
                "203.0.113.1:0",
                "--allow-host",
                "nqn.2026-11.host:1",
            ],
            4,
            "cannot listen",
        ),
    ];
    for (arguments, code, expected) in table {
        let all = [&["--test-namespace", "null"], arguments].concat();
        let output = command(&all).output().expect("the binary");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{all:?}: {text}");
        assert!(text.contains(expected), "{all:?}: {text}");
    }
}

/// A host that reads nothing keeps the server draining for a moment; a second signal does not wait.
#[test]
fn a_second_signal_ends_at_once() {
    let (daemon, to, _) = Daemon::start(&["--test-namespace", "ram", "--size", "64m"]);
    run(async move |world, io| {
        let admin = Host::admin(&io, to, 1, 0, false).await;
        let mut deaf = admin.queue(&io, to, 1, 1).await;
        let mut bytes = Vec::new();
        for _ in 0..127 {
            deaf.capsule(scripted::read_sqe(0, 128), &[], &mut bytes);
        }
        deaf.send(&bytes).await;
        world.sleep(Nanos::from_millis(100)).await;
        daemon.signal();
        world.sleep(Nanos::from_millis(100)).await;
        daemon.signal();
        let (status, text) = daemon.end();
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains("before it was drained"), "{text}");
        drop((admin, deaf));
    });
}

/// Under 1 % of a processor with connected hosts that ask for nothing.
#[test]
fn an_idle_daemon_sleeps() {
    let (daemon, to, _) = Daemon::start(&["--test-namespace", "null"]);
    run(async move |world, io| {
        let mut hosts = Vec::new();
        for number in 1..=8 {
            let admin = Host::admin(&io, to, number, 60_000, false).await;
            hosts.push(admin.queue(&io, to, number, 1).await);
            hosts.push(admin);
        }
        let before = daemon.cpu();
        world.sleep(Nanos::from_secs(3)).await;
        let spent = daemon.cpu().since(before);
        println!("idle with 8 hosts: {spent} in 3 s");
        assert!(spent < Nanos::from_millis(30), "{spent}");
        drop(hosts);
    });
}
