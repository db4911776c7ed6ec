//! One entry of a leaf: where a block is and the checksum its bytes must have.

use core::fmt;
use varve_units::Ppa;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Low 24 bits of a block's CRC-32C, the part an [`Entry`] holds.
pub const CRC24_MASK: u32 = (1 << 24) - 1;

/// A map entry: the place (bits 0..40) and the low 24 bits of the block's CRC-32C (bits 40..64).
///
/// The form on media and in memory is the same. Values that name no place carry checksum 0.
///
/// # Source
/// design.md 4.1.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Entry(U64);

const _: () = assert!(size_of::<Entry>() == 8);

/// The upper bits of a place's number: reserved values are those in which all are ones.
const PLACE_UPPER: u64 = Ppa::RESERVED;
const _: () = assert!(
    PLACE_UPPER >> PLACE_UPPER.trailing_zeros() << PLACE_UPPER.trailing_zeros() == PLACE_UPPER
        && PLACE_UPPER + (1 << PLACE_UPPER.trailing_zeros()) == 1 << Ppa::BITS
);

impl Entry {
    /// No block was written, or it was deallocated: reads as zeroes.
    pub const ABSENT: Self = Self(U64::new(Ppa::ABSENT.bits()));
    /// Zeroes written on purpose.
    pub const ZERO: Self = Self(U64::new(Ppa::ZERO.bits()));
    /// The content was lost beyond repair.
    pub const LOST: Self = Self(U64::new(Ppa::LOST.bits()));

    /// The entry for `ppa` whose block has checksum `crc24`; the checksum of a value that names no
    /// place is dropped.
    ///
    /// # Panics
    /// If `crc24` has more than 24 bits.
    #[inline]
    #[must_use]
    pub const fn new(ppa: Ppa, crc24: u32) -> Self {
        assert!(crc24 <= CRC24_MASK, "checksum has more than 24 bits");
        let crc = if ppa.is_place() { crc24 as u64 } else { 0 };
        Self(U64::new(ppa.bits() | (crc << Ppa::BITS)))
    }

    /// The entry with these 64 bits, or `None` for a reserved value without meaning.
    ///
    /// `inherit` is refused as well: no map of this format version holds it.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        Self::is_known(bits).then_some(Self::known(bits))
    }

    /// Whether these bits are those of an entry. Without a branch: whole leaves are looked at.
    #[inline]
    pub(crate) const fn is_known(bits: u64) -> bool {
        let is_special = (bits == Self::ABSENT.bits())
            | (bits == Self::ZERO.bits())
            | (bits == Self::LOST.bits());
        (bits & PLACE_UPPER != PLACE_UPPER) | is_special
    }

    /// The entry with these bits, which are known to be those of one.
    #[inline]
    pub(crate) const fn known(bits: u64) -> Self {
        Self(U64::new(bits))
    }

    /// All 64 bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0.get()
    }

    /// Where the block is, or why it is nowhere.
    #[inline]
    #[must_use]
    pub fn ppa(self) -> Ppa {
        Ppa::from_bits(self.bits() & ((1 << Ppa::BITS) - 1)).expect("masked to 40 bits")
    }

    /// Low 24 bits of the block's CRC-32C.
    #[inline]
    #[must_use]
    pub const fn crc24(self) -> u32 {
        (self.bits() >> Ppa::BITS) as u32
    }

    /// True if the entry names a place on a tier.
    #[inline]
    #[must_use]
    pub const fn is_mapped(self) -> bool {
        self.bits() & PLACE_UPPER != PLACE_UPPER
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} crc {:#08x}", self.ppa(), self.crc24())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_place_and_checksum() {
        for ppa in [
            Ppa::dense(0),
            Ppa::dense(77),
            Ppa::fast(0),
            Ppa::fast(123_456),
        ] {
            let entry = Entry::new(ppa, 0x00ab_cdef);
            assert_eq!((entry.ppa(), entry.crc24()), (ppa, 0x00ab_cdef));
            assert_eq!(Entry::from_bits(entry.bits()), Some(entry));
            assert!(entry.is_mapped());
        }
    }

    #[test]
    fn reserved_values_without_meaning_are_refused() {
        assert_eq!(Entry::from_bits(Ppa::ABSENT.bits()), Some(Entry::ABSENT));
        assert_eq!(Entry::from_bits(Ppa::ABSENT.bits() | 1 << 40), None);
        assert_eq!(Entry::from_bits(Ppa::INHERIT.bits()), None);
        assert_eq!(Entry::from_bits(Ppa::RESERVED), None);
    }
}
