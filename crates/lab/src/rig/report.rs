//! What was measured.

use super::request::RigRequest;
use crate::comparators::{Stated, listed};
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
    /// Requests that took two milliseconds at most, per cent.
    pub within_2_ms_per_cent: f64,
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
    /// What the system goes by, with whose values these are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<Stated>,
}

impl RigParameters {
    /// The same without what was stated, which an experiment tells once for all its jobs.
    pub(crate) fn alone(&self) -> Self {
        Self {
            stated: Vec::new(),
            ..self.clone()
        }
    }

    /// In a line.
    pub(crate) fn line(&self) -> String {
        let RigRequest {
            hosts,
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
            "{}; overwritten {passes} x before; 1/{scale}, seed {seed}; {:.2} GiB for hosts; {}",
            hosts.line(),
            self.user_bytes as f64 / (1_u64 << 30) as f64,
            made_of.join(", ")
        )
    }
}

/// Of one job of a file, with all its clones.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct JobReport {
    /// What the file calls it.
    pub name: String,
    /// From the opening of the window to the end of its last request.
    pub virtual_ns: u64,
    /// Reads.
    pub reads: Option<Way>,
    /// Writes.
    pub writes: Option<Way>,
}

/// What was seen while jobs ran side by side.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Window {
    /// Its length, nanoseconds of virtual time.
    pub virtual_ns: u64,
    /// True if it was closed before the jobs of a file had ended, since there were so many requests.
    pub is_cut: bool,
    /// True if no request ended in it: nothing was measured.
    pub is_empty: bool,
    /// Of an open loop of a mix, what was asked for a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_iops: Option<u64>,
    /// Of a loop that has them, bursts that began in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts: Option<u64>,
    /// Reads.
    pub reads: Option<Way>,
    /// Writes.
    pub writes: Option<Way>,
    /// The same of each job of a file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobReport>,
    /// What the fast tier did.
    pub fast: Option<TierReport>,
    /// What the dense tier did.
    pub dense: Option<TierReport>,
    /// Bytes programmed in the dense tier's media by bytes that hosts wrote.
    pub waf_total: Option<f64>,
    /// What the system's software counted in the window.
    pub counters: BTreeMap<&'static str, u64>,
}

impl Window {
    /// Requests a second.
    #[must_use]
    pub fn iops(&self) -> u64 {
        let ways = [&self.reads, &self.writes];
        let iops = ways.map(|way| way.as_ref().map_or(0, |way| way.iops));
        iops.iter().sum()
    }

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
}

/// What a smaller rig is not, under skew.
const TOO_SMALL: &str = "what has a log is not the same at a fraction of its size under skew: docs/lab.md, Size of a rig";

/// What was measured.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct RigReport {
    /// What was run.
    pub parameters: RigParameters,
    /// What was measured before, one after the other: groups of a file, the closed loop of which an open
    /// one is a share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Window>,
    /// What was measured last.
    #[serde(flatten)]
    pub window: Window,
}

impl RigReport {
    /// True if the same system at `--scale 1` may do otherwise by more than 5 %.
    fn is_too_small(&self) -> bool {
        let request = &self.parameters.request;
        request.scale > 1 && request.system.has_log() && request.hosts.is_skewed()
    }

    /// A table for people.
    ///
    /// # Panics
    /// Never: a string can grow.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table(String::new());
        table.line("system", &self.parameters.request.system.to_string());
        for (name, value) in &self.parameters.made_of {
            table.line(name, value);
        }
        if self.is_too_small() {
            table.line("size", TOO_SMALL);
        }
        for window in &self.earlier {
            table.window(window);
            table.line("then", "");
        }
        table.window(&self.window);
        table.line("parameters", "");
        table.0 + &listed(&self.parameters.stated)
    }
}

/// Names and values, line by line.
struct Table(String);

impl Table {
    fn line(&mut self, name: &str, value: &str) {
        let line = format!("{name:<18} {value}");
        writeln!(self.0, "{}", line.trim_end()).expect("a string can grow");
    }

    fn window(&mut self, window: &Window) {
        if let Some(iops) = window.offered_iops {
            self.line("offered", &format!("{iops} a second"));
        }
        if let Some(bursts) = window.bursts {
            self.line("bursts", &bursts.to_string());
        }
        self.ways("", &window.reads, &window.writes);
        if window.is_empty {
            self.line("nothing measured", "no request ended in the window");
        }
        for job in &window.jobs {
            self.ways(&job.name, &job.reads, &job.writes);
            if !window.is_empty && job.reads.is_none() && job.writes.is_none() {
                let what = format!("no request of {} ended in the window", job.name);
                self.line("nothing measured", &what);
            }
        }
        for (name, tier) in [("fast tier", &window.fast), ("dense tier", &window.dense)] {
            let Some(tier) = tier else { continue };
            let times = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
            let value = format!(
                "{} drives, written {} times what hosts wrote, waf_device {}",
                tier.drives,
                times(tier.written_per_host_byte),
                times(tier.waf_device)
            );
            self.line(name, &value);
        }
        if window.is_cut {
            self.line(
                "cut",
                "by --requests, before the jobs of the file had ended",
            );
        }
    }

    /// Both directions, of all jobs or of one.
    fn ways(&mut self, job: &str, reads: &Option<Way>, writes: &Option<Way>) {
        for (direction, way) in [("reads", reads), ("writes", writes)] {
            let Some(way) = way else { continue };
            let rate = way.bytes_per_s as f64 / 1e6;
            let name = if job.is_empty() {
                direction.to_owned()
            } else {
                format!("{direction} of {job}")
            };
            self.line(
                &name,
                &format!("{} a second, {rate:.1} MB a second", way.iops),
            );
            let micros = |ns: u64| ns as f64 / 1e3;
            let latency = &way.latency;
            let mut value = format!("mean {:.1}", micros(latency.mean_ns));
            for (name, ns) in latency.percentiles() {
                write!(value, ", {name} {:.1}", micros(ns)).expect("a string can grow");
            }
            let within = way.within_2_ms_per_cent;
            write!(value, " us; {within:.2} % within 2 ms").expect("a string can grow");
            self.line("", &value);
        }
    }
}
