//! Rust source cut into tokens: enough to tell code from comments and strings.
//!
//! Every byte of code that is not white space belongs to exactly one token. Malformed source
//! never panics: an unclosed string or comment reaches to the end of the file, and the compiler
//! says the rest.
//!
//! **Not here**: grammar. `outline` finds items, the rules find words.

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Identifier or keyword, without the `r#` of a raw one.
    Ident,
    /// One character of punctuation.
    Punct,
    /// String literal of any kind, without quotes and prefix.
    Text,
    /// Comment of any kind, with its marks.
    Comment,
    /// Number, character or lifetime: nothing any rule looks into.
    Other,
}

/// One token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: &'a str,
    /// The line it starts in, from 1.
    pub line: usize,
}

impl Token<'_> {
    /// Whether this is the identifier or keyword `word`.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Ident && self.text == word
    }

    /// Whether this is the punctuation `mark`.
    pub fn is_mark(&self, mark: &str) -> bool {
        self.kind == Kind::Punct && self.text == mark
    }
}

/// Cuts a whole file.
pub fn lex(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut line = 1;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let (kind, length, text) = if first.is_whitespace() {
            line += usize::from(first == '\n');
            at += first.len_utf8();
            continue;
        } else if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            (Kind::Comment, length, &rest[..length])
        } else if rest.starts_with("/*") {
            let length = block_comment(rest);
            (Kind::Comment, length, &rest[..length])
        } else if let Some((length, text)) = string(rest) {
            (Kind::Text, length, text)
        } else if let Some(length) = quote(rest) {
            (Kind::Other, length, &rest[..length])
        } else if let Some(raw) = rest.strip_prefix("r#").filter(|raw| word(raw) > 0) {
            (Kind::Ident, 2 + word(raw), &raw[..word(raw)])
        } else if first.is_ascii_digit() {
            (Kind::Other, word(rest), &rest[..word(rest)])
        } else if word(rest) > 0 {
            (Kind::Ident, word(rest), &rest[..word(rest)])
        } else {
            (Kind::Punct, first.len_utf8(), &rest[..first.len_utf8()])
        };
        tokens.push(Token { kind, text, line });
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

/// Length in bytes of the run of word characters at the start.
fn word(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(rest.len())
}

/// Length of the (nesting) block comment at the start.
fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length and content of the string literal at the start, if there is one.
fn string(rest: &str) -> Option<(usize, &str)> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|body| {
            let hashes = body.len() - body.trim_start_matches('#').len();
            (hashes == 0 || prefix.ends_with('r')) && body[hashes..].starts_with('"')
        })
    })?;
    let hashes = rest[prefix.len()..]
        .bytes()
        .take_while(|&b| b == b'#')
        .count();
    let start = prefix.len() + hashes + 1;
    if prefix.ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        let end = rest[start..]
            .find(&close)
            .map_or(rest.len(), |found| start + found);
        return Some(((end + close.len()).min(rest.len()), &rest[start..end]));
    }
    let mut at = start;
    let bytes = rest.as_bytes();
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    let end = at.min(rest.len());
    Some((
        (end + 1).min(rest.len()),
        rest.get(start..end).unwrap_or(""),
    ))
}

/// Length of the character literal or lifetime at the start, if there is one.
fn quote(rest: &str) -> Option<usize> {
    let prefix = usize::from(rest.starts_with("b'"));
    let body = rest[prefix..].strip_prefix('\'')?;
    let start = prefix + 1;
    let mut characters = body.chars();
    let first = characters.next()?;
    if first == '\\' {
        let escaped = characters.next()?.len_utf8();
        let end = body[1 + escaped..].find('\'')?;
        return Some(start + 1 + escaped + end + 1);
    }
    if characters.next() == Some('\'') {
        return Some(start + first.len_utf8() + 1);
    }
    Some(start + word(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str, kind: Kind) -> Vec<&str> {
        lex(source)
            .into_iter()
            .filter(|t| t.kind == kind)
            .map(|t| t.text)
            .collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        let source = r###"let a = "fn b"; // fn c
            /* fn /* d */ fn */ let e = r#"fn "f" "#; b"fn\"g" "###;
        assert_eq!(texts(source, Kind::Ident), ["let", "a", "let", "e"]);
        assert_eq!(texts(source, Kind::Text), ["fn b", "fn \"f\" ", "fn\\\"g"]);
        assert_eq!(texts(source, Kind::Comment).len(), 2);
    }

    #[test]
    fn characters_and_lifetimes_do_not_open_strings() {
        let source = r#"fn f<'a>(x: &'a str) { ['"', '\'', b'"', '\u{22}', 'ä']; r#type } "#;
        assert_eq!(texts(source, Kind::Text), [""; 0]);
        assert_eq!(texts(source, Kind::Ident), ["fn", "f", "x", "str", "type"]);
    }

    #[test]
    fn lines_count_through_long_tokens() {
        let tokens = lex("/*\n\n*/ a\n\"\n\" b");
        assert_eq!(tokens[1].line, 3);
        assert_eq!(tokens[3].line, 5);
    }

    #[test]
    fn unclosed_tokens_end_with_the_file() {
        for source in ["\"abc", "/* a", "r#\"a\"", "'", "\"\\", "b'", "'\\"] {
            assert!(lex(source).len() <= 3, "{source}");
        }
    }
}
