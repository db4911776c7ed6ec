//! What a guest says on its console, line by line.

/// A line with a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// The guest began a step of its script.
    Step(&'a str),
    /// The guest waits for the host to do what belongs to this mark.
    Mark(&'a str),
    /// The script says why it ends.
    Fail(&'a str),
    /// The script said something worth reporting.
    Note(&'a str),
    /// The script ended with this status.
    Result(u8),
    /// Anything else.
    Other,
}

impl<'a> Line<'a> {
    /// Reads a line without its end.
    pub fn parse(text: &'a str) -> Self {
        let text = text.trim_end();
        let Some((word, rest)) = text.split_once(' ') else {
            return Self::Other;
        };
        match word {
            "STEP" => Self::Step(rest),
            "MARK" if is_name(rest) => Self::Mark(rest),
            "FAIL" => Self::Fail(rest),
            "NOTE" => Self::Note(rest),
            "GUEST-RESULT" => rest.parse().map_or(Self::Other, Self::Result),
            _ => Self::Other,
        }
    }
}

/// Marks become names of files.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_meanings() {
        assert_eq!(Line::parse("STEP connect\r"), Line::Step("connect"));
        assert_eq!(Line::parse("MARK kill-1"), Line::Mark("kill-1"));
        assert_eq!(Line::parse("MARK ../x"), Line::Other);
        assert_eq!(Line::parse("MARK"), Line::Other);
        assert_eq!(Line::parse("FAIL a b"), Line::Fail("a b"));
        assert_eq!(Line::parse("GUEST-RESULT 7"), Line::Result(7));
        assert_eq!(Line::parse("GUEST-RESULT 700"), Line::Other);
        assert_eq!(Line::parse("[    1.0] STEP x"), Line::Other);
    }
}
