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
                "`{text}` is no size: a whole number with K, M, G or T (powers of 1024), KB, MB, GB \
                 or TB (powers of 1000), or nothing (bytes) behind it"
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

/// Bytes: a whole number with `K`, `M`, `G`, `T` (also `KiB` and so on; powers of 1024), `KB` and so
/// on (powers of 1000), `B` or nothing behind it; in capitals or not.
///
/// # Errors
/// [`SizeError`], also unless it is a multiple of 4096 and not 0.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let form = || SizeError::Form(text.to_owned());
    if digits.is_empty() {
        return Err(form());
    }
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(form()),
    };
    let number = digits.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(factor));
    match bytes {
        None => Err(SizeError::TooLarge(text.to_owned())),
        Some(0) => Err(SizeError::Zero),
        Some(bytes) if !bytes.is_multiple_of(BLOCK_BYTES) => Err(SizeError::Uneven(bytes)),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("10g"), Ok(10 << 30));
        assert_eq!(parse_size("10GiB"), Ok(10 << 30));
        assert_eq!(parse_size("4T"), Ok(4 << 40));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4096kB"), Ok(4_096_000));
        assert_eq!(parse_size("0"), Err(SizeError::Zero));
        assert_eq!(parse_size("1k"), Err(SizeError::Uneven(1024)));
        assert!(matches!(parse_size(""), Err(SizeError::Form(_))));
        assert!(matches!(parse_size("-4k"), Err(SizeError::Form(_))));
        assert!(matches!(parse_size("4x"), Err(SizeError::Form(_))));
        assert!(matches!(parse_size("1.5g"), Err(SizeError::Form(_))));
        assert!(matches!(
            parse_size("99999999999999t"),
            Err(SizeError::TooLarge(_))
        ));
        assert!(matches!(
            parse_size("99999999999999999999999"),
            Err(SizeError::TooLarge(_))
        ));
    }
}
