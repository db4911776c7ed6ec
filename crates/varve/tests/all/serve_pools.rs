//! `varve serve` of pools on sparse files, killed under load and started again.

use crate::daemon::{Daemon, run, run_varve, varve};
use crate::scripted::{Host, host_nqn, pattern, write_sqe};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use varve_units::BLOCK;

const BLOCKS: u64 = 4096;

/// A directory that goes with all it holds.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("serve-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("text").to_owned()
    }

    /// A pool `tank` with a volume `a` of 16 MiB.
    fn pool(&self) -> String {
        let state = self.path("state");
        self.tank(&state, ["d0", "d1", "d2"]);
        let (output, text) = run_varve(&["volume", "create", "tank/a", "16M", "--state", &state]);
        assert!(output.status.success(), "{text}");
        state
    }

    /// A pool `tank` with these dense drives of 128 MiB, 2+1, and nothing in it.
    pub(crate) fn tank(&self, state: &str, dense: [&str; 3]) {
        let drive = |name: &str, size: &str| format!("{}:{size}", self.path(name));
        let (f0, f1) = (drive("f0", "64M"), drive("f1", "64M"));
        let dense = dense.map(|name| drive(name, "128M"));
        let create = [
            "pool", "create", "tank", "--state", state, "--fast", &f0, &f1, "--dense",
        ];
        let create: Vec<&str> = create
            .into_iter()
            .chain(dense.iter().map(|d| &**d))
            .collect();
        let (output, text) = run_varve(&create);
        assert!(output.status.success(), "{text}");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Versions of each block: acknowledged and flushed, and the newest that was sent.
type Model = Rc<RefCell<Vec<(u64, u64)>>>;

fn content(lba: u64, version: u64) -> Vec<u8> {
    match version {
        0 => vec![0; BLOCK],
        _ => pattern(lba << 20 | version, BLOCK),
    }
}

/// Writes with 32 commands in flight, flushing now and then, until `count` writes were answered;
/// then the server is killed in the middle of what is in flight.
async fn load(queue: &mut Host, model: &Model, mut count: u64, seed: u64) {
    let mut state = seed;
    let mut open: Vec<(u16, u64, u64)> = Vec::new();
    let mut answered: Vec<(u64, u64)> = Vec::new();
    loop {
        let mut bytes = Vec::new();
        while open.len() < 32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let lba = (state >> 33) % BLOCKS;
            if open.iter().any(|one| one.1 == lba) {
                continue;
            }
            let version = model.borrow()[lba as usize].1 + 1;
            model.borrow_mut()[lba as usize].1 = version;
            let cid = queue.capsule(write_sqe(lba, BLOCK), &content(lba, version), &mut bytes);
            open.push((cid, lba, version));
        }
        queue.send(&bytes).await;
        if count == 0 {
            return;
        }
        let answer = queue.answer(&[]).await.expect("an answer");
        assert_eq!(answer.status, 0);
        let at = open.iter().position(|one| one.0 == answer.cid);
        let (_, lba, version) = open.swap_remove(at.expect("a command in flight"));
        answered.push((lba, version));
        count -= 1;
        if answered.len() == 500 {
            while let Some((cid, lba, version)) = open.pop() {
                let answer = queue.answer(&[]).await.expect("an answer");
                let at = open.iter().position(|one| one.0 == answer.cid);
                let done = at.map_or((cid, lba, version), |at| {
                    std::mem::replace(&mut open[at], (cid, lba, version))
                });
                assert_eq!((answer.cid, answer.status), (done.0, 0));
                answered.push((done.1, done.2));
            }
            assert_eq!(queue.flush().await, 0);
            for (lba, version) in answered.drain(..) {
                model.borrow_mut()[lba as usize].0 = version;
            }
        }
    }
}

/// Every block has a version between the one that was flushed and the newest.
async fn check(queue: &mut Host, model: &Model) {
    for lba in 0..BLOCKS {
        let answer = queue.read(lba, 1).await;
        assert_eq!(answer.status, 0);
        let (flushed, newest) = model.borrow()[lba as usize];
        let mut versions = (flushed..=newest).rev();
        let found = versions.find(|version| content(lba, *version) == answer.data);
        let found = found.unwrap_or_else(|| panic!("block {lba}: not of {flushed} to {newest}"));
        model.borrow_mut()[lba as usize] = (found, found);
    }
}

/// SIGKILL under load, three times: names stay, what was flushed is there, then a clean end.
#[test]
fn a_killed_server_comes_back_as_it_was() {
    let scratch = Scratch::new("killed");
    let state = scratch.pool();
    let model: Model = Rc::new(RefCell::new(vec![(0, 0); BLOCKS as usize]));
    let mut names = None;
    let mut listen = "127.0.0.1:0".to_owned();
    for round in 0..4_u64 {
        // At once, on the same port and the same drives, as a service manager does it.
        let daemon = Daemon::start_at(&listen, &["--state", &state]);
        let to = daemon.address(0);
        listen = to.to_string();
        let nqn = daemon.serving["nqn"].as_str().expect("a name").to_owned();
        let shown = daemon.serving["namespaces"].clone();
        assert_eq!(
            (&shown[0]["store"], &shown[0]["nsid"]),
            (&"tank/a".into(), &1.into())
        );
        let names = names.get_or_insert_with(|| (nqn.clone(), shown.clone()));
        assert_eq!(*names, (nqn.clone(), shown));
        let model = Rc::clone(&model);
        run(async move |_, io| {
            let admin = Host::admin_of(&io, to, &nqn).await;
            let mut queue = admin.queue(&io, to, 1, 1).await;
            check(&mut queue, &model).await;
            if round < 3 {
                load(&mut queue, &model, 4000 + 77 * round, round).await;
                daemon.signal("-KILL");
                assert!(!daemon.end().0.success());
                return;
            }
            drop((queue, admin));
            daemon.signal("-TERM");
            let (status, text) = daemon.end();
            assert_eq!(status.code(), Some(0), "{text}");
        });
    }
    let (output, text) = run_varve(&["check", "tank", "--state", &state]);
    assert!(output.status.success(), "{text}");
}

/// A second server on the same state directory is refused; the first goes on.
#[test]
fn one_server_a_state_directory() {
    let scratch = Scratch::new("second");
    let state = scratch.pool();
    let first = Daemon::start(&["--state", &state]);
    let free = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--discovery",
        "127.0.0.1:0",
    ];
    let second = [&free[..], &["--state", &state]].concat();
    let (output, text) = run_varve(&second);
    assert!(matches!(output.status.code(), Some(4 | 5)), "{output:?}");
    assert!(text.contains("next:"), "{text}");
    let (to, nqn) = (
        first.address(0),
        first.serving["nqn"].as_str().unwrap().to_owned(),
    );
    run(async move |_, io| {
        let admin = Host::admin_of(&io, to, &nqn).await;
        let mut queue = admin.queue(&io, to, 1, 1).await;
        assert_eq!(queue.write(3, &pattern(3, BLOCK)).await, 0);
    });
    first.signal("-TERM");
    assert_eq!(first.end().0.code(), Some(0));
}

/// Volumes as a list shows them, with their namespace numbers.
fn numbered(state: &str) -> Vec<(String, Option<u64>)> {
    let (output, text) = run_varve(&["volume", "list", "--json", "--state", state]);
    assert!(output.status.success(), "{text}");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    let volumes = list["volumes"].as_array().expect("volumes").iter();
    let told = volumes.map(|volume| {
        let name = volume["volume"].as_str().expect("a name");
        (name.to_owned(), volume["nsid"].as_u64())
    });
    told.collect()
}

/// Hosts see a volume before the command that made it ends, so its number, the second, is told with it.
fn assert_numbered(told: &[u8], state: &str) {
    let told = std::str::from_utf8(told).expect("text");
    let row = told.lines().nth(1).expect("a row");
    let mut cells = row.split_whitespace();
    assert!(
        told.contains("NSID") && cells.any(|cell| cell == "2"),
        "{told}"
    );
    let both = [("a".to_owned(), Some(1)), ("b".to_owned(), Some(2))];
    assert_eq!(numbered(state), both);
}

/// While hosts are connected a pool with volumes goes only where that is asked for in so many words.
#[test]
fn a_pool_is_not_taken_from_hosts_without_a_question() {
    let scratch = Scratch::new("connected");
    let state = scratch.pool();
    let daemon = Daemon::start(&["--state", &state]);
    let nqn = daemon.serving["nqn"].as_str().expect("a name").to_owned();
    let to = daemon.address(0);
    let pool = move |words: &str| {
        let arguments: Vec<&str> = words.split(' ').collect();
        run_varve(&[&["pool"], &arguments[..], &["--state", &state]].concat())
    };
    run(async move |_, io| {
        let admin = Host::admin_of(&io, to, &nqn).await;
        let mut queue = admin.queue(&io, to, 1, 1).await;
        assert_eq!(queue.write(3, &pattern(3, BLOCK)).await, 0);
        for words in [
            "export tank",
            "export tank --forget",
            "destroy tank --with-volumes",
        ] {
            let (output, text) = pool(words);
            assert_eq!(output.status.code(), Some(5), "{words}: {text}");
            for told in [host_nqn(1).as_str(), "nvme disconnect", "--cut-off"] {
                assert!(text.contains(told), "{words}: {told} in {text}");
            }
        }
        assert_eq!(queue.read(3, 1).await.data, pattern(3, BLOCK));
        let (output, text) = pool("export tank --cut-off");
        assert!(output.status.success(), "{text}");
        assert_ne!(queue.read(3, 1).await.status, 0, "the namespace is gone");
    });
    daemon.signal("-TERM");
    assert_eq!(daemon.end().0.code(), Some(0));
}

/// Connections that say nothing, more than there are descriptors, leave some to whoever administers and to hosts that
/// came before.
#[test]
fn silent_connections_leave_descriptors() {
    const DESCRIPTORS: u32 = 96;
    let scratch = Scratch::new("descriptors");
    let state = scratch.pool();
    let mut command = Command::new("sh");
    let serve = format!(
        "ulimit -n {DESCRIPTORS}; exec {} serve --json --listen 127.0.0.1:0 --discovery 127.0.0.1:0 --state {state}",
        env!("CARGO_BIN_EXE_varve")
    );
    command.args(["-c", &serve]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let daemon = Daemon::spawn(command);
    let nqn = daemon.serving["nqn"].as_str().expect("a name").to_owned();
    let to = daemon.address(0);
    run(async move |_, io| {
        let admin = Host::admin_of(&io, to, &nqn).await;
        let mut queue = admin.queue(&io, to, 1, 1).await;
        let silent: Vec<_> = (0..2 * DESCRIPTORS)
            .map(|_| TcpStream::connect(to).expect("a listener"))
            .collect();
        let (output, text) = run_varve(&["volume", "create", "tank/b", "8M", "--state", &state]);
        assert!(output.status.success(), "{text}");
        assert_eq!(queue.write(3, &pattern(3, BLOCK)).await, 0);
        drop(silent);
    });
    daemon.signal("-TERM");
    assert_eq!(daemon.end().0.code(), Some(0));
}

/// The configuration says where; a pool that is not whole stays closed, and that is said.
#[test]
fn a_configuration_is_followed() {
    let scratch = Scratch::new("config");
    let state = scratch.pool();
    let config = scratch.path("varve.toml");
    let host = host_nqn(1).as_str().to_owned();
    let text = format!(
        "state_dir = '{state}'\n\
         nqn = 'nqn.2026-11.io.example:mine'\n\
         allowed_hosts = ['{host}']\n\
         metrics = '127.0.0.1:0'\n\
         [[listener]]\n\
         address = '127.0.0.1:0'\n\
         advertise = '192.0.2.7:4420'\n"
    );
    std::fs::write(&config, &text).expect("a file");
    std::fs::remove_file(scratch.path("f0")).expect("a drive");
    std::fs::remove_file(scratch.path("f1")).expect("a drive");
    let daemon = Daemon::spawn(varve(&["serve", "--json", "--config", &config]));
    let listener = &daemon.serving["listeners"][0];
    assert_eq!(
        (&listener["advertise"], &listener["port"]),
        (&"192.0.2.7".into(), &4420.into())
    );
    assert_eq!(daemon.serving["namespaces"], serde_json::json!([]));
    // Whoever watches can tell that it is not served.
    let metrics = daemon.serving["metrics"].as_str().expect("an address");
    for (name, value) in [
        ("varve_pool_open{pool=\"tank\"} ", 0),
        ("varve_pool_health{pool=\"tank\",health=\"faulted\"} ", 1),
        (
            "varve_drive_state{pool=\"tank\",drive=\"fast1\",state=\"missing\"} ",
            1,
        ),
    ] {
        assert_eq!(metric(metrics, name), value, "{name}");
    }
    let to = daemon.address(0);
    run(async move |_, io| {
        Host::admin_of(&io, to, "nqn.2026-11.io.example:mine").await;
        let mut other = Host::open(&io, to, false).await;
        other.nqn = "nqn.2026-11.io.example:mine".to_owned();
        assert_eq!(
            other.connect(2, 0, 31, 0).await.status,
            0x184,
            "no such host"
        );
    });
    daemon.signal("-TERM");
    let (status, errors) = daemon.end();
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(errors.contains("pool tank stays closed"), "{errors}");

    std::fs::write(&config, format!("{text}port = 4420\n")).expect("a file");
    let (output, errors) = run_varve(&["serve", "--config", &config]);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("line 8: unknown field `port`"), "{errors}");
}

/// `GET /metrics`: the value of a counter.
pub(crate) fn metric(to: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(to).expect("counters");
    let request = "GET /metrics HTTP/1.1\r\nHost: varve\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("{name}: {text}"));
    value.trim().parse().expect("a number")
}

/// What is told of `tank` with volume `b` of 12 MiB, of which one block is written.
fn assert_readings(to: &str) {
    let readings = [
        ("varve_pool_health{pool=\"tank\",health=\"ok\"} ", 1),
        (
            "varve_volume_size_bytes{pool=\"tank\",volume=\"b\"} ",
            12 << 20,
        ),
        ("varve_volume_used_bytes{pool=\"tank\",volume=\"b\"} ", 4096),
        ("varve_pool_used_bytes{pool=\"tank\"} ", 4096),
    ];
    for (name, value) in readings {
        assert_eq!(metric(to, name), value, "{name}");
    }
}

/// The pool is scrubbed while it serves, and tells so.
fn assert_scrubbed(state: &str, counters: &str) {
    let (output, text) = run_varve(&["pool", "scrub", "tank", "--state", state]);
    assert!(output.status.success(), "a pool in use is scrubbed: {text}");
    assert_eq!(
        metric(counters, "varve_pool_scrubs_total{pool=\"tank\"} "),
        1
    );
    let (output, text) = run_varve(&["pool", "status", "tank", "--state", state]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("last scrub ended 0 min ago"), "{told} {text}");
}

/// Commands go to the daemon, hosts are told, counters are read, the service manager hears.
#[test]
fn a_daemon_is_administered() {
    let scratch = Scratch::new("administered");
    let state = scratch.pool();
    // Nobody serves it.
    assert_eq!(numbered(&state), [("a".to_owned(), None)]);
    let config = scratch.path("varve.toml");
    let text = format!(
        "state_dir = '{state}'\n\
         metrics = '127.0.0.1:0'\n\
         [[listener]]\n\
         address = '127.0.0.1:0'\n"
    );
    std::fs::write(&config, text).expect("a file");
    // Paths of sockets are short.
    let notify = std::env::temp_dir().join(format!("varve-notify-{}", std::process::id()));
    let manager = UnixDatagram::bind(&notify).expect("a socket");
    let mut command = varve(&["serve", "--json", "--config", &config]);
    command.env("NOTIFY_SOCKET", &notify);
    let daemon = Daemon::spawn(command);
    let mut buffer = [0; 64];
    let count = manager.recv(&mut buffer).expect("a state");
    assert_eq!(&buffer[..count], b"READY=1");
    let counters = daemon.serving["metrics"]
        .as_str()
        .expect("an address")
        .to_owned();
    let nqn = daemon.serving["nqn"].as_str().expect("a name").to_owned();
    let to = daemon.address(0);
    run(async move |_, io| {
        let mut admin = Host::admin_of(&io, to, &nqn).await;
        admin.enable_events().await;
        let table: [(&[&str], u32); 3] = [
            (&["volume", "create", "tank/b", "8M"], 2),
            (&["volume", "resize", "tank/b", "12M"], 2),
            (&["volume", "delete", "tank/a"], 1),
        ];
        for (arguments, nsid) in table {
            admin.ask_for_event().await;
            let all = [arguments, &["--state", &state]].concat();
            let (output, text) = run_varve(&all);
            assert!(output.status.success(), "{all:?}: {text}");
            assert_eq!(admin.changed_namespaces().await, [nsid]);
            if arguments[1] != "delete" {
                assert_numbered(&output.stdout, &state);
            }
        }
        assert_eq!(numbered(&state), [("b".to_owned(), Some(2))]);
        let mut queue = admin.queue(&io, to, 1, 1).await;
        queue.nsid = 2;
        let last = 12 * 256 - 1;
        assert_eq!(queue.write(last, &pattern(1, BLOCK)).await, 0);
        assert!(queue.read(last, 1).await.data == pattern(1, BLOCK));
        assert_eq!(metric(&counters, "varve_writes_total "), 1);
        assert_eq!(metric(&counters, "varve_controllers "), 1);
        let checkpoints = metric(&counters, "varve_pool_checkpoints_total{pool=\"tank\"} ");
        assert!(checkpoints > 0);
        assert_readings(&counters);
        assert_scrubbed(&state, &counters);
        assert!(queue.read(last, 1).await.data == pattern(1, BLOCK));
        let (output, text) = run_varve(&["check", "tank", "--state", &state]);
        assert!(!output.status.success(), "it is being served: {text}");
    });
    daemon.signal("-TERM");
    let (status, errors) = daemon.end();
    assert_eq!(status.code(), Some(0), "{errors}");
    let count = manager.recv(&mut buffer).expect("a state");
    assert_eq!(&buffer[..count], b"STOPPING=1");
    let _ = std::fs::remove_file(notify);
}

/// A server that does not know its pools does not say that it is ready.
#[test]
fn a_damaged_registry_is_told_at_the_start() {
    let scratch = Scratch::new("registry");
    let state = scratch.pool();
    let registry = format!("{state}/registry.json");
    std::fs::write(&registry, "{").expect("a file");
    let (io, discovery) = ("--listen=127.0.0.1:0", "--discovery=127.0.0.1:0");
    // Should it serve, it ends with its input, which is empty.
    let serve = [
        "serve",
        io,
        discovery,
        "--until-stdin-ends",
        "--state",
        &state,
    ];
    let (output, text) = run_varve(&serve);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let next = format!("next:  move {registry} away; varve pool import --state");
    assert!(text.contains(&registry) && text.contains(&next), "{text}");
}
