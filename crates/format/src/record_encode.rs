//! Records to bytes.

use crate::crcs::Crcs;
use crate::media::{U40, U56};
use crate::record::{KeepItem, MoveItem, RECORD_HEAD_BYTES, Record, RecordKind};
use crate::record_raw::{
    COMMIT, CONDITIONAL, CatalogueRaw, CommitRaw, DiscardRaw, EXTERNAL, ItemsRaw, KeepItemRaw,
    LeafRaw, MoveItemRaw, PartRaw, PutRaw, RecordHead, ZERO,
};
use varve_units::{Lba, Ppa, SliceId, VolumeId};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Kind, flags and slice of a record.
fn head(kind: RecordKind, flags: u8, slice: SliceId) -> RecordHead {
    RecordHead {
        kind: kind.code(),
        flags,
        slice: slice.0.into(),
    }
}

/// Writes `record` to the start of `into`; returns the bytes written.
#[inline]
pub(crate) fn encode(record: &Record, into: &mut [u8]) -> usize {
    let (start, rest) = into.split_at_mut(RECORD_HEAD_BYTES);
    let list = match record {
        Record::Put {
            volume,
            lba,
            class,
            crcs,
        } => encode_put(start, rest, 0, (*volume, *lba, None, *class), crcs),
        Record::External {
            volume,
            lba,
            ppa,
            class,
            crcs,
        } => {
            let what = (*volume, *lba, Some(*ppa), *class);
            encode_put(start, rest, EXTERNAL, what, crcs)
        }
        Record::Move {
            slice,
            volume,
            items,
        } => {
            let head = head(RecordKind::Put, EXTERNAL | CONDITIONAL, *slice);
            encode_items(start, head, *volume, items.len());
            encode_list(rest, items, MoveItemRaw::from)
        }
        Record::Keep {
            slice,
            volume,
            items,
        } => {
            let head = head(RecordKind::Put, CONDITIONAL, *slice);
            encode_items(start, head, *volume, items.len());
            encode_list(rest, items, KeepItemRaw::from)
        }
        _ => encode_rare(record, start, rest),
    };
    RECORD_HEAD_BYTES + list
}

/// Writes a record without a list of blocks; returns the bytes behind its head.
fn encode_rare(record: &Record, start: &mut [u8], rest: &mut [u8]) -> usize {
    let Record::Catalogue { entry } = record else {
        encode_plain(record, start);
        return 0;
    };
    let raw = CatalogueRaw {
        head: head(record.kind(), 0, SliceId(0)),
        reserved: [0; 28],
    };
    start.copy_from_slice(raw.as_bytes());
    let entry = entry.encode();
    rest[..entry.len()].copy_from_slice(&entry);
    entry.len()
}

/// Kind, flags and slice of a record that is its head alone.
fn plain_head(record: &Record) -> RecordHead {
    let (flags, slice) = match record {
        Record::Discard { slice, zero, .. } => (if *zero { ZERO } else { 0 }, *slice),
        Record::Part { slice, .. } => (0, *slice),
        Record::Commit { .. } => (COMMIT, SliceId(0)),
        _ => (0, SliceId(0)),
    };
    head(record.kind(), flags, slice)
}

/// Writes a record that is its head alone.
fn encode_plain(record: &Record, start: &mut [u8]) {
    let head = plain_head(record);
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

#[inline]
fn encode_put(
    start: &mut [u8],
    rest: &mut [u8],
    flags: u8,
    (volume, lba, ppa, class): (VolumeId, Lba, Option<Ppa>, u8),
    crcs: &Crcs,
) -> usize {
    let raw = PutRaw {
        head: head(RecordKind::Put, flags, SliceId(0)),
        count: count32(crcs.len()),
        volume: volume.0.into(),
        lba: lba.0.into(),
        ppa: U40::new(ppa.map_or(0, Ppa::bits)),
        class,
        reserved: [0; 2],
    };
    start.copy_from_slice(raw.as_bytes());
    encode_list(rest, crcs.as_slice(), |&crc| U32::new(crc))
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

/// Writes the raw form of each of `from` to the start of `into`; returns the bytes written.
#[inline]
fn encode_list<'a, T: 'a, R>(into: &mut [u8], from: &'a [T], raw: impl Fn(&'a T) -> R) -> usize
where
    R: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned,
{
    let slots = <[R]>::mut_from_prefix_with_elems(into, from.len());
    let (slots, _) = slots.expect("room for every item");
    for (slot, item) in slots.iter_mut().zip(from) {
        *slot = raw(item);
    }
    size_of_val(slots)
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
