//! Closing all pools in a limited time.

use crate::error::ControlError;
use crate::pools::Pools;
use crate::within::within;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_io::Flow;
use varve_units::Nanos;

/// What became of each pool that was to be closed, by name; `None` if it is being closed still.
pub type Closings = BTreeMap<String, Option<Result<(), ControlError>>>;

impl Pools {
    /// Closes all pools, beside one another, so that none has to wait for one that does not answer; waits for
    /// `limit` at most. What is being closed then goes on, but whoever asks is to end its process: a pool that was not
    /// closed in good order starts as after a crash.
    pub fn close_within(self: &Rc<Self>, limit: Nanos) -> Flow<'_, Closings> {
        let until = self.world.now() + limit;
        let closings = Rc::new(RefCell::new(Closings::new()));
        // A flow of its own: it is not to end where nobody waits for it any more.
        let closing = close_all(Rc::clone(self), Rc::clone(&closings));
        let closing = self.world.run(closing);
        Box::pin(async move {
            within(&*self.world, until, closing).await;
            let mut closings = closings.take();
            for pool in self.open_names() {
                closings.entry(pool).or_insert(None);
            }
            closings
        })
    }
}

async fn close_all(pools: Rc<Pools>, closings: Rc<RefCell<Closings>>) {
    let _turn = pools.turn.take().await;
    let mut flows = Vec::new();
    for pool in pools.open_names() {
        closings.borrow_mut().insert(pool.clone(), None);
        let (owner, told) = (Rc::clone(&pools), Rc::clone(&closings));
        flows.push(pools.world.run(async move {
            let outcome = owner.close(&pool, false).await;
            told.borrow_mut().insert(pool, Some(outcome));
        }));
    }
    for flow in flows {
        flow.await;
    }
}
