//! The list of assumptions about media is the document's and the simulator's: neither has what the other lacks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use varve_sim::assumptions::{ASSUMPTIONS, Drawn, document};
use varve_sim::campaign::FEATURES;
use varve_sim::guarantee::FAULTS;
use varve_sim::real::Real;
use varve_sim::subject::Factory;

const BEGIN: &str = "<!-- assumptions: begin; written by `make golden` -->\n";
const END: &str = "<!-- assumptions: end -->\n";

/// To accept a change, run the test once with `VARVE_GOLDEN=update`.
#[test]
fn document_is_in_step() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("a mark where it begins");
    let (list, after) = rest.split_once(END).expect("a mark where it ends");
    let expected = document();
    if std::env::var("VARVE_GOLDEN").is_ok_and(|value| value == "update") {
        fs::write(&path, [before, BEGIN, &expected, END, after].concat()).unwrap();
    } else {
        assert_eq!(list, expected, "run with VARVE_GOLDEN=update and review");
    }
}

/// Names under which assumptions are broken.
fn drawn() -> BTreeSet<&'static str> {
    let of = ASSUMPTIONS.iter().map(|one| match one.drawn {
        Drawn::As(names) => names,
        Drawn::WithPower | Drawn::Never => &[],
    });
    of.flatten().copied().collect()
}

/// A campaign in which an assumption was never put to the test fails.
#[test]
fn what_is_drawn_has_to_be_seen() {
    let real = Real::new(None);
    let seen: BTreeSet<_> = FEATURES.iter().chain(real.features()).copied().collect();
    let unseen: Vec<_> = drawn().difference(&seen).copied().collect();
    assert!(unseen.is_empty(), "nobody asks for {unseen:?}");
}

/// No fault is injected that the document does not tell of.
#[test]
fn every_fault_breaks_an_assumption() {
    let drawn = drawn();
    let untold: Vec<_> = FAULTS
        .iter()
        .filter(|fault| !drawn.contains(*fault))
        .collect();
    assert!(untold.is_empty(), "no assumption is named for {untold:?}");
}
