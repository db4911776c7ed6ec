//! Pools that are to be closed in a limited time.

use crate::common::{Scratch, new_pool, new_volume, pattern, session_beside};
use std::future::{Future as _, poll_fn};
use std::task::Poll;
use varve_control::Config;
use varve_units::{Lba, Nanos};

/// A pool that does not end keeps no other one open, and is told as left where time is over; it is closed
/// when it can be.
#[test]
fn a_pool_that_does_not_end_is_left() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = ["p", "q"].map(|name| new_pool(&scratch, name));
    session_beside(&home, Config::default(), |world, pools| async move {
        for pool in &wanted {
            pools.create_pool(pool).await.expect("made");
        }
        let volume = pools.create_volume(&new_volume("p", "v", 100)).await;
        let volume = volume.expect("a volume");
        // It has begun, and nobody goes on with it.
        let mut write = Box::pin(volume.write(Lba(0), pattern(0, 1, 1), false));
        let is_begun = poll_fn(|context| Poll::Ready(write.as_mut().poll(context).is_pending()));
        assert!(is_begun.await);
        let left = pools.close_within(Nanos(0)).await;
        assert_eq!(left.len(), 2);
        assert!(left.values().all(Option::is_none), "{left:?}");
        while pools.open_names() != ["p"] {
            world.sleep(Nanos::from_millis(1)).await;
        }
        write.await.expect("written");
        // Behind the first one, which has closed it then.
        let left = pools.close_within(Nanos::from_secs(3600)).await;
        assert!(left.is_empty() && pools.open_names().is_empty());
        pools.open("p").await.expect("closed in good order");
        let closed = pools.close_within(Nanos::from_secs(3600)).await;
        assert!(matches!(closed["p"], Some(Ok(()))), "{closed:?}");
    });
}
