//! What the experiment found, for people and programs.
//!
//! Quantities are integers in the unit their name ends with. Those of a run at 1/N are the run's
//! own; those under `extrapolated` are N times as much and were not measured.

use crate::media::{Kind, Traffic};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::published::{Published, published};
use crate::recovery::{Between, Fill, Request};
use serde::Serialize;
use std::fmt::Write;
use varve_format::{CHUNK_ENTRY_BYTES, GROUP_ENTRY_BYTES};
use varve_ftl::{RecoveryReport, StartPhase};
use varve_units::{BLOCK_BYTES, Nanos};

/// The pool and the load, so that a result tells what it is of.
#[derive(Clone, Serialize, Debug)]
pub struct Setup {
    capacity_bytes: u64,
    scale: u64,
    seed: u64,
    filled: bool,
    in_flight: u32,
    over_provision_per_cent: u32,
    dense_bytes: u64,
    fast_bytes: u64,
    chunk_bytes: u64,
    chunks: u32,
    group_bytes: u64,
    groups: u32,
    slices: u16,
    leaves: u64,
    delta_nodes: u64,
    images: u64,
    checkpoint_window: u32,
    checkpoint_bytes_max: u64,
    checkpoint_records_max: u64,
}

/// The measured window.
#[derive(Clone, Serialize, Debug)]
pub struct Window {
    host_blocks: u64,
    /// Fast-tier bytes for each byte the host wrote (F), and what it consists of.
    fast_per_host: f64,
    fast_data_per_host: f64,
    fast_headers_per_host: f64,
    fast_leaves_per_host: f64,
    fast_checkpoints_per_host: f64,
    /// Dense blocks written for each block the host wrote (D), P2L and padding not counted.
    dense_per_host: f64,
    compacted_per_host: f64,
    collected_per_host: f64,
    leaf_merges: u64,
    leaf_reads: u64,
    checkpoints: u64,
    /// Bytes of all parts and commits, by checkpoint.
    checkpoint_bytes: u64,
    /// Fast-tier bytes from commit to commit.
    interval_bytes: u64,
    cpu_ns_per_write: u64,
    writes_per_cpu_s: u64,
    #[serde(skip)]
    is_collecting: bool,
}

/// The start after the loss of power.
#[derive(Clone, Serialize, Debug)]
pub struct Restart {
    batches: u64,
    records: u64,
    read_bytes: u64,
    reads: u64,
    written_bytes: u64,
    bandwidth_bytes_per_s: u64,
    /// What the bytes take at that bandwidth.
    device_ns: u64,
    /// Measured, the model of the fast tier apart.
    cpu_ns: u64,
    /// What the model of the fast tier took.
    model_cpu_ns: u64,
    phases: Vec<PhaseCost>,
}

/// Name of the phase whose cost does not depend on the scale.
const SCAN: &str = "scan";

/// One phase of a start.
#[derive(Clone, Serialize, Debug)]
pub struct PhaseCost {
    name: &'static str,
    /// The model of the fast tier apart.
    cpu_ns: u64,
    model_cpu_ns: u64,
    read_bytes: u64,
    reads: u64,
}

/// N times what a run at 1/N found, but for what does not depend on N. Upper bounds: parts of
/// checkpoints have heads and padding that do not grow either.
#[derive(Clone, Serialize, Debug)]
pub struct Extrapolated {
    checkpoint_bytes: u64,
    interval_bytes: u64,
    start_read_bytes: u64,
    start_device_ns: u64,
    start_cpu_ns: u64,
    dram_bytes: u64,
    dram_limit_bytes: u64,
}

/// The result.
#[derive(Clone, Serialize, Debug)]
pub struct Report {
    setup: Setup,
    create_cpu_ns: u64,
    window: Window,
    memory: Memory,
    restart: Restart,
    /// Absent in a run at full size: nothing is extrapolated then.
    extrapolated: Option<Extrapolated>,
    /// Of this capacity, if there is anything.
    published: Option<Published>,
}

impl Window {
    pub(crate) fn new(writes: u64, between: &Between) -> Self {
        let host = writes * BLOCK_BYTES;
        let of = |kind| ratio(between.fast_of(kind), host);
        let (compacted, collected) = (
            between.counted("compacted_blocks") + between.counted("bypassed_blocks"),
            between.counted("gc_blocks"),
        );
        let commits = between.fast.commits.max(1);
        Self {
            host_blocks: writes,
            fast_per_host: ratio(between.fast.all_written(), host),
            fast_data_per_host: of(Kind::Data),
            fast_headers_per_host: of(Kind::Headers),
            fast_leaves_per_host: of(Kind::Leaves),
            fast_checkpoints_per_host: of(Kind::Checkpoints),
            dense_per_host: ratio(compacted + collected, writes),
            compacted_per_host: ratio(compacted, writes),
            collected_per_host: ratio(collected, writes),
            leaf_merges: between.counted("leaf_merges"),
            leaf_reads: between.counted("leaf_reads"),
            checkpoints: between.fast.commits,
            checkpoint_bytes: between.fast_of(Kind::Checkpoints) / commits,
            interval_bytes: between.fast.all_written() / commits,
            cpu_ns_per_write: between.cpu.0 / writes.max(1),
            writes_per_cpu_s: (u128::from(writes) * 1_000_000_000
                / u128::from(between.cpu.0.max(1))) as u64,
            is_collecting: collected > 0 && between.dense.all_written() > 0,
        }
    }
}

impl Restart {
    pub(crate) fn new(
        found: &RecoveryReport,
        traffic: &Traffic,
        cpu: Nanos,
        bandwidth: u64,
        phases: Vec<PhaseCost>,
    ) -> Self {
        Self {
            batches: found.batches,
            records: found.records,
            read_bytes: traffic.read,
            reads: traffic.reads,
            written_bytes: traffic.all_written(),
            bandwidth_bytes_per_s: bandwidth,
            device_ns: device_ns(traffic.read, bandwidth),
            cpu_ns: cpu.since(traffic.model_cpu).0,
            model_cpu_ns: traffic.model_cpu.0,
            phases,
        }
    }
}

impl PhaseCost {
    pub(crate) fn new(phase: StartPhase, cpu: Nanos, traffic: &Traffic) -> Self {
        Self {
            name: match phase {
                StartPhase::Scan => SCAN,
                StartPhase::Walk => "walk",
                StartPhase::Load => "load",
                StartPhase::Redo => "redo",
                StartPhase::Commit => "commit",
            },
            cpu_ns: cpu.since(traffic.model_cpu).0,
            model_cpu_ns: traffic.model_cpu.0,
            read_bytes: traffic.read,
            reads: traffic.reads,
        }
    }
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        request: &Request,
        created: Nanos,
        window: Window,
        memory: Memory,
        restart: Restart,
    ) -> Self {
        let scale = plan.request.scale;
        let grows = |of: fn(&PhaseCost) -> u64| -> u64 {
            let phases = restart.phases.iter();
            // There are as many chunks at every scale.
            phases
                .map(|phase| of(phase) * if phase.name == SCAN { 1 } else { scale })
                .sum()
        };
        let full = memory.grown(scale);
        let read_bytes = grows(|phase| phase.read_bytes);
        let tables = u64::from(plan.geometry.chunks) * CHUNK_ENTRY_BYTES as u64
            + u64::from(plan.geometry.groups) * GROUP_ENTRY_BYTES as u64;
        let extrapolated = (scale > 1).then(|| Extrapolated {
            checkpoint_bytes: window.checkpoint_bytes.saturating_sub(tables) * scale + tables,
            interval_bytes: window.interval_bytes * scale,
            start_read_bytes: read_bytes,
            start_device_ns: device_ns(read_bytes, restart.bandwidth_bytes_per_s),
            start_cpu_ns: grows(|phase| phase.cpu_ns),
            dram_bytes: full.total_bytes,
            dram_limit_bytes: full.limit_bytes,
        });
        Self {
            setup: Setup::new(plan, request),
            create_cpu_ns: created.0,
            window,
            memory,
            restart,
            extrapolated,
            published: published(plan.request.capacity),
        }
    }

    /// Why the result does not count, if it does not.
    #[must_use]
    pub const fn shortcoming(&self) -> Option<&'static str> {
        let memory = &self.memory;
        let (taken, limit) = match &self.extrapolated {
            Some(full) => (full.dram_bytes, full.dram_limit_bytes),
            None => (memory.total_bytes, memory.limit_bytes),
        };
        if taken > limit {
            Some("the engine's structures take more memory than the limit")
        } else if self.setup.filled && !self.window.is_collecting {
            Some("no garbage collection in the measured window: this is not steady state")
        } else if self.window.checkpoints < self.setup.checkpoint_window as u64 {
            Some("fewer checkpoints in the measured window than hold the full state")
        } else {
            None
        }
    }

    /// Bytes that a start of the full pool reads, at most.
    #[must_use]
    pub fn start_read_bytes(&self) -> u64 {
        self.extrapolated
            .as_ref()
            .map_or(self.restart.read_bytes, |full| full.start_read_bytes)
    }

    /// Bytes written to the fast tier for each byte the host wrote.
    pub(crate) const fn fast_per_host(&self) -> f64 {
        self.window.fast_per_host
    }

    /// Memory of the full pool.
    pub(crate) fn full_memory(&self) -> Memory {
        self.memory.grown(self.setup.scale)
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        let mut line = |name: &str, value: String| {
            writeln!(table, "{name:<30} {value}").expect("a string can grow");
        };
        let setup = &self.setup;
        line("capacity", bytes(setup.capacity_bytes));
        let scale = match setup.scale {
            1 => "1: nothing below is extrapolated".to_owned(),
            scale => format!("1/{scale}: sizes and times are those of the scaled pool"),
        };
        line("scale", scale);
        let units = format!(
            "{} chunks of {}, {} groups of {}, {} leaves",
            setup.chunks,
            bytes(setup.chunk_bytes),
            setup.groups,
            bytes(setup.group_bytes),
            setup.leaves
        );
        line("pool", units);
        line("create, CPU", seconds(self.create_cpu_ns));
        self.window_lines(&mut line);
        self.memory_lines(&mut line);
        self.restart_lines(&mut line);
        if let Some(full) = &self.extrapolated {
            let name = "EXTRAPOLATED, at most";
            line(name, format!("x {}, chunks and units apart", setup.scale));
            line("  checkpoint", bytes(full.checkpoint_bytes));
            line("  interval", bytes(full.interval_bytes));
            line("  start reads", bytes(full.start_read_bytes));
            line("  start, device", seconds(full.start_device_ns));
            line("  start, CPU", seconds(full.start_cpu_ns));
            let dram = format!(
                "{} of {}",
                bytes(full.dram_bytes),
                bytes(full.dram_limit_bytes)
            );
            line("  memory", dram);
        }
        self.published_lines(&mut line);
        table
    }

    fn published_lines(&self, line: &mut impl FnMut(&str, String)) {
        let Some(other) = &self.published else { return };
        let how = "what the design computes by hand, D 2.28".to_owned();
        line("WANTED for this capacity", how);
        line(
            "  fast bytes/host byte (F)",
            other.fast_per_host.to_string(),
        );
        line("  checkpoint", bytes(other.checkpoint_bytes));
        line("  interval", bytes(other.interval_bytes));
        line("  start reads", bytes(other.start_read_bytes));
        line("  start, device and CPU", seconds(other.start_ns));
        line("  start, at most", seconds(other.target_ns));
        line(
            "  start, CSAL as open-sourced",
            seconds(other.csal_start_ns),
        );
    }

    fn window_lines(&self, line: &mut impl FnMut(&str, String)) {
        let window = &self.window;
        line("fast bytes/host byte (F)", window.fast_per_host.to_string());
        line("  data", window.fast_data_per_host.to_string());
        line(
            "  headers and moves",
            window.fast_headers_per_host.to_string(),
        );
        line("  leaves", window.fast_leaves_per_host.to_string());
        line(
            "  checkpoints",
            window.fast_checkpoints_per_host.to_string(),
        );
        let dense = format!(
            "{} (compaction {}, collection {})",
            window.dense_per_host, window.compacted_per_host, window.collected_per_host
        );
        line("dense writes/host write (D)", dense);
        line("checkpoint", bytes(window.checkpoint_bytes));
        line("checkpoint interval", bytes(window.interval_bytes));
        line("checkpoints in the window", window.checkpoints.to_string());
        line("writes/CPU second", window.writes_per_cpu_s.to_string());
    }

    fn memory_lines(&self, line: &mut impl FnMut(&str, String)) {
        let memory = &self.memory;
        let (total, limit) = (bytes(memory.total_bytes), bytes(memory.limit_bytes));
        // Buffers do not become smaller with the scale: a limit that does says nothing.
        line(
            "memory",
            match self.extrapolated {
                Some(_) => format!("{total}; the limit is for the full pool, below"),
                None => format!("{total} of {limit}"),
            },
        );
        let per_leaf = format!(
            "{} ({} deltas, {} per leaf)",
            bytes(memory.deltas_bytes),
            memory.delta_count,
            memory.deltas_per_leaf
        );
        line("  deltas", per_leaf);
        line("  images", bytes(memory.images_bytes));
        line("  leaf heads", bytes(memory.leaf_heads_bytes));
        line("  lists", bytes(memory.lists_bytes));
        line("  live bits", bytes(memory.bitmaps_bytes));
        line("  lifetimes", bytes(memory.lifetimes_bytes));
        line("  unit tables", bytes(memory.unit_tables_bytes));
        line("  part tables", bytes(memory.part_tables_bytes));
        line("  buffers (bound)", bytes(memory.buffers_bytes));
    }

    fn restart_lines(&self, line: &mut impl FnMut(&str, String)) {
        let restart = &self.restart;
        let reads = format!("{} in {} reads", bytes(restart.read_bytes), restart.reads);
        line("start reads", reads);
        let redone = format!("{} records in {} batches", restart.records, restart.batches);
        line("start redoes", redone);
        line("start writes", bytes(restart.written_bytes));
        let device = format!(
            "{} at {}/s",
            seconds(restart.device_ns),
            bytes(restart.bandwidth_bytes_per_s)
        );
        line("start, device", device);
        let model = seconds(restart.model_cpu_ns);
        let cpu = format!("{}, {model} of the model apart", seconds(restart.cpu_ns));
        line("start, CPU", cpu);
        for phase in &restart.phases {
            let read = bytes(phase.read_bytes);
            let cost = format!("{}, {read} in {} reads", seconds(phase.cpu_ns), phase.reads);
            line(&format!("  {}", phase.name), cost);
        }
    }
}

impl Setup {
    fn new(plan: &Plan, request: &Request) -> Self {
        let (geometry, config) = (&plan.geometry, &plan.config);
        Self {
            capacity_bytes: plan.request.capacity,
            scale: plan.request.scale,
            seed: request.seed,
            filled: request.fill != Fill::Nothing,
            in_flight: request.depth,
            over_provision_per_cent: plan.request.over_provision,
            dense_bytes: plan.dense_bytes(),
            fast_bytes: plan.fast_bytes(),
            chunk_bytes: geometry.chunk_bytes,
            chunks: geometry.chunks,
            group_bytes: u64::from(geometry.group_blocks) * BLOCK_BYTES,
            groups: geometry.groups,
            slices: geometry.slices,
            leaves: plan.leaves(),
            delta_nodes: config.map.delta_nodes as u64,
            images: config.map.images as u64,
            checkpoint_window: config.window,
            checkpoint_bytes_max: config.checkpoint_bytes,
            checkpoint_records_max: config.checkpoint_records,
        }
    }
}

/// What reading bytes takes at a bandwidth.
fn device_ns(bytes: u64, bandwidth: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bandwidth)) as u64
}

/// Four decimals of `count / of`.
pub(crate) fn ratio(count: u64, of: u64) -> f64 {
    (count as f64 / of.max(1) as f64 * 1e4).round() / 1e4
}

fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        _ if count >= 1e12 => format!("{:.2} TB", count / 1e12),
        _ if count >= 1e9 => format!("{:.2} GB", count / 1e9),
        _ => format!("{:.2} MB", count / 1e6),
    }
}

fn seconds(nanos: u64) -> String {
    format!("{:.3} s", nanos as f64 / 1e9)
}
