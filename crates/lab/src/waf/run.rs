//! A run: fill in order, overwrite until what is measured is steady, measure.

use super::dense::Dense;
use super::device::Device;
use super::engine;
use super::fifo_tier::FifoTier;
use super::policies::Policy as PolicyName;
use super::policy::Policy;
use super::report::WafReport;
use super::request::{Sizes, WafError, WafRequest};
use super::tiers::Tiers;
use super::workload::Source;
use crate::recovery::Watch;

/// Writes from one look of the watch to the next. Arbitrary: some milliseconds.
const WATCHED: u64 = 1 << 16;

/// Looks whether there is such a run, without running it.
///
/// # Errors
/// As [`run`], but for what only running shows.
pub fn check(request: &WafRequest) -> Result<(), WafError> {
    let sizes = request.sizes()?;
    if request.policy == PolicyName::Varve {
        return engine::check(request);
    }
    if sizes.fast > 0 && FifoTier::new(sizes.fast).is_none() {
        return Err(WafError::FastTierTooSmall);
    }
    request.workload.check(sizes.user).map_err(WafError::Area)
}

/// Runs a policy under a workload; `watch` is told how far it is.
///
/// # Errors
/// If there is no such run, or the engine fails.
pub fn run(request: &WafRequest, watch: &Watch) -> Result<WafReport, WafError> {
    let sizes = request.sizes()?;
    let tenants = request.workload.tenants();
    let group = request.policy.units_per_group(request.groups);
    let Some(policy) = request.policy.model(sizes.user, tenants, group) else {
        return engine::run(request, watch);
    };
    check_spare(policy.as_ref(), &sizes);
    let metadata_per_block = policy.metadata_per_block();
    let mut tiers = build(policy, &sizes)?;
    let mut source = request.source(&sizes)?;
    for block in 0..sizes.user {
        tiers.write(block as u32, &source);
        look(watch, "fill", block, sizes.user);
    }
    let (warm_up, measured) = request.writes(&sizes);
    overwrite(&mut tiers, &mut source, ("warm up", warm_up), watch);
    let before = tiers.sums();
    overwrite(&mut tiers, &mut source, ("measure", measured), watch);
    let sums = tiers.sums().since(&before);
    Ok(WafReport::new(request, &sizes, &sums, metadata_per_block))
}

/// A tier whose spare units are all open or kept back empties units for ever and gains nothing. One per
/// cent of the units of any request is more.
fn check_spare(policy: &dyn Policy, sizes: &Sizes) {
    let spare = (sizes.dense() - sizes.user) / u64::from(sizes.unit_blocks);
    let needed = (policy.streams() + policy.reserve() + 1) as u64;
    assert!(spare >= needed, "{spare} spare units, {needed} in use");
}

fn build(policy: Box<dyn Policy>, sizes: &Sizes) -> Result<Tiers, WafError> {
    let dense = Dense::new(sizes.units, sizes.unit_blocks, policy.streams());
    let fast = FifoTier::new(sizes.fast);
    if fast.is_none() && sizes.fast > 0 {
        return Err(WafError::FastTierTooSmall);
    }
    let device = Device::new(sizes.units.into(), sizes.unit_blocks.into());
    let device = device.map_err(WafError::Drive)?;
    Ok(Tiers::new(policy, dense, fast, Some(device), sizes.user))
}

fn overwrite(tiers: &mut Tiers, source: &mut Source, phase: (&'static str, u64), watch: &Watch) {
    let (name, writes) = phase;
    let mut done = 0;
    while done < writes {
        for block in source.next().range() {
            tiers.write(block as u32, source);
            look(watch, name, done, writes);
            done += 1;
        }
    }
}

fn look(watch: &Watch, name: &'static str, done: u64, of: u64) {
    if done.is_multiple_of(WATCHED) {
        watch(name, done as f64 / of as f64, "");
    }
}
