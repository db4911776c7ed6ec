//! What hosts do: so many jobs, each on its own part of the addresses.

use crate::draw::{Random, Scatter, Zipf};
use serde::Serialize;
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

/// What hosts do.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Mix {
    /// Jobs, each with an equal part of the addresses, each a tenant.
    pub jobs: u32,
    /// Requests that each job keeps in flight.
    pub depth: u32,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests that read, per cent.
    pub reads_per_cent: u32,
    /// Which places they go to.
    pub law: Law,
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
    Zipf(Rc<(Zipf, Scatter)>),
}

impl Mix {
    /// The jobs of the mix on `size` bytes.
    pub(crate) fn places(&self, size: u64, seed: u64) -> Vec<Places> {
        let area = size / u64::from(self.jobs) / self.bytes * self.bytes;
        let count = area / self.bytes;
        let zipf = match self.law {
            Law::Zipf(theta) => Some(Rc::new((Zipf::new(count, theta), Scatter::new(count)))),
            Law::Sequential | Law::Uniform => None,
        };
        let of = |job: u64| Places {
            law: match (self.law, &zipf) {
                (Law::Sequential, _) => Drawn::Sequential,
                (_, Some(zipf)) => Drawn::Zipf(Rc::clone(zipf)),
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
    /// The next request: whether it reads, and its first byte.
    pub(crate) fn next(&mut self) -> (bool, u64) {
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
            Drawn::Zipf(zipf) => zipf.1.of(zipf.0.rank(&mut self.random)),
        };
        (is_read, self.first + place * self.bytes)
    }
}
