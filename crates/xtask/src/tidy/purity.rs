//! The engine reaches the world through the seam alone, so production and simulator run one code.
//!
//! Engine crates carry `#![no_std]`; the compiler then refuses clocks, threads, sockets and files.
//! What is left for a rule is the way around: `extern crate std`. A crate in [`MAY_NAME_STD`] may
//! take it, if the crate documentation says why, and still names none of [`WORLD`].
//! Hash maps without a fixed order are refused there and in the simulator. Tests may use anything.

use super::finding::Finding;
use crate::lex::{Kind, Token};
use crate::tree::Source;

const RULE: &str = "purity";

/// Crates that run unchanged in production and in the simulator.
pub const ENGINE: [&str; 10] = [
    "units",
    "format",
    "gf",
    "io",
    "nvme",
    "array",
    "ftl",
    "target",
    "initiator",
    "pool",
];

/// Engine crates that may name `std`: `gf` asks the CPU which kernels it can run.
const MAY_NAME_STD: [&str; 1] = ["gf"];

/// Crates that must give the same run for the same seed.
const SEEDED: [&str; 2] = ["sim", "media"];

/// Modules of `std` that are the outside world.
const WORLD: [&str; 6] = ["time", "thread", "fs", "net", "env", "process"];

/// Types whose order of iteration changes from run to run.
const UNORDERED: [&str; 3] = ["HashMap", "HashSet", "RandomState"];

/// Checks one file.
pub fn check(source: &Source<'_>) -> Vec<Finding> {
    let engine = ENGINE.contains(&source.package);
    let mut findings = Vec::new();
    if engine && is_library_root(source) {
        findings.extend(check_root(source));
    }
    let code: Vec<_> = source
        .tokens
        .iter()
        .filter(|t| t.kind != Kind::Comment)
        .collect();
    for (at, token) in code.iter().enumerate() {
        if token.kind != Kind::Ident || source.is_test(token.line) {
            continue;
        }
        let found = |text| Finding::error(RULE, source.path, token.line, text);
        if engine && token.text == "std" {
            findings.extend(check_std(source.package, &code[at..]).map(found));
        }
        if (engine || SEEDED.contains(&source.package)) && UNORDERED.contains(&token.text) {
            let text = format!(
                "`{}` has no fixed order: BTreeMap, BTreeSet or Vec",
                token.text
            );
            findings.push(found(text));
        }
    }
    findings
}

fn is_library_root(source: &Source<'_>) -> bool {
    source
        .path
        .strip_prefix("crates/")
        .and_then(|rest| rest.strip_prefix(source.package))
        == Some("/src/lib.rs")
}

/// The crate's root says `#![no_std]`, or is allowed not to and says why.
fn check_root(source: &Source<'_>) -> Option<Finding> {
    let code: Vec<_> = source
        .tokens
        .iter()
        .filter(|t| t.kind != Kind::Comment)
        .collect();
    let says = |words: &[Token<'_>; 5]| {
        words[0].is_mark("#")
            && words[1].is_mark("!")
            && words[2].is_mark("[")
            && words[3].is_word("no_std")
            && words[4].is_mark("]")
    };
    let is_pure = code
        .windows(5)
        .any(|w| says(&[*w[0], *w[1], *w[2], *w[3], *w[4]]));
    let names_std = code
        .iter()
        .any(|t| t.is_word("std") && !source.is_test(t.line));
    if is_pure && !names_std {
        return None;
    }
    if !MAY_NAME_STD.contains(&source.package) {
        let text = "an engine crate needs `#![no_std]` at its root";
        return (!is_pure).then(|| Finding::error(RULE, source.path, 1, text));
    }
    let documented = source.tokens.iter().any(|token| {
        token.kind == Kind::Comment && token.text.starts_with("//!") && token.text.contains("std")
    });
    let text = "write `#![no_std]`, or say in the crate documentation what `std` is for";
    (!documented).then(|| Finding::error(RULE, source.path, 1, text))
}

/// What is wrong with the `std` at the start of `code`, if anything is.
fn check_std(package: &str, code: &[&Token<'_>]) -> Option<String> {
    if !MAY_NAME_STD.contains(&package) {
        return Some("an engine crate does not name `std`: use core, alloc or the seam".to_owned());
    }
    if !code.get(1).is_some_and(|t| t.is_mark(":")) {
        return None;
    }
    let path = code[1..]
        .iter()
        .take_while(|t| !t.is_mark(";") && !t.is_mark("("));
    let world = path
        .filter(|t| t.kind == Kind::Ident)
        .find(|t| WORLD.contains(&t.text))?;
    Some(format!(
        "`std::{}` is the outside world: it comes in through the seam",
        world.text
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn lines(package: &str, text: &str) -> Vec<usize> {
        let path = format!("crates/{package}/src/lib.rs");
        let tree = Tree::of(&[(&path, text)]);
        check(&tree.sources()[0]).iter().map(|f| f.line).collect()
    }

    #[test]
    fn engine_crates_are_no_std() {
        assert_eq!(
            lines("ftl", "//! doc\n#![no_std]\nextern crate alloc;"),
            [0; 0]
        );
        assert_eq!(lines("ftl", "//! #![no_std]"), [1]);
        assert_eq!(lines("sim", "use std::fs;"), [0; 0]);
    }

    #[test]
    fn the_way_around_is_closed() {
        assert_eq!(
            lines("ftl", "#![no_std]\nextern crate std;\nuse std::fs;"),
            [2, 3]
        );
        assert_eq!(
            lines("ftl", "#![no_std]\n#[cfg(test)]\nextern crate std;"),
            [0; 0]
        );
        assert_eq!(
            lines("ftl", "#![no_std]\n#[cfg(test)]\nmod t {\nuse std::fs; }"),
            [0; 0]
        );
        assert_eq!(lines("ftl", "#![no_std]\n// std::fs\n"), [0; 0]);
    }

    #[test]
    fn gf_says_why() {
        assert_eq!(lines("gf", "#![no_std]\nuse core::arch;"), [0; 0]);
        assert_eq!(
            lines("gf", "//! `std` finds kernels.\nuse std::arch::x;"),
            [0; 0]
        );
        assert_eq!(lines("gf", "//! doc\nuse std::arch::x;"), [1]);
        assert_eq!(
            lines("gf", "//! std\nuse std::{arch, thread};\nstd::time::now();"),
            [2, 3]
        );
    }

    #[test]
    fn hash_order_is_refused_where_runs_repeat() {
        assert_eq!(lines("sim", "\nlet a: HashMap<u8, u8>;"), [2]);
        assert_eq!(lines("varve", "\nlet a: HashMap<u8, u8>;"), [0; 0]);
        assert_eq!(lines("sim", "#[test]\nfn a() { HashSet::new() }"), [0; 0]);
    }
}
