//! The rules a compiler does not know, over the whole repository.
//!
//! A rule is a function from text to findings; none of them touches the disk. What each one asks
//! for and why stands in its module.

mod finding;
mod layers;
mod length;
mod lints;
mod markdown;
mod notes;
mod orphans;
mod purity;
mod versions;
mod words;

use crate::tree::Tree;
use finding::Finding;
use std::path::Path;

/// Runs all rules; prints what they find.
///
/// # Errors
/// If anything but warnings was found, or the repository cannot be read.
pub fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let mut findings = check(&tree);
    findings.sort();
    let (mut errors, mut warnings) = (0, 0);
    for finding in &findings {
        eprintln!("{finding}");
        if finding.warning {
            warnings += 1;
        } else {
            errors += 1;
        }
    }
    let files = tree.ending("").count();
    eprintln!("tidy: {files} files, {errors} errors, {warnings} warnings");
    if errors > 0 {
        Err(format!("tidy found {errors} errors"))
    } else {
        Ok(())
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources() {
        findings.extend(length::check(source));
        findings.extend(notes::check_source(source));
        findings.extend(orphans::check(source));
        findings.extend(purity::check(source));
        findings.extend(words::check_source(source));
    }
    for (path, text) in tree.ending(".md") {
        findings.extend(markdown::check(path, text));
        findings.extend(words::check_markdown(path, text));
    }
    findings.extend(notes::check_plain(tree));
    findings.extend(layers::check(tree));
    findings.extend(lints::check(tree));
    findings.extend(versions::check(tree));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_wired() {
        let tree = Tree::of(&[
            (
                "Cargo.toml",
                "[workspace.package]\nrust-version = \"1.95\"\nversion = \"0.1.0\"",
            ),
            ("rust-toolchain.toml", "[toolchain]\nchannel = \"1.95.0\""),
            ("README.md", "Rust 1.2 and LUN\n"),
            ("Makefile", "# FIXME later\n"),
            (
                "crates/io/Cargo.toml",
                "[dependencies]\nvarve-ftl.workspace = true",
            ),
            (
                "crates/io/src/lib.rs",
                "fn f() { std::thread::park() } // TODO\nlet addr = 1;",
            ),
            ("crates/io/src/lost.rs", &"\n".repeat(1_001)),
        ]);
        let mut rules: Vec<_> = check(&tree).iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let all = [
            "layers", "length", "lints", "markdown", "notes", "orphans", "purity", "versions",
            "words",
        ];
        assert_eq!(rules, all);
    }
}
