//! What a source file consists of: modules it declares, functions, regions that are tests.
//!
//! **Not here**: opinions about it; those are `rules`.

use crate::lex::{Kind, Token};
use std::ops::RangeInclusive;

/// A function with a body.
#[derive(PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of the word `fn`.
    pub line: usize,
    /// Number of lines from there to the closing brace, both included.
    pub lines: usize,
}

/// A module declared without a body: `mod name;`.
#[derive(PartialEq, Eq, Debug)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The `#[path]` given, if any.
    pub path: Option<String>,
    /// Inline modules around the declaration, outermost first.
    pub within: Vec<String>,
    /// Whether it is compiled for tests only.
    pub test: bool,
}

/// What a file consists of.
#[derive(Default, Debug)]
pub struct Outline {
    /// Functions, in order of their end.
    pub functions: Vec<Function>,
    /// Modules in other files.
    pub children: Vec<Child>,
    /// Lines of items that are compiled for tests only.
    pub tests: Vec<RangeInclusive<usize>>,
    /// Whether the whole file is (`#![cfg(test)]`).
    pub all_tests: bool,
}

impl Outline {
    /// Whether a line is compiled for tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.all_tests || self.tests.iter().any(|range| range.contains(&line))
    }

    /// Reads the items off the tokens of a whole file.
    pub fn of(tokens: &[Token<'_>]) -> Self {
        let code: Vec<_> = tokens
            .iter()
            .filter(|t| t.kind != Kind::Comment)
            .copied()
            .collect();
        let mut reader = Reader::default();
        let mut at = 0;
        while at < code.len() {
            at += reader.step(&code[at..]);
        }
        reader.outline
    }
}

/// An open brace and what it belongs to.
struct Frame {
    module: Option<String>,
    function: Option<(String, usize)>,
    test_from: Option<usize>,
    parens: usize,
}

#[derive(Default)]
struct Reader {
    outline: Outline,
    frames: Vec<Frame>,
    /// Open parentheses and brackets.
    parens: usize,
    /// Attributes of the item to come: line of a test attribute, `#[path]`.
    test_from: Option<usize>,
    path: Option<String>,
    module: Option<String>,
    function: Option<(String, usize)>,
}

impl Reader {
    /// Takes the tokens of one attribute or one token; returns how many.
    fn step(&mut self, code: &[Token<'_>]) -> usize {
        let token = code[0];
        if token.is_mark("#") {
            let inner = usize::from(code.get(1).is_some_and(|t| t.is_mark("!")));
            if code.get(1 + inner).is_some_and(|t| t.is_mark("[")) {
                let end = attribute_end(code, 1 + inner);
                self.attribute(&code[2 + inner..end], token.line, inner == 1);
                return (end + 1).min(code.len());
            }
        }
        let name = code
            .get(1)
            .filter(|t| t.kind == Kind::Ident)
            .map(|t| t.text.to_owned());
        match (token.kind, token.text) {
            (Kind::Ident, "mod") => self.module = name,
            (Kind::Ident, "fn") => {
                if let Some(name) = name {
                    self.function = Some((name, token.line));
                }
            }
            (Kind::Punct, "(" | "[") => self.parens += 1,
            (Kind::Punct, ")" | "]") => self.parens = self.parens.saturating_sub(1),
            (Kind::Punct, "{") => self.open(),
            (Kind::Punct, "}") => self.close(token.line),
            (Kind::Punct, ";") if self.parens == self.base() => self.end_item(token.line),
            _ => {}
        }
        1
    }

    /// Parentheses open around the innermost brace.
    fn base(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.parens)
    }

    fn attribute(&mut self, inside: &[Token<'_>], line: usize, inner: bool) {
        let Some(first) = inside.first() else { return };
        let names = |word| inside.iter().any(|t| t.is_word(word));
        let test =
            first.is_word("test") || (first.is_word("cfg") && names("test") && !names("not"));
        if test && inner {
            self.outline.all_tests |= self.frames.is_empty();
        } else if test {
            self.test_from.get_or_insert(line);
        }
        if first.is_word("path") {
            self.path = inside.last().map(|t| t.text.to_owned());
        }
    }

    fn open(&mut self) {
        // A brace inside the parentheses of a signature or an array length opens no body.
        let item = self.parens == self.base();
        let frame = Frame {
            module: if item { self.module.take() } else { None },
            function: if item { self.function.take() } else { None },
            test_from: if item { self.test_from.take() } else { None },
            parens: self.parens,
        };
        self.path = None;
        self.frames.push(frame);
    }

    fn close(&mut self, line: usize) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        self.parens = frame.parens;
        if let Some((name, from)) = frame.function {
            self.outline.functions.push(Function {
                name,
                line: from,
                lines: line - from + 1,
            });
        }
        if let Some(from) = frame.test_from {
            self.outline.tests.push(from..=line);
        }
    }

    fn end_item(&mut self, line: usize) {
        let test_from = self.test_from.take();
        if let Some(from) = test_from {
            self.outline.tests.push(from..=line);
        }
        self.function = None;
        let path = self.path.take();
        if let Some(name) = self.module.take() {
            let within = self
                .frames
                .iter()
                .filter_map(|frame| frame.module.clone())
                .collect();
            let around = self.frames.iter().any(|frame| frame.test_from.is_some());
            let test = test_from.is_some() || around;
            self.outline.children.push(Child {
                name,
                path,
                within,
                test,
            });
        }
    }
}

/// Index of the bracket that closes the one at `open`, or the number of tokens.
fn attribute_end(code: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate().skip(open) {
        depth += usize::from(token.is_mark("["));
        depth -= usize::from(token.is_mark("]"));
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lex::lex;

    fn outline(source: &str) -> Outline {
        Outline::of(&lex(source))
    }

    #[test]
    fn functions_are_measured_from_the_word_to_the_brace() {
        let found =
            outline("/// doc\npub fn a(x: [u8; 3]) -> [u8; { 2 }]\nwhere\n{\n b(|| {\n })\n}");
        assert_eq!(
            found.functions,
            [Function {
                name: "a".into(),
                line: 2,
                lines: 6
            }]
        );
    }

    #[test]
    fn declarations_and_pointers_have_no_length() {
        let found = outline("trait T { fn a(&self) -> [u8; 4]; }\ntype F = fn(u8);\n{ \n }");
        assert!(found.functions.is_empty());
    }

    #[test]
    fn children_know_their_place() {
        let found = outline(
            "mod a;\n#[path = \"x/y.rs\"]\nmod b;\nmod c { pub mod d; }\n#[cfg(test)]\nmod e;\n\
             #[cfg(not(test))] mod f;",
        );
        let child = |name: &str, path: Option<&str>, within: &[&str], test| Child {
            name: name.into(),
            path: path.map(Into::into),
            within: within.iter().map(|&w| w.into()).collect(),
            test,
        };
        assert_eq!(
            found.children,
            [
                child("a", None, &[], false),
                child("b", Some("x/y.rs"), &[], false),
                child("d", None, &["c"], false),
                child("e", None, &[], true),
                child("f", None, &[], false),
            ]
        );
    }

    #[test]
    fn test_regions_end_with_their_item() {
        let found = outline(
            "fn a() {}\n#[cfg(test)]\nextern crate std;\nfn b() {}\n#[cfg(test)]\nmod t {\n\
             fn c() {}\n}\nfn d() {}",
        );
        let tests: Vec<_> = (1..=9).filter(|&line| found.is_test(line)).collect();
        assert_eq!(tests, [2, 3, 5, 6, 7, 8]);
        assert!(outline("#![cfg(test)]\nfn a() {}").is_test(2));
    }
}
