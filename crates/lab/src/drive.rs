//! A modelled drive alone, to check it against what is published of it.
//!
//! Closed loop in virtual time: so many commands are in flight, each that ends is followed by
//! another at once. The submitter takes no time, so the figures are the drive's.

use crate::draw::Random;
use crate::model::{Model, Runs};
use crate::recovery::Watch;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt;
use std::fmt::Write;
use varve_media::sheet::{Number, Published};
use varve_media::timed::{Ask, Request};
use varve_media::{AnySheet, Counters, ShapeError, Ssd, ZoneShapeError};
use varve_units::Nanos;

/// How often the drive is overwritten before random writes are measured: what garbage collection
/// costs is steady then.
const OVERWRITES: u64 = 4;
/// Commands of the measured window, of drives without and with moving parts.
const COMMANDS: u64 = 100_000;
const DISK_COMMANDS: u64 = 10_000;
/// Writes or events from one look of the watch to the next. Arbitrary: some milliseconds.
const WATCHED: u64 = 1 << 15;
/// From here on a piece counts as large: what is published of sequential work is meant.
const LARGE_BYTES: u64 = 128 << 10;

/// What is done to the drive.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Job {
    /// Reads, one behind the other, of a drive written in order.
    SeqRead,
    /// Writes, one behind the other, of a drive written in order.
    SeqWrite,
    /// Reads anywhere of a drive written in order.
    RandRead,
    /// Writes anywhere, when what garbage collection costs is steady.
    RandWrite,
    /// Appends to one zone after the other of a drive written in order.
    Append,
}

impl Job {
    const fn is_read(self) -> bool {
        matches!(self, Self::SeqRead | Self::RandRead)
    }

    pub(crate) const fn is_append(self) -> bool {
        matches!(self, Self::Append)
    }

    const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite)
    }
}

/// What is to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    /// What is done.
    pub job: Job,
    /// Bytes of a command, a multiple of 512.
    pub block_bytes: u64,
    /// Commands in flight.
    pub depth: u32,
    /// Seed of the places.
    pub seed: u64,
}

/// Why nothing was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DriveError {
    /// The sheet describes no possible drive.
    Shape(ShapeError),
    /// Commands have from 512 bytes to 1 MiB, in sectors.
    Block(u64),
    /// The sheet describes no possible zoned drive.
    ZoneShape(ZoneShapeError),
    /// From 1 to 65536 commands are in flight.
    Depth(u32),
    /// A zoned drive takes no writes anywhere.
    InOrder,
    /// Only zoned drives take appends.
    NoZones,
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(error) => error.fmt(f),
            Self::Block(bytes) => write!(
                f,
                "commands of {bytes} bytes: 512 to 1048576, multiples of 512"
            ),
            Self::ZoneShape(error) => error.fmt(f),
            Self::Depth(depth) => write!(f, "{depth} commands in flight: 1 to 65536"),
            Self::InOrder => f.write_str("the zones of this drive are written in order only"),
            Self::NoZones => f.write_str("this drive has no zones to append to"),
        }
    }
}

impl std::error::Error for DriveError {}

impl DriveError {
    /// What can be measured instead, if that depends on the drive.
    #[must_use]
    pub const fn instead(&self) -> &'static [Job] {
        match self {
            Self::InOrder => &[Job::SeqWrite, Job::Append],
            Self::NoZones => &[Job::SeqWrite, Job::RandWrite],
            _ => &[],
        }
    }
}

/// A published figure beside ours.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Comparison {
    /// What is published, in commands or bytes a second.
    pub published: u64,
    /// What came out.
    pub measured: u64,
    /// How much more came out, per cent.
    pub off_per_cent: f64,
    /// Where the figure is from.
    pub source: String,
}

/// Commands beyond a percentile that is told, at least. Chosen.
const BEYOND_MIN: usize = 10;

/// Latencies of commands. A percentile with fewer than ten of them beyond it is absent: it would be what a few
/// commands happened to take.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Half of all are not slower.
    pub p50_ns: Option<u64>,
    /// 99 % of all are not slower.
    pub p99_ns: Option<u64>,
    /// 99.9 % of all are not slower.
    pub p999_ns: Option<u64>,
    /// 99.99 % of all are not slower.
    pub p9999_ns: Option<u64>,
}

impl Latency {
    /// The percentiles that are told, each with its name and nanoseconds.
    pub(crate) fn percentiles(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("50 %", self.p50_ns),
            ("99 %", self.p99_ns),
            ("99.9 %", self.p999_ns),
            ("99.99 %", self.p9999_ns),
        ];
        all.into_iter().filter_map(|(name, ns)| Some((name, ns?)))
    }
}

/// What was measured.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct DriveReport {
    drive: String,
    job: Job,
    block_bytes: u64,
    depth: u32,
    seed: u64,
    /// Size of the modelled drive, and of the one on its sheet.
    modelled_bytes: u64,
    drive_bytes: u64,
    commands: u64,
    virtual_ns: u64,
    /// Commands a second.
    pub iops: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Latencies.
    pub latency: Latency,
    /// Bytes programmed by bytes written in the window; none for reads.
    pub waf_device: Option<f64>,
    rmw_reads: u64,
    gc_moved_bytes: u64,
    erases: u64,
    /// The published figure of this job, if there is one.
    pub comparison: Option<Comparison>,
}

impl DriveReport {
    /// Bytes programmed by bytes written in the window, without what the drive's own collection moved: what IUs cost that are
    /// written in part. None for reads.
    #[must_use]
    pub fn waf_of_units(&self) -> Option<f64> {
        let written = self.commands as f64 * self.block_bytes as f64;
        let moved = self.gc_moved_bytes as f64 / written;
        self.waf_device.map(|waf| waf - moved)
    }
}

/// Measures a drive; `watch` is told how far it is.
///
/// # Errors
/// If there is no such drive, or the measure makes no sense.
pub fn measure(sheet: &AnySheet, what: &Measure, watch: &Watch) -> Result<DriveReport, DriveError> {
    let bytes = what.block_bytes;
    if !(512..=1 << 20).contains(&bytes) || !bytes.is_multiple_of(512) {
        return Err(DriveError::Block(bytes));
    }
    if !(1..=65536).contains(&what.depth) {
        return Err(DriveError::Depth(what.depth));
    }
    let is_zoned = matches!(sheet, AnySheet::Zoned(_));
    if is_zoned && what.job == Job::RandWrite {
        return Err(DriveError::InOrder);
    }
    if !is_zoned && what.job == Job::Append {
        return Err(DriveError::NoZones);
    }
    let runs = Model::runs(sheet)?;
    let modelled_bytes = runs.count * runs.bytes;
    let mut places = Places::new(what, runs);
    let drive = Model::aged(sheet, what, |ssd| age(ssd, what, &mut places, watch))?;
    let commands = match sheet {
        AnySheet::Disk(_) => DISK_COMMANDS,
        AnySheet::Flash(_) | AnySheet::InPlace(_) | AnySheet::Zoned(_) => COMMANDS,
    };
    let run = Loop::new(drive, what, places).run(commands, watch);
    Ok(report(sheet, what, modelled_bytes, &run))
}

/// Brings the drive into the state in which the job finds it.
fn age(ssd: &mut Ssd, what: &Measure, places: &mut Places, watch: &Watch) {
    let shape = *ssd.shape();
    let iu = u64::from(shape.iu_bytes);
    for at in 0..u64::from(shape.ius) {
        ssd.write(at * iu, iu, &mut |_| {});
    }
    if what.job == Job::RandWrite {
        let writes = OVERWRITES * shape.bytes / what.block_bytes.max(iu);
        for write in 0..writes {
            if write % WATCHED == 0 {
                watch("ageing", write as f64 / writes as f64, "");
            }
            let (at, length) = places.next();
            ssd.write(at, length, &mut |_| {});
        }
    }
}

/// Where the next command goes, in pieces of a command's size.
struct Places {
    random: Random,
    runs: Runs,
    /// Pieces of a run. Of a zone that is written, one more may be the rest of it.
    pieces: u64,
    block_bytes: u64,
    is_random: bool,
    next: u64,
}

impl Places {
    fn new(what: &Measure, runs: Runs) -> Self {
        // A zone that is not written to its end would stay open for ever.
        let is_to_end = runs.count > 1 && !what.job.is_random();
        let pieces = if is_to_end {
            runs.bytes.div_ceil(what.block_bytes)
        } else {
            runs.bytes / what.block_bytes
        };
        Self {
            random: Random::new(what.seed),
            // Written in order, a zone is begun at its start.
            next: if is_to_end { u64::MAX } else { 0 },
            runs,
            pieces,
            block_bytes: what.block_bytes,
            is_random: what.job.is_random(),
        }
    }

    /// Offset and length.
    fn next(&mut self) -> (u64, u64) {
        let all = self.runs.count * self.pieces;
        let at = if self.is_random {
            self.random.below(all)
        } else {
            self.next = self.next.wrapping_add(1) % all;
            self.next
        };
        let within = at % self.pieces * self.block_bytes;
        let length = self.block_bytes.min(self.runs.bytes - within);
        (at / self.pieces * self.runs.apart + within, length)
    }
}

/// Commands in flight.
struct Loop {
    drive: Model,
    what: Measure,
    places: Places,
    /// When each command in flight was submitted, and its length, from the oldest on; ended ones are
    /// none.
    begun: VecDeque<Option<(Nanos, u64)>>,
    first: u64,
    submitted: u64,
}

/// What the window has seen.
struct Window {
    latencies_ns: Vec<u64>,
    bytes: u64,
    span: Nanos,
    sums: Counters,
}

impl Loop {
    fn new(drive: Model, what: &Measure, places: Places) -> Self {
        Self {
            drive,
            what: *what,
            places,
            begun: VecDeque::new(),
            first: 0,
            submitted: 0,
        }
    }

    /// Fills the buffers, then measures.
    fn run(mut self, commands: u64, watch: &Watch) -> Window {
        // What the buffer takes at once must not count: some times as much passes before.
        let warm = 8 * u64::from(self.what.depth) + commands / 2;
        (0..self.what.depth).for_each(|_| self.submit(Nanos(0)));
        let mut window = Window {
            latencies_ns: Vec::new(),
            bytes: 0,
            span: Nanos(0),
            sums: *self.drive.counters(),
        };
        let (mut ended, mut steps, mut from, mut ends) = (0, 0, Nanos(0), Vec::new());
        while let Some(now) = self.drive.next() {
            self.drive.advance(now, &mut |id, at| ends.push((id, at)));
            for (id, at) in ends.drain(..) {
                let (begun, length) = self.end(id);
                let latency = at.since(begun);
                ended += 1;
                if ended == warm {
                    from = at;
                    window.sums = *self.drive.counters();
                } else if ended > warm {
                    window.latencies_ns.push(latency.0);
                    window.bytes += length;
                    window.span = at.since(from);
                }
                self.submit(at);
            }
            steps += 1;
            if steps % WATCHED == 0 {
                watch("running", ended as f64 / (warm + commands) as f64, "");
            }
            if ended >= warm + commands {
                break;
            }
        }
        window.sums = self.drive.counters().since(&window.sums);
        window
    }

    fn submit(&mut self, now: Nanos) {
        let is_read = self.what.job.is_read();
        let (offset, length) = self.places.next();
        let request = Request {
            id: self.submitted,
            ask: if is_read { Ask::Read } else { Ask::Write },
            offset,
            length,
            handle: 0,
        };
        self.submitted += 1;
        self.begun.push_back(Some((now, length)));
        self.drive.submit(now, request);
    }

    /// When the command that has ended was submitted, and its length.
    fn end(&mut self, id: u64) -> (Nanos, u64) {
        let at = (id - self.first) as usize;
        let begun = self.begun[at].take().expect("a command ends once");
        while self.begun.front() == Some(&None) {
            self.begun.pop_front();
            self.first += 1;
        }
        begun
    }
}

fn report(sheet: &AnySheet, what: &Measure, modelled_bytes: u64, run: &Window) -> DriveReport {
    let commands = run.latencies_ns.len() as u64;
    let per_second = |amount: u64| {
        let amount = u128::from(amount) * 1_000_000_000;
        (amount / u128::from(run.span.0.max(1))) as u64
    };
    let (iops, bytes_per_s) = (per_second(commands), per_second(run.bytes));
    DriveReport {
        drive: sheet.name().to_owned(),
        job: what.job,
        block_bytes: what.block_bytes,
        depth: what.depth,
        seed: what.seed,
        modelled_bytes,
        drive_bytes: sheet.capacity().user_bytes.value,
        commands,
        virtual_ns: run.span.0,
        iops,
        bytes_per_s,
        latency: latency(&run.latencies_ns),
        waf_device: run.sums.waf_device(),
        rmw_reads: run.sums.rmw_reads,
        gc_moved_bytes: run.sums.gc_moved_bytes,
        erases: run.sums.erases,
        comparison: compare(sheet.published(), what, iops, bytes_per_s),
    }
}

/// Latencies of all these, in nanoseconds.
pub(crate) fn latency(all: &[u64]) -> Latency {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    // The nearest rank, of so many in ten thousand.
    let at = |share: usize| {
        let rank = (sorted.len() * share).div_ceil(10_000);
        let beyond = sorted.len() - rank;
        (beyond >= BEYOND_MIN).then(|| sorted[rank - 1])
    };
    Latency {
        mean_ns: all.iter().sum::<u64>() / (all.len() as u64).max(1),
        p50_ns: at(5_000),
        p99_ns: at(9_900),
        p999_ns: at(9_990),
        p9999_ns: at(9_999),
    }
}

/// Large pieces are what sequential figures are of, small ones what random figures are of.
fn compare(said: &Published, what: &Measure, iops: u64, bytes: u64) -> Option<Comparison> {
    if what.depth < said.depth.value {
        return None;
    }
    let is_large = what.block_bytes >= LARGE_BYTES;
    let is_of = |size: &Option<Number<u64>>| {
        size.as_ref()
            .is_some_and(|size| size.value == what.block_bytes)
    };
    let (number, measured): (&Number<u64>, u64) = match what.job {
        Job::SeqRead if is_large => (&said.sequential_read_bytes, bytes),
        Job::SeqWrite if is_large => (&said.sequential_write_bytes, bytes),
        Job::RandRead if what.block_bytes == 4096 => (&said.random_reads, iops),
        Job::RandWrite if is_of(&said.random_write_bytes) => (said.random_writes.as_ref()?, iops),
        Job::Append if what.block_bytes == 4096 => (said.appends.as_ref()?, iops),
        _ => return None,
    };
    let off = measured as f64 / number.value as f64 - 1.0;
    Some(Comparison {
        published: number.value,
        measured,
        off_per_cent: (off * 10_000.0).round() / 100.0,
        source: number.source.clone(),
    })
}

impl DriveReport {
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
        let micros = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
        line("drive", self.drive.clone());
        let scale = self.drive_bytes as f64 / self.modelled_bytes as f64;
        if scale > 1.0 {
            line("scale", format!("1/{scale:.0}: erase units are smaller"));
        }
        line("commands", format!("{} a second", self.iops));
        let rate = self.bytes_per_s as f64 / 1e6;
        line("bytes", format!("{rate:.1} MB a second"));
        line("latency, mean", micros(self.latency.mean_ns));
        for (name, ns) in self.latency.percentiles() {
            line(&format!("latency, {name}"), micros(ns));
        }
        if let Some(waf) = self.waf_device {
            line("waf_device", format!("{waf:.2}"));
        }
        if let Some(said) = &self.comparison {
            let text = format!(
                "{} ({:+.1} %); {}",
                said.published, said.off_per_cent, said.source
            );
            line("published", text);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A percentile is the nearest rank, and there only if ten are beyond it.
    #[test]
    fn percentiles_are_ranks_with_something_beyond() {
        let of = |count: u64| latency(&(1..=count).rev().collect::<Vec<_>>());
        assert_eq!(of(0).percentiles().count(), 0);
        assert_eq!((of(19).p50_ns, of(20).p50_ns), (None, Some(10)));
        assert_eq!((of(999).p99_ns, of(1_000).p99_ns), (None, Some(990)));
        assert_eq!((of(9_999).p999_ns, of(10_000).p999_ns), (None, Some(9_990)));
        let all = of(100_000);
        assert_eq!(of(99_999).p9999_ns, None);
        assert_eq!(all.p9999_ns, Some(99_990));
        assert_eq!(all.percentiles().count(), 4);
        assert_eq!(all.mean_ns, 50_000);
    }
}
