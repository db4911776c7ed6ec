//! Why bytes from a drive are not the structure that was expected.

use core::fmt;

/// The bytes are not a valid structure: torn, stale, misdirected, corrupt or of another version.
///
/// `structure` and `field` are names from the layout tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// Fewer bytes than the structure needs.
    Truncated {
        /// The structure.
        structure: &'static str,
        /// Bytes it needs at least.
        needed: u64,
        /// Bytes there are.
        found: u64,
    },
    /// More bytes than the structure accounts for.
    Trailing {
        /// The structure.
        structure: &'static str,
        /// Bytes left over.
        bytes: u64,
    },
    /// It does not begin with its magic.
    Magic {
        /// The structure.
        structure: &'static str,
        /// The four bytes in its place.
        found: [u8; 4],
    },
    /// It was written by a version this code does not read.
    Version {
        /// The structure.
        structure: &'static str,
        /// The version found.
        found: u16,
    },
    /// The checksum differs.
    Checksum {
        /// The structure.
        structure: &'static str,
        /// Checksum stored with it.
        expected: u32,
        /// Checksum of the bytes.
        found: u32,
    },
    /// A field holds a value that it may not have.
    Range {
        /// The field.
        field: &'static str,
        /// The value.
        found: u64,
    },
    /// Two fields, or a field and its content, contradict each other.
    Mismatch {
        /// The field.
        field: &'static str,
        /// What follows from the rest.
        expected: u64,
        /// What the field says.
        found: u64,
    },
    /// Bytes that must be zero are not.
    Padding {
        /// The structure.
        structure: &'static str,
    },
    /// No record kind has this code and these flags.
    Kind {
        /// The kind code.
        kind: u8,
        /// The flags.
        flags: u8,
    },
    /// The structure belongs to another place of the drive.
    Address {
        /// The structure.
        structure: &'static str,
        /// Where it was read.
        expected: u64,
        /// Where it says it belongs.
        found: u64,
    },
    /// The structure belongs to another pool.
    Pool {
        /// Identity of this pool.
        expected: [u8; 16],
        /// Identity in the structure.
        found: [u8; 16],
    },
    /// Something that must be unique appears twice.
    Duplicate {
        /// The field.
        field: &'static str,
        /// The value that appears twice.
        found: u64,
    },
    /// A name is empty, too long or has characters other than `A-Z a-z 0-9 . _ -`.
    Name,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated {
                structure,
                needed,
                found,
            } => write!(f, "{structure} needs {needed} bytes, there are {found}"),
            Self::Trailing { structure, bytes } => {
                write!(f, "{structure} is followed by {bytes} bytes too many")
            }
            Self::Magic { structure, found } => {
                write!(f, "{structure} begins with {found:02x?}, not its magic")
            }
            Self::Version { structure, found } => {
                write!(f, "{structure} has the unknown version {found}")
            }
            Self::Checksum {
                structure,
                expected,
                found,
            } => write!(
                f,
                "{structure} has checksum {found:08x}, stored is {expected:08x}"
            ),
            Self::Range { field, found } => write!(f, "{field} may not be {found}"),
            Self::Mismatch {
                field,
                expected,
                found,
            } => write!(f, "{field} says {found} where {expected} follows"),
            Self::Padding { structure } => write!(f, "{structure} has padding that is not zero"),
            Self::Kind { kind, flags } => {
                write!(f, "no record has kind {kind} with flags {flags:#04x}")
            }
            Self::Address {
                structure,
                expected,
                found,
            } => write!(f, "{structure} of sector {found} was read at {expected}"),
            Self::Pool { expected, found } => {
                write!(f, "belongs to pool {found:02x?}, not to {expected:02x?}")
            }
            Self::Duplicate { field, found } => write!(f, "{field} {found} appears twice"),
            Self::Name => f.write_str("a name is empty, too long or has other characters"),
        }
    }
}

impl core::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    /// One of each variant, told apart by their messages alone.
    #[test]
    fn messages_are_unique_and_lower_case() {
        let structure = "x";
        let field = "x";
        let (expected, found) = (1, 1);
        let all = [
            DecodeError::Truncated {
                structure,
                needed: 1,
                found,
            },
            DecodeError::Trailing {
                structure,
                bytes: 1,
            },
            DecodeError::Magic {
                structure,
                found: [1; 4],
            },
            DecodeError::Version {
                structure,
                found: 1,
            },
            DecodeError::Checksum {
                structure,
                expected: 1,
                found: 1,
            },
            DecodeError::Range { field, found },
            DecodeError::Mismatch {
                field,
                expected,
                found,
            },
            DecodeError::Padding { structure },
            DecodeError::Kind { kind: 1, flags: 1 },
            DecodeError::Address {
                structure,
                expected,
                found,
            },
            DecodeError::Pool {
                expected: [1; 16],
                found: [1; 16],
            },
            DecodeError::Duplicate { field, found },
            DecodeError::Name,
        ];
        let mut messages: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert!(messages.iter().all(|text| *text == text.to_lowercase()));
        messages.sort();
        messages.dedup();
        assert_eq!(messages.len(), all.len());
    }
}
