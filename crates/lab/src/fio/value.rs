//! Values of options.
//!
//! # Source
//! fio's HOWTO, parameter types.

use super::error::{FioError, shown};
use super::job::{Amount, Directions};
use super::section::Setting;

const NS_PER_US: u64 = 1_000;

const FLAG: &str = "0 or 1";
const NUMBER: &str = "a whole number that is allowed here";
const TIME: &str = "a time with d, h, m, s, ms or us, seconds if there is none";

impl Setting<'_> {
    /// The error that something else should stand here.
    pub(super) fn wrong(&self, expected: &'static str) -> FioError {
        FioError::Value {
            line: self.line,
            option: shown(self.option),
            value: shown(self.value.unwrap_or_default()),
            expected,
        }
    }

    /// The value.
    pub(super) fn text(&self, expected: &'static str) -> Result<&str, FioError> {
        match self.value {
            Some(text) if text.contains('$') => Err(FioError::Variable {
                line: self.line,
                option: shown(self.option),
            }),
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.wrong(expected)),
        }
    }

    /// True if the option stands there alone, or with 1.
    pub(super) fn flag(&self) -> Result<bool, FioError> {
        if self.value.is_none() {
            return Ok(true);
        }
        match self.text(FLAG)? {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(self.wrong(FLAG)),
        }
    }

    /// A whole number from `min` to `max`.
    pub(super) fn number(&self, min: u64, max: u64) -> Result<u64, FioError> {
        let number = number(self.text(NUMBER)?).filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| self.wrong(NUMBER))
    }

    /// Bytes, or a share of the disk of 1 to 100 %; of 0 % if `min` is 0.
    pub(super) fn amount(&self, min: u64) -> Result<Amount, FioError> {
        const EXPECTED: &str =
            "bytes with k, m, g, t or p (ki to pi for powers of 1000), or 1% to 100%";
        let text = self.text(EXPECTED)?;
        let amount = match text.strip_suffix('%') {
            Some(share) => {
                let share = number(share.trim()).filter(|share| (min.min(1)..=100).contains(share));
                share.map(|share| Amount::PerCent(share as u8))
            }
            None => bytes(text).filter(|bytes| *bytes >= min).map(Amount::Bytes),
        };
        amount.ok_or_else(|| self.wrong(EXPECTED))
    }

    /// A duration, in nanoseconds.
    pub(super) fn time(&self) -> Result<u64, FioError> {
        time(self.text(TIME)?).ok_or_else(|| self.wrong(TIME))
    }

    /// Values for reads and writes, where a missing one is that of the reads and an empty one the
    /// `default`.
    pub(super) fn directions(
        &self,
        default: u64,
        expected: &'static str,
        parse: fn(&str) -> Option<u64>,
    ) -> Result<Directions, FioError> {
        let one = |text: &str| match text.trim() {
            "" => Some(default),
            text => parse(text),
        };
        let mut parts = self.text(expected)?.split(',').map(one);
        let read = parts.next().flatten();
        let write = parts.next().map_or(read, |write| write);
        match (read, write, parts.next()) {
            (Some(read), Some(write), None) => Ok(Directions { read, write }),
            _ => Err(self.wrong(expected)),
        }
    }
}

/// A whole number, with 0x in base 16.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, base) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_plain = digits.starts_with(|c: char| c.is_ascii_hexdigit());
    is_plain
        .then(|| u64::from_str_radix(digits, base).ok())
        .flatten()
}

/// A number and its unit, in lower case.
fn split(text: &str) -> Option<(u64, String)> {
    let from = if text.starts_with("0x") { 2 } else { 0 };
    let is_digit = |c: char| match from {
        0 => c.is_ascii_digit(),
        _ => c.is_ascii_hexdigit(),
    };
    let end = text[from..].find(|c| !is_digit(c));
    let (digits, unit) = text.split_at(end.map_or(text.len(), |end| end + from));
    Some((number(digits)?, unit.trim().to_ascii_lowercase()))
}

/// Bytes. With `kb_base=1024`, which is fio's default, units are the reverse of what they are
/// elsewhere: `k` and `kb` are 1024 bytes, `ki` and `kib` are 1000.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (count, unit) = split(text)?;
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1000_u64),
        None => (unit, 1024),
    };
    let power = match prefix {
        "" if base == 1024 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    count.checked_mul(base.pow(power))
}

/// Nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (count, unit) = split(text)?;
    let seconds = |seconds: u64| seconds * 1_000_000 * NS_PER_US;
    let unit_ns = match &unit[..] {
        "d" => seconds(24 * 60 * 60),
        "h" => seconds(60 * 60),
        "m" => seconds(60),
        "" | "s" | "sec" => seconds(1),
        "ms" | "msec" => 1_000 * NS_PER_US,
        "us" | "usec" => NS_PER_US,
        _ => return None,
    };
    count.checked_mul(unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the HOWTO for `kb_base=1024`.
    #[test]
    fn units_are_those_of_the_howto() {
        for text in [
            "4096", "4096b", "4096B", "4k", "4kb", "4kB", "4K", "4KB", "0x1000",
        ] {
            assert_eq!(bytes(text), Some(4096), "{text}");
        }
        for text in ["1000000", "1mi", "1000ki", "1MiB"] {
            assert_eq!(bytes(text), Some(1_000_000), "{text}");
        }
        for text in ["1t", "1024g", "1048576m"] {
            assert_eq!(bytes(text), Some(1 << 40), "{text}");
        }
        for text in [
            "",
            "k",
            "-1",
            "+1",
            "1x",
            "1.5k",
            "4i",
            "1z",
            "20p0",
            "99999999p",
            "0x",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_those_of_the_howto() {
        assert_eq!(time("10m"), Some(600_000_000_000));
        assert_eq!(time("3600s"), time("1h"));
        assert_eq!(time("1D"), time("86400"));
        assert_eq!(time("3 msec"), Some(3_000_000));
        assert_eq!(time("7us"), Some(7_000));
        for text in ["", "s", "1y", "-1", "1000000d"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
