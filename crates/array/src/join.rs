//! Awaiting commands on members, one or several at once.
//!
//! A part of a command ends when its drive ends it, or as gone when the drive has left its seat: nobody
//! waits for a drive that the labels do without. What the drive has begun it may end at any time
//! after, with the memory of the command, so a task of its own awaits that (`Members::is_drained`).

use crate::faults::Ask;
use crate::members::Members;
use crate::set::MemberSet;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use varve_io::{Completion, Done, IoError, Outcome, World, slot};

/// One command of several, sent to one member.
pub(crate) struct Part {
    pub(crate) sent: Sent,
    state: State,
}

/// Whom a command was sent to, when, and what it asks.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    /// The member.
    pub(crate) member: usize,
    /// Which drive in that seat: an answer of a replaced drive says nothing of its successor.
    pub(crate) incarnation: u32,
    /// Times that a member had fallen silent by then.
    pub(crate) silences: u64,
    pub(crate) ask: Ask,
}

enum State {
    /// The drive has it. What is held is counted where the drive sits.
    Begun(Completion, Rc<()>),
    Ended(Outcome),
}

impl Part {
    pub(crate) fn new(sent: Sent, completion: Completion, begun: Rc<()>) -> Self {
        let state = State::Begun(completion, begun);
        Self { sent, state }
    }

    /// The error, if it ended with one.
    pub(crate) fn error(&self) -> Option<IoError> {
        match &self.state {
            State::Ended(Err(why)) => Some(*why),
            State::Ended(Ok(_)) | State::Begun(..) => None,
        }
    }

    /// How it ended.
    ///
    /// # Panics
    /// If it has not been joined.
    pub(crate) fn into_outcome(self) -> Outcome {
        match self.state {
            State::Ended(outcome) => outcome,
            State::Begun(..) => panic!("a command that was not joined has not ended"),
        }
    }

    /// True once it has ended, or its drive has left.
    fn poll(&mut self, members: &Members, context: &mut Context<'_>) -> bool {
        let State::Begun(completion, _) = &mut self.state else {
            return true;
        };
        if let Poll::Ready(outcome) = Pin::new(completion).poll(context) {
            if outcome.is_err() {
                members.note_error(&self.sent);
            }
            self.state = State::Ended(outcome);
            return true;
        }
        if !members.has_left(&self.sent) {
            return false;
        }
        let gone = State::Ended(Err(IoError::Gone));
        if let State::Begun(completion, begun) = core::mem::replace(&mut self.state, gone) {
            members.world.spawn(Box::pin(async move {
                // How it ends is of no consequence any more; that it has is.
                drop(completion.await);
                drop(begun);
            }));
        }
        true
    }
}

/// Parts of one command that are awaited together; ends when every part has ended, in whatever
/// order.
pub(crate) struct Join<'a, P> {
    members: &'a Members,
    parts: Option<P>,
    ticket: Option<usize>,
}

impl<P: AsMut<[Part]> + Unpin> Future for Join<'_, P> {
    type Output = P;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<P> {
        let this = &mut *self;
        let parts = this.parts.as_mut().expect("parts are joined once");
        let mut awaited = MemberSet::default();
        for part in parts.as_mut() {
            if !part.poll(this.members, context) {
                awaited.insert(part.sent.member);
            }
        }
        let waiters = &this.members.waiters;
        if awaited.len() > 0 {
            waiters.note(&mut this.ticket, awaited, context.waker());
            return Poll::Pending;
        }
        waiters.forget(&mut this.ticket);
        Poll::Ready(this.parts.take().expect("looked at a moment ago"))
    }
}

impl<P> Drop for Join<'_, P> {
    fn drop(&mut self) {
        self.members.waiters.forget(&mut self.ticket);
    }
}

impl Members {
    /// Awaits several parts.
    pub(crate) fn join<P: AsMut<[Part]> + Unpin>(&self, parts: P) -> Join<'_, P> {
        Join {
            members: self,
            parts: Some(parts),
            ticket: None,
        }
    }

    /// Awaits one part.
    pub(crate) async fn one(&self, part: Part) -> Part {
        let [part] = self.join([part]).await;
        part
    }
}

/// The planted bug: once the first command has ended well the others count as if they had, too.
pub(crate) fn hurry(world: &dyn World, parts: Vec<Part>) -> Vec<Part> {
    let mut told = Vec::new();
    let mut hasty = Vec::new();
    for (index, part) in parts.into_iter().enumerate().rev() {
        let (sender, completion) = Completion::waiting();
        let State::Begun(begun, token) = part.state else {
            unreachable!("just sent");
        };
        hasty.push(Part::new(part.sent, completion, token));
        if index > 0 {
            let (tell, is_enough) = slot();
            told.push(tell);
            world.spawn(Box::pin(async move {
                if is_enough.await {
                    sender.send(Ok(Done::Nothing));
                    drop(begun.await);
                } else {
                    sender.send(begun.await);
                }
            }));
        } else {
            let told = core::mem::take(&mut told);
            world.spawn(Box::pin(async move {
                let outcome = begun.await;
                for tell in told {
                    tell.send(outcome.is_ok());
                }
                sender.send(outcome);
            }));
        }
    }
    hasty
}

/// Awaits commands that all run already; the first error wins.
pub(crate) fn all(mut commands: Vec<Completion>) -> Completion {
    if commands.len() == 1 {
        return commands.pop().expect("one command");
    }
    Completion::flow(async move {
        let mut outcome = Ok(Done::Nothing);
        for command in commands {
            let ended = command.await;
            if outcome.is_ok() {
                outcome = ended;
            }
        }
        outcome
    })
}
