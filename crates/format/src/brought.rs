//! What the records of a batch brought, for who asks whether it is still needed: blocks and leaves.
//!
//! **Not here**: records that change the map without payload (`batch::decode` has them all).

use crate::record::{KeepItem, Record};
use alloc::vec::Vec;
use varve_units::{BLOCK_BYTES, Lba, LeafIndex, Lsn, SECTOR_BYTES, VolumeId};
use zerocopy::little_endian::U32;

/// A block of a host that a batch brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BroughtBlock {
    /// Its volume.
    pub volume: VolumeId,
    /// Its number in the volume.
    pub lba: Lba,
    /// Fast-tier sector where it begins.
    pub sector: u64,
    /// LSN of its host write.
    pub birth: Lsn,
    /// CRC-32C of the block.
    pub crc: u32,
    /// Lifetime class that its record gives it.
    pub class: u8,
    /// It was in the log before, and was appended again.
    pub is_kept: bool,
}

/// The image of a leaf that a batch brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BroughtLeaf {
    /// Its volume.
    pub volume: VolumeId,
    /// The leaf.
    pub leaf: LeafIndex,
    /// Fast-tier sector where it begins.
    pub sector: u64,
}

/// Blocks and leaves of any number of batches, as they lie.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Brought {
    /// Blocks of hosts.
    pub blocks: Vec<BroughtBlock>,
    /// Images of leaves.
    pub leaves: Vec<BroughtLeaf>,
}

/// A record of a host's write whose blocks lie in the batch.
pub(crate) struct InlinePut<'a> {
    pub(crate) volume: VolumeId,
    pub(crate) lba: Lba,
    pub(crate) class: u8,
    pub(crate) crcs: &'a [U32],
}

/// Fast-tier sectors of a block.
const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;

impl Brought {
    /// Adds the blocks of a put with this LSN; the first lies at `sector`.
    #[inline]
    pub(crate) fn add_put(&mut self, put: &InlinePut<'_>, lsn: Lsn, sector: u64) {
        let block = |(index, crc): (u64, &U32)| BroughtBlock {
            volume: put.volume,
            lba: Lba(put.lba.0 + index),
            sector: sector + index * BLOCK_SECTORS,
            birth: lsn,
            crc: crc.get(),
            class: put.class,
            is_kept: false,
        };
        match put.crcs {
            [crc] => self.blocks.push(block((0, crc))),
            crcs => self.blocks.extend((0..).zip(crcs).map(block)),
        }
    }

    /// Adds what any other record brought: its first block lies at `data_sector`, its metadata at
    /// `meta_sector`.
    pub(crate) fn add(&mut self, record: &Record, data_sector: u64, meta_sector: u64) {
        match record {
            Record::Keep { volume, items, .. } => {
                let block = |(index, item): (u64, &KeepItem)| BroughtBlock {
                    volume: *volume,
                    lba: item.lba,
                    sector: data_sector + index * BLOCK_SECTORS,
                    birth: item.birth,
                    crc: item.crc,
                    class: item.class,
                    is_kept: true,
                };
                self.blocks.extend((0..).zip(items).map(block));
            }
            Record::Leaf { volume, leaf, .. } => self.leaves.push(BroughtLeaf {
                volume: *volume,
                leaf: *leaf,
                sector: meta_sector,
            }),
            _ => {}
        }
    }

    /// Blocks and leaves so far: for [`Self::truncate`].
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.blocks.len(), self.leaves.len())
    }

    /// True if there are neither blocks nor leaves.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// Forgets what was added since there were so many.
    pub fn truncate(&mut self, (blocks, leaves): (usize, usize)) {
        self.blocks.truncate(blocks);
        self.leaves.truncate(leaves);
    }
}
