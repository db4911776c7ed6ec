//! Which block is written next.

use super::fio_load::FioLoad;
use super::fio_source::FioSource;
use super::tiers::Known;
use crate::draw::{Population, Random, Scatter, Zipf};
use crate::fio::AreaError;
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::sync::Arc;

/// Share of the writes that go to the hot window of `hotcold`, and share of the blocks in it.
const HOT_WRITES: f64 = 0.9;
const HOT_BLOCKS: f64 = 0.1;
/// Writes to the whole volume for which a block of plain `hotcold` stays hot, in volumes. Arbitrary.
const HOT_SPAN: f64 = 2.0;
/// Shortest and longest time for which a block of `hotcold` stays hot, in volumes written. Arbitrary.
const HOT_SPANS: RangeInclusive<f64> = 0.01..=1e6;
/// Exponents of the two skewed tenants of `mixed4`.
const MIXED_THETAS: [f64; 2] = [0.8, 1.2];
/// Tenants of `mixed4`: equal shares of the writes and of the blocks.
const MIXED_TENANTS: u64 = 4;

/// A kind of load.
#[derive(Clone, PartialEq, Debug)]
pub enum Workload {
    /// All blocks equally likely.
    Uniform,
    /// From the first to the last and again.
    Sequential,
    /// Zipf's law with this exponent, scattered over the volume.
    Zipf(f64),
    /// Nine writes of ten go to a tenth of the blocks, and that tenth drifts: a block stays hot for
    /// so many overwrites of the volume.
    HotCold(f64),
    /// Four tenants with a quarter of the volume each: sequential, uniform, Zipf 0.8, Zipf 1.2.
    ///
    /// # Source
    /// Document 000, test configuration 3.
    Mixed4,
    /// The writes of a job file of fio.
    Fio(Arc<FioLoad>),
}

impl Workload {
    /// Tenants whose blocks it writes, in equal parts of the volume.
    pub(super) fn tenants(&self) -> usize {
        match self {
            Self::Mixed4 => MIXED_TENANTS as usize,
            Self::Fio(load) => load.tenants(),
            Self::Uniform | Self::Sequential | Self::Zipf(_) | Self::HotCold(_) => 1,
        }
    }

    /// What it leaves out of what it was made from, in sentences.
    pub(super) fn notes(&self) -> &[String] {
        match self {
            Self::Fio(load) => load.notes(),
            _ => &[],
        }
    }

    /// Looks whether it can be on a volume of so many blocks.
    ///
    /// # Errors
    /// If a job of a file does not fit.
    pub(super) fn check(&self, blocks: u64) -> Result<(), AreaError> {
        match self {
            Self::Fio(load) => load.check(blocks),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Sequential => f.write_str("seq"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::HotCold(span) if *span == HOT_SPAN => f.write_str("hotcold"),
            Self::HotCold(span) => write!(f, "hotcold:{span}"),
            Self::Mixed4 => f.write_str("mixed4"),
            Self::Fio(load) => load.fmt(f),
        }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uniform" => return Ok(Self::Uniform),
            "seq" => return Ok(Self::Sequential),
            "hotcold" => return Ok(Self::HotCold(HOT_SPAN)),
            "mixed4" => return Ok(Self::Mixed4),
            _ => {}
        }
        if let Some(span) = text.strip_prefix("hotcold:") {
            return match span.parse() {
                Ok(span) if HOT_SPANS.contains(&span) => Ok(Self::HotCold(span)),
                _ => Err(format!(
                    "SPAN, the overwrites of the volume for which a block stays hot, lies between {} and {}",
                    HOT_SPANS.start(),
                    HOT_SPANS.end()
                )),
            };
        }
        let Some(theta) = text.strip_prefix("zipf:") else {
            return Err(
                "one of uniform, seq, zipf:THETA, hotcold, hotcold:SPAN, mixed4, fio:FILE"
                    .to_owned(),
            );
        };
        match theta.parse() {
            Ok(theta) if 0.0 < theta && theta < Zipf::THETA_END => Ok(Self::Zipf(theta)),
            _ => Err(format!("THETA lies above 0 and below {}", Zipf::THETA_END)),
        }
    }
}

/// Blocks that a host writes at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Write {
    /// The first.
    pub(super) block: u64,
    /// How many.
    pub(super) blocks: u64,
}

impl Write {
    /// Of no blocks.
    pub(super) const NOTHING: Self = Self {
        block: 0,
        blocks: 0,
    };

    /// The blocks.
    pub(super) const fn range(&self) -> Range<u64> {
        self.block..self.block + self.blocks
    }
}

/// The blocks that a load writes, one write after the other.
pub(super) struct Source {
    blocks: u64,
    tenants: u64,
    random: Random,
    law: Law,
}

enum Law {
    Uniform,
    Sequential {
        next: u64,
    },
    Zipf(Skew),
    HotCold {
        scatter: Scatter,
        written: u64,
        span: f64,
    },
    Mixed {
        next: u64,
        skews: [Skew; 2],
    },
    Fio(FioSource),
}

/// Zipf's law over a range of blocks.
struct Skew {
    zipf: Zipf,
    population: Population,
    scatter: Scatter,
    /// By place in the order of heat: writes to the range from one write of a block to the next, on
    /// average.
    intervals: Vec<f32>,
}

impl Skew {
    fn new(blocks: u64, theta: f64, ranks_per_block: u32) -> Self {
        let population = Population::new(blocks, ranks_per_block);
        let weight = |at| -> f64 {
            let ranks = population.ranks_of(at);
            ranks.map(|rank| Zipf::weight(rank, theta)).sum()
        };
        let weights: Vec<f64> = (0..blocks).map(weight).collect();
        let total: f64 = weights.iter().sum();
        Self {
            zipf: Zipf::new(population.ranks(), theta),
            population,
            scatter: Scatter::new(blocks),
            intervals: weights
                .iter()
                .map(|weight| (total / weight) as f32)
                .collect(),
        }
    }

    fn block(&self, random: &mut Random) -> u64 {
        self.scatter
            .of(self.population.place(self.zipf.rank(random)))
    }

    fn interval(&self, block: u64) -> f64 {
        self.intervals[self.scatter.undo(block) as usize].into()
    }
}

impl Source {
    /// A load on `blocks` blocks. Zipf's law is drawn over so many ranks a block ([`Population`]): a volume of a fraction
    /// of the size then has the skew of the whole one, whose hottest tenth, say, takes as many writes.
    ///
    /// # Errors
    /// If a job of a file does not fit.
    pub(super) fn new(
        workload: &Workload,
        blocks: u64,
        ranks_per_block: u32,
        seed: u64,
    ) -> Result<Self, AreaError> {
        let skew = |blocks, theta| Skew::new(blocks, theta, ranks_per_block);
        let law = match workload {
            Workload::Uniform => Law::Uniform,
            Workload::Sequential => Law::Sequential { next: 0 },
            Workload::Zipf(theta) => Law::Zipf(skew(blocks, *theta)),
            Workload::HotCold(span) => Law::HotCold {
                scatter: Scatter::new(blocks),
                written: 0,
                span: *span,
            },
            Workload::Mixed4 => Law::Mixed {
                next: 0,
                skews: MIXED_THETAS.map(|theta| skew(blocks / MIXED_TENANTS, theta)),
            },
            Workload::Fio(load) => Law::Fio(FioSource::new(load, blocks, ranks_per_block, seed)?),
        };
        Ok(Self {
            blocks,
            tenants: workload.tenants() as u64,
            random: Random::new(seed),
            law,
        })
    }

    /// The next write.
    pub(super) fn next(&mut self) -> Write {
        let (blocks, random) = (self.blocks, &mut self.random);
        let block = match &mut self.law {
            Law::Fio(source) => return source.next(),
            Law::Uniform => random.below(blocks),
            Law::Sequential { next } => cycle(next, blocks),
            Law::Zipf(skew) => skew.block(random),
            Law::HotCold {
                scatter,
                written,
                span,
            } => {
                let hot = hot_blocks(blocks);
                let start = window_start(blocks, *written, *span);
                *written += 1;
                let (from, count) = if random.unit() < HOT_WRITES {
                    (start, hot)
                } else {
                    (start + hot, blocks - hot)
                };
                scatter.of((from + random.below(count)) % blocks)
            }
            Law::Mixed { next, skews } => {
                let quarter = blocks / MIXED_TENANTS;
                let tenant = random.below(MIXED_TENANTS);
                let within = match tenant {
                    0 => cycle(next, quarter),
                    1 => random.below(quarter),
                    2 => skews[0].block(random),
                    _ => skews[1].block(random),
                };
                tenant * quarter + within
            }
        };
        Write { block, blocks: 1 }
    }
}

impl Known for Source {
    /// What the division left over belongs to the last one.
    fn tenant(&self, block: u64) -> usize {
        let tenant = block / (self.blocks / self.tenants);
        tenant.min(self.tenants - 1) as usize
    }

    /// As things stand.
    fn interval(&self, block: u64) -> f64 {
        let blocks = self.blocks as f64;
        match &self.law {
            Law::Uniform | Law::Sequential { .. } => blocks,
            Law::Zipf(skew) => skew.interval(block),
            Law::HotCold {
                scatter,
                written,
                span,
            } => {
                let start = window_start(self.blocks, *written, *span);
                let behind = (scatter.undo(block) + self.blocks - start) % self.blocks;
                if behind < hot_blocks(self.blocks) {
                    blocks * HOT_BLOCKS / HOT_WRITES
                } else {
                    blocks * (1.0 - HOT_BLOCKS) / (1.0 - HOT_WRITES)
                }
            }
            Law::Mixed { skews, .. } => {
                let (tenant, within) = (self.tenant(block), block % (self.blocks / MIXED_TENANTS));
                let of_tenant = match tenant {
                    0 | 1 => blocks / MIXED_TENANTS as f64,
                    2 => skews[0].interval(within),
                    _ => skews[1].interval(within),
                };
                of_tenant * MIXED_TENANTS as f64
            }
            Law::Fio(source) => source.interval(block),
        }
    }
}

fn hot_blocks(blocks: u64) -> u64 {
    (blocks as f64 * HOT_BLOCKS) as u64
}

/// Where the hot window begins: it passes its own length while the volume is written `span` times.
fn window_start(blocks: u64, written: u64, span: f64) -> u64 {
    (written as f64 * HOT_BLOCKS / span) as u64 % blocks
}

/// The next of `0..end`, over and over.
const fn cycle(next: &mut u64, end: u64) -> u64 {
    let at = *next;
    *next = if at + 1 == end { 0 } else { at + 1 };
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fio(text: &str) -> Workload {
        let load = FioLoad::new("test", &text.parse().unwrap());
        Workload::Fio(Arc::new(load.unwrap()))
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in [
            "uniform",
            "seq",
            "zipf:0.99",
            "zipf:1",
            "hotcold",
            "hotcold:0.5",
            "mixed4",
        ] {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:5",
            "zipf:nan",
            "Uniform",
            "hotcold:",
            "hotcold:0",
            "hotcold:nan",
            "hotcold:-1",
        ] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }

    /// What the oracle knows is how often blocks are really written.
    #[test]
    fn intervals_are_those_of_the_load() {
        let blocks = 1000;
        let loads = ["uniform", "seq", "zipf:0.8", "zipf:1.2", "mixed4"];
        let mut loads = loads.map(|load| load.parse::<Workload>().unwrap()).to_vec();
        loads.push(fio(
            "[global]\nrw=randrw\n[a]\niodepth=4\nrandom_distribution=zipf:1.2\nnumjobs=3\nsize=80%\n\
             [b]\nbs=6k\nrwmixread=80\nnorandommap\n[c]\nbs=2k\nrw=write",
        ));
        for (load, ranks) in loads.iter().flat_map(|load| [(load, 1), (load, 4)]) {
            let mut source = Source::new(load, blocks, ranks, 3).unwrap();
            let expected: Vec<f64> = (0..blocks).map(|block| source.interval(block)).collect();
            let mut counts = vec![0_u32; blocks as usize];
            let mut writes = 0;
            while writes < 2_000_000 {
                let write = source.next();
                write.range().for_each(|block| counts[block as usize] += 1);
                writes += write.blocks;
            }
            for (count, interval) in counts.iter().zip(&expected) {
                let expected = writes as f64 / interval;
                let off = (f64::from(*count) - expected).abs();
                assert!(
                    off < 6.0 * expected.sqrt() + 1.0,
                    "{load}: {count} for {expected}"
                );
            }
        }
    }

    /// The window holds what it should at any moment, and has left its first place after a while.
    #[test]
    fn the_hot_window_drifts() {
        let blocks = 10_000;
        let mut source = Source::new(&Workload::HotCold(2.0), blocks, 1, 3).unwrap();
        let hot = |source: &Source| -> Vec<u64> {
            let middle = blocks as f64;
            (0..blocks)
                .filter(|block| source.interval(*block) < middle)
                .collect()
        };
        let first = hot(&source);
        assert_eq!(first.len(), 1000);
        let writes = 5_000;
        let into = (0..writes).filter(|_| {
            let write = source.next();
            source.interval(write.block) < blocks as f64
        });
        let share = into.count() as f64 / f64::from(writes);
        assert!((share - 0.9).abs() < 0.02, "{share}");
        (0..3 * blocks).for_each(|_| {
            source.next();
        });
        let later = hot(&source);
        assert_eq!(later.len(), 1000);
        assert!(later.iter().all(|block| !first.contains(block)));
    }

    /// A block stays hot for the span that was asked for: of the first window half is left after half of it.
    #[test]
    fn a_span_is_how_long_blocks_stay_hot() {
        let blocks = 10_000;
        for (span, writes) in [(0.5, 2_500), (8.0, 40_000)] {
            let mut source = Source::new(&Workload::HotCold(span), blocks, 1, 3).unwrap();
            let hot = |source: &Source, block: &u64| source.interval(*block) < blocks as f64;
            let first: Vec<u64> = (0..blocks).filter(|block| hot(&source, block)).collect();
            (0..writes).for_each(|_| {
                source.next();
            });
            let left = first.iter().filter(|block| hot(&source, block)).count();
            assert_eq!(left, 500, "{span}");
        }
    }
}
