//! The records of the log: every change of the map, of the catalogue, and the checkpoints.
//!
//! Five kinds; `put` comes inline or *external* (data already at a place on the dense tier), and
//! unconditional or *conditional* (it applies only where the entry still equals `old`).
//!
//! **Invariants**: a decoded record keeps every limit below, so its users need no second check.
//!
//! **Not here**: the bytes (`record_raw`, `record_encode`, `record_decode`), batches (`batch`).

use crate::catalogue::CatalogueEntry;
use crate::checkpoint::PartKind;
use crate::crcs::Crcs;
use crate::error::DecodeError;
use crate::media::{check_range, codes};
use crate::record_raw::RecordSize;
use crate::{record_decode, record_encode};
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_units::{LEAF_BLOCKS, Lba, LeafIndex, Lsn, Ppa, SliceId, VolumeId};

/// Blocks of one put, all within one leaf: the atomic boundary (design.md 4.10).
pub const PUT_BLOCKS_MAX: usize = 512;
/// Items of one move or keep: as many as a put has blocks.
pub const ITEMS_MAX: usize = 512;
/// Payload of one checkpoint part. Arbitrary: large enough to stream, small enough to be read in
/// bounded memory by many lanes at once.
pub const PART_BYTES_MAX: usize = 256 << 10;
/// Payload of a commit. Arbitrary: 256 K places of parts; a pool of 123 TB has, by estimate, 64 K in
/// its window.
pub const COMMIT_BYTES_MAX: usize = 8 << 20;
/// Block numbers have 40 bits in moves, keeps and P2L.
pub const LBA_END: u64 = 1 << 40;
/// Payload of a leaf record: the leaf's image.
pub const LEAF_IMAGE_BYTES: usize = 4608;
/// Bytes each record starts with.
pub const RECORD_HEAD_BYTES: usize = 32;

const _: () = assert!(PUT_BLOCKS_MAX as u64 == LEAF_BLOCKS);

codes! {
    /// Kind of a record; codes are never reused.
    enum RecordKind, "record kind" {
        /// Blocks get new places.
        Put = 1,
        /// Blocks are deallocated or become zeroes.
        Discard = 2,
        /// A leaf's image.
        Leaf = 3,
        /// A part of a checkpoint, or its commit.
        Checkpoint = 4,
        /// A volume of the catalogue.
        Catalogue = 5,
    }
}

/// One block that moved: 16 bytes on media.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoveItem {
    /// The block, below [`LBA_END`].
    pub lba: Lba,
    /// Where it was; the move applies only if the map still says so.
    pub old: Ppa,
    /// Where it is now, or [`Ppa::LOST`] if no copy of it passes its check.
    pub new: Ppa,
    /// Lifetime class and moved flag.
    pub class: u8,
}

/// One block that stays on the fast tier: 24 bytes on media.
///
/// engine.md gives conditional inline puts 16 + 11 bytes; the new place is implied by the batch,
/// so 22 bytes and 2 of padding do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepItem {
    /// The block, below [`LBA_END`].
    pub lba: Lba,
    /// Where it was; the record applies only if the map still says so.
    pub old: Ppa,
    /// Lifetime class and moved flag.
    pub class: u8,
    /// LSN of the host write.
    pub birth: Lsn,
    /// CRC-32C of the block.
    pub crc: u32,
}

/// One record of the log. Its LSN is its batch's first LSN plus its index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Host write: as many data blocks as checksums follow in the batch; within one leaf.
    Put {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Lifetime class of the predecessors, or unknown.
        class: u8,
        /// Checksum of each block.
        crcs: Crcs,
    },
    /// Host write that went to the dense tier directly; within one leaf.
    External {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Place of the first block, the others follow it.
        ppa: Ppa,
        /// Lifetime class of the predecessors, or unknown.
        class: u8,
        /// Checksum of each block.
        crcs: Crcs,
    },
    /// Blocks moved by compaction or garbage collection; conditional.
    Move {
        /// Slice of all items.
        slice: SliceId,
        /// The volume.
        volume: VolumeId,
        /// What moved.
        items: Vec<MoveItem>,
    },
    /// Blocks appended again because they look hot; conditional, one data block each.
    Keep {
        /// Slice of all items.
        slice: SliceId,
        /// The volume.
        volume: VolumeId,
        /// What stays.
        items: Vec<KeepItem>,
    },
    /// Deallocation: one record per touched slice, each with the whole range.
    Discard {
        /// The slice this record speaks for.
        slice: SliceId,
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Number of blocks, at least 1.
        blocks: u64,
        /// Zeroes on purpose instead of nothing.
        zero: bool,
    },
    /// Image of a leaf with all its changes up to `through`; 4608 bytes of metadata payload.
    Leaf {
        /// The volume.
        volume: VolumeId,
        /// The leaf.
        leaf: LeafIndex,
        /// Last LSN folded into the image.
        through: Lsn,
        /// Checksum of the payload.
        crc: u32,
    },
    /// Part of a checkpoint; `bytes` of metadata payload.
    Part {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// What the payload is.
        kind: PartKind,
        /// Slice it belongs to; 0 for parts of no slice.
        slice: SliceId,
        /// Number of the part within kind and slice.
        index: u32,
        /// Payload bytes, up to [`PART_BYTES_MAX`].
        bytes: u32,
        /// Checksum of the payload.
        crc: u32,
    },
    /// Commit of a checkpoint; `bytes` of metadata payload.
    Commit {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// Payload bytes, up to [`COMMIT_BYTES_MAX`].
        bytes: u32,
        /// Checksum of the payload.
        crc: u32,
    },
    /// A volume as it is from now on; the 128-byte entry lies in the record itself.
    Catalogue {
        /// The volume; apart, so that it does not make every record as large as itself.
        entry: Box<CatalogueEntry>,
    },
}

impl Record {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::Put { .. } | Self::External { .. } | Self::Move { .. } | Self::Keep { .. } => {
                RecordKind::Put
            }
            Self::Discard { .. } => RecordKind::Discard,
            Self::Leaf { .. } => RecordKind::Leaf,
            Self::Part { .. } | Self::Commit { .. } => RecordKind::Checkpoint,
            Self::Catalogue { .. } => RecordKind::Catalogue,
        }
    }

    /// Bytes in the batch header.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        RecordSize::of(self).bytes
    }

    /// Data blocks in the batch payload.
    #[inline]
    #[must_use]
    pub fn data_blocks(&self) -> usize {
        match self {
            Self::Put { crcs, .. } => crcs.len(),
            Self::Keep { items, .. } => items.len(),
            _ => 0,
        }
    }

    /// Bytes of metadata payload, before padding to a sector.
    #[inline]
    #[must_use]
    pub const fn meta_bytes(&self) -> usize {
        match self {
            Self::Leaf { .. } => LEAF_IMAGE_BYTES,
            Self::Part { bytes, .. } | Self::Commit { bytes, .. } => *bytes as usize,
            _ => 0,
        }
    }

    /// Writes the record to the start of `into`; returns the bytes written.
    ///
    /// # Panics
    /// If `into` is shorter than [`Self::encoded_bytes`] or the record breaks a limit.
    #[inline]
    pub fn encode(&self, into: &mut [u8]) -> usize {
        assert!(self.check().is_ok(), "record breaks its limits");
        record_encode::encode(self, into)
    }

    /// The record at the start of `bytes`, and its size.
    ///
    /// # Errors
    /// [`DecodeError`] if it is truncated, of no known kind or breaks a limit.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), DecodeError> {
        let (record, size) = record_decode::decode(bytes)?;
        if matches!(record, Self::Move { .. } | Self::Keep { .. }) {
            // Each item was checked as it was decoded.
            debug_assert!(record.check().is_ok(), "items passed");
        } else {
            record.check()?;
        }
        Ok((record, size))
    }

    /// Checks the limits that hold on both sides of the drive.
    ///
    /// # Errors
    /// [`DecodeError::Range`] with the field that breaks its limit.
    pub fn check(&self) -> Result<(), DecodeError> {
        match self {
            Self::Put { lba, crcs, .. } => check_run(*lba, crcs.len()),
            Self::External { lba, ppa, crcs, .. } => {
                check_run(*lba, crcs.len())?;
                let end = ppa.bits() + crcs.len() as u64;
                check_range(end <= Ppa::RESERVED, "ppa", ppa.bits())
            }
            Self::Move { items, .. } => check_moves(items),
            Self::Keep { items, .. } => check_keeps(items),
            Self::Discard { lba, blocks, .. } => {
                check_range(lba.0 < LBA_END, "lba", lba.0)?;
                let fits = (1..=LBA_END - lba.0).contains(blocks);
                check_range(fits, "discarded blocks", *blocks)
            }
            Self::Leaf { leaf, through, .. } => {
                check_range(leaf.0 < LBA_END / LEAF_BLOCKS, "leaf", leaf.0)?;
                check_range(*through <= Lsn::MAX, "through", through.0)
            }
            Self::Part { bytes, .. } => {
                let fits = (1..=PART_BYTES_MAX).contains(&(*bytes as usize));
                check_range(fits, "part bytes", u64::from(*bytes))
            }
            Self::Commit { bytes, .. } => {
                let fits = (1..=COMMIT_BYTES_MAX).contains(&(*bytes as usize));
                check_range(fits, "commit bytes", u64::from(*bytes))
            }
            Self::Catalogue { entry } => entry.check(),
        }
    }
}

/// Checks a run of blocks: some, and within one leaf.
#[inline]
pub(crate) fn check_run(lba: Lba, blocks: usize) -> Result<(), DecodeError> {
    check_range(lba.0 < LBA_END, "lba", lba.0)?;
    let fits = (1..=PUT_BLOCKS_MAX - lba.index()).contains(&blocks);
    check_range(fits, "put blocks", blocks as u64)
}

fn check_moves(items: &[MoveItem]) -> Result<(), DecodeError> {
    check_items(items.len())?;
    for item in items {
        check_range(item.lba.0 < LBA_END, "lba", item.lba.0)?;
        check_range(item.old.is_place(), "old ppa", item.old.bits())?;
        check_range(is_target(item.new), "new ppa", item.new.bits())?;
    }
    Ok(())
}

fn check_keeps(items: &[KeepItem]) -> Result<(), DecodeError> {
    check_items(items.len())?;
    for item in items {
        check_range(item.lba.0 < LBA_END, "lba", item.lba.0)?;
        check_range(item.old.is_place(), "old ppa", item.old.bits())?;
        check_range(item.birth <= Lsn::MAX, "birth", item.birth.0)?;
    }
    Ok(())
}

fn check_items(count: usize) -> Result<(), DecodeError> {
    check_range((1..=ITEMS_MAX).contains(&count), "items", count as u64)
}

/// A block moves to a place, or is declared lost.
fn is_target(ppa: Ppa) -> bool {
    ppa.is_place() || ppa == Ppa::LOST
}
