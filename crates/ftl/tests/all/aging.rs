//! Chains whose oldest delta is old are merged beside everything else.

use crate::common::{Host, Pool};
use std::rc::Rc;
use varve_ftl::Engine;
use varve_io::Blocks;
use varve_units::{Lba, LeafIndex};

/// Records after which a chain is old here.
const AGE: u64 = 400;
/// A block of the second leaf.
const COLD: u64 = 600;

/// A pool without a dense tier and a host whose second leaf is stored, not cached, and has a chain of
/// one young delta.
fn prepared(chain_age: u64) -> (Pool, Rc<Engine>, Host) {
    let mut pool = Pool::new(8, 1, 1);
    pool.geometry.groups = 0;
    pool.config.reserve.capacity_blocks = 1408;
    pool.config.reserve.groups = 0;
    pool.config.lanes = 1;
    pool.config.map.delta_nodes = 2048;
    pool.config.reserve.chunks = 5;
    pool.config.checkpoint_records = 50;
    pool.config.chain_age = chain_age;
    let engine = pool.create_fast_only();
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        for at in 0..68 {
            host.write(16 * at, 16).await;
        }
        // Long enough a chain to be merged.
        for at in 0..80 {
            host.discard(COLD + 2 * at, 1).await;
        }
        host
    });
    pool.executor.drain();
    let host = pool.executor.block_on(async move {
        let mut host = host;
        host.discard(COLD, 1).await;
        // The image of another leaf takes the place of its own.
        let read = host.engine.read(host.volume, Lba(0), Blocks::zeroed(1));
        read.await.expect("a block");
        host
    });
    pool.executor.drain();
    (pool, engine, host)
}

fn count(engine: &Engine, name: &str) -> u64 {
    engine.counters().get(name).copied().unwrap_or(0)
}

/// Writes `records` of one block to the first leaf.
fn write_elsewhere(pool: &Pool, mut host: Host, records: u64) -> Host {
    let host = pool.executor.block_on(async move {
        for at in 0..records {
            host.write(at * 37 % 509, 1).await;
        }
        host
    });
    pool.executor.drain();
    host
}

/// The drive does not answer the read of an old chain's image: checkpoints commit nevertheless, space
/// is freed and hosts write on; the chain is merged when the answer comes.
#[test]
fn checkpoints_do_not_wait_for_old_chains() {
    let (pool, engine, host) = prepared(AGE);
    let stored = engine.stored_leaf(host.volume, LeafIndex(1));
    let stored = stored.expect("a stored leaf");
    pool.fast
        .held
        .set(Some((stored * 512, stored * 512 + 4608)));
    let host = write_elsewhere(&pool, host, AGE + 100);
    assert_eq!(pool.fast.waiting(), 1, "the old chain's image is read");
    let (before, merged) = (count(&engine, "checkpoints"), count(&engine, "aged_merges"));
    let host = write_elsewhere(&pool, host, 1000);
    assert!(count(&engine, "checkpoints") >= before + 10);
    assert_eq!(pool.fast.waiting(), 1);
    pool.fast.held.set(None);
    pool.fast.let_go();
    pool.executor.drain();
    assert_eq!(count(&engine, "aged_merges"), merged + 1);
    let now = engine.stored_leaf(host.volume, LeafIndex(1));
    assert!(now.is_some_and(|now| now != stored), "another image");
    let verified = async move { host.verify().await };
    pool.executor.block_on(verified).expect("no block is lost");
}

/// Without a limit that they reach chains stay as they are.
#[test]
fn young_chains_are_left_alone() {
    let (pool, engine, host) = prepared(varve_ftl::CHAIN_AGE_MAX);
    write_elsewhere(&pool, host, AGE + 1100);
    assert_eq!(count(&engine, "aged_merges"), 0);
}
