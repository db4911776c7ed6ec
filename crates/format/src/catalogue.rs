//! One volume or snapshot of the catalogue.

use crate::error::DecodeError;
use crate::media::{check_range, check_zero, codes, media, prefix};
use crate::name::{NAME_BYTES_MAX, Name};
use crate::record::PART_BYTES_MAX;
use alloc::vec::Vec;
use varve_units::{Blocks, TenantId, VolumeId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of one encoded entry.
pub const CATALOGUE_ENTRY_BYTES: usize = 128;

/// Largest volume: block numbers have 40 bits in moves and P2L, 4 PiB.
pub const VOLUME_BLOCKS_MAX: u64 = 1 << 40;

codes! {
    /// State of a volume; codes are never reused.
    enum VolumeState, "volume state" {
        /// It is served.
        Present = 1,
        /// Its blocks are being given back.
        Deleting = 2,
        /// Nothing of it is left but its id.
        Deleted = 3,
    }
}

/// One volume or snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatalogueEntry {
    /// Identity, never reused; not 0.
    pub id: VolumeId,
    /// UUID that hosts see.
    pub uuid: [u8; 16],
    /// NGUID that hosts see.
    pub nguid: [u8; 16],
    /// Size, 1 to [`VOLUME_BLOCKS_MAX`].
    pub size: Blocks,
    /// Owner.
    pub tenant: TenantId,
    /// State.
    pub state: VolumeState,
    /// Volume that answers for blocks this one inherits.
    pub parent: Option<VolumeId>,
    /// What the user calls it.
    pub name: Name,
}

media! {
    /// A [`CatalogueEntry`] on media; its checksum is that of the batch or part around it.
    struct CatalogueEntryRaw: 128 {
        id: U64,
        uuid: [u8; 16],
        nguid: [u8; 16],
        size_blocks: U64,
        /// 0 = none.
        parent: U64,
        tenant: U32,
        state: u8,
        name_bytes: u8,
        reserved: [u8; 18],
        name: [u8; NAME_BYTES_MAX],
    }
}

impl CatalogueEntry {
    /// The 128 bytes on media.
    ///
    /// # Panics
    /// If the id is 0, the parent is 0 or the volume itself, or the size is out of range.
    #[must_use]
    pub fn encode(&self) -> [u8; CATALOGUE_ENTRY_BYTES] {
        assert!(self.check().is_ok(), "catalogue entry breaks its limits");
        assert!(self.parent != Some(VolumeId(0)), "volume 0 is no parent");
        let raw = CatalogueEntryRaw {
            id: self.id.0.into(),
            uuid: self.uuid,
            nguid: self.nguid,
            size_blocks: self.size.0.into(),
            parent: self.parent.map_or(0, |parent| parent.0).into(),
            tenant: self.tenant.0.into(),
            state: self.state.code(),
            name_bytes: self.name.len(),
            name: self.name.bytes(),
            ..CatalogueEntryRaw::new_zeroed()
        };
        let mut bytes = [0; CATALOGUE_ENTRY_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// The entry at the start of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if there are fewer than 128 bytes or a field is out of range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (raw, _) = prefix::<CatalogueEntryRaw>(bytes, "CatalogueEntry")?;
        check_zero(&raw.reserved, "CatalogueEntry")?;
        let entry = Self {
            id: VolumeId(raw.id.get()),
            uuid: raw.uuid,
            nguid: raw.nguid,
            size: Blocks(raw.size_blocks.get()),
            tenant: TenantId(raw.tenant.get()),
            state: VolumeState::from_code(raw.state)?,
            parent: Some(VolumeId(raw.parent.get())).filter(|parent| parent.0 != 0),
            name: Name::decode(raw.name, raw.name_bytes)?,
        };
        entry.check()?;
        Ok(entry)
    }

    /// The entries of a catalogue part of a checkpoint, which lie one behind the other.
    ///
    /// # Errors
    /// [`DecodeError`] if it is no whole number of entries or an entry is invalid.
    pub fn decode_part(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        check_range(
            bytes.len() <= PART_BYTES_MAX,
            "part bytes",
            bytes.len() as u64,
        )?;
        bytes
            .chunks(CATALOGUE_ENTRY_BYTES)
            .map(Self::decode)
            .collect()
    }

    /// Checks the limits that hold on both sides of the drive.
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        check_range(self.id.0 != 0, "volume id", self.id.0)?;
        let sized = (1..=VOLUME_BLOCKS_MAX).contains(&self.size.0);
        check_range(sized, "volume size", self.size.0)?;
        let own = self.parent == Some(self.id);
        check_range(!own, "volume parent", self.id.0)
    }
}
