//! Tests of all kinds, some of them beside one another.

use crate::tally::Tally;
use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

/// Tests that are run and told together.
pub struct Job {
    /// What is shown of it.
    pub name: String,
    /// Runs them.
    pub run: Box<dyn FnOnce() -> Done + Send>,
}

/// How a job ended.
pub struct Done {
    /// Its tests.
    pub tally: Tally,
    /// Why it is not good.
    pub failure: Option<String>,
    /// What there is to say beside that.
    pub notes: String,
}

impl Done {
    /// One of which nothing is known but why it failed.
    pub fn failed(why: String) -> Self {
        Self {
            tally: Tally::default(),
            failure: Some(why),
            notes: String::new(),
        }
    }
}

/// Runs jobs in their order, `at_once` of them beside one another, and gives each to `report` when it ends: its name, how it
/// ended and how long it took.
pub fn run(jobs: Vec<Job>, at_once: usize, report: &mut dyn FnMut(&str, &Done, Duration)) {
    let jobs = Mutex::new(VecDeque::from(jobs));
    let next = || jobs.lock().expect("no job runs under it").pop_front();
    std::thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..at_once.max(1) {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                while let Some(job) = next() {
                    eprintln!("{}: begun", job.name);
                    let start = now();
                    let done = (job.run)();
                    if sender.send((job.name, done, start.elapsed())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (name, done, elapsed) in ended {
            report(&name, &done, elapsed);
        }
    });
}

/// What is shown of one that ended.
pub fn line(name: &str, done: &Done, elapsed: Duration) -> String {
    let Done {
        tally,
        failure,
        notes,
    } = done;
    let verdict = failure.as_ref().map_or_else(
        || format!("ok, {tally}"),
        |failure| format!("FAILED, {failure}, {tally}"),
    );
    let notes: Vec<_> = notes.lines().map(|note| format!("\n    {note}")).collect();
    format!(
        "{name}: {verdict} ({:.0} s){}",
        elapsed.as_secs_f64(),
        notes.concat()
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a job takes is what is shown"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::{Done, Job, run};
    use crate::tally::Tally;
    use std::sync::{Arc, Barrier};

    fn job(name: &str, run: impl FnOnce() -> Done + Send + 'static) -> Job {
        Job {
            name: name.to_owned(),
            run: Box::new(run),
        }
    }

    fn one() -> Done {
        Done {
            tally: Tally {
                passed: 1,
                ..Tally::default()
            },
            failure: None,
            notes: String::new(),
        }
    }

    /// Two that wait for each other end, and so does what comes after a failure.
    #[test]
    fn jobs_run_beside_one_another_and_all_are_told() {
        let barrier = Arc::new(Barrier::new(2));
        let mut jobs: Vec<Job> = ["a", "b"]
            .map(|name| {
                let barrier = Arc::clone(&barrier);
                job(name, move || {
                    barrier.wait();
                    one()
                })
            })
            .into();
        jobs.push(job("c", || Done::failed("no".to_owned())));
        jobs.extend(["d", "e"].map(|name| job(name, one)));
        let (mut names, mut failures, mut sum) = (Vec::new(), Vec::new(), Tally::default());
        run(jobs, 2, &mut |name, done, _| {
            names.push(name.to_owned());
            failures.extend(done.failure.clone());
            sum.add(done.tally);
        });
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert_eq!((failures, sum.passed), (vec!["no".to_owned()], 4));
    }

    #[test]
    fn one_at_a_time_is_in_order() {
        let mut names = String::new();
        let jobs = ["c", "a", "b"].map(|name| job(name, one)).into();
        run(jobs, 1, &mut |name, _, _| names.push_str(name));
        assert_eq!(names, "cab");
    }
}
