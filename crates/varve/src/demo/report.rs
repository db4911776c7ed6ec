//! What a demonstration showed, for people and for scripts.

use super::selftest::{OVERWRITES, Outcome};
use super::server::Server;
use crate::envelope;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// What the self-test showed.
#[derive(Serialize, Debug)]
pub(crate) struct Report {
    /// True if nothing was lost, nothing failed, and the dense tier was overwritten as announced.
    pub(crate) ok: bool,
    /// Operations that returned what they must not, or failed while content was verified.
    verify_errors: u64,
    /// Other operations that failed.
    io_errors: u64,
    /// The first of either, in words.
    first_failure: Option<String>,
    /// Blocks that the FTL wrote to the dense tier, by blocks that compaction wrote there.
    waf_ftl: f64,
    /// Bytes that dense drives would have programmed, by bytes written to them.
    waf_device: f64,
    /// Bytes that dense drives would have programmed (data, parity, P2L), by bytes that compaction
    /// brought to the dense tier.
    waf_total: f64,
    /// Write operations in a second.
    iops: u64,
    /// Bytes written by hosts in a second.
    bytes_per_s: u64,
    /// From the start of the new server after SIGKILL until hosts could connect.
    recovery_ms: u64,
    /// Bytes of volumes in use.
    used_bytes: u64,
    /// Bytes written by hosts until the dense tier was overwritten.
    written_bytes: u64,
    /// Times the dense drives were written in full.
    dense_overwrites: f64,
    /// Indirection units that dense drives would have read because they were written in part.
    rmw_reads: u64,
    /// Bytes that dense drives' own garbage collection would have moved.
    device_gc_bytes: u64,
    /// Blocks read and compared.
    verified_blocks: u64,
    /// Associations that hosts lost and made again.
    associations_lost: u64,
    /// From the start of the command until the self-test had ended.
    elapsed_ms: u64,
    /// Name of the subsystem.
    nqn: String,
}

/// To three digits: what is behind them is noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn ratio(of: u64, by: u64) -> f64 {
    rounded(of as f64 / by.max(1) as f64)
}

impl Report {
    pub(super) fn new(outcome: Outcome, server: &Server, elapsed: Duration) -> Self {
        let (engine, flash) = (outcome.engine, outcome.flash);
        let compacted_bytes = engine.compacted * varve_units::BLOCK_BYTES;
        let seconds = outcome.elapsed.0 as f64 / 1e9;
        let per_second = |count: u64| (count as f64 / seconds) as u64;
        let is_overwritten = outcome.overwrites >= OVERWRITES;
        Self {
            ok: outcome.verify_errors == 0 && outcome.io_errors == 0 && is_overwritten,
            verify_errors: outcome.verify_errors,
            io_errors: outcome.io_errors,
            first_failure: outcome.first_failure,
            waf_ftl: ratio(engine.compacted + engine.collected, engine.compacted),
            waf_device: ratio(flash.media, flash.host),
            waf_total: ratio(flash.media, compacted_bytes),
            iops: per_second(outcome.operations),
            bytes_per_s: per_second(outcome.written_bytes),
            recovery_ms: (outcome.recovery.0 + 500_000) / 1_000_000,
            used_bytes: outcome.used_bytes,
            written_bytes: outcome.written_bytes,
            dense_overwrites: rounded(outcome.overwrites),
            rmw_reads: flash.rmw_reads,
            device_gc_bytes: flash.moved,
            verified_blocks: outcome.verified_blocks,
            associations_lost: outcome.associations_lost,
            elapsed_ms: elapsed.as_millis() as u64,
            nqn: server.serving.nqn.clone(),
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> String {
        envelope::json("Demo", self)
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mib = |bytes: u64| bytes >> 20;
        let verdict = if self.ok { "PASS" } else { "FAIL" };
        let _ = writeln!(text, "self-test  {verdict}");
        let _ = writeln!(
            text,
            "  written    {} MiB over NVMe/TCP, {} operations/s, {} MiB/s",
            mib(self.written_bytes),
            self.iops,
            mib(self.bytes_per_s)
        );
        let _ = writeln!(
            text,
            "  dense tier written {} times over; read back {} blocks, {} wrong",
            self.dense_overwrites, self.verified_blocks, self.verify_errors
        );
        let _ = writeln!(
            text,
            "  killed     with SIGKILL under load, served again after {} ms, {} associations made anew",
            self.recovery_ms, self.associations_lost
        );
        let _ = writeln!(
            text,
            "  WAF        of the dense tier: FTL {} x device {} (with parity and P2L {} for each byte compacted); {} read-modify-writes",
            self.waf_ftl, self.waf_device, self.waf_total, self.rmw_reads
        );
        let (seconds, tenths) = (self.elapsed_ms / 1000, self.elapsed_ms % 1000 / 100);
        let _ = writeln!(text, "  took       {seconds}.{tenths} s in all");
        if self.io_errors > 0 {
            let _ = writeln!(text, "  failed     {} operations", self.io_errors);
        }
        if let Some(first) = &self.first_failure {
            let _ = writeln!(text, "  first      {first}");
        }
        text
    }
}

/// What to type on a host to use the volumes.
pub(super) fn connect_lines(server: &Server, has_module: bool) -> String {
    let serving = &server.serving;
    let mut text = String::from("\nUse it from a Linux host:\n");
    if !has_module {
        text += "  sudo modprobe nvme_tcp\n";
    }
    for open in &serving.listeners {
        let (address, port) = (open.advertise, open.port);
        let line = if open.is_discovery {
            format!("  sudo nvme discover -t tcp -a {address} -s {port}\n")
        } else {
            format!(
                "  sudo nvme connect -t tcp -a {address} -s {port} -n {} --ctrl-loss-tmo=600\n",
                serving.nqn
            )
        };
        text += &line;
    }
    if let Some(volume) = serving.namespaces.first() {
        let device = format!("/dev/disk/by-id/nvme-uuid.{}", volume.uuid);
        let _ = writeln!(
            text,
            "  sudo mkfs.xfs -f {device}    # {}: the self-test's data are lost",
            volume.store
        );
        let _ = writeln!(text, "  sudo mount {device} /mnt");
    }
    text
}
