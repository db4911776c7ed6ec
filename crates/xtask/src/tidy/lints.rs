//! Every crate inherits the lints of the workspace.
//!
//! Crates in [`UNSAFE`] need `unsafe` and the workspace forbids it, which cannot be relaxed by
//! inheritance: they repeat the lints of the workspace with `unsafe_code = "deny"` instead. They
//! may add lints, not leave any out.

use super::finding::Finding;
use crate::tree::Tree;
use toml::{Table, Value};

const RULE: &str = "lints";

/// Crates whose kernels or system calls need `unsafe`.
const UNSAFE: [&str; 2] = ["gf", "hostio"];

/// Checks every crate's manifest.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let parse = |text: &str| text.parse::<Table>().unwrap_or_default();
    let workspace = parse(tree.text("Cargo.toml").unwrap_or(""));
    let shared = workspace
        .get("workspace")
        .and_then(|workspace| workspace.get("lints"));
    let shared = shared
        .and_then(Value::as_table)
        .cloned()
        .unwrap_or_default();
    let crates = tree
        .ending("/Cargo.toml")
        .filter(|(path, _)| path.starts_with("crates/"));
    crates
        .filter_map(|(path, text)| check_crate(path, &parse(text), &shared))
        .collect()
}

fn check_crate(path: &str, manifest: &Table, shared: &Table) -> Option<Finding> {
    let own = manifest
        .get("lints")
        .and_then(Value::as_table)
        .cloned()
        .unwrap_or_default();
    if own.get("workspace") == Some(&Value::Boolean(true)) {
        return None;
    }
    let package = path
        .trim_start_matches("crates/")
        .trim_end_matches("/Cargo.toml");
    if !UNSAFE.contains(&package) {
        let text = "write `[lints]` with `workspace = true`";
        return Some(Finding::error(RULE, path, 1, text));
    }
    let missing: Vec<_> = shared
        .iter()
        .filter_map(|(tool, lints)| Some((tool, lints.as_table()?)))
        .flat_map(|(tool, lints)| lints.iter().map(move |(lint, level)| (tool, lint, level)))
        .filter(|(tool, lint, level)| {
            let relaxed = Value::String("deny".to_owned());
            let wanted = if *lint == "unsafe_code" {
                &relaxed
            } else {
                *level
            };
            own.get(*tool).and_then(|lints| lints.get(*lint)) != Some(wanted)
        })
        .map(|(tool, lint, _)| format!("{tool}.{lint}"))
        .collect();
    let text = format!("not as in the workspace: {}", missing.join(", "));
    (!missing.is_empty()).then(|| Finding::error(RULE, path, 1, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> bool {
        let root = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\na = \"warn\"\n\
                    [workspace.lints.clippy]\nb = \"warn\"";
        !check(&Tree::of(&[("Cargo.toml", root), (path, text)])).is_empty()
    }

    #[test]
    fn lints_are_inherited() {
        assert!(!found("crates/ftl/Cargo.toml", "[lints]\nworkspace = true"));
        assert!(found("crates/ftl/Cargo.toml", ""));
        assert!(found("crates/ftl/Cargo.toml", "[lints]\nworkspace = false"));
    }

    #[test]
    fn unsafe_is_the_only_exception() {
        let relaxed =
            "[lints.rust]\nunsafe_code = \"deny\"\na = \"warn\"\n[lints.clippy]\nb = \"warn\"";
        assert!(!found("crates/gf/Cargo.toml", relaxed));
        assert!(!found("crates/gf/Cargo.toml", "[lints]\nworkspace = true"));
        assert!(found(
            "crates/gf/Cargo.toml",
            &relaxed.replace("deny", "allow")
        ));
        assert!(found(
            "crates/gf/Cargo.toml",
            &relaxed.replace("a = \"warn\"", "")
        ));
        assert!(found("crates/ftl/Cargo.toml", relaxed));
    }
}
