//! How structures on media are declared, opened and sealed.
//!
//! Each structure is declared once with [`media!`]: the macro gives the `zerocopy` type, asserts
//! its size and derives the table that `layout` prints. Every header starts with the same 12
//! bytes: magic, version, two bytes of its own, CRC-32C over the whole structure with the CRC
//! field as zero.
//!
//! **Invariants**: all integers are little-endian, no structure has implicit padding.

use crate::crc::{crc32c, crc32c_parts};
use crate::error::DecodeError;
use alloc::vec::Vec;
use varve_units::Lsn;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One structure of the layout tables.
pub(crate) struct Table {
    /// Name of the structure.
    pub(crate) name: &'static str,
    /// Its size.
    pub(crate) bytes: usize,
    /// Its fields in order.
    pub(crate) fields: &'static [Field],
}

/// One field of the layout tables.
pub(crate) struct Field {
    /// Name of the field.
    pub(crate) name: &'static str,
    /// First byte within the structure.
    pub(crate) offset: usize,
    /// Its size.
    pub(crate) bytes: usize,
}

/// Declares a structure on media with its size in bytes, asserted, and its layout table.
macro_rules! media {
    ($(#[$doc:meta])* struct $name:ident: $bytes:literal {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::Immutable,
            zerocopy::KnownLayout,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }

        const _: () = assert!(core::mem::size_of::<$name>() == $bytes);

        impl $name {
            /// Fields, offsets and sizes, for the layout tables.
            pub(crate) const TABLE: $crate::media::Table = $crate::media::Table {
                name: stringify!($name),
                bytes: $bytes,
                fields: &[$($crate::media::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    bytes: core::mem::size_of::<$type>(),
                }),*],
            };
        }
    };
}
pub(crate) use media;

/// Version of every structure; the format is unstable until packing and snapshots have landed.
pub(crate) const VERSION: u16 = 0;

/// Offset of the CRC-32C in every header.
const CRC_OFFSET: usize = 8;

media! {
    /// The first bytes of every header.
    struct Preamble: 12 {
        /// Four letters.
        magic: [u8; 4],
        /// Version of the structure.
        version: U16,
        /// Belongs to the structure.
        own: [u8; 2],
        /// CRC-32C of the whole structure, this field as zero.
        crc: U32,
    }
}

const _: () = assert!(core::mem::offset_of!(Preamble, crc) == CRC_OFFSET);

/// 40-bit little-endian integer: a place or a block number.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct U40([u8; 5]);

impl U40 {
    /// # Panics
    /// If the value has more than 40 bits.
    pub(crate) fn new(value: u64) -> Self {
        assert!(value < 1 << 40, "value beyond 40 bits");
        let b = value.to_le_bytes();
        Self([b[0], b[1], b[2], b[3], b[4]])
    }

    pub(crate) fn get(self) -> u64 {
        let b = self.0;
        u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], 0, 0, 0])
    }
}

/// 56-bit little-endian integer: an LSN.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct U56([u8; 7]);

impl U56 {
    /// # Panics
    /// If the LSN has more than 56 bits.
    pub(crate) fn new(lsn: Lsn) -> Self {
        assert!(lsn <= Lsn::MAX, "LSN beyond 56 bits");
        let b = lsn.0.to_le_bytes();
        Self([b[0], b[1], b[2], b[3], b[4], b[5], b[6]])
    }

    pub(crate) fn get(self) -> Lsn {
        let b = self.0;
        Lsn(u64::from_le_bytes([
            b[0], b[1], b[2], b[3], b[4], b[5], b[6], 0,
        ]))
    }
}

/// The structure at the start of `bytes` and what follows it.
pub(crate) fn prefix<'a, T>(
    bytes: &'a [u8],
    structure: &'static str,
) -> Result<(&'a T, &'a [u8]), DecodeError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_prefix(bytes).map_err(|_| truncated(structure, size_of::<T>(), bytes.len()))
}

/// `count` structures at the start of `bytes` and what follows them; allocates nothing.
pub(crate) fn list<'a, T>(
    bytes: &'a [u8],
    count: usize,
    structure: &'static str,
) -> Result<(&'a [T], &'a [u8]), DecodeError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    <[T]>::ref_from_prefix_with_elems(bytes, count)
        .map_err(|_| truncated(structure, count.saturating_mul(size_of::<T>()), bytes.len()))
}

/// The items of a list, each checked, in memory that is taken once.
pub(crate) fn checked<R, T>(
    raw: &[R],
    mut check: impl FnMut(&R) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut items = Vec::with_capacity(raw.len());
    for item in raw {
        items.push(check(item)?);
    }
    Ok(items)
}

/// The error for `found` bytes where `needed` are due.
pub(crate) fn truncated(structure: &'static str, needed: usize, found: usize) -> DecodeError {
    DecodeError::Truncated {
        structure,
        needed: needed as u64,
        found: found as u64,
    }
}

/// Checks magic and version.
pub(crate) fn check_magic(
    bytes: &[u8],
    magic: [u8; 4],
    structure: &'static str,
) -> Result<(), DecodeError> {
    let (head, _) = prefix::<Preamble>(bytes, structure)?;
    if head.magic != magic {
        return Err(DecodeError::Magic {
            structure,
            found: head.magic,
        });
    }
    if head.version.get() != VERSION {
        return Err(DecodeError::Version {
            structure,
            found: head.version.get(),
        });
    }
    Ok(())
}

/// Checks the CRC-32C over all of `bytes`.
pub(crate) fn check_crc(bytes: &[u8], structure: &'static str) -> Result<(), DecodeError> {
    let (head, rest) = prefix::<Preamble>(bytes, structure)?;
    let found = crc32c_parts(&[&head.as_bytes()[..CRC_OFFSET], &[0; 4], rest]);
    if head.crc.get() == found {
        Ok(())
    } else {
        Err(DecodeError::Checksum {
            structure,
            expected: head.crc.get(),
            found,
        })
    }
}

/// Writes the CRC-32C of the whole structure `bytes`, whose CRC field is zero, into it.
pub(crate) fn seal(bytes: &mut [u8]) {
    let field = CRC_OFFSET..CRC_OFFSET + 4;
    debug_assert!(bytes[field.clone()].iter().all(|&byte| byte == 0));
    let crc = crc32c(bytes);
    bytes[field].copy_from_slice(&crc.to_le_bytes());
}

/// Checks that `bytes` are zero.
pub(crate) fn check_zero(bytes: &[u8], structure: &'static str) -> Result<(), DecodeError> {
    // Padding is up to a block long, and every header read has some.
    let (words, rest) = bytes.as_chunks::<{ size_of::<u128>() }>();
    let words = words.iter().all(|word| u128::from_ne_bytes(*word) == 0);
    if words && rest.iter().all(|&byte| byte == 0) {
        Ok(())
    } else {
        Err(DecodeError::Padding { structure })
    }
}

/// Checks that nothing follows.
pub(crate) fn check_end(bytes: &[u8], structure: &'static str) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(DecodeError::Trailing {
            structure,
            bytes: bytes.len() as u64,
        })
    }
}

/// Checks that `found` satisfies `valid`.
pub(crate) fn check_range(valid: bool, field: &'static str, found: u64) -> Result<(), DecodeError> {
    if valid {
        Ok(())
    } else {
        Err(DecodeError::Range { field, found })
    }
}

/// Checks that a structure is of the pool and of the fast-tier sector that it was read for: `(found, expected)`
/// of each.
pub(crate) fn check_home(
    (pool, expected_pool): ([u8; 16], [u8; 16]),
    (address, expected): (u64, u64),
    structure: &'static str,
) -> Result<(), DecodeError> {
    if pool != expected_pool {
        return Err(DecodeError::Pool {
            expected: expected_pool,
            found: pool,
        });
    }
    if address != expected {
        return Err(DecodeError::Address {
            structure,
            expected,
            found: address,
        });
    }
    Ok(())
}

/// Checks that `found` is what follows from the rest.
pub(crate) fn check_equal(
    expected: u64,
    found: u64,
    field: &'static str,
) -> Result<(), DecodeError> {
    if expected == found {
        Ok(())
    } else {
        Err(DecodeError::Mismatch {
            field,
            expected,
            found,
        })
    }
}

/// The LSN stored as 64 bits in `field`.
pub(crate) fn lsn(found: u64, field: &'static str) -> Result<Lsn, DecodeError> {
    check_range(found <= Lsn::MAX.0, field, found)?;
    Ok(Lsn(found))
}

/// Declares an enum with a code on media and its checked decoding.
macro_rules! codes {
    ($(#[$doc:meta])* enum $name:ident, $field:literal {
        $($(#[$variant_doc:meta])* $variant:ident = $code:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All values, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code on media; never reused.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// The value with this code.
            ///
            /// # Errors
            /// [`DecodeError::Range`](crate::DecodeError::Range) if no value has it.
            pub const fn from_code(code: u8) -> Result<Self, $crate::DecodeError> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => Err($crate::DecodeError::Range {
                        field: $field,
                        found: code as u64,
                    }),
                }
            }
        }
    };
}
pub(crate) use codes;
