//! A `varve serve` process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::rc::Rc;
use varve_hostio::{Executor, Io};
use varve_io::World;
use varve_units::Nanos;

/// A server process; killed if a test fails.
pub struct Daemon {
    process: Child,
    out: BufReader<ChildStdout>,
    /// What it said when hosts could connect.
    pub serving: serde_json::Value,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `varve` with these arguments, its output caught.
pub fn varve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs `varve` to its end; what it wrote to standard error as text.
pub fn run_varve(arguments: &[&str]) -> (Output, String) {
    let output = varve(arguments).output().expect("the binary");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

/// The program, with signals as a terminal has them: whoever runs the tests may ignore some, as `nohup` does, and a
/// shell for what it runs behind.
pub fn heedful() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_varve")]);
    command
}

/// Sends a process a signal.
pub fn send(signal: &str, process: u32) {
    let id = process.to_string();
    // The shell has one of its own, kill(1) need not be there.
    let command = ["-c", r#"kill "$0" "$1""#, signal, &id];
    let status = Command::new("sh").args(command).status();
    assert!(status.expect("a shell").success());
}

impl Daemon {
    /// Starts one on free ports.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments)
    }

    /// Starts one on a port for I/O, and a free one for discovery.
    pub fn start_at(listen: &str, arguments: &[&str]) -> Self {
        let rest = "--discovery 127.0.0.1:0 --json";
        let all = ["serve", "--listen", listen].into_iter();
        let all = all.chain(rest.split(' ')).chain(arguments.iter().copied());
        Self::spawn(varve(&all.collect::<Vec<_>>()))
    }

    /// Starts one and waits until it says where it listens.
    pub fn spawn(mut command: Command) -> Self {
        let mut process = command.spawn().expect("the binary");
        let mut out = BufReader::new(process.stdout.take().expect("its output"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let serving = serde_json::from_str(&line);
        let mut daemon = Self {
            process,
            out,
            serving: serde_json::Value::Null,
        };
        let Ok(serving) = serving else {
            let (status, text) = daemon.end();
            panic!("{line:?} is no JSON; {status}: {text}");
        };
        daemon.serving = serving;
        assert_eq!(daemon.serving["kind"], "Serving", "{line}");
        daemon
    }

    /// Where listener `index` listens.
    pub fn address(&self, index: usize) -> SocketAddr {
        let text = self.serving["listeners"][index]["address"].as_str();
        text.expect("an address").parse().expect("an address")
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        send(name, self.process.id());
    }

    /// Waits for its end; what it wrote to standard error.
    pub fn end(mut self) -> (ExitStatus, String) {
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
    pub fn cpu(&self) -> Nanos {
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
pub fn run<T: 'static, Flow>(flow: impl FnOnce(Rc<dyn World>, Io) -> Flow) -> T
where
    Flow: Future<Output = T> + 'static,
{
    let executor = Executor::new();
    let world = executor.world();
    let io = Io::of(&*world).expect("io_uring");
    executor.run(flow(world, io)).expect("an end")
}
