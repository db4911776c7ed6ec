//! Clock, tasks and memory.

use crate::buffer::Blocks;
use crate::reactor::{Desk, Job, ReactorId};
use crate::slot::Receiver;
use crate::supply::Supply;
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::future::Future;
use core::pin::Pin;
use varve_units::Nanos;

/// A flow the executor runs to its end.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A flow with a value, in a box. What is called seldom returns one: the compiler then translates it in its own
/// crate, where an `async fn` is translated once more in each crate, test and program that awaits it.
pub type Flow<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The executor of one reactor as the engine sees it: single-threaded, cooperative.
pub trait World {
    /// The time, monotonic.
    fn now(&self) -> Nanos;

    /// The time as it passes for peers on other machines: [`World::now`], and what this machine slept since the clock
    /// began. For how long a peer was silent; timers and drives, which sleep too, go by `now`.
    fn now_outside(&self) -> Nanos {
        self.now()
    }

    /// Ends `span` from now.
    fn sleep(&self, span: Nanos) -> Receiver<()>;

    /// Runs a flow beside the caller. Flows are never dropped before their end, except with the
    /// whole executor (a crash).
    fn spawn(&self, task: Task);

    /// Lets other ready flows run first.
    fn yield_now(&self) -> Receiver<()>;

    /// Ends when what had reached this reactor from outside before the call, and waited for by a flow, was handed to
    /// that flow and it ran: received bytes, ends of i/o. A world without an outside has nothing that waits.
    fn catch_up(&self) -> Receiver<()> {
        self.yield_now()
    }

    /// Memory for `count` blocks, symbolic if `elided`, for a caller that fills them whole: what
    /// they hold before is not defined. An executor with a [`crate::Recycler`] gives used memory.
    fn blocks(&self, count: usize, elided: bool) -> Blocks {
        Blocks::new(count, elided)
    }

    /// Where metadata that are written all the time have their memory from. An executor with a
    /// [`crate::Recycler`] gives used memory.
    fn supply(&self) -> Supply {
        Supply::default()
    }

    /// Which reactor this is.
    fn reactor(&self) -> ReactorId {
        ReactorId(0)
    }

    /// How many reactors there are that can call one another. A world that does not say has one.
    fn reactors(&self) -> u16 {
        1
    }

    /// Runs a job on reactor `to`, soon; jobs from here to there keep their order. Jobs to a
    /// reactor that has ended are dropped.
    ///
    /// # Panics
    /// If there is no such reactor.
    fn post(&self, to: ReactorId, job: Job) {
        let _ = job;
        panic!("one reactor has no peers to post to, {to:?} does not exist");
    }

    /// What this reactor keeps for its peers; a reactor without peers needs none.
    fn desk(&self) -> Option<&Desk> {
        None
    }

    /// The world of another reactor of the same thread. `None` if it runs on another thread, as
    /// real ones do: then its state can be reached by jobs only.
    fn beside(&self, reactor: ReactorId) -> Option<Rc<dyn World>> {
        let _ = reactor;
        None
    }
}

impl dyn World + '_ {
    /// Runs a flow beside the caller and returns the future of its value.
    pub fn run<T: 'static>(&self, flow: impl Future<Output = T> + 'static) -> Receiver<T> {
        let (sender, receiver) = crate::slot::slot();
        self.spawn(Box::pin(async move { sender.send(flow.await) }));
        receiver
    }
}
