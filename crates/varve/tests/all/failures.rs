//! What programs get when a command fails: with `--json` one document on standard output, whatever the
//! command is and wherever it failed; without it nothing there.

use crate::daemon::{heedful, send};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that goes with all it holds.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("failures-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A state directory in which nothing is known.
        std::fs::create_dir_all(path.join("s")).expect("a scratch directory");
        Self(path)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = heedful();
        command.args(line.split(' ')).current_dir(&self.0);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("the binary runs")
    }

    /// The only document that a command leaves which ends with `code`, and what it says to people.
    fn document(&self, code: i32, line: &str) -> (Value, String) {
        let output = self.run(line);
        let told = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{line}: {told}");
        let text = String::from_utf8(output.stdout).expect("text");
        let document: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{line}: {error}: {text}{told}"));
        assert_eq!(document["schema_version"], 1, "{line}: {text}");
        (document, told)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Command lines that the parser refuses.
const NONSENSE: [&str; 28] = [
    "--json",
    "nonsense --json",
    "pool --json",
    "pool crate --json",
    "pool create --json",
    "pool create tank --fast --json",
    "pool create tank --fast f:64M --protect all --json",
    "pool list --nonsense --json",
    "pool list --json=yes",
    "pool list --state --json",
    "pool list --json --json",
    "volume create tank 10M --json",
    "volume create tank/v 0 --json",
    "drive replace --json",
    "check --json",
    "check tank more --json",
    "inspect --json",
    "inspect --layout --json",
    "sim --json --operations 0",
    "lab --json",
    "lab recovery --json",
    "lab drive slc-002 --job sleep --json",
    "serve --json --listen nowhere",
    "serve --config c --state s --json",
    "demo --json --listen nowhere",
    "bench tape: --json",
    "bench ram: --warm-up=nan --json",
    "lab rig varve --rw randwrite --requests 0 --json",
];

/// Command lines that a command refuses, or fails with: exit code, class, word for programs.
const FAILING: [(i32, &str, &str, &str); 44] = [
    (
        3,
        "not-found",
        "no-pool",
        "pool status none --state s --json",
    ),
    (
        3,
        "not-found",
        "no-pool",
        "pool destroy none --state s --json",
    ),
    (
        3,
        "not-found",
        "no-state-directory",
        "pool status --check --state none --json",
    ),
    (
        1,
        "failed",
        "state-directory",
        "pool list --state /dev/null/s --json",
    ),
    (
        2,
        "usage",
        "state-directory",
        "pool list --state a/path/that/is/longer/than/the/name/of/a/socket/may/be/which/is/one/hundred/and/seven/bytes/on/Linux --json",
    ),
    (
        2,
        "usage",
        "bad-name",
        "pool create a/b --fast f:64M --dense d:64M --state s --json",
    ),
    (
        2,
        "usage",
        "bad-name",
        "pool create .. --fast f:64M --dense d:64M --state s --json",
    ),
    // What does not exist is told alike, whatever it is.
    (
        3,
        "not-found",
        "preflight",
        "pool create a --fast none --dense d:64M --state s --json",
    ),
    (
        3,
        "not-found",
        "preflight",
        "pool create a --fast none/f:64M --dense d:64M --state s --json",
    ),
    (
        3,
        "not-found",
        "bad-model",
        "pool create a --fast f:64M --dense d:64M --dense-model none --state s --json",
    ),
    (
        3,
        "not-found",
        "no-labels",
        "pool import none --state s --json",
    ),
    // Nobody here knows what a namespace holds, so it is not written to unasked, nor connected to.
    (
        4,
        "refused",
        "would-overwrite",
        "bench nvme+tcp://127.0.0.1:1/nqn.2026-11.a:b --rw randwrite --json",
    ),
    (
        3,
        "not-found",
        "no-pool",
        "volume list none --state s --json",
    ),
    (
        3,
        "not-found",
        "no-pool",
        "drive list none --state s --json",
    ),
    (3, "not-found", "no-pool", "check none --state s --json"),
    (3, "not-found", "no-drive", "inspect none --json"),
    (2, "usage", "not-a-drive", "inspect . --json"),
    (2, "usage", "bad-seeds", "sim --seeds 3..1 --json"),
    (3, "not-found", "no-canary", "sim --canary none --json"),
    (
        2,
        "usage",
        "bad-pool",
        "lab recovery --capacity 1TB --scale 3 --json",
    ),
    (
        4,
        "refused",
        "no-memory",
        "lab recovery --capacity 1000TB --json",
    ),
    (
        3,
        "not-found",
        "no-model",
        "lab drive none --job seqread --json",
    ),
    (
        2,
        "usage",
        "bad-depth",
        "lab drive slc-002 --job seqread --qd 0 --json",
    ),
    (
        2,
        "usage",
        "in-order-only",
        "lab drive zns-zn540 --job randwrite --json",
    ),
    (
        2,
        "usage",
        "no-zones",
        "lab drive qlc-002 --job append --json",
    ),
    (
        3,
        "not-found",
        "no-configuration",
        "serve --config none --json",
    ),
    (
        2,
        "usage",
        "bad-nqn",
        "serve --nqn varve --test-namespace null --json",
    ),
    (
        4,
        "refused",
        "no-hosts-named",
        "serve --listen 0.0.0.0:0 --json",
    ),
    (
        4,
        "refused",
        "no-such-address",
        "serve --listen 203.0.113.1:0 --allow-host nqn.2026-11.a:b --json",
    ),
    (
        1,
        "failed",
        "state-directory",
        "serve --listen 127.0.0.1:0 --discovery 127.0.0.1:0 --state /dev/null --json",
    ),
    (
        4,
        "refused",
        "directory",
        "demo --dir /dev/null/demo --json",
    ),
    (
        4,
        "refused",
        "directory",
        "demo --once --dir /dev/null/demo --json",
    ),
    (
        2,
        "usage",
        "unfit-option",
        "bench ram: --rw read --zipf 1.2 --json",
    ),
    (
        2,
        "usage",
        "too-many-in-flight",
        "bench ram: --verify --iodepth 4096 --jobs 64 --json",
    ),
    (
        2,
        "usage",
        "too-many-in-flight",
        "bench ram: --bs 1g --iodepth 2 --json",
    ),
    (
        2,
        "usage",
        "unfit-option",
        "bench ram: --digest none --json",
    ),
    (2, "usage", "too-small", "bench ram: --size 4k --json"),
    (
        4,
        "refused",
        "no-memory",
        "bench ram: --size 1000000g --json",
    ),
    (
        4,
        "refused",
        "too-large",
        "bench ram: --size 17179869183g --json",
    ),
    (
        2,
        "usage",
        "bad-size",
        "serve --test-namespace ram --size 17179869183g --listen 127.0.0.1:0 --discovery 127.0.0.1:0 --json",
    ),
    (
        2,
        "usage",
        "unfit-option",
        "bench pool:none/v --elided --json",
    ),
    (
        3,
        "not-found",
        "no-pool",
        "bench pool:none/v --state s --json",
    ),
    (
        2,
        "usage",
        "unfit-option",
        "bench nvme+tcp://127.0.0.1:1/nqn.2026-11.a:b --state s --json",
    ),
    (
        1,
        "failed",
        "no-connection",
        "bench nvme+tcp://127.0.0.1:1/nqn.2026-11.a:b --json",
    ),
];

/// The document says what failed, of which class, and what to do next; people are told the same, and
/// without `--json` they alone are.
#[test]
fn every_failure_is_one_document() {
    let place = Place::new();
    let nonsense = NONSENSE.map(|line| (2, "usage", "usage", line));
    for (code, class, word, line) in nonsense.into_iter().chain(FAILING) {
        let (document, told) = place.document(code, line);
        assert_eq!(document["kind"], "Failure", "{line}: {document}");
        assert_eq!(document["exit"], class, "{line}: {document}");
        assert_eq!(document["code"], word, "{line}: {document}");
        // It says what failed, not once more of which class; the parser alone has no more to say.
        assert!(word != class || class == "usage", "{line}: {document}");
        let text = |name: &str| document[name].as_str().unwrap_or("").to_owned();
        for name in ["error", "next"] {
            assert!(!text(name).is_empty(), "{line}: {name}: {document}");
        }
        for name in ["causes", "findings"] {
            assert!(document[name].is_array(), "{line}: {name}: {document}");
        }
        assert!(
            told.starts_with("error: ") || told.contains("\nerror: "),
            "{line}: {told}"
        );
        assert!(!told.contains("schema_version"), "{line}: {told}");
    }
    for (code, _, _, line) in FAILING {
        let line = line.replace(" --json", "");
        let output = place.run(&line);
        let told = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{line}: {told}");
        assert!(output.stdout.is_empty(), "{line}: {told}");
        assert!(told.contains("next:  "), "{line}: {told}");
    }
}

/// A signal that ends a command leaves a document of that, and the code that shells tell it by.
#[test]
fn a_signal_leaves_a_document() {
    let place = Place::new();
    for (line, signal, code, class) in [
        (
            "bench ram: --size 256m --runtime 600 --json",
            "-INT",
            130,
            "interrupted",
        ),
        ("sim --seeds 0..1000000 --json", "-TERM", 143, "terminated"),
        (
            "lab waf --workload uniform --policy greedy-1 --measure 1000 --json",
            "-HUP",
            129,
            "hung-up",
        ),
    ] {
        let mut command = place.command(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let mut errors = child.stderr.take().expect("its errors");
        // Progress: it is at work.
        let mut first = [0];
        errors.read_exact(&mut first).expect("progress");
        send(signal, child.id());
        let mut told = String::new();
        errors.read_to_string(&mut told).expect("text");
        let output = child.wait_with_output().expect("an end");
        assert_eq!(output.status.code(), Some(code), "{line}: {told}");
        let text = String::from_utf8(output.stdout).expect("text");
        let document: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{line}: {error}: {text}{told}"));
        assert_eq!(document["kind"], "Failure", "{line}: {text}");
        assert_eq!(document["exit"], class, "{line}: {text}");
        assert!(told.contains("error: "), "{line}: {told}");
    }
}

/// What a daemon is asked: its connection, and the request as it came.
fn heard(listener: &UnixListener) -> (UnixStream, String) {
    let (mut stream, _) = listener.accept().expect("a command that asks");
    let mut request = String::new();
    // The document is the last of it.
    while !request.ends_with('}') {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).expect("a request");
        assert!(count > 0, "{request}");
        request += std::str::from_utf8(&some[..count]).expect("text");
    }
    (stream, request)
}

/// A job that goes on for ever, as a daemon answers.
fn job_without_end() -> String {
    let body = json!({
        "schema_version": 1, "kind": "Job", "job": 3, "does": "replace-drive", "pool": "tank",
        "drive": "dense1", "state": "running", "done_bytes": 1, "total_bytes": 100, "elapsed_ns": 1,
        "bytes_per_s": 1, "left_ns": null, "unreadable_ranges": 0, "failure": null,
    });
    let body = body.to_string();
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A signal ends the command alone where a daemon's job is waited for: that is said, and the code tells it.
#[test]
fn a_signal_does_not_end_a_daemons_job() {
    let place = Place::new();
    let listener = UnixListener::bind(place.0.join("s/varve.sock")).expect("a socket");
    let line = "drive replace tank/dense1 n --state s";
    for (line, signal) in [
        (line.to_owned(), "-INT"),
        (format!("{line} --json"), "-TERM"),
    ] {
        let mut command = place.command(&line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("a process");
        let (mut asked, _) = heard(&listener);
        asked
            .write_all(job_without_end().as_bytes())
            .expect("it reads");
        drop(asked);
        let (_waited_for, request) = heard(&listener);
        assert!(request.contains("JobWait"), "{request}");
        send(signal, child.id());
        let output = child.wait_with_output().expect("an end");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(7), "{line}: {told}");
        assert!(
            told.contains("job 3 goes on (replace-drive tank/dense1)"),
            "{told}"
        );
        assert!(
            told.contains("next:  varve pool status --state s tank"),
            "{told}"
        );
        if line.ends_with("--json") {
            let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
            assert_eq!(document["exit"], "still-running", "{document}");
            assert_eq!(document["code"], "job-goes-on", "{document}");
        } else {
            assert!(output.stdout.is_empty(), "{told}");
        }
    }
}

/// What a daemon was asked it may do after a signal has ended the command; a question is asked again.
#[test]
fn a_signal_does_not_take_back_what_a_daemon_was_asked() {
    let place = Place::new();
    let listener = UnixListener::bind(place.0.join("s/varve.sock")).expect("a socket");
    for (line, says, says_not) in [
        (
            "pool export tank --state s",
            "the daemon may do what it was asked",
            "run it again",
        ),
        (
            "pool status tank --state s",
            "run it again",
            "the daemon may",
        ),
    ] {
        let mut command = place.command(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("a process");
        let _asked = heard(&listener);
        send("-INT", child.id());
        let output = child.wait_with_output().expect("an end");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{line}: {told}");
        assert!(
            told.contains(says) && !told.contains(says_not),
            "{line}: {told}"
        );
    }
}

/// A pool that is being made when a signal comes is not made: what was begun is taken back.
#[test]
fn a_signal_takes_back_a_pool() {
    let place = Place::new();
    // It waits for whoever makes a pool here.
    let lock = std::fs::File::create(place.0.join("s/names.lock")).expect("a file");
    lock.lock().expect("nobody has it");
    let line = "pool create tank --fast f0:64M f1:64M --dense d0:128M --state s --json";
    let mut command = place.command(line);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("a process");
    let status = format!("/proc/{}/status", child.id());
    let hears = || {
        let status = std::fs::read_to_string(&status).expect("a process");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        blocked.expect("a mask") & 1 << 1 != 0
    };
    while !hears() {
        std::thread::yield_now();
    }
    send("-INT", child.id());
    let output = child.wait_with_output().expect("an end");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{told}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(
        (&document["exit"], &document["code"]),
        (&"interrupted".into(), &"interrupted".into())
    );
    drop(lock);
    assert!(!place.0.join("f0").exists());
    let (list, _) = place.document(0, "pool list --state s --json");
    assert_eq!(list["pools"], Value::Array(Vec::new()));
}

/// A next step that the parser cannot know leads to the help of the command that was meant.
#[test]
fn the_parsers_next_step_is_a_command() {
    let place = Place::new();
    for (line, next) in [
        ("--json", "varve --help"),
        ("pool crate --json", "varve pool --help"),
        (
            "volume create tank/v 0 --json",
            "varve volume create --help",
        ),
    ] {
        let (document, _) = place.document(2, line);
        assert_eq!(document["next"], next, "{line}");
        assert_eq!(
            place.run(&next["varve ".len()..]).status.code(),
            Some(0),
            "{next}"
        );
    }
}

#[test]
fn help_and_version_stay_text() {
    let place = Place::new();
    for line in [
        "--help",
        "--version",
        "pool create --json --help",
        "sim --json --version",
    ] {
        let output = place.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(
            !text.is_empty() && !text.contains("schema_version"),
            "{text}"
        );
    }
}

/// The bugs that can be planted are a document too, also in builds that can plant none.
#[test]
fn canaries_are_listed_as_a_document() {
    let (listed, _) = Place::new().document(0, "sim --canary list --json");
    assert_eq!(listed["kind"], "Canaries");
    let canaries = listed["canaries"].as_array().expect("a list");
    let has = |name| canaries.iter().any(|canary| canary["name"] == name);
    assert!(has("ack-before-second-mirror") && has("discard-before-commit"));
    assert!(canaries.iter().all(|canary| canary["about"].is_string()));
}

/// What a command found is its document, also if that makes it fail: there is no second one.
#[test]
fn a_result_that_fails_is_the_only_document() {
    let place = Place::new();
    std::fs::write(place.0.join("noise"), vec![1; 4 << 20]).expect("a file");
    let (seen, told) = place.document(3, "inspect noise --json");
    assert_eq!(seen["kind"], "Inspect");
    assert!(told.contains("no label"), "{told}");
    // Far too little happens for every feature to be seen.
    let (found, told) = place.document(1, "sim --seeds 0..100 --operations 1 --no-faults --json");
    assert_eq!(
        (&found["kind"], &found["passed"]),
        (&"Simulation".into(), &false.into())
    );
    assert!(told.contains("never seen"), "{told}");
    let create = "pool create tank --fast f0:64M f1:64M --dense d:128M --state s";
    assert_eq!(place.run(create).status.code(), Some(0));
    std::fs::remove_file(place.0.join("f1")).expect("a drive");
    let (status, _) = place.document(6, "pool status tank --check --state s --json");
    assert_eq!(
        (&status["kind"], &status["pool"]),
        (&"PoolStatus".into(), &"tank".into())
    );
}

/// A port that another process has, as `serve` and `demo` find it.
#[test]
fn a_busy_port_is_a_document() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    for line in [
        format!("serve --listen {address} --discovery 127.0.0.1:0 --state s --json"),
        format!("demo --once --listen {address} --discovery 127.0.0.1:0 --dir d --json"),
    ] {
        let (document, _) = place.document(5, &line);
        assert_eq!(
            (&document["kind"], &document["exit"]),
            (&"Failure".into(), &"conflict".into())
        );
        assert_eq!(document["code"], "port-in-use", "{document}");
        let error = document["error"].as_str().expect("text");
        assert!(error.contains(&address.to_string()), "{document}");
    }
}

/// Standard output that nobody reads, and one that cannot be written: the first changes nothing, the second is told.
#[test]
fn output_that_does_not_arrive_is_no_panic() {
    let place = Place::new();
    let line = "inspect --layout";
    let mut child = place
        .command(line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("an end");
    assert_eq!(
        (ended.status.code(), &ended.stderr[..]),
        (Some(0), &b""[..])
    );
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let ended = place
        .command(line)
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("a process");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("its output cannot be written"), "{told}");
    assert!(!told.contains("panicked"), "{told}");
}

/// What is said in a configuration is mended there: options that say the same are refused beside it.
#[test]
fn a_configuration_is_mended_where_it_is_written() {
    let place = Place::new();
    let listener = "[[listener]]\naddress = '0.0.0.0:0'\n";
    let hosts = "allowed_hosts = ['nqn.2026-11.a:b']\n";
    for (text, next) in [
        (listener.to_owned(), "allowed_hosts = ["),
        (format!("{hosts}{listener}"), "advertise = "),
        (
            format!("nqn = 'nqn.2014-08.org.nvmexpress.discovery'\n{listener}"),
            "nqn = ",
        ),
    ] {
        std::fs::write(place.0.join("c"), &text).expect("a file");
        let output = place.run("serve --config c --json");
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        let told = document["next"].as_str().expect("a next step");
        assert!(
            told.contains(next) && !told.contains("--"),
            "{text}: {told}"
        );
    }
    let (document, _) = place.document(4, "serve --listen 0.0.0.0:0 --json");
    let told = document["next"].as_str().expect("a next step");
    assert!(told.contains("--allow-host"), "{told}");
}
