//! What is done while hosts send nothing.

use crate::common::{Host, Pool};
use std::rc::Rc;
use varve_ftl::Engine;
use varve_units::Nanos;

/// Chunks of the pool's log.
const CHUNKS: u64 = 18;

fn wait(engine: &Engine, name: &str) -> u64 {
    engine.waits()[name]
}

fn counted(engine: &Engine, name: &str) -> u64 {
    engine.counters().get(name).copied().unwrap_or(0)
}

/// Chunks that are free, or with the next checkpoint.
fn coming(engine: &Engine) -> u64 {
    wait(engine, "free_chunks") + wait(engine, "freeable_chunks")
}

/// A pool whose hosts have filled the log and then nothing to say, until nothing more happens.
fn rested(seed: u64, rest: Option<Nanos>, has_dense: bool) -> (Pool, Rc<Engine>, Host) {
    let mut pool = Pool::new(seed, 1, 1);
    pool.config.rest = rest;
    let engine = if has_dense {
        pool.create()
    } else {
        pool.geometry.groups = 0;
        pool.config.reserve.groups = 0;
        pool.config.reserve.chunks = 5;
        pool.config.reserve.capacity_blocks = 1408;
        pool.config.lanes = 1;
        pool.config.map.delta_nodes = 2048;
        pool.create_fast_only()
    };
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        host.run(400).await;
        host
    });
    pool.executor.drain();
    (pool, engine, host)
}

/// At rest more of the log is free than under load, then nothing happens any more, and nothing is lost by it.
#[test]
fn room_is_made_at_rest() {
    let span = Some(Nanos::from_secs(3));
    let (mut more, mut rests) = (0, 0);
    for seed in 1..=12 {
        let (_pool, busy, _host) = rested(seed, None, true);
        let (pool, engine, host) = rested(seed, span, true);
        assert_eq!(counted(&busy, "rests"), 0, "seed {seed}");
        assert!(counted(&engine, "rests") > 0, "seed {seed}");
        assert!(coming(&engine) >= coming(&busy), "seed {seed}");
        more += coming(&engine) - coming(&busy);
        rests += u64::from(counted(&engine, "chunks_cleaned_at_rest") > 0);
        let host = pool.executor.block_on(async move {
            host.verify().await.expect("every block is there");
            host
        });
        pool.executor.drain();
        let before = counted(&engine, "rests");
        let mut host = pool.executor.block_on(async move {
            let mut host = host;
            host.run(1).await;
            host
        });
        pool.executor.drain();
        assert_eq!(
            counted(&engine, "rests"),
            before + 1,
            "seed {seed}: it rests again"
        );
        pool.executor.block_on(async move { host.run(300).await });
    }
    assert!(
        more >= 6 && rests >= 6,
        "{more} chunks more, {rests} pools made room"
    );
}

/// Emptied chunks of a log without a dense tier would fill others.
#[test]
fn a_log_alone_does_not_rest() {
    let (_pool, engine, _host) = rested(3, Some(Nanos::from_secs(3)), false);
    assert_eq!(counted(&engine, "rests"), 0);
    assert!(coming(&engine) < CHUNKS);
}
