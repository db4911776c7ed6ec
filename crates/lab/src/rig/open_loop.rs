//! The open loop of a mix: requests begin when they are meant to, whatever has happened.

use super::account::window;
use super::bursts::{BurstStarts, Periods};
use super::error::RigError;
use super::load::Load;
use super::pace::Bursts;
use super::report::Window;
use super::round::Span;
use super::run::{RAMP, WINDOW};
use super::worker::{Starts, Worker};
use crate::draw::{Poisson, Random};
use std::rc::Rc;
use varve_units::Nanos;

const NS_PER_S: u64 = 1_000_000_000;

/// What is asked for.
pub(super) struct OpenLoop {
    /// Requests a second of all jobs.
    pub(super) iops: u64,
    /// How they come, if not as a Poisson process: `rate` of it is what `iops` says.
    pub(super) bursts: Option<Bursts>,
    /// Of the window, on average; half as many come before it.
    pub(super) requests: u64,
    pub(super) seed: u64,
}

impl OpenLoop {
    /// Asks, where those workers go that were a closed loop.
    pub(super) async fn run(
        &self,
        load: &Rc<Load>,
        workers: &[Rc<Worker>],
    ) -> Result<Window, RigError> {
        let (ramp, length) = (self.span(RAMP, 2), self.span(WINDOW, 1));
        let opened = workers.iter().zip(0..).map(|(worker, at)| {
            let starts = self.starts(workers.len(), at);
            Rc::new(worker.opened(starts, length))
        });
        let opened: Vec<_> = opened.collect();
        let requests = u64::MAX;
        let measured = load
            .measure(&opened, 1, Span::Timed { ramp, requests }, true)
            .await;
        let mut window = window(&measured.map_err(RigError::Engine)?, &[]);
        window.offered_iops = Some(self.iops);
        let seen = ramp.0..ramp.0.saturating_add(length.0);
        window.bursts = self
            .bursts
            .map(|bursts| self.periods(bursts).begun_in(&seen));
        Ok(window)
    }

    /// How long a `part`-th of the requests takes on average. No more than `most`, but for bursts: a window
    /// as short as that may see none.
    fn span(&self, most: Nanos, part: u64) -> Nanos {
        let time = u128::from(self.requests / part) * u128::from(NS_PER_S) / u128::from(self.iops);
        let time = u64::try_from(time).unwrap_or(u64::MAX);
        Nanos(match self.bursts {
            Some(_) => time,
            None => time.min(most.0),
        })
    }

    /// Of one of so many jobs.
    fn starts(&self, jobs: usize, at: u64) -> Starts {
        // Apart from the seeds of places.
        let random = Random::new(Random::new(!self.seed).bits() ^ at);
        let mean_ns = NS_PER_S as f64 * jobs as f64 / self.iops as f64;
        match self.bursts {
            None => Starts::Poisson(Poisson::new(mean_ns, random)),
            Some(bursts) => {
                let process = Poisson::new(mean_ns / f64::from(bursts.factor), random);
                Starts::Bursts(BurstStarts::new(process, self.periods(bursts)))
            }
        }
    }

    /// The same for all jobs.
    fn periods(&self, bursts: Bursts) -> Periods {
        let factor = f64::from(bursts.factor);
        let burst_ns = bursts.requests as f64 * NS_PER_S as f64 / (self.iops as f64 * factor);
        // Apart from the seeds of places, and of requests.
        let random = Random::new(Random::new(!self.seed.rotate_left(32)).bits());
        Periods::new(burst_ns, burst_ns * (factor - 1.0), random)
    }
}
