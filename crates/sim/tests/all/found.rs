//! The seeds in `seeds/found.txt` pass: see `seeds/README.md`.

use std::path::Path;
use varve_sim::real::Real;
use varve_sim::run::run;
use varve_sim::scenario::Options;

/// A line: seed, operations or `-`, story.
fn parse(line: &str) -> (u64, Options) {
    let mut words = line.split_whitespace();
    let seed = words.next().and_then(|seed| seed.parse().ok());
    let operations = words.next().expect("the number of operations or `-`");
    assert!(words.next().is_some(), "{line:?} tells no story");
    let usual = Options::default();
    let operations = match operations {
        "-" => usual.operations,
        count => count.parse().expect("the number of operations"),
    };
    let options = Options {
        operations,
        ..usual
    };
    (seed.expect("a line begins with a seed"), options)
}

#[test]
fn found_seeds_pass() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../seeds/found.txt");
    let text = std::fs::read_to_string(&path).expect("the list of seeds");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert!(!lines.is_empty(), "the list has seeds");
    for line in lines {
        let (seed, options) = parse(line);
        // Once: that two runs are alike is what other seeds show.
        let report = run(seed, &Real::new(None), options);
        assert_eq!(report.failure, None, "{line}");
    }
}
