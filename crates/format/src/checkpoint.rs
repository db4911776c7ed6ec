//! The commit of a checkpoint: everything a start must know to read the rest.
//!
//! **Invariants**: the body carries its own checksum besides the one in its record, so it can be
//! judged from its bytes alone.
//!
//! **Not here**: payloads of parts (`bitmap`, `unit`, `slice_part`), when to commit (`ftl`).

use crate::error::DecodeError;
use crate::media::{
    VERSION, check_crc, check_end, check_magic, check_range, check_zero, codes, list, lsn, media,
    prefix, seal,
};
use crate::record::{COMMIT_BYTES_MAX, PART_BYTES_MAX};
use alloc::vec::Vec;
use varve_units::{LaneId, Lsn, SliceId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

pub(crate) const MAGIC: [u8; 4] = *b"VCMT";
const STRUCTURE: &str = "CommitBody";

codes! {
    /// What the payload of a checkpoint part is; codes are never reused.
    enum PartKind, "part kind" {
        /// All parents and chains of a slice.
        SliceFull = 1,
        /// Parents and chains of a slice that changed since the last checkpoint.
        SliceDelta = 2,
        /// Live bits of chunks and groups.
        Bitmap = 3,
        /// The group table.
        Groups = 4,
        /// The chunk table.
        Chunks = 5,
        /// The catalogue.
        Catalogue = 6,
    }
}

/// Where a part of a checkpoint lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartPlace {
    /// Checkpoint that wrote it.
    pub checkpoint: u64,
    /// What it is.
    pub kind: PartKind,
    /// Slice it belongs to; 0 for parts of no slice.
    pub slice: SliceId,
    /// Number of the part within kind and slice.
    pub index: u32,
    /// Fast-tier sector of its payload.
    pub sector: u64,
    /// Payload bytes.
    pub bytes: u32,
    /// Checksum of the payload.
    pub crc: u32,
}

/// Where the redo of a lane begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanePosition {
    /// The lane.
    pub lane: LaneId,
    /// Number of the chunk.
    pub chunk: u32,
    /// Fast-tier sector of the first batch to redo.
    pub sector: u64,
    /// Its number in the lane.
    pub batch: u64,
    /// Sequence of the chunk.
    pub chunk_sequence: u64,
    /// LSN of its first record.
    pub first_lsn: Lsn,
}

/// Payload of a commit record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitBody {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Epoch it was written in.
    pub epoch: u32,
    /// How many checkpoints give the full state of all slices (W).
    pub window: u32,
    /// LSN drawn when the unit tables were taken: a unit that they call free and that is in use
    /// all the same was opened later, and every reference to it is younger.
    pub table_stamp: Lsn,
    /// LSN drawn when the live bits had been taken: what records from here on did is not in them.
    pub bits_stamp: Lsn,
    /// Where redo begins, lane by lane.
    pub lanes: Vec<LanePosition>,
    /// LSN cut of each slice, by slice number.
    pub cuts: Vec<Lsn>,
    /// The next volume id that was never used.
    pub next_volume: u64,
    /// Stripes may be narrow: none is before two commits that say so are durable.
    pub has_narrow: bool,
    /// All parts that a start must read.
    pub parts: Vec<PartPlace>,
}

media! {
    /// A [`CommitBody`] on media; followed by lanes, cuts (8 bytes each) and parts.
    struct CommitBodyRaw: 64 {
        magic: [u8; 4],
        version: U16,
        reserved: [u8; 2],
        crc: U32,
        epoch: U32,
        checkpoint: U64,
        next_volume: U64,
        table_stamp: U64,
        bits_stamp: U64,
        window: U32,
        parts: U32,
        lanes: U16,
        slices: U16,
        has_narrow: u8,
        reserved_end: [u8; 3],
    }
}

media! {
    /// A [`LanePosition`] on media.
    struct LanePositionRaw: 40 {
        lane: U16,
        reserved: [u8; 2],
        chunk: U32,
        sector: U64,
        batch: U64,
        chunk_sequence: U64,
        first_lsn: U64,
    }
}

media! {
    /// A [`PartPlace`] on media.
    struct PartPlaceRaw: 32 {
        checkpoint: U64,
        sector: U64,
        index: U32,
        bytes: U32,
        crc: U32,
        slice: U16,
        part_kind: u8,
        reserved: [u8; 1],
    }
}

impl CommitBody {
    /// Bytes of the encoded body; more than [`COMMIT_BYTES_MAX`] cannot be committed.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        size_of::<CommitBodyRaw>()
            + self.lanes.len() * size_of::<LanePositionRaw>()
            + self.cuts.len() * size_of::<U64>()
            + self.parts.len() * size_of::<PartPlaceRaw>()
    }

    /// The bytes on media.
    ///
    /// # Panics
    /// If they are more than [`COMMIT_BYTES_MAX`], or an LSN or a part breaks its limit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let size = self.encoded_bytes();
        assert!(size <= COMMIT_BYTES_MAX, "commit of {size} bytes");
        assert!(self.table_stamp <= Lsn::MAX, "table stamp beyond 56 bits");
        assert!(self.bits_stamp <= Lsn::MAX, "bits stamp beyond 56 bits");
        let lanes = u16::try_from(self.lanes.len()).expect("lanes fit 16 bits");
        let slices = u16::try_from(self.cuts.len()).expect("slices fit 16 bits");
        let parts = u32::try_from(self.parts.len()).expect("parts fit their limit");
        let raw = CommitBodyRaw {
            magic: MAGIC,
            version: VERSION.into(),
            epoch: self.epoch.into(),
            checkpoint: self.checkpoint.into(),
            next_volume: self.next_volume.into(),
            has_narrow: self.has_narrow.into(),
            window: self.window.into(),
            table_stamp: self.table_stamp.0.into(),
            bits_stamp: self.bits_stamp.0.into(),
            lanes: lanes.into(),
            slices: slices.into(),
            parts: parts.into(),
            ..CommitBodyRaw::new_zeroed()
        };
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(raw.as_bytes());
        for lane in &self.lanes {
            bytes.extend_from_slice(lane.raw().as_bytes());
        }
        for &cut in &self.cuts {
            assert!(cut <= Lsn::MAX, "cut beyond 56 bits");
            bytes.extend_from_slice(&cut.0.to_le_bytes());
        }
        for part in &self.parts {
            bytes.extend_from_slice(part.raw().as_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// The body in `bytes`, which must be exactly its size.
    ///
    /// # Errors
    /// [`DecodeError`] if it is damaged or a field is out of range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_magic(bytes, MAGIC, STRUCTURE)?;
        check_crc(bytes, STRUCTURE)?;
        let size = bytes.len();
        check_range(size <= COMMIT_BYTES_MAX, "commit bytes", size as u64)?;
        let (raw, rest) = prefix::<CommitBodyRaw>(bytes, STRUCTURE)?;
        check_zero(&raw.reserved, STRUCTURE)?;
        check_zero(&raw.reserved_end, STRUCTURE)?;
        check_range(raw.has_narrow <= 1, "has_narrow", raw.has_narrow.into())?;
        let lanes = usize::from(raw.lanes.get());
        let (lanes, rest) = list::<LanePositionRaw>(rest, lanes, STRUCTURE)?;
        let slices = usize::from(raw.slices.get());
        let (cuts, rest) = list::<U64>(rest, slices, STRUCTURE)?;
        let parts = raw.parts.get() as usize;
        let (parts, rest) = list::<PartPlaceRaw>(rest, parts, STRUCTURE)?;
        check_end(rest, STRUCTURE)?;
        let cuts = cuts.iter().map(|cut| lsn(cut.get(), "cut"));
        Ok(Self {
            checkpoint: raw.checkpoint.get(),
            epoch: raw.epoch.get(),
            window: raw.window.get(),
            table_stamp: lsn(raw.table_stamp.get(), "table stamp")?,
            bits_stamp: lsn(raw.bits_stamp.get(), "bits stamp")?,
            lanes: lanes
                .iter()
                .map(LanePosition::checked)
                .collect::<Result<_, _>>()?,
            cuts: cuts.collect::<Result<_, _>>()?,
            next_volume: raw.next_volume.get(),
            has_narrow: raw.has_narrow == 1,
            parts: parts
                .iter()
                .map(PartPlace::checked)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl LanePosition {
    fn raw(&self) -> LanePositionRaw {
        assert!(self.first_lsn <= Lsn::MAX, "first LSN beyond 56 bits");
        LanePositionRaw {
            lane: self.lane.0.into(),
            reserved: [0; 2],
            chunk: self.chunk.into(),
            sector: self.sector.into(),
            batch: self.batch.into(),
            chunk_sequence: self.chunk_sequence.into(),
            first_lsn: self.first_lsn.0.into(),
        }
    }

    fn checked(raw: &LanePositionRaw) -> Result<Self, DecodeError> {
        check_zero(&raw.reserved, STRUCTURE)?;
        Ok(Self {
            lane: LaneId(raw.lane.get()),
            chunk: raw.chunk.get(),
            sector: raw.sector.get(),
            batch: raw.batch.get(),
            chunk_sequence: raw.chunk_sequence.get(),
            first_lsn: lsn(raw.first_lsn.get(), "first lsn")?,
        })
    }
}

impl PartPlace {
    fn raw(&self) -> PartPlaceRaw {
        let bytes = self.bytes as usize;
        assert!(
            (1..=PART_BYTES_MAX).contains(&bytes),
            "part of {bytes} bytes"
        );
        PartPlaceRaw {
            checkpoint: self.checkpoint.into(),
            sector: self.sector.into(),
            index: self.index.into(),
            bytes: self.bytes.into(),
            crc: self.crc.into(),
            slice: self.slice.0.into(),
            part_kind: self.kind.code(),
            reserved: [0],
        }
    }

    fn checked(raw: &PartPlaceRaw) -> Result<Self, DecodeError> {
        check_zero(&raw.reserved, STRUCTURE)?;
        let bytes = raw.bytes.get();
        let fits = (1..=PART_BYTES_MAX).contains(&(bytes as usize));
        check_range(fits, "part bytes", bytes.into())?;
        Ok(Self {
            checkpoint: raw.checkpoint.get(),
            kind: PartKind::from_code(raw.part_kind)?,
            slice: SliceId(raw.slice.get()),
            index: raw.index.get(),
            sector: raw.sector.get(),
            bytes,
            crc: raw.crc.get(),
        })
    }
}
