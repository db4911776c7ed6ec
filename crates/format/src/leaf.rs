//! The leaf image: 512 entries and a byte of placement state for each.

use crate::entry::Entry;
use alloc::boxed::Box;
use core::fmt;
use zerocopy::{Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a leaf image on media and in memory.
pub const LEAF_BYTES: usize = 4608;
/// Entries of a leaf, as an array length.
pub const LEAF_ENTRIES: usize = 512;

/// Placement state of a block: lifetime class (bits 0..4), moved flag (bit 4), spare bits zero.
///
/// A class is an octave of the time between two writes of a block, so 8 is one turn of the log; it is a hint. Builds before
/// 30 November 2026 wrote 0 everywhere.
///
/// # Source
/// design.md 4.1.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct Placement(u8);

impl Placement {
    /// Bits in use.
    pub const BITS: u32 = 5;
    /// Class of a block of which nothing is known: it is expected to outlive the log by far.
    pub const UNKNOWN: u8 = 11;
    /// Class of a block of which nobody has looked yet what it was before.
    pub const UNTOLD: u8 = 15;

    /// State of a block of lifetime class `class`, `moved` if compaction or GC put it there.
    ///
    /// # Panics
    /// If the class has more than 4 bits.
    #[inline]
    #[must_use]
    pub const fn new(class: u8, moved: bool) -> Self {
        assert!(class < 16, "lifetime class has more than 4 bits");
        Self(class | (moved as u8) << 4)
    }

    /// The state with these bits, or `None` if spare bits are set.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits >> Self::BITS == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// All bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Lifetime class, 0..16.
    #[inline]
    #[must_use]
    pub const fn class(self) -> u8 {
        self.0 & 15
    }

    /// True if the block was moved since the host wrote it.
    #[inline]
    #[must_use]
    pub const fn is_moved(self) -> bool {
        self.0 >> 4 != 0
    }
}

/// A leaf of the map as it stands in the log and in the image cache: no header, 4608 bytes.
///
/// Its checksum, covering volume, leaf and `through`, is held by whoever points at it.
#[derive(Clone, PartialEq, Eq, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LeafImage {
    entries: [Entry; LEAF_ENTRIES],
    placement: [Placement; LEAF_ENTRIES],
}

const _: () = assert!(size_of::<LeafImage>() == LEAF_BYTES);
const _: () = assert!(LEAF_BYTES == crate::record::LEAF_IMAGE_BYTES);

impl LeafImage {
    /// The image without any block.
    pub const BLANK: Self = Self {
        entries: [Entry::ABSENT; LEAF_ENTRIES],
        placement: [Placement(0); LEAF_ENTRIES],
    };

    /// The image of a leaf of which nothing can be read any more.
    pub const LOST: Self = Self {
        entries: [Entry::LOST; LEAF_ENTRIES],
        placement: [Placement(0); LEAF_ENTRIES],
    };

    /// The image in `bytes`.
    ///
    /// # Errors
    /// Wrong length, an entry without meaning, or spare bits set.
    pub fn decode(bytes: &[u8]) -> Result<Box<Self>, LeafError> {
        if bytes.len() != LEAF_BYTES {
            return Err(LeafError::Length { found: bytes.len() });
        }
        let (entries, placement) = bytes.split_at(LEAF_ENTRIES * 8);
        let entries = entries.as_chunks::<8>().0;
        Self::check(entries, placement)?;
        let mut image = Box::new(Self::BLANK);
        for (entry, raw) in image.entries.iter_mut().zip(entries) {
            *entry = Entry::known(u64::from_le_bytes(*raw));
        }
        for (state, bits) in image.placement.iter_mut().zip(placement) {
            *state = Placement(*bits);
        }
        Ok(image)
    }

    /// All of them are looked at without a branch for each; which one is wrong is asked only if one is.
    fn check(entries: &[[u8; 8]], placement: &[u8]) -> Result<(), LeafError> {
        let entries = entries.iter().map(|raw| u64::from_le_bytes(*raw));
        let is_known = |known, bits| known & Entry::is_known(bits);
        if !entries.clone().fold(true, is_known) {
            let wrong = |(_, bits): &(usize, u64)| !Entry::is_known(*bits);
            let found = entries.enumerate().find(wrong);
            let (index, bits) = found.expect("one is wrong");
            return Err(LeafError::Entry { index, bits });
        }
        let all = placement.iter().fold(0, |all, bits| all | bits);
        if Placement::from_bits(all).is_none() {
            let mut states = placement.iter().copied().enumerate();
            let found = states.find(|(_, bits)| Placement::from_bits(*bits).is_none());
            let (index, bits) = found.expect("one is wrong");
            return Err(LeafError::Placement { index, bits });
        }
        Ok(())
    }

    /// The entry at `index`.
    ///
    /// # Panics
    /// If `index` is 512 or more.
    #[inline]
    #[must_use]
    pub const fn entry(&self, index: u16) -> Entry {
        self.entries[index as usize]
    }

    /// The placement state at `index`.
    ///
    /// # Panics
    /// If `index` is 512 or more.
    #[inline]
    #[must_use]
    pub const fn placement(&self, index: u16) -> Placement {
        self.placement[index as usize]
    }

    /// Replaces the entry at `index` and its placement state.
    ///
    /// # Panics
    /// If `index` is 512 or more.
    #[inline]
    pub const fn set(&mut self, index: u16, entry: Entry, placement: Placement) {
        self.entries[index as usize] = entry;
        self.placement[index as usize] = placement;
    }

    /// All entries in order.
    #[must_use]
    pub const fn entries(&self) -> &[Entry; LEAF_ENTRIES] {
        &self.entries
    }

    /// Number of entries that name a place.
    #[must_use]
    pub fn mapped(&self) -> u16 {
        // At most 512: a sum that looks out for more is worked out one by one.
        let add = |sum: u64, entry: &Entry| sum.wrapping_add(u64::from(entry.is_mapped()));
        self.entries.iter().fold(0, add) as u16
    }

    /// True if every entry reads as zeroes, so that the leaf need not exist.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries
            .iter()
            .all(|&e| e == Entry::ABSENT || e == Entry::ZERO)
    }
}

impl fmt::Debug for LeafImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leaf image, {} mapped", self.mapped())
    }
}

/// Why bytes are not a leaf image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LeafError {
    /// Not 4608 bytes.
    Length {
        /// Bytes given.
        found: usize,
    },
    /// An entry without meaning.
    Entry {
        /// Which entry.
        index: usize,
        /// Its bits.
        bits: u64,
    },
    /// Spare bits of a placement byte are set.
    Placement {
        /// Which entry.
        index: usize,
        /// Its bits.
        bits: u8,
    },
}

impl fmt::Display for LeafError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => write!(f, "leaf image of {found} bytes"),
            Self::Entry { index, bits } => {
                write!(f, "leaf entry {index} has no meaning: {bits:#x}")
            }
            Self::Placement { index, bits } => {
                write!(f, "placement byte {index} has spare bits set: {bits:#x}")
            }
        }
    }
}

impl core::error::Error for LeafError {}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_units::Ppa;

    #[test]
    fn an_image_survives_its_bytes() {
        let mut image = LeafImage::BLANK;
        image.set(0, Entry::new(Ppa::dense(9), 5), Placement::new(3, true));
        image.set(511, Entry::LOST, Placement::default());
        assert_eq!(*LeafImage::decode(image.as_bytes()).unwrap(), image);
        assert_eq!((image.mapped(), image.is_empty()), (1, false));
        assert!(LeafImage::BLANK.is_empty());
    }

    #[test]
    fn hostile_images_are_refused() {
        let mut bytes = LeafImage::BLANK.as_bytes().to_vec();
        bytes[4096] = 0x20;
        let refused = LeafImage::decode(&bytes).unwrap_err();
        assert_eq!(
            refused,
            LeafError::Placement {
                index: 0,
                bits: 0x20
            }
        );
        bytes[4096] = 0;
        bytes[15] = 1;
        let refused = LeafImage::decode(&bytes).unwrap_err();
        assert!(matches!(refused, LeafError::Entry { index: 1, .. }));
        assert!(LeafImage::decode(&bytes[1..]).is_err());
    }
}
