//! Runs the tests that need a Linux guest.

use crate::tally::Tally;
use std::path::Path;
use varve_guest::{Outcome, Verdict};

/// Runs the tests named, or all.
///
/// # Errors
/// If one fails, or there is none of that name.
pub fn run(root: &Path, wanted: &[String]) -> Result<(), String> {
    let mut tally = Tally::default();
    tests(root, wanted, &mut tally)?;
    println!("{tally}");
    Ok(())
}

/// Runs tests and counts them.
///
/// # Errors
/// If one fails, or there is none of that name.
pub fn tests(root: &Path, wanted: &[String], sum: &mut Tally) -> Result<(), String> {
    let mut tally = Tally::default();
    varve_guest::run(root, wanted, &mut |outcome| {
        println!("{}", line(outcome));
        match outcome.verdict {
            Verdict::Passed(_) => tally.passed += 1,
            Verdict::Failed(_) => tally.failed += 1,
            Verdict::Skipped(_) => tally.skipped += 1,
        }
    })
    .map_err(|error| {
        let known: Vec<_> = varve_guest::names()
            .map(|(name, about)| format!("\n  {name:<12} {about}"))
            .collect();
        format!("{error}; there are:{}", known.concat())
    })?;
    sum.add(tally);
    match tally.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} guest tests failed")),
    }
}

fn line(outcome: &Outcome) -> String {
    let Outcome {
        name,
        verdict,
        elapsed,
    } = outcome;
    let seconds = elapsed.as_secs_f64();
    match verdict {
        Verdict::Passed(notes) => {
            let notes: Vec<_> = notes.iter().map(|note| format!("\n    {note}")).collect();
            format!(
                "guest test {name} ... ok ({seconds:.0} s){}",
                notes.concat()
            )
        }
        Verdict::Failed(why) => format!("guest test {name} ... FAILED ({seconds:.0} s)\n    {why}"),
        Verdict::Skipped(why) => format!("guest test {name} ... skipped: {why}"),
    }
}
