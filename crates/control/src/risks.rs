//! What somebody who makes a pool should know before going on: nothing of it stands in the way.

use crate::finding::{Finding, Severity};
use varve_pool::Protect;
use varve_pool::label;

/// Of so many parts of the dense tier the fast one is one at least, or much of its log is leaves of the map (engine.md 2).
const FAST_ONE_IN: u64 = 50;

/// The pool that would be made.
pub(crate) struct Made {
    /// Fast drives.
    pub(crate) fast: usize,
    /// Dense drives.
    pub(crate) dense: usize,
    pub(crate) protect: Protect,
    /// Bytes of the fast tier.
    pub(crate) fast_bytes: u64,
    /// Bytes of the dense tier without its redundancy.
    pub(crate) dense_bytes: u64,
}

/// What the user should know before going on.
pub(crate) fn risks(made: &Made) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut warn = |code: &str, text: &str| {
        findings.push(Finding::new(Severity::Warning, code, text));
    };
    if made.fast == 1 {
        warn(
            "fast-single",
            "one fast drive: what is not on the dense tier yet is lost with it",
        );
    }
    if label::rests_on_one(made.fast, made.dense) {
        warn(
            "rests-on-one",
            "two drives in all: if the first one is lost the pool stops, and opens again only with \
             --accept-loss, since the other one alone cannot tell that it has the newest state; a third fast drive or \
             a dense drive helps",
        );
    }
    if made.dense > 0 && made.protect == Protect::None {
        warn(
            "dense-unprotected",
            "the dense tier has no redundancy: a lost drive is lost data",
        );
    }
    if made.dense == 0 {
        warn(
            "no-dense",
            "no dense drive: the pool is as large as its log",
        );
    }
    if made.fast_bytes * FAST_ONE_IN < made.dense_bytes {
        let share = made.fast_bytes as f64 * 100.0 / made.dense_bytes as f64;
        warn(
            "fast-small",
            &format!(
                "the fast tier is {share:.1} % of the dense one: below 2 % much of its log is leaves of the map, so that \
                 it wears faster and less of what hosts overwrite dies in it; 5 % is usual"
            ),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Made = Made {
        fast: 2,
        dense: 4,
        protect: Protect::Mirror,
        fast_bytes: 20,
        dense_bytes: 1000,
    };

    fn told(made: &Made) -> Vec<String> {
        let all = risks(made).into_iter();
        all.map(|finding| finding.code).collect()
    }

    #[test]
    fn each_risk_is_told_by_itself() {
        assert!(told(&USUAL).is_empty());
        let table = [
            (Made { fast: 1, ..USUAL }, "fast-single"),
            (
                Made {
                    protect: Protect::None,
                    ..USUAL
                },
                "dense-unprotected",
            ),
            (
                Made {
                    fast_bytes: 19,
                    ..USUAL
                },
                "fast-small",
            ),
            (
                Made {
                    fast: 3,
                    dense: 0,
                    dense_bytes: 0,
                    ..USUAL
                },
                "no-dense",
            ),
        ];
        for (made, code) in table {
            assert_eq!(told(&made), [code]);
        }
    }
}
