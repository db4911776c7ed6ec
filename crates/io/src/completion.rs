//! The future of a drive command.

use crate::command::Done;
use crate::error::IoError;
use crate::slot::{Receiver, Sender, slot};
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// How a command ended. A failed read keeps its memory: it is of no use.
pub type Outcome = Result<Done, IoError>;

/// The future of a submitted command. The command runs whether or not this is polled; it must be
/// awaited to its end, never dropped early, because the drive owns the buffers until then.
pub struct Completion(State);

enum State {
    Ready(Option<Outcome>),
    Waiting(Receiver<Outcome>),
    Flow(Pin<Box<dyn Future<Output = Outcome>>>),
}

impl Completion {
    /// Already ended.
    #[must_use]
    pub fn ready(outcome: Outcome) -> Self {
        Self(State::Ready(Some(outcome)))
    }

    /// Ends when the sender says so.
    #[must_use]
    pub fn waiting() -> (Sender<Outcome>, Self) {
        let (sender, receiver) = slot();
        (sender, Self(State::Waiting(receiver)))
    }

    /// True if it has ended already because what it was for is out of use.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(&self.0, State::Ready(Some(Err(error))) if error.is_absence())
    }

    /// Ends with a flow over commands that were submitted already (a mirror, an array).
    #[must_use]
    pub fn flow(flow: impl Future<Output = Outcome> + 'static) -> Self {
        Self(State::Flow(Box::pin(flow)))
    }
}

impl Future for Completion {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.0 {
            State::Ready(outcome) => {
                Poll::Ready(outcome.take().expect("a completion is awaited once"))
            }
            State::Waiting(receiver) => Pin::new(receiver).poll(context),
            State::Flow(flow) => flow.as_mut().poll(context),
        }
    }
}
