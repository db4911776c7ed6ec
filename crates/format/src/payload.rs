//! Where the payload of each record of a batch lies.

use crate::batch::BatchHead;
use crate::record::Record;
use varve_units::{BLOCK, SECTOR};

/// Places of one record's payload. A place means something only if the record has such a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadPlace {
    /// Index of the record in the batch.
    pub record: usize,
    /// Fast-tier sector of its first data block; the others follow, 8 sectors each.
    pub data_sector: u64,
    /// Fast-tier sector where its metadata payload starts.
    pub meta_sector: u64,
}

/// The payload places of a batch, record by record.
#[derive(Clone, Debug)]
pub struct PayloadLayout<'a> {
    records: &'a [Record],
    next: PayloadPlace,
}

impl<'a> PayloadLayout<'a> {
    /// The places of `records` in the batch `head`.
    #[must_use]
    pub fn new(head: &BatchHead, records: &'a [Record]) -> Self {
        let data_sector = head.address + sectors(head.header_bytes as usize);
        let meta_sector = data_sector + sectors(head.data_blocks as usize * BLOCK);
        let next = PayloadPlace {
            record: 0,
            data_sector,
            meta_sector,
        };
        Self { records, next }
    }
}

impl Iterator for PayloadLayout<'_> {
    type Item = PayloadPlace;

    fn next(&mut self) -> Option<PayloadPlace> {
        let place = self.next;
        let record = self.records.get(place.record)?;
        self.next = PayloadPlace {
            record: place.record + 1,
            data_sector: place.data_sector + sectors(record.data_blocks() * BLOCK),
            meta_sector: place.meta_sector + sectors(record.meta_bytes()),
        };
        Some(place)
    }
}

/// Sectors that hold `bytes`.
fn sectors(bytes: usize) -> u64 {
    bytes.div_ceil(SECTOR) as u64
}
