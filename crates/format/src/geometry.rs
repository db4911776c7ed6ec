//! The geometry of a pool: fixed at creation, kept in every label.

use crate::error::DecodeError;
use crate::media::{check_range, check_zero, codes, media};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32, U64};

/// Smallest chunk (design.md section 3).
pub const CHUNK_BYTES_MIN: u64 = 1 << 20;
/// Largest chunk (design.md section 3).
pub const CHUNK_BYTES_MAX: u64 = 1 << 30;
/// Map slices of one pool at most (design.md section 2).
pub const SLICES_MAX: u16 = 256;
/// Parity strips of one stripe at most (design.md 4.5).
pub const PARITY_MAX: u8 = 8;

codes! {
    /// How the dense tier is protected; codes are never reused.
    enum Protection, "protection" {
        /// Not at all.
        None = 1,
        /// `m` further copies of each of `k` strips.
        Mirror = 2,
        /// `k` data and `m` parity strips.
        Parity = 3,
    }
}

/// Geometry of a pool. A pool without a dense tier has zero groups and zeroes in all its sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of a chunk: a power of two.
    pub chunk_bytes: u64,
    /// Number of chunks.
    pub chunks: u32,
    /// Number of map slices, 1 to [`SLICES_MAX`].
    pub slices: u16,
    /// Data blocks of a group.
    pub group_blocks: u32,
    /// Number of groups.
    pub groups: u32,
    /// Data blocks of a stripe, its P2L area included.
    pub stripe_data_blocks: u32,
    /// Blocks of a strip.
    pub strip_blocks: u32,
    /// Protection of the dense tier.
    pub protection: Protection,
    /// Data strips of a stripe.
    pub data_strips: u8,
    /// Parity strips of a stripe.
    pub parity_strips: u8,
    /// LBA size of the fast tier: 512 or 4096.
    pub lba_bytes: u32,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// Share of the dense tier that is not exported, per mille.
    pub over_provision_per_mille: u16,
}

media! {
    /// A [`Geometry`] on media.
    struct GeometryRaw: 64 {
        chunk_bytes: U64,
        fast_bytes: U64,
        chunks: U32,
        groups: U32,
        group_blocks: U32,
        stripe_data_blocks: U32,
        strip_blocks: U32,
        lba_bytes: U32,
        slices: U16,
        over_provision_per_mille: U16,
        protection: u8,
        data_strips: u8,
        parity_strips: u8,
        reserved: [u8; 17],
    }
}

impl Geometry {
    /// The bytes on media.
    pub(crate) fn raw(&self) -> GeometryRaw {
        GeometryRaw {
            chunk_bytes: self.chunk_bytes.into(),
            fast_bytes: self.fast_bytes.into(),
            chunks: self.chunks.into(),
            groups: self.groups.into(),
            group_blocks: self.group_blocks.into(),
            stripe_data_blocks: self.stripe_data_blocks.into(),
            strip_blocks: self.strip_blocks.into(),
            lba_bytes: self.lba_bytes.into(),
            slices: self.slices.into(),
            over_provision_per_mille: self.over_provision_per_mille.into(),
            protection: self.protection.code(),
            data_strips: self.data_strips,
            parity_strips: self.parity_strips,
            ..GeometryRaw::new_zeroed()
        }
    }

    /// The checked geometry.
    pub(crate) fn decode(raw: &GeometryRaw) -> Result<Self, DecodeError> {
        check_zero(&raw.reserved, "Geometry")?;
        let geometry = Self {
            chunk_bytes: raw.chunk_bytes.get(),
            chunks: raw.chunks.get(),
            slices: raw.slices.get(),
            group_blocks: raw.group_blocks.get(),
            groups: raw.groups.get(),
            stripe_data_blocks: raw.stripe_data_blocks.get(),
            strip_blocks: raw.strip_blocks.get(),
            protection: Protection::from_code(raw.protection)?,
            data_strips: raw.data_strips,
            parity_strips: raw.parity_strips,
            lba_bytes: raw.lba_bytes.get(),
            fast_bytes: raw.fast_bytes.get(),
            over_provision_per_mille: raw.over_provision_per_mille.get(),
        };
        geometry.check()?;
        Ok(geometry)
    }

    /// Checks what must hold for every pool.
    ///
    /// # Errors
    /// [`DecodeError::Range`] with the field that breaks its limit.
    pub fn check(&self) -> Result<(), DecodeError> {
        let chunk = self.chunk_bytes;
        let sized = (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk);
        check_range(sized && chunk.is_power_of_two(), "chunk bytes", chunk)?;
        check_range(self.chunks > 0, "chunks", 0)?;
        let log_bytes = chunk.saturating_mul(self.chunks.into());
        check_range(
            log_bytes <= self.fast_bytes,
            "fast tier bytes",
            self.fast_bytes,
        )?;
        let slices = u64::from(self.slices);
        check_range(
            (1..=u64::from(SLICES_MAX)).contains(&slices),
            "slices",
            slices,
        )?;
        let lba = self.lba_bytes;
        check_range(matches!(lba, 512 | 4096), "lba bytes", lba.into())?;
        let spare = self.over_provision_per_mille;
        check_range(spare < 1000, "over-provision", spare.into())?;
        let parity = self.parity_strips;
        check_range(parity <= PARITY_MAX, "parity strips", parity.into())?;
        let redundant = self.protection != Protection::None;
        check_range(redundant == (parity > 0), "parity strips", parity.into())?;
        if self.groups == 0 {
            return Ok(());
        }
        self.check_dense()
    }

    fn check_dense(&self) -> Result<(), DecodeError> {
        check_range(self.data_strips > 0, "data strips", 0)?;
        check_range(self.strip_blocks > 0, "strip blocks", 0)?;
        check_range(self.stripe_data_blocks > 0, "stripe data blocks", 0)?;
        let group = self.group_blocks;
        check_range(
            group >= self.stripe_data_blocks,
            "group blocks",
            group.into(),
        )
    }
}
