//! When requests of bursts begin.
//!
//! 1. Silences and bursts take turns, the first a silence. All jobs have the same ones.
//! 2. A job's requests are a Poisson process on a clock that stands still in silences.

use crate::draw::{Poisson, Random};
use std::ops::Range;

/// Bursts, in nanoseconds from the start of a round. They end when time no longer fits.
pub(crate) struct Periods {
    random: Random,
    burst_ns: f64,
    silence_ns: f64,
    /// End of the last one.
    end_ns: u64,
}

impl Periods {
    /// Of means in nanoseconds.
    pub(crate) const fn new(burst_ns: f64, silence_ns: f64, random: Random) -> Self {
        Self {
            random,
            burst_ns,
            silence_ns,
            end_ns: 0,
        }
    }

    /// How many begin in a span.
    pub(crate) fn begun_in(self, span: &Range<u64>) -> u64 {
        let begun = self.map(|burst| burst.start);
        let before = begun.take_while(|start| *start < span.end);
        before.filter(|start| *start >= span.start).count() as u64
    }
}

impl Iterator for Periods {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let silence = self.random.exponential(self.silence_ns) as u64;
        let burst = self.random.exponential(self.burst_ns) as u64;
        let start = self.end_ns.checked_add(silence)?;
        self.end_ns = start.checked_add(burst)?;
        Some(start..self.end_ns)
    }
}

/// Intended starts of a job's requests, in nanoseconds from the start of the round.
pub(crate) struct BurstStarts {
    /// On the clock that stands still in silences.
    process: Poisson,
    periods: Periods,
    /// The burst under way, and what that clock showed when it began.
    burst: Range<u64>,
    clock_ns: u64,
}

impl BurstStarts {
    /// A process on the clock of bursts.
    pub(crate) const fn new(process: Poisson, periods: Periods) -> Self {
        Self {
            process,
            periods,
            burst: 0..0,
            clock_ns: 0,
        }
    }
}

impl Iterator for BurstStarts {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = self.process.next()?;
        loop {
            let length = self.burst.end - self.burst.start;
            let into = at - self.clock_ns;
            if into < length {
                return self.burst.start.checked_add(into);
            }
            self.clock_ns += length;
            self.burst = self.periods.next()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;
    const SECOND: u64 = 1_000_000_000;

    fn periods() -> Periods {
        Periods::new(20.0 * MS, 60.0 * MS, Random::new(5))
    }

    fn starts(seed: u64) -> impl Iterator<Item = u64> {
        // 4000 a second in bursts, a quarter of that on average.
        let process = Poisson::new(0.25 * MS, Random::new(seed));
        BurstStarts::new(process, periods()).take_while(|at| *at < 1000 * SECOND)
    }

    /// The mean is kept, nothing comes in a silence, and in bursts it comes as fast as it should.
    #[test]
    fn starts_are_those_of_a_process_in_bursts_only() {
        let bursts: Vec<_> = periods()
            .take_while(|burst| burst.start < 1000 * SECOND)
            .collect();
        let all: Vec<u64> = starts(9).collect();
        assert!(all.is_sorted());
        let mean = all.len() as f64 / 1000.0;
        assert!((mean / 1000.0 - 1.0).abs() < 0.05, "{mean} a second");
        let lasted: u64 = bursts.iter().map(|burst| burst.end - burst.start).sum();
        let rate = all.len() as f64 / lasted as f64 * 1e9;
        assert!((rate / 4000.0 - 1.0).abs() < 0.02, "{rate} a second");
        let mut left = all.iter().peekable();
        for burst in &bursts {
            while left.next_if(|at| **at < burst.end).is_some_and(|at| {
                assert!(*at >= burst.start, "{at} before {burst:?}");
                true
            }) {}
        }
        assert!(left.next().is_none(), "behind the last burst");
    }

    /// Jobs differ in their requests, not in their bursts.
    #[test]
    fn bursts_are_those_of_all_jobs() {
        let filled = |seed| -> Vec<bool> {
            let mut counts = vec![0; 100];
            starts(seed)
                .take_while(|at| *at < SECOND)
                .for_each(|at| counts[(at / 10_000_000) as usize] += 1);
            counts.into_iter().map(|count| count > 0).collect()
        };
        assert_ne!(starts(1).next(), starts(2).next());
        let differing = filled(1).into_iter().zip(filled(2)).filter(|(a, b)| a != b);
        // Edges of bursts may lie just so.
        assert!(differing.count() < 8);
        assert!(filled(1).iter().filter(|is_filled| !**is_filled).count() > 40);
    }

    #[test]
    fn bursts_are_counted_where_they_begin() {
        let all: Vec<_> = periods().take(100).collect();
        let span = all[10].start..all[90].start;
        assert_eq!(periods().begun_in(&span), 80);
        assert_eq!(periods().begun_in(&(all[10].start + 1..all[90].start)), 79);
    }
}
