//! Versions that prose states are the versions that are used.
//!
//! Looked for in Markdown: «Rust» and «Varve» followed by a version, «edition» followed by a year,
//! «cargo-deny» followed by a version. Decision records are dated history and the change log names
//! releases; both are left out. The toolchain must also be the `rust-version` of the workspace.

use super::finding::Finding;
use crate::setup::DENY_VERSION;
use crate::tree::Tree;
use toml::{Table, Value};

const RULE: &str = "versions";
const HISTORY: [&str; 2] = ["docs/adr/", "CHANGELOG.md"];

/// Checks the toolchain file and all Markdown files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let toolchain = stated(tree, "rust-toolchain.toml", &["toolchain", "channel"]);
    let manifest = |key| stated(tree, "Cargo.toml", &["workspace", "package", key]);
    let rust = manifest("rust-version");
    let mut findings = Vec::new();
    if !agrees(&rust, &toolchain) {
        let text = format!("toolchain {toolchain} is not rust-version {rust} of Cargo.toml");
        findings.push(Finding::error(RULE, "rust-toolchain.toml", 1, text));
    }
    let used = [
        ("Rust", toolchain),
        ("Varve", manifest("version")),
        ("edition", manifest("edition")),
        ("cargo-deny", DENY_VERSION.to_owned()),
    ];
    let prose = tree
        .ending(".md")
        .filter(|(path, _)| !HISTORY.iter().any(|h| path.starts_with(h)));
    for (path, text) in prose {
        for (at, line) in text.lines().enumerate() {
            for (name, version) in &used {
                for said in said(line, name).filter(|said| !agrees(said, version)) {
                    let text = format!("says {name} {said}, used is {version}");
                    findings.push(Finding::error(RULE, path, at + 1, text));
                }
            }
        }
    }
    findings
}

/// A string of a TOML file by its keys; empty if it is not there.
fn stated(tree: &Tree, path: &str, keys: &[&str]) -> String {
    let table = tree
        .text(path)
        .unwrap_or("")
        .parse::<Table>()
        .unwrap_or_default();
    let mut value = Value::Table(table);
    for key in keys {
        value = value
            .get(key)
            .cloned()
            .unwrap_or(Value::String(String::new()));
    }
    value.as_str().unwrap_or("").to_owned()
}

/// Versions that follow a name in a line.
fn said<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(name).filter_map(move |(at, _)| {
        let rest = line[at + name.len()..].strip_prefix(' ')?;
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        Some(rest[..end].trim_end_matches('.')).filter(|version| !version.is_empty())
    })
}

/// Whether `said` is `used` or its leading numbers.
fn agrees(said: &str, used: &str) -> bool {
    !said.is_empty()
        && used
            .strip_prefix(said)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARGO: &str =
        "[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.95\"";

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let toolchain = "[toolchain]\nchannel = \"1.95.0\"";
        let files = [
            ("Cargo.toml", CARGO),
            ("rust-toolchain.toml", toolchain),
            (path, text),
        ];
        check(&Tree::of(&files)).iter().map(|f| f.line).collect()
    }

    #[test]
    fn prose_agrees_with_the_tools() {
        assert_eq!(
            lines("a.md", "Rust 1.95, edition 2024.\nRust 1.95.0. Varve 0.1.0"),
            [0; 0]
        );
        assert_eq!(
            lines("a.md", "Rust 1.9\nedition 2021\nVarve 0.2\nRust 1.95.1"),
            [1, 2, 3, 4]
        );
        assert_eq!(lines("a.md", "cargo-deny 0.1"), [1]);
        assert_eq!(lines("a.md", "Rust and Varve, edition"), [0; 0]);
        assert_eq!(lines("docs/adr/2020-01-01-a.md", "Rust 1.9"), [0; 0]);
    }

    #[test]
    fn toolchain_and_manifest_agree() {
        let files = [
            ("Cargo.toml", CARGO),
            ("rust-toolchain.toml", "[toolchain]\nchannel=\"1.96.0\""),
        ];
        assert_eq!(check(&Tree::of(&files)).len(), 1);
    }
}
