//! Sizes of a pool and what a place means.

use core::ops::Range;
use varve_units::{BLOCK_BYTES, LeafIndex, Ppa, SECTOR_BYTES, SliceId, VolumeId};

/// Sectors of one 4 KiB block.
pub const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;
/// Sectors that a chunk begins with, before its first batch.
pub const CHUNK_HEAD_SECTORS: u64 = varve_format::CHUNK_HEAD_BYTES as u64 / SECTOR_BYTES;

/// Sizes fixed at the creation of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of a chunk: a power of two, 1 MiB to 1 GiB.
    pub chunk_bytes: u64,
    /// Chunks of the fast tier.
    pub chunks: u32,
    /// Smallest transfer of the fast tier, 512 or 4096 bytes.
    pub lba_bytes: u32,
    /// Data blocks of a group on the dense tier, P2L areas included.
    pub group_blocks: u32,
    /// Groups of the dense tier; 0 for a pool without one.
    pub groups: u32,
    /// Data blocks of a stripe, its P2L area included; divides `group_blocks`.
    pub stripe_blocks: u32,
    /// Copies of a stripe's P2L area: 2 where the array has no redundancy.
    pub p2l_copies: u32,
    /// Parts of the map with one owner each.
    pub slices: u16,
}

/// Which tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tier {
    /// The small tier every write goes to.
    Fast,
    /// The large tier of long sequential writes.
    Dense,
}

impl Tier {
    /// As it is called on media.
    #[must_use]
    pub const fn code(self) -> varve_format::Tier {
        match self {
            Self::Fast => varve_format::Tier::Fast,
            Self::Dense => varve_format::Tier::Dense,
        }
    }
}

/// A chunk or a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnitId {
    /// Its tier.
    pub tier: Tier,
    /// Its number on that tier.
    pub index: u32,
}

impl UnitId {
    /// Chunk `index`.
    #[must_use]
    pub const fn chunk(index: u32) -> Self {
        Self {
            tier: Tier::Fast,
            index,
        }
    }

    /// Group `index`.
    #[must_use]
    pub const fn group(index: u32) -> Self {
        Self {
            tier: Tier::Dense,
            index,
        }
    }
}

/// What a [`Ppa`] names under a geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The chunk or group.
    pub unit: UnitId,
    /// Bit of the block in its unit's live bitmap.
    pub bit: u32,
    /// Byte offset of the block on its tier.
    pub offset: u64,
}

impl Geometry {
    /// Sectors of a chunk.
    #[must_use]
    pub const fn chunk_sectors(&self) -> u64 {
        self.chunk_bytes / SECTOR_BYTES
    }

    /// Blocks of a chunk: the bits of its live bitmap.
    #[must_use]
    pub const fn chunk_blocks(&self) -> u32 {
        (self.chunk_bytes / BLOCK_BYTES) as u32
    }

    /// Data blocks of the dense tier.
    #[must_use]
    pub const fn dense_blocks(&self) -> u64 {
        self.groups as u64 * self.group_blocks as u64
    }

    /// Sectors of the fast tier.
    #[must_use]
    pub const fn fast_sectors(&self) -> u64 {
        self.chunks as u64 * self.chunk_sectors()
    }

    /// What `ppa` names; `None` for reserved values and for places beyond the pool.
    #[must_use]
    pub fn locate(&self, ppa: Ppa) -> Option<Place> {
        let offset = self.offset(ppa)?;
        if ppa.bits() < self.dense_blocks() {
            let group = ppa.bits() / u64::from(self.group_blocks);
            let bit = (ppa.bits() % u64::from(self.group_blocks)) as u32;
            let unit = UnitId::group(group as u32);
            return Some(Place { unit, bit, offset });
        }
        let sector = ppa.sectors_below_reserved();
        let chunk = sector / self.chunk_sectors();
        let bit = (sector % self.chunk_sectors() / BLOCK_SECTORS) as u32;
        let unit = UnitId::chunk(chunk as u32);
        Some(Place { unit, bit, offset })
    }

    /// The unit that [`Geometry::locate`] tells.
    #[inline]
    #[must_use]
    pub fn unit_of(&self, ppa: Ppa) -> Option<UnitId> {
        if !ppa.is_place() {
            return None;
        }
        if ppa.bits() < self.dense_blocks() {
            return Some(UnitId::group(
                (ppa.bits() / u64::from(self.group_blocks)) as u32,
            ));
        }
        let chunk = ppa.sectors_below_reserved() / self.chunk_sectors();
        (chunk < u64::from(self.chunks)).then_some(UnitId::chunk(chunk as u32))
    }

    /// Bit of a block in the live bitmap of the unit that it is known to lie in, as [`Geometry::locate`]
    /// tells it without its divisions.
    ///
    /// # Panics
    /// If it lies before that unit.
    #[inline]
    #[must_use]
    pub const fn bit_in(&self, unit: UnitId, ppa: Ppa) -> u32 {
        let within = match unit.tier {
            Tier::Dense => ppa.bits() - unit.index as u64 * self.group_blocks as u64,
            Tier::Fast => {
                (ppa.sectors_below_reserved() - self.chunk_start(unit.index)) / BLOCK_SECTORS
            }
        };
        within as u32
    }

    /// Bits of the places that a unit has.
    #[inline]
    #[must_use]
    pub const fn places(&self, unit: UnitId) -> Range<u64> {
        match unit.tier {
            Tier::Dense => {
                let first = unit.index as u64 * self.group_blocks as u64;
                first..first + self.group_blocks as u64
            }
            // Counted down.
            Tier::Fast => {
                let first = self.chunk_start(unit.index);
                let last = first + self.chunk_sectors() - 1;
                Ppa::fast(last).bits()..Ppa::fast(first).bits() + 1
            }
        }
    }

    /// Byte offset on its tier of what `ppa` names, as [`Geometry::locate`] tells it, and no more: the
    /// rest takes two divisions.
    #[must_use]
    pub fn offset(&self, ppa: Ppa) -> Option<u64> {
        if !ppa.is_place() {
            return None;
        }
        if ppa.bits() < self.dense_blocks() {
            return Some(ppa.bits() * BLOCK_BYTES);
        }
        let sector = ppa.sectors_below_reserved();
        (sector < self.fast_sectors()).then_some(sector * SECTOR_BYTES)
    }

    /// Chunk that holds fast-tier sector `sector`.
    #[must_use]
    pub const fn chunk_of(&self, sector: u64) -> u32 {
        (sector / self.chunk_sectors()) as u32
    }

    /// First sector of chunk `index`.
    #[must_use]
    pub const fn chunk_start(&self, index: u32) -> u64 {
        index as u64 * self.chunk_sectors()
    }

    /// Bytes of data blocks of a group.
    #[must_use]
    pub const fn group_bytes(&self) -> u64 {
        self.group_blocks as u64 * BLOCK_BYTES
    }

    /// Byte offset of group `index` on the dense tier.
    #[must_use]
    pub const fn group_start(&self, index: u32) -> u64 {
        index as u64 * self.group_bytes()
    }

    /// Place of data block `block` of group `group`.
    #[must_use]
    pub const fn dense_ppa(&self, group: u32, block: u32) -> Ppa {
        Ppa::dense(group as u64 * self.group_blocks as u64 + block as u64)
    }

    /// The slice that owns a leaf: `(leaf + volume) mod slices`.
    #[must_use]
    pub const fn slice_of(&self, volume: VolumeId, leaf: LeafIndex) -> SliceId {
        SliceId((leaf.0.wrapping_add(volume.0) % self.slices as u64) as u16)
    }

    /// Blocks of P2L area in each stripe, all copies.
    #[must_use]
    pub const fn stripe_p2l_blocks(&self) -> u32 {
        varve_format::P2l::blocks_for(self.stripe_blocks as usize) as u32 * self.p2l_copies
    }

    /// Changes of the map that one record tells of at most, where a batch has at most so many blocks.
    #[must_use]
    pub const fn record_changes_max(&self, batch_blocks_max: u64) -> u64 {
        if self.groups == 0 {
            return batch_blocks_max;
        }
        let stripe = self.stripe_user_blocks() as u64;
        if stripe > batch_blocks_max {
            stripe
        } else {
            batch_blocks_max
        }
    }

    /// Blocks of user data a stripe holds.
    #[must_use]
    pub const fn stripe_user_blocks(&self) -> u32 {
        self.stripe_blocks - self.stripe_p2l_blocks()
    }

    /// True if data block `block` of a group holds user data, not P2L.
    #[must_use]
    pub const fn is_user_block(&self, block: u32) -> bool {
        let area = self.stripe_p2l_blocks() / self.p2l_copies;
        let at = block % self.stripe_blocks;
        let first = area * (self.p2l_copies - 1);
        at >= first && at < self.stripe_blocks - area
    }

    /// Stripes of a group.
    #[must_use]
    pub const fn group_stripes(&self) -> u32 {
        self.group_blocks / self.stripe_blocks
    }
}

/// A pool of tests.
#[cfg(test)]
pub(crate) const SMALL: Geometry = Geometry {
    chunk_bytes: 1 << 20,
    chunks: 16,
    lba_bytes: 512,
    group_blocks: 256,
    groups: 8,
    stripe_blocks: 64,
    p2l_copies: 1,
    slices: 16,
};
