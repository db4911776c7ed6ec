//! Long writes in order pass the log while hosts are slowed down, and lose nothing by it.

use crate::common::{Host, Pool};
use std::rc::Rc;
use varve_ftl::Engine;
use varve_io::World;

/// Blocks of a write: three stripes, and two that leave four blocks.
const LENGTHS: [u64; 2] = [189, 130];
/// Blocks of its volume that are written in order.
const SPAN: u64 = 700;
/// Times that that is done before all is read back.
const PASSES: usize = 8;

/// Writes a volume in order, several times, in writes of these lengths.
async fn in_order(host: &mut Host, lengths: &[u64]) {
    for &length in lengths.iter().cycle().take(PASSES) {
        for lba in (0..SPAN).step_by(length as usize) {
            host.write(lba, length).await;
        }
    }
}

/// One host writes in order while the other one does so too, in writes that are too short to pass, so that
/// the log is; then what they wrote is read back.
fn write_and_verify(pool: &Pool, engine: &Rc<Engine>, hosts: [Host; 2]) -> [Host; 2] {
    let [mut first, mut second] = hosts;
    let world = &*pool.executor as &dyn World;
    let first = world.run(async move {
        in_order(&mut first, &LENGTHS).await;
        first
    });
    let second = world.run(async move {
        in_order(&mut second, &[12]).await;
        second
    });
    let hosts = pool.executor.block_on(async move {
        let hosts = [first.await, second.await];
        for host in &hosts {
            host.verify().await.expect("nothing is lost");
        }
        hosts
    });
    pool.executor.drain();
    let inner = Rc::clone(engine);
    let audit = async move { inner.audit().await };
    pool.executor.block_on(audit).expect("an engine in order");
    hosts
}

/// Blocks that pass in some pools that lose their power now and then, if they may.
fn passed(bypass: bool) -> u64 {
    let mut passed = 0;
    for seed in 0..8 {
        // With groups to spare: two reactors have streams then.
        let mut pool = Pool::new(seed, 1 + (seed % 2) as u32, 1);
        pool.geometry.groups = 16;
        pool.config.bypass = bypass;
        // Enough for the records of the longest write four times.
        pool.config.map.delta_nodes = 512;
        let mut engine = pool.create();
        let mut hosts = [1, 2].map(|number| pool.host(&engine, number));
        for epoch in 2..6 {
            hosts = write_and_verify(&pool, &engine, hosts);
            let counters = engine.counters();
            passed += counters.get("bypassed_blocks").copied().unwrap_or(0);
            let flush = Rc::clone(&engine);
            let flushed = pool.executor.block_on(async move { flush.flush().await });
            flushed.expect("a fast tier that answers");
            pool.executor.crash();
            engine = pool.open(epoch);
            hosts = hosts.map(|host| host.moved_to(&engine));
        }
    }
    passed
}

#[test]
fn long_runs_pass_the_log_and_outlive_the_power() {
    let passed = passed(true);
    assert!(passed > 1000, "{passed} blocks");
}

/// Told not to, the same pools send all through the log.
#[test]
fn nothing_passes_that_may_not() {
    assert_eq!(passed(false), 0);
}
