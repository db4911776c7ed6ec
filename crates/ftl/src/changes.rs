//! What the records of the log change in the map: of hosts' writes, moves and deallocations.
//!
//! **Not here**: when they change it (`shard`, `recovery`), and what becomes of it (`map`).

use crate::geometry::BLOCK_SECTORS;
use crate::load::Appended;
use crate::map::{Change, LeafKey, Map};
use alloc::vec::Vec;
use varve_format::{MoveItem, Record, crc24};
use varve_units::{LEAF_BLOCKS, Lba, Ppa, SliceId, VolumeId};

/// Deltas that a record can add to one chain, puts apart: a put takes the place of the one before.
#[inline(always)]
pub(crate) fn lengthens(record: &Record) -> usize {
    match record {
        Record::Discard { .. } => 1,
        Record::Move { items, .. } => items.len(),
        Record::Keep { items, .. } => items.len(),
        _ => 0,
    }
}

/// The pieces, one per leaf of `slice` that holds anything, of a discarded range.
pub(crate) fn discard_pieces(
    map: &Map,
    slice: SliceId,
    volume: VolumeId,
    lba: Lba,
    blocks: u64,
) -> Vec<(LeafKey, u16, u16)> {
    let end = lba.0 + blocks;
    let last = Lba(end - 1).leaf();
    map.leaves_in(slice, volume, lba.leaf()..=last)
        .into_iter()
        .map(|leaf| {
            let first = leaf.first().0;
            let from = lba.0.max(first) - first;
            let to = end.min(first + LEAF_BLOCKS) - first;
            (LeafKey { volume, leaf }, from as u16, (to - from) as u16)
        })
        .collect()
}

/// Calls `change` for every block whose entry a record changes, except discards, whose effect
/// depends on what the map holds.
pub(crate) fn for_each_change(
    record: &Record,
    at: &Appended,
    mut change: impl FnMut(LeafKey, u16, Change),
) {
    let inline = |index: usize| Ppa::fast(at.data_sector + index as u64 * BLOCK_SECTORS);
    if let Some(Written { key, puts }) = written(record, at) {
        puts.for_each(|(index, put)| change(key, index, put));
        return;
    }
    let mut call = |volume: VolumeId, lba: Lba, what: Change| {
        let leaf = lba.leaf();
        change(LeafKey { volume, leaf }, lba.index() as u16, what);
    };
    match record {
        Record::Move { volume, items, .. } => {
            for MoveItem {
                lba,
                old,
                new,
                class,
            } in items.iter().copied()
            {
                call(*volume, lba, Change::Move { old, new, class });
            }
        }
        Record::Keep { volume, items, .. } => {
            for (index, item) in items.iter().enumerate() {
                let (old, new, class) = (item.old, inline(index), item.class);
                call(*volume, item.lba, Change::Move { old, new, class });
            }
        }
        Record::Put { .. }
        | Record::External { .. }
        | Record::Discard { .. }
        | Record::Leaf { .. }
        | Record::Part { .. }
        | Record::Commit { .. }
        | Record::Catalogue { .. } => {}
    }
}

/// What a host's write changes: blocks of one leaf.
pub(crate) struct Written<Puts> {
    pub(crate) key: LeafKey,
    pub(crate) puts: Puts,
}

/// What a record of a host's write changes; `None` for other records.
pub(crate) fn written<'a>(
    record: &'a Record,
    at: &Appended,
) -> Option<Written<impl ExactSizeIterator<Item = (u16, Change)> + use<'a>>> {
    let (volume, lba, class, crcs, dense) = match record {
        Record::Put {
            volume,
            lba,
            class,
            crcs,
        } => (*volume, *lba, *class, crcs, None),
        Record::External {
            volume,
            lba,
            ppa,
            class,
            crcs,
        } => (*volume, *lba, *class, crcs, Some(ppa.bits())),
        _ => return None,
    };
    let (leaf, sector) = (lba.leaf(), at.data_sector);
    let puts = crcs.as_slice().iter().enumerate();
    let puts = puts.map(move |(index, crc)| {
        let ppa = match dense {
            Some(block) => Ppa::dense(block + index as u64),
            None => Ppa::fast(sector + index as u64 * BLOCK_SECTORS),
        };
        let crc24 = crc24(*crc);
        (
            (lba.index() + index) as u16,
            Change::Put { ppa, crc24, class },
        )
    });
    Some(Written {
        key: LeafKey { volume, leaf },
        puts,
    })
}
