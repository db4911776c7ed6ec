//! What a closed chunk holds, read back from its headers.
//!
//! **Invariant**: a header counts only if it belongs to the chunk's present use. A write that one
//! copy lost leaves there what an earlier use wrote, with a valid checksum and at its own address.

use crate::geometry::{CHUNK_HEAD_SECTORS, UnitId};
use crate::recovery::{Expect, read_batch};
use crate::shared::Shared;
use alloc::vec::Vec;
use varve_format::{BatchHead, ChunkHeader, Record};
use varve_io::Sectors;
use varve_units::SECTOR_BYTES;

impl Shared {
    /// All batches of a closed chunk, by whichever copy holds each. `None` if one is on no copy,
    /// or if they do not end where the chunk does: then some live bit may belong to no record.
    pub(crate) async fn read_records(&self, chunk: u32) -> Option<Vec<(BatchHead, Vec<Record>)>> {
        let geometry = *self.units.geometry();
        let start = geometry.chunk_start(chunk);
        let end = start + u64::from(self.units.unit(UnitId::chunk(chunk)).write_pointer());
        let mut sector = start + CHUNK_HEAD_SECTORS;
        let mut batches = Vec::new();
        if end <= sector {
            return Some(batches);
        }
        let header = self.read_chunk_header(chunk).await?;
        let tag = self.identity.tag(header.epoch);
        let mut sequence = header.first_batch;
        while sector < end {
            let expect = Expect::new(Some(tag), &header, Some(sequence), sector);
            let (head, records) = read_batch(&*self.fast, &geometry, &expect).await?;
            sector += head.batch_bytes() / SECTOR_BYTES;
            sequence += 1;
            batches.push((head, records));
        }
        (sector == end).then_some(batches)
    }

    /// The header of a chunk's present use.
    async fn read_chunk_header(&self, chunk: u32) -> Option<ChunkHeader> {
        let address = self.units.geometry().chunk_start(chunk);
        let unit = self.units.unit(UnitId::chunk(chunk));
        for copy in 0..self.fast.info().copies {
            let into = Sectors::zeroed(CHUNK_HEAD_SECTORS as usize);
            let read = self
                .fast
                .read_meta(address * SECTOR_BYTES, into, copy)
                .await;
            let Ok(sectors) = read else { continue };
            let mut headers =
                ChunkHeader::decode_each(sectors.bytes(), &self.identity.pool, address);
            let present = headers.find(|header| {
                header.generation == unit.generation() && header.stamp == unit.stamp()
            });
            if present.is_some() {
                return present;
            }
        }
        None
    }
}
