//! Options of `varve bench` about the pool in memory.
//!
//! Each is absent if it was not given, so that it can be refused for another target.

use crate::bench::PlanRequest;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// Over what these options stand.
pub(super) const POOL: &str = "Pool of `ram:`";

/// The pool that is measured.
#[derive(Args)]
pub(super) struct PoolOptions {
    /// Dense capacity that is not exported, per cent of its raw data blocks [default: 20]
    #[arg(long, help_heading = POOL, value_parser = clap::value_parser!(u32).range(5..=80))]
    over_provision: Option<u32>,
    /// Size of the fast tier, per cent of the dense tier [default: 6]
    #[arg(long, help_heading = POOL, value_parser = clap::value_parser!(u32).range(1..=100))]
    fast_tier: Option<u32>,
    /// Reactors, each on a thread of its own: at most as many as processors. Of several the second half
    /// takes the load, with --iodepth each, and the others move what was written [default: 1]
    #[arg(long, help_heading = POOL, value_parser = parse_cores)]
    cores: Option<u16>,
    /// Protection of the fast tier (the dense tier is always 4+1) [default: none]
    #[arg(long, help_heading = POOL, value_enum)]
    protect: Option<Protect>,
    /// Leaves of the map that the cache holds, per cent of all [default: 100]
    #[arg(long, help_heading = POOL, value_parser = clap::value_parser!(u32).range(1..=100))]
    map_cache: Option<u32>,
    /// Blocks are symbols of 8 bytes, and the dense tier has no parity: the engine's cost without
    /// moving data
    #[arg(long, help_heading = POOL)]
    elided: bool,
    /// Long runs of writes in order go through the fast tier like all others
    #[arg(long, help_heading = POOL)]
    no_bypass: bool,
    /// Times the user data are overwritten, at least, before the window opens [default: 2]
    #[arg(long, help_heading = POOL, value_parser = parse_times)]
    warm_up: Option<f64>,
    /// Seconds after which an engine that is still not in steady state counts as failed
    /// [default: 100]
    #[arg(long, help_heading = POOL)]
    warm_up_max: Option<u64>,
}

/// How many times something is overwritten.
///
/// # Errors
/// No number from 0 to 1000.
pub(super) fn parse_times(text: &str) -> Result<f64, String> {
    let times = text.parse::<f64>().ok();
    let times = times.filter(|times| (0.0..=1000.0).contains(times));
    times.ok_or_else(|| "a number of times from 0 to 1000".to_owned())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Protect {
    None,
    Mirror,
}

impl PoolOptions {
    /// Names of those that were given, in the help's order.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--over-provision", self.over_provision.is_some()),
            ("--fast-tier", self.fast_tier.is_some()),
            ("--cores", self.cores.is_some()),
            ("--protect", self.protect.is_some()),
            ("--map-cache", self.map_cache.is_some()),
            ("--elided", self.elided),
            ("--no-bypass", self.no_bypass),
            ("--warm-up", self.warm_up.is_some()),
            ("--warm-up-max", self.warm_up_max.is_some()),
        ];
        let given = all.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name).collect()
    }

    /// A pool for so much user data, written and read in operations of `io_bytes`.
    pub(super) fn plan(&self, user_bytes: u64, io_bytes: u64) -> PlanRequest {
        PlanRequest {
            user_bytes,
            over_provision: self.over_provision.unwrap_or(20),
            fast_per_cent: self.fast_tier.unwrap_or(6),
            is_mirrored: self.protect == Some(Protect::Mirror),
            map_cache: self.map_cache.unwrap_or(100),
            io_bytes,
            cores: self.cores.unwrap_or(1),
            is_elided: self.elided,
            may_bypass: !self.no_bypass,
        }
    }

    /// Times the user data are overwritten before the window opens.
    pub(super) fn overwrites(&self) -> f64 {
        self.warm_up.unwrap_or(2.0)
    }

    /// How long that may take.
    pub(super) fn warm_up_max(&self) -> Duration {
        Duration::from_secs(self.warm_up_max.unwrap_or(100))
    }
}

/// Reactors: each needs a processor, because one that is kept waiting keeps others waiting.
fn parse_cores(text: &str) -> Result<u16, String> {
    let most = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match text.parse() {
        Ok(cores @ 1..) if usize::from(cores) <= most => Ok(cores),
        _ => Err(format!(
            "a number from 1 to {most}, the processors there are"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_those_there_are() {
        assert_eq!(parse_cores("1"), Ok(1));
        assert!(parse_cores("0").is_err());
        assert!(parse_cores("60000").is_err());
        assert!(parse_cores("two").is_err());
    }
}
