//! A parameter as a report states it.

use serde::Serialize;
use std::fmt;
use std::fmt::Write;
use varve_units::Nanos;

/// A value: a whole number, or words with its unit.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(untagged)]
pub enum Value {
    /// So many.
    Count(u64),
    /// In words, with its unit.
    Words(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Words(words) => words.fmt(f),
        }
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<&str> for Value {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl From<String> for Value {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

/// A share.
pub(super) fn per_cent(share: f64) -> Value {
    format!("{share} %").into()
}

/// Bytes in the largest binary unit that holds them whole.
pub(super) fn bytes(bytes: u64) -> Value {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |(shift, _): &(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match units.into_iter().find(whole) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift).into(),
        None => format!("{bytes} bytes").into(),
    }
}

/// A time in microseconds.
pub(super) fn micros(time: Nanos) -> Value {
    format!("{} us", time.0 as f64 / 1e3).into()
}

/// A parameter by which something ran.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Stated {
    /// What it is.
    pub name: &'static str,
    /// What it was.
    pub value: Value,
    /// Whose value that is. `None` only of the engine, which is nobody's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Stated {
    /// A comparator's.
    pub(super) fn of(name: &'static str, value: impl Into<Value>, source: &str) -> Self {
        Self {
            name,
            value: value.into(),
            source: Some(source.to_owned()),
        }
    }

    /// A comparator's that whoever asks may choose: said where it is not its documents' `own`.
    pub(super) fn asked(name: &'static str, asked: Value, own: &Value, source: &str) -> Self {
        let source = if asked == *own {
            source.to_owned()
        } else {
            format!("asked for; {own} by {source}")
        };
        Self {
            name,
            value: asked,
            source: Some(source),
        }
    }

    /// The engine's own.
    pub(super) fn own(name: &'static str, value: impl Into<Value>) -> Self {
        Self {
            name,
            value: value.into(),
            source: None,
        }
    }
}

/// Columns that values have in a text at most; longer ones push their source to the right.
const VALUE_WIDTH: usize = 28;

/// What a comparator, or the engine, stated in all the runs of something.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct StatedOf {
    /// Its name.
    pub of: String,
    /// Its parameters: twice by one name if runs differed.
    pub parameters: Vec<Stated>,
}

/// Adds what one run stated to what others did: each value of each parameter once, beside the others of its name.
pub(crate) fn join(all: &mut Vec<StatedOf>, of: &str, more: &[Stated]) {
    let at = all.iter().position(|known| known.of == of);
    let at = at.unwrap_or_else(|| {
        all.push(StatedOf {
            of: of.to_owned(),
            parameters: Vec::new(),
        });
        all.len() - 1
    });
    let known = &mut all[at].parameters;
    for stated in more {
        if known.contains(stated) {
            continue;
        }
        let last = known.iter().rposition(|other| other.name == stated.name);
        known.insert(last.map_or(known.len(), |last| last + 1), stated.clone());
    }
}

/// Name, value and source of parameters; values of one name and source stand together.
pub(crate) fn rows(parameters: &[Stated]) -> Vec<(&'static str, String, &str)> {
    let mut rows: Vec<(&'static str, String, &str)> = Vec::new();
    for stated in parameters {
        let source = stated.source.as_deref().unwrap_or_default();
        let value = stated.value.to_string();
        match rows.last_mut() {
            Some((name, values, of)) if (*name, *of) == (stated.name, source) => {
                *values += "; ";
                *values += &value;
            }
            _ => rows.push((stated.name, value, source)),
        }
    }
    rows
}

/// Parameters as lines for people: name, value, source.
///
/// # Panics
/// Never: a string can grow.
#[must_use]
pub fn listed(parameters: &[Stated]) -> String {
    let rows = rows(parameters);
    let name_width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let value_width = rows
        .iter()
        .map(|(_, value, _)| value.len())
        .max()
        .unwrap_or(0);
    let value_width = value_width.min(VALUE_WIDTH);
    let mut text = String::new();
    for (name, value, source) in rows {
        let line = format!("  {name:<name_width$}  {value:<value_width$}  {source}");
        writeln!(text, "{}", line.trim_end()).expect("a string can grow");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_units() {
        let words = |value: Value| value.to_string();
        assert_eq!(words(bytes(512 << 10)), "512 KiB");
        assert_eq!(words(bytes(1 << 30)), "1 GiB");
        assert_eq!(words(bytes(1000)), "1000 bytes");
        assert_eq!(words(micros(Nanos(2410))), "2.41 us");
        assert_eq!(words(per_cent(12.5)), "12.5 %");
    }

    /// Whoever gives a comparator another value than its documents do is told as the source of it.
    #[test]
    fn what_is_not_the_documents_own_is_said() {
        let asked = |share| Stated::asked("x", per_cent(share), &per_cent(20.0), "its manual");
        assert_eq!(asked(20.0).source.as_deref(), Some("its manual"));
        let other = asked(30.0);
        assert_eq!(
            other.source.as_deref(),
            Some("asked for; 20 % by its manual")
        );
        assert_eq!(other.value.to_string(), "30 %");
    }

    /// Runs that agree are told once, and values that differ stand beside one another.
    #[test]
    fn runs_are_joined() {
        let list = |share: u64| [Stated::of("a", share, "m"), Stated::own("b", 2_u64)];
        let mut all = Vec::new();
        for share in [1, 1, 3] {
            join(&mut all, "x", &list(share));
        }
        join(&mut all, "y", &list(1));
        let told = |at: usize| -> Vec<_> {
            let parameters = all[at].parameters.iter();
            parameters
                .map(|stated| (stated.name, stated.value.to_string()))
                .collect()
        };
        let [one, two, three] = ["1", "2", "3"].map(str::to_owned);
        assert_eq!(
            told(0),
            [("a", one.clone()), ("a", three), ("b", two.clone())]
        );
        assert_eq!(told(1), [("a", one), ("b", two)]);
        let lines = "  a  1; 3  m\n  b  2\n";
        assert_eq!(listed(&all[0].parameters), lines);
    }
}
