//! What `check` and `test` consist of: a table of steps, timed, stopped at the first that fails.

use crate::guest;
use crate::jobs::{self, Job};
use crate::programs;
use crate::scratch::{self, Scratch};
use crate::setup::cargo_deny_path;
use crate::tally::Tally;
use crate::tidy;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
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
    /// The tests of what Cargo builds with these arguments.
    Tests(&'static [&'static str]),
    /// The same, and those with a Linux guest, which are skipped where there can be none.
    TestsAndGuests(&'static [&'static str]),
    /// Tests in documentation, which Cargo runs itself.
    Documentation,
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
        "--lib",
        "--bins",
    ]),
};
const ALL: Step = Step {
    name: "all tests",
    action: Action::TestsAndGuests(&["test", "--workspace", "--exclude", "xtask", "--quiet"]),
};
const DOCUMENTATION: Step = Step {
    name: "tests in documentation",
    action: Action::Documentation,
};
// Apart, so that the tests of the chores cannot hide that the product's did not run.
const OWN: Step = Step {
    name: "tests of the chores",
    action: Action::Tests(&["test", "--package", "xtask", "--quiet"]),
};

/// Test programs beside one another. Each runs as many tests at a time as there are processors: with two that is two a
/// processor, as many of them wait for drives, and what waits at the end of one program leaves its share to the other.
const AT_ONCE: usize = 2;

/// What takes longest, longest first: begun first, so that nothing is left alone at the end.
const LONGEST: [&str; 8] = [
    "lab all",
    "guest power-old",
    "sim all",
    "varve laboratory",
    "guest power",
    "varve all",
    "ftl all",
    "guest pool",
];

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
    run(root, &[FORMAT, TIDY, DENY, CLIPPY, OWN, ALL, DOCUMENTATION])
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
            Action::Tests(arguments) => tests(root, arguments, Vec::new(), &mut tally),
            Action::TestsAndGuests(arguments) => {
                guest::jobs(root, &[]).and_then(|guests| tests(root, arguments, guests, &mut tally))
            }
            Action::Documentation => cargo(root, &["test", "--workspace", "--doc", "--quiet"]),
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

/// Builds, then runs what was built and `others`, [`AT_ONCE`] beside one another. No test at all is a failure.
fn tests(root: &Path, arguments: &[&str], others: Vec<Job>, sum: &mut Tally) -> Result<(), String> {
    let scratch = Scratch::new();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let environment: Arc<[(String, PathBuf)]> =
        std::iter::once(("RUST_TEST_THREADS", threads.to_string().into()))
            .chain(
                scratch
                    .iter()
                    .map(|one| (scratch::VARIABLE, one.path().to_owned())),
            )
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
    let programs = programs::build(root, arguments)?;
    let built = programs.into_iter();
    let mut jobs = others;
    jobs.extend(built.map(|one| one.job(Arc::clone(&environment))));
    jobs.sort_by_key(|job| {
        LONGEST
            .iter()
            .position(|name| *name == job.name)
            .unwrap_or(LONGEST.len())
    });
    let (mut tally, mut failed) = (Tally::default(), Vec::new());
    jobs::run(jobs, AT_ONCE, &mut |name, done, elapsed| {
        println!("{}", jobs::line(name, done, elapsed));
        tally.add(done.tally);
        if done.failure.is_some() {
            failed.push(name.to_owned());
        }
    });
    if !failed.is_empty() {
        return Err(format!("failed: {} ({tally})", failed.join(", ")));
    }
    if tally.passed == 0 {
        return Err("no test ran".to_owned());
    }
    sum.add(tally);
    Ok(())
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
