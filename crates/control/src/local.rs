//! The control plane of one command: the daemon that listens in the state directory is asked; where none
//! does, the command opens what it needs, does one thing, and closes everything in good order.

use crate::barred::of_connect;
use crate::error::ControlError;
use crate::failure::Failure;
use crate::home::Home;
use crate::http::client;
use crate::jobs::{JobState, JobView};
use crate::pools::{Config, Pools};
use crate::request::{Reply, Request};
use crate::steps::CheckStep;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use varve_hostio::{Executor, Io, Signal, Signals};
use varve_io::World;

/// What is told while something is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// A daemon is asked: what it was asked goes on without the command. True if that was a question.
    Asked {
        /// Nothing is changed by it.
        is_question: bool,
    },
    /// How far a job is.
    Job(&'a JobView),
    /// How far a check is.
    Check(&'a CheckStep),
    /// The daemon has not answered for so long.
    Silent(Duration),
    /// A signal came: what was begun is taken back. The second one is told too.
    Signal(Signal),
    /// Other commands that use this state directory are waited for.
    Queue,
}

/// Does one thing, by a daemon or here. A job is waited for; `note` is told how far it is, or that the daemon
/// is silent.
///
/// # Errors
/// What failed, why, and what to do next; also if a pool could not be closed in good order.
pub fn ask(
    home: &Path,
    request: Request,
    note: impl Fn(Note<'_>) + 'static,
) -> Result<Reply, Box<Failure>> {
    let socket = home.join("varve.sock");
    let connect = || {
        let connected = client::connect(&socket);
        connected.map_err(|error| Box::new(of_connect(&socket, error).into()))
    };
    let Some(stream) = connect()? else {
        return run(home, request, note);
    };
    let is_question = request.is_question();
    note(Note::Asked { is_question });
    let silent = |span| note(Note::Silent(span));
    let mut reply = client::ask(stream, &request, silent)?;
    while let Reply::Job(job) = &reply
        && job.state == JobState::Running
    {
        note(Note::Job(job));
        let Some(stream) = connect()? else {
            return Err(Box::new(ControlError::Ended.into()));
        };
        let (job, from) = (job.job, job.done_bytes);
        reply = client::ask(stream, &Request::JobWait { job, from }, silent)?;
    }
    judge(reply)
}

/// A job that failed is a failure; one that made a map anew is what it found.
fn judge(reply: Reply) -> Result<Reply, Box<Failure>> {
    match reply {
        Reply::Job(JobView {
            rebuilt: Some(view),
            ..
        }) => Ok(Reply::PoolRebuild(view)),
        Reply::Job(JobView {
            failure: Some(failure),
            ..
        }) => Err(Box::new(failure)),
        reply => Ok(reply),
    }
}

/// Why the executor does not stand still.
const WAITS: &str = "a session waits for drives and clocks only";

/// Does one thing here, under the drives' locks.
///
/// # Errors
/// As [`ask`].
pub fn run(
    home: &Path,
    request: Request,
    note: impl Fn(Note<'_>) + 'static,
) -> Result<Reply, Box<Failure>> {
    let executor = Executor::new();
    let failed = |error: ControlError| Box::new(Failure::from(error));
    let is_dry = matches!(&request, Request::PoolCreate(new) if new.dry_run);
    let found = match request.may_be_first() {
        true if is_dry => Home::named(home).map(Some),
        true => Home::open(home).map(Some),
        false => Home::find(home),
    };
    let Some(home) = found.map_err(failed)? else {
        return of_nothing(request).map_err(failed);
    };
    let world = executor.world();
    let note = Rc::new(note);
    let knows_nothing = || home.registry().map(|all| all.pools.is_empty());
    let is_look = is_dry || (!request.may_be_first() && knows_nothing().map_err(failed)?);
    let place = match is_look {
        true => None,
        false => {
            let (home, world, note) = (home.clone(), Rc::clone(&world), Rc::clone(&note));
            let queue = async move { home.queue(&*world, || note(Note::Queue)).await };
            executor.run(queue).expect(WAITS)
        }
    };
    // Before any other thread is there.
    let signals = match &request {
        Request::PoolCreate(_) if !is_dry => signals(&*world).map_err(failed)?,
        _ => None,
    };
    let pools = match is_look {
        true => Pools::looking(Rc::clone(&world), home),
        false => Pools::new(Rc::clone(&world), home, Config::default()),
    };
    let pools = pools.map_err(failed)?;
    if let Some(signals) = signals {
        let (pools, note) = (Rc::downgrade(&pools), Rc::clone(&note));
        world.spawn(Box::pin(async move {
            while let (Ok(signal), Some(pools)) = (signals.next().await, pools.upgrade()) {
                pools.interrupt(signal);
                note(Note::Signal(signal));
            }
        }));
    }
    let outcome = executor.run(async move {
        let note = |told: Note<'_>| note(told);
        let outcome = one(&pools, request, note).await;
        let closed = pools.close_all().await;
        let failed = closed.into_iter().find_map(|(_, outcome)| outcome.err());
        match (outcome, failed) {
            (Ok(_), Some(error)) => Err(Failure::from(error)),
            (outcome, _) => outcome,
        }
    });
    let outcome = outcome.expect(WAITS);
    drop(place);
    outcome.map_err(Box::new)
}

/// The signals of this process; where they cannot be had they end it.
fn signals(world: &dyn World) -> Result<Option<Signals>, ControlError> {
    Ok(Signals::take(Io::of(world)?).ok())
}

/// What is answered where no state directory is: no pool is known, and nothing is made to find that out.
fn of_nothing(request: Request) -> Result<Reply, ControlError> {
    let none = |pool| Err(ControlError::NoPool(pool));
    match request {
        Request::PoolList => Ok(Reply::PoolList { pools: Vec::new() }),
        Request::VolumeList { pool: None } => Ok(Reply::VolumeList {
            volumes: Vec::new(),
            findings: Vec::new(),
        }),
        Request::DriveList { pool: None } => Ok(Reply::DriveList { drives: Vec::new() }),
        Request::JobList => Ok(Reply::JobList { jobs: Vec::new() }),
        Request::JobWait { job, .. } => Err(ControlError::NoJob(job)),
        Request::PoolStatus { pool }
        | Request::PoolExport { pool, .. }
        | Request::PoolDestroy { pool, .. }
        | Request::PoolCheck { pool }
        | Request::PoolScrubStop { pool }
        | Request::VolumeList { pool: Some(pool) }
        | Request::VolumeResize { pool, .. }
        | Request::VolumeDelete { pool, .. }
        | Request::DriveList { pool: Some(pool) } => none(pool),
        Request::VolumeCreate(new) => none(new.pool),
        Request::DriveReplace(wanted) => none(wanted.pool),
        Request::PoolScrub(wanted) => none(wanted.pool),
        Request::PoolRebuild(wanted) => none(wanted.pool),
        Request::PoolCreate(_) | Request::PoolImport(_) => {
            unreachable!("these make the state directory")
        }
    }
}

async fn one(
    pools: &Rc<Pools>,
    request: Request,
    note: impl Fn(Note<'_>),
) -> Result<Reply, Failure> {
    if let Request::PoolExport { pool, .. } | Request::PoolDestroy { pool, .. } = &request
        && pools.home.registry()?.get(pool).is_none()
    {
        return Err(ControlError::NoPool(pool.clone()).into());
    }
    if let Some(pool) = request.pool()
        && let Err(error) = pools.open(pool).await
    {
        return Err(pools.with_users(error).await.into());
    }
    if matches!(request, Request::VolumeList { pool: None }) {
        // What does not open is told with the list, as a daemon tells it. Without a list it is the failure.
        let failed = pools.open_all().await.into_iter();
        let first = failed.filter_map(|(_, outcome)| outcome.err()).next();
        if let Some(error) = first.filter(|_| pools.open_names().is_empty()) {
            return Err(pools.with_users(error).await.into());
        }
    }
    if let Request::PoolCheck { pool } = &request {
        let watch = |step: &CheckStep| note(Note::Check(step));
        return Ok(Reply::PoolCheck(pools.check_watched(pool, &watch).await?));
    }
    let mut reply = pools.answer(request).await?;
    while let Reply::Job(job) = &reply
        && job.state == JobState::Running
    {
        note(Note::Job(job));
        reply = Reply::Job(pools.wait_job(job.job, job.done_bytes).await?);
    }
    judge(reply).map_err(|failure| *failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nothing is remembered nothing is known; to find that out nothing is made.
    #[test]
    fn a_look_at_no_state_directory_makes_none() {
        let home = std::env::temp_dir().join(format!("varve-no-state-{}", std::process::id()));
        let asked = |request| ask(&home, request, |_| ());
        let lists = [
            Request::PoolList,
            Request::VolumeList { pool: None },
            Request::DriveList { pool: None },
        ];
        for request in lists {
            asked(request).expect("an empty list");
        }
        let pool = "tank".to_owned();
        for request in [
            Request::PoolStatus { pool: pool.clone() },
            Request::PoolCheck { pool: pool.clone() },
            Request::VolumeList {
                pool: Some(pool.clone()),
            },
        ] {
            assert_eq!(asked(request).expect_err("no pool").code, "no-pool");
        }
        assert!(!home.exists());
        // Nor is anything made in one in which nothing is known.
        std::fs::create_dir(&home).expect("a directory");
        asked(Request::PoolList).expect("an empty list");
        asked(Request::VolumeList { pool: None }).expect("an empty list");
        let asked_for = Request::PoolStatus { pool };
        assert_eq!(asked(asked_for).expect_err("no pool").code, "no-pool");
        let is_empty = std::fs::read_dir(&home).map(|mut entries| entries.next().is_none());
        std::fs::remove_dir_all(&home).expect("it was made");
        assert!(is_empty.expect("it is there"));
    }
}
