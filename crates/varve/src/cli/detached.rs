//! What goes on in a daemon after a signal has ended the command that asked for it.
//!
//! A command that does it itself ends with what it does. One that asked a daemon ends alone: to say that it was not
//! done, and to have it asked for again, would be wrong.

use super::Exit;
use std::sync::{Mutex, MutexGuard, PoisonError};
use varve_control::{Failure, JobView};

/// What this process has under way.
#[derive(Clone, PartialEq, Eq, Debug)]
enum UnderWay {
    /// What it does itself.
    Own,
    /// What a daemon was asked: a question, or not.
    Asked { is_question: bool },
    /// A job of a daemon: its number, and what it does to what pool.
    Job {
        job: u64,
        what: String,
        pool: String,
    },
}

static UNDER_WAY: Mutex<UnderWay> = Mutex::new(UnderWay::Own);

fn under_way() -> MutexGuard<'static, UnderWay> {
    // Whoever panicked with it in hand cannot have left half of it.
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A daemon is asked.
pub(super) fn note_asked(is_question: bool) {
    *under_way() = UnderWay::Asked { is_question };
}

/// A job is under way. It goes on without the command only if it is a daemon's.
pub(super) fn note_job(job: &JobView) {
    let mut under_way = under_way();
    if *under_way != UnderWay::Own {
        *under_way = UnderWay::Job {
            job: job.job,
            what: format!("{} {}", job.does, job.what()),
            pool: job.pool.clone(),
        };
    }
}

/// What a signal leaves that ends this process now. `exit` tells which signal it was.
pub(super) fn left_by(exit: Exit) -> Failure {
    of(&under_way(), exit)
}

fn of(under_way: &UnderWay, exit: Exit) -> Failure {
    let by = match exit {
        Exit::Interrupted => "Ctrl-C",
        Exit::HungUp => "the end of its terminal",
        _ => "SIGTERM",
    };
    let (exit, code, error, next) = match under_way {
        UnderWay::Own | UnderWay::Asked { is_question: true } => (
            exit,
            exit.word(),
            format!("{by} ended it before it was done"),
            "run it again".to_owned(),
        ),
        // Whether the daemon has begun, has ended or refuses it nobody knows here.
        UnderWay::Asked { is_question: false } => (
            exit,
            exit.word(),
            format!(
                "{by} ended the command alone: the daemon may do what it was asked all the same"
            ),
            "varve pool status tells what it did".to_owned(),
        ),
        UnderWay::Job { job, what, pool } => (
            Exit::StillRunning,
            "job-goes-on",
            format!("{by} ended the command alone: job {job} goes on ({what})"),
            format!("varve pool status {pool}"),
        ),
    };
    Failure {
        exit,
        code: code.to_owned(),
        error,
        causes: Vec::new(),
        findings: Vec::new(),
        next: Some(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes on is not said to have ended, and not to be asked for once more.
    #[test]
    fn what_goes_on_is_told() {
        let told = |under_way| {
            let left = of(&under_way, Exit::Interrupted);
            (left.exit, left.error, left.next.unwrap_or_default())
        };
        for alone in [UnderWay::Own, UnderWay::Asked { is_question: true }] {
            let (exit, error, next) = told(alone);
            assert_eq!((exit, &next[..]), (Exit::Interrupted, "run it again"));
            assert!(error.starts_with("Ctrl-C ended it"), "{error}");
        }
        let (exit, error, next) = told(UnderWay::Asked { is_question: false });
        assert_eq!(exit, Exit::Interrupted);
        assert!(error.contains("the daemon may do"), "{error}");
        assert!(!next.contains("again"), "{next}");
        let (exit, error, next) = told(UnderWay::Job {
            job: 3,
            what: "replace-drive tank/dense1".to_owned(),
            pool: "tank".to_owned(),
        });
        assert_eq!((exit as u8, exit.word()), (7, "still-running"));
        assert!(
            error.contains("job 3 goes on (replace-drive tank/dense1)"),
            "{error}"
        );
        assert_eq!(next, "varve pool status tank");
    }
}
