//! One word, one meaning: the words `docs/glossary.md` rules out, where plain text can tell.
//!
//! Three places are looked at. *Names*: whole identifiers in code. *Parts*: pieces of identifiers
//! between underscores and capitals. *Prose*: comments and Markdown, across line ends; the
//! glossary itself is free to name what it rules out. Words with a rightful use next door
//! (`message`, `request`, `user`, `sector`) are left to the reviewer.

use super::finding::Finding;
use super::purity::ENGINE;
use crate::lex::Kind;
use crate::tree::Source;

const RULE: &str = "words";
const GLOSSARY: &str = "docs/glossary.md";

/// Identifiers, and what to write instead.
const NAMES: [(&str, &str); 3] = [
    ("addr", "lba, ppa, place or offset: say which address"),
    ("src", "source"),
    ("dst", "target"),
];

/// Pieces of identifiers.
const PARTS: [(&str, &str); 2] = [("resync", "rebuild"), ("lun", "namespace or volume")];

/// Pieces of identifiers in engine crates.
const ENGINE_PARTS: [(&str, &str); 1] = [("timestamp", "lsn, birth, or Nanos for time")];

/// Pieces of identifiers in `array`.
const ARRAY_PARTS: [(&str, &str); 1] = [("chunk", "strip: a chunk is a unit of the log")];

/// Last pieces of the names of types.
const TYPE_ENDS: [&str; 4] = ["manager", "helper", "util", "utils"];

/// Names of files.
const FILES: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];

/// Words of prose, lower case.
const PROSE: [(&[&str], &str); 4] = [
    (&["resync"], "rebuild"),
    (&["lun"], "namespace or volume"),
    (&["reverse", "map"], "P2L"),
    (
        &["amplification"],
        "write amplification, or WAF with its layer",
    ),
];

/// Checks names and comments of one Rust file.
pub fn check_source(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = check_file_name(source.path);
    let mut prose = Vec::new();
    let mut before = "";
    for token in &source.tokens {
        match token.kind {
            Kind::Ident => {
                let bad = check_name(source.package, before, token.text);
                let found = |text| Finding::error(RULE, source.path, token.line, text);
                findings.extend(bad.map(found));
                before = token.text;
            }
            Kind::Comment => prose.extend(split(token.line, token.text)),
            _ => {}
        }
    }
    findings.extend(check_prose(source.path, &prose));
    findings
}

/// Checks one Markdown file.
pub fn check_markdown(path: &str, text: &str) -> Vec<Finding> {
    if path == GLOSSARY {
        Vec::new()
    } else {
        check_prose(path, &split(1, text))
    }
}

fn check_file_name(path: &str) -> Vec<Finding> {
    let name = path
        .rsplit('/')
        .next()
        .unwrap_or(path)
        .trim_end_matches(".rs");
    let text = format!("`{name}` names no noun: call the file after what it holds");
    FILES
        .contains(&name)
        .then(|| Finding::error(RULE, path, 0, text))
        .into_iter()
        .collect()
}

/// What is wrong with an identifier that follows the word `before`.
fn check_name(package: &str, before: &str, name: &str) -> Option<String> {
    let lookup = |list: &[(&str, &str)], word: &str| {
        list.iter()
            .find(|(never, _)| *never == word)
            .map(|(_, instead)| instead.to_string())
    };
    let parts = parts(name);
    let bad_part = parts.iter().find_map(|part| {
        let engine: &[_] = if ENGINE.contains(&package) {
            &ENGINE_PARTS
        } else {
            &[]
        };
        let array: &[_] = if package == "array" {
            &ARRAY_PARTS
        } else {
            &[]
        };
        [PARTS.as_slice(), engine, array]
            .iter()
            .find_map(|list| lookup(list, part))
    });
    if let Some(instead) = lookup(&NAMES, name).or(bad_part) {
        return Some(format!("`{name}`: write {instead}"));
    }
    let is_type = matches!(before, "struct" | "enum" | "trait" | "type");
    let end = parts
        .last()
        .filter(|end| is_type && TYPE_ENDS.contains(&end.as_str()))?;
    Some(format!(
        "`{name}`: a type ending in «{end}» does not say what it is"
    ))
}

/// Pieces between underscores and before capitals, lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        if c != '_' {
            parts
                .last_mut()
                .expect("never empty")
                .extend(c.to_lowercase());
        }
    }
    parts
}

/// Words with their lines, lower case.
fn split(first: usize, text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(at, line)| {
            let words = line
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !word.is_empty());
            words.map(move |word| (first + at, word.to_lowercase()))
        })
        .collect()
}

fn check_prose(path: &str, words: &[(usize, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, (line, _)) in words.iter().enumerate() {
        for (never, instead) in PROSE {
            let here = words[at..]
                .iter()
                .take(never.len())
                .map(|(_, word)| word.as_str());
            let qualified = at > 0 && words[at - 1].1 == "write" && never == ["amplification"];
            if here.eq(never.iter().copied()) && !qualified {
                let text = format!("«{}»: write {instead}", never.join(" "));
                findings.push(Finding::error(RULE, path, *line, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(path, text)]);
        check_source(&tree.sources()[0])
            .iter()
            .map(|f| f.line)
            .collect()
    }

    #[test]
    fn names() {
        let found = |text| lines("crates/ftl/src/lib.rs", text);
        assert_eq!(found("let addr = 1;\nlet socket_addr = SocketAddr;"), [1]);
        assert_eq!(found("let src = \"src\";\nlet dst = 1;"), [1, 2]);
        assert_eq!(
            found("fn start_resync() {}\nstruct LunMap;\nlet lunch = 1;"),
            [1, 2]
        );
        assert_eq!(found("let timestamp_ns = 1;"), [1]);
        assert_eq!(
            lines("crates/sim/src/lib.rs", "let timestamp_ns = 1;"),
            [0; 0]
        );
    }

    #[test]
    fn a_chunk_is_no_strip() {
        let text = "let chunk = 1; a.chunks_exact(2);";
        assert_eq!(lines("crates/array/src/lib.rs", text), [1]);
        assert_eq!(lines("crates/ftl/src/lib.rs", text), [0; 0]);
    }

    #[test]
    fn types_and_files_say_what_they_are() {
        let found = |text| lines("crates/ftl/src/lib.rs", text);
        assert_eq!(found("struct PoolManager;\nimpl PoolManager {}"), [1]);
        assert_eq!(found("type IoUtils = u8;\nstruct Managed;"), [1]);
        assert_eq!(lines("crates/ftl/src/utils.rs", ""), [0]);
    }

    #[test]
    fn prose() {
        let found = |text| {
            check_markdown("a.md", text)
                .iter()
                .map(|f| f.line)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("the reverse\nmap and a resync"), [1, 2]);
        assert_eq!(found("write\namplification\n"), [0; 0]);
        assert_eq!(found("low amplification\nLUNs in lunch"), [1]);
        assert!(check_markdown(GLOSSARY, "LUN").is_empty());
        assert_eq!(
            lines("crates/ftl/src/lib.rs", "/// a reverse\n/// map\nfn a() {}"),
            [1]
        );
    }
}
