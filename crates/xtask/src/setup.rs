//! Installs what a fresh machine lacks; says what; does nothing when all is there.
//!
//! **Not here**: what is needed before this program can be built at all (Rust by rustup, a C
//! linker, make). The README names it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of cargo-deny that `cargo xtask check` runs.
pub const DENY_VERSION: &str = "0.20.2";

/// A system package and the command that shows it is there.
struct Package {
    name: &'static str,
    probe: [&'static str; 2],
    purpose: &'static str,
}

/// Every system package the project needs. One place, so that the documents can point here.
const PACKAGES: [Package; 1] = [Package {
    name: "git",
    probe: ["git", "--version"],
    purpose: "list of files for tidy",
}];

/// Installs missing packages, toolchain components and tools.
///
/// # Errors
/// If something is missing and cannot be installed; the message names it.
pub fn run(root: &Path) -> Result<(), String> {
    packages()?;
    components()?;
    crates(root)?;
    // Beside one another: the one computes, the other waits for the network.
    let (deny, guest) = std::thread::scope(|scope| {
        let guest = scope.spawn(|| varve_guest::prepare(root));
        let deny = cargo_deny(root);
        (deny, guest.join().expect("it reports its own failures"))
    });
    deny?;
    match guest {
        Ok(_) => eprintln!("setup: all there"),
        // Everything else works without it, and says so.
        Err(why) => eprintln!("setup: all there but the guest; its tests will be skipped: {why}"),
    }
    Ok(())
}

/// Where cargo-deny is installed: inside the project, nothing else on the machine changes.
pub fn cargo_deny_path(root: &Path) -> PathBuf {
    root.join("target/tools/bin/cargo-deny")
}

fn packages() -> Result<(), String> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|package| !answers(&package.probe))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        eprintln!(
            "setup: package {} is missing ({})",
            package.name, package.purpose
        );
    }
    let mut line: Vec<&str> = if answers(&["sudo", "-V"]) {
        vec!["sudo"]
    } else {
        Vec::new()
    };
    line.extend(["apt-get", "install", "--yes", "--no-install-recommends"]);
    line.extend(missing.iter().map(|package| package.name));
    execute(&line)
}

fn components() -> Result<(), String> {
    for (component, command) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !answers(&["cargo", command, "--version"]) {
            eprintln!("setup: toolchain component {component} is missing");
            execute(&["rustup", "component", "add", component])?;
        }
    }
    Ok(())
}

/// Fetches every crate of the lock file, those of other platforms too: the licence check reads
/// them, and works offline afterwards. Does nothing when all are there.
fn crates(root: &Path) -> Result<(), String> {
    let status = Command::new("cargo")
        .args(["fetch", "--locked", "--quiet"])
        .current_dir(root)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo fetch: {status}")),
        Err(error) => Err(format!("cargo fetch: {error}")),
    }
}

fn cargo_deny(root: &Path) -> Result<(), String> {
    let binary = cargo_deny_path(root);
    let installed = Command::new(&binary).arg("--version").output();
    let wanted = format!("cargo-deny {DENY_VERSION}");
    if installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == wanted) {
        return Ok(());
    }
    let tools = root.join("target/tools");
    eprintln!(
        "setup: installing {wanted} into {} (some minutes, once)",
        tools.display()
    );
    // Unoptimised and without debug information: half the time to build, and a run is short.
    let status = Command::new("cargo")
        .args(["install", "--quiet", "--locked", "--force", "--debug"])
        .args(["cargo-deny", "--version", DENY_VERSION, "--root"])
        .arg(&tools)
        .env("CARGO_TARGET_DIR", tools.join("build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .status();
    match status {
        Ok(status) if status.success() => std::fs::remove_dir_all(tools.join("build"))
            .map_err(|error| format!("cannot remove the build files of cargo-deny: {error}")),
        Ok(status) => Err(format!("cargo install cargo-deny: {status}")),
        Err(error) => Err(format!("cargo install cargo-deny: {error}")),
    }
}

/// Whether a command runs and succeeds.
fn answers(line: &[&str]) -> bool {
    let command = Command::new(line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    command.is_ok_and(|status| status.success())
}

fn execute(line: &[&str]) -> Result<(), String> {
    let shown = line.join(" ");
    eprintln!("setup: {shown}");
    match Command::new(line[0]).args(&line[1..]).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}`: {status}; run it yourself to see why")),
        Err(error) => Err(format!("`{shown}`: {error}; install it by other means")),
    }
}
