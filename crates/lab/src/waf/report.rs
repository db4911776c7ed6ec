//! What a run found, for people and programs.

use super::policies::Policy;
use super::request::{Sizes, WafRequest};
use super::theory::uniform_waf;
use super::tiers::Sums;
use super::workload::Workload;
use crate::comparators::{self, Stated, TIERS};
use serde::Serialize;
use std::fmt::Write;
use varve_units::BLOCK_BYTES;

/// What was run, as it was run.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Parameters {
    workload: Workload,
    policy: Policy,
    seed: u64,
    /// Dense blocks that are not exported, per cent of all.
    over_provision_per_cent: f64,
    /// Fast tier, per cent of the user's blocks.
    fast_tier_per_cent: f64,
    groups: u32,
    /// What the policy empties as a whole, and how many there are.
    units: u32,
    unit_blocks: u32,
    dense_blocks: u64,
    fast_blocks: u64,
    user_blocks: u64,
    /// Ranks of Zipf's law for each block.
    ranks_per_block: u32,
    /// Overwrites of the volume.
    warm_up: f64,
    measure: f64,
    /// How many times the user data of the drive below fit into its flash.
    device_spare: f64,
    /// What the load leaves out of what it was made from, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// What the policy, or the engine, goes by, with whose values these are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stated: Vec<Stated>,
}

impl Parameters {
    /// Sizes in a line.
    #[must_use]
    pub fn line(&self) -> String {
        let fast = match self.fast_blocks {
            0 => "no fast tier".to_owned(),
            blocks => format!("fast tier of {blocks} blocks"),
        };
        format!(
            "{} user blocks, {} % over-provisioning, {} units of {} blocks ({} groups), {fast}; {} overwrites \
             before, {} measured",
            self.user_blocks,
            self.over_provision_per_cent,
            self.units,
            self.unit_blocks,
            self.groups,
            self.warm_up,
            self.measure
        )
    }

    /// The same without what was stated, which an experiment tells once for all its jobs.
    pub(crate) fn alone(&self) -> Self {
        Self {
            stated: Vec::new(),
            ..self.clone()
        }
    }

    /// Which policy it is of.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }
}

/// Bytes the engine wrote to its fast tier beside the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bytes {
    pub(super) headers: u64,
    pub(super) leaves: u64,
    pub(super) checkpoints: u64,
}

impl Bytes {
    pub(super) const fn since(self, before: &Self) -> Self {
        Self {
            headers: self.headers - before.headers,
            leaves: self.leaves - before.leaves,
            checkpoints: self.checkpoints - before.checkpoints,
        }
    }

    const fn all(self) -> u64 {
        self.headers + self.leaves + self.checkpoints
    }
}

/// What a run found.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct WafReport {
    /// Dense-tier writes of the FTL by blocks compacted into the tier.
    pub waf_ftl: f64,
    /// Blocks written to the dense tier by blocks hosts wrote (D); neither P2L nor padding is counted.
    pub dense_writes_per_host_write: f64,
    /// Blocks written to the fast tier by blocks hosts wrote (F).
    pub fast_writes_per_host_write: f64,
    /// All bytes written to the fast tier by bytes hosts wrote; models have no metadata there.
    pub fast_bytes_per_host_byte: Option<f64>,
    /// Bytes programmed by the drive below by bytes written to it. `None` if nothing was.
    pub waf_device: Option<f64>,
    /// Blocks programmed by the drive below by blocks hosts wrote: D times `waf_device`, P2L and padding counted.
    pub flash_writes_per_host_write: Option<f64>,
    /// `waf_ftl` times `waf_device`, P2L counted, padding not.
    pub waf_total: Option<f64>,
    /// What uniform writes cost at least in units of any size; for uniform writes without fast tier.
    pub waf_theory: Option<f64>,
    /// Blocks that hosts wrote in the window.
    pub host_blocks: u64,
    /// Of them reached the dense tier; were written there again.
    pub compacted_blocks: u64,
    /// See `compacted_blocks`.
    pub collected_blocks: u64,
    /// What was run.
    pub parameters: Parameters,
}

impl WafReport {
    pub(super) fn new(
        request: &WafRequest,
        sizes: &Sizes,
        sums: &Sums,
        metadata_per_block: f64,
    ) -> Self {
        let waf_ftl = share(sums.compacted + sums.collected, sums.compacted);
        let waf_device = sums.device.waf_device();
        let waf_total = waf_device.map(|device| waf_ftl * (1.0 + metadata_per_block) * device);
        let flash = share(sums.device.media_bytes, sums.host * BLOCK_BYTES);
        let physical = sizes.dense() as f64 / sizes.user as f64;
        let is_plain = request.workload == Workload::Uniform && sizes.fast == 0;
        Self {
            waf_ftl: rounded(waf_ftl),
            dense_writes_per_host_write: rounded(share(sums.compacted + sums.collected, sums.host)),
            fast_writes_per_host_write: rounded(share(sums.fast, sums.host)),
            fast_bytes_per_host_byte: None,
            waf_device: waf_device.map(rounded),
            flash_writes_per_host_write: waf_device.map(|_| rounded(flash)),
            waf_total: waf_total.map(rounded),
            waf_theory: is_plain.then(|| rounded(uniform_waf(physical))),
            host_blocks: sums.host,
            compacted_blocks: sums.compacted,
            collected_blocks: sums.collected,
            parameters: Parameters {
                workload: request.workload.clone(),
                policy: request.policy,
                seed: request.seed,
                over_provision_per_cent: request.over_provision,
                fast_tier_per_cent: request.fast_tier,
                groups: request.groups,
                units: sizes.units,
                unit_blocks: sizes.unit_blocks,
                dense_blocks: sizes.dense(),
                fast_blocks: sizes.fast,
                user_blocks: sizes.user,
                ranks_per_block: request.ranks_per_block,
                warm_up: request.warm_up,
                measure: request.measure,
                device_spare: TIERS.spare_millionths as f64 / 1e6,
                notes: request.workload.notes().to_vec(),
                stated: comparators::of_policy(request),
            },
        }
    }

    /// The same, told what else was written to the fast tier.
    pub(super) fn with_fast_bytes(mut self, bytes: Bytes) -> Self {
        let beside = share(bytes.all(), self.host_blocks * BLOCK_BYTES);
        self.fast_bytes_per_host_byte = Some(rounded(self.fast_writes_per_host_write + beside));
        self
    }

    /// The same, told what the engine's pool is made of.
    pub(super) fn stating(mut self, more: Vec<Stated>) -> Self {
        self.parameters.stated.extend(more);
        self
    }

    /// A table for people.
    ///
    /// # Panics
    /// Never: a string can grow.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        let mut line = |name: &str, value: String| {
            writeln!(table, "{}", format!("{name:<28} {value}").trim_end())
                .expect("a string can grow");
        };
        let of = &self.parameters;
        line("policy", of.policy.to_string());
        line("workload", format!("{}, seed {}", of.workload, of.seed));
        let dense = format!(
            "{} blocks in {} units of {}, {} % not exported",
            of.dense_blocks, of.units, of.unit_blocks, of.over_provision_per_cent
        );
        line("dense tier", dense);
        line("fast tier", format!("{} blocks", of.fast_blocks));
        line("host writes", self.host_blocks.to_string());
        line("waf_ftl", format!("{:.3}", self.waf_ftl));
        if let Some(theory) = self.waf_theory {
            line("  formula", format!("{theory:.3}"));
        }
        let per_host = self.dense_writes_per_host_write;
        line("dense writes/host write (D)", format!("{per_host:.3}"));
        let per_host = self.fast_writes_per_host_write;
        line("fast writes/host write (F)", format!("{per_host:.3}"));
        if let Some(bytes) = self.fast_bytes_per_host_byte {
            line("fast bytes/host byte", format!("{bytes:.3}"));
        }
        let device =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        line("waf_device", device(self.waf_device));
        line("waf_total", device(self.waf_total));
        line(
            "flash writes/host write",
            device(self.flash_writes_per_host_write),
        );
        for note in &of.notes {
            line("note", note.clone());
        }
        line("parameters", String::new());
        table += &comparators::listed(&of.stated);
        table
    }
}

fn share(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}

/// Four decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
