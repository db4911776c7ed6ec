//! The end in good order, and what becomes of it where something does not end.
//!
//! 1. Commands of the administrator and of hosts that were taken are waited for, for the drain's limit.
//! 2. Associations end then: hosts come back with what was not answered; what waits for room is sent back.
//! 3. Pools are closed, for as long again.
//!
//! What is left after that is told, and the process ends as by a second signal: its next start recovers
//! what was not closed. All of it together is twice the limit and three seconds, below what a service manager
//! waits (`TimeoutStopSec` in `deploy/varve.service`).

use crate::cli::abandon;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use varve_control::{Closings, ControlError, Pools, http, within};
use varve_io::World;
use varve_server::{Left, Server};
use varve_units::Nanos;

/// What hosts have of the limit at least, where a command of the administrator took the rest: they were served
/// meanwhile, and what they have under way ends soon. Arbitrary.
const HOSTS_TIME_MIN: Nanos = Nanos::from_secs(1);

/// What was not waited for any longer, in words.
#[derive(PartialEq, Eq, Debug)]
enum Told {
    /// Commands of hosts that were not answered.
    Hosts(Left),
    /// A command of the administrator that has not ended.
    Administrator,
    /// Pools that were not closed.
    Pools(Vec<String>),
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(Left { unanswered, held }) => {
                let since = unanswered - held;
                write!(
                    f,
                    "time to drain is over: {unanswered} commands of hosts end without an answer, {since} of them \
                     have ended since or were sent back, {held} are still with their pools"
                )
            }
            Self::Administrator => f.write_str("time to drain is over: a command has not ended"),
            Self::Pools(names) => write!(
                f,
                "not closed in time: {}; the next start recovers what was answered",
                names.join(", ")
            ),
        }
    }
}

/// Ends a server without pools.
pub(super) async fn of_server(server: &Server, limit: Nanos) {
    let left = server.drain_within(limit).await;
    if left != Left::default() {
        warn(&Told::Hosts(left));
    }
}

/// Ends everything; does not return where something does not end.
///
/// # Errors
/// Why a pool was not closed in good order.
pub(super) async fn of_all(
    world: &Rc<dyn World>,
    api: http::Server,
    server: &Server,
    pools: &Rc<Pools>,
    limit: Nanos,
) -> Result<(), ControlError> {
    let until = world.now() + limit;
    // A flow of its own: dropped before its end it would wait for its thread.
    let clock = Rc::clone(world);
    let is_answered = Rc::new(Cell::new(false));
    let answered = Rc::clone(&is_answered);
    let ended = world.run(async move {
        api.end(&*clock).await;
        answered.set(true);
    });
    within(&**world, until, ended).await;
    if !is_answered.get() {
        warn(&Told::Administrator);
    }
    of_server(server, until.since(world.now()).max(HOSTS_TIME_MIN)).await;
    let closings = pools.close_within(limit).await;
    let (left, outcome) = sum_up(closings);
    if !left.is_empty() {
        let left = Told::Pools(left).to_string();
        abandon("not-closed", &left);
    }
    // It may have ended since, late.
    if !is_answered.get() {
        let left = Told::Administrator.to_string();
        abandon("not-ended", &left);
    }
    outcome
}

/// Names of the pools that were not closed, and the first error of those that were.
fn sum_up(closings: Closings) -> (Vec<String>, Result<(), ControlError>) {
    let mut left = Vec::new();
    let mut outcome = Ok(());
    for (pool, closed) in closings {
        match closed {
            None => left.push(pool),
            Some(closed) => outcome = outcome.and(closed),
        }
    }
    (left, outcome)
}

fn warn(told: &Told) {
    eprintln!("warning: {told}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left is told by number and by name; what was closed is not.
    #[test]
    fn what_is_left_is_told() {
        let closings = [
            ("a", Some(Ok(()))),
            ("b", None),
            ("c", Some(Err(ControlError::Ended))),
            ("d", None),
        ];
        let closings = closings.map(|(name, closed)| (name.to_owned(), closed));
        let (left, outcome) = sum_up(closings.into());
        assert!(matches!(outcome, Err(ControlError::Ended)));
        let text = Told::Pools(left).to_string();
        assert!(text.contains("in time: b, d;"), "{text}");
        let hosts = Told::Hosts(Left {
            unanswered: 12,
            held: 5,
        });
        let text = hosts.to_string();
        assert!(
            text.contains("12 commands") && text.contains("7 of them"),
            "{text}"
        );
    }
}
