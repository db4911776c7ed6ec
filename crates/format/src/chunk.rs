//! The header of a chunk of the fast-tier log.
//!
//! It is written together with the chunk's first batch and names the last committed checkpoint,
//! so a start reads chunk headers only. It stands there twice, in blocks of their own: without a
//! mirror one bad block would otherwise hide a chunk with all that hosts flushed to it.

use crate::error::DecodeError;
use crate::media::{
    VERSION, check_crc, check_home, check_magic, check_range, check_zero, lsn, media, prefix, seal,
    truncated,
};
use varve_io::{Sectors, Supply};
use varve_units::{Generation, LaneId, Lsn, SECTOR};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of an encoded chunk header.
pub const CHUNK_HEADER_BYTES: usize = 4096;
/// Bytes at the start of a chunk: its header, twice.
pub const CHUNK_HEAD_BYTES: usize = 2 * CHUNK_HEADER_BYTES;

pub(crate) const MAGIC: [u8; 4] = *b"VCHK";
const STRUCTURE: &str = "ChunkHeader";

media! {
    /// A [`ChunkHeader`] on media; zeroes follow up to 4096 bytes.
    struct ChunkHeaderRaw: 112 {
        magic: [u8; 4],
        version: U16,
        lane: U16,
        crc: U32,
        epoch: U32,
        pool: [u8; 16],
        address_sector: U64,
        chunk_sequence: U64,
        stamp: U64,
        first_lsn: U64,
        first_batch: U64,
        generation: U32,
        /// 0 = no commit is named, 1 = the three fields below name one.
        commit_named: u8,
        reserved: [u8; 3],
        commit_checkpoint: U64,
        commit_sector: U64,
        commit_epoch: U32,
        reserved_end: [u8; 12],
    }
}

/// Where the commit of a checkpoint lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitPlace {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Epoch it was written in.
    pub epoch: u32,
    /// Fast-tier sector of the head of the batch that holds it.
    pub sector: u64,
}

/// Header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// Identity of the pool.
    pub pool: [u8; 16],
    /// Epoch of the pool.
    pub epoch: u32,
    /// Fast-tier sector of the chunk's first sector.
    pub address: u64,
    /// The lane that owns it.
    pub lane: LaneId,
    /// Number of the chunk within lane and epoch.
    pub chunk_sequence: u64,
    /// Generation of the chunk.
    pub generation: Generation,
    /// LSN drawn when it was opened; older references mean an earlier use of the chunk.
    pub stamp: Lsn,
    /// LSN of its first record.
    pub first_lsn: Lsn,
    /// Number of its first batch in the lane.
    pub first_batch: u64,
    /// The last checkpoint committed when it was opened.
    pub commit: Option<CommitPlace>,
}

impl ChunkHeader {
    /// The 8 sectors on media.
    ///
    /// # Panics
    /// If an LSN has more than 56 bits.
    #[must_use]
    pub fn encode(&self) -> Sectors {
        Sectors::made(CHUNK_HEADER_BYTES / SECTOR, |bytes| self.encode_into(bytes))
    }

    /// Fills `bytes` with the 8 sectors.
    fn encode_into(&self, bytes: &mut [u8]) {
        let lsns = [self.stamp, self.first_lsn];
        assert!(lsns.iter().all(|&lsn| lsn <= Lsn::MAX), "LSN of 56 bits");
        let commit = self.commit.unwrap_or(CommitPlace {
            checkpoint: 0,
            epoch: 0,
            sector: 0,
        });
        let raw = ChunkHeaderRaw {
            magic: MAGIC,
            version: VERSION.into(),
            lane: self.lane.0.into(),
            epoch: self.epoch.into(),
            pool: self.pool,
            address_sector: self.address.into(),
            chunk_sequence: self.chunk_sequence.into(),
            stamp: self.stamp.0.into(),
            first_lsn: self.first_lsn.0.into(),
            first_batch: self.first_batch.into(),
            generation: self.generation.0.into(),
            commit_named: self.commit.is_some().into(),
            commit_checkpoint: commit.checkpoint.into(),
            commit_sector: commit.sector.into(),
            commit_epoch: commit.epoch.into(),
            ..ChunkHeaderRaw::new_zeroed()
        };
        let (head, padding) = bytes.split_at_mut(size_of::<ChunkHeaderRaw>());
        head.copy_from_slice(raw.as_bytes());
        padding.fill(0);
        seal(bytes);
    }

    /// The 16 sectors that a chunk begins with.
    ///
    /// # Panics
    /// As [`ChunkHeader::encode`].
    #[must_use]
    pub fn encode_twice(&self) -> Sectors {
        self.encode_twice_in(Supply::default())
    }

    /// [`ChunkHeader::encode_twice`] in memory of that supply.
    ///
    /// # Panics
    /// As [`ChunkHeader::encode`].
    #[must_use]
    pub fn encode_twice_in(&self, supply: Supply) -> Sectors {
        supply.filled(CHUNK_HEAD_BYTES / SECTOR, |bytes| {
            let (first, second) = bytes.split_at_mut(CHUNK_HEADER_BYTES);
            self.encode_into(first);
            second.copy_from_slice(first);
        })
    }

    /// The headers in `bytes`, what a chunk at sector `address` of the pool `pool` begins with: two,
    /// or what is left of them. They differ where a write was torn.
    pub fn decode_each<'a>(
        bytes: &'a [u8],
        pool: &'a [u8; 16],
        address: u64,
    ) -> impl Iterator<Item = Self> + 'a {
        let copies = bytes.chunks_exact(CHUNK_HEADER_BYTES);
        copies.filter_map(move |copy| Self::decode(copy, pool, address).ok())
    }

    /// The header in `bytes`, read at sector `address` of the pool `pool`.
    ///
    /// # Errors
    /// [`DecodeError`] if it is damaged, of another pool or of another place.
    pub fn decode(bytes: &[u8], pool: &[u8; 16], address: u64) -> Result<Self, DecodeError> {
        let bytes = bytes
            .get(..CHUNK_HEADER_BYTES)
            .ok_or_else(|| truncated(STRUCTURE, CHUNK_HEADER_BYTES, bytes.len()))?;
        check_magic(bytes, MAGIC, STRUCTURE)?;
        check_crc(bytes, STRUCTURE)?;
        let (raw, rest) = prefix::<ChunkHeaderRaw>(bytes, STRUCTURE)?;
        check_zero(rest, STRUCTURE)?;
        check_zero(&raw.reserved, STRUCTURE)?;
        check_zero(&raw.reserved_end, STRUCTURE)?;
        check_home(
            (raw.pool, *pool),
            (raw.address_sector.get(), address),
            STRUCTURE,
        )?;
        Ok(Self {
            pool: raw.pool,
            epoch: raw.epoch.get(),
            address,
            lane: LaneId(raw.lane.get()),
            chunk_sequence: raw.chunk_sequence.get(),
            generation: Generation(raw.generation.get()),
            stamp: lsn(raw.stamp.get(), "stamp")?,
            first_lsn: lsn(raw.first_lsn.get(), "first lsn")?,
            first_batch: raw.first_batch.get(),
            commit: decode_commit(raw)?,
        })
    }
}

fn decode_commit(raw: &ChunkHeaderRaw) -> Result<Option<CommitPlace>, DecodeError> {
    check_range(
        raw.commit_named <= 1,
        "commit named",
        raw.commit_named.into(),
    )?;
    let place = CommitPlace {
        checkpoint: raw.commit_checkpoint.get(),
        epoch: raw.commit_epoch.get(),
        sector: raw.commit_sector.get(),
    };
    if raw.commit_named == 1 {
        return Ok(Some(place));
    }
    let blank = place.checkpoint == 0 && place.epoch == 0 && place.sector == 0;
    check_range(blank, "sector of no commit", place.sector)?;
    Ok(None)
}
