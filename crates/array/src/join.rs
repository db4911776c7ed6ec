//! Awaiting several drive commands at once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use varve_io::{Completion, Done, IoError, Outcome, World, slot};

/// One command of several, sent to one member.
pub(crate) struct Part {
    /// The member.
    pub(crate) member: usize,
    /// Which drive in that seat: an answer of a replaced drive says nothing of its successor.
    pub(crate) incarnation: u32,
    completion: Completion,
    outcome: Option<Outcome>,
}

impl Part {
    pub(crate) fn new(member: usize, incarnation: u32, completion: Completion) -> Self {
        Self {
            member,
            incarnation,
            completion,
            outcome: None,
        }
    }

    /// The error, if it ended with one.
    pub(crate) fn error(&self) -> Option<IoError> {
        self.outcome.as_ref()?.as_ref().err().copied()
    }

    /// How it ended.
    ///
    /// # Panics
    /// If it has not been joined.
    pub(crate) fn into_outcome(self) -> Outcome {
        self.outcome.expect("a joined command has ended")
    }
}

/// Ends when every part has ended, in whatever order.
pub(crate) fn join(parts: Vec<Part>) -> Join {
    Join(parts)
}

/// See [`join`].
pub(crate) struct Join(Vec<Part>);

impl Future for Join {
    type Output = Vec<Part>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Part>> {
        let mut is_done = true;
        for part in &mut self.0 {
            if part.outcome.is_some() {
                continue;
            }
            match Pin::new(&mut part.completion).poll(context) {
                Poll::Ready(outcome) => part.outcome = Some(outcome),
                Poll::Pending => is_done = false,
            }
        }
        if is_done {
            Poll::Ready(core::mem::take(&mut self.0))
        } else {
            Poll::Pending
        }
    }
}

/// The planted bug: once the first command has ended well the others count as if they had, too.
pub(crate) fn hurry(world: &dyn World, parts: Vec<Part>) -> Vec<Part> {
    let mut told = Vec::new();
    let mut hasty = Vec::new();
    for (index, part) in parts.into_iter().enumerate().rev() {
        let (sender, completion) = Completion::waiting();
        hasty.push(Part::new(part.member, part.incarnation, completion));
        if index > 0 {
            let (tell, is_enough) = slot();
            told.push(tell);
            world.spawn(Box::pin(async move {
                if is_enough.await {
                    sender.send(Ok(Done::Nothing));
                    drop(one(part).await);
                } else {
                    sender.send(one(part).await.into_outcome());
                }
            }));
        } else {
            let told = core::mem::take(&mut told);
            world.spawn(Box::pin(async move {
                let outcome = one(part).await.into_outcome();
                for tell in told {
                    tell.send(outcome.is_ok());
                }
                sender.send(outcome);
            }));
        }
    }
    hasty
}

/// Awaits one part.
pub(crate) async fn one(mut part: Part) -> Part {
    part.outcome = Some((&mut part.completion).await);
    part
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
