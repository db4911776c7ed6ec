//! What a start brings back, and what it does not.

use crate::common::{Host, Pool};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use varve_ftl::Engine;
use varve_io::{Blocks, Handle, World};
use varve_units::Lba;

async fn fill(host: &mut Host, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let length = 16.min(to - at);
        host.write(at, length).await;
        at += length;
    }
}

/// Runs `flow` for a bounded number of turns.
fn within<T: 'static>(
    pool: &Pool,
    turns: usize,
    engine: &Engine,
    flow: impl Future<Output = T> + 'static,
) -> T {
    let mut running = (&*pool.executor as &dyn World).run(flow);
    for _ in 0..turns {
        if let Some(value) = running.try_take() {
            return value;
        }
        if !pool.executor.turn() {
            break;
        }
    }
    panic!("stuck: {:?} {:?}", engine.gauges(), engine.counters());
}

/// What deleted volumes held is free again after a clean restart, though most of it died after the
/// last turn of its unit to be dumped.
#[test]
fn deleted_volumes_are_gone_after_restarts() {
    let mut pool = Pool::new(5, 1, 1);
    pool.config.window = 16;
    pool.config.checkpoint_records = 60;
    let mut engine = pool.create();
    for cycle in 0..6 {
        let hosts = [1, 2].map(|number| pool.host(&engine, cycle * 2 + number));
        let [mut first, mut second] = hosts;
        let filled = async move {
            fill(&mut first, 0, 800).await;
            fill(&mut second, 0, 800).await;
            fill(&mut first, 0, 100).await;
            for _ in 0..30 {
                fill(&mut first, 0, 64).await;
            }
            [first, second]
        };
        let hosts = within(&pool, 500_000, &engine, filled);
        for host in hosts {
            let inner = Rc::clone(&engine);
            let deleted = async move { inner.delete_volume(host.volume).await };
            within(&pool, 100_000, &engine, deleted).expect("a volume to delete");
        }
        pool.executor.drain();
        let before = engine.gauges();
        let inner = Rc::clone(&engine);
        let closed = async move { inner.close().await };
        within(&pool, 100_000, &engine, closed).expect("a running engine");
        drop(engine);
        engine = pool.open(2 + cycle as u32);
        let after = engine.gauges();
        assert_eq!(before["live_dense_blocks"], 0, "cycle {cycle}");
        assert_eq!(after["live_dense_blocks"], 0, "cycle {cycle}");
    }
}

/// A pool is closed while cleaner and garbage collection have much to do: what they append meanwhile is
/// redone, nothing that hosts wrote is.
#[test]
fn nothing_of_hosts_is_redone_after_a_close() {
    let mut own = 0;
    for seed in 1..=4 {
        let mut pool = Pool::new(seed, 1, 1);
        pool.config.window = 16;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let filled = async move {
            fill(&mut host, 0, 1000).await;
            fill(&mut host, 0, 1000).await;
        };
        within(&pool, 500_000, &engine, filled);
        let inner = Rc::clone(&engine);
        let closed = async move { inner.close().await };
        within(&pool, 100_000, &engine, closed).expect("a running engine");
        drop(engine);
        let (_, report) = pool.try_open(2).expect("a pool that was closed");
        assert_eq!(report.of_hosts, 0, "seed {seed}: {report:?}");
        own += report.records;
    }
    assert!(own > 0, "the records of the last checkpoints at least");
}

/// The power fails again and again while a pool that is nearly full is overwritten: bits of blocks
/// that died before each failure come back, and the space is found nevertheless.
#[test]
fn what_crashes_bring_back_is_collected() {
    for seed in 1..=4 {
        let mut pool = Pool::new(seed, 1, 1);
        pool.config.window = 64;
        let mut engine = pool.create();
        let mut hosts = [1, 2].map(|number| pool.host(&engine, number));
        for epoch in 2..14 {
            let [mut first, mut second] = hosts;
            let busy = async move {
                for _ in 0..2 {
                    fill(&mut first, 0, 860).await;
                    fill(&mut second, 0, 860).await;
                }
                [first, second]
            };
            hosts = within(&pool, 500_000, &engine, busy);
            pool.executor.crash();
            drop(engine);
            engine = pool.open(epoch);
            hosts = hosts.map(|host| host.moved_to(&engine));
        }
        for host in hosts {
            let verified = async move { host.verify().await };
            let verified = within(&pool, 500_000, &engine, verified);
            verified.expect("no block is lost");
        }
    }
}

/// A full pool is overwritten and crashes 148 times, each time after less than `turns` turns of the
/// executor. Then it can be overwritten whole. Returns the open groups that all starts found.
fn crash_again_and_again(pool: &Pool, turns: usize) -> u64 {
    let mut engine = pool.create();
    let hosts = [1, 2].map(|number| pool.host(&engine, number));
    let filled = async move {
        let [mut first, mut second] = hosts;
        fill(&mut first, 0, 860).await;
        fill(&mut second, 0, 860).await;
        [first, second]
    };
    let mut hosts = within(pool, 500_000, &engine, filled);
    let mut resumed = 0;
    for epoch in 2..150 {
        for host in &hosts {
            let (inner, volume) = (Rc::clone(&engine), host.volume);
            pool.executor.spawn(Box::pin(async move {
                for at in (0..860).step_by(20) {
                    let data = Blocks::zeroed(20);
                    let _ = inner.write(volume, Lba(at), data, false).await;
                }
            }));
        }
        for _ in 0..pool.executor.below(turns) {
            if !pool.executor.turn() {
                break;
            }
        }
        pool.executor.crash();
        drop(engine);
        engine = pool.open(epoch);
        hosts = hosts.map(|host| host.moved_to(&engine));
        resumed += engine.gauges()["idle_groups"];
    }
    let again = async move {
        let [mut first, mut second] = hosts;
        fill(&mut first, 0, 860).await;
        fill(&mut second, 0, 860).await;
        first.verify().await.expect("no block is lost");
        second.verify().await.expect("no block is lost");
    };
    within(pool, 900_000, &engine, again);
    resumed
}

/// In the midst of compaction and garbage collection: no start takes a group for good.
#[test]
fn crashes_leak_no_group() {
    for seed in 1..=3 {
        let resumed = crash_again_and_again(&Pool::new(seed, 1, 1), 6000);
        assert!(resumed > 0, "no start found an open group");
    }
}

/// Before much has been moved: what a short life logs keeps no chunk in use.
#[test]
fn short_lives_leak_no_chunk() {
    for (seed, turns) in
        (1..=2).flat_map(|seed| [20, 80, 150, 300, 1000].map(|turns| (seed, turns)))
    {
        crash_again_and_again(&Pool::new(seed, 1, 1), turns);
    }
}

/// A crash left only the chunks that checkpoints may open, and the pool is started with less memory
/// for its map than it had: redo has to write leaves, and finds room for them. With two lanes there
/// is still one chunk for the leaves of both.
#[test]
fn a_start_with_few_chunks_and_little_memory_ends() {
    for (seed, lanes) in (1..=4).flat_map(|seed| [(seed, 1), (seed, 2)]) {
        let mut pool = Pool::new(seed, 1, 1);
        pool.geometry.lba_bytes = 4096;
        pool.set_lanes(lanes);
        pool.config.map.delta_nodes = 128;
        let small = pool.config;
        pool.config.map.delta_nodes = 4096;
        pool.config.checkpoint_records = u64::MAX;
        pool.config.checkpoint_bytes = u64::MAX;
        // Hosts go as far as moves and leaves may.
        pool.config.reserve.chunks = small.reserve.urgent_chunks;
        pool.config.reserve.urgent_chunks = small.reserve.urgent_chunks - 1;
        let engine = pool.create();
        let mut hosts: Vec<Host> = (1..=20).map(|number| pool.host(&engine, number)).collect();
        // Nothing can be cleaned.
        pool.dense.gone.set(true);
        pool.executor.spawn(Box::pin(async move {
            for step in 0..1000 {
                for host in &mut hosts {
                    host.write(step * 37 % 80 * 12, 1).await;
                }
            }
        }));
        while engine.gauges()["free_chunks"] > u64::from(pool.config.reserve.chunks) {
            assert!(pool.executor.turn(), "hosts stopped early");
        }
        for _ in 0..pool.executor.below(20_000) {
            pool.executor.turn();
        }
        let free = engine.gauges()["free_chunks"];
        pool.executor.crash();
        drop(engine);
        pool.dense.gone.set(false);
        pool.config = small;
        let (engine, report) = pool.try_open(2).expect("a pool that was used");
        assert_eq!(free, u64::from(small.reserve.urgent_chunks));
        assert!(report.batches > 100 && engine.counters()["leaf_merges"] > 50);
        let mut host = pool.host(&engine, 30);
        let used = async move {
            fill(&mut host, 0, 300).await;
            host.verify().await
        };
        let used = within(&pool, 500_000, &engine, used);
        used.expect("the pool is as usual");
    }
}

/// A pool is closed while its garbage collection is at work and hosts still write: what was
/// accepted is written, and closing ends.
#[test]
fn closing_waits_for_hosts_alone() {
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let hosts = [1, 2].map(|number| pool.host(&engine, number));
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let filled = async move {
            let mut hosts = hosts;
            for host in &mut hosts {
                fill(host, 0, 800).await;
                fill(host, 0, 800).await;
            }
            hosts
        };
        let hosts = within(&pool, 500_000, &engine, filled);
        let entered = Rc::new(Cell::new(0));
        let writes: Vec<_> = hosts
            .iter()
            .map(|host| {
                let (engine, volume) = (Rc::clone(&engine), host.volume);
                let entered = Rc::clone(&entered);
                world.run(async move {
                    entered.set(entered.get() + 1);
                    let data = Blocks::zeroed(500);
                    engine.write(volume, Lba(0), data, false).await
                })
            })
            .collect();
        while entered.get() < writes.len() {
            assert!(pool.executor.turn(), "deadlock: nothing is ready");
        }
        let inner = Rc::clone(&engine);
        let closed = within(&pool, 100_000, &engine, async move { inner.close().await });
        closed.expect("a running engine");
        for write in writes {
            let written = pool.executor.block_on(write);
            written.expect("a write that was accepted before");
        }
    }
}

/// A start over many chunks of log reads several headers at the same time, and batches that it had no
/// memory for a second time. The same pool whose delta nodes leave more memory reads each once.
#[test]
fn a_start_reads_ahead_and_reads_again_what_it_could_not_keep() {
    for (seed, is_roomy) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut pool = Pool::new(seed, 1, 1);
        pool.config.checkpoint_records = 4000;
        pool.config.checkpoint_bytes = 64 << 20;
        if is_roomy {
            pool.config.map.delta_nodes = 64 << 10;
        }
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            host.run(700).await;
            host
        });
        pool.executor.crash();
        drop(engine);
        pool.fast.meta_reads.reset();
        let (engine, report) = pool.try_open(2).expect("a pool that was used");
        assert!(report.batches > 10, "seed {seed}: {report:?}");
        assert!(pool.fast.meta_reads.most.get() >= 8, "seed {seed}");
        let again = engine.counters().get("batches_read_again").copied();
        assert_eq!(again.is_none(), is_roomy, "seed {seed}: {again:?}");
        let host = host.moved_to(&engine);
        let verified = pool.executor.block_on(async move { host.verify().await });
        verified.expect("every block is there");
    }
}

/// A stream writes under a handle of its own, and a start finds the same one for the groups it goes on
/// with: a drive's reclaim unit holds what is of one group.
#[test]
fn a_group_keeps_its_handle_over_starts() {
    let pool = Pool::new(9, 1, 1);
    let mut engine = pool.create();
    let mut host = pool.host(&engine, 1);
    let mut seen = BTreeSet::new();
    for epoch in 2..30 {
        let written = async move {
            host.run(150).await;
            host
        };
        host = within(&pool, 500_000, &engine, written);
        // A third of the starts follow a clean end, the others a crash.
        if epoch % 3 == 0 {
            let inner = Rc::clone(&engine);
            let closed = async move { inner.close().await };
            within(&pool, 100_000, &engine, closed).expect("a running engine");
        }
        pool.executor.crash();
        drop(engine);
        engine = pool.open(epoch);
        host = host.moved_to(&engine);
        for (group, handles) in &*pool.dense.under.borrow() {
            let all: BTreeSet<_> = handles.iter().copied().collect();
            assert_eq!(all.len(), 1, "group {group} at {epoch}: {handles:?}");
            seen.extend(all);
        }
    }
    // Compaction and garbage collection.
    assert_eq!(seen, BTreeSet::from([Handle(0), Handle(1)]));
}

/// The process may have been killed, and what a start reads be in caches alone: before it writes over what only an
/// older checkpoint refers to, it has the drive flush.
#[test]
fn a_start_flushes_what_it_goes_by_before_it_writes() {
    for seed in 1..=4 {
        let pool = Pool::new(seed, 1, 2);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            host.run(300).await;
            host
        });
        pool.executor.crash();
        drop(engine);
        pool.fast.written.set(0);
        pool.fast.written_before_flush.set(None);
        let again = pool.open(2);
        assert!(pool.fast.written.get() > 0, "seed {seed}: a start writes");
        assert_eq!(pool.fast.written_before_flush.get(), Some(0), "seed {seed}");
        let host = host.moved_to(&again);
        let verified = pool.executor.block_on(async move { host.verify().await });
        verified.expect("every block is there");
    }
}
