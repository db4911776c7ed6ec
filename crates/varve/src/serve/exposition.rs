//! The text of all metrics (Prometheus text exposition format 0.0.4): families of samples, each with its type
//! and its meaning. `docs/metrics.md` lists them.

use super::counted::COUNTED;
use super::readings::Readings;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use varve_control::{Health, PoolView};
use varve_server::Counters;

/// All that a pool's health can be.
const HEALTHS: [Health; 5] = [
    Health::Ok,
    Health::Closed,
    Health::Degraded,
    Health::Damaged,
    Health::Faulted,
];
/// All that a drive can be to its pool.
const STATES: [&str; 6] = [
    "live",
    "rebuilding",
    "leaving",
    "lost",
    "missing",
    "truncated",
];

/// Samples of one name, by their labels.
struct Family {
    name: String,
    kind: &'static str,
    help: &'static str,
    samples: BTreeMap<String, u64>,
}

impl Family {
    fn new(name: &str, kind: &'static str, help: &'static str) -> Self {
        Self {
            name: format!("varve_{name}"),
            kind,
            help,
            samples: BTreeMap::new(),
        }
    }

    fn gauge(name: &str, help: &'static str) -> Self {
        Self::new(name, "gauge", help)
    }

    /// Adds a sample. Of two with the same labels the larger one counts: collectors refuse a name that has the
    /// same labels twice.
    fn add(&mut self, labels: &[(&str, &str)], value: u64) {
        let pairs: Vec<_> = labels
            .iter()
            .map(|(name, value)| pair(name, value))
            .collect();
        let labels = match pairs.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", pairs.join(",")),
        };
        let sample = self.samples.entry(labels).or_default();
        *sample = (*sample).max(value);
    }

    fn write(&self, text: &mut String) {
        let Self {
            name, kind, help, ..
        } = self;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in &self.samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
}

/// A label, its value escaped as the format wants it.
fn pair(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{}\"", value.replace('\n', "\\n"))
}

/// The text of a server's counters and of what its pools are.
pub(super) fn text(server: &Counters, readings: &Readings) -> String {
    let mut text = String::new();
    for family in families(server, readings) {
        family.write(&mut text);
    }
    text
}

fn families(server: &Counters, readings: &Readings) -> Vec<Family> {
    let mut all = of_server(server);
    all.extend(of_pools(&readings.pools));
    all.extend(of_drives(&readings.pools));
    all.extend(of_faults(&readings.pools));
    all.extend(of_volumes(readings));
    all.extend(of_engines(&readings.pools));
    all
}

/// Name, type, meaning and value.
type Row = (&'static str, &'static str, &'static str, u64);

fn connection_rows(server: &Counters) -> [Row; 7] {
    [
        (
            "connections_accepted_total",
            "counter",
            "Connections accepted",
            server.accepted,
        ),
        (
            "connections_refused_total",
            "counter",
            "Connections refused",
            server.refused,
        ),
        (
            "connections",
            "gauge",
            "Connections now",
            server.connections,
        ),
        (
            "controllers",
            "gauge",
            "NVMe controllers now",
            server.controllers,
        ),
        (
            "critical_warning",
            "gauge",
            "Critical Warning as hosts read it in the SMART log: 4 a pool is not well, 8 none takes writes",
            server.critical_warning,
        ),
        (
            "data_bytes",
            "gauge",
            "Bytes of data that connections hold now, of commands and of answers being sent",
            server.data_bytes,
        ),
        (
            "data_waits_total",
            "counter",
            "Times a connection had to wait because all of them held as much as they may",
            server.data_waits,
        ),
    ]
}

fn operation_rows(server: &Counters) -> [Row; 9] {
    [
        ("reads_total", "counter", "Reads begun", server.reads),
        (
            "read_bytes_total",
            "counter",
            "Bytes of reads begun",
            server.read_bytes,
        ),
        ("writes_total", "counter", "Writes begun", server.writes),
        (
            "written_bytes_total",
            "counter",
            "Bytes of writes begun",
            server.written_bytes,
        ),
        ("flushes_total", "counter", "Flushes begun", server.flushes),
        (
            "discards_total",
            "counter",
            "Deallocations and writes of zeroes begun",
            server.discards,
        ),
        (
            "failures_total",
            "counter",
            "Operations that failed",
            server.failures,
        ),
        (
            "operations_in_flight",
            "gauge",
            "Operations in the hands of stores now",
            server.in_flight,
        ),
        (
            "orphaned_total",
            "counter",
            "Operations that ended when their connection was gone",
            server.orphaned,
        ),
    ]
}

fn of_server(server: &Counters) -> Vec<Family> {
    let rows = connection_rows(server).into_iter();
    let rows = rows
        .chain(operation_rows(server))
        .map(|(name, kind, help, value)| {
            let mut family = Family::new(name, kind, help);
            family.add(&[], value);
            family
        });
    rows.collect()
}

fn of_pools(pools: &[PoolView]) -> Vec<Family> {
    /// What of a pool, if it is known.
    type Of = fn(&PoolView) -> Option<u64>;
    let rows: [(&str, &str, Of); 10] = [
        (
            "pool_open",
            "1 if the daemon has the pool open, 0 if it is closed",
            |pool| Some(u64::from(pool.is_open)),
        ),
        ("pool_raw_bytes", "Bytes of all drives", |pool| {
            Some(pool.raw_bytes)
        }),
        (
            "pool_capacity_bytes",
            "Bytes that all volumes together may hold",
            |pool| pool.capacity_bytes,
        ),
        (
            "pool_used_bytes",
            "Bytes that all volumes together take, at most; not of a closed pool",
            |pool| pool.used_bytes,
        ),
        (
            "pool_unprotected_bytes",
            "Bytes that the loss of one more drive could take, at most; not of a closed pool",
            |pool| pool.unprotected_bytes,
        ),
        (
            "pool_leaves",
            "Leaves of the map, parts of 2 MiB of volumes in which something is written; not of a closed pool",
            |pool| pool.leaves,
        ),
        (
            "pool_leaves_max",
            "Leaves that there may be: a pool with so many refuses writes in parts where nothing is",
            |pool| pool.leaves_max,
        ),
        (
            "pool_dense_away",
            "1 while the dense tier refuses what is to be written to it, else 0; not of a closed pool",
            |pool| pool.dense_away.map(u64::from),
        ),
        ("pool_volumes", "Volumes; not of a closed pool", |pool| {
            pool.volumes
        }),
        ("pool_jobs", "Jobs at work on the pool", |pool| {
            Some(pool.jobs.len() as u64)
        }),
    ];
    let rows = rows.into_iter().map(|(name, help, of)| {
        let mut family = Family::gauge(name, help);
        for (pool, value) in pools.iter().filter_map(|pool| Some((pool, of(pool)?))) {
            family.add(&[("pool", &pool.pool)], value);
        }
        family
    });
    let mut health = Family::gauge(
        "pool_health",
        "How the pool fares, as `pool status` says it: 1 for the state it is in",
    );
    for pool in pools {
        for one in HEALTHS {
            let labels = [("pool", &*pool.pool), ("health", one.word())];
            health.add(&labels, u64::from(one == pool.health));
        }
    }
    rows.chain([health]).collect()
}

fn of_drives(pools: &[PoolView]) -> [Family; 2] {
    let mut states = Family::gauge(
        "drive_state",
        "What the drive is to its pool: 1 for the state it is in",
    );
    let mut sizes = Family::gauge("drive_bytes", "Size of the drive");
    for drive in pools.iter().flat_map(|pool| &pool.drives) {
        let place = [("pool", &*drive.pool), ("drive", &*drive.drive)];
        sizes.add(&place, drive.bytes);
        for state in STATES {
            let labels = [&place[..], &[("state", state)]].concat();
            states.add(&labels, u64::from(state == drive.state));
        }
    }
    [states, sizes]
}

/// Of drives whose pool is open.
fn of_faults(pools: &[PoolView]) -> [Family; 3] {
    let mut all = [
        (
            "drive_read_errors_total",
            "Reads that the drive answered with an error since its pool was opened",
        ),
        (
            "drive_write_errors_total",
            "Writes and flushes that the drive answered with an error since its pool was opened",
        ),
        (
            "drive_repairs_total",
            "Parts of the drive that could not be read or did not pass their check, and were written again",
        ),
    ]
    .map(|(name, help)| Family::new(name, "counter", help));
    for drive in pools.iter().flat_map(|pool| &pool.drives) {
        let Some(faults) = &drive.faults else {
            continue;
        };
        let labels = [("pool", &*drive.pool), ("drive", &*drive.drive)];
        let values = [faults.read_errors, faults.write_errors, faults.repairs];
        for (family, value) in all.iter_mut().zip(values) {
            family.add(&labels, value);
        }
    }
    all
}

fn of_volumes(readings: &Readings) -> [Family; 3] {
    let mut all = [
        Family::gauge("volume_size_bytes", "Size of the volume, as hosts see it"),
        Family::gauge("volume_used_bytes", "Bytes that the volume takes, at most"),
        Family::gauge(
            "volume_unprotected_bytes",
            "Of these, bytes that the loss of one more drive could take, at most",
        ),
    ];
    for volume in &readings.volumes {
        let labels = [("pool", &*volume.pool), ("volume", &*volume.volume)];
        let values = [volume.bytes, volume.used_bytes, volume.unprotected_bytes];
        for (family, value) in all.iter_mut().zip(values) {
            family.add(&labels, value);
        }
    }
    all
}

/// What engines counted. What has not been counted yet is 0, so that the first one is seen as a change.
fn of_engines(pools: &[PoolView]) -> Vec<Family> {
    let families = COUNTED.into_iter().map(|(name, kind, help)| {
        let end = if kind == "counter" { "_total" } else { "" };
        let mut family = Family::new(&format!("pool_{name}{end}"), kind, help);
        for pool in pools.iter().filter(|pool| pool.is_open) {
            let value = pool.counters.get(name).copied().unwrap_or(0);
            family.add(&[("pool", &pool.pool)], value);
        }
        family
    });
    families.collect()
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
