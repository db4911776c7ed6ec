//! Clock, tasks and memory.

use crate::buffer::Blocks;
use crate::slot::Receiver;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use varve_units::Nanos;

/// A flow the executor runs to its end.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The executor of one reactor as the engine sees it: single-threaded, cooperative.
pub trait World {
    /// The time, monotonic.
    fn now(&self) -> Nanos;

    /// Ends `span` from now.
    fn sleep(&self, span: Nanos) -> Receiver<()>;

    /// Runs a flow beside the caller. Flows are never dropped before their end, except with the
    /// whole executor (a crash).
    fn spawn(&self, task: Task);

    /// Lets other ready flows run first.
    fn yield_now(&self) -> Receiver<()>;

    /// Memory for `count` blocks, symbolic if `elided`, for a caller that fills them whole: what
    /// they hold before is not defined. An executor with a [`crate::Recycler`] gives used memory.
    fn blocks(&self, count: usize, elided: bool) -> Blocks {
        Blocks::new(count, elided)
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
