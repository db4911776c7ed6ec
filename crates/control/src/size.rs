//! Sizes as people write them.

use std::fmt;
use varve_units::BLOCK_BYTES;

/// Why a text is no size.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SizeError {
    /// Not a number with a unit behind it.
    Form(String),
    /// Zero bytes.
    Zero,
    /// Not a multiple of 4096 bytes.
    Uneven(u64),
    /// More than 64 bits tell.
    TooLarge(String),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(
                f,
                "`{text}` is no size: a number with K, M, G, T, P or KiB to PiB (powers of 1024), KB to PB \
                 (powers of 1000), or nothing (bytes) behind it, such as 4096, 128k, 1.5G or 15.36TB"
            ),
            Self::Zero => f.write_str("a size of 0 bytes makes no sense"),
            Self::Uneven(bytes) => {
                write!(f, "{bytes} bytes are not a multiple of {BLOCK_BYTES}")
            }
            Self::TooLarge(text) => write!(f, "`{text}` is more than any drive has"),
        }
    }
}

impl std::error::Error for SizeError {}

/// Units in capitals or not, and what each stands for.
const UNITS: [(&str, u64); 17] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
];
/// Digits behind the point that count.
const FRACTION_DIGITS: usize = 9;

/// Bytes: a number, perhaps with a fraction, with `K`, `M`, `G`, `T`, `P` (also `KiB` and so on; powers of 1024), `KB`
/// and so on (powers of 1000), `B` or nothing behind it; in capitals or not. What is left of a byte is left out.
///
/// # Errors
/// [`SizeError`]: another form, nothing, more than 64 bits tell.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let form = || SizeError::Form(text.to_owned());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let factor = u128::from(unit.ok_or_else(form)?.1);
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(form()),
        None => (number, ""),
    };
    if whole.is_empty() || fraction.contains('.') {
        return Err(form());
    }
    let too_large = || SizeError::TooLarge(text.to_owned());
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let tenths = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = match fraction {
        "" => 0,
        digits => digits.parse().map_err(|_| form())?,
    };
    let bytes = whole.checked_mul(factor).ok_or_else(too_large)?;
    let bytes = bytes.checked_add(fraction * factor / tenths);
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    match bytes.ok_or_else(too_large)? {
        0 => Err(SizeError::Zero),
        bytes => Ok(bytes),
    }
}

/// As [`parse_bytes`], of whole blocks.
///
/// # Errors
/// [`SizeError`], also unless it is a multiple of 4096.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    match parse_bytes(text)? {
        bytes if !bytes.is_multiple_of(BLOCK_BYTES) => Err(SizeError::Uneven(bytes)),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every form that people write, of all commands alike.
    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("8192B", 8192),
            ("4k", 4 << 10),
            ("128K", 128 << 10),
            ("10g", 10 << 30),
            ("10GiB", 10 << 30),
            ("10 GiB", 10 << 30),
            ("1T", 1 << 40),
            ("4tib", 4 << 40),
            ("1P", 1 << 50),
            ("1.5G", 3 << 29),
            ("0.5k", 512),
            ("4096kB", 4_096_000),
            ("13GB", 13_000_000_000),
            ("15.36TB", 15_360_000_000_000),
            ("1.0000000009999K", 1024),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
            let whole = bytes.is_multiple_of(BLOCK_BYTES);
            let expected = if whole {
                Ok(bytes)
            } else {
                Err(SizeError::Uneven(bytes))
            };
            assert_eq!(parse_size(text), expected, "{text}");
        }
        for text in [
            "",
            "k",
            "-4k",
            "4x",
            "4kk",
            "1.",
            ".5g",
            "1.2.3k",
            "1,5g",
            "15.36 parsecs",
        ] {
            let refused = parse_bytes(text);
            assert!(matches!(refused, Err(SizeError::Form(_))), "{text}");
            assert_eq!(parse_size(text), refused);
            let told = refused.unwrap_err().to_string();
            assert!(told.contains("1.5G or 15.36TB"), "{told}");
        }
        for text in ["0", "0k", "0.0001"] {
            assert_eq!(parse_bytes(text), Err(SizeError::Zero), "{text}");
        }
        for text in [
            "99999999999999t",
            "99999999999g",
            "99999999999999999999999",
            "9999999999999999999999999999999999999999999",
        ] {
            let refused = parse_bytes(text);
            assert!(matches!(refused, Err(SizeError::TooLarge(_))), "{text}");
        }
    }
}
