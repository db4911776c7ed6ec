//! What was measured.

use super::request::RigRequest;
use crate::drive::Latency;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Of one direction.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Way {
    /// Requests of the window.
    pub requests: u64,
    /// A second.
    pub iops: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// How long they took.
    pub latency: Latency,
}

/// Of one tier.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct TierReport {
    /// Drives.
    pub drives: u32,
    /// Read from them in the window.
    pub read_bytes: u64,
    /// Written to them in the window.
    pub written_bytes: u64,
    /// Read from their media by themselves in the window: to collect, and to complete IUs.
    pub moved_bytes: u64,
    /// The same by bytes that hosts wrote.
    pub written_per_host_byte: Option<f64>,
    /// Bytes their media were programmed with by bytes written to them.
    pub waf_device: Option<f64>,
}

/// What was run.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct RigParameters {
    /// What was asked for.
    pub request: RigRequest,
    /// What the system is made of.
    pub made_of: BTreeMap<&'static str, String>,
    /// Bytes hosts can address.
    pub user_bytes: u64,
}

impl RigParameters {
    /// In a line.
    pub(crate) fn line(&self) -> String {
        let RigRequest {
            mix,
            passes,
            scale,
            seed,
            ..
        } = &self.request;
        let made_of: Vec<_> = self
            .made_of
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        format!(
            "{} jobs of {} requests, {} KiB, {} % reads, {:?}; overwritten {passes} times before; \
             1/{scale}, seed {seed}; {:.2} GiB for hosts; {}",
            mix.jobs,
            mix.depth,
            mix.bytes >> 10,
            mix.reads_per_cent,
            mix.law,
            self.user_bytes as f64 / (1_u64 << 30) as f64,
            made_of.join(", ")
        )
    }
}

/// What was measured.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct RigReport {
    /// What was run.
    pub parameters: RigParameters,
    /// Length of the window, nanoseconds of virtual time.
    pub virtual_ns: u64,
    /// Reads.
    pub reads: Option<Way>,
    /// Writes.
    pub writes: Option<Way>,
    /// What the fast tier did.
    pub fast: Option<TierReport>,
    /// What the dense tier did.
    pub dense: Option<TierReport>,
    /// Bytes programmed in the dense tier's media by bytes that hosts wrote.
    pub waf_total: Option<f64>,
    /// What the system's software counted in the window.
    pub counters: BTreeMap<&'static str, u64>,
}

impl RigReport {
    /// Bytes a second that hosts wrote.
    #[must_use]
    pub fn written_per_s(&self) -> u64 {
        self.writes.as_ref().map_or(0, |way| way.bytes_per_s)
    }

    /// Bytes a second that hosts read.
    #[must_use]
    pub fn read_per_s(&self) -> u64 {
        self.reads.as_ref().map_or(0, |way| way.bytes_per_s)
    }

    /// A table for people.
    ///
    /// # Panics
    /// Never: a string can grow.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        let mut line = |name: &str, value: String| {
            writeln!(table, "{name:<18} {value}").expect("a string can grow");
        };
        line("system", self.parameters.request.system.to_string());
        for (name, value) in &self.parameters.made_of {
            line(name, value.clone());
        }
        for (name, way) in [("reads", &self.reads), ("writes", &self.writes)] {
            let Some(way) = way else { continue };
            let rate = way.bytes_per_s as f64 / 1e6;
            line(
                name,
                format!("{} a second, {rate:.1} MB a second", way.iops),
            );
            let micros = |ns: u64| ns as f64 / 1e3;
            let latency = format!(
                "mean {:.1}, median {:.1}, 99 % {:.1}, 99.9 % {:.1} us",
                micros(way.latency.mean_ns),
                micros(way.latency.p50_ns),
                micros(way.latency.p99_ns),
                micros(way.latency.p999_ns)
            );
            line("", latency);
        }
        for (name, tier) in [("fast tier", &self.fast), ("dense tier", &self.dense)] {
            let Some(tier) = tier else { continue };
            let times = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
            line(
                name,
                format!(
                    "{} drives, written {} times what hosts wrote, waf_device {}",
                    tier.drives,
                    times(tier.written_per_host_byte),
                    times(tier.waf_device)
                ),
            );
        }
        table
    }
}
