//! What a closed chunk holds, read back from its headers.
//!
//! **Invariant**: a header counts only if it belongs to the chunk's present use. A write that one
//! copy lost leaves there what an earlier use wrote, with a valid checksum and at its own address.

use crate::geometry::{CHUNK_HEAD_SECTORS, UnitId};
use crate::recovery::{Expect, Sought, seek_decoded};
use crate::shared::Shared;
use crate::ways::Ways;
use varve_format::{BatchHead, Brought, ChunkHeader, batch};
use varve_io::Sectors;
use varve_units::SECTOR_BYTES;

/// Why a chunk's batches are not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unknown {
    /// One of them is on no copy, or they do not end where the chunk does.
    Lost,
    /// A copy may answer another time.
    Away,
}

impl Unknown {
    /// What all ways to read something came to.
    pub(crate) const fn of(ways: Ways) -> Self {
        match ways.away() {
            Some(_) => Self::Away,
            None => Self::Lost,
        }
    }
}

impl Shared {
    /// What all batches of a closed chunk brought, by whichever copy holds each.
    ///
    /// # Errors
    /// [`Unknown::Lost`]: some live bit may belong to no record.
    pub(crate) async fn read_brought(&self, chunk: u32) -> Result<Brought, Unknown> {
        let geometry = *self.units.geometry();
        let start = geometry.chunk_start(chunk);
        let end = start + u64::from(self.units.unit(UnitId::chunk(chunk)).write_pointer());
        let mut sector = start + CHUNK_HEAD_SECTORS;
        let mut brought = Brought::default();
        if end <= sector {
            return Ok(brought);
        }
        let header = self.read_chunk_header(chunk).await?;
        let tag = self.identity.tag(header.epoch);
        let mut sequence = header.first_batch;
        while sector < end {
            let expect = Expect::new(Some(tag), &header, Some(sequence), sector);
            let head = self.read_closed_batch(&expect, &mut brought).await?;
            sector += head.batch_bytes() / SECTOR_BYTES;
            sequence += 1;
        }
        if sector == end {
            Ok(brought)
        } else {
            Err(Unknown::Lost)
        }
    }

    /// Reads a batch, and adds what it brought.
    async fn read_closed_batch(
        &self,
        expect: &Expect,
        brought: &mut Brought,
    ) -> Result<BatchHead, Unknown> {
        let geometry = self.units.geometry();
        let before = brought.len();
        // Of a copy that turns out to be something else nothing is left.
        let mut decode = |bytes: &[u8]| {
            brought.truncate(before);
            batch::decode_brought(bytes, brought).map(|head| (head, ()))
        };
        let mut ways = Ways::default();
        loop {
            let sought = seek_decoded(&*self.fast, geometry, expect, &mut ways, &mut decode).await;
            if let Sought::Found(head, ()) = sought {
                return Ok(head);
            }
            if !ways.tries_again() {
                return Err(Unknown::of(ways));
            }
        }
    }

    /// The header of a chunk's present use.
    pub(crate) async fn read_chunk_header(&self, chunk: u32) -> Result<ChunkHeader, Unknown> {
        let address = self.units.geometry().chunk_start(chunk);
        let unit = self.units.unit(UnitId::chunk(chunk));
        let mut ways = Ways::default();
        loop {
            for copy in 0..self.fast.info().copies {
                let into = Sectors::zeroed(CHUNK_HEAD_SECTORS as usize);
                let read = self.fast.read_meta(address * SECTOR_BYTES, into, copy);
                let sectors = match read.await {
                    Ok(sectors) => sectors,
                    Err(error) => {
                        ways.note_error(error);
                        continue;
                    }
                };
                let mut headers =
                    ChunkHeader::decode_each(sectors.bytes(), &self.identity.pool, address);
                let present = headers.find(|header| {
                    header.generation == unit.generation() && header.stamp == unit.stamp()
                });
                if let Some(present) = present {
                    return Ok(present);
                }
                ways.note_mismatch();
            }
            if !ways.tries_again() {
                return Err(Unknown::of(ways));
            }
        }
    }
}
