//! The real binary: pools, volumes, drives, as a user has them, and what it says to bad input.

use serde_json::Value;
use std::path::{Path, PathBuf};
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
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
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
    place.refused(4, "--shrink", &["volume", "resize", "tank/db", "50M"]);
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
    // Another machine, and back.
    let drives = ["f0", "f1", "d0", "d1", "d2"];
    let moved = place.run_as("elsewhere", &[&["pool", "import"][..], &drives].concat());
    assert_eq!(moved.code, 0, "{moved:?}");
    place.refused(
        5,
        "--take-over",
        &[&["pool", "import"][..], &drives].concat(),
    );
    place.ok(&[&["pool", "import", "--take-over"][..], &drives].concat());
    place.ok(&["pool", "destroy", "tank"]);
    place.tank_of(&drives);
}

impl Place {
    /// A command that has no state directory.
    fn json_of(&self, arguments: &[&str]) -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_varve"))
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The same drives make a pool again.
    fn tank_of(&self, drives: &[&str]) {
        let (fast, dense) = drives.split_at(2);
        let start = ["pool", "create", "again", "--fast"];
        self.ok(&[&start[..], fast, &["--dense"], dense].concat());
    }
}

#[test]
fn bad_input_is_refused_before_anything_changes() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/v", "10M"]);
    let before: Vec<_> = ["f0", "d0", "d2"]
        .iter()
        .map(|name| std::fs::read(place.0.join(name)).unwrap())
        .collect();
    // Names, sizes, places.
    place.refused(3, "varve pool list", &["volume", "create", "none/v", "10M"]);
    place.refused(
        3,
        "varve volume list tank",
        &["volume", "delete", "tank/none"],
    );
    place.refused(3, "varve pool", &["pool", "status", "none"]);
    place.refused(3, "varve pool", &["pool", "destroy", "none"]);
    place.refused(3, "varve pool", &["check", "none"]);
    place.refused(5, "another name", &["volume", "create", "tank/v", "10M"]);
    place.refused(2, "48 characters", &["volume", "create", "tank/w w", "10M"]);
    for size in ["0", "10", "x", "-1", "1.5G", "99999999999T"] {
        let outcome = place.run(&["volume", "create", "tank/w", size]);
        assert_eq!(outcome.code, 2, "{size}: {outcome:?}");
    }
    assert_eq!(place.run(&["volume", "create", "tank", "10M"]).code, 2);
    place.refused(2, "4 PiB", &["volume", "create", "tank/w", "100000T"]);
    place.refused(
        3,
        "varve drive list tank",
        &["drive", "replace", "tank/dense7", "n:128M"],
    );
    place.refused(
        4,
        "--give-up",
        &["drive", "replace", "tank/dense1", "n:128M"],
    );
    let replace = ["drive", "replace", "tank/dense1", "--give-up"];
    place.refused(4, "larger", &[&replace[..], &["n:2M"]].concat());
    place.refused(4, "PATH:SIZE", &[&replace[..], &["none"]].concat());
    // Drives.
    let create = |fast: &[&str], dense: &[&str]| -> Vec<String> {
        let all = [
            &["pool", "create", "new", "--fast"],
            fast,
            &["--dense"],
            dense,
        ]
        .concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let refused = |code, next: &str, arguments: Vec<String>| {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        place.refused(code, next, &arguments);
    };
    std::fs::write(place.0.join("held"), vec![0; 64 << 20]).unwrap();
    std::fs::write(place.0.join("text"), vec![b'x'; 64 << 20]).unwrap();
    std::fs::write(place.0.join("small"), vec![0; 1 << 20]).unwrap();
    refused(4, "PATH:SIZE", create(&["none"], &["d:128M"]));
    refused(4, "larger drives", create(&["small"], &["d:128M"]));
    refused(4, "larger drives", create(&["g:8M"], &["d:128M"]));
    refused(4, "--overwrite", create(&["text"], &["d:128M"]));
    refused(4, "varve pool destroy", create(&["f0"], &["d:128M"]));
    refused(4, "", create(&["held", "held"], &["d:128M"]));
    refused(4, "", create(&["nowhere/f:64M"], &["d:128M"]));
    refused(4, "", create(&["/dev/null"], &["d:128M"]));
    refused(
        2,
        "K+1",
        [
            create(&["g:64M"], &["d:128M"]),
            vec!["--protect=4+1".into()],
        ]
        .concat(),
    );
    refused(
        2,
        "80",
        [
            create(&["g:64M"], &["d:128M"]),
            vec!["--over-provision=95".into()],
        ]
        .concat(),
    );
    refused(5, "another name", {
        let mut again = create(&["g:64M"], &["d:128M"]);
        again[2] = "tank".to_owned();
        again
    });
    let lock = Disk::open(&place.0.join("held"), &DiskOptions::default()).unwrap();
    refused(
        5,
        &format!("process {}", std::process::id()),
        create(&["held"], &["d:128M"]),
    );
    drop(lock);
    for name in ["d", "g", "n"] {
        assert!(!place.0.join(name).exists(), "{name} was left behind");
    }
    // Two processes on one pool.
    let lock = Disk::open(&place.0.join("d1"), &DiskOptions::default()).unwrap();
    let mine = format!("process {}", std::process::id());
    place.refused(5, &mine, &["volume", "list"]);
    place.refused(5, &mine, &["check", "tank"]);
    assert_eq!(
        place.run(&["pool", "status", "tank"]).code,
        0,
        "status needs no lock"
    );
    drop(lock);
    for (name, before) in ["f0", "d0", "d2"].iter().zip(before) {
        let now = std::fs::read(place.0.join(name)).unwrap();
        // Commands that opened the pool and found no such volume wrote labels and log only.
        let changed = now.iter().zip(&before).filter(|(a, b)| a != b).count();
        assert!(
            *name == "f0" || changed <= 8192,
            "{name}: {changed} bytes changed"
        );
    }
    place.ok(&["check", "tank"]);
}

#[test]
fn a_drive_that_was_replaced_is_free_and_a_rotten_one_is_found() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/v", "10M"]);
    place.ok(&["drive", "replace", "tank/dense1", "n1:128M", "--give-up"]);
    let other = [
        "pool", "create", "other", "--fast", "o:64M", "--dense", "d1",
    ];
    place.refused(4, "--overwrite", &other);
    place.ok(&[&other[..], &["--overwrite"]].concat());
    assert!(place.ok(&["pool", "list"]).contains("other"));
    // Every part of the newest checkpoint lies on both fast drives: rot one of them.
    let path = place.0.join("f1");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1 << 20..]
        .iter_mut()
        .step_by(512)
        .for_each(|byte| *byte ^= 1);
    std::fs::write(&path, bytes).unwrap();
    let check = place.run(&["check", "tank", "--json"]);
    let found: Value = serde_json::from_str(&check.out).unwrap();
    // The start has written a whole checkpoint anew on both; what it needed was on the other drive.
    assert_eq!(found["broken"], Value::Null, "{found}");
    assert_eq!(found["lost_blocks"], 0);
    assert_eq!(check.code, i32::from(found["agrees"] == false), "{found}");
    assert_eq!(
        place.json(&["volume", "list", "tank"])["volumes"][0]["volume"],
        "v"
    );
}

#[test]
fn a_lost_drive_is_replaced_by_commands() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/v", "10M"]);
    std::fs::remove_file(place.0.join("d1")).unwrap();
    place.refused(4, "--degraded", &["volume", "list"]);
    let status = place.run(&["pool", "status", "tank", "--check"]);
    assert_eq!(status.code, 6, "{status:?}");
    assert_eq!(
        place.json(&["pool", "status", "tank"])["health"],
        "degraded"
    );
    let replaced = place.json(&["drive", "replace", "tank/dense1", "n1:128M", "--give-up"]);
    assert_eq!(
        (&replaced["kind"], &replaced["state"]),
        (&"Job".into(), &"done".into())
    );
    let status = place.run(&["pool", "status", "tank", "--check"]);
    assert_eq!(status.code, 0, "{status:?}");
    assert!(status.out.contains("/n1"), "{status:?}");
    place.ok(&["check", "tank"]);
    let again = ["pool", "create", "other", "--fast", "o:64M", "--dense"];
    place.refused(4, "varve pool destroy", &[&again[..], &["n1"]].concat());
    // The old registry is not needed.
    std::fs::remove_file(place.0.join("state/registry.json")).unwrap();
    place.ok(&["pool", "import", "f0", "f1", "d0", "n1", "d2"]);
    assert_eq!(place.json(&["volume", "list"])["volumes"][0]["volume"], "v");
    // What the state directory holds is damaged: told, not believed.
    std::fs::write(place.0.join("state/registry.json"), "{").unwrap();
    place.refused(1, "move", &["pool", "list"]);
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
