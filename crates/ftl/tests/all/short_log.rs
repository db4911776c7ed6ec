//! Deallocations and old chains leave the end of the log to those who free it: pools whose dense tier was away, or that
//! are flooded with deallocations, go on, and can be started.

use crate::common::Pool;
use std::cell::Cell;
use std::rc::Rc;
use varve_ftl::Engine;
use varve_io::{Blocks, World};
use varve_units::Lba;

fn turns(pool: &Pool, most: usize, mut until: impl FnMut() -> bool) -> bool {
    for _ in 0..most {
        if until() {
            return true;
        }
        if !pool.executor.turn() {
            break;
        }
    }
    until()
}

fn wait(engine: &Engine, name: &str) -> u64 {
    engine.waits().get(name).copied().unwrap_or(0)
}

/// As `varve-pool` has it.
fn interval(chunks: u32) -> u64 {
    let (tier, window) = (u64::from(chunks) << 20, (chunks / 32).clamp(1, 32));
    let share = if window == 1 { 16 } else { 32 };
    match chunks {
        33 => 1 << 20,
        _ => (tier / 4 / u64::from(window))
            .min(tier / share)
            .max(1 << 20),
    }
}

/// `nodes`: delta nodes; 0: as `varve-pool` has it where memory is plenty.
fn sparse_pool_of(seed: u64, chain_age: u64, chunks: u32, nodes: u64) -> Pool {
    use varve_ftl::{Demand, Geometry, Reserve};
    let mut pool = Pool::new(seed, 1, 1);
    pool.geometry = Geometry {
        chunk_bytes: 1 << 20,
        chunks,
        lba_bytes: 512,
        group_blocks: 32_768,
        groups: 16,
        stripe_blocks: 64,
        p2l_copies: 1,
        slices: 16,
    };
    let mut demand = Demand {
        lanes: 1,
        delta_nodes: nodes,
        checkpoint_bytes: interval(chunks),
        over_provision_per_mille: 0,
    };
    if nodes == 0 {
        let useful = Reserve::nodes_useful(&pool.geometry, &demand).expect("a pool");
        demand.delta_nodes = useful.min(Reserve::nodes_max(&pool.geometry, 1));
    }
    let reserve = Reserve::derive(&pool.geometry, &demand).expect("room for the reserve");
    pool.fast =
        crate::common::MemoryDrive::new(Rc::clone(&pool.executor), u64::from(chunks) << 20, 1);
    pool.dense = crate::common::MemoryDrive::new(
        Rc::clone(&pool.executor),
        pool.geometry.dense_blocks() * 4096,
        1,
    );
    pool.config.lanes = 1;
    pool.config.reserve = reserve;
    pool.config.map.delta_nodes = demand.delta_nodes as usize;
    pool.config.map.leaves_max = reserve.leaves_max as usize;
    pool.config.checkpoint_bytes = interval(chunks);
    pool.config.window = (chunks / 32).max(1);
    pool.config.chain_age = chain_age;
    pool
}

/// A pool with many leaves of one block each, none of them stored; the dense tier goes away for a while and hosts
/// fill the log. Tells how many writes ended after it came back, and what waits.
fn after_an_outage(chain_age: u64, holes: u64, restarts: u32) -> (u64, String) {
    after_an_outage_of((32, 1, 2048), chain_age, holes, restarts)
}

fn after_an_outage_of(
    (chunks, window, nodes): (u32, u32, u64),
    chain_age: u64,
    holes: u64,
    restarts: u32,
) -> (u64, String) {
    let mut pool = sparse_pool_of(3, chain_age, chunks, nodes);
    pool.config.window = window;
    let reserve = pool.config.reserve;
    let engine = pool.create();
    let burner = pool.host(&engine, 2);
    let leaves = reserve.leaves_max - 30;
    let inner = Rc::clone(&engine);
    let sparse = pool.executor.block_on(async move {
        let new = varve_ftl::NewVolume {
            name: "sparse",
            size: varve_units::Blocks(leaves * 512),
            tenant: varve_units::TenantId(1),
            uuid: [9; 16],
            nguid: [9; 16],
        };
        let sparse = inner.create_volume(new).await.expect("a new volume");
        for leaf in 0..leaves {
            let lba = Lba(leaf * 512 + leaf % 512);
            let mut data = Blocks::zeroed(1);
            data.bytes_mut()[..8].copy_from_slice(&(leaf + 1).to_le_bytes());
            inner
                .write(sparse, lba, data, false)
                .await
                .expect("a write");
        }
        let new = varve_ftl::NewVolume {
            name: "wide",
            size: varve_units::Blocks(u64::from(chunks) * 256),
            ..new
        };
        (
            sparse,
            inner.create_volume(new).await.expect("a new volume"),
        )
    });
    let (sparse, wide) = sparse;
    pool.executor.drain();
    pool.dense.gone.set(true);
    let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
    let written = Rc::new(Cell::new(0));
    let (counted, inner) = (Rc::clone(&written), Rc::clone(&engine));
    let _filling = world.run(async move {
        for step in 0.. {
            let lba = Lba(step * 16 % (u64::from(chunks) * 256));
            let done = inner.write(wide, lba, Blocks::zeroed(16), false).await;
            done.expect("a write");
            counted.set(counted.get() + 1);
        }
    });
    assert!(
        turns(&pool, 400_000, || wait(&engine, "log_waiters") > 0),
        "hosts wait"
    );
    turns(&pool, 100_000, || false);
    let inner = Rc::clone(&engine);
    let mut burning = world.run(async move {
        for _ in 0..700 {
            inner
                .discard(burner.volume, Lba(0), 1)
                .await
                .expect("a deallocation");
        }
        // One block of each leaf in turn, which holds nothing.
        for step in 0..holes {
            let index = (step / leaves + 2 + step % leaves) % 512;
            let hole = Lba(step % leaves * 512 + index);
            inner
                .discard(sparse, hole, 1)
                .await
                .expect("a deallocation");
        }
    });
    turns(&pool, if holes > 0 { 1_500_000 } else { 400_000 }, || {
        burning.try_take().is_some()
    });
    turns(&pool, 400_000, || false);
    let mut engine = engine;
    for epoch in 0..restarts {
        pool.executor.crash();
        drop(engine);
        engine = pool.open(2 + epoch);
        let inner = Rc::clone(&engine);
        let mut holing = world.run(async move {
            for leaf in 0..100 {
                let _ = inner
                    .discard(sparse, Lba(leaf * 512 + u64::from(epoch)), 1)
                    .await;
            }
        });
        turns(&pool, 20_000, || holing.try_take().is_some());
    }
    pool.dense.gone.set(false);
    if restarts > 0 {
        let (counted, inner) = (Rc::clone(&written), Rc::clone(&engine));
        let _filling = world.run(async move {
            for step in 0.. {
                let lba = Lba(step * 16 % (u64::from(chunks) * 256));
                let done = inner.write(wide, lba, Blocks::zeroed(16), false).await;
                done.expect("a write");
                counted.set(counted.get() + 1);
            }
        });
    }
    let waited = written.get();
    turns(&pool, 1_500_000, || written.get() >= waited + 400);
    let told = format!("{:?}\n{:?}\n{reserve:?}", engine.waits(), engine.counters());
    (written.get() - waited, told)
}

/// Leaves that deallocations make long, without any that is old, leave the log to those who free it.
#[test]
fn long_chains_do_not_take_the_reserve() {
    let (with, told) = after_an_outage(varve_ftl::CHAIN_AGE_MAX, 20_000, 0);
    assert_eq!(with, 400, "{told}");
}

/// A read of a leaf's image takes long, and meanwhile a host deallocates ranges of it none of which lies in another
/// that came later, as many as may be, and then writes the whole leaf, and a block of it again.
#[test]
fn a_full_chain_takes_writes() {
    let mut pool = Pool::new(8, 1, 1);
    pool.geometry.groups = 0;
    pool.config.reserve.capacity_blocks = 2600;
    pool.config.reserve.groups = 0;
    pool.config.lanes = 1;
    pool.config.map.delta_nodes = 4096;
    pool.config.reserve.chunks = 5;
    let engine = pool.create_fast_only();
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        for at in 0..68 {
            host.write(16 * at, 16).await;
        }
        for at in 0..80 {
            host.discard(600 + 2 * at, 1).await;
        }
        host
    });
    pool.executor.drain();
    let host = pool.executor.block_on(async move {
        let read = host.engine.read(host.volume, Lba(0), Blocks::zeroed(1));
        read.await.expect("a block");
        host
    });
    pool.executor.drain();
    let stored = engine
        .stored_leaf(host.volume, varve_units::LeafIndex(1))
        .expect("a stored leaf");
    pool.fast
        .held
        .set(Some((stored * 512, stored * 512 + 4608)));
    let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
    let (inner, volume) = (Rc::clone(&engine), host.volume);
    let mut flood = world.run(async move {
        for length in (1..500_u64).rev() {
            for from in 0..511 - length {
                let hole = Lba(512 + from);
                inner
                    .discard(volume, hole, length)
                    .await
                    .expect("a deallocation");
            }
        }
    });
    // The next one waits: the chain holds as many as it may.
    assert!(!turns(&pool, 2_000_000, || flood.try_take().is_some()));
    assert_eq!(wait(&engine, "node_waiters"), 1);
    let mut host = host;
    let mut writing = world.run(async move {
        for at in 0..8 {
            host.write(512 + 64 * at, 64).await;
        }
        for at in 0..8 {
            host.write(512 + at, 1).await;
        }
        host
    });
    let mut host = None;
    turns(&pool, 2_000_000, || {
        host = writing.try_take();
        host.is_some()
    });
    assert!(host.is_some(), "all are acknowledged");
}

/// Many deallocate all over the leaves while others write, and the drives are well.
#[test]
fn a_flood_of_deallocations_in_a_busy_pool() {
    let mut stuck = Vec::new();
    for (seed, nodes) in [(1, 2048), (1, 8192), (3, 8192), (7, 8192)] {
        let pool = sparse_pool_of(seed, varve_ftl::CHAIN_AGE_MAX, 32, nodes);
        let leaves = pool.config.reserve.leaves_max - 30;
        let engine = pool.create();
        let executor = Rc::clone(&pool.executor);
        let (writes, holes) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let new = varve_ftl::NewVolume {
            name: "sparse",
            size: varve_units::Blocks(leaves * 512),
            tenant: varve_units::TenantId(1),
            uuid: [9; 16],
            nguid: [9; 16],
        };
        let inner = Rc::clone(&engine);
        let sparse = pool
            .executor
            .block_on(async move { inner.create_volume(new).await.unwrap() });
        for number in 0..72 {
            let (inner, executor) = (Rc::clone(&engine), Rc::clone(&executor));
            let counted = Rc::clone(if number < 8 { &writes } else { &holes });
            let _running = world.run(async move {
                loop {
                    let leaf = executor.below(leaves as usize) as u64;
                    let length = 1 + executor.below(16) as u64;
                    let at = Lba(leaf * 512 + executor.below(480) as u64);
                    if number >= 8 {
                        inner
                            .discard(sparse, at, 1 + length % 3)
                            .await
                            .expect("a deallocation");
                    } else {
                        let data = Blocks::zeroed(length as usize);
                        inner.write(sparse, at, data, false).await.expect("a write");
                    }
                    counted.set(counted.get() + 1);
                }
            });
        }
        // Slow is not stuck: nothing is left to do then.
        if !turns(&pool, 700_000, || writes.get() > 6000) && !pool.executor.turn() {
            stuck.push(format!(
                "{seed} {nodes}: {} {} {:?} {:?}",
                writes.get(),
                holes.get(),
                engine.waits(),
                engine.counters()
            ));
        }
    }
    assert!(stuck.is_empty(), "{stuck:#?}");
}

/// The same after many deallocations, no chain is old.
#[test]
fn starts_during_an_outage_end_after_deallocations() {
    let (with, told) = after_an_outage(varve_ftl::CHAIN_AGE_MAX, 20_000, 12);
    assert_eq!(with, 400, "{told}");
}

/// Old chains leave the log to those who free it, in a pool with checkpoints as short as `Reserve` allows.
#[test]
fn old_chains_do_not_take_a_small_reserve() {
    let of = (33, 4, 2048);
    let (without, told) = after_an_outage_of(of, varve_ftl::CHAIN_AGE_MAX, 0, 0);
    assert_eq!(without, 400, "{told}");
    let (with, told) = after_an_outage_of(of, 1500, 0, 0);
    assert_eq!(with, 400, "{told}");
}
