//! Builds a system on its drives.

use super::bands::Bands;
use super::error::{RigError, ZonedError};
use super::request::{RigRequest, SystemName};
use super::station::Station;
use super::stripe_array::{STRIP_BYTES, StripeArray};
use super::system::System;
use super::systems::concat::Concat;
use super::systems::csal::{Csal, CsalPlan};
use super::systems::dm_zoned::{DmZoned, DmZonedPlan};
use super::systems::open_cas::OpenCas;
use super::systems::parity_raid::{Nobody, ParityRaid};
use super::systems::raid0::Raid0;
use super::systems::raid10::Raid10;
use super::systems::varve::Varve;
use crate::comparators::{CSAL_TODAY, DISKS};
use crate::small_pool::{
    CHUNK_BYTES, CHUNK_BYTES_MIN, PoolError, PoolRequest, SLICES, STRIPE_BLOCKS, SmallPool,
};
use crate::waf::PolicyName;
use crate::waf::fifo_tier::FifoTier;
use std::rc::Rc;
use varve_io::World;
use varve_media::{AnySheet, Shape, ZoneShape};
use varve_sim::executor::Reactor;
use varve_units::BLOCK_BYTES;

/// Groups of the engine on a drive that has no erase units.
const GROUPS: u64 = 200;
/// Bytes of a dense drive whose times do not depend on its size, or only as its zones' do. Chosen: about
/// those of `qlc-002`.
const ANY_BYTES: u64 = 16 << 30;

/// Chosen: IUs that reclaim units are multiples of, whatever the scale: stripes divide them.
const UNIT_IUS: u64 = 64;

/// Blocks of a stripe on one drive at least. Measured: random 4 KiB at `--scale 4` 680 MB/s with 64, 859 with 128; perhaps
/// because the engine has only so many stripes under way, and shorter ones keep too few dies at work.
const STRIPE_BLOCKS_MIN: u32 = 128;
const _: () = assert!(STRIPE_BLOCKS_MIN <= STRIPE_BLOCKS);
/// Writes that a chunk holds at least, up to its usual size. Chosen.
const CHUNK_WRITES: u64 = 8;

fn dense_bytes(sheet: &AnySheet, scale: u32) -> u64 {
    match sheet {
        AnySheet::Flash(sheet) if sheet.placement().handles > 1 => {
            let unit_ius = Shape::row_ius(sheet) / u64::from(scale);
            Shape::bytes_of(sheet, unit_ius.next_multiple_of(UNIT_IUS))
        }
        AnySheet::Flash(sheet) => Shape::smallest(sheet) / u64::from(scale),
        AnySheet::InPlace(_) | AnySheet::Zoned(_) => ANY_BYTES / u64::from(scale),
        AnySheet::Disk(_) => sheet.capacity().user_bytes.value,
    }
}

/// Looks whether the engine's pool fits: `lab all` is not to find that out after minutes. Zones and
/// reclaim units are known when the drive is built; the latter are about as many as erase units.
///
/// # Errors
/// [`RigError::Pool`].
pub(super) fn check(request: &RigRequest) -> Result<(), RigError> {
    match AnySheet::named(request.dense) {
        Ok(dense @ (AnySheet::Flash(_) | AnySheet::InPlace(_)))
            if request.system == SystemName::Varve =>
        {
            pool(request, &dense, dense_bytes(&dense, request.scale)).map(|_| ())
        }
        _ => Ok(()),
    }
}

pub(super) async fn build(
    reactor: &Rc<Reactor>,
    request: &RigRequest,
) -> Result<Rc<dyn System>, RigError> {
    let named = |name| AnySheet::named(name).expect("requests name drives that there are");
    let station = |sheet: &AnySheet, bytes| Station::new(sheet, bytes, reactor);
    let dense = named(request.dense);
    let dense_bytes = dense_bytes(&dense, request.scale);
    let world = Rc::clone(reactor) as Rc<dyn World>;
    let array = |sheet: &AnySheet, bytes| -> Result<Vec<_>, RigError> {
        (0..request.drives).map(|_| station(sheet, bytes)).collect()
    };
    let in_place = |parity| -> Result<Rc<dyn System>, RigError> {
        let (drives, world) = (array(&dense, dense_bytes)?, Rc::clone(&world));
        let level = request.rmw_level;
        Ok(ParityRaid::new(
            world,
            drives,
            parity,
            level,
            Rc::new(Nobody),
        ))
    };
    Ok(match request.system {
        SystemName::HddArray => {
            let sheet = named(DISKS.drive);
            let bytes = sheet.capacity().user_bytes.value;
            Concat::new(array(&sheet, bytes)?)
        }
        SystemName::DropIn => Concat::new(vec![station(&dense, dense_bytes)?]),
        SystemName::CsalPaper | SystemName::CsalToday => {
            let dense = station(&dense, dense_bytes)?;
            let plan = csal_plan(request, dense_bytes, &dense)?;
            let fast = station(&named(request.fast), plan.fast_bytes())?;
            Csal::create(world, plan, (fast, dense))
        }
        SystemName::Raid0 => Raid0::new(array(&dense, dense_bytes)?),
        SystemName::Raid10 => Raid10::new(array(&dense, dense_bytes)?),
        SystemName::Raid5 => in_place(1)?,
        SystemName::Raid6 => in_place(2)?,
        SystemName::OpenCas => {
            let dense = station(&dense, dense_bytes)?;
            let fast = station(&named(request.fast), fast_bytes(request, dense.bytes()))?;
            OpenCas::create(Rc::clone(reactor) as Rc<dyn World>, (fast, dense))
        }
        SystemName::DmZoned => {
            let dense = station(&dense, dense_bytes)?;
            let plan = dm_zoned_plan(request, &dense)?;
            let fast = station(&named(request.fast), plan.fast_bytes())?;
            let world = Rc::clone(reactor) as Rc<dyn World>;
            DmZoned::create(world, plan, (fast, dense))
        }
        SystemName::Varve => {
            let drives = array(&dense, dense_bytes)?;
            let pool = match (drives[0].zones(), drives[0].reclaim_unit()) {
                (Some(shape), _) => zoned_pool(request, shape)?,
                (None, Some(unit)) => placed_pool(request, unit, drives[0].bytes())?,
                (None, None) => pool(request, &dense, dense_bytes)?,
            };
            let data = u64::from(request.drives) - request.protect.strips() as u64;
            let strip = u64::from(pool.geometry.stripe_blocks) / data * BLOCK_BYTES;
            let dense = StripeArray::new(drives, request.protect.strips(), strip);
            let fast = station(&named(request.fast), pool.fast_bytes())?;
            let fast = StripeArray::new(vec![fast], 0, strip);
            Varve::create(world, pool, (fast, dense), request.cores)
                .await
                .map_err(RigError::Engine)?
        }
    })
}

/// The fast tier of a system that exports all of its dense drive.
fn fast_bytes(request: &RigRequest, dense: u64) -> u64 {
    let blocks = dense as f64 / BLOCK_BYTES as f64 * request.fast_tier / 100.0;
    blocks as u64 * BLOCK_BYTES
}

/// A zoned drive's zones are bands; on one with placement handles they are of the size of its reclaim units.
/// On others [`Bands`] fill the drive.
fn csal_plan(request: &RigRequest, bytes: u64, dense: &Station) -> Result<CsalPlan, RigError> {
    let policy = match request.system {
        SystemName::CsalToday => PolicyName::CsalToday,
        _ => PolicyName::CsalPaper,
    };
    let tenants = u64::from(request.hosts.tenants());
    let bands = if let Some(shape) = dense.zones() {
        // Each tenant's, and that of garbage collection.
        may_be_active(request.dense, shape, tenants as u32 + 1)?;
        Bands {
            count: shape.zones,
            blocks: (shape.capacity_bytes / BLOCK_BYTES) as u32,
            group: 1,
        }
    } else if let (Some(unit), PolicyName::CsalPaper) = (dense.reclaim_unit(), policy) {
        Bands {
            count: (bytes / unit) as u32,
            blocks: (unit / BLOCK_BYTES) as u32,
            group: 1,
        }
    } else {
        let drive = (bytes / BLOCK_BYTES, dense.iu_bytes() / BLOCK_BYTES);
        // Today's empties whole groups: which of its bands is the emptiest is not asked.
        let piece = match policy {
            PolicyName::CsalToday => 1,
            _ => request.hosts.bytes().div_ceil(BLOCK_BYTES),
        };
        Bands::new(drive, piece, (tenants + 1, request.over_provision))
    };
    let dense = u64::from(bands.count) * u64::from(bands.blocks);
    let user = (dense as f64 * (1.0 - request.over_provision / 100.0)) as u64;
    let user = user / tenants * tenants;
    let fast_blocks = (user as f64 * request.fast_tier / 100.0) as u64;
    if FifoTier::new(fast_blocks).is_none() {
        return Err(RigError::Limits("a fast tier of 100 blocks at least"));
    }
    Ok(CsalPlan {
        policy,
        bands: bands.count,
        band_blocks: bands.blocks,
        group_bands: bands.group,
        user_blocks: user,
        tenants,
        fast_blocks,
        map_cache: request.map_cache,
        cores: match policy {
            PolicyName::CsalToday => CSAL_TODAY.cores,
            _ => request.cores,
        },
    })
}

/// Refuses what writes more zones at once than may be active.
fn may_be_active(drive: &'static str, shape: &ZoneShape, open: u32) -> Result<(), RigError> {
    let active_max = shape.active_max;
    if open <= active_max {
        return Ok(());
    }
    Err(RigError::Zoned(ZonedError::Active {
        drive,
        open,
        active_max,
    }))
}

/// As many groups as the drive has erase units, or so many in each, which fill it: of every drive, if stripes can divide
/// them.
fn pool(request: &RigRequest, dense: &AnySheet, bytes: u64) -> Result<SmallPool, RigError> {
    let (blocks, strip) = (bytes / BLOCK_BYTES, strip_blocks(request));
    let AnySheet::Flash(sheet) = dense else {
        return pool_of(request, GROUPS, blocks, strip);
    };
    let shape = Shape::scaled(sheet, bytes).map_err(RigError::Drive)?;
    let iu_blocks = u64::from(shape.iu_bytes) / BLOCK_BYTES;
    let unit = u64::from(shape.unit_ius) * iu_blocks;
    let parts = u64::from(request.groups_per_unit);
    let strip = whole_strip(unit / parts, iu_blocks, strip).unwrap_or(strip);
    let units = blocks / unit;
    let pool = pool_of(request, units * parts, units * unit, strip)?;
    let data = u64::from(request.drives) - request.protect.strips() as u64;
    if parts > 1 && u64::from(pool.geometry.group_blocks) * parts != data * unit {
        return Err(RigError::Limits(
            "erase units of so many groups of whole stripes",
        ));
    }
    Ok(pool)
}

/// Blocks of the longest strip up to one of so many that divides an erase unit and is whole IUs; `None` if it would be
/// shorter than half of that. A group that is no whole number of erase units leaves parts of them to its
/// neighbours, and the drive has to copy those.
fn whole_strip(unit: u64, iu_blocks: u64, longest: u64) -> Option<u64> {
    (longest / 2..=longest)
        .rev()
        .find(|strip| strip.is_multiple_of(iu_blocks) && unit.is_multiple_of(*strip))
}

/// As many groups as each drive's user data fill reclaim units: one unit of every drive. Stripes divide
/// them.
fn placed_pool(request: &RigRequest, unit: u64, bytes: u64) -> Result<SmallPool, RigError> {
    let unit_blocks = unit / BLOCK_BYTES;
    // The largest power of two that divides both.
    let strip = 1 << (unit_blocks | strip_blocks(request)).trailing_zeros();
    let pool = pool_of(request, bytes / unit, bytes / unit * unit_blocks, strip)?;
    let data = u64::from(request.drives) - request.protect.strips() as u64;
    if u64::from(pool.geometry.group_blocks) != data * unit_blocks {
        return Err(RigError::Limits("reclaim units of whole stripes"));
    }
    Ok(pool)
}

/// A zoned drive's zones, or as many as the document's drive has.
fn dm_zoned_plan(request: &RigRequest, dense: &Station) -> Result<DmZonedPlan, RigError> {
    let cache = fast_bytes(request, dense.bytes());
    let plan = match dense.zones() {
        Some(shape) => DmZonedPlan::zoned(shape, cache),
        None => DmZonedPlan::new(dense.bytes(), cache),
    };
    plan.ok_or(RigError::Limits("drives with room for zones"))
}

/// As many groups as each drive has zones: one of them of every drive.
fn zoned_pool(request: &RigRequest, shape: &ZoneShape) -> Result<SmallPool, RigError> {
    let blocks = shape.capacity() / BLOCK_BYTES;
    let pool = pool_of(request, shape.zones.into(), blocks, strip_blocks(request))?;
    let data = u64::from(request.drives) - request.protect.strips() as u64;
    let group_bytes = u64::from(pool.geometry.group_blocks) * BLOCK_BYTES;
    if (group_bytes, pool.geometry.groups) != (data * shape.capacity_bytes, shape.zones) {
        return Err(RigError::Limits("zones of whole mebibytes"));
    }
    Ok(pool)
}

/// Blocks of a stripe that lie on one drive. One drive's stripes shrink with it, so that a group has as many
/// and what is kept back of them is the same share.
fn strip_blocks(request: &RigRequest) -> u64 {
    if request.drives > 1 {
        return STRIP_BYTES / BLOCK_BYTES;
    }
    let scale = request.scale.next_power_of_two();
    (STRIPE_BLOCKS / scale).max(STRIPE_BLOCKS_MIN).into()
}

/// Bytes of a chunk at least: a small pool's tier is to have as many, but they hold some of the load's writes.
fn chunk_bytes_min(request: &RigRequest) -> u64 {
    let writes = CHUNK_WRITES * request.hosts.bytes();
    (CHUNK_BYTES / u64::from(request.scale))
        .max(writes)
        .clamp(CHUNK_BYTES_MIN, CHUNK_BYTES)
}

/// So many groups on drives of so many blocks each.
fn pool_of(
    request: &RigRequest,
    groups: u64,
    blocks: u64,
    strip: u64,
) -> Result<SmallPool, RigError> {
    let data = u64::from(request.drives) - request.protect.strips() as u64;
    // Rounded down: a zone of every drive for each group.
    let zone_blocks = (blocks / groups / strip).max(2) * strip;
    let pool = SmallPool::new(&PoolRequest {
        groups: (blocks / zone_blocks) as u32,
        group_blocks: (zone_blocks * data) as u32,
        stripe_blocks: (strip * data) as u32,
        chunk_bytes_min: chunk_bytes_min(request),
        slices: SLICES,
        over_provision: request.over_provision,
        fast_tier: request.fast_tier,
        volumes: request.hosts.tenants().into(),
        map_cache: request.map_cache,
    });
    pool.map_err(|error| {
        RigError::Pool(match error {
            PoolError::Reserve(error) => error.to_string(),
            PoolError::Capacity { user, usable } => {
                format!("{user} blocks for hosts, of {usable} that there is room for")
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::hosts::Hosts;
    use super::super::mix::{Law, Mix};
    use super::super::pace::Pace;
    use super::super::request::Protect;
    use super::*;

    fn planned(scale: u32, bytes: u64) -> SmallPool {
        planned_in(scale, bytes, 1).unwrap_or_else(|error| panic!("{error}"))
    }

    fn planned_in(scale: u32, bytes: u64, groups_per_unit: u32) -> Result<SmallPool, RigError> {
        let dense = AnySheet::named("qlc-002").unwrap();
        let request = RigRequest {
            system: SystemName::Varve,
            hosts: Hosts::Mix(Mix {
                jobs: 8,
                depth: 128,
                bytes,
                reads_per_cent: 0,
                law: Law::Uniform,
                pace: Pace::Closed,
            }),
            fast: "slc-002",
            dense: "qlc-002",
            drives: 1,
            protect: Protect::None,
            groups_per_unit,
            rmw_level: 1,
            over_provision: 18.0,
            fast_tier: 5.0,
            map_cache: 12.5,
            passes: 1.0,
            zipf_ranks: 1,
            cores: 2,
            scale,
            requests: 1,
            seed: 1,
        };
        let bytes = dense_bytes(&dense, scale);
        pool(&request, &dense, bytes)
    }

    /// A smaller drive's engine has about as many chunks, and stripes to a group: what is kept back of them is the
    /// same share.
    #[test]
    fn chunks_and_stripes_shrink_with_the_drive() {
        let whole = planned(1, 4096).geometry;
        assert_eq!((whole.stripe_blocks, whole.chunk_bytes), (256, 1 << 20));
        let stripes = |scale| {
            let geometry = planned(scale, 4096).geometry;
            geometry.group_blocks / geometry.stripe_blocks
        };
        assert_eq!([1, 2, 4, 8].map(stripes), [45, 45, 30, 15]);
        for scale in 1..=4 {
            let chunks = planned(scale, 4096).geometry.chunks;
            assert!((500..1100).contains(&chunks), "{chunks} at {scale}");
        }
    }

    /// What is discarded with a group is whole erase units of a drive, where they have divisors.
    #[test]
    fn groups_are_erase_units() {
        let AnySheet::Flash(sheet) = AnySheet::named("qlc-002").unwrap() else {
            panic!("it is flash");
        };
        for scale in [1, 2, 3, 4, 5, 6, 8] {
            let bytes = dense_bytes(&AnySheet::Flash(sheet.clone()), scale);
            let unit_ius = Shape::scaled(&sheet, bytes).unwrap().unit_ius;
            let geometry = planned(scale, 4096).geometry;
            assert_eq!(geometry.group_blocks, unit_ius * 16, "at {scale}");
            assert!(geometry.groups >= 335, "{} at {scale}", geometry.groups);
        }
        assert_eq!(whole_strip(103 * 16, 16, 128), None);
        let unit = planned(1, 4096).geometry.group_blocks;
        for parts in [2, 3, 5, 15] {
            let geometry = planned_in(1, 4096, parts).unwrap().geometry;
            assert_eq!(geometry.group_blocks * parts, unit, "{parts} in each");
        }
        for parts in [7, 64] {
            assert!(planned_in(1, 4096, parts).is_err(), "{parts} in each");
        }
    }

    /// Long writes fill little of a chunk that holds few of them.
    #[test]
    fn chunks_hold_some_of_the_writes() {
        let chunk = |bytes| planned(4, bytes).geometry.chunk_bytes;
        assert_eq!(
            [4, 64, 1024].map(|kib| chunk(kib << 10)),
            [1 << 18, 1 << 19, 1 << 20]
        );
    }
}
