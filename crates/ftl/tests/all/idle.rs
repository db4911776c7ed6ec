//! What is done while hosts send nothing.

use crate::common::{Host, Pool};
use std::rc::Rc;
use varve_ftl::Engine;
use varve_units::Nanos;

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
fn left_alone(seed: u64, after: Option<Nanos>, has_dense: bool) -> (Pool, Rc<Engine>, Host) {
    let mut pool = Pool::new(seed, 1, 1);
    pool.config.idle_after = after;
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

/// More of the log is free in an idle pool than under load, then nothing happens any more, and nothing is lost by it.
#[test]
fn an_idle_pool_makes_room() {
    let span = Some(Nanos::from_secs(3));
    let (mut more, mut less, mut idle) = (0, 0, 0);
    for seed in 1..=24 {
        let (_pool, busy, _host) = left_alone(seed, None, true);
        let (pool, engine, host) = left_alone(seed, span, true);
        assert_eq!(counted(&busy, "idle_times"), 0, "seed {seed}");
        assert!(counted(&engine, "idle_times") > 0, "seed {seed}");
        more += coming(&engine);
        less += coming(&busy);

        idle += u64::from(counted(&engine, "chunks_cleaned_idle") > 0);
        let host = pool.executor.block_on(async move {
            host.verify().await.expect("every block is there");
            host
        });
        pool.executor.drain();
        let before = counted(&engine, "idle_times");
        let mut host = pool.executor.block_on(async move {
            let mut host = host;
            host.run(1).await;
            host
        });
        pool.executor.drain();
        assert_eq!(
            counted(&engine, "idle_times"),
            before + 1,
            "seed {seed}: it is idle again"
        );
        pool.executor.block_on(async move { host.run(300).await });
    }
    println!("{more} chunks for {less}, {idle} pools made room");
    assert!(more >= less + 4 && idle >= 12);
}

/// Emptied chunks of a log without a dense tier would fill others.
#[test]
fn a_log_alone_makes_none() {
    let (_pool, engine, _host) = left_alone(3, Some(Nanos::from_secs(3)), false);
    assert_eq!(counted(&engine, "idle_times"), 0);
}
