//! Jobs of the laboratory, on all processors.

use super::lab::now;
use crate::progress::Progress;
use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use varve_lab::experiments::{Ask, Chapter, Experiment, Finding, Job, JobError};
use varve_lab::recovery::unwatched;
use varve_units::Nanos;

/// Nothing is shown before a run has lasted this long.
const SILENCE: Nanos = Nanos::from_secs(2);

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
    let total: u64 = jobs.iter().map(|job| job.weight()).sum();
    // The longest first: one that is begun last keeps the other processors waiting.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|at| Reverse(jobs[*at].weight()));
    let (next, done, start) = (AtomicUsize::new(0), AtomicU64::new(0), now());
    let elapsed = || Nanos(start.elapsed().as_nanos() as u64);
    let progress = Mutex::new(Progress::after("lab", elapsed(), SILENCE));
    let results: Mutex<Vec<(usize, Result<Found, JobError>)>> = Mutex::default();
    let worker = || {
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let job = jobs[at];
            let begun = now();
            let result = job.run(&unwatched());
            let seconds = begun.elapsed().as_secs_f64();
            let result = result.map(|finding| (finding, seconds));
            results
                .lock()
                .expect("no worker panics with it")
                .push((at, result));
            let done = done.fetch_add(job.weight(), Ordering::Relaxed) + job.weight();
            let mut progress = progress.lock().expect("showing progress does not panic");
            if progress.is_due(elapsed()) {
                progress.show(elapsed(), done as f64 / total as f64, "");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(worker);
        }
    });
    let mut results = results.into_inner().expect("all workers have ended");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
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
}
