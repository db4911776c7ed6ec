//! Starts from states that the public interface reaches by chance only.

use crate::common::Pool;
use crate::engine::Engine;
use std::rc::Rc;

/// A lane has given up a chunk and all in it is acknowledged, but its pump has not come round to
/// hand it back when a checkpoint notes where redo begins: behind that chunk.
#[test]
fn a_chunk_given_up_and_not_yet_handed_back_is_kept() {
    for lane in 0..2 {
        let pool = Pool::new(11 + lane as u64, 1, 1);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            host.run(60).await;
            host
        });
        pool.executor.drain();
        let shard = engine.shared.everyone().expect("one thread")[lane].shard();
        let open = shard.lane.borrow().open_chunk().expect("a lane in use");
        shard.lane.borrow_mut().close_chunk();
        let inner: Rc<Engine> = Rc::clone(&engine);
        let taken = pool
            .executor
            .block_on(async move { inner.shared.take_checkpoint().await });
        taken.expect("a checkpoint");
        assert_ne!(shard.lane.borrow().open_chunk(), Some(open));
        pool.executor.crash();
        drop((shard, engine));
        let engine = pool.open(2);
        let host = host.moved_to(&engine);
        let verified = pool.executor.block_on(async move { host.verify().await });
        verified.expect("every block is there");
    }
}
