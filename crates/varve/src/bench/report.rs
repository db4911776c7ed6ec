//! What a benchmark found.

use super::plan::Plan;
use super::rig::Written;
use super::run::Load;
use super::standing::Window;
use crate::cli::size;
use crate::envelope;
use crate::load::{Direction, Order, Phase, Tally};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use varve_units::{BLOCK_BYTES, Nanos};

/// Everything that is compared between the two ends of the window.
pub(super) struct Moment {
    pub(super) time: Nanos,
    pub(super) cpu: Nanos,
    pub(super) counters: BTreeMap<&'static str, u64>,
    pub(super) written: Written,
}

#[derive(Serialize)]
struct LatencyNs {
    mean: u64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// The load and the pool as they were, so that a result tells what it is of.
#[derive(Serialize)]
struct Setup {
    target: String,
    rw: &'static str,
    zipf: Option<f64>,
    block_bytes: u64,
    /// Operations in flight on each core.
    in_flight: u32,
    cores: u16,
    verify: bool,
    /// Bytes that are used, and as many as were asked for, if that was said.
    user_bytes: u64,
    asked_bytes: Option<u64>,
    #[serde(flatten)]
    pool: Option<PoolSetup>,
    #[serde(flatten)]
    path: Option<PathSetup>,
}

/// A pool in this process.
#[derive(Serialize)]
struct PoolSetup {
    dense_bytes: u64,
    fast_bytes: u64,
    fast_sides: u32,
    chunk_bytes: u64,
    group_bytes: u64,
    map_images: u64,
    elided: bool,
}

/// The way to a remote namespace.
#[derive(Serialize)]
pub(super) struct PathSetup {
    pub(super) nsid: u32,
    pub(super) lba_bytes: u32,
    /// As the target gave them; none if it was away at the end.
    pub(super) io_queues: Option<u16>,
    pub(super) queue_commands: Option<u16>,
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
}

/// The result; quantities are integers in the unit their name ends with, ratios are not.
#[derive(Serialize)]
pub(crate) struct Report {
    setup: Setup,
    window_ns: u64,
    cpu_ns: u64,
    operations: u64,
    iops: u64,
    bytes_per_s: u64,
    latency_ns: LatencyNs,
    cpu_ns_per_io: u64,
    errors: u64,
    first_error: Option<String>,
    /// Blocks that were compared with what was written, the last of them after the window.
    verified_blocks: u64,
    /// Of blocks that were read unchecked, the share of zeroes, per cent; none if none was read.
    zeroes_per_cent: Option<u64>,
    /// Drives that the pool lost while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drives_lost: Vec<String>,
    /// Why the result says less than it seems to, if it does.
    shortcoming: Option<String>,
    #[serde(skip)]
    first_next: Option<&'static str>,
    #[serde(flatten)]
    engine: Option<EngineFigures>,
    #[serde(flatten)]
    path: Option<PathFigures>,
    #[serde(skip)]
    is_write: bool,
}

/// What an engine in this process did in the window.
#[derive(Serialize)]
struct EngineFigures {
    compacted_blocks: u64,
    /// Written to the dense tier without having been in the log.
    bypassed_blocks: u64,
    gc_blocks: u64,
    groups_collected: u64,
    chunks_cleaned: u64,
    checkpoints: u64,
    leaf_merges: u64,
    /// Commands that another reactor owned.
    commands_crossed: u64,
    /// Writes that were slowed down, and waits for room in the log.
    paced_writes: u64,
    admission_waits: u64,
    /// Dense data blocks written for each block the host wrote; parity and P2L not counted.
    dense_writes_per_host_write: Option<f64>,
    /// Bytes written to one side of the fast tier for each byte the host wrote: headers, moves,
    /// leaves and checkpoints included.
    fast_writes_per_host_write: Option<f64>,
    /// Bytes written to all dense drives for each byte the host wrote, parity and P2L included.
    dense_bytes_per_host_byte: Option<f64>,
    /// Share of look-ups by host reads that found their leaf in memory; of writes nobody counts them.
    map_hit_ratio: Option<f64>,
    /// Leaves of the map read from the fast tier for each block of the host's: for its look-ups, for merges, and for
    /// garbage collection.
    leaf_reads_per_host_block: f64,
    /// There is something to collect.
    #[serde(skip)]
    has_dense: bool,
}

/// Why a result says less than it seems to.
pub(crate) struct Shortcoming {
    /// A stable word for it.
    pub(crate) code: &'static str,
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) next: &'static str,
    /// The result does not count.
    pub(crate) is_failure: bool,
}

/// What happened on the way to a remote namespace.
#[derive(Serialize)]
pub(super) struct PathFigures {
    /// Associations that ended before the run did, and attempts that failed.
    pub(super) associations_lost: u64,
    /// Why the last of them.
    pub(super) last_loss: Option<String>,
}

impl Report {
    /// Of an engine in this process.
    pub(super) fn new(
        target: String,
        load: &Load,
        plan: &Plan,
        window: &Phase,
        from: &Moment,
        to: &Moment,
    ) -> Self {
        let mut setup = Setup::new(target, load, plan.user_blocks * BLOCK_BYTES);
        setup.cores = plan.config.lanes;
        setup.pool = Some(PoolSetup::new(plan));
        let engine = EngineFigures::new(load, window, from, to);
        Self {
            engine: Some(engine),
            ..Self::of_window(setup, load, window, from, to)
        }
    }

    /// Of a remote namespace.
    pub(super) fn of_remote(
        (target, user_bytes): (String, u64),
        load: &Load,
        Window { phase, from, to }: &Window,
        path: PathSetup,
        figures: PathFigures,
    ) -> Self {
        let mut setup = Setup::new(target, load, user_bytes);
        setup.path = Some(path);
        Self {
            path: Some(figures),
            ..Self::of_window(setup, load, phase, from, to)
        }
    }

    /// Of a volume whose pool is open in this process. What its drives were written is not known: others
    /// than the engine write to them too.
    pub(super) fn of_volume(
        (target, user_bytes, has_dense): (String, u64, bool),
        load: &Load,
        Window { phase, from, to }: &Window,
    ) -> Self {
        let setup = Setup::new(target, load, user_bytes);
        let engine = EngineFigures {
            fast_writes_per_host_write: None,
            dense_bytes_per_host_byte: None,
            has_dense,
            ..EngineFigures::new(load, phase, from, to)
        };
        Self {
            engine: Some(engine),
            ..Self::of_window(setup, load, phase, from, to)
        }
    }

    fn of_window(setup: Setup, load: &Load, window: &Phase, from: &Moment, to: &Moment) -> Self {
        let operations = window.done();
        let window_ns = to.time.since(from.time).0.max(1);
        let cpu_ns = to.cpu.since(from.cpu).0;
        let per_second =
            |count: u64| (u128::from(count) * 1_000_000_000 / u128::from(window_ns)) as u64;
        Self {
            setup,
            window_ns,
            cpu_ns,
            operations,
            iops: per_second(operations),
            bytes_per_s: per_second(operations * window.blocks * BLOCK_BYTES),
            latency_ns: LatencyNs::of(window),
            cpu_ns_per_io: cpu_ns / operations.max(1),
            errors: 0,
            first_error: None,
            verified_blocks: 0,
            zeroes_per_cent: None,
            drives_lost: Vec::new(),
            shortcoming: None,
            first_next: None,
            engine: None,
            path: None,
            is_write: load.direction == Direction::Write,
        }
    }

    /// Adds what came of the load.
    pub(super) fn with_tally(self, tally: Tally) -> Self {
        let zeroes = (tally.zeroes * 100).checked_div(tally.sampled);
        let first = tally.first.map(|first| (first.what, first.next));
        let (first_error, first_next) = first.unzip();
        let mut report = Self {
            errors: tally.failures,
            first_error,
            first_next,
            verified_blocks: tally.checked,
            zeroes_per_cent: zeroes,
            ..self
        };
        report.shortcoming = report.shortcoming().map(|short| short.what);
        report
    }

    /// Adds which drives the pool lost meanwhile.
    pub(super) fn with_lost(self, drives_lost: Vec<String>) -> Self {
        let mut report = Self {
            drives_lost,
            ..self
        };
        report.shortcoming = report.shortcoming().map(|short| short.what);
        report
    }

    /// Adds how many bytes were to be used.
    pub(super) fn with_asked(mut self, bytes: Option<u64>) -> Self {
        self.setup.asked_bytes = bytes;
        self
    }

    /// Why the result says less than it seems to, if it does.
    pub(crate) fn shortcoming(&self) -> Option<Shortcoming> {
        if self.errors > 0 {
            return Some(Shortcoming {
                code: "operations-failed",
                what: "operations failed".to_owned(),
                next: self.first_next.unwrap_or_default(),
                is_failure: true,
            });
        }
        if !self.drives_lost.is_empty() {
            return Some(Shortcoming {
                code: "drives-lost",
                what: format!("lost while it ran: {}", self.drives_lost.join(", ")),
                next: "varve drive list tells how they are",
                is_failure: false,
            });
        }
        match self.zeroes_per_cent {
            Some(zeroes @ 1..) => Some(Shortcoming {
                code: "zeroes-read",
                what: format!(
                    "{zeroes} % of what was read are zeroes: blocks that were never written ask no drive"
                ),
                next: "write --size first: --verify does, and so does --rw write",
                is_failure: false,
            }),
            _ => self.unsteadiness(),
        }
    }

    /// What steady state lacks. A pool in memory is made for the window and has to be in it; one that was there
    /// before goes on as it was, and a load of a small part of it may do without.
    fn unsteadiness(&self) -> Option<Shortcoming> {
        let engine = self.engine.as_ref().filter(|_| self.is_write)?;
        let lacks = if engine.chunks_cleaned + engine.bypassed_blocks == 0 {
            "compaction"
        } else if engine.has_dense && engine.groups_collected == 0 {
            "garbage collection"
        } else {
            return None;
        };
        let is_made = self.setup.pool.is_some();
        let next = match is_made {
            true => "give it a longer --runtime or a larger --warm-up",
            false => "give it a longer --runtime, or run it again: the pool goes on where it was",
        };
        Some(Shortcoming {
            code: "not-steady",
            what: format!("no {lacks} in the measured window: this is not steady state"),
            next,
            is_failure: is_made,
        })
    }

    /// As JSON, with a line end.
    pub(crate) fn json(&self) -> String {
        envelope::json("Bench", self)
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        let mut line = |name: &str, value: String| {
            writeln!(table, "{name:<28} {value}").expect("a string can grow");
        };
        let latency = &self.latency_ns;
        let setup = &self.setup;
        let zipf = setup
            .zipf
            .map_or(String::new(), |theta| format!(" zipf {theta}"));
        let load = format!(
            "{}{zipf}, {} B, {} in flight",
            setup.rw, setup.block_bytes, setup.in_flight
        );
        line("load", load);
        let used_all = size(setup.user_bytes);
        let used = match setup.asked_bytes.filter(|asked| *asked > setup.user_bytes) {
            Some(asked) => {
                let asked = size(asked);
                format!("{used_all}: there is no more, {asked} were asked for")
            }
            None => used_all.clone(),
        };
        line("user data", used);
        line("iops", self.iops.to_string());
        line("MB/s", (self.bytes_per_s / 1_000_000).to_string());
        line("CPU ns per operation", self.cpu_ns_per_io.to_string());
        let busy = ratio(self.cpu_ns * 100, self.window_ns);
        line("CPU / wall", format!("{busy:.0} %"));
        let quantiles = [
            latency.mean,
            latency.p50,
            latency.p99,
            latency.p999,
            latency.max,
        ];
        let quantiles = quantiles
            .map(|ns| format!("{:.1}", ns as f64 / 1e3))
            .join(" / ");
        line("us mean/p50/p99/p99.9/max", quantiles);
        line("errors", self.errors.to_string());
        if let Some(error) = &self.first_error {
            line("first error", error.clone());
        }
        if setup.verify {
            let blocks = self.verified_blocks;
            line(
                "blocks checked",
                format!("{blocks}, each of {used_all} at the end"),
            );
        }
        if let Some(zeroes) = self.zeroes_per_cent {
            line("zeroes read", format!("{zeroes} %"));
        }
        if let Some(engine) = &self.engine {
            engine.show(line);
        } else if let Some(path) = &self.path {
            line("associations lost", path.associations_lost.to_string());
            if let Some(loss) = &path.last_loss {
                line("last loss", loss.clone());
            }
        }
        table
    }
}

impl EngineFigures {
    fn new(load: &Load, window: &Phase, from: &Moment, to: &Moment) -> Self {
        let counted = |name: &str| {
            let at = |moment: &Moment| moment.counters.get(name).copied().unwrap_or(0);
            at(to) - at(from)
        };
        let (before, after) = (from.written, to.written);
        let is_write = load.direction == Direction::Write;
        let host_blocks = (window.done() * window.blocks).max(1);
        let per_host = |count: u64, unit: u64| is_write.then(|| ratio(count, host_blocks * unit));
        let bypassed = counted("bypassed_blocks");
        let moved = counted("compacted_blocks") + counted("gc_blocks") + bypassed;
        Self {
            compacted_blocks: counted("compacted_blocks"),
            bypassed_blocks: bypassed,
            gc_blocks: counted("gc_blocks"),
            groups_collected: counted("groups_collected"),
            chunks_cleaned: counted("chunks_cleaned"),
            checkpoints: counted("checkpoints"),
            leaf_merges: counted("leaf_merges"),
            commands_crossed: counted("commands_crossed"),
            paced_writes: counted("paced_writes"),
            admission_waits: counted("admission_waits"),
            dense_writes_per_host_write: per_host(moved, 1),
            fast_writes_per_host_write: per_host(after.fast - before.fast, BLOCK_BYTES),
            dense_bytes_per_host_byte: per_host(after.dense - before.dense, BLOCK_BYTES),
            map_hit_ratio: (!is_write).then(|| 1.0 - ratio(counted("leaf_reads"), host_blocks)),
            leaf_reads_per_host_block: ratio(counted("leaf_reads"), host_blocks),
            has_dense: true,
        }
    }

    fn show(&self, mut line: impl FnMut(&str, String)) {
        let shown = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |r| format!("{r:.3}"));
        line(
            "dense writes/host write (D)",
            shown(self.dense_writes_per_host_write),
        );
        line(
            "fast bytes/host byte (F)",
            shown(self.fast_writes_per_host_write),
        );
        line(
            "dense bytes/host byte",
            shown(self.dense_bytes_per_host_byte),
        );
        line("map hit ratio", shown(self.map_hit_ratio));
        line(
            "leaf reads/host block",
            shown(Some(self.leaf_reads_per_host_block)),
        );
        let moved = [
            ("compacted blocks", self.compacted_blocks),
            ("bypassed blocks", self.bypassed_blocks),
            ("gc blocks", self.gc_blocks),
            ("groups collected", self.groups_collected),
            ("checkpoints", self.checkpoints),
            ("leaf merges", self.leaf_merges),
            ("commands crossed", self.commands_crossed),
            ("paced writes", self.paced_writes),
            ("waits for room", self.admission_waits),
        ];
        moved
            .into_iter()
            .for_each(|(name, count)| line(name, count.to_string()));
    }
}

impl Setup {
    fn new(target: String, load: &Load, user_bytes: u64) -> Self {
        let sequential = load.order == Order::Sequential;
        Self {
            target,
            rw: match (load.direction, sequential) {
                (Direction::Read, true) => "read",
                (Direction::Write, true) => "write",
                (Direction::Read, false) => "randread",
                (Direction::Write, false) => "randwrite",
            },
            zipf: match load.order {
                Order::Zipf(theta) => Some(theta),
                Order::Sequential | Order::Uniform => None,
            },
            block_bytes: load.bytes,
            in_flight: load.in_flight,
            cores: 1,
            verify: load.verifies,
            user_bytes,
            asked_bytes: None,
            pool: None,
            path: None,
        }
    }
}

impl PoolSetup {
    fn new(plan: &Plan) -> Self {
        let geometry = &plan.geometry;
        Self {
            dense_bytes: plan.dense_bytes(),
            fast_bytes: plan.fast_bytes(),
            fast_sides: if plan.is_mirrored { 2 } else { 1 },
            chunk_bytes: geometry.chunk_bytes,
            group_bytes: u64::from(geometry.group_blocks) * BLOCK_BYTES,
            map_images: plan.config.map.images as u64,
            elided: plan.config.elided,
        }
    }
}

impl LatencyNs {
    fn of(window: &Phase) -> Self {
        let histogram = window.latency.borrow();
        Self {
            mean: histogram.mean() as u64,
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// Four decimals of `count / of`.
fn ratio(count: u64, of: u64) -> f64 {
    (count as f64 / of as f64 * 1e4).round() / 1e4
}
