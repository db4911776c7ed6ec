//! One batch in the making: where it goes, how large it is, where each payload lies.
//!
//! **Not here**: what is gathered and in which order it is acknowledged (`lane`).

use crate::geometry::{BLOCK_SECTORS, CHUNK_HEAD_SECTORS};
use crate::lane::{Appended, ChunkGrant, Load};
use crate::shared::Identity;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{BATCH_HEAD_BYTES, BatchHead, ChunkHeader, Record};
use varve_io::{Gather, Sectors, Segment};
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

    /// The chunk's header, to be written with its first batch.
    pub(crate) fn header(&self, identity: Identity, lane: LaneId, lsn: Lsn, batch: u64) -> Sectors {
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
        .encode_twice()
    }
}

/// Sizes of a batch in the making.
pub(crate) struct Size {
    lba_sectors: u64,
    pub(crate) record_bytes: u64,
    pub(crate) data_blocks: u64,
    pub(crate) meta_sectors: u64,
}

impl Size {
    pub(crate) const fn empty(lba_bytes: u32) -> Self {
        Self {
            lba_sectors: lba_bytes as u64 / SECTOR_BYTES,
            record_bytes: 0,
            data_blocks: 0,
            meta_sectors: 0,
        }
    }

    pub(crate) fn of(records: &[Record], lba_bytes: u32) -> Self {
        let mut size = Self::empty(lba_bytes);
        records.iter().for_each(|record| size.add(record));
        size
    }

    pub(crate) fn add(&mut self, record: &Record) {
        self.record_bytes += record.encoded_bytes() as u64;
        self.data_blocks += record.data_blocks() as u64;
        self.meta_sectors += (record.meta_bytes() as u64).div_ceil(SECTOR_BYTES);
    }

    pub(crate) const fn sectors(&self) -> u64 {
        let header = (BATCH_HEAD_BYTES as u64 + self.record_bytes).div_ceil(SECTOR_BYTES);
        header.next_multiple_of(self.lba_sectors)
            + self.data_blocks * BLOCK_SECTORS
            + self.meta_sectors.next_multiple_of(self.lba_sectors)
    }
}

/// Gives every record its places and adds its payload to the gather (layout: ADR 4).
pub(crate) fn place(
    loads: Vec<Load>,
    head: &BatchHead,
    gather: &mut Gather,
) -> Vec<(Load, Appended)> {
    let mut data = head.address + u64::from(head.header_bytes) / SECTOR_BYTES;
    let mut meta = data + u64::from(head.data_blocks) * BLOCK_SECTORS;
    let meta_end = meta + u64::from(head.meta_bytes) / SECTOR_BYTES;
    for load in &loads {
        if let Some((blocks, range)) = &load.data {
            gather.push(Segment::Data(Rc::clone(blocks), range.clone()));
        }
    }
    let mut placed = Vec::with_capacity(loads.len());
    for (index, load) in loads.into_iter().enumerate() {
        let appended = Appended {
            lsn: head.first_lsn.plus(index as u64),
            data_sector: data,
            meta_sector: meta,
            batch_sector: head.address,
        };
        data += load.data_blocks() * BLOCK_SECTORS;
        meta += load.meta_sectors();
        if let Some(sectors) = &load.meta {
            gather.push(Segment::Meta(Rc::clone(sectors)));
        }
        placed.push((load, appended));
    }
    assert!(
        meta <= meta_end,
        "payloads are as long as their records say"
    );
    if meta < meta_end {
        gather.push_meta(Sectors::zeroed((meta_end - meta) as usize));
    }
    placed
}
