//! What `check` and `test` consist of: a table of steps, timed, stopped at the first that fails.

use crate::guest;
use crate::scratch::{self, Scratch};
use crate::setup::cargo_deny_path;
use crate::tally::Tally;
use crate::tidy;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Something to do before a change is good.
struct Step {
    name: &'static str,
    action: Action,
}

enum Action {
    /// Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// The rules of `tidy`.
    Tidy,
    /// cargo-deny: licences, bans, sources. Advisories need a database that is not on a registry.
    Deny,
    /// Cargo with these arguments; its tests are counted and none is a failure.
    Tests(&'static [&'static str]),
    /// The tests with a Linux guest, counted too; skipped where there can be none.
    Guest,
}

const FORMAT: Step = Step {
    name: "format",
    action: Action::Cargo(&["fmt", "--all", "--check"]),
};
const TIDY: Step = Step {
    name: "tidy",
    action: Action::Tidy,
};
const DENY: Step = Step {
    name: "licences and sources",
    action: Action::Deny,
};
const CLIPPY: Step = Step {
    name: "clippy",
    action: Action::Cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "--deny",
        "warnings",
    ]),
};
const UNIT: Step = Step {
    name: "unit tests",
    action: Action::Tests(&[
        "test",
        "--workspace",
        "--exclude",
        "xtask",
        "--quiet",
        "--no-fail-fast",
        "--lib",
        "--bins",
    ]),
};
const ALL: Step = Step {
    name: "all tests",
    action: Action::Tests(&[
        "test",
        "--workspace",
        "--exclude",
        "xtask",
        "--quiet",
        "--no-fail-fast",
    ]),
};
// Apart, because the feature that can plant bugs must not be on for anything else.
const CANARIES: Step = Step {
    name: "canaries",
    action: Action::Tests(&[
        "test",
        "--package",
        "varve-sim",
        "--features",
        "canary",
        "--test",
        "canaries",
        "--quiet",
    ]),
};
// Apart, so that the tests of the chores cannot hide that the product's did not run.
const OWN: Step = Step {
    name: "tests of the chores",
    action: Action::Tests(&["test", "--package", "xtask", "--quiet"]),
};

const GUEST: Step = Step {
    name: "guest tests",
    action: Action::Guest,
};

/// What is run before each commit.
///
/// # Errors
/// At the first step that fails.
pub fn check(root: &Path) -> Result<(), String> {
    run(root, &[FORMAT, TIDY, DENY, CLIPPY, OWN, UNIT])
}

/// What is run before a change is accepted.
///
/// # Errors
/// At the first step that fails.
pub fn test(root: &Path) -> Result<(), String> {
    run(
        root,
        &[FORMAT, TIDY, DENY, CLIPPY, OWN, ALL, CANARIES, GUEST],
    )
}

fn run(root: &Path, steps: &[Step]) -> Result<(), String> {
    let mut tally = Tally::default();
    for step in steps {
        let start = now();
        eprintln!("== {}", step.name);
        let done = match step.action {
            Action::Cargo(arguments) => cargo(root, arguments),
            Action::Tidy => tidy::run(root),
            Action::Deny => deny(root),
            Action::Tests(arguments) => tests(root, arguments, &mut tally),
            Action::Guest => guest::tests(root, &[], &mut tally),
        };
        done.map_err(|error| format!("{}: {error}", step.name))?;
        eprintln!(
            "== {}: ok in {:.1} s",
            step.name,
            start.elapsed().as_secs_f64()
        );
    }
    println!("ok: {tally}");
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a step takes is what is shown"
)]
fn now() -> Instant {
    Instant::now()
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new("cargo")
        .args(arguments)
        .current_dir(root)
        .status();
    verdict(arguments, status)
}

fn deny(root: &Path) -> Result<(), String> {
    let binary = cargo_deny_path(root);
    if !binary.exists() {
        return Err("cargo-deny is not installed: run `make setup`".to_owned());
    }
    let arguments = [
        "--offline",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ];
    let status = Command::new(binary)
        .args(arguments)
        .current_dir(root)
        .status();
    verdict(&arguments, status)
}

/// Runs tests, passing their output on while counting. None at all is a failure.
fn tests(root: &Path, arguments: &[&str], sum: &mut Tally) -> Result<(), String> {
    let scratch = Scratch::new();
    let mut child = Command::new("cargo")
        .args(arguments)
        .current_dir(root)
        .env("RUST_TEST_THREADS", test_threads().to_string())
        .envs(scratch.iter().map(|one| (scratch::VARIABLE, one.path())))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo: {error}"))?;
    let output = child.stdout.take().expect("stdout was asked to be piped");
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("output of the tests: {error}"))?;
        println!("{line}");
        tally.add_line(&line);
    }
    let status = child.wait();
    verdict(arguments, status).map_err(|error| format!("{error} ({tally})"))?;
    if tally.passed == 0 {
        return Err("no test ran".to_owned());
    }
    sum.add(tally);
    Ok(())
}

/// Tests at a time: two for each processor, as many of them wait for drives.
fn test_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn verdict(
    arguments: &[&str],
    status: std::io::Result<std::process::ExitStatus>,
) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}`: {status}", arguments.join(" "))),
        Err(error) => Err(format!("`{}`: {error}", arguments.join(" "))),
    }
}
