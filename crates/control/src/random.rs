//! Chance, for identities.

use std::fs::File;
use std::io::{self, Read};

/// Sixteen random bytes from the system.
///
/// # Errors
/// The system's.
pub(crate) fn sixteen() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A random UUID.
///
/// # Errors
/// The system's.
///
/// # Source
/// RFC 9562, section 5.4.
pub(crate) fn uuid() -> io::Result<[u8; 16]> {
    let mut bytes = sixteen()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A UUID as people write it.
pub(crate) fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = hex(bytes);
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [
        part(0..8),
        part(8..12),
        part(12..16),
        part(16..20),
        part(20..32),
    ]
    .join("-")
}

/// Sixteen bytes from 32 hexadecimal digits; dashes are passed over.
pub(crate) fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| *byte != b'-')
        .map(|byte| char::from(byte).to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(high << 4 | low),
            _ => None,
        })
        .collect::<Option<_>>()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_written_and_read() {
        let id = uuid().unwrap();
        assert_eq!(parse(&hex(&id)), Some(id));
        assert_eq!(parse(&uuid_text(&id)), Some(id));
        assert_eq!(uuid_text(&id).len(), 36);
        assert_ne!(uuid().unwrap(), id);
        assert_eq!(parse("12"), None);
        assert_eq!(parse(&"g".repeat(32)), None);
    }
}
