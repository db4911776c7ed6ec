//! Which I/Os a clone of a job does.

use super::area::Area;
use super::job::{Job, Order};
use crate::draw::{Population, Random, Scatter, Shuffle, Zipf};

/// An I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// True if it reads, else it writes.
    pub is_read: bool,
    /// Its first byte, from the start of the disk; a multiple of `bytes` from the start of the area.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The I/Os of a clone, one after the other, without end: when a job ends is told by
/// [`Job::bytes`] and `runtime_ns`.
pub struct Stream {
    start: u64,
    reads_per_cent: u64,
    mix: Random,
    random: Random,
    /// Places of writes and of reads; of both, if they are one.
    places: Vec<Places>,
}

/// Places of I/Os of one size.
struct Places {
    block_bytes: u64,
    blocks: u64,
    law: Law,
}

enum Law {
    Sequential { next: u64 },
    Uniform,
    Mapped { shuffle: Shuffle, next: u64 },
    Zipf(Skew),
}

/// Zipf's law over the blocks of an area.
struct Skew {
    zipf: Zipf,
    theta: f64,
    population: Population,
    scatter: Scatter,
    /// Where the hottest block is.
    base: u64,
}

impl Stream {
    /// The I/Os of a clone on an area ([`Job::area`]). `seed` is the run's; with it, `randseed`, the job
    /// and the clone decide everything.
    ///
    /// Zipf's law is drawn over `ranks_per_block` ranks for each block ([`Population`]):
    /// 1, or how many times smaller the area is than what it stands for.
    ///
    /// # Panics
    /// If no I/O fits into the area, or there are no ranks.
    #[must_use]
    pub fn new(job: &Job, clone: u32, area: &Area, ranks_per_block: u32, seed: u64) -> Self {
        let mut random = Random::new(job.seed(clone, 0, seed));
        let base = random.unit();
        let mut places = |is_read| {
            let block_bytes = job.block_bytes.of(is_read);
            let blocks = area.bytes / block_bytes;
            assert!(blocks > 0, "{block_bytes} bytes of an I/O and {area:?}");
            Places {
                block_bytes,
                blocks,
                law: Law::new(job.order, blocks, ranks_per_block, base, &mut random),
            }
        };
        let has_both = job.has(true) && job.has(false);
        let is_one =
            job.order != Order::Sequential && job.block_bytes.read == job.block_bytes.write;
        let places = if has_both && !is_one {
            vec![places(false), places(true)]
        } else {
            vec![places(!job.has(false))]
        };
        Self {
            start: area.start,
            reads_per_cent: job.reads_per_cent.into(),
            mix: Random::new(job.seed(clone, 1, seed)),
            random,
            places,
        }
    }

    /// The next I/O of a direction: for open loops, whose arrivals tell which is due.
    ///
    /// A job without I/Os of that direction does them as it does the others.
    pub fn next_of(&mut self, is_read: bool) -> Io {
        let last = self.places.len() - 1;
        let places = &mut self.places[usize::from(is_read).min(last)];
        let block = places.law.next(places.blocks, &mut self.random);
        Io {
            is_read,
            offset: self.start + block * places.block_bytes,
            bytes: places.block_bytes,
        }
    }

    /// Places of writes, as offsets with the share of the writes that goes to each in the long run; of
    /// reads, if the job has no writes.
    pub fn write_shares(&self) -> impl Iterator<Item = (u64, f64)> {
        let places = &self.places[0];
        let total = places.law.weights(places.blocks);
        (0..places.blocks).map(move |block| {
            let offset = self.start + block * places.block_bytes;
            (offset, places.law.weight(block) / total)
        })
    }
}

impl Iterator for Stream {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let is_read = match self.reads_per_cent {
            0 => false,
            100 => true,
            reads => self.mix.below(100) < reads,
        };
        Some(self.next_of(is_read))
    }
}

impl Law {
    fn new(order: Order, blocks: u64, ranks: u32, base: f64, random: &mut Random) -> Self {
        match order {
            Order::Sequential => Self::Sequential { next: 0 },
            Order::Uniform { is_mapped: false } => Self::Uniform,
            Order::Uniform { is_mapped: true } => Self::Mapped {
                shuffle: Shuffle::new(blocks, random.bits()),
                next: 0,
            },
            Order::Zipf { theta } => {
                let population = Population::new(blocks, ranks);
                Self::Zipf(Skew {
                    zipf: Zipf::new(population.ranks(), theta),
                    theta,
                    population,
                    scatter: Scatter::new(blocks),
                    base: ((base * blocks as f64) as u64).min(blocks - 1),
                })
            }
        }
    }

    /// The next block.
    fn next(&mut self, blocks: u64, random: &mut Random) -> u64 {
        match self {
            Self::Sequential { next } => {
                let at = *next;
                *next = (at + 1) % blocks;
                at
            }
            Self::Uniform => random.below(blocks),
            Self::Mapped { shuffle, next } => {
                if *next == blocks {
                    (*shuffle, *next) = (Shuffle::new(blocks, random.bits()), 0);
                }
                let at = shuffle.of(*next);
                *next += 1;
                at
            }
            Self::Zipf(skew) => {
                let heat = skew.population.place(skew.zipf.rank(random));
                (skew.scatter.of(heat) + skew.base) % blocks
            }
        }
    }

    /// How often a block comes, in parts that are comparable to one another.
    fn weight(&self, block: u64) -> f64 {
        match self {
            Self::Sequential { .. } | Self::Uniform | Self::Mapped { .. } => 1.0,
            Self::Zipf(skew) => skew.weight(skew.heat(block)),
        }
    }

    /// All of them.
    fn weights(&self, blocks: u64) -> f64 {
        match self {
            Self::Sequential { .. } | Self::Uniform | Self::Mapped { .. } => blocks as f64,
            Self::Zipf(skew) => (0..blocks).map(|heat| skew.weight(heat)).sum(),
        }
    }
}

impl Skew {
    /// Place of a block in the order of heat.
    const fn heat(&self, block: u64) -> u64 {
        let blocks = self.scatter.items();
        self.scatter.undo((block + blocks - self.base) % blocks)
    }

    fn weight(&self, heat: u64) -> f64 {
        let ranks = self.population.ranks_of(heat);
        ranks.map(|rank| Zipf::weight(rank, self.theta)).sum()
    }
}

impl Job {
    /// Seed of one of a clone's draws, in a run with this seed.
    pub(super) fn seed(&self, clone: u32, draw: u64, seed: u64) -> u64 {
        let parts = [self.randseed, self.number.into(), clone.into(), draw];
        let mix = |seed: u64, part: u64| Random::new(seed ^ part).bits();
        parts.into_iter().fold(seed, mix)
    }
}
