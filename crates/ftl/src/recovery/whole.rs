//! A batch with all its payloads, put together from whatever copies hold them.
//!
//! Each block and each metadata payload has its own checksum: a batch is whole if every one of them
//! is on some copy, not only if one copy has all.

use super::gap::Gaps;
use super::scan::Scan;
use super::walk::Found;
use crate::geometry::BLOCK_SECTORS;
use crate::map::LeafKey;
use crate::merge::leaf_crc;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_format::{BatchHead, PayloadLayout, Record, batch, block_crc, crc32c};
use varve_io::{BlockRef, Blocks, Drive, Gather, Sectors, Segment};
use varve_units::SECTOR_BYTES;

/// Why a batch is not whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    /// A copy was read and does not hold a payload: the batch was never written to its end.
    Torn,
    /// No copy of a payload could be read.
    Unreadable,
}

/// What a batch's header says of its payloads.
struct Payloads<'a> {
    head: &'a BatchHead,
    records: &'a [Record],
    /// Fast-tier sector of the first data block, and of the metadata.
    data_start: u64,
    meta_start: u64,
    /// Fast-tier LBA in sectors: what is read and written at least.
    unit: u64,
    /// Gaps that stand for a part of it.
    gaps: Gaps,
}

/// Reads a batch to be written to all copies.
pub(super) async fn whole_batch(
    fast: &dyn Drive,
    scan: &Scan,
    found: &Found,
) -> Result<Gather, Broken> {
    let head = &found.head;
    let data_start = head.address + u64::from(head.header_bytes) / SECTOR_BYTES;
    let records = found.records.as_deref();
    let records = records.expect("the records of what may be torn are kept");
    let payloads = Payloads {
        head,
        records,
        data_start,
        meta_start: data_start + u64::from(head.data_blocks) * BLOCK_SECTORS,
        unit: u64::from(scan.geometry.lba_bytes) / SECTOR_BYTES,
        gaps: Gaps {
            pool: scan.identity.pool,
            since: head.first_lsn,
        },
    };
    let data = payloads.read_data(fast, scan.elided).await?;
    let meta = payloads.read_meta(fast).await?;
    let mut gather = Gather::new();
    if let Some(header) = &found.header {
        gather.push_meta(header.encode_twice());
    }
    gather.push_meta(batch::encode(
        &head.start(),
        records,
        scan.geometry.lba_bytes,
    ));
    if !data.is_empty() {
        gather.push(Segment::Data(Rc::new(data), 0..head.data_blocks as usize));
    }
    if !meta.is_empty() {
        gather.push_meta(meta);
    }
    Ok(gather)
}

impl Payloads<'_> {
    /// Checksums of the data blocks, in order.
    fn block_crcs(&self) -> Vec<u32> {
        let mut all = Vec::with_capacity(self.head.data_blocks as usize);
        for record in self.records {
            match record {
                Record::Put { crcs, .. } => all.extend_from_slice(crcs.as_slice()),
                Record::Keep { items, .. } => all.extend(items.iter().map(|item| item.crc)),
                _ => {}
            }
        }
        all
    }

    async fn read_data(&self, fast: &dyn Drive, elided: bool) -> Result<Blocks, Broken> {
        let crcs = self.block_crcs();
        let count = self.head.data_blocks as usize;
        assert_eq!(crcs.len(), count, "the decoder compares records and blocks");
        let mut all = Blocks::new(count, elided);
        let mut missing: Vec<usize> = (0..count).collect();
        for copy in 0..fast.info().copies {
            if missing.is_empty() {
                break;
            }
            let offset = self.data_start * SECTOR_BYTES;
            let read = fast.read_data(offset, Blocks::new(count, elided), copy);
            let Ok(blocks) = read.await else { continue };
            missing.retain(|&index| {
                let is_good = block_crc(blocks.block(index)) == crcs[index];
                if is_good {
                    all.copy_from(index, &blocks, index, 1);
                }
                !is_good
            });
        }
        for index in missing {
            let block = self.read_block(fast, index, crcs[index], elided).await?;
            all.copy_from(index, &block, 0, 1);
        }
        Ok(all)
    }

    /// One block by itself: a neighbour may be all that cannot be read.
    async fn read_block(
        &self,
        fast: &dyn Drive,
        index: usize,
        crc: u32,
        elided: bool,
    ) -> Result<Blocks, Broken> {
        let sector = self.data_start + index as u64 * BLOCK_SECTORS;
        let offset = sector * SECTOR_BYTES;
        let is_gap = |block: BlockRef<'_>| match block {
            BlockRef::Bytes(bytes) => self.gaps.has_any(bytes, sector),
            BlockRef::Symbol(_) => false,
        };
        let mut broken = Broken::Unreadable;
        for copy in 0..fast.info().copies {
            match fast.read_data(offset, Blocks::new(1, elided), copy).await {
                Ok(block) if block_crc(block.block(0)) == crc => return Ok(block),
                Ok(block) if is_gap(block.block(0)) => {}
                Ok(_) => broken = Broken::Torn,
                Err(_) => {}
            }
        }
        Err(broken)
    }

    async fn read_meta(&self, fast: &dyn Drive) -> Result<Sectors, Broken> {
        let head = self.head;
        let mut all = Sectors::zeroed((u64::from(head.meta_bytes) / SECTOR_BYTES) as usize);
        for at in PayloadLayout::new(head, self.records) {
            let record = &self.records[at.record];
            let bytes = record.meta_bytes();
            if bytes == 0 {
                continue;
            }
            let first = at.meta_sector - self.meta_start;
            let range = first * SECTOR_BYTES..first * SECTOR_BYTES + bytes as u64;
            let range = range.start as usize..range.end as usize;
            let payload = self.read_payload(fast, record, range.clone()).await?;
            all.bytes_mut()[range].copy_from_slice(&payload);
        }
        Ok(all)
    }

    /// The metadata payload of one record; `range` is its place behind the data, in bytes.
    async fn read_payload(
        &self,
        fast: &dyn Drive,
        record: &Record,
        range: Range<usize>,
    ) -> Result<Vec<u8>, Broken> {
        let first = self.meta_start + range.start as u64 / SECTOR_BYTES;
        let start = first / self.unit * self.unit;
        let end = (first + (range.len() as u64).div_ceil(SECTOR_BYTES)).next_multiple_of(self.unit);
        let mut broken = Broken::Unreadable;
        for copy in 0..fast.info().copies {
            let into = Sectors::zeroed((end - start) as usize);
            let read = fast.read_meta(start * SECTOR_BYTES, into, copy).await;
            let Ok(sectors) = read else { continue };
            let from = ((first - start) * SECTOR_BYTES) as usize;
            let payload = &sectors.bytes()[from..from + range.len()];
            if meta_passes(record, payload) {
                return Ok(payload.to_vec());
            }
            if !self.gaps.has_any(sectors.bytes(), start) {
                broken = Broken::Torn;
            }
        }
        Err(broken)
    }
}

/// True if a metadata payload has the checksum its record gives.
fn meta_passes(record: &Record, payload: &[u8]) -> bool {
    match record {
        Record::Leaf {
            volume,
            leaf,
            through,
            crc,
        } => {
            let key = LeafKey {
                volume: *volume,
                leaf: *leaf,
            };
            leaf_crc(key, *through, payload) == *crc
        }
        Record::Part { crc, .. } | Record::Commit { crc, .. } => crc32c(payload) == *crc,
        Record::Put { .. }
        | Record::Keep { .. }
        | Record::External { .. }
        | Record::Move { .. }
        | Record::Discard { .. }
        | Record::Catalogue { .. } => true,
    }
}
