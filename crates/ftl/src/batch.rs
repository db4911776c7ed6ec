//! One batch in the making: where it goes, how large it is, where each payload lies.
//!
//! **Not here**: what is gathered and in which order it is acknowledged (`lane`).

use crate::geometry::{BLOCK_SECTORS, CHUNK_HEAD_SECTORS};
use crate::lane::ChunkGrant;
use crate::load::{Appended, Load};
use crate::shared::Identity;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use varve_format::{BATCH_HEAD_BYTES, BatchHead, ChunkHeader, Record, RecordSize};
use varve_io::{Gather, Sectors, Supply};
use varve_units::{LaneId, Lsn, SECTOR_BYTES};

/// The chunk a lane appends to. Sectors are those of the fast tier.
pub(crate) struct OpenChunk {
    pub(crate) grant: ChunkGrant,
    pub(crate) sequence: u64,
    pub(crate) next: u64,
    pub(crate) end: u64,
    /// True until the first batch, which carries the header along, is sealed.
    pub(crate) fresh: bool,
}

impl OpenChunk {
    /// Sector where the next batch's header goes.
    pub(crate) const fn batch_start(&self) -> u64 {
        self.next + if self.fresh { CHUNK_HEAD_SECTORS } else { 0 }
    }

    /// The chunk's header, to be written twice with its first batch.
    pub(crate) fn header(
        &self,
        identity: Identity,
        lane: LaneId,
        lsn: Lsn,
        batch: u64,
    ) -> ChunkHeader {
        ChunkHeader {
            pool: identity.pool,
            epoch: identity.epoch,
            address: self.next,
            lane,
            chunk_sequence: self.sequence,
            generation: self.grant.generation,
            stamp: self.grant.stamp,
            first_lsn: lsn,
            first_batch: batch,
            commit: self.grant.commit,
        }
    }
}

/// Sectors of a batch whose records together take `size`, on a tier with LBAs of so many sectors.
#[inline]
pub(crate) const fn sectors_of(size: &RecordSize, lba_sectors: u64) -> u64 {
    let header = (BATCH_HEAD_BYTES as u64 + size.bytes as u64).div_ceil(SECTOR_BYTES);
    round_up(header, lba_sectors)
        + size.data_blocks as u64 * BLOCK_SECTORS
        + round_up(size.meta_sectors as u64, lba_sectors)
}

/// The next multiple of `unit`, a power of two: sizes are looked at for every record.
const fn round_up(sectors: u64, unit: u64) -> u64 {
    (sectors + (unit - 1)) & !(unit - 1)
}

/// Records of a batch, and what goes with each.
pub(crate) type Contents = (Vec<Record>, Vec<Load>);

/// Adds header and payloads of the batch `head` to the gather (layout: ADR 4); tells where its first record lies.
pub(crate) fn place(
    head: &BatchHead,
    records: &[Record],
    loads: &[Load],
    supply: Supply,
    gather: &mut Gather,
) -> Appended {
    gather.push_meta(head.encode(records, supply));
    let data_start = head.address + u64::from(head.header_bytes) / SECTOR_BYTES;
    let meta_start = data_start + u64::from(head.data_blocks) * BLOCK_SECTORS;
    let first = Appended {
        lsn: head.first_lsn,
        data_sector: data_start,
        meta_sector: meta_start,
        batch_sector: head.address,
    };
    let mut next = first;
    for load in loads {
        next = next.behind(load);
        if let Some((blocks, from, count)) = &load.data {
            gather.push_blocks(blocks, &(*from as usize..(*from + *count) as usize));
        }
    }
    let meta_end = meta_start + u64::from(head.meta_bytes) / SECTOR_BYTES;
    assert!(
        next.data_sector == meta_start && next.meta_sector <= meta_end,
        "payloads are as long as their records say"
    );
    if head.meta_bytes == 0 {
        return first;
    }
    for load in loads {
        if !load.meta.is_empty() {
            gather.push_meta(load.meta.clone());
        }
    }
    let padding = meta_end - next.meta_sector;
    if padding > 0 {
        gather.push_meta(Sectors::zeroed(padding as usize));
    }
    first
}

/// Records that wait for their batch. They lie as a batch holds them: one that takes all of them takes
/// their memory.
#[derive(Default)]
pub(crate) struct Queue {
    records: VecDeque<Record>,
    loads: VecDeque<Load>,
    /// What all of them take.
    size: RecordSize,
}

impl Queue {
    /// Records that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// True if none waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What all of them take.
    pub(crate) const fn size(&self) -> RecordSize {
        self.size
    }

    /// What each takes, in order, and whether it goes into one batch with the next one.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (RecordSize, bool)> {
        let both = self.records.iter().zip(&self.loads);
        both.map(|(record, load)| (RecordSize::of(record), load.joins_next))
    }

    /// True if the last one goes into one batch with one that is not there yet.
    pub(crate) fn is_open(&self) -> bool {
        self.loads.back().is_some_and(|last| last.joins_next)
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, record: Record, load: Load) {
        self.size = self.size.plus(RecordSize::of(&record));
        self.records.push_back(record);
        self.loads.push_back(load);
    }

    /// Moves the first `count` records to `contents`, behind those that are there.
    pub(crate) fn take(&mut self, count: usize, contents: &mut Contents) {
        let (records, loads) = contents;
        if count == self.len() {
            take_all(&mut self.records, records);
            take_all(&mut self.loads, loads);
            self.size = RecordSize::default();
            return;
        }
        for record in self.records.drain(..count) {
            self.size = self.size.minus(RecordSize::of(&record));
            records.push(record);
        }
        loads.extend(self.loads.drain(..count));
    }

    /// What goes with each of them, to be told that the engine stopped.
    pub(crate) fn abandon(&mut self) -> VecDeque<Load> {
        core::mem::take(self).loads
    }
}

/// Moves all that waits behind what is there already: by changing hands with it if that is nothing, else as one copy.
fn take_all<T>(from: &mut VecDeque<T>, into: &mut Vec<T>) {
    let mut all = Vec::from(core::mem::take(from));
    if into.is_empty() {
        core::mem::swap(&mut all, into);
    } else {
        into.append(&mut all);
    }
    *from = all.into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_format::{BatchStart, Crcs};
    use varve_units::{Lba, LeafIndex, VolumeId};

    /// What is reckoned of carried sizes is what the format measures of the records themselves.
    #[test]
    fn sectors_are_those_of_the_measured_batch() {
        let volume = VolumeId(1);
        let leaf = Record::Leaf {
            volume,
            leaf: LeafIndex(3),
            through: Lsn(9),
            crc: 5,
        };
        let records: Vec<Record> = (1..60)
            .map(|count| Record::Put {
                volume,
                lba: Lba(7),
                class: 0,
                crcs: (0..count).collect::<Crcs>(),
            })
            .chain([leaf.clone(), leaf])
            .collect();
        let start = BatchStart {
            epoch: 1,
            lane: LaneId(0),
            sequence: 2,
            address: 64,
            chunk_sequence: 0,
            durable_through: Lsn(0),
            first_lsn: Lsn(1),
        };
        for lba_bytes in [512, 4096] {
            for count in 1..=records.len() {
                let records = &records[..count];
                let sizes = records.iter().map(RecordSize::of);
                let size = sizes.fold(RecordSize::default(), RecordSize::plus);
                let head = BatchHead::measure(&start, records, lba_bytes);
                let lba_sectors = u64::from(lba_bytes) / SECTOR_BYTES;
                let sectors = sectors_of(&size, lba_sectors);
                assert_eq!(sectors * SECTOR_BYTES, head.batch_bytes());
            }
        }
    }

    /// A queue knows what is left in it, whether a batch took a part or all; what it took is in order.
    #[test]
    fn a_queue_gives_its_head() {
        let record = |lba: u64| Record::Put {
            volume: VolumeId(1),
            lba: Lba(lba),
            class: 0,
            crcs: (0..=lba as u32).collect::<Crcs>(),
        };
        let load = |joins_next| Load {
            joins_next,
            ..Load::new(None, Sectors::zeroed(0), None)
        };
        let sizes = |lbas: core::ops::Range<u64>| {
            let sizes = lbas.map(|lba| RecordSize::of(&record(lba)));
            sizes.fold(RecordSize::default(), RecordSize::plus)
        };
        let mut queue = Queue::default();
        (0..5).for_each(|lba| queue.push(record(lba), load(false)));
        let mut contents = Contents::default();
        queue.take(2, &mut contents);
        assert_eq!((queue.len(), queue.size()), (3, sizes(2..5)));
        (5..7).for_each(|lba| queue.push(record(lba), load(lba == 6)));
        assert!(queue.is_open());
        queue.take(5, &mut contents);
        assert_eq!(contents.0, (0..7).map(record).collect::<Vec<_>>());
        assert_eq!(contents.1.len(), 7);
        queue.push(record(7), load(false));
        let mut whole = Contents::default();
        queue.take(1, &mut whole);
        assert!(queue.is_empty() && queue.size() == RecordSize::default());
        assert_eq!(whole.0, [record(7)]);
    }
}
