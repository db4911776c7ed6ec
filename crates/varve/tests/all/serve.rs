//! `varve serve` as a process: it says where it listens, serves, refuses, drains and ends.

use crate::daemon::{Daemon, run, run_varve, varve};
use crate::scripted::{Host, pattern, read_sqe};
use crate::serve_pools::metric;
use std::io::{BufRead, BufReader};
use std::process::Command;
use varve_nvme::Sqe;
use varve_nvme::opcode::admin;
use varve_units::{BLOCK, Nanos};

#[test]
fn serves_until_it_is_asked_to_end() {
    let daemon = Daemon::start(&["--test-namespace", "ram", "--size", "64m"]);
    let (to, discovery) = (daemon.address(0), daemon.address(1));
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
    daemon.signal("-TERM");
    let (status, text) = daemon.end();
    assert_eq!(status.code(), Some(0), "{text}");
}

/// Metrics need no configuration.
#[test]
fn metrics_are_answered_where_an_option_says() {
    let metrics = ["--metrics", "127.0.0.1:0"];
    let daemon = Daemon::start(&[&["--test-namespace", "null"], &metrics[..]].concat());
    let to = daemon.serving["metrics"].as_str().expect("an address");
    assert_eq!(metric(to, "varve_controllers "), 0);
    let (output, text) = run_varve(&[&["serve", "--config", "none.toml"], &metrics[..]].concat());
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("cannot be used with"), "{text}");
}

/// A busy port is refused before anything is served, and what to do is said.
#[test]
fn a_busy_port_is_refused() {
    let daemon = Daemon::start(&["--test-namespace", "null"]);
    let listen = daemon.address(0).to_string();
    for arguments in [["--listen", &listen], ["--discovery", &listen]] {
        let free = ["--listen", "127.0.0.1:0", "--discovery", "127.0.0.1:0"];
        let other = if arguments[0] == "--listen" {
            &free[2..]
        } else {
            &free[..2]
        };
        let all = [
            &["serve", "--test-namespace", "null"],
            &arguments[..],
            other,
        ]
        .concat();
        let (output, text) = run_varve(&all);
        assert_eq!(output.status.code(), Some(5), "{text}");
        assert!(
            text.contains("another process does") && text.contains("next:"),
            "{text}"
        );
        assert!(output.stdout.is_empty());
    }
}

/// A signal that comes while a server still waits for what it needs is heard, and so is a second one.
#[test]
fn signals_are_heard_before_it_serves() {
    let daemon = Daemon::start(&["--test-namespace", "null"]);
    let listen = daemon.address(0).to_string();
    let rest = ["--discovery", "127.0.0.1:0", "--test-namespace", "null"];
    let mut other = varve(&[&["serve", "--listen", &listen], &rest[..]].concat())
        .spawn()
        .expect("the binary");
    let mut said = BufReader::new(other.stderr.take().expect("its errors"));
    let id = other.id().to_string();
    // Until it has taken them over they end it as any process.
    let takes_signals = || {
        let text = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 1 << 14 != 0)
    };
    while !takes_signals() {
        std::thread::yield_now();
    }
    let signal = || {
        let command = ["-c", r#"kill -TERM "$0""#, &id];
        let status = Command::new("sh").args(command).status();
        assert!(status.expect("a shell").success());
    };
    signal();
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("a second signal ends at once"), "{line}");
    signal();
    let status = other.wait().expect("its end");
    said.read_line(&mut line).expect("a line");
    assert_eq!(status.code(), Some(1), "{line}");
    assert!(line.contains("ended before it was drained"), "{line}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let table: [(&[&str], i32, &str); 5] = [
        (&["--metrics", "0.0.0.0:0"], 4, "read by other machines"),
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
        let all = [&["serve", "--test-namespace", "null"], arguments].concat();
        let (output, text) = run_varve(&all);
        assert_eq!(output.status.code(), Some(code), "{all:?}: {text}");
        assert!(text.contains(expected), "{all:?}: {text}");
    }
}

/// A host that reads nothing keeps the server draining for a moment; a second signal does not wait.
#[test]
fn a_second_signal_ends_at_once() {
    let daemon = Daemon::start(&["--test-namespace", "ram", "--size", "64m"]);
    let to = daemon.address(0);
    run(async move |world, io| {
        let admin = Host::admin(&io, to, 1, 0, false).await;
        let mut deaf = admin.queue(&io, to, 1, 1).await;
        let mut bytes = Vec::new();
        for _ in 0..127 {
            deaf.capsule(read_sqe(0, 128), &[], &mut bytes);
        }
        deaf.send(&bytes).await;
        world.sleep(Nanos::from_millis(100)).await;
        // Both are there when it goes on, one behind the other: two of one kind may come as one, or late.
        for signal in ["-STOP", "-TERM", "-INT", "-CONT"] {
            daemon.signal(signal);
        }
        let (status, text) = daemon.end();
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains("before it was drained"), "{text}");
        drop((admin, deaf));
    });
}

/// The process was stopped for longer than the keep-alive timeout: a host whose command came
/// meanwhile is answered and kept, one that said nothing ends.
#[test]
fn a_stop_is_not_taken_for_the_silence_of_hosts() {
    let daemon = Daemon::start(&["--test-namespace", "null"]);
    let to = daemon.address(0);
    run(async move |world, io| {
        let mut live = Host::admin(&io, to, 1, 4000, false).await;
        let mut queue = live.queue(&io, to, 1, 1).await;
        let mut silent = Host::admin(&io, to, 2, 4000, false).await;
        assert_eq!(live.keep_alive().await, 0);
        daemon.signal("-STOP");
        let mut bytes = Vec::new();
        let sent = live.capsule(Sqe::new(admin::KEEP_ALIVE, 0, 0), &[], &mut bytes);
        live.send(&bytes).await;
        world.sleep(Nanos::from_millis(4500)).await;
        daemon.signal("-CONT");
        let answer = live.answer(&[]).await.expect("what came is read first");
        assert_eq!((answer.cid, answer.status), (sent, 0));
        assert_eq!(silent.pdu().await, None);
        assert_eq!(queue.flush().await, 0, "the association goes on");
    });
}

/// Under 1 % of a processor with connected hosts that ask for nothing.
#[test]
fn an_idle_daemon_sleeps() {
    let daemon = Daemon::start(&["--test-namespace", "null"]);
    let to = daemon.address(0);
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

/// Who gives the benchmark the port for discovery is told so, and which port does I/O.
#[test]
fn a_benchmark_of_a_port_for_discovery_is_told_the_one_for_io() {
    let daemon = Daemon::start(&["--test-namespace", "null", "--size", "64m"]);
    let (to, discovery) = (daemon.address(0), daemon.address(1));
    let nqn = daemon.serving["nqn"].as_str().expect("a name").to_owned();
    let bench = |target: &str| {
        let options = ["--runtime", "1", "--rw", "randread", "--json"];
        run_varve(&[&["bench", target], &options[..]].concat())
    };
    let (output, text) = bench(&format!("nvme+tcp://{discovery}/{nqn}"));
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains(&format!("{discovery} is a port for discovery")),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "next:  give the port for I/O: nvme+tcp://{to}/{nqn}"
        )),
        "{text}"
    );
    let (output, text) = bench(&format!(
        "nvme+tcp://{discovery}/nqn.2026-11.io.varve:other"
    ));
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains(&format!("it has nvme+tcp://{to}/{nqn}")),
        "{text}"
    );
    let (output, text) = bench(&format!("nvme+tcp://{to}/{nqn}"));
    assert_eq!(output.status.code(), Some(0), "{text}");
}
