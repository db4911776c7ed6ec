//! From drives and wishes to the sizes of a pool.

use crate::create::Protect;
use crate::error::ControlError;
use varve_format::Geometry;
use varve_ftl::{Config as EngineConfig, ReserveError};
use varve_io::DriveInfo;
use varve_pool::label::RESERVED_BYTES;
use varve_pool::{
    PlanError, PoolOptions, Protect as Code, Settings, engine_config, engine_geometry,
};
use varve_units::BLOCK_BYTES;

/// Chunks that are aimed at. Arbitrary: a cleaner that works in 1 % steps.
const CHUNKS_AIM: u64 = 128;
/// Zone groups that are aimed at, as dense drives have erase units (228 to 456 in drives of 15 to 31 TB,
/// design.md 4.4: capacity / 200). In modelled flash groups as large as an erase unit, or half of one, have
/// `waf_device` 1.0 to 1.1; with fifteen of them in each it was 1.4 under uniform writes and 3.5 at Zipf 0.8,
/// because what dies together has to be what the drive erases together.
const GROUPS_AIM: u64 = 256;
/// Blocks of a group at most: what the format counts.
const GROUP_BLOCKS_MAX: u64 = 1 << 31;
/// Smallest strip in blocks: 64 KiB, the largest indirection unit of the drives meant.
const STRIP_BLOCKS_MIN: u32 = 16;
/// Data blocks of a stripe at least, so that its P2L area stays below 2 %.
const STRIPE_BLOCKS_MIN: u32 = 64;
/// Strips of a zone at least.
const ZONE_STRIPS_MIN: u64 = 4;
/// Smallest and largest chunk, in bytes.
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;
/// Dense bytes from which on the map has 256 slices. Arbitrary: below, slices are few leaves.
const MANY_SLICES_BYTES: u64 = 16 << 30;

/// What a pool will be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) options: PoolOptions,
    pub(crate) geometry: Geometry,
    pub(crate) engine: EngineConfig,
}

/// The protection that was asked for, or the best there is for so many drives.
///
/// # Errors
/// [`ControlError::Protect`].
pub(crate) fn protection(asked: Option<Protect>, dense: usize) -> Result<Code, ControlError> {
    let wrong = |asked: Protect| ControlError::Protect {
        asked: asked.to_string(),
        drives: dense,
    };
    match asked {
        None if dense >= 3 => Ok(Code::Parity),
        None if dense == 2 => Ok(Code::Mirror),
        None | Some(Protect::None) => Ok(Code::None),
        Some(Protect::Mirror) if dense >= 2 && dense.is_multiple_of(2) => Ok(Code::Mirror),
        Some(Protect::Parity { data }) if data >= 2 && usize::from(data) + 1 == dense => {
            Ok(Code::Parity)
        }
        Some(asked) => Err(wrong(asked)),
    }
}

/// Largest power of two that goes `parts` times into `bytes`.
fn unit_bytes(bytes: u64, parts: u64) -> u64 {
    1 << (bytes / parts).max(1).ilog2()
}

impl Plan {
    /// The pool that drives like these make. Chunks become smaller where the fast tier would be too
    /// small for its reserve otherwise.
    pub(crate) fn new(
        fast: &[DriveInfo],
        dense: &[DriveInfo],
        protect: Code,
        over_provision: u32,
        settings: &Settings,
    ) -> Result<Self, PlanError> {
        let least = |drives: &[DriveInfo]| {
            let bytes = drives.iter().map(|drive| drive.bytes).min().unwrap_or(0);
            bytes.saturating_sub(RESERVED_BYTES)
        };
        let (fast_bytes, dense_bytes) = (least(fast), least(dense));
        let data = match protect {
            Code::None => dense.len(),
            Code::Mirror => dense.len() / 2,
            Code::Parity => dense.len().saturating_sub(1),
        };
        let strip = STRIPE_BLOCKS_MIN / (data.max(1) as u32);
        let strip_blocks = strip.next_power_of_two().max(STRIP_BLOCKS_MIN);
        let strip_bytes = u64::from(strip_blocks) * BLOCK_BYTES;
        let zone_bytes_max = unit_bytes(GROUP_BLOCKS_MAX * BLOCK_BYTES, data.max(1) as u64);
        let zone_bytes = unit_bytes(dense_bytes, GROUPS_AIM).min(zone_bytes_max);
        let zone_strips = (zone_bytes / strip_bytes).max(ZONE_STRIPS_MIN);
        let raw_bytes = dense_bytes.saturating_mul(data as u64);
        let mut chunk_bytes =
            unit_bytes(fast_bytes, CHUNKS_AIM).clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end());
        loop {
            let options = PoolOptions {
                chunk_bytes,
                slices: if raw_bytes < MANY_SLICES_BYTES {
                    16
                } else {
                    256
                },
                protect,
                strip_blocks,
                zone_strips: zone_strips as u32,
                over_provision_per_mille: (over_provision * 10) as u16,
            };
            match Self::of(options, fast, dense, settings) {
                Err(PlanError::Reserve(ReserveError::FastTooSmall { .. }))
                    if chunk_bytes > *CHUNK_BYTES.start() =>
                {
                    chunk_bytes /= 2;
                }
                outcome => return outcome,
            }
        }
    }

    fn of(
        options: PoolOptions,
        fast: &[DriveInfo],
        dense: &[DriveInfo],
        settings: &Settings,
    ) -> Result<Self, PlanError> {
        let geometry = options.plan_for(fast, dense)?;
        let sizes = engine_geometry(&geometry);
        let share = geometry.over_provision_per_mille;
        let engine = engine_config(&sizes, share, settings).map_err(PlanError::Reserve)?;
        Ok(Self {
            options,
            geometry,
            engine,
        })
    }

    /// Bytes that all volumes together may hold.
    pub(crate) const fn capacity_bytes(&self) -> u64 {
        self.engine.reserve.capacity_blocks * BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_pool::Tuning;
    use varve_pool::label::Owner;

    const MIB: u64 = 1 << 20;

    const SETTINGS: Settings = Settings {
        owner: Owner([1; 16]),
        take_over: false,
        accept_loss: false,
        beat: None,
        lanes: 1,
        map_bytes: 64 * MIB,
        elided: false,
        tuning: Tuning::USUAL,
        bypass: true,
        canary: None,
    };

    fn drives(count: usize, bytes: u64) -> Vec<DriveInfo> {
        let drive = DriveInfo {
            bytes,
            lba_bytes: 4096,
            volatile_cache: true,
            copies: 1,
            handles: 1,
            gap_blocks: 0,
        };
        vec![drive; count]
    }

    /// From a tenth of a gibibyte to a hundred terabytes, with all protections: groups are as large as erase units
    /// of drives of that size.
    #[test]
    fn drives_of_all_sizes_make_pools() {
        for dense_mib in [64, 200, 1 << 10, 10 << 10, 1 << 20, 60 << 20, 120 << 20] {
            for (count, protect) in [
                (1, Code::None),
                (2, Code::Mirror),
                (3, Code::Parity),
                (4, Code::Mirror),
                (5, Code::Parity),
                (24, Code::Parity),
            ] {
                let dense = drives(count, dense_mib * MIB);
                let raw = dense_mib * count as u64;
                let fast = drives(2, (raw / 12).max(40) * MIB);
                let plan = Plan::new(&fast, &dense, protect, 20, &SETTINGS);
                let plan = plan.unwrap_or_else(|e| panic!("{count} of {dense_mib} MiB: {e}"));
                let data = u64::from(plan.geometry.data_strips) * dense_mib * MIB;
                let share = plan.capacity_bytes() * 100 / data;
                assert!(
                    (50..=80).contains(&share),
                    "{count} of {dense_mib} MiB: {share} %"
                );
                let groups = u64::from(plan.geometry.groups);
                assert!(
                    dense_mib < 200 || (GROUPS_AIM / 2..2 * GROUPS_AIM).contains(&groups),
                    "{count} of {dense_mib} MiB: {groups} groups"
                );
            }
        }
    }

    #[test]
    fn the_protection_follows_from_the_drives_or_must_fit_them() {
        assert_eq!(protection(None, 1).unwrap(), Code::None);
        assert_eq!(protection(None, 2).unwrap(), Code::Mirror);
        assert_eq!(protection(None, 5).unwrap(), Code::Parity);
        assert_eq!(protection(None, 0).unwrap(), Code::None);
        let four = Some(Protect::Parity { data: 4 });
        assert_eq!(protection(four, 5).unwrap(), Code::Parity);
        assert!(protection(four, 4).is_err());
        assert!(protection(Some(Protect::Mirror), 3).is_err());
        assert!(protection(Some(Protect::Parity { data: 1 }), 2).is_err());
    }
}
