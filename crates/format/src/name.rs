//! Names of pools and volumes on media.

use crate::error::DecodeError;
use core::fmt;

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 48;

/// A checked name: 1 to 48 characters of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

impl Name {
    /// The name `text`.
    ///
    /// # Errors
    /// [`DecodeError::Name`] if it is empty, too long or has other characters.
    pub fn new(text: &str) -> Result<Self, DecodeError> {
        let len = u8::try_from(text.len()).map_err(|_| DecodeError::Name)?;
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes
            .get_mut(..text.len())
            .ok_or(DecodeError::Name)?
            .copy_from_slice(text.as_bytes());
        Self::decode(bytes, len)
    }

    /// The name as text.
    ///
    /// # Panics
    /// Never: its characters were checked.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = &self.bytes[..usize::from(self.len)];
        core::str::from_utf8(bytes).expect("a name is ASCII")
    }

    /// The bytes on media, padded with zeroes.
    pub(crate) const fn bytes(&self) -> [u8; NAME_BYTES_MAX] {
        self.bytes
    }

    /// Length in bytes.
    pub(crate) const fn len(&self) -> u8 {
        self.len
    }

    /// Checks bytes and length from media.
    pub(crate) fn decode(bytes: [u8; NAME_BYTES_MAX], len: u8) -> Result<Self, DecodeError> {
        let (text, rest) = bytes
            .split_at_checked(usize::from(len))
            .ok_or(DecodeError::Name)?;
        let named = text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
        if text.is_empty() || !named || rest.iter().any(|&byte| byte != 0) {
            return Err(DecodeError::Name);
        }
        Ok(Self { bytes, len })
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for good in ["a", "vm-1.disk_2", longest.as_str()] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        let longer = "a".repeat(NAME_BYTES_MAX + 1);
        let huge = "a".repeat(300);
        for bad in ["", " ", "a b", "ä", "a/b", longer.as_str(), huge.as_str()] {
            assert_eq!(Name::new(bad), Err(DecodeError::Name));
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..3].copy_from_slice(b"abc");
        assert_eq!(Name::decode(bytes, 2), Err(DecodeError::Name));
        assert_eq!(Name::decode(bytes, 49), Err(DecodeError::Name));
    }
}
