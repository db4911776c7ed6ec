//! Entries of the group and chunk tables in a checkpoint.
//!
//! A table is cut into parts of [`GROUPS_PER_PART`] or [`CHUNKS_PER_PART`] entries; entry `i` of
//! part `p` is unit `p * per part + i`. The checksum is that of the part.

use crate::error::DecodeError;
use crate::media::{check_range, check_zero, codes, list, lsn, media};
use crate::p2l::NARROW_MEMBERS;
use crate::record::PART_BYTES_MAX;
use alloc::vec::Vec;
use varve_units::{Generation, LaneId, Lsn, Nanos, TenantId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of one group entry.
pub const GROUP_ENTRY_BYTES: usize = 64;
/// Bytes of one chunk entry.
pub const CHUNK_ENTRY_BYTES: usize = 32;
/// Groups of one part of the group table.
pub const GROUPS_PER_PART: usize = PART_BYTES_MAX / GROUP_ENTRY_BYTES;
/// Chunks of one part of the chunk table.
pub const CHUNKS_PER_PART: usize = PART_BYTES_MAX / CHUNK_ENTRY_BYTES;

codes! {
    /// State of a group; codes are never reused.
    enum GroupState, "group state" {
        /// Nothing in it is needed.
        Free = 1,
        /// Being reset before its first write.
        Opening = 2,
        /// Takes writes.
        Open = 3,
        /// Written to its end, not yet finished on the drives.
        Full = 4,
        /// Being finished on the drives.
        Closing = 5,
        /// Finished; only read.
        Closed = 6,
        /// Taken out of use after a media error.
        Retired = 7,
    }
}

codes! {
    /// State of a chunk; codes are never reused.
    enum ChunkState, "chunk state" {
        /// Nothing in it is needed.
        Free = 1,
        /// Takes writes of its lane.
        Open = 2,
        /// Written; only read.
        Closed = 3,
        /// Emptied; free after the next commit.
        Emptied = 4,
        /// Taken out of use after a media error.
        Retired = 5,
    }
}

/// That the last stripes of a group were all written narrow, without one and the same member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NarrowGroup {
    /// The member of the dense tier, below [`NARROW_MEMBERS`].
    pub member: u8,
    /// The first of these stripes.
    pub from: u32,
}

/// One group of the dense tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupEntry {
    /// State.
    pub state: GroupState,
    /// Generation.
    pub generation: Generation,
    /// LSN drawn when it was opened, or when its use ended.
    pub stamp: Lsn,
    /// Data blocks written.
    pub write_pointer: u32,
    /// Placement stream that owns it.
    pub stream: u32,
    /// Tenant that owns it.
    pub tenant: TenantId,
    /// A start went on with it: a stripe may have been written twice in this generation, and of
    /// two P2L areas that pass their checks the one of the higher epoch is right.
    pub is_resumed: bool,
    /// When it was closed; zero if it is not.
    pub closed_at: Nanos,
    /// Its stripes that are known to be narrow. Not all may be: this is for who asks how much bears a loss.
    pub narrow: Option<NarrowGroup>,
}

/// One chunk of the fast tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkEntry {
    /// State.
    pub state: ChunkState,
    /// Lane that wrote it.
    pub lane: LaneId,
    /// Generation.
    pub generation: Generation,
    /// LSN drawn when it was opened, or when its use ended.
    pub stamp: Lsn,
    /// Sectors written.
    pub write_pointer: u32,
    /// Number of the chunk within lane and epoch.
    pub chunk_sequence: u64,
}

media! {
    /// A [`GroupEntry`] on media.
    struct GroupEntryRaw: 64 {
        state: u8,
        is_resumed: u8,
        narrow_member: u8,
        reserved: [u8; 1],
        generation: U32,
        stamp: U64,
        write_pointer: U32,
        stream: U32,
        tenant: U32,
        narrow_from: U32,
        closed_at_ns: U64,
        reserved_end: [u8; 24],
    }
}

media! {
    /// A [`ChunkEntry`] on media.
    struct ChunkEntryRaw: 32 {
        state: u8,
        reserved: [u8; 1],
        lane: U16,
        generation: U32,
        stamp: U64,
        chunk_sequence: U64,
        write_pointer: U32,
        reserved_end: [u8; 4],
    }
}

const _: () = assert!(size_of::<GroupEntryRaw>() == GROUP_ENTRY_BYTES);
const _: () = assert!(size_of::<ChunkEntryRaw>() == CHUNK_ENTRY_BYTES);

impl GroupEntry {
    /// The payload of one part.
    ///
    /// # Panics
    /// If there are no entries, or more than [`GROUPS_PER_PART`].
    #[must_use]
    pub fn encode_part(entries: &[Self]) -> Vec<u8> {
        encode_part(entries, GROUPS_PER_PART, |entry| GroupEntryRaw {
            state: entry.state.code(),
            is_resumed: entry.is_resumed.into(),
            generation: entry.generation.0.into(),
            stamp: stamp(entry.stamp),
            write_pointer: entry.write_pointer.into(),
            stream: entry.stream.into(),
            tenant: entry.tenant.0.into(),
            closed_at_ns: entry.closed_at.0.into(),
            narrow_member: entry.narrow.map_or(0, |narrow| {
                assert!(narrow.member < NARROW_MEMBERS, "member of narrow stripes");
                narrow.member + 1
            }),
            narrow_from: entry.narrow.map_or(0, |narrow| narrow.from).into(),
            ..GroupEntryRaw::new_zeroed()
        })
    }

    /// The entries of one part.
    ///
    /// # Errors
    /// [`DecodeError`] if it is no whole number of entries or a field is out of range.
    pub fn decode_part(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        decode_part(
            bytes,
            GROUPS_PER_PART,
            "GroupEntry",
            |raw: &GroupEntryRaw| {
                check_zero(&raw.reserved, "GroupEntry")?;
                check_zero(&raw.reserved_end, "GroupEntry")?;
                check_range(raw.is_resumed <= 1, "is_resumed", raw.is_resumed.into())?;
                let (member, from) = (raw.narrow_member, raw.narrow_from.get());
                let is_member = member <= NARROW_MEMBERS && (member > 0 || from == 0);
                check_range(is_member, "narrow_member", member.into())?;
                Ok(Self {
                    is_resumed: raw.is_resumed == 1,
                    state: GroupState::from_code(raw.state)?,
                    generation: Generation(raw.generation.get()),
                    stamp: lsn(raw.stamp.get(), "stamp")?,
                    write_pointer: raw.write_pointer.get(),
                    stream: raw.stream.get(),
                    tenant: TenantId(raw.tenant.get()),
                    closed_at: Nanos(raw.closed_at_ns.get()),
                    narrow: member
                        .checked_sub(1)
                        .map(|member| NarrowGroup { member, from }),
                })
            },
        )
    }
}

impl ChunkEntry {
    /// The payload of one part.
    ///
    /// # Panics
    /// If there are no entries, or more than [`CHUNKS_PER_PART`].
    #[must_use]
    pub fn encode_part(entries: &[Self]) -> Vec<u8> {
        encode_part(entries, CHUNKS_PER_PART, |entry| ChunkEntryRaw {
            state: entry.state.code(),
            lane: entry.lane.0.into(),
            generation: entry.generation.0.into(),
            stamp: stamp(entry.stamp),
            chunk_sequence: entry.chunk_sequence.into(),
            write_pointer: entry.write_pointer.into(),
            ..ChunkEntryRaw::new_zeroed()
        })
    }

    /// The entries of one part.
    ///
    /// # Errors
    /// [`DecodeError`] if it is no whole number of entries or a field is out of range.
    pub fn decode_part(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        decode_part(
            bytes,
            CHUNKS_PER_PART,
            "ChunkEntry",
            |raw: &ChunkEntryRaw| {
                check_zero(&raw.reserved, "ChunkEntry")?;
                check_zero(&raw.reserved_end, "ChunkEntry")?;
                Ok(Self {
                    state: ChunkState::from_code(raw.state)?,
                    lane: LaneId(raw.lane.get()),
                    generation: Generation(raw.generation.get()),
                    stamp: lsn(raw.stamp.get(), "stamp")?,
                    write_pointer: raw.write_pointer.get(),
                    chunk_sequence: raw.chunk_sequence.get(),
                })
            },
        )
    }
}

fn stamp(stamp: Lsn) -> U64 {
    assert!(stamp <= Lsn::MAX, "stamp beyond 56 bits");
    stamp.0.into()
}

fn encode_part<T, R>(entries: &[T], max: usize, raw: impl Fn(&T) -> R) -> Vec<u8>
where
    R: IntoBytes + Immutable,
{
    let count = entries.len();
    assert!((1..=max).contains(&count), "{count} entries in a part");
    let mut bytes = Vec::with_capacity(count * size_of::<R>());
    for entry in entries {
        bytes.extend_from_slice(raw(entry).as_bytes());
    }
    bytes
}

fn decode_part<T, R>(
    bytes: &[u8],
    max: usize,
    structure: &'static str,
    checked: impl Fn(&R) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError>
where
    R: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let count = bytes.len().div_ceil(size_of::<R>());
    check_range(
        (1..=max).contains(&count),
        "entries of a part",
        count as u64,
    )?;
    let (entries, _) = list::<R>(bytes, count, structure)?;
    crate::media::checked(entries, checked)
}
