//! Makes a failing seed shorter: without faults if it fails so too, then with fewer operations.
//!
//! **Not here**: fewer drives or hosts; they are part of what the seed means.

use crate::campaign::guarded;
use crate::run::{Report, run};
use crate::scenario::Options;
use crate::subject::Factory;

/// The smallest failing run that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrunk {
    /// Its options.
    pub options: Options,
    /// What it does.
    pub report: Report,
}

/// Shrinks a failing seed; `None` if it does not fail.
#[must_use]
pub fn shrink(seed: u64, make: &dyn Fn() -> Box<dyn Factory>, options: Options) -> Option<Shrunk> {
    let attempt = |options: Options| {
        let report = guarded(seed, &|| run(seed, &*make(), options));
        report
            .failure
            .is_some()
            .then_some(Shrunk { options, report })
    };
    let mut best = attempt(options)?;
    let calm = Options {
        has_faults: false,
        ..best.options
    };
    best = attempt(calm).unwrap_or(best);
    // Failing is not monotonic in the number of operations: look from below in doubling steps,
    // but never beyond the middle of what is left.
    let mut passing = 0;
    let mut operations = 1;
    while best.options.operations - passing > 1 {
        let fewer = Options {
            operations,
            ..best.options
        };
        let found = attempt(fewer);
        match found {
            Some(shorter) => best = shorter,
            None => passing = operations,
        }
        let middle = passing + (best.options.operations - passing) / 2;
        operations = middle.min((passing * 2).max(1));
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Bug, Reference};

    /// A bug that needs few operations is shown with few; a correct pool is not shrunk.
    #[test]
    fn failing_seeds_shrink() {
        let broken = || -> Box<dyn Factory> { Box::new(Reference::new(Some(Bug::FailsFlush))) };
        let shrunk = shrink(2, &broken, Options::default()).expect("the seed fails");
        assert!(shrunk.report.failure.is_some());
        assert!(shrunk.options.operations < 1_000, "{:?}", shrunk.options);
        let correct = || -> Box<dyn Factory> { Box::new(Reference::new(None)) };
        assert_eq!(
            shrink(
                0,
                &correct,
                Options {
                    operations: 100,
                    ..Options::default()
                }
            ),
            None
        );
    }
}
