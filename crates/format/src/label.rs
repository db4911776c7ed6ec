//! The label of a drive: which pool it belongs to, and the pool's member table.
//!
//! Two copies, A and B, are written in turn with a flush between; the valid one with the higher
//! copy sequence counts.
//!
//! **Invariants**: the member table fits every label in full; ids in it are unique and never
//! reused; the label's own drive is in it.
//!
//! **Not here**: quorum, take-over, who may write (`pool`).

use crate::error::DecodeError;
use crate::geometry::{Geometry, GeometryRaw};
use crate::media::{
    VERSION, check_crc, check_magic, check_range, check_zero, codes, list, media, prefix, seal,
    truncated,
};
use crate::name::{NAME_BYTES_MAX, Name};
use alloc::vec::Vec;
use varve_io::Sectors;
use varve_units::SECTOR;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of one copy.
pub const LABEL_BYTES: usize = 4096;
/// Members of a pool at most, tombstones included.
pub const MEMBERS_MAX: usize = 100;

/// The first bytes of every label.
pub const LABEL_MAGIC: [u8; 4] = *b"VLBL";
const STRUCTURE: &str = "Label";
/// Flags of a label.
const CLEAN: u8 = 1;
const UNFINISHED: u8 = 2;

codes! {
    /// What a drive is for; codes are never reused.
    enum MemberRole, "member role" {
        /// The fast tier.
        Fast = 1,
        /// The dense tier.
        Dense = 2,
        /// Takes the place of a failed drive.
        Spare = 3,
    }
}

codes! {
    /// State of a member; codes are never reused.
    enum MemberState, "member state" {
        /// It has its share of the data.
        Active = 1,
        /// It failed or is lost; its data is stale.
        Failed = 2,
        /// Its share is being restored.
        Rebuilding = 3,
        /// A tombstone: it was removed and its id is never used again.
        Removed = 4,
    }
}

/// One drive of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Identity within the pool.
    pub id: u32,
    /// What it is for.
    pub role: MemberRole,
    /// State.
    pub state: MemberState,
    /// Position in its tier's array.
    pub slot: u8,
    /// True if it held its whole share when it got this state.
    pub held_all: bool,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Generation of the member table in which it got this state.
    pub since: u64,
}

/// The label of one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Identity of the pool.
    pub pool: [u8; 16],
    /// Name of the pool.
    pub name: Name,
    /// Counts the labels written to this drive; the higher of the two copies counts.
    pub copy_sequence: u64,
    /// Version of the member table.
    pub generation: u64,
    /// Epoch of the pool; raised by each import.
    pub epoch: u32,
    /// Id of the drive that carries this label.
    pub drive: u32,
    /// Who uses the pool; zeroes = nobody.
    pub owner: [u8; 16],
    /// Raised by the owner while it lives.
    pub heartbeat: u64,
    /// The pool was exported in order.
    pub is_clean: bool,
    /// The pool is being created: it has not served yet.
    pub is_unfinished: bool,
    /// Geometry of the pool.
    pub geometry: Geometry,
    /// The member table, 1 to [`MEMBERS_MAX`].
    pub members: Vec<Member>,
}

media! {
    /// A [`Label`] on media; followed by its members and zeroes up to 4096 bytes.
    struct LabelRaw: 208 {
        magic: [u8; 4],
        version: U16,
        name_bytes: u8,
        /// 1: exported in order; 2: being created.
        flags: u8,
        crc: U32,
        epoch: U32,
        pool: [u8; 16],
        copy_sequence: U64,
        generation: U64,
        owner: [u8; 16],
        heartbeat: U64,
        drive: U32,
        members: U16,
        reserved: [u8; 18],
        name: [u8; NAME_BYTES_MAX],
        geometry: GeometryRaw,
    }
}

media! {
    /// A [`Member`] on media.
    struct MemberRaw: 32 {
        id: U32,
        role: u8,
        state: u8,
        slot: u8,
        /// 0 or 1.
        held_all: u8,
        size_bytes: U64,
        since_generation: U64,
        reserved_end: [u8; 8],
    }
}

const _: () = assert!(size_of::<LabelRaw>() + MEMBERS_MAX * size_of::<MemberRaw>() <= LABEL_BYTES);

impl Label {
    /// The 8 sectors on media.
    ///
    /// # Panics
    /// If the member table is empty, too long, has an id twice or lacks the own drive, or the
    /// geometry breaks a limit.
    #[must_use]
    pub fn encode(&self) -> Sectors {
        assert!(self.check().is_ok(), "label breaks its limits");
        let members = u16::try_from(self.members.len()).expect("members were checked");
        let raw = LabelRaw {
            magic: LABEL_MAGIC,
            version: VERSION.into(),
            name_bytes: self.name.len(),
            flags: self.flags(),
            epoch: self.epoch.into(),
            pool: self.pool,
            copy_sequence: self.copy_sequence.into(),
            generation: self.generation.into(),
            owner: self.owner,
            heartbeat: self.heartbeat.into(),
            drive: self.drive.into(),
            members: members.into(),
            name: self.name.bytes(),
            geometry: self.geometry.raw(),
            ..LabelRaw::new_zeroed()
        };
        let mut sectors = Sectors::zeroed(LABEL_BYTES / SECTOR);
        let (start, table) = sectors.bytes_mut().split_at_mut(size_of::<LabelRaw>());
        start.copy_from_slice(raw.as_bytes());
        for (slot, member) in table
            .chunks_exact_mut(size_of::<MemberRaw>())
            .zip(&self.members)
        {
            slot.copy_from_slice(member.raw().as_bytes());
        }
        seal(sectors.bytes_mut());
        sectors
    }

    const fn flags(&self) -> u8 {
        let clean = if self.is_clean { CLEAN } else { 0 };
        let unfinished = if self.is_unfinished { UNFINISHED } else { 0 };
        clean | unfinished
    }

    /// The label in `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if it is truncated, damaged or a field is out of range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes = bytes
            .get(..LABEL_BYTES)
            .ok_or_else(|| truncated(STRUCTURE, LABEL_BYTES, bytes.len()))?;
        check_magic(bytes, LABEL_MAGIC, STRUCTURE)?;
        check_crc(bytes, STRUCTURE)?;
        let (raw, rest) = prefix::<LabelRaw>(bytes, STRUCTURE)?;
        check_zero(&raw.reserved, STRUCTURE)?;
        check_range(raw.flags <= CLEAN | UNFINISHED, "flags", raw.flags.into())?;
        let count = usize::from(raw.members.get());
        check_range(count <= MEMBERS_MAX, "members", count as u64)?;
        let (members, rest) = list::<MemberRaw>(rest, count, STRUCTURE)?;
        check_zero(rest, STRUCTURE)?;
        let label = Self {
            pool: raw.pool,
            name: Name::decode(raw.name, raw.name_bytes)?,
            copy_sequence: raw.copy_sequence.get(),
            generation: raw.generation.get(),
            epoch: raw.epoch.get(),
            drive: raw.drive.get(),
            owner: raw.owner,
            heartbeat: raw.heartbeat.get(),
            is_clean: raw.flags & CLEAN != 0,
            is_unfinished: raw.flags & UNFINISHED != 0,
            geometry: Geometry::decode(&raw.geometry)?,
            members: members
                .iter()
                .map(Member::checked)
                .collect::<Result<_, _>>()?,
        };
        label.check()?;
        Ok(label)
    }

    /// Checks the limits that hold on both sides of the drive.
    ///
    /// # Errors
    /// [`DecodeError`] with the field that breaks its limit.
    pub fn check(&self) -> Result<(), DecodeError> {
        self.geometry.check()?;
        let count = self.members.len();
        check_range((1..=MEMBERS_MAX).contains(&count), "members", count as u64)?;
        for (index, member) in self.members.iter().enumerate() {
            if self.members[..index]
                .iter()
                .any(|other| other.id == member.id)
            {
                return Err(DecodeError::Duplicate {
                    field: "member",
                    found: member.id.into(),
                });
            }
            let slot = usize::from(member.slot);
            check_range(slot < MEMBERS_MAX, "member slot", slot as u64)?;
        }
        let listed = self.members.iter().any(|member| member.id == self.drive);
        check_range(listed, "own drive", self.drive.into())
    }
}

impl Member {
    fn raw(&self) -> MemberRaw {
        MemberRaw {
            id: self.id.into(),
            role: self.role.code(),
            state: self.state.code(),
            slot: self.slot,
            held_all: self.held_all.into(),
            size_bytes: self.size_bytes.into(),
            since_generation: self.since.into(),
            ..MemberRaw::new_zeroed()
        }
    }

    fn checked(raw: &MemberRaw) -> Result<Self, DecodeError> {
        check_zero(&raw.reserved_end, STRUCTURE)?;
        check_range(raw.held_all <= 1, "held-all flag", raw.held_all.into())?;
        check_range(
            usize::from(raw.slot) < MEMBERS_MAX,
            "member slot",
            raw.slot.into(),
        )?;
        Ok(Self {
            id: raw.id.get(),
            role: MemberRole::from_code(raw.role)?,
            state: MemberState::from_code(raw.state)?,
            slot: raw.slot,
            held_all: raw.held_all == 1,
            size_bytes: raw.size_bytes.get(),
            since: raw.since_generation.get(),
        })
    }
}
