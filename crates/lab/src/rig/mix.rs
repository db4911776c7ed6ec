//! What hosts do, said in a few numbers: so many jobs, each on its own part of the addresses.

use super::pace::Pace;
use super::system::Io;
use crate::draw::{Population, Random, Scatter, Zipf};
use serde::Serialize;
use std::fmt;
use std::rc::Rc;

/// In which order a job goes through its area.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// From the first byte to the last, and again.
    Sequential,
    /// All places equally likely.
    Uniform,
    /// Zipf's law with this exponent over the area's places, scattered.
    Zipf(f64),
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequential => f.write_str("in order"),
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(theta) => write!(f, "Zipf {theta}"),
        }
    }
}

/// What hosts do.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Mix {
    /// Jobs, each with an equal part of the addresses, each a tenant.
    pub jobs: u32,
    /// Requests that each job keeps in flight, or has there at most.
    pub depth: u32,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests that read, per cent.
    pub reads_per_cent: u32,
    /// Which places they go to.
    pub law: Law,
    /// When they begin.
    pub pace: Pace,
}

/// The requests of one job.
pub(crate) struct Places {
    law: Drawn,
    random: Random,
    /// First byte of the area, bytes of a place, places.
    first: u64,
    bytes: u64,
    places: u64,
    next: u64,
    reads_per_cent: u32,
}

enum Drawn {
    Sequential,
    Uniform,
    Zipf(Rc<Skew>),
}

/// Zipf's law over places.
struct Skew {
    zipf: Zipf,
    population: Population,
    scatter: Scatter,
}

impl Mix {
    /// The jobs of the mix on `size` bytes. Zipf's law is drawn over so many ranks for each place.
    pub(crate) fn places(&self, size: u64, ranks_per_place: u32, seed: u64) -> Vec<Places> {
        let area = size / u64::from(self.jobs) / self.bytes * self.bytes;
        let count = area / self.bytes;
        let population = Population::new(count, ranks_per_place);
        let skew = match self.law {
            Law::Zipf(theta) => Some(Rc::new(Skew {
                zipf: Zipf::new(population.ranks(), theta),
                population,
                scatter: Scatter::new(count),
            })),
            Law::Sequential | Law::Uniform => None,
        };
        let of = |job: u64| Places {
            law: match (self.law, &skew) {
                (Law::Sequential, _) => Drawn::Sequential,
                (_, Some(skew)) => Drawn::Zipf(Rc::clone(skew)),
                (_, None) => Drawn::Uniform,
            },
            random: Random::new(seed.wrapping_add(job.wrapping_mul(0x9e37_79b9))),
            first: job * area,
            bytes: self.bytes,
            places: count,
            next: 0,
            reads_per_cent: self.reads_per_cent,
        };
        (0..u64::from(self.jobs)).map(of).collect()
    }
}

impl Places {
    /// The next request.
    pub(crate) fn next(&mut self) -> Io {
        let is_read = match self.reads_per_cent {
            0 => false,
            100 => true,
            share => self.random.below(100) < u64::from(share),
        };
        let place = match &self.law {
            Drawn::Sequential => {
                let at = self.next;
                self.next = (at + 1) % self.places;
                at
            }
            Drawn::Uniform => self.random.below(self.places),
            Drawn::Zipf(skew) => {
                let rank = skew.zipf.rank(&mut self.random);
                skew.scatter.of(skew.population.place(rank))
            }
        };
        Io {
            is_read,
            offset: self.first + place * self.bytes,
            bytes: self.bytes,
        }
    }
}
