//! `varve demo` as its user runs it: once, for a script.

use crate::daemon::{heedful, send};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    let output = command.arg("demo").args(arguments).output();
    output.expect("the binary runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Nothing is lost although the server is killed, every layer's share of the writes is told, and nothing
/// is left behind.
#[test]
fn the_self_test_passes_and_cleans_up() {
    let scratch = std::env::temp_dir().join(format!("varve-demo-it's-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch directory");
    let output = Command::new(env!("CARGO_BIN_EXE_varve"))
        .args(["demo", "--once", "--json", "--listen", "127.0.0.1:0"])
        .args(["--discovery", "127.0.0.1:0"])
        .env("TMPDIR", &scratch)
        .output()
        .expect("the binary runs");
    let told = error(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["kind"], "Demo");
    assert_eq!(json["ok"], true, "{json}");
    assert_eq!(json["verify_errors"], 0);
    let number = |name: &str| {
        json[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {json}"))
    };
    assert!(number("dense_overwrites") >= 2.0, "{json}");
    assert!(
        number("waf_ftl") >= 1.0 && number("waf_device") >= 1.0,
        "{json}"
    );
    // Parity and P2L come on top of what either layer says.
    assert!(number("waf_total") > number("waf_device"), "{json}");
    assert!(
        json["recovery_ms"].as_u64() > Some(0) && number("iops") > 0.0,
        "{json}"
    );
    assert!(number("elapsed_ms") > number("recovery_ms"), "{json}");
    // Each tenant lost its association once, when the server was killed.
    assert!(number("associations_lost") >= 2.0, "{json}");
    let left: Vec<_> = std::fs::read_dir(&scratch).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
    std::fs::remove_dir(&scratch).expect("it is empty");
}

/// Whose terminal goes away leaves nothing behind either.
#[test]
fn a_terminal_that_goes_away_leaves_nothing() {
    let scratch = std::env::temp_dir().join(format!("varve-demo-hup-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch directory");
    let child = heedful()
        .args(["demo", "--json", "--listen", "127.0.0.1:0"])
        .args(["--discovery", "127.0.0.1:0"])
        .env("TMPDIR", &scratch)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let is_begun = || std::fs::read_dir(&scratch).is_ok_and(|mut made| made.next().is_some());
    while !is_begun() {
        std::thread::yield_now();
    }
    send("-HUP", child.id());
    let output = child.wait_with_output().expect("an end");
    let told = error(&output);
    assert!(output.status.code().is_some(), "it ended by itself: {told}");
    assert!(!told.contains("panicked"), "{told}");
    let left: Vec<_> = std::fs::read_dir(&scratch).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}: {told}");
    std::fs::remove_dir(&scratch).expect("it is empty");
}

/// A port that another process has, and one that is named twice.
#[test]
fn a_busy_port_is_told_before_anything_is_made() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    refuses_ports(&address, "127.0.0.1:0");
    drop(taken);
    refuses_ports(&address, &address);
}

fn refuses_ports(address: &str, discovery: &str) {
    let directory = std::env::temp_dir().join(format!("varve-demo-busy-{}", std::process::id()));
    let path = directory.to_str().expect("it is text");
    let ports = ["--listen", address, "--discovery", discovery];
    let output = demo(&[&["--once", "--dir", path], &ports[..]].concat());
    let told = error(&output);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(
        told.contains(address) && told.contains("--listen"),
        "{told}"
    );
    assert!(!Path::new(path).join("dense0.img").exists());
    let _ = std::fs::remove_dir_all(directory);
}

/// The dense tier is written whole, more than once: a disk that is too small is told before anything is made.
#[test]
fn too_small_a_disk_is_told_before_anything_is_made() {
    let directory = std::env::temp_dir().join(format!("varve-demo-small-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    let path = directory.to_str().expect("it is text");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64m", "tmpfs", path])
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: nothing can be mounted here");
        let _ = std::fs::remove_dir(directory);
        return;
    }
    let free = "127.0.0.1:0";
    let ports = ["--listen", free, "--discovery", free];
    let output = demo(&[&["--once", "--dir", path], &ports[..]].concat());
    let is_empty = std::fs::read_dir(&directory).map(|mut left| left.next().is_none());
    let _ = Command::new("umount").args(["--lazy", path]).output();
    let _ = std::fs::remove_dir(&directory);
    let told = error(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(
        told.contains("MB are free") && told.contains("--dir"),
        "{told}"
    );
    assert!(is_empty.expect("it was there"));
}

/// Who may connect from elsewhere cannot be said, so nobody can: told before anything is made.
#[test]
fn only_this_machine_is_listened_to() {
    let directory = std::env::temp_dir().join(format!("varve-demo-open-{}", std::process::id()));
    let path = directory.to_str().expect("it is text");
    let ports = ["--listen", "0.0.0.0:0", "--discovery", "127.0.0.1:0"];
    let output = demo(&[&["--once", "--dir", path], &ports[..]].concat());
    let told = error(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("127.0.0.1"), "{told}");
    assert!(!directory.join("dense0.img").exists());
    let _ = std::fs::remove_dir_all(directory);
}
