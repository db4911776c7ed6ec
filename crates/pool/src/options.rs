//! What a pool is made of: the creator's wishes, and the geometry that follows from them.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;
use varve_array::MIRROR_MAX;
use varve_format::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Geometry, MEMBERS_MAX, P2l, Protection};
use varve_ftl::{CHUNKS_MIN, GROUPS_MIN, ReserveError};
use varve_io::{Drive, DriveInfo};
use varve_units::{BLOCK_BYTES, SECTOR_BYTES};

use crate::label::RESERVED_BYTES;

/// How the dense tier is protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protect {
    /// Not at all; P2L areas are kept twice.
    None,
    /// Every strip on two drives.
    Mirror,
    /// One parity strip in each stripe over all drives.
    Parity,
}

/// What the creator of a pool decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// Bytes of a chunk: a power of two, 1 MiB to 1 GiB.
    pub chunk_bytes: u64,
    /// Slices of the map, 1 to 256.
    pub slices: u16,
    /// Protection of the dense tier.
    pub protect: Protect,
    /// Blocks of a strip.
    pub strip_blocks: u32,
    /// Strips of a zone: a group is one zone from each drive.
    pub zone_strips: u32,
    /// Share of the dense tier that is not exported, per mille.
    pub over_provision_per_mille: u16,
}

/// Why a pool cannot be made of these drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no fast drive.
    NoFastDrive,
    /// The chunk size is no power of two between 1 MiB and 1 GiB.
    ChunkBytes(u64),
    /// A tier is too small for what the engine keeps back.
    Reserve(ReserveError),
    /// A mirror needs an even number of drives, parity at least three, none at least one.
    DriveCount {
        /// Dense drives given.
        drives: usize,
        /// The protection asked for.
        protect: Protect,
    },
    /// More drives than a label names.
    TooManyDrives {
        /// Drives given, of both tiers.
        drives: usize,
    },
    /// More fast drives than a mirror has members.
    TooManyFast {
        /// Fast drives given.
        drives: usize,
    },
    /// A stripe has no room for data beside its P2L area.
    StripeTooSmall {
        /// Data blocks of a stripe.
        blocks: u32,
    },
    /// The geometry breaks a limit of the format.
    Format,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFastDrive => f.write_str("a pool needs at least one fast drive"),
            Self::ChunkBytes(bytes) => {
                write!(
                    f,
                    "a chunk is a power of two from 1 MiB to 1 GiB, not {bytes} bytes"
                )
            }
            Self::Reserve(error) => error.fmt(f),
            Self::DriveCount { drives, protect } => {
                write!(
                    f,
                    "{drives} dense drives do not make an array with protection {protect:?}"
                )
            }
            Self::TooManyDrives { drives } => {
                write!(f, "a pool has {MEMBERS_MAX} drives at most, not {drives}")
            }
            Self::TooManyFast { drives } => {
                write!(
                    f,
                    "the fast tier has {MIRROR_MAX} drives at most, copies of one another, not {drives}"
                )
            }
            Self::StripeTooSmall { blocks } => {
                write!(
                    f,
                    "a stripe of {blocks} data blocks has no room beside its P2L area"
                )
            }
            Self::Format => f.write_str("the sizes break a limit of the format"),
        }
    }
}

impl core::error::Error for PlanError {}

/// Whether a pool may have so many drives, which can be told before any is looked at.
///
/// # Errors
/// [`PlanError::TooManyDrives`], [`PlanError::TooManyFast`].
pub const fn check_counts(fast: usize, dense: usize) -> Result<(), PlanError> {
    let drives = fast + dense;
    if drives > MEMBERS_MAX {
        Err(PlanError::TooManyDrives { drives })
    } else if fast > MIRROR_MAX {
        Err(PlanError::TooManyFast { drives: fast })
    } else {
        Ok(())
    }
}

impl PoolOptions {
    /// The geometry of a pool of these drives.
    ///
    /// # Errors
    /// [`PlanError`] if they are too few, too small, or the options are out of range.
    pub fn plan(
        &self,
        fast: &[Rc<dyn Drive>],
        dense: &[Rc<dyn Drive>],
    ) -> Result<Geometry, PlanError> {
        let infos = |drives: &[Rc<dyn Drive>]| -> Vec<DriveInfo> {
            drives.iter().map(Drive::info).collect()
        };
        self.plan_for(&infos(fast), &infos(dense))
    }

    /// The geometry of a pool of drives that are like these, before there are any.
    ///
    /// # Errors
    /// As [`PoolOptions::plan`].
    pub fn plan_for(&self, fast: &[DriveInfo], dense: &[DriveInfo]) -> Result<Geometry, PlanError> {
        let chunk = self.chunk_bytes;
        let sized = (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk);
        if !sized || !chunk.is_power_of_two() {
            return Err(PlanError::ChunkBytes(chunk));
        }
        check_counts(fast.len(), dense.len())?;
        let smallest = fast.iter().map(usable).min();
        let fast_bytes = smallest.ok_or(PlanError::NoFastDrive)?;
        let chunks = fast_bytes / chunk;
        let needed = u64::from(CHUNKS_MIN);
        if chunks < needed {
            let error = ReserveError::FastTooSmall { chunks, needed };
            return Err(PlanError::Reserve(error));
        }
        let lba_bytes = fast.iter().map(|drive| drive.lba_bytes).max();
        let mut geometry = Geometry {
            chunk_bytes: chunk,
            chunks: u32::try_from(chunks).map_err(|_| PlanError::Format)?,
            slices: self.slices,
            group_blocks: 0,
            groups: 0,
            stripe_data_blocks: 0,
            strip_blocks: 0,
            protection: Protection::None,
            data_strips: 0,
            parity_strips: 0,
            lba_bytes: lba_bytes.unwrap_or(SECTOR_BYTES as u32),
            fast_bytes,
            over_provision_per_mille: self.over_provision_per_mille,
        };
        if !dense.is_empty() {
            self.plan_dense(dense, &mut geometry)?;
        }
        geometry.check().map_err(|_| PlanError::Format)?;
        Ok(geometry)
    }

    fn plan_dense(&self, dense: &[DriveInfo], geometry: &mut Geometry) -> Result<(), PlanError> {
        let drives = dense.len();
        let wrong = PlanError::DriveCount {
            drives,
            protect: self.protect,
        };
        let (protection, data, parity) = match self.protect {
            Protect::None => (Protection::None, drives, 0),
            Protect::Mirror if drives.is_multiple_of(2) => (Protection::Mirror, drives / 2, 1),
            Protect::Parity if drives >= 3 => (Protection::Parity, drives - 1, 1),
            Protect::Mirror | Protect::Parity => return Err(wrong),
        };
        let data = u8::try_from(data).map_err(|_| wrong)?;
        let zone_bytes = u64::from(self.strip_blocks) * u64::from(self.zone_strips) * BLOCK_BYTES;
        let smallest = dense.iter().map(usable).min().unwrap_or(0);
        let groups = smallest.checked_div(zone_bytes).unwrap_or(0);
        let needed = u64::from(GROUPS_MIN);
        if groups < needed {
            let error = ReserveError::DenseTooSmall { groups, needed };
            return Err(PlanError::Reserve(error));
        }
        let stripe = self.strip_blocks * u32::from(data);
        let copies = if protection == Protection::None { 2 } else { 1 };
        if P2l::blocks_for(stripe as usize) as u32 * copies >= stripe {
            return Err(PlanError::StripeTooSmall { blocks: stripe });
        }
        geometry.group_blocks = stripe * self.zone_strips;
        geometry.groups = u32::try_from(groups).map_err(|_| PlanError::Format)?;
        geometry.stripe_data_blocks = stripe;
        geometry.strip_blocks = self.strip_blocks;
        geometry.protection = protection;
        geometry.data_strips = data;
        geometry.parity_strips = parity;
        Ok(())
    }
}

/// Bytes of a drive behind its labels.
fn usable(drive: &DriveInfo) -> u64 {
    drive.bytes.saturating_sub(RESERVED_BYTES)
}

/// The engine's view of a pool's geometry.
#[must_use]
pub fn engine_geometry(geometry: &Geometry) -> varve_ftl::Geometry {
    varve_ftl::Geometry {
        chunk_bytes: geometry.chunk_bytes,
        chunks: geometry.chunks,
        lba_bytes: geometry.lba_bytes,
        group_blocks: geometry.group_blocks,
        groups: geometry.groups,
        stripe_blocks: geometry.stripe_data_blocks,
        p2l_copies: if geometry.protection == Protection::None {
            2
        } else {
            1
        },
        slices: geometry.slices,
    }
}
