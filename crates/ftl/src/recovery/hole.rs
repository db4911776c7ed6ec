//! Batches that are on no copy although a later one says that they had been flushed.
//!
//! A lane may have gone on for long before it said so: what was flushed is noted in the next batch that is
//! written. All that lies behind a hole is looked through, in later chunks too.

use super::scan::Scan;
use super::walk::{Expect, read_batch};
use alloc::vec::Vec;
use varve_format::{BatchHead, ChunkHeader};
use varve_io::Drive;
use varve_units::{Lsn, SECTOR_BYTES};

/// A chunk: its number and header.
pub(super) type Chunk = (u32, ChunkHeader);
/// Where a batch lies: the chunk, and the fast-tier sector.
pub(super) type Place = (Chunk, u64);

/// Where a batch was looked for and is not.
pub(super) struct Hole {
    /// Where it would lie, if its chunk is known.
    pub(super) at: Option<Place>,
    /// Chunks that its lane opened behind that one, in order.
    pub(super) later: Vec<Chunk>,
    /// Number of the batch.
    pub(super) batch: u64,
    /// The last LSN before it.
    pub(super) last: Lsn,
}

impl Hole {
    /// The first batch behind the hole. `None` if nothing says that what is missing had been flushed: the
    /// lane ends here then.
    pub(super) async fn end(self, fast: &dyn Drive, scan: &Scan) -> Option<(Place, BatchHead)> {
        let (mut at, mut later, mut next) = (self.at, &*self.later, self.batch + 1);
        let mut end = None;
        loop {
            let found = match at {
                Some(place) => seek_behind(fast, scan, place, next).await,
                None => None,
            };
            let Some((place, head)) = found else {
                let (chunk, rest) = later.split_first()?;
                at = Some((*chunk, scan.first_sector(chunk.0)));
                later = rest;
                continue;
            };
            let end = *end.get_or_insert((place, head));
            if head.durable_through > self.last {
                return Some(end);
            }
            at = Some((place.0, place.1 + head.batch_bytes() / SECTOR_BYTES));
            next = head.sequence + 1;
        }
    }
}

/// The first batch of a chunk at or behind a place, of this number or a later one. One batch that is lost
/// is looked beyond, whatever its length.
async fn seek_behind(
    fast: &dyn Drive,
    scan: &Scan,
    (chunk, from): Place,
    next: u64,
) -> Option<(Place, BatchHead)> {
    let unit = u64::from(scan.geometry.lba_bytes) / SECTOR_BYTES;
    let end = scan.geometry.chunk_start(chunk.0) + scan.geometry.chunk_sectors();
    let window = (scan.window_bytes / SECTOR_BYTES).max(unit);
    for sector in (from..end.min(from + window)).step_by(unit as usize) {
        let expect = Expect::of(scan, &chunk.1, None, sector);
        match read_batch(fast, &scan.geometry, &expect).await {
            Some((head, _)) if head.sequence >= next => return Some(((chunk, sector), head)),
            _ => {}
        }
    }
    None
}
