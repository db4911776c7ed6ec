//! A note to do something later names the issue that holds it: `TODO(#12)`.
//!
//! Looked for in comments of Rust files, and anywhere in TOML files, the Makefile and `.ci/run`.
//! Markdown is free to speak of such notes.

use super::finding::Finding;
use crate::lex::Kind;
use crate::tree::{Source, Tree};

const RULE: &str = "notes";
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Checks the comments of one Rust file.
pub fn check_source(source: &Source<'_>) -> Vec<Finding> {
    let comments = source
        .tokens
        .iter()
        .filter(|token| token.kind == Kind::Comment);
    comments
        .flat_map(|token| check(source.path, token.line, token.text))
        .collect()
}

/// Checks the files that are neither Rust nor prose.
pub fn check_plain(tree: &Tree) -> Vec<Finding> {
    let files = tree
        .ending(".toml")
        .chain(tree.ending("Makefile"))
        .chain(tree.ending(".ci/run"));
    files
        .flat_map(|(path, text)| check(path, 1, text))
        .collect()
}

fn check(path: &str, first: usize, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in text.lines().enumerate() {
        for mark in MARKS {
            for (at, _) in text.match_indices(mark) {
                if is_word(text, at, mark.len()) && !has_issue(&text[at + mark.len()..]) {
                    let text = format!("{mark} without an issue: write {mark}(#number) or do it");
                    findings.push(Finding::error(RULE, path, first + line, text));
                }
            }
        }
    }
    findings
}

fn is_word(text: &str, at: usize, length: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !text[..at].ends_with(part) && !text[at + length..].starts_with(part)
}

fn has_issue(rest: &str) -> bool {
    let number = rest
        .strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(digits, _)| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_need_an_issue() {
        let lines = |text| {
            check("a", 1, text)
                .iter()
                .map(|f| f.line)
                .collect::<Vec<_>>()
        };
        assert_eq!(lines("// TODO(#12): x"), [0; 0]);
        assert_eq!(
            lines("// a\n// TODO: x\n// FIXME(later)\n// XXX"),
            [2, 3, 4]
        );
        assert_eq!(lines("// TODO(#)"), [1]);
        assert_eq!(lines("// XXXX, TODOS, A_TODO"), [0; 0]);
    }

    #[test]
    fn strings_are_not_comments() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "let a = \"TODO\"; // FIXME")]);
        assert_eq!(check_source(&tree.sources()[0]).len(), 1);
    }
}
