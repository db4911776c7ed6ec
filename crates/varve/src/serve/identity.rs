//! Identifiers of things that the daemon itself makes up.

use std::fs::File;
use std::io::{self, Read};

/// A random UUID (RFC 9562, version 4).
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn new_uuid() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

/// A UUID as it is written.
pub(crate) fn text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    let parts: Vec<&str> = parts.into_iter().map(|part| &hex[part]).collect();
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_random_and_say_so() {
        let (one, other) = (new_uuid().unwrap(), new_uuid().unwrap());
        assert_ne!(one, other);
        let written = text(&one);
        let bytes = written.as_bytes();
        assert_eq!((written.len(), bytes[14]), (36, b'4'), "{written}");
        assert!(b"89ab".contains(&bytes[19]), "{written}");
        let sample = text(b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f");
        assert_eq!(sample, "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
