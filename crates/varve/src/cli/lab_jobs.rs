//! Jobs of the laboratory, on all processors.

use super::lab::now;
use crate::progress::Progress;
use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use varve_lab::experiments::{Ask, Chapter, Experiment, Finding, Job, JobError};
use varve_lab::recovery::unwatched;
use varve_units::Nanos;

/// Nothing is shown before a run has lasted this long.
const SILENCE: Nanos = Nanos::from_secs(2);
/// Time between two looks whether there is something to show.
const TICK: Duration = Duration::from_millis(250);

/// What a job found, and the seconds it took.
type Found = (Finding, f64);

/// Runs the jobs of experiments on all processors; what several ask for runs once, and its time counts with
/// the first.
pub(super) fn run_all<'a>(
    experiments: &[(&'a Experiment, Ask)],
) -> Result<Vec<Chapter<'a>>, JobError> {
    let jobs: Vec<Vec<Job>> = experiments
        .iter()
        .map(|(experiment, ask)| (experiment.jobs)(ask))
        .collect();
    let flat: Vec<&Job> = jobs.iter().flatten().collect();
    // Minutes of the others are not to pass before one is refused.
    flat.iter().try_for_each(|job| job.check())?;
    let (once, places) = distinct(&flat);
    let found = run_jobs(&once)?;
    let mut first = vec![true; found.len()];
    let mut findings = places.into_iter().map(|at| {
        let (finding, seconds) = &found[at];
        let seconds = if std::mem::take(&mut first[at]) {
            *seconds
        } else {
            0.0
        };
        (finding.clone(), seconds)
    });
    let chapters = experiments
        .iter()
        .zip(&jobs)
        .map(|((experiment, ask), jobs)| {
            let found: Vec<_> = findings.by_ref().take(jobs.len()).collect();
            let elapsed_s: f64 = found.iter().map(|(_, seconds)| seconds).sum();
            let found: Vec<Finding> = found.into_iter().map(|(finding, _)| finding).collect();
            Chapter {
                experiment,
                ask: *ask,
                outcome: experiment.conclude(ask, &found),
                elapsed_s: (elapsed_s * 10.0).round() / 10.0,
            }
        });
    Ok(chapters.collect())
}

/// Each of the jobs once, and where each of all stands among these.
fn distinct<'a>(jobs: &[&'a Job]) -> (Vec<&'a Job>, Vec<usize>) {
    let mut once: Vec<&Job> = Vec::new();
    let places = jobs.iter().map(|job| {
        let known = once.iter().position(|other| other == job);
        known.unwrap_or_else(|| {
            once.push(job);
            once.len() - 1
        })
    });
    let places = places.collect();
    (once, places)
}

/// What each job found, and the seconds it took, in their order.
fn run_jobs(jobs: &[&Job]) -> Result<Vec<Found>, JobError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    // The longest first: one that is begun last keeps the other processors waiting.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|at| Reverse(jobs[*at].weight()));
    let (next, start) = (AtomicUsize::new(0), now());
    let elapsed = || Nanos(start.elapsed().as_nanos() as u64);
    let mut progress = Progress::after("lab", elapsed(), SILENCE);
    let mut shares = Shares::new(jobs.iter().map(|job| job.weight()).collect());
    let (sender, events) = mpsc::channel();
    let worker = |sender: &Sender<Event>| {
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The receiver lives as long as the senders do, see below.
            let _ = sender.send(Event::Begun(at, elapsed()));
            let begun = now();
            let result = jobs[at].run(&unwatched());
            let seconds = begun.elapsed().as_secs_f64();
            let result = result.map(|finding| (finding, seconds));
            let _ = sender.send(Event::Ended(at, Box::new(result)));
        }
    };
    let mut results: Vec<Option<Result<Found, JobError>>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            let (worker, sender) = (&worker, sender.clone());
            scope.spawn(move || worker(&sender));
        }
        drop(sender);
        // Time is told while all of them are at work, which the first are for a minute and more.
        loop {
            match events.recv_timeout(TICK) {
                Ok(Event::Begun(at, when)) => shares.begin(at, when),
                Ok(Event::Ended(at, result)) => {
                    if let Ok((_, seconds)) = &*result {
                        shares.end(at, *seconds);
                    }
                    results[at] = Some(*result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if progress.is_due(elapsed()) {
                let done = results.iter().flatten().count();
                let more = format!("{done} of {} runs", jobs.len());
                progress.show(elapsed(), shares.all(elapsed()), &more);
            }
        }
    });
    let ended = results
        .into_iter()
        .map(|result| result.expect("all workers have ended"));
    ended.collect()
}

/// What a worker tells.
enum Event {
    /// It begins this job, so long after the first.
    Begun(usize, Nanos),
    /// It has ended it.
    Ended(usize, Box<Result<Found, JobError>>),
}

/// How far all jobs are, by their weights.
struct Shares {
    weights: Vec<u64>,
    begun: Vec<Option<Nanos>>,
    is_done: Vec<bool>,
    /// Weight that was done, and the seconds that took.
    pace: (f64, f64),
}

/// Weights are microseconds of an idle core, so there is a pace before one has ended; these many count with what is
/// measured. Arbitrary: two jobs or three.
const PRIOR: f64 = 2e7;
/// A job that takes longer than its weight tells stays at this share.
const ALMOST: f64 = 0.95;

impl Shares {
    fn new(weights: Vec<u64>) -> Self {
        Self {
            begun: vec![None; weights.len()],
            is_done: vec![false; weights.len()],
            pace: (PRIOR, PRIOR / 1e6),
            weights,
        }
    }

    fn begin(&mut self, at: usize, when: Nanos) {
        self.begun[at] = Some(when);
    }

    fn end(&mut self, at: usize, seconds: f64) {
        self.is_done[at] = true;
        self.pace.0 += self.weights[at] as f64;
        self.pace.1 += seconds;
    }

    /// Share of all at a moment.
    fn all(&self, now: Nanos) -> f64 {
        let a_second = self.pace.0 / self.pace.1;
        let of = |at: usize| {
            let weight = self.weights[at] as f64;
            match self.begun[at] {
                _ if self.is_done[at] => weight,
                Some(when) => {
                    let seconds = now.since(when).0 as f64 / 1e9;
                    (seconds * a_second).min(weight * ALMOST)
                }
                None => 0.0,
            }
        };
        let done: f64 = (0..self.weights.len()).map(of).sum();
        done / (self.weights.iter().sum::<u64>().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_lab::experiments::named;

    /// What time-waf shows time-writes has run.
    #[test]
    fn what_two_ask_for_runs_once() {
        let ask = Ask { seed: 3, scale: 2 };
        let jobs = |name| (named(name).expect(name).jobs)(&ask);
        let (writes, waf) = (jobs("time-writes"), jobs("time-waf"));
        let all: Vec<&Job> = writes.iter().chain(&waf).collect();
        let (once, places) = distinct(&all);
        assert_eq!(once.len(), writes.len());
        for (job, place) in all.iter().zip(&places) {
            assert_eq!(once[*place], *job);
        }
        let (scale, tier) = (jobs("waf-scale"), jobs("waf-fast-tier"));
        let all: Vec<&Job> = scale.iter().chain(&tier).collect();
        assert!(distinct(&all).0.len() < all.len());
    }

    /// A job that runs counts for what its time tells, and never for all of it; what has ended sets the pace.
    #[test]
    fn running_jobs_count_for_their_time() {
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
        let mut shares = Shares::new(vec![30_000_000, 10_000_000]);
        close(shares.all(Nanos::from_secs(5)), 0.0);
        shares.begin(0, Nanos::from_secs(1));
        shares.begin(1, Nanos::from_secs(1));
        close(shares.all(Nanos::from_secs(5)), 8.0 / 40.0);
        close(shares.all(Nanos::from_secs(900)), ALMOST);
        shares.end(1, 40.0);
        // 30 million took 60 seconds.
        close(shares.all(Nanos::from_secs(41)), (10.0 + 20.0) / 40.0);
        shares.end(0, 80.0);
        close(shares.all(Nanos::from_secs(81)), 1.0);
    }
}
