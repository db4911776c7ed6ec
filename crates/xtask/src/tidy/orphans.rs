//! No Rust file that nothing compiles: it rots unseen.

use super::finding::Finding;
use crate::tree::Source;

const RULE: &str = "orphans";

/// Checks one file.
pub fn check(source: &Source<'_>) -> Option<Finding> {
    let text = "no `mod` leads here: declare or delete it";
    source
        .orphan
        .then(|| Finding::error(RULE, source.path, 0, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn a_file_without_mod_is_found() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", ""), ("crates/a/src/lost.rs", "")]);
        let found: Vec<_> = tree
            .sources()
            .iter()
            .filter_map(check)
            .map(|f| f.path)
            .collect();
        assert_eq!(found, ["crates/a/src/lost.rs"]);
    }
}
