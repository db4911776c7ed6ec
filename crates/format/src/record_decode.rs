//! Bytes to records.

use crate::brought::InlinePut;
use crate::catalogue::CatalogueEntry;
use crate::checkpoint::PartKind;
use crate::crcs::Crcs;
use crate::error::DecodeError;
use crate::media::{U40, check_range, check_zero, checked, list, lsn, prefix};
use crate::record::{
    ITEMS_MAX, KeepItem, LBA_END, MoveItem, PUT_BLOCKS_MAX, RECORD_HEAD_BYTES, Record, RecordKind,
    check_run,
};
use crate::record_raw::{
    COMMIT, CONDITIONAL, CatalogueRaw, CommitRaw, DiscardRaw, EXTERNAL, ItemsRaw, KeepItemRaw,
    LeafRaw, MoveItemRaw, PartRaw, PutRaw, RecordHead, ZERO, encoded_bytes,
};
use alloc::boxed::Box;
use varve_units::{Lba, LeafIndex, Ppa, SliceId, VolumeId};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const STRUCTURE: &str = "Record";

// Block numbers of items need no check.
const _: () = assert!(LBA_END == 1 << 40);

/// The record at the start of `bytes` and its size; limits on values are checked by the caller, but for
/// those of items.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Result<(Record, usize), DecodeError> {
    let (head, _) = prefix::<RecordHead>(bytes, STRUCTURE)?;
    let unknown = DecodeError::Kind {
        kind: head.kind,
        flags: head.flags,
    };
    let kind = RecordKind::from_code(head.kind).map_err(|_| unknown)?;
    let record = match (kind, head.flags) {
        (RecordKind::Put, 0 | EXTERNAL) => decode_put(bytes)?,
        (RecordKind::Put, CONDITIONAL) => decode_keep(bytes)?,
        (RecordKind::Put, flags) if flags == EXTERNAL | CONDITIONAL => decode_move(bytes)?,
        (RecordKind::Discard, 0 | ZERO) => decode_discard(bytes)?,
        (RecordKind::Leaf, 0) => decode_leaf(bytes)?,
        (RecordKind::Checkpoint, 0) => decode_part(bytes)?,
        (RecordKind::Checkpoint, COMMIT) => decode_commit(bytes)?,
        (RecordKind::Catalogue, 0) => decode_catalogue(bytes)?,
        _ => return Err(unknown),
    };
    let size = encoded_bytes(&record);
    Ok((record, size))
}

/// Head and checksums of a put or external.
#[inline]
fn put_parts(bytes: &[u8]) -> Result<(&PutRaw, &[U32]), DecodeError> {
    let (raw, rest) = prefix::<PutRaw>(bytes, STRUCTURE)?;
    if raw.reserved != [0; 2] {
        return Err(DecodeError::Padding {
            structure: STRUCTURE,
        });
    }
    check_no_slice(raw.head)?;
    let count = count(raw.count, PUT_BLOCKS_MAX, "put blocks")?;
    let (crcs, _) = list::<U32>(rest, count, STRUCTURE)?;
    Ok((raw, crcs))
}

/// The record at the start of `bytes` and its size, checked as [`Record::decode`] does, if it is a put whose
/// blocks lie in the batch.
#[inline]
pub(crate) fn inline_put(bytes: &[u8]) -> Result<Option<(InlinePut<'_>, usize)>, DecodeError> {
    let (head, _) = prefix::<RecordHead>(bytes, STRUCTURE)?;
    if (head.kind, head.flags) != (RecordKind::Put.code(), 0) {
        return Ok(None);
    }
    let (raw, crcs) = put_parts(bytes)?;
    check_range(raw.ppa.get() == 0, "ppa of inline blocks", raw.ppa.get())?;
    let put = InlinePut {
        volume: VolumeId(raw.volume.get()),
        lba: Lba(raw.lba.get()),
        class: raw.class,
        crcs,
    };
    check_run(put.lba, crcs.len())?;
    Ok(Some((put, RECORD_HEAD_BYTES + size_of_val(crcs))))
}

fn decode_put(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, crcs) = put_parts(bytes)?;
    let crcs = match crcs {
        [crc] => Crcs::one(crc.get()),
        _ => crcs.iter().map(|crc| crc.get()).collect(),
    };
    let volume = VolumeId(raw.volume.get());
    let lba = Lba(raw.lba.get());
    let class = raw.class;
    if raw.head.flags == EXTERNAL {
        return Ok(Record::External {
            volume,
            lba,
            ppa: ppa(raw.ppa)?,
            class,
            crcs,
        });
    }
    check_range(raw.ppa.get() == 0, "ppa of inline blocks", raw.ppa.get())?;
    Ok(Record::Put {
        volume,
        lba,
        class,
        crcs,
    })
}

/// The size of the record at the start of `bytes` if it is a move, checked as [`Record::decode`] does: for who
/// does not need its items.
pub(crate) fn check_move(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
    let (head, _) = prefix::<RecordHead>(bytes, STRUCTURE)?;
    if (head.kind, head.flags) != (RecordKind::Put.code(), EXTERNAL | CONDITIONAL) {
        return Ok(None);
    }
    let (_, items) = decode_items::<MoveItemRaw>(bytes)?;
    for item in items {
        MoveItem::checked(item)?;
    }
    Ok(Some(RECORD_HEAD_BYTES + size_of_val(items)))
}

fn decode_move(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, items) = decode_items::<MoveItemRaw>(bytes)?;
    let items = checked(items, MoveItem::checked)?;
    Ok(Record::Move {
        slice: SliceId(raw.head.slice.get()),
        volume: VolumeId(raw.volume.get()),
        items,
    })
}

fn decode_keep(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, items) = decode_items::<KeepItemRaw>(bytes)?;
    let items = checked(items, |item| {
        check_zero(&item.reserved, STRUCTURE)?;
        Ok(KeepItem {
            lba: Lba(item.lba.get()),
            old: ppa(item.old)?,
            class: item.class,
            birth: item.birth.get(),
            crc: item.crc.get(),
        })
    })?;
    Ok(Record::Keep {
        slice: SliceId(raw.head.slice.get()),
        volume: VolumeId(raw.volume.get()),
        items,
    })
}

impl MoveItem {
    /// Within all limits: a block number has 40 bits there.
    fn checked(item: &MoveItemRaw) -> Result<Self, DecodeError> {
        Ok(Self {
            lba: Lba(item.lba.get()),
            old: ppa(item.old)?,
            new: target(item.new)?,
            class: item.class,
        })
    }
}

/// Head and items of a move or keep.
fn decode_items<T>(bytes: &[u8]) -> Result<(&ItemsRaw, &[T]), DecodeError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let (raw, rest) = prefix::<ItemsRaw>(bytes, STRUCTURE)?;
    check_zero(&raw.reserved, STRUCTURE)?;
    let count = count(raw.count, ITEMS_MAX, "items")?;
    let (items, _) = list::<T>(rest, count, STRUCTURE)?;
    Ok((raw, items))
}

fn decode_discard(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, _) = prefix::<DiscardRaw>(bytes, STRUCTURE)?;
    check_zero(&raw.reserved, STRUCTURE)?;
    Ok(Record::Discard {
        slice: SliceId(raw.head.slice.get()),
        volume: VolumeId(raw.volume.get()),
        lba: Lba(raw.lba.get()),
        blocks: raw.blocks.get(),
        zero: raw.head.flags == ZERO,
    })
}

fn decode_leaf(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, _) = prefix::<LeafRaw>(bytes, STRUCTURE)?;
    check_no_slice(raw.head)?;
    Ok(Record::Leaf {
        volume: VolumeId(raw.volume.get()),
        leaf: LeafIndex(raw.leaf.get()),
        through: lsn(raw.through.get(), "through")?,
        crc: raw.crc.get(),
    })
}

fn decode_part(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, _) = prefix::<PartRaw>(bytes, STRUCTURE)?;
    check_zero(&raw.reserved, STRUCTURE)?;
    Ok(Record::Part {
        checkpoint: raw.checkpoint.get(),
        kind: PartKind::from_code(raw.part_kind)?,
        slice: SliceId(raw.head.slice.get()),
        index: raw.index.get(),
        bytes: raw.bytes.get(),
        crc: raw.crc.get(),
    })
}

fn decode_commit(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, _) = prefix::<CommitRaw>(bytes, STRUCTURE)?;
    check_zero(&raw.reserved, STRUCTURE)?;
    check_zero(&raw.reserved_end, STRUCTURE)?;
    check_no_slice(raw.head)?;
    Ok(Record::Commit {
        checkpoint: raw.checkpoint.get(),
        bytes: raw.bytes.get(),
        crc: raw.crc.get(),
    })
}

fn decode_catalogue(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, rest) = prefix::<CatalogueRaw>(bytes, STRUCTURE)?;
    check_zero(&raw.reserved, STRUCTURE)?;
    check_no_slice(raw.head)?;
    Ok(Record::Catalogue {
        entry: Box::new(CatalogueEntry::decode(rest)?),
    })
}

fn count(count: U32, max: usize, field: &'static str) -> Result<usize, DecodeError> {
    let found = u64::from(count.get());
    check_range((1..=max as u64).contains(&found), field, found)?;
    Ok(count.get() as usize)
}

fn check_no_slice(head: RecordHead) -> Result<(), DecodeError> {
    let slice = u64::from(head.slice.get());
    check_range(slice == 0, "slice of a record without one", slice)
}

/// A place, or [`Ppa::LOST`].
fn target(raw: U40) -> Result<Ppa, DecodeError> {
    match Ppa::from_bits(raw.get()) {
        Some(Ppa::LOST) => Ok(Ppa::LOST),
        _ => ppa(raw),
    }
}

fn ppa(raw: U40) -> Result<Ppa, DecodeError> {
    let found = raw.get();
    Ppa::from_bits(found)
        .filter(|ppa| ppa.is_place())
        .ok_or(DecodeError::Range {
            field: "ppa",
            found,
        })
}
