//! Addresses: logical blocks, leaves, physical places.

use crate::size::{Blocks, LEAF_BLOCKS};
use core::fmt;
use core::ops::{Add, Sub};

/// Logical block address: number of a 4 KiB block inside a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lba(pub u64);

impl Lba {
    /// The leaf that holds this block's entry.
    #[must_use]
    pub const fn leaf(self) -> LeafIndex {
        LeafIndex(self.0 / LEAF_BLOCKS)
    }

    /// Index of this block's entry inside its leaf, 0..512.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 % LEAF_BLOCKS) as usize
    }
}

impl Add<Blocks> for Lba {
    type Output = Self;
    fn add(self, count: Blocks) -> Self {
        Self(self.0.checked_add(count.0).expect("LBA overflows"))
    }
}

impl Sub for Lba {
    type Output = Blocks;
    fn sub(self, other: Self) -> Blocks {
        Blocks(
            self.0
                .checked_sub(other.0)
                .expect("LBA difference below zero"),
        )
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lba {}", self.0)
    }
}

/// Number of a leaf inside a volume: 512 blocks, 2 MiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LeafIndex(pub u64);

impl LeafIndex {
    /// First block of the leaf.
    #[must_use]
    pub const fn first(self) -> Lba {
        Lba(self.0 * LEAF_BLOCKS)
    }

    /// Block of the leaf's entry `index` (0..512).
    #[must_use]
    pub const fn block(self, index: usize) -> Lba {
        Lba(self.0 * LEAF_BLOCKS + index as u64)
    }
}

/// Physical place as a map entry stores it: 40 bits.
///
/// Dense-tier data blocks are counted up from 0 in 4 KiB blocks. Fast-tier places are counted
/// down from the reserved values in 512 B sectors, because a batch header may be shorter than a
/// block. The last 2^20 values are reserved for [`Ppa::ABSENT`] and its like. Which of the two a
/// value names is decided by the geometry (`ftl`), never by a constant threshold.
///
/// # Source
/// design.md 4.1: 40 bits, 4 PiB, top 2^20 reserved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(u64);

impl Ppa {
    /// Bits of a stored place.
    pub const BITS: u32 = 40;
    /// First reserved value; all places are below.
    pub const RESERVED: u64 = (1 << 40) - (1 << 20);
    /// No block was ever written here, or it was deallocated: reads as zeroes.
    pub const ABSENT: Self = Self((1 << 40) - 1);
    /// Zeroes written on purpose; takes no space.
    pub const ZERO: Self = Self((1 << 40) - 2);
    /// Look the block up in the parent of this volume (snapshots, later).
    pub const INHERIT: Self = Self((1 << 40) - 3);
    /// The block's content was lost beyond repair; reads fail for this block alone.
    pub const LOST: Self = Self((1 << 40) - 4);

    /// The place with this 40-bit value, or `None` if it has more bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits < (1 << 40) {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Dense-tier data block number `block`.
    ///
    /// # Panics
    /// If it reaches the reserved values.
    #[must_use]
    pub const fn dense(block: u64) -> Self {
        assert!(block < Self::RESERVED, "dense block beyond 4 PiB");
        Self(block)
    }

    /// Fast-tier sector number `sector` (512 B).
    ///
    /// # Panics
    /// If it reaches below zero.
    #[must_use]
    pub const fn fast(sector: u64) -> Self {
        assert!(
            sector < Self::RESERVED,
            "fast sector beyond the address space"
        );
        Self(Self::RESERVED - 1 - sector)
    }

    /// The 40-bit value.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// True for a value that names a place on a tier.
    #[must_use]
    pub const fn is_place(self) -> bool {
        self.0 < Self::RESERVED
    }

    /// Distance below the reserved values, in sectors: the fast-tier sector if this is one.
    #[must_use]
    pub const fn sectors_below_reserved(self) -> u64 {
        assert!(self.is_place());
        Self::RESERVED - 1 - self.0
    }
}

impl fmt::Debug for Ppa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ABSENT => f.write_str("absent"),
            Self::ZERO => f.write_str("zero"),
            Self::INHERIT => f.write_str("inherit"),
            Self::LOST => f.write_str("lost"),
            Self(bits) => write!(f, "ppa {bits:#x}"),
        }
    }
}
