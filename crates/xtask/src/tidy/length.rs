//! Files and functions that fit a head and a screen.
//!
//! Files: a warning above 600 lines, an error above 1,000, tests not counted. Functions: an error
//! above 70 lines, in tests too. Line length is rustfmt's.

use super::finding::Finding;
use crate::tree::Source;

const RULE: &str = "length";
const FILE_LINES_WARN: usize = 600;
const FILE_LINES_MAX: usize = 1_000;
const FUNCTION_LINES_MAX: usize = 70;

/// Checks one file and its functions.
pub fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let count = source.text.lines().count();
    let lines = (1..=count).filter(|&line| !source.is_test(line)).count();
    if lines > FILE_LINES_WARN {
        let text = format!("{lines} lines without tests; one noun a file");
        let found = if lines > FILE_LINES_MAX {
            Finding::error
        } else {
            Finding::warning
        };
        findings.push(found(RULE, source.path, 0, text));
    }
    for function in &source.outline.functions {
        if function.lines > FUNCTION_LINES_MAX {
            let (name, lines) = (&function.name, function.lines);
            let text = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}");
            findings.push(Finding::error(RULE, source.path, function.line, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn found(text: &str) -> Vec<(usize, bool)> {
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        check(&tree.sources()[0])
            .iter()
            .map(|f| (f.line, f.warning))
            .collect()
    }

    #[test]
    fn files() {
        assert_eq!(found(&"\n".repeat(600)), []);
        assert_eq!(found(&"\n".repeat(601)), [(0, true)]);
        assert_eq!(found(&"\n".repeat(1_000)), [(0, true)]);
        assert_eq!(found(&"\n".repeat(1_001)), [(0, false)]);
        let tested = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(2_000));
        assert_eq!(found(&tested), []);
    }

    #[test]
    fn functions() {
        let function = |lines: usize| format!("\nfn f() {{\n{}}}\n", "\n".repeat(lines - 2));
        assert_eq!(found(&function(70)), []);
        assert_eq!(found(&function(71)), [(2, false)]);
    }
}
