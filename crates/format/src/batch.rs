//! The header of a batch: what one write of a lane commits.
//!
//! ```text
//! | head 64 | records ... | zeroes || data blocks in record order || metadata payloads | zeroes |
//! |<---- header, whole LBAs ------>|                                each starts on a sector
//! ```
//!
//! **Invariants**: one CRC-32C covers the whole header, padding included. The blocks are covered
//! by the checksums in the records.
//!
//! **Not here**: where each payload lies (`payload`), what a lane does with a bad batch (`ftl`).

use crate::brought::Brought;
use crate::error::DecodeError;
use crate::media::{
    U40, U56, VERSION, check_crc, check_equal, check_magic, check_range, check_zero, media, prefix,
    seal, truncated,
};
use crate::payload::PayloadPlace;
use crate::record::{RECORD_HEAD_BYTES, Record};
use crate::record_decode::{check_move, inline_put};
use crate::record_raw::RecordSize;
use alloc::vec::Vec;
use varve_io::{Sectors, Supply};
use varve_units::{BLOCK, BLOCK_BYTES, LaneId, Lsn, SECTOR, SECTOR_BYTES};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// Bytes of the encoded head.
pub const BATCH_HEAD_BYTES: usize = 64;
/// Records of one batch. Arbitrary: bounds what a decoder allocates.
pub const BATCH_RECORDS_MAX: usize = 4096;
/// Bytes of one batch header, padded. Arbitrary: bounds what a start reads before it can judge.
pub const BATCH_HEADER_BYTES_MAX: usize = 1 << 20;
/// Data blocks of one batch: each takes at least the 4 bytes of its checksum in the header.
pub const BATCH_DATA_BLOCKS_MAX: usize = BATCH_HEADER_BYTES_MAX / 4;
/// Metadata payload of one batch, padded. Arbitrary: 256 checkpoint parts of the largest size.
pub const BATCH_META_BYTES_MAX: usize = 64 << 20;

pub(crate) const MAGIC: [u8; 4] = *b"VBAT";
const STRUCTURE: &str = "BatchHead";

media! {
    /// A [`BatchHead`] on media; sizes in sectors and short LSNs keep it at 64 bytes.
    struct BatchHeadRaw: 64 {
        magic: [u8; 4],
        version: U16,
        lane: U16,
        crc: U32,
        epoch: U32,
        sequence: U64,
        chunk_sequence: U64,
        durable_through: U56,
        first_lsn: U56,
        records: U16,
        header_sectors: U16,
        address_sector: U40,
        reserved: [u8; 1],
        data_blocks: U32,
        meta_sectors: U32,
    }
}

/// What the writer of a batch knows besides its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchStart {
    /// Epoch of the pool.
    pub epoch: u32,
    /// The lane.
    pub lane: LaneId,
    /// Number of the batch in the lane; counts over chunks.
    pub sequence: u64,
    /// Fast-tier sector of the batch's first sector, below 2^40.
    pub address: u64,
    /// Sequence of the chunk it lies in.
    pub chunk_sequence: u64,
    /// Every record of the lane up to here was flushed when this batch was built.
    pub durable_through: Lsn,
    /// LSN of the first record.
    pub first_lsn: Lsn,
}

/// Head of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHead {
    /// Epoch of the pool.
    pub epoch: u32,
    /// The lane.
    pub lane: LaneId,
    /// Number of the batch in the lane; counts over chunks.
    pub sequence: u64,
    /// Fast-tier sector of the batch's first sector, below 2^40.
    pub address: u64,
    /// Sequence of the chunk it lies in.
    pub chunk_sequence: u64,
    /// Every record of the lane up to here was flushed when this batch was built.
    pub durable_through: Lsn,
    /// LSN of record 0; record `i` has `first_lsn + i`.
    pub first_lsn: Lsn,
    /// Number of records, 1 to [`BATCH_RECORDS_MAX`].
    pub records: u32,
    /// Bytes of the header with its padding.
    pub header_bytes: u32,
    /// Data blocks.
    pub data_blocks: u32,
    /// Bytes of metadata payload with all padding.
    pub meta_bytes: u32,
}

impl BatchHead {
    /// What it was made from.
    #[must_use]
    pub const fn start(&self) -> BatchStart {
        BatchStart {
            epoch: self.epoch,
            lane: self.lane,
            sequence: self.sequence,
            address: self.address,
            chunk_sequence: self.chunk_sequence,
            durable_through: self.durable_through,
            first_lsn: self.first_lsn,
        }
    }

    /// The head of a batch of `records` on a tier with LBAs of `lba_bytes`; encodes nothing.
    ///
    /// # Panics
    /// If `lba_bytes` is not 512 or 4096, or the batch breaks a limit of this module.
    #[must_use]
    pub fn measure(start: &BatchStart, records: &[Record], lba_bytes: u32) -> Self {
        let sizes = records.iter().map(RecordSize::of);
        let size = sizes.fold(RecordSize::default(), RecordSize::plus);
        Self::of_size(start, records.len(), &size, lba_bytes)
    }

    /// [`BatchHead::measure`] of so many records that together take `size`.
    ///
    /// # Panics
    /// As [`BatchHead::measure`].
    #[must_use]
    pub fn of_size(start: &BatchStart, records: usize, size: &RecordSize, lba_bytes: u32) -> Self {
        assert!(matches!(lba_bytes, 512 | 4096), "LBA of 512 or 4096 bytes");
        let lba = lba_bytes as usize;
        let (header, meta) = (BATCH_HEAD_BYTES + size.bytes, size.meta_sectors * SECTOR);
        let head = Self {
            epoch: start.epoch,
            lane: start.lane,
            sequence: start.sequence,
            address: start.address,
            chunk_sequence: start.chunk_sequence,
            durable_through: start.durable_through,
            first_lsn: start.first_lsn,
            records: size32(records),
            header_bytes: size32(header.next_multiple_of(lba)),
            data_blocks: size32(size.data_blocks),
            meta_bytes: size32(meta.next_multiple_of(lba)),
        };
        assert!(head.check().is_ok(), "batch breaks its limits");
        head
    }

    /// The header of the batch of `records`, which this head was measured of, padded to whole LBAs and
    /// sealed, in memory of that supply.
    ///
    /// # Panics
    /// If a record breaks a limit, or it is the head of other records.
    #[must_use]
    pub fn encode(&self, records: &[Record], supply: Supply) -> Sectors {
        assert_eq!(records.len(), self.records as usize, "records of the batch");
        supply.filled(self.header_bytes as usize / SECTOR, |bytes| {
            let (first, mut rest) = bytes.split_at_mut(BATCH_HEAD_BYTES);
            first.copy_from_slice(self.raw().as_bytes());
            for record in records {
                let written = record.encode(rest);
                rest = &mut rest[written..];
            }
            assert!(rest.len() < BLOCK, "records of the batch");
            rest.fill(0);
            seal(bytes);
        })
    }

    /// Bytes of the whole batch: header, data, metadata.
    #[must_use]
    pub const fn batch_bytes(&self) -> u64 {
        self.header_bytes as u64 + self.data_blocks as u64 * BLOCK_BYTES + self.meta_bytes as u64
    }

    /// LSN of the last record.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        self.first_lsn.plus(u64::from(self.records) - 1)
    }

    /// LSN of record `index`.
    #[must_use]
    pub fn lsn(&self, index: usize) -> Lsn {
        self.first_lsn.plus(index as u64)
    }

    fn raw(&self) -> BatchHeadRaw {
        let records = u16::try_from(self.records).expect("records were checked");
        let sectors = self.header_bytes / SECTOR as u32;
        let sectors = u16::try_from(sectors).expect("header bytes were checked");
        BatchHeadRaw {
            magic: MAGIC,
            version: VERSION.into(),
            lane: self.lane.0.into(),
            crc: U32::ZERO,
            epoch: self.epoch.into(),
            sequence: self.sequence.into(),
            chunk_sequence: self.chunk_sequence.into(),
            durable_through: U56::new(self.durable_through),
            first_lsn: U56::new(self.first_lsn),
            records: records.into(),
            header_sectors: sectors.into(),
            address_sector: U40::new(self.address),
            reserved: [0],
            data_blocks: self.data_blocks.into(),
            meta_sectors: (self.meta_bytes / SECTOR as u32).into(),
        }
    }

    fn check(&self) -> Result<(), DecodeError> {
        let in_limit = |value: u32, max: usize, field: &'static str| {
            check_range(value as usize <= max, field, u64::from(value))
        };
        check_range(self.records > 0, "records", 0)?;
        in_limit(self.records, BATCH_RECORDS_MAX, "records")?;
        in_limit(self.header_bytes, BATCH_HEADER_BYTES_MAX, "header bytes")?;
        in_limit(self.data_blocks, BATCH_DATA_BLOCKS_MAX, "data blocks")?;
        in_limit(self.meta_bytes, BATCH_META_BYTES_MAX, "metadata bytes")?;
        let least = BATCH_HEAD_BYTES + self.records as usize * RECORD_HEAD_BYTES;
        let header = self.header_bytes as usize;
        check_range(header >= least, "header bytes", header as u64)?;
        check_range(self.address < 1 << 40, "address", self.address)?;
        let room = Lsn::MAX.0 - u64::from(self.records);
        check_range(self.first_lsn.0 <= room, "first lsn", self.first_lsn.0)?;
        let durable = self.durable_through;
        check_range(durable <= Lsn::MAX, "durable through", durable.0)
    }
}

/// The header of a batch, padded to whole LBAs of `lba_bytes` and sealed; one allocation.
///
/// # Panics
/// If `lba_bytes` is not 512 or 4096, or the batch or a record breaks a limit.
#[must_use]
pub fn encode(start: &BatchStart, records: &[Record], lba_bytes: u32) -> Sectors {
    BatchHead::measure(start, records, lba_bytes).encode(records, Supply::default())
}

/// The head in the first sector of a batch, judged without the rest: not its checksum.
///
/// # Errors
/// [`DecodeError`] if this cannot be a batch's first sector.
pub fn decode_head(first_sector: &[u8]) -> Result<BatchHead, DecodeError> {
    check_magic(first_sector, MAGIC, STRUCTURE)?;
    let (raw, _) = prefix::<BatchHeadRaw>(first_sector, STRUCTURE)?;
    check_zero(&raw.reserved, STRUCTURE)?;
    let sector = SECTOR as u32;
    let meta_bytes = raw.meta_sectors.get().checked_mul(sector);
    let head = BatchHead {
        epoch: raw.epoch.get(),
        lane: LaneId(raw.lane.get()),
        sequence: raw.sequence.get(),
        address: raw.address_sector.get(),
        chunk_sequence: raw.chunk_sequence.get(),
        durable_through: raw.durable_through.get(),
        first_lsn: raw.first_lsn.get(),
        records: raw.records.get().into(),
        header_bytes: u32::from(raw.header_sectors.get()) * sector,
        data_blocks: raw.data_blocks.get(),
        meta_bytes: meta_bytes.unwrap_or(u32::MAX),
    };
    head.check()?;
    Ok(head)
}

/// Head and records of a batch from its whole header; what follows the header is not looked at.
///
/// # Errors
/// [`DecodeError`] if the header is truncated, its checksum differs, or it contradicts itself.
pub fn decode(bytes: &[u8]) -> Result<(BatchHead, Vec<Record>), DecodeError> {
    let (head, records) = open(bytes)?;
    let mut found = Vec::with_capacity(head.records as usize);
    let (mut rest, mut place) = (records, PayloadPlace::first(&head));
    for _ in 0..head.records {
        let (record, size) = Record::decode(rest)?;
        rest = &rest[size..];
        place = place.behind(&record);
        found.push(record);
    }
    check_end(&head, records.len() - rest.len(), rest, place)?;
    Ok((head, found))
}

/// The head of a batch from its whole header, and what its records brought, added to `into`. All records are
/// checked as [`decode`] does; after an error what was added is of no worth.
///
/// # Errors
/// As [`decode`].
pub fn decode_brought(bytes: &[u8], into: &mut Brought) -> Result<BatchHead, DecodeError> {
    let (head, records) = open(bytes)?;
    let (mut rest, mut place) = (records, PayloadPlace::first(&head));
    for _ in 0..head.records {
        // The two kinds that nearly all records are of.
        let size = if let Some((put, size)) = inline_put(rest)? {
            into.add_put(&put, head.lsn(place.record), place.data_sector);
            place = place.behind_blocks(put.crcs.len());
            size
        } else if let Some(size) = check_move(rest)? {
            place = place.behind_blocks(0);
            size
        } else {
            let (record, size) = Record::decode(rest)?;
            into.add(&record, place.data_sector, place.meta_sector);
            place = place.behind(&record);
            size
        };
        rest = &rest[size..];
    }
    check_end(&head, records.len() - rest.len(), rest, place)?;
    Ok(head)
}

/// Head of a batch, and the rest of its header, whose checksum holds.
fn open(bytes: &[u8]) -> Result<(BatchHead, &[u8]), DecodeError> {
    let head = decode_head(bytes)?;
    let header_bytes = head.header_bytes as usize;
    let header = bytes
        .get(..header_bytes)
        .ok_or_else(|| truncated(STRUCTURE, header_bytes, bytes.len()))?;
    check_crc(header, STRUCTURE)?;
    Ok((head, &header[BATCH_HEAD_BYTES..]))
}

/// Checks what is left of a header behind `bytes` of records, and that the head says as much payload as
/// they do: behind the last of them is the place `end`.
fn check_end(
    head: &BatchHead,
    bytes: usize,
    rest: &[u8],
    end: PayloadPlace,
) -> Result<(), DecodeError> {
    check_zero(rest, STRUCTURE)?;
    let first = PayloadPlace::first(head);
    let data = (end.data_sector - first.data_sector) * SECTOR_BYTES / BLOCK_BYTES;
    check_equal(data, head.data_blocks.into(), "data blocks")?;
    let meta = (end.meta_sector - first.meta_sector) * SECTOR_BYTES;
    check_padding(head, BATCH_HEAD_BYTES + bytes, meta as usize)
}

/// Header and metadata must be padded to whole LBAs of one and the same size, which the decoder
/// is not told.
fn check_padding(head: &BatchHead, header: usize, meta: usize) -> Result<(), DecodeError> {
    let found = (head.header_bytes as usize, head.meta_bytes as usize);
    let padded = |lba| (header.next_multiple_of(lba), meta.next_multiple_of(lba));
    if found == padded(SECTOR) {
        return Ok(());
    }
    let (header, meta) = padded(BLOCK);
    check_equal(header as u64, found.0 as u64, "header bytes")?;
    check_equal(meta as u64, found.1 as u64, "metadata bytes")
}

fn size32(size: usize) -> u32 {
    u32::try_from(size).expect("batch breaks its limits")
}
