//! The checksums of a record's blocks.

use alloc::boxed::Box;
use core::fmt;

/// Checksums kept without an allocation.
const INLINE: usize = 8;

/// CRC-32C of each block of a record: up to 8 inline, more on the heap.
#[derive(Clone)]
pub struct Crcs(Storage);

#[derive(Clone)]
enum Storage {
    Inline { len: u8, crcs: [u32; INLINE] },
    Heap(Box<[u32]>),
}

impl Crcs {
    /// The checksum of a single block.
    #[inline]
    #[must_use]
    pub const fn one(crc: u32) -> Self {
        let mut crcs = [0; INLINE];
        crcs[0] = crc;
        Self(Storage::Inline { len: 1, crcs })
    }

    /// Number of checksums, hence of blocks.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True for no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The checksums in block order.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        match &self.0 {
            Storage::Inline { len, crcs } => &crcs[..usize::from(*len)],
            Storage::Heap(crcs) => crcs,
        }
    }
}

impl From<&[u32]> for Crcs {
    fn from(from: &[u32]) -> Self {
        from.iter().copied().collect()
    }
}

impl FromIterator<u32> for Crcs {
    fn from_iter<I: IntoIterator<Item = u32>>(from: I) -> Self {
        let mut from = from.into_iter();
        let mut crcs = [0; INLINE];
        let mut len = 0;
        for crc in from.by_ref() {
            if usize::from(len) == INLINE {
                let all = crcs.into_iter().chain([crc]).chain(from);
                return Self(Storage::Heap(all.collect()));
            }
            crcs[usize::from(len)] = crc;
            len += 1;
        }
        Self(Storage::Inline { len, crcs })
    }
}

impl PartialEq for Crcs {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Crcs {}

impl fmt::Debug for Crcs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn keeps_every_length() {
        for len in 0..40u32 {
            let all: Vec<u32> = (0..len).map(|i| i * 7 + 1).collect();
            let crcs = Crcs::from(&all[..]);
            assert_eq!(crcs.as_slice(), &all[..]);
            assert_eq!(crcs.is_empty(), len == 0);
        }
        assert_eq!(Crcs::one(5), Crcs::from(&[5][..]));
    }
}
