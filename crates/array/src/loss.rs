//! Losses: who failed a command, whether the others can do without, and the commit.
//!
//! A member that fails becomes *leaving* at once, if the others hold everything; its commit runs
//! as a task of its own, one at a time, and every command that missed the member awaits it. One that
//! is given up by wish goes the same way: from the first moment nobody else counts on it.
//!
//! A leaving member never serves again, not even if its loss is refused: it has missed writes. Once
//! the first try to commit the loss has ended, nobody waits for its drive any more, which may hang;
//! until then what it was sent may end as usual.

use crate::join::Part;
use crate::member::MemberState;
use crate::members::{Members, Phase};
use crate::set::MemberSet;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use varve_io::{Done, Event, IoError, Outcome};

/// One try to commit a loss.
#[derive(Default)]
pub(crate) struct Attempt {
    result: Cell<Option<Result<(), IoError>>>,
    ended: Event,
}

impl Members {
    /// Awaits a command that was sent to every member that takes writes, and judges it: who
    /// failed it or was left out is lost, and the loss committed, before it is a success.
    pub(crate) async fn conclude(self: &Rc<Self>, parts: Vec<Part>) -> Outcome {
        let parts = self.join(parts).await;
        let mut good = MemberSet::default();
        let mut first_error = None;
        for part in &parts {
            match part.error() {
                None => good.insert(part.sent.member),
                Some(why) => first_error = first_error.or(Some(why)),
            }
        }
        if !self.holds(self.live().and(good)) {
            return Err(first_error.unwrap_or(IoError::Gone));
        }
        for part in &parts {
            if let Some(why) = part.error() {
                self.fail(part.sent.member, part.sent.incarnation, why);
            }
        }
        while let Some(member) = self.leaving_outside(good) {
            self.settle(member).await?;
        }
        // Members may have been lost to other commands meanwhile.
        if !self.holds(self.live().and(good)) {
            return Err(first_error.unwrap_or(IoError::Gone));
        }
        Ok(Done::Nothing)
    }

    fn leaving_outside(&self, good: MemberSet) -> Option<usize> {
        let leaving = self.those(|state| state == MemberState::Leaving);
        (0..self.len()).find(|&member| leaving.contains(member) && !good.contains(member))
    }

    /// Gives a member up, unless the others would not hold everything, or it is another drive by
    /// now; starts to commit the loss.
    pub(crate) fn fail(self: &Rc<Self>, member: usize, incarnation: u32, why: IoError) {
        let is_spare = self.can_spare(member);
        {
            let mut seats = self.seats.borrow_mut();
            let seat = &mut seats[member];
            if seat.incarnation != incarnation {
                return;
            }
            match seat.phase {
                Phase::Live if is_spare => {}
                Phase::Rebuilding => {}
                Phase::Live | Phase::Leaving(..) | Phase::Lost => return,
            }
            seat.phase = Phase::Leaving(why, None);
        }
        self.attempt(member);
    }

    /// Gives a member up because somebody wishes it; `commit` commits the loss, and is the attempt
    /// that commands which miss the member await, unless one is running. While the others do not
    /// hold everything the member stays, and `commit` is what tells.
    pub(crate) async fn give_up<E>(
        self: &Rc<Self>,
        member: usize,
        commit: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let mine = self.leave(member);
        let outcome = commit.await;
        if let Some(mine) = mine {
            let result = outcome.as_ref().map_err(|_| IoError::Gone);
            self.end_attempt(member, &mine, result.map(|_| ()));
        } else if outcome.is_ok() {
            // Another attempt ends a moment later.
            let _ = self.settle(member).await;
        }
        outcome
    }

    /// Lets a member leave; returns the attempt that the caller now owes it. `None` if there is one,
    /// the member is lost, or it is needed.
    fn leave(&self, member: usize) -> Option<Rc<Attempt>> {
        let is_spare = self.can_spare(member);
        let mut seats = self.seats.borrow_mut();
        let seat = &mut seats[member];
        let why = match seat.phase {
            Phase::Live if is_spare => IoError::Gone,
            Phase::Rebuilding => IoError::Gone,
            Phase::Leaving(why, None) => why,
            Phase::Live | Phase::Leaving(..) | Phase::Lost => return None,
        };
        let attempt = Rc::new(Attempt::default());
        seat.phase = Phase::Leaving(why, Some(Rc::clone(&attempt)));
        Some(attempt)
    }

    /// The running attempt to commit the loss of `member`, begun if there is none; `None` if the
    /// member is not leaving.
    fn attempt(self: &Rc<Self>, member: usize) -> Option<Rc<Attempt>> {
        let attempt = Rc::new(Attempt::default());
        let why = {
            let mut seats = self.seats.borrow_mut();
            let Phase::Leaving(why, running) = &mut seats[member].phase else {
                return None;
            };
            if let Some(running) = running {
                return Some(Rc::clone(running));
            }
            *running = Some(Rc::clone(&attempt));
            *why
        };
        let commit = self.membership.lost(member, why);
        let (this, mine) = (Rc::clone(self), Rc::clone(&attempt));
        self.world.spawn(Box::pin(async move {
            let result = commit.await.map(|_| ());
            this.end_attempt(member, &mine, result);
        }));
        Some(attempt)
    }

    fn end_attempt(&self, member: usize, attempt: &Rc<Attempt>, result: Result<(), IoError>) {
        let mut seats = self.seats.borrow_mut();
        let seat = &mut seats[member];
        let mut let_go = None;
        if let Phase::Leaving(why, Some(running)) = &seat.phase
            && Rc::ptr_eq(running, attempt)
        {
            match result {
                Ok(()) => let_go = seat.lose(),
                Err(_) => {
                    seat.phase = Phase::Leaving(*why, None);
                    seat.has_left = true;
                }
            }
        }
        drop(seats);
        drop(let_go);
        attempt.result.set(Some(result));
        attempt.ended.notify();
        self.waiters.wake(member);
    }

    /// Ends when the loss of a leaving member is committed, or could not be.
    async fn settle(self: &Rc<Self>, member: usize) -> Result<(), IoError> {
        let Some(attempt) = self.attempt(member) else {
            return Ok(());
        };
        loop {
            if let Some(result) = attempt.result.get() {
                return result;
            }
            attempt.ended.listen().await;
        }
    }
}
