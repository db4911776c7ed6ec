//! The repository's text, read once; rules never touch the disk.
//!
//! **Not here**: build output and ignored files. The list comes from git: what is tracked, and
//! what is new and not ignored.

use crate::lex::{Token, lex};
use crate::outline::Outline;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// One Rust file.
pub struct Source<'a> {
    /// Path from the root of the repository.
    pub path: &'a str,
    /// Folder of its crate under `crates/`, empty elsewhere.
    pub package: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Its text in tokens.
    pub tokens: Vec<Token<'a>>,
    /// Its items.
    pub outline: Outline,
    /// Whether no `mod` leads to it and it is no root of a crate.
    pub orphan: bool,
    /// Whether all of it is compiled for tests, benches, examples or build scripts only.
    pub all_tests: bool,
}

impl Source<'_> {
    /// Whether a line is compiled for tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.all_tests || self.outline.is_test(line)
    }
}

/// Every text file of the repository by path from its root.
#[derive(Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads what git lists under `root`. Files that are not UTF-8 are left out.
    ///
    /// # Errors
    /// If git cannot be run there.
    pub fn read(root: &Path) -> Result<Self, String> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git ls-files: {error}"))?;
        if !listed.status.success() {
            let said = String::from_utf8_lossy(&listed.stderr);
            return Err(format!("git ls-files: {}", said.trim()));
        }
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let read = |name: &str| {
            Some((
                name.to_owned(),
                std::fs::read_to_string(root.join(name)).ok()?,
            ))
        };
        Ok(Self {
            files: names
                .split('\0')
                .filter(|name| !name.is_empty())
                .filter_map(read)
                .collect(),
        })
    }

    /// A tree that exists in a test only.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let own = |&(path, text): &(&str, &str)| (path.to_owned(), text.to_owned());
        Self {
            files: files.iter().map(own).collect(),
        }
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Path and text of the files whose name ends so.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self
            .files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| path.ends_with(end))
    }

    /// All Rust files with what is known of them.
    pub fn sources(&self) -> Vec<Source<'_>> {
        let mut sources: Vec<_> = self
            .ending(".rs")
            .map(|(path, text)| source(path, text))
            .collect();
        let outlines: BTreeMap<_, _> = sources.iter().map(|s| (s.path, &s.outline)).collect();
        let reached = reach(&outlines);
        for source in &mut sources {
            source.orphan = !reached.contains_key(source.path);
            source.all_tests = reached.get(source.path).copied().unwrap_or(false);
        }
        sources
    }
}

fn source<'a>(path: &'a str, text: &'a str) -> Source<'a> {
    let package = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.split('/').next());
    let tokens = lex(text);
    let outline = Outline::of(&tokens);
    let package = package.unwrap_or("");
    Source {
        path,
        package,
        text,
        tokens,
        outline,
        orphan: false,
        all_tests: false,
    }
}

/// Files that some crate compiles, each with whether it is for tests only.
fn reach<'a>(outlines: &BTreeMap<&'a str, &Outline>) -> BTreeMap<&'a str, bool> {
    let mut reached = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<(&str, bool)> = outlines
        .keys()
        .filter_map(|path| Some((*path, root(path)?)))
        .collect();
    while let Some((path, test)) = open.pop() {
        if !seen.insert((path, test)) {
            continue;
        }
        let outline = outlines[path];
        let test = test || outline.all_tests;
        reached
            .entry(path)
            .and_modify(|only| *only &= test)
            .or_insert(test);
        for child in &outline.children {
            let mut folder = match root(path) {
                Some(_) => parent(path).to_owned(),
                None if path.ends_with("/mod.rs") => parent(path).to_owned(),
                None => path.trim_end_matches(".rs").to_owned(),
            };
            for name in &child.within {
                folder = format!("{folder}/{name}");
            }
            let candidates = match &child.path {
                Some(given) => [resolve(parent(path), given), String::new()],
                None => {
                    let name = &child.name;
                    [
                        format!("{folder}/{name}.rs"),
                        format!("{folder}/{name}/mod.rs"),
                    ]
                }
            };
            for candidate in &candidates {
                if let Some((&found, _)) = outlines.get_key_value(candidate.as_str()) {
                    open.push((found, test || child.test));
                }
            }
        }
    }
    reached
}

/// Whether a path is a crate root, and if so whether for tests only.
fn root(path: &str) -> Option<bool> {
    if let Some(target) = path.strip_prefix("fuzz/fuzz_targets/") {
        return (!target.contains('/')).then_some(true);
    }
    let inside = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.split_once('/'))?
        .1;
    let parts: Vec<_> = inside.split('/').collect();
    match parts.as_slice() {
        ["src", "lib.rs" | "main.rs"] | ["src", "bin", _] | ["src", "bin", _, "main.rs"] => {
            Some(false)
        }
        ["build.rs"]
        | ["tests" | "benches" | "examples", _]
        | ["tests" | "benches" | "examples", _, "main.rs"] => Some(true),
        _ => None,
    }
}

/// A path given from inside a folder, without `..`: files are known by their shortest path.
fn resolve(folder: &str, given: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in given.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_followed_from_the_roots() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "mod b; mod c { mod d; } #[cfg(test)] mod t; mod both;",
            ),
            ("crates/a/src/b.rs", "#[path = \"odd/name.rs\"] mod e;"),
            ("crates/a/src/odd/name.rs", ""),
            ("crates/a/src/c/d.rs", ""),
            ("crates/a/src/t.rs", "mod inner;"),
            ("crates/a/src/t/inner.rs", ""),
            ("crates/a/src/both/mod.rs", "mod under;"),
            ("crates/a/src/both/under.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/tests/model.rs", "mod model;"),
            ("crates/a/tests/model/mod.rs", ""),
        ]);
        let sources = tree.sources();
        let orphans: Vec<_> = sources
            .iter()
            .filter(|s| s.orphan)
            .map(|s| s.path)
            .collect();
        assert_eq!(orphans, ["crates/a/src/lost.rs"]);
        let tests: Vec<_> = sources
            .iter()
            .filter(|s| s.all_tests)
            .map(|s| s.path)
            .collect();
        let expected = [
            "crates/a/src/t/inner.rs",
            "crates/a/src/t.rs",
            "crates/a/tests/model/mod.rs",
            "crates/a/tests/model.rs",
        ];
        assert!(
            expected.iter().all(|path| tests.contains(path)) && tests.len() == 4,
            "{tests:?}"
        );
    }

    #[test]
    fn helpers_of_several_binaries_are_found() {
        let tree = Tree::of(&[
            (
                "crates/a/tests/all/main.rs",
                "#[path = \"../common/mod.rs\"] mod common;\
                 #[path = \"../../../b/tests/host/mod.rs\"] mod host;",
            ),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/b/tests/host/mod.rs", ""),
        ]);
        assert!(tree.sources().iter().all(|s| !s.orphan && s.all_tests));
    }

    #[test]
    fn fuzz_targets_are_roots() {
        let tree = Tree::of(&[
            ("fuzz/fuzz_targets/a.rs", "mod drive;"),
            ("fuzz/fuzz_targets/drive/mod.rs", ""),
            ("fuzz/lost.rs", ""),
        ]);
        let sources = tree.sources();
        let orphans = sources.iter().filter(|source| source.orphan);
        let orphans: Vec<_> = orphans.map(|source| source.path).collect();
        assert_eq!(orphans, ["fuzz/lost.rs"]);
    }

    #[test]
    fn a_file_shared_with_production_is_no_test() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "mod b; #[cfg(test)] #[path = \"b.rs\"] mod again;",
            ),
            ("crates/a/src/b.rs", ""),
        ]);
        assert!(tree.sources().iter().all(|s| !s.all_tests));
    }
}
