//! Runs the tests that need a Linux guest.

use crate::bounded::{self, LONGEST};
use crate::jobs::{self, Done, Job};
use crate::tally::Tally;
use std::path::Path;
use varve_guest::Verdict;

/// Runs the tests named, or all, one after another.
///
/// # Errors
/// If one fails, or there is none of that name.
pub fn run(root: &Path, wanted: &[String]) -> Result<(), String> {
    let (mut tally, mut failed) = (Tally::default(), 0);
    jobs::run(jobs(root, wanted)?, 1, &mut |name, done, elapsed| {
        println!("{}", jobs::line(name, done, elapsed));
        tally.add(done.tally);
        failed += u32::from(done.failure.is_some());
    });
    println!("{tally}");
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} guest tests failed")),
    }
}

/// A job for each of the tests named, or of all.
///
/// # Errors
/// If there is none of a name.
pub fn jobs(root: &Path, wanted: &[String]) -> Result<Vec<Job>, String> {
    let known = || varve_guest::names().map(|(name, _)| name);
    if let Some(name) = wanted.iter().find(|name| known().all(|one| one != **name)) {
        let there: Vec<_> = varve_guest::names()
            .map(|(name, about)| format!("\n  {name:<12} {about}"))
            .collect();
        return Err(format!(
            "there is no guest test `{name}`; there are:{}",
            there.concat()
        ));
    }
    let chosen = known().filter(|name| wanted.is_empty() || wanted.iter().any(|one| one == name));
    let job = |name: &'static str| {
        let root = root.to_owned();
        Job {
            name: format!("guest {name}"),
            run: Box::new(move || {
                let run = move || varve_guest::run(&root, name);
                bounded::within(LONGEST, run)
                    .flatten()
                    .map_or_else(Done::failed, told)
            }),
        }
    };
    Ok(chosen.map(job).collect())
}

fn told(verdict: Verdict) -> Done {
    let mut tally = Tally::default();
    let (failure, notes) = match verdict {
        Verdict::Passed(notes) => {
            tally.passed = 1;
            (None, notes.join("\n"))
        }
        Verdict::Failed(why) => {
            tally.failed = 1;
            (Some("failed".to_owned()), why)
        }
        Verdict::Skipped(why) => {
            tally.skipped = 1;
            (None, format!("skipped: {why}"))
        }
    };
    Done {
        tally,
        failure,
        notes,
    }
}
