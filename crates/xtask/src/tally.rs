//! Counts what a test run says it did.

use std::fmt;

/// Sums over the test binaries of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were not run because they are marked so.
    pub ignored: u64,
    /// Tests that this machine cannot run; each has said why.
    pub skipped: u64,
}

impl Tally {
    /// Takes one line of a test run's output; any other line counts nothing.
    pub fn add_line(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else {
            return;
        };
        let counts = counts.split_once(". ").map_or("", |(_, counts)| counts);
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// Adds the sums of another run.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            ignored,
            skipped,
        } = self;
        write!(
            f,
            "{passed} tests passed, {failed} failed, {ignored} ignored"
        )?;
        match skipped {
            0 => Ok(()),
            _ => write!(f, ", {skipped} SKIPPED (the reason is above)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a::passed ... ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1s",
        ] {
            tally.add_line(line);
        }
        assert_eq!(
            tally,
            Tally {
                passed: 5,
                failed: 1,
                ignored: 1,
                skipped: 0,
            }
        );
        assert_eq!(tally.to_string(), "5 tests passed, 1 failed, 1 ignored");
        tally.add(Tally {
            skipped: 2,
            ..Tally::default()
        });
        assert!(
            tally
                .to_string()
                .ends_with("1 ignored, 2 SKIPPED (the reason is above)")
        );
    }
}
