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

impl PayloadPlace {
    /// That of the first record of the batch `head`.
    pub(crate) fn first(head: &BatchHead) -> Self {
        let data_sector = head.address + sectors(head.header_bytes as usize);
        Self {
            record: 0,
            data_sector,
            meta_sector: data_sector + sectors(head.data_blocks as usize * BLOCK),
        }
    }

    /// That of the record behind the one whose place this is.
    #[inline]
    pub(crate) fn behind(self, record: &Record) -> Self {
        Self {
            record: self.record + 1,
            data_sector: self.data_sector + sectors(record.data_blocks() * BLOCK),
            meta_sector: self.meta_sector + sectors(record.meta_bytes()),
        }
    }

    /// That of the record behind one with so many data blocks and no metadata.
    #[inline]
    pub(crate) const fn behind_blocks(self, blocks: usize) -> Self {
        Self {
            record: self.record + 1,
            data_sector: self.data_sector + (blocks * (BLOCK / SECTOR)) as u64,
            ..self
        }
    }
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
        let next = PayloadPlace::first(head);
        Self { records, next }
    }
}

impl Iterator for PayloadLayout<'_> {
    type Item = PayloadPlace;

    fn next(&mut self) -> Option<PayloadPlace> {
        let place = self.next;
        let record = self.records.get(place.record)?;
        self.next = place.behind(record);
        Some(place)
    }
}

/// Sectors that hold `bytes`.
fn sectors(bytes: usize) -> u64 {
    bytes.div_ceil(SECTOR) as u64
}
