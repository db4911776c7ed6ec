//! A flow that is waited for so long and no longer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use varve_io::World;
use varve_units::Nanos;

/// What a flow gives, unless that takes longer than until then; it is dropped in that case.
pub async fn within<T>(
    world: &dyn World,
    until: Nanos,
    flow: impl Future<Output = T>,
) -> Option<T> {
    let mut late = world.sleep(until.since(world.now()));
    let mut flow = pin!(flow);
    poll_fn(move |context| {
        if let Poll::Ready(value) = flow.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        pin!(&mut late).poll(context).map(|()| None)
    })
    .await
}
