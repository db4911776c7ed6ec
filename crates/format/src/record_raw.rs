//! The structures of records on media.
//!
//! Each record starts with 32 bytes, of which kind, flags and slice lie alike in all; then come
//! checksums, items or a catalogue entry. engine.md names one head for all kinds; here each kind
//! names its own fields, because checksum and size of a payload fit the head (a leaf, a part and
//! a commit then take 32 bytes instead of 36 or more).

use crate::catalogue::CATALOGUE_ENTRY_BYTES;
use crate::media::{U40, U56, media};
use crate::record::{LEAF_IMAGE_BYTES, RECORD_HEAD_BYTES, Record};
use varve_units::SECTOR;
use zerocopy::little_endian::{U16, U32, U64};

/// Payload is at a place on the dense tier.
pub(crate) const EXTERNAL: u8 = 1;
/// Applies only if the entry equals `old`.
pub(crate) const CONDITIONAL: u8 = 2;
/// Zeroes on purpose.
pub(crate) const ZERO: u8 = 4;
/// A checkpoint's commit, not a part.
pub(crate) const COMMIT: u8 = 8;

media! {
    /// What all records share.
    struct RecordHead: 4 {
        kind: u8,
        flags: u8,
        /// 0 where the leaf says it.
        slice: U16,
    }
}

media! {
    /// Put and external; followed by `count` checksums.
    struct PutRaw: 32 {
        head: RecordHead,
        count: U32,
        volume: U64,
        lba: U64,
        /// 0 if inline.
        ppa: U40,
        class: u8,
        reserved: [u8; 2],
    }
}

media! {
    /// Move and keep; followed by `count` items.
    struct ItemsRaw: 32 {
        head: RecordHead,
        count: U32,
        volume: U64,
        reserved: [u8; 16],
    }
}

media! {
    /// Item of a move.
    struct MoveItemRaw: 16 {
        lba: U40,
        old: U40,
        new: U40,
        class: u8,
    }
}

media! {
    /// Item of a keep.
    struct KeepItemRaw: 24 {
        lba: U40,
        old: U40,
        class: u8,
        birth: U56,
        crc: U32,
        reserved: [u8; 2],
    }
}

media! {
    /// Discard.
    struct DiscardRaw: 32 {
        head: RecordHead,
        reserved: [u8; 4],
        volume: U64,
        lba: U64,
        blocks: U64,
    }
}

media! {
    /// Leaf.
    struct LeafRaw: 32 {
        head: RecordHead,
        crc: U32,
        volume: U64,
        leaf: U64,
        through: U64,
    }
}

media! {
    /// Part of a checkpoint.
    struct PartRaw: 32 {
        head: RecordHead,
        index: U32,
        checkpoint: U64,
        bytes: U32,
        crc: U32,
        part_kind: u8,
        reserved: [u8; 7],
    }
}

media! {
    /// Commit of a checkpoint.
    struct CommitRaw: 32 {
        head: RecordHead,
        reserved: [u8; 4],
        checkpoint: U64,
        bytes: U32,
        crc: U32,
        reserved_end: [u8; 8],
    }
}

media! {
    /// Catalogue; followed by a `CatalogueEntryRaw`.
    struct CatalogueRaw: 32 {
        head: RecordHead,
        reserved: [u8; 28],
    }
}

/// What a record, or several, take of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RecordSize {
    /// Bytes in the header.
    pub bytes: usize,
    /// Data blocks.
    pub data_blocks: usize,
    /// Sectors of metadata payload.
    pub meta_sectors: usize,
}

impl RecordSize {
    /// That of one record. Inlined: a record that is handed on by reference is in memory.
    #[inline(always)]
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let (list, data_blocks, meta_bytes) = match record {
            Record::Put { crcs, .. } => (crcs.len() * size_of::<U32>(), crcs.len(), 0),
            Record::External { crcs, .. } => (crcs.len() * size_of::<U32>(), 0, 0),
            Record::Move { items, .. } => (items.len() * size_of::<MoveItemRaw>(), 0, 0),
            Record::Keep { items, .. } => (items.len() * size_of::<KeepItemRaw>(), items.len(), 0),
            Record::Catalogue { .. } => (CATALOGUE_ENTRY_BYTES, 0, 0),
            Record::Leaf { .. } => (0, 0, LEAF_IMAGE_BYTES),
            Record::Part { bytes, .. } | Record::Commit { bytes, .. } => (0, 0, *bytes as usize),
            Record::Discard { .. } => (0, 0, 0),
        };
        Self {
            bytes: RECORD_HEAD_BYTES + list,
            data_blocks,
            meta_sectors: meta_bytes.div_ceil(SECTOR),
        }
    }

    /// That of both together.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            data_blocks: self.data_blocks + other.data_blocks,
            meta_sectors: self.meta_sectors + other.meta_sectors,
        }
    }

    /// What is left of it without `part`, a part of it.
    #[must_use]
    pub const fn minus(self, part: Self) -> Self {
        Self {
            bytes: self.bytes - part.bytes,
            data_blocks: self.data_blocks - part.data_blocks,
            meta_sectors: self.meta_sectors - part.meta_sectors,
        }
    }
}

/// Bytes of the encoded record.
#[inline]
pub(crate) fn encoded_bytes(record: &Record) -> usize {
    RecordSize::of(record).bytes
}
