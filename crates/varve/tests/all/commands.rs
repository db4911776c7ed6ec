//! The real binary: pools, volumes, drives, as a user has them, and what it says to bad input.

mod mending;

use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use varve_hostio::{Disk, DiskOptions};

/// A directory with a state directory and drives in it; goes with all it holds.
struct Place(PathBuf);

/// How a command ended, and what it said.
#[derive(Debug)]
struct Outcome {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("commands-{}-{number}", std::process::id());
        // In memory, where `make test` found some to spare.
        let root = std::env::var_os("VARVE_TEST_DIR");
        let path = root
            .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
            .join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn run_as(&self, state: &str, arguments: &[&str]) -> Outcome {
        let output = Command::new(env!("CARGO_BIN_EXE_varve"))
            .args(arguments)
            .args(["--state", &self.path(state)])
            .current_dir(&self.0)
            .output()
            .unwrap();
        let outcome = Outcome {
            code: output.status.code().expect("no signal ended it"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(
            !outcome.err.contains("panicked"),
            "{arguments:?}: {}",
            outcome.err
        );
        outcome
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_as("state", arguments)
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}: {outcome:?}");
        outcome.out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat());
        let document: Value = serde_json::from_str(&text).expect(&text);
        assert_eq!(document["schema_version"], 1);
        document
    }

    /// Refused with a code and what it says to do next.
    fn refused(&self, code: i32, next: &str, arguments: &[&str]) {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, code, "{arguments:?}: {outcome:?}");
        assert!(outcome.err.contains("error: "), "{outcome:?}");
        assert!(outcome.err.contains(next), "{arguments:?}: {outcome:?}");
    }

    /// `tank`: two fast drives, three dense ones.
    fn tank(&self) {
        let fast = ["f0:64M", "f1:64M"];
        let dense = ["d0:128M", "d1:128M", "d2:128M"];
        let start = ["pool", "create", "tank", "--fast"];
        self.ok(&[&start[..], &fast[..], &["--dense"], &dense[..]].concat());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Commands of scripts that do not wait for one another do it themselves: each does its work, none is told that
/// the drives are in use. (Without a daemon each opens the pool.)
#[test]
fn commands_side_by_side_take_turns() {
    let place = Place::new();
    place.tank();
    let names: Vec<_> = (0..6).map(|number| format!("tank/v{number}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| place.ok(&["volume", "create", name, "16m"]));
            scope.spawn(|| place.ok(&["volume", "list", "tank"]));
        }
    });
    let list = place.json(&["volume", "list", "tank"]);
    assert_eq!(list["volumes"].as_array().map(Vec::len), Some(6), "{list}");
}

#[test]
fn from_a_pool_to_volumes_and_back() {
    let place = Place::new();
    let create = ["pool", "create", "tank", "--fast", "f0:64M", "f1:64M"];
    let dense = [
        "--dense",
        "d0:128M",
        "d1:128M",
        "d2:128M",
        "--protect",
        "2+1",
    ];
    let plan = place.json(&[&create[..], &dense, &["--dry-run"]].concat());
    assert_eq!(plan["is_made"], false);
    assert!(!place.0.join("f0").exists(), "a dry run makes nothing");
    let made = place.json(&[&create[..], &dense].concat());
    assert_eq!(
        (&made["kind"], &made["is_made"]),
        (&"PoolPlan".into(), &true.into())
    );
    assert_eq!(made["capacity_bytes"], plan["capacity_bytes"]);
    let volume = place.json(&["volume", "create", "tank/db", "100M", "--tenant", "3"]);
    assert_eq!(volume["bytes"], 100 << 20);
    assert_eq!(
        (&volume["tenant"], &volume["used_bytes"]),
        (&3.into(), &0.into())
    );
    let grown = place.json(&["volume", "resize", "tank/db", "1G"]);
    assert_eq!(
        (&grown["bytes"], &grown["uuid"]),
        (&(1 << 30).into(), &volume["uuid"])
    );
    let again = "volume resize --state ";
    place.refused(4, again, &["volume", "resize", "tank/db", "50M"]);
    let again = " tank/db 52428800 --shrink, if what";
    place.refused(4, again, &["volume", "resize", "tank/db", "50M"]);
    place.ok(&["volume", "resize", "tank/db", "50M", "--shrink"]);
    let list = place.json(&["volume", "list"]);
    assert_eq!(list["volumes"][0]["bytes"], 50 << 20);
    let status = place.json(&["pool", "status", "tank"]);
    assert_eq!(
        (&status["health"], &status["protect"]),
        (&"closed".into(), &"2+1".into())
    );
    assert_eq!(status["drives"].as_array().unwrap().len(), 5);
    assert!(place.ok(&["drive", "list"]).contains("tank/dense2"));
    assert!(place.ok(&["check", "tank"]).contains("agree"));
    let seen = place.json_of(&["inspect", "f0", "--json"]);
    assert_eq!(
        (&seen["role"], &seen["labels"][0]["pool"]),
        (&"fast".into(), &"tank".into())
    );
    assert!(seen["checkpoint"]["checkpoint"].as_u64().unwrap() > 0);
    place.refused(4, "--with-volumes", &["pool", "destroy", "tank"]);
    place.ok(&["volume", "delete", "tank/db"]);
    place.ok(&["pool", "export", "tank"]);
    assert!(
        place.json(&["pool", "list"])["pools"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// What its label says of a drive that was truncated is not what is there.
#[test]
fn inspect_tells_a_drive_that_was_truncated() {
    let place = Place::new();
    place.ok(&[
        "pool", "create", "tank", "--fast", "f0:64M", "--dense", "d0:128M",
    ]);
    let drive = File::options().write(true).open(place.0.join("d0"));
    assert!(!place.bare(&["inspect", "d0"]).contains("truncated"));
    drive.unwrap().set_len(100 << 20).unwrap();
    let told = place.bare(&["inspect", "d0"]);
    assert!(told.contains("ends 29360128 bytes before"), "{told}");
}

impl Place {
    fn json_of(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.bare(arguments)).unwrap()
    }

    /// A command that has no state directory.
    fn bare(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_varve"))
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same drives make a pool again.
    fn tank_of(&self, drives: &[&str]) {
        let (fast, dense) = drives.split_at(2);
        let start = ["pool", "create", "again", "--fast"];
        self.ok(&[&start[..], fast, &["--dense"], dense].concat());
    }
}

#[test]
fn a_pool_goes_to_another_machine_and_back() {
    let place = Place::new();
    place.tank();
    place.ok(&["pool", "export", "tank"]);
    let drives = ["f0", "f1", "d0", "d1", "d2"];
    let moved = place.run_as("elsewhere", &[&["pool", "import"][..], &drives].concat());
    assert_eq!(moved.code, 0, "{moved:?}");
    place.refused(
        5,
        "--take-over",
        &[&["pool", "import"][..], &drives].concat(),
    );
    place.ok(&[&["pool", "import", "--take-over"][..], &drives].concat());
    let status = ["pool", "status", "tank", "--check"];
    assert_eq!(place.run(&status).code, 0);
    // Whom it was taken from cannot open it any more: a check there tells, and a list of all volumes tells why.
    let status = place.run_as("elsewhere", &status);
    assert_eq!(status.code, 6, "{status:?}");
    assert!(status.err.contains("belongs to owner"), "{status:?}");
    let small = ["pool", "create", "lake", "--fast", "l0:64M"];
    assert_eq!(place.run_as("elsewhere", &small).code, 0);
    let list = place.run_as("elsewhere", &["volume", "list"]);
    assert_eq!(list.code, 6, "{list:?}");
    assert!(list.err.contains("used the pool last"), "{list:?}");
    place.ok(&["pool", "destroy", "tank"]);
    place.tank_of(&drives);
}

#[test]
fn bad_names_sizes_and_places_are_refused() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/v", "10M"]);
    let before: Vec<_> = ["d0", "d2"]
        .iter()
        .map(|name| std::fs::read(place.0.join(name)).unwrap())
        .collect();
    let volume = |what: &'static str, name: &'static str| ["volume", what, name, "10M"];
    place.refused(3, "varve pool list", &volume("create", "none/v"));
    place.refused(3, "volume list --state", &["volume", "delete", "tank/no"]);
    place.refused(3, "varve pool", &["pool", "status", "none"]);
    place.refused(3, "varve pool", &["pool", "destroy", "none"]);
    place.refused(3, "varve pool", &["check", "none"]);
    place.refused(5, "another name", &volume("create", "tank/v"));
    place.refused(2, "48 characters", &volume("create", "tank/w w"));
    for size in ["0", "10", "x", "-1", "1.5Q", "99999999999T"] {
        let outcome = place.run(&["volume", "create", "tank/w", size]);
        assert_eq!(outcome.code, 2, "{size}: {outcome:?}");
    }
    assert_eq!(place.run(&volume("create", "tank")).code, 2);
    place.refused(2, "4 PiB", &["volume", "create", "tank/w", "100000T"]);
    let replace = |drive: &'static str| ["drive", "replace", drive];
    let seven = [&replace("tank/dense7")[..], &["n:128M"]].concat();
    place.refused(3, "varve drive list --state", &seven);
    let one = replace("tank/dense1");
    place.refused(4, "--give-up", &[&one[..], &["n:128M"]].concat());
    let small = [&one[..], &["n:2M", "--give-up"]].concat();
    place.refused(4, "larger", &small);
    let none = [&one[..], &["none", "--give-up"]].concat();
    place.refused(3, "PATH:SIZE", &none);
    assert!(!place.0.join("n").exists(), "a file was left behind");
    for (name, before) in ["d0", "d2"].iter().zip(before) {
        let now = std::fs::read(place.0.join(name)).unwrap();
        // Commands that opened the pool and found no such thing wrote labels only.
        let changed = now.iter().zip(&before).filter(|(a, b)| a != b).count();
        assert!(changed <= 8192, "{name}: {changed} bytes changed");
    }
    place.ok(&["check", "tank"]);
}

#[test]
fn drives_that_will_not_do_are_refused() {
    let place = Place::new();
    place.tank();
    let create = |name: &str, fast: &[&str], more: &[&str]| -> Vec<String> {
        let start = ["pool", "create", name, "--fast"];
        let all = [&start[..], fast, &["--dense", "d:128M"], more].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let refused = |code, next: &str, arguments: Vec<String>| {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        place.refused(code, next, &arguments);
    };
    let file = |name: &str, byte: u8, mib: usize| {
        std::fs::write(place.0.join(name), vec![byte; mib << 20]).unwrap();
    };
    file("held", 0, 64);
    file("text", b'x', 64);
    file("small", 0, 1);
    refused(3, "PATH:SIZE", create("new", &["none"], &[]));
    refused(4, "larger drives", create("new", &["small"], &[]));
    refused(4, "larger drives", create("new", &["g:8M"], &[]));
    refused(4, "--overwrite", create("new", &["text"], &[]));
    refused(4, "varve pool destroy", create("new", &["f0"], &[]));
    refused(4, "", create("new", &["held", "held"], &[]));
    refused(3, "", create("new", &["nowhere/f:64M"], &[]));
    refused(4, "", create("new", &["/dev/null"], &[]));
    refused(2, "K+1", create("new", &["g:64M"], &["--protect=4+1"]));
    let most = ["--over-provision=95"];
    refused(2, "80", create("new", &["g:64M"], &most));
    refused(2, "48", create("a b", &["g:64M"], &[]));
    refused(5, "another name", create("tank", &["g:64M"], &[]));
    let mine = format!("process {}", std::process::id());
    let lock = Disk::open(&place.0.join("held"), &DiskOptions::default()).unwrap();
    refused(5, &mine, create("new", &["held"], &[]));
    drop(lock);
    for name in ["d", "g"] {
        assert!(!place.0.join(name).exists(), "{name} was left behind");
    }
}

#[test]
fn two_processes_do_not_use_one_pool() {
    let place = Place::new();
    place.tank();
    let lock = Disk::open(&place.0.join("d1"), &DiskOptions::default()).unwrap();
    let mine = format!("process {}", std::process::id());
    place.refused(5, &mine, &["volume", "list"]);
    place.refused(5, &mine, &["check", "tank"]);
    place.refused(5, &mine, &["pool", "destroy", "tank"]);
    let status = place.run(&["pool", "status", "tank"]);
    assert_eq!(status.code, 0, "status needs no lock: {status:?}");
    drop(lock);
    place.ok(&["check", "tank"]);
}

/// A list of all volumes that lacks those of a pool says so, with and without `--json`, and does not end with 0.
#[test]
fn a_list_of_all_volumes_tells_what_it_lacks() {
    let place = Place::new();
    place.tank();
    place.ok(&["pool", "create", "lake", "--fast", "l0:64M", "l1:64M"]);
    place.ok(&["volume", "create", "lake/db", "8M"]);
    let lock = Disk::open(&place.0.join("d1"), &DiskOptions::default()).unwrap();
    let list = place.run(&["volume", "list"]);
    assert!(list.code == 6 && list.out.contains("lake/db"), "{list:?}");
    let next = format!("varve pool status --state {} tank", place.path("state"));
    assert!(
        list.err.contains("warning: ") && list.err.contains(&next),
        "{list:?}"
    );
    let list = place.run(&["volume", "list", "--json"]);
    let document: Value = serde_json::from_str(&list.out).expect("a document");
    assert_eq!(
        (list.code, &document["volumes"][0]["pool"]),
        (6, &"lake".into())
    );
    let finding = &document["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["severity"]),
        (&"left-out".into(), &"warning".into())
    );
    drop(lock);
    let list = place.json(&["volume", "list"]);
    assert_eq!(list["findings"], Value::Array(Vec::new()));
}

/// What a volume holds goes only with a word that says so, and the refusal names the command that says it.
#[test]
fn what_a_volume_holds_is_not_lost_unasked() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/db", "8M"]);
    let fill = "bench pool:tank/db --rw write --bs 128k --size 1m --runtime 1";
    let fill: Vec<_> = fill.split(' ').collect();
    place.ok(&fill);
    let words = fill.join(" ");
    let again = format!("next:  varve {words} --state {}", place.path("state"));
    place.refused(4, &again, &fill);
    place.refused(4, " --overwrite, if what is there may go", &fill);
    place.ok(&[&fill[..], &["--overwrite"]].concat());
    let delete = ["volume", "delete", "tank/db"];
    place.refused(4, " tank/db --with-data, if what it holds may go", &delete);
    let document = place.run(&[&delete[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&document.out).expect("a document");
    assert_eq!(document["code"], "volume-holds-data", "{document}");
    place.ok(&[&delete[..], &["--with-data"]].concat());
    // Nothing is asked where nothing is lost.
    place.ok(&["volume", "create", "tank/db", "8M"]);
    place.ok(&delete);
}

/// Who only asks leaves no trace: not in a state directory in which nothing is known, and none is made for a dry run.
#[test]
fn a_look_makes_nothing() {
    let place = Place::new();
    let dry = [
        "pool",
        "create",
        "tank",
        "--fast",
        "f:64M",
        "--dense",
        "d:128M",
        "--dry-run",
    ];
    place.ok(&dry);
    assert!(!place.0.join("state").exists());
    std::fs::create_dir(place.0.join("state")).unwrap();
    place.ok(&dry);
    place.ok(&["pool", "list"]);
    place.ok(&["volume", "list"]);
    place.ok(&["drive", "list"]);
    place.refused(3, "varve pool list", &["check", "none"]);
    place.refused(3, "varve pool list", &["bench", "pool:none/v"]);
    let left: Vec<_> = std::fs::read_dir(place.0.join("state")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A drive that no other can stand in for is not given up, and what to do in place of that is told.
#[test]
fn the_only_copy_is_not_given_up() {
    let place = Place::new();
    let create = [
        "pool", "create", "p", "--fast", "f:64M", "--dense", "d:128M",
    ];
    place.ok(&create);
    let replace = ["drive", "replace", "p/dense0", "n:128M", "--give-up"];
    place.refused(4, "bring the volumes to another pool", &replace);
    assert!(!place.0.join("n").exists());
}

/// A drive that is there and cannot be read is told by its path and the cause, also of a pool without redundancy.
#[test]
fn a_drive_that_cannot_be_read_is_told_with_its_path() {
    let place = Place::new();
    place.ok(&[
        "pool", "create", "p", "--fast", "f:64M", "--dense", "d:128M",
    ]);
    std::fs::rename(place.0.join("d"), place.0.join("away")).unwrap();
    std::fs::create_dir(place.0.join("d")).unwrap();
    let told = place.run(&["volume", "list", "p"]);
    assert_eq!(told.code, 4, "{told:?}");
    let line = format!("{}: neither a regular file", place.path("d"));
    assert!(told.err.contains(&line), "{told:?}");
}

/// No command panics on a drive of noise, and none takes it for a pool's.
#[test]
fn noise_is_no_drive() {
    let place = Place::new();
    let mut noise = vec![0_u8; 4 << 20];
    let mut state = 1_u64;
    for word in noise.chunks_exact_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        word.copy_from_slice(&state.to_le_bytes());
    }
    noise[..4].copy_from_slice(b"VLBL");
    std::fs::write(place.0.join("noise"), &noise).unwrap();
    place.refused(3, "inspect", &["pool", "import", "noise"]);
    let inspect = Command::new(env!("CARGO_BIN_EXE_varve"))
        .args(["inspect", "noise"])
        .current_dir(&place.0)
        .output()
        .unwrap();
    assert_eq!(inspect.status.code(), Some(3));
    std::fs::write(place.0.join("empty"), b"").unwrap();
    place.refused(3, "inspect", &["pool", "import", "empty"]);
}

/// A tier without protection is something else than a pool without that tier, and neither is a mirror.
#[test]
fn tiers_are_told_apart() {
    let place = Place::new();
    let fast = ["pool", "create", "fo", "--fast", "a0:64M", "a1:64M"];
    let made = place.ok(&fast);
    assert!(made.contains("mirror of 2 on 2 drives"), "{made}");
    assert!(
        made.contains("no dense tier") && made.contains("% of the fast tier"),
        "{made}"
    );
    let bare = ["pool", "create", "bare", "--fast", "b0:64M", "--dense"];
    let bare = [&bare[..], &["b1:128M", "--protect", "none"]].concat();
    let made = place.ok(&bare);
    assert!(made.contains("unprotected on 1 drive,"), "{made}");
    assert!(made.contains("of data, unprotected"), "{made}");
    assert!(made.contains("% of the dense tier"), "{made}");
    let status = place.ok(&["pool", "status", "fo"]);
    assert!(
        status.contains("fast tier mirror of 2 on 2 drives, no dense tier"),
        "{status}"
    );
    let status = place.ok(&["pool", "status", "bare"]);
    let expected = "fast tier unprotected on 1 drive, dense tier unprotected on 1 drive\n";
    assert!(status.contains(expected), "{status}");
    let list = place.ok(&["pool", "list"]);
    let row = |pool: &str| {
        let line = list.lines().find(|line| line.starts_with(pool));
        let words = line.expect("its row").split_whitespace();
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("fo")[2..6], ["mirror", "of", "2", "-"], "{list}");
    assert_eq!(row("bare")[2..4], ["unprotected", "unprotected"], "{list}");
}

/// Whatever a path is that cannot be a drive, there is something to do about it.
#[test]
fn what_is_no_drive_is_followed_by_a_next_step() {
    let place = Place::new();
    std::fs::create_dir(place.0.join("directory")).unwrap();
    let create = |path: &'static str| ["pool", "create", "p", "--fast", path, "--dense", "d:64M"];
    place.refused(4, "next:  name a block device", &create("/dev/null"));
    place.refused(4, "next:  name a block device", &create("directory"));
    place.refused(3, "next:  make the directory", &create("none/f:64M"));
    let twice = ["pool", "create", "p", "--fast", "d:64M", "--dense", "d:64M"];
    place.refused(4, "next:  name each drive once", &twice);
}

/// A pool that could not be opened is forgotten, not released, and that is what is said.
#[test]
fn a_pool_that_is_only_forgotten_is_not_called_released() {
    let place = Place::new();
    let lose = || ["f0", "f1"].map(|name| std::fs::remove_file(place.0.join(name)).unwrap());
    place.tank();
    let told = place.run(&["pool", "export", "tank"]);
    assert!(
        told.out.contains("is released and forgotten here"),
        "{told:?}"
    );
    assert!(told.err.is_empty(), "{told:?}");
    place.ok(&["pool", "import", "f0", "f1", "d0", "d1", "d2"]);
    lose();
    place.refused(4, "--forget", &["pool", "export", "tank"]);
    let told = place.run(&["pool", "export", "tank", "--forget"]);
    assert_eq!(
        (told.code, &*told.out),
        (0, "pool tank is forgotten here\n"),
        "{told:?}"
    );
    assert!(told.err.contains("warning: was not released"), "{told:?}");
    let import = format!("varve pool import --state {} PATH", place.path("state"));
    assert!(told.err.contains(&import), "{told:?}");
}

/// A next step can be typed as it is told: it names the state directory that was given.
#[test]
fn next_steps_name_the_state_directory() {
    let place = Place::new();
    let create = ["pool", "create", "tank", "--fast", "f0:64M", "f1:64M"];
    let made = place.ok(&create);
    let next = made
        .lines()
        .find_map(|line| line.strip_prefix("next: varve "));
    let next = next.expect("a next step");
    let state = place.path("state");
    assert!(next.contains(&format!("--state {state}")), "{next}");
    let typed = next.replace("NAME", "db").replace("SIZE", "8M");
    let volume = place.json_of(&[&typed.split(' ').collect::<Vec<_>>()[..], &["--json"]].concat());
    assert_eq!(volume["volume"], "db");
    let failed = place.run(&["volume", "delete", "tank/no", "--json"]);
    let document: Value = serde_json::from_str(&failed.out).expect("a document");
    let expected = format!("varve volume list --state {state} tank");
    assert_eq!(document["next"], expected.as_str());
    assert!(failed.err.contains(&expected), "{failed:?}");
    // Findings of replies too.
    std::fs::remove_file(place.0.join("f1")).unwrap();
    let status = place.json(&["pool", "status", "tank"]);
    let texts: Vec<_> = status["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let expected = format!("varve drive replace --state {state} tank/fast1");
    let is_told = |finding: &&Value| finding["text"].as_str().unwrap().contains(&expected);
    assert!(texts.iter().any(is_told), "{status}");
}

/// A state directory that was named and is not there is told, and not made.
#[test]
fn a_state_directory_that_is_not_there_is_told() {
    let place = Place::new();
    for arguments in [
        &["pool", "list"][..],
        &["pool", "status"],
        &["pool", "status", "--check"],
        &["pool", "status", "tank"],
        &["pool", "export", "tank"],
        &["volume", "list"],
        &["volume", "create", "tank/v", "8M"],
        &["drive", "list"],
        &["check", "tank"],
    ] {
        place.refused(3, "there is no state directory", arguments);
        assert!(!place.0.join("state").exists(), "{arguments:?}");
    }
}

/// Runs a command as a user who may not do what the owner of these files may; nothing if there is no such user here.
fn as_stranger(place: &Place, arguments: &[&str]) -> Option<Outcome> {
    const STRANGER: u32 = 65_534;
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(arguments);
    if is_root() {
        command.uid(STRANGER).gid(STRANGER);
        chown(place.0.join("state"), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        output => {
            let output = output.unwrap();
            Some(Outcome {
                code: output.status.code().expect("no signal ended it"),
                out: String::from_utf8(output.stdout).unwrap(),
                err: String::from_utf8(output.stderr).unwrap(),
            })
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// What a user may not read or write is told as that, with who may; before anything is made.
#[test]
fn what_belongs_to_another_user_is_told() {
    let place = Place::new();
    let directory = |name: &str, mode: u32| {
        std::fs::create_dir(place.0.join(name)).unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.0.join(name), mode).unwrap();
    };
    // Root's own are shut to the stranger, anybody else's to itself.
    directory("state", 0o700);
    directory("shut", if is_root() { 0o700 } else { 0 });
    directory("fixed", if is_root() { 0o755 } else { 0o555 });
    let list = ["pool", "list", "--state", &place.path("shut")];
    let Some(list) = as_stranger(&place, &list) else {
        eprintln!(
            "skipped: no other user may run {}",
            env!("CARGO_BIN_EXE_varve")
        );
        return;
    };
    assert_eq!(list.code, 4, "{list:?}");
    assert!(list.err.contains("may be read by user "), "{list:?}");
    assert!(!list.err.contains("daemon"), "{list:?}");
    let drive = place.path("fixed/f:64M");
    let state = place.path("state");
    for more in [&["--dry-run"][..], &[]] {
        let create = [
            "pool", "create", "tank", "--state", &state, "--fast", &drive,
        ];
        let create = as_stranger(&place, &[&create[..], more].concat()).expect("it may run");
        assert_eq!(create.code, 4, "{create:?}");
        assert!(create.err.contains("no file can be made in"), "{create:?}");
        assert!(
            create.err.contains("next:  let this user write"),
            "{create:?}"
        );
    }
}
