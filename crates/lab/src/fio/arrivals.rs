//! When I/Os of an open loop are meant to begin.

use super::job::{Job, Process};
use crate::draw::{Poisson, Random};

const NS_PER_S: u64 = 1_000_000_000;

/// The intended start of an I/O.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Arrival {
    /// When, in nanoseconds from the start of the job.
    pub at_ns: u64,
    /// What.
    pub is_read: bool,
}

/// Intended starts of a clone's I/Os, in order of time. Reads and writes of a mixed job have a process
/// each, as in fio: their rates are the mix. Ends when time no longer fits, after centuries.
///
/// Unlike fio, which shifts what is late, the intended starts do not depend on what happens.
pub struct Arrivals {
    sides: [Option<Side>; 2],
}

/// The process of one direction.
struct Side {
    is_read: bool,
    starts: Starts,
    /// The next one, if there is one.
    next_ns: Option<u64>,
}

enum Starts {
    Linear { per_second: u64, count: u64 },
    Poisson(Poisson),
}

impl Starts {
    /// The next start: the first of a linear process is at once.
    fn next(&mut self) -> Option<u64> {
        match self {
            Self::Linear { per_second, count } => {
                let at = u128::from(*count) * u128::from(NS_PER_S);
                *count += 1;
                u64::try_from(at / u128::from(*per_second)).ok()
            }
            Self::Poisson(process) => process.next(),
        }
    }
}

impl Side {
    fn new(job: &Job, clone: u32, is_read: bool, seed: u64) -> Option<Self> {
        let rate = job.rate?;
        let per_second = rate.per_second.of(is_read);
        if per_second == 0 {
            return None;
        }
        let mut starts = match rate.process {
            Process::Linear => Starts::Linear {
                per_second,
                count: 0,
            },
            Process::Poisson => {
                let random = Random::new(job.seed(clone, 2 + u64::from(is_read), seed));
                Starts::Poisson(Poisson::new(NS_PER_S as f64 / per_second as f64, random))
            }
        };
        let next_ns = starts.next();
        Some(Self {
            is_read,
            starts,
            next_ns,
        })
    }

    fn arrival(&self) -> Option<Arrival> {
        let is_read = self.is_read;
        self.next_ns.map(|at_ns| Arrival { at_ns, is_read })
    }
}

impl Arrivals {
    /// Those of a clone; `None` if the job is a closed loop. `seed` is the run's.
    #[must_use]
    pub fn new(job: &Job, clone: u32, seed: u64) -> Option<Self> {
        let sides = [true, false].map(|is_read| Side::new(job, clone, is_read, seed));
        let is_open = sides.iter().any(Option::is_some);
        is_open.then_some(Self { sides })
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let due = self.sides.iter_mut().flatten();
        let due = due.filter(|side| side.next_ns.is_some());
        let side = due.min_by_key(|side| side.next_ns)?;
        let arrival = side.arrival();
        side.next_ns = side.starts.next();
        arrival
    }
}
