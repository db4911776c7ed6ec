//! Whether a request makes sense, looked at before anything is built.

use super::build;
use super::error::{RigError, ZonedError};
use super::hosts::Hosts;
use super::mix::{Law, Mix};
use super::pace::Rate;
use super::request::{Protect, RigRequest, SystemName};
use crate::draw::Zipf;
use varve_media::AnySheet;
use varve_units::BLOCK_BYTES;

/// Requests a second of an open loop at most, as of a job file.
pub(super) const IOPS_MAX: u64 = 10_000_000;
/// Times the average rate in a burst, and requests of one, at most: arbitrary.
const FACTOR_MAX: u32 = 1000;
const BURST_MAX: u64 = 1_000_000_000;

/// Looks whether a request makes sense.
///
/// # Errors
/// If it does not.
pub fn check(request: &RigRequest) -> Result<(), RigError> {
    if let Hosts::Mix(mix) = &request.hosts {
        check_mix(mix, request.system.bytes_max())?;
    }
    let is_zoned = |name| matches!(AnySheet::named(name), Ok(AnySheet::Zoned(_)));
    if is_zoned(request.fast) {
        return Err(RigError::Zoned(ZonedError::Fast(request.fast)));
    }
    if is_zoned(request.dense) && !request.system.writes_zones() {
        let (drive, system) = (request.dense, request.system);
        return Err(RigError::Zoned(ZonedError::System { drive, system }));
    }
    if matches!(AnySheet::named(request.dense), Ok(AnySheet::Disk(_)))
        && request.system.keeps_blocks()
    {
        let (drive, system) = (request.dense, request.system);
        return Err(RigError::Disk { drive, system });
    }
    let limits = [
        ((1..=64).contains(&request.cores), "from 1 to 64 processors"),
        (
            (1..=65_536).contains(&request.zipf_ranks),
            "from 1 to 65536 ranks of Zipf's law for each place",
        ),
        (
            (1.0..=90.0).contains(&request.over_provision),
            "over-provisioning of 1 to 90 per cent",
        ),
        (
            (0.0..=100.0).contains(&request.map_cache),
            "0 to 100 per cent of a map in memory",
        ),
        (
            (0.0..=1000.0).contains(&request.passes),
            "overwritten 0 to 1000 times before",
        ),
        (request.rmw_level <= 2, "rmw_level is 0, 1 or 2"),
        (
            (1..=64).contains(&request.groups_per_unit),
            "1 to 64 groups in each erase unit",
        ),
        (
            (0.1..=100.0).contains(&request.fast_tier),
            "a fast tier from 0.1 to 100 per cent",
        ),
    ];
    if let Some((_, what)) = limits.into_iter().find(|(holds, _)| !holds) {
        return Err(RigError::Limits(what));
    }
    let system = request.system;
    if request.protect != Protect::None && system != SystemName::Varve {
        return Err(RigError::Protect(system));
    }
    let possible = system.drives_possible(request.protect);
    if !(possible.0..=possible.1).contains(&request.drives) {
        return Err(RigError::Drives { system, possible });
    }
    build::check(request)
}

fn check_mix(mix: &Mix, max: u64) -> Result<(), RigError> {
    let bytes = mix.bytes;
    if !(BLOCK_BYTES..=max).contains(&bytes) || !bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(RigError::Bytes { bytes, max });
    }
    let is_skew = match mix.law {
        Law::Zipf(theta) => 0.0 < theta && theta < Zipf::THETA_END,
        Law::Sequential | Law::Uniform => true,
    };
    let is_rate = match mix.pace.rate() {
        None => true,
        Some(Rate::Iops(iops)) => (1..=IOPS_MAX).contains(&iops),
        Some(Rate::PerCent(share)) => (1..=1000).contains(&share),
    };
    let bursts = mix.pace.bursts();
    let is_factor = bursts.is_none_or(|bursts| (2..=FACTOR_MAX).contains(&bursts.factor));
    let is_length = bursts.is_none_or(|bursts| (1..=BURST_MAX).contains(&bursts.requests));
    let is_peak = bursts.is_none_or(|bursts| match bursts.rate {
        Rate::Iops(iops) => iops.saturating_mul(bursts.factor.into()) <= IOPS_MAX,
        Rate::PerCent(_) => true,
    });
    let limits = [
        ((1..=64).contains(&mix.jobs), "from 1 to 64 jobs"),
        (
            (1..=1024).contains(&mix.depth),
            "from 1 to 1024 requests in flight for each job",
        ),
        (mix.reads_per_cent <= 100, "reads are a share in per cent"),
        (is_skew, "THETA lies above 0 and below 5"),
        (
            is_rate,
            "from 1 to 10000000 requests a second, or from 1 to 1000 per cent of a closed loop's",
        ),
        (
            is_factor,
            "a burst has from 2 to 1000 times the average rate: once is none",
        ),
        (
            is_length,
            "a burst has from 1 to 1000000000 requests on average",
        ),
        (is_peak, "at most 10000000 requests a second in a burst"),
    ];
    match limits.into_iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(RigError::Limits(what)),
        None => Ok(()),
    }
}
