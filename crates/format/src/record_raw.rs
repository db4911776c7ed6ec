//! The bytes of records.
//!
//! Each record starts with 32 bytes, of which kind, flags and slice lie alike in all; then come
//! checksums, items or a catalogue entry. engine.md names one head for all kinds; here each kind
//! names its own fields, because checksum and size of a payload fit the head (a leaf, a part and
//! a commit then take 32 bytes instead of 36 or more).

use crate::catalogue::{CATALOGUE_ENTRY_BYTES, CatalogueEntry};
use crate::checkpoint::PartKind;
use crate::crcs::Crcs;
use crate::error::DecodeError;
use crate::media::{U40, U56, check_range, check_zero, list, lsn, media, prefix};
use crate::record::{
    ITEMS_MAX, KeepItem, MoveItem, PUT_BLOCKS_MAX, RECORD_HEAD_BYTES, Record, RecordKind,
};
use varve_units::{Lba, LeafIndex, Ppa, SliceId, VolumeId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Payload is at a place on the dense tier.
const EXTERNAL: u8 = 1;
/// Applies only if the entry equals `old`.
const CONDITIONAL: u8 = 2;
/// Zeroes on purpose.
const ZERO: u8 = 4;
/// A checkpoint's commit, not a part.
const COMMIT: u8 = 8;

const STRUCTURE: &str = "Record";

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

/// Bytes of the encoded record.
pub(crate) fn encoded_bytes(record: &Record) -> usize {
    RECORD_HEAD_BYTES
        + match record {
            Record::Put { crcs, .. } | Record::External { crcs, .. } => {
                crcs.len() * size_of::<U32>()
            }
            Record::Move { items, .. } => items.len() * size_of::<MoveItemRaw>(),
            Record::Keep { items, .. } => items.len() * size_of::<KeepItemRaw>(),
            Record::Catalogue { .. } => CATALOGUE_ENTRY_BYTES,
            _ => 0,
        }
}

/// Kind, flags and slice of a record.
fn head(record: &Record) -> RecordHead {
    let (flags, slice) = match record {
        Record::Put { .. } | Record::Leaf { .. } | Record::Catalogue { .. } => (0, SliceId(0)),
        Record::External { .. } => (EXTERNAL, SliceId(0)),
        Record::Move { slice, .. } => (EXTERNAL | CONDITIONAL, *slice),
        Record::Keep { slice, .. } => (CONDITIONAL, *slice),
        Record::Discard { slice, zero, .. } => (if *zero { ZERO } else { 0 }, *slice),
        Record::Part { slice, .. } => (0, *slice),
        Record::Commit { .. } => (COMMIT, SliceId(0)),
    };
    RecordHead {
        kind: record.kind().code(),
        flags,
        slice: slice.0.into(),
    }
}

/// Writes `record` to `into`, which has exactly its size.
pub(crate) fn encode(record: &Record, into: &mut [u8]) {
    let (start, rest) = into.split_at_mut(RECORD_HEAD_BYTES);
    let head = head(record);
    match record {
        Record::Put {
            volume,
            lba,
            class,
            crcs,
        } => encode_put(start, rest, head, (*volume, *lba, None, *class), crcs),
        Record::External {
            volume,
            lba,
            ppa,
            class,
            crcs,
        } => encode_put(start, rest, head, (*volume, *lba, Some(*ppa), *class), crcs),
        Record::Move { volume, items, .. } => {
            encode_items(start, head, *volume, items.len());
            encode_list(rest, items, MoveItemRaw::from);
        }
        Record::Keep { volume, items, .. } => {
            encode_items(start, head, *volume, items.len());
            encode_list(rest, items, KeepItemRaw::from);
        }
        Record::Catalogue { entry } => {
            let raw = CatalogueRaw {
                head,
                reserved: [0; 28],
            };
            start.copy_from_slice(raw.as_bytes());
            rest.copy_from_slice(&entry.encode());
        }
        _ => encode_plain(record, start, head),
    }
}

/// Writes a record that is its head alone.
fn encode_plain(record: &Record, start: &mut [u8], head: RecordHead) {
    match record {
        Record::Discard {
            volume,
            lba,
            blocks,
            ..
        } => start.copy_from_slice(
            DiscardRaw {
                head,
                reserved: [0; 4],
                volume: volume.0.into(),
                lba: lba.0.into(),
                blocks: (*blocks).into(),
            }
            .as_bytes(),
        ),
        Record::Leaf {
            volume,
            leaf,
            through,
            crc,
        } => start.copy_from_slice(
            LeafRaw {
                head,
                crc: (*crc).into(),
                volume: volume.0.into(),
                leaf: leaf.0.into(),
                through: through.0.into(),
            }
            .as_bytes(),
        ),
        Record::Part {
            checkpoint,
            kind,
            index,
            bytes,
            crc,
            ..
        } => start.copy_from_slice(
            PartRaw {
                head,
                index: (*index).into(),
                checkpoint: (*checkpoint).into(),
                bytes: (*bytes).into(),
                crc: (*crc).into(),
                part_kind: kind.code(),
                reserved: [0; 7],
            }
            .as_bytes(),
        ),
        Record::Commit {
            checkpoint,
            bytes,
            crc,
        } => start.copy_from_slice(
            CommitRaw {
                head,
                reserved: [0; 4],
                checkpoint: (*checkpoint).into(),
                bytes: (*bytes).into(),
                crc: (*crc).into(),
                reserved_end: [0; 8],
            }
            .as_bytes(),
        ),
        _ => unreachable!("records with more than a head are encoded by their kind"),
    }
}

fn encode_put(
    start: &mut [u8],
    rest: &mut [u8],
    head: RecordHead,
    (volume, lba, ppa, class): (VolumeId, Lba, Option<Ppa>, u8),
    crcs: &Crcs,
) {
    let raw = PutRaw {
        head,
        count: count32(crcs.len()),
        volume: volume.0.into(),
        lba: lba.0.into(),
        ppa: U40::new(ppa.map_or(0, Ppa::bits)),
        class,
        reserved: [0; 2],
    };
    start.copy_from_slice(raw.as_bytes());
    encode_list(rest, crcs.as_slice(), |&crc| U32::new(crc));
}

fn encode_items(start: &mut [u8], head: RecordHead, volume: VolumeId, count: usize) {
    let raw = ItemsRaw {
        head,
        count: count32(count),
        volume: volume.0.into(),
        ..ItemsRaw::new_zeroed()
    };
    start.copy_from_slice(raw.as_bytes());
}

/// Writes the raw form of each of `from` to `into`.
fn encode_list<'a, T: 'a, R>(into: &mut [u8], from: &'a [T], raw: impl Fn(&'a T) -> R)
where
    R: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned,
{
    let slots = <[R]>::mut_from_bytes(into).expect("the record's size was computed for its list");
    assert_eq!(slots.len(), from.len(), "one slot for each item");
    for (slot, item) in slots.iter_mut().zip(from) {
        *slot = raw(item);
    }
}

fn count32(count: usize) -> U32 {
    U32::new(u32::try_from(count).expect("counts were checked against their limits"))
}

impl<'a> From<&'a MoveItem> for MoveItemRaw {
    fn from(item: &'a MoveItem) -> Self {
        Self {
            lba: U40::new(item.lba.0),
            old: U40::new(item.old.bits()),
            new: U40::new(item.new.bits()),
            class: item.class,
        }
    }
}

impl<'a> From<&'a KeepItem> for KeepItemRaw {
    fn from(item: &'a KeepItem) -> Self {
        Self {
            lba: U40::new(item.lba.0),
            old: U40::new(item.old.bits()),
            class: item.class,
            birth: U56::new(item.birth),
            crc: item.crc.into(),
            reserved: [0; 2],
        }
    }
}

/// The record at the start of `bytes` and its size; limits on values are checked by the caller.
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

fn decode_put(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, rest) = prefix::<PutRaw>(bytes, STRUCTURE)?;
    check_zero(&raw.reserved, STRUCTURE)?;
    check_no_slice(raw.head)?;
    let count = count(raw.count, PUT_BLOCKS_MAX, "put blocks")?;
    let (crcs, _) = list::<U32>(rest, count, STRUCTURE)?;
    let crcs = crcs.iter().map(|crc| crc.get()).collect();
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

fn decode_move(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, items) = decode_items::<MoveItemRaw>(bytes)?;
    let items: Result<_, DecodeError> = items
        .iter()
        .map(|item| {
            Ok(MoveItem {
                lba: Lba(item.lba.get()),
                old: ppa(item.old)?,
                new: ppa(item.new)?,
                class: item.class,
            })
        })
        .collect();
    Ok(Record::Move {
        slice: SliceId(raw.head.slice.get()),
        volume: VolumeId(raw.volume.get()),
        items: items?,
    })
}

fn decode_keep(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (raw, items) = decode_items::<KeepItemRaw>(bytes)?;
    let items: Result<_, DecodeError> = items
        .iter()
        .map(|item| {
            check_zero(&item.reserved, STRUCTURE)?;
            Ok(KeepItem {
                lba: Lba(item.lba.get()),
                old: ppa(item.old)?,
                class: item.class,
                birth: item.birth.get(),
                crc: item.crc.get(),
            })
        })
        .collect();
    Ok(Record::Keep {
        slice: SliceId(raw.head.slice.get()),
        volume: VolumeId(raw.volume.get()),
        items: items?,
    })
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
        entry: CatalogueEntry::decode(rest)?,
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

fn ppa(raw: U40) -> Result<Ppa, DecodeError> {
    let found = raw.get();
    Ppa::from_bits(found)
        .filter(|ppa| ppa.is_place())
        .ok_or(DecodeError::Range {
            field: "ppa",
            found,
        })
}
