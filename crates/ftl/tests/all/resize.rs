//! Sizes of volumes across crashes.

use crate::common::{Pool, VOLUME_BLOCKS};
use std::cell::Cell;
use std::rc::Rc;
use varve_io::{Blocks, World};
use varve_units::{BLOCK, Blocks as Count, Lba};

/// A volume is made smaller, the power fails at any moment of that, and it is made larger again:
/// what it holds beyond the smaller size is zeroes.
#[test]
fn what_a_volume_lost_does_not_come_back_when_it_grows() {
    const SMALL: u64 = 100;
    let mut shrank = 0;
    for seed in 1..=60_u64 {
        let mut pool = Pool::new(seed, 1, 1);
        pool.config.checkpoint_records = 1;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let volume = host.volume;
        pool.executor.block_on(async move {
            for at in (0..VOLUME_BLOCKS - 16).step_by(16) {
                host.write(at, 16).await;
            }
        });
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        // The change of size waits for these; checkpoints do not.
        let _writes: Vec<_> = (0..12)
            .map(|number| {
                let engine = Rc::clone(&engine);
                let data = Blocks::zeroed(8);
                world.run(async move { engine.write(volume, Lba(number * 8), data, true).await })
            })
            .collect();
        let inner = Rc::clone(&engine);
        let _resize = world.run(async move { inner.resize_volume(volume, Count(SMALL)).await });
        for _ in 0..seed * 12 {
            pool.executor.turn();
        }
        pool.executor.crash();
        drop(engine);
        let engine = pool.open(2);
        let size = engine.volumes()[0].size;
        if size != Count(SMALL) {
            continue;
        }
        shrank += 1;
        pool.executor.block_on(async move {
            let grown = engine.resize_volume(volume, Count(VOLUME_BLOCKS)).await;
            grown.expect("a larger size");
            for lba in SMALL..VOLUME_BLOCKS {
                let read = engine.read(volume, Lba(lba), Blocks::zeroed(1)).await;
                let block = read.expect("a block in range");
                assert_eq!(
                    block.bytes()[..BLOCK],
                    [0; BLOCK],
                    "seed {seed}, block {lba}"
                );
            }
        });
    }
    assert!(
        (5..60).contains(&shrank),
        "{shrank} crashes after the size was committed"
    );
}

/// The smaller size is committed while the deallocation that goes with it has not begun, since a read is still under
/// way, and the power fails. What the volume then maps beyond its size is zeroes once it grows.
#[test]
fn what_was_never_deallocated_does_not_come_back_when_it_grows() {
    const SMALL: u64 = 100;
    for seed in 1..=4_u64 {
        let mut pool = Pool::new(seed, 1, 1);
        pool.config.checkpoint_records = 1;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let volume = host.volume;
        pool.executor.block_on(async move {
            for at in (0..VOLUME_BLOCKS - 16).step_by(16) {
                host.write(at, 16).await;
            }
        });
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        pool.fast.held.set(Some((0, u64::MAX)));
        let read = |lba: u64| {
            let engine = Rc::clone(&engine);
            world.run(async move { engine.read(volume, Lba(lba), Blocks::zeroed(1)).await })
        };
        let _reads: Vec<_> = (0..VOLUME_BLOCKS - 16).map(read).collect();
        let holds = pool.executor.turns(100_000, || pool.fast.waiting() > 0);
        assert!(holds, "seed {seed}: a read waits for the map");
        let inner = Rc::clone(&engine);
        let _resize = world.run(async move { inner.resize_volume(volume, Count(SMALL)).await });
        let begun = engine.counters()["checkpoints"];
        let committed = || engine.counters()["checkpoints"] > begun + 2;
        assert!(pool.executor.turns(100_000, committed), "seed {seed}");
        pool.executor.crash();
        drop(engine);
        pool.fast.held.set(None);
        let engine = pool.open(2);
        assert_eq!(engine.volumes()[0].size, Count(SMALL), "seed {seed}");
        pool.executor.block_on(async move {
            let used = engine.usage().await.expect("a running engine")[&volume];
            assert!(used > SMALL, "seed {seed}: {used} blocks are mapped");
            let grown = engine.resize_volume(volume, Count(VOLUME_BLOCKS)).await;
            grown.expect("a larger size");
            for lba in SMALL..VOLUME_BLOCKS {
                let read = engine.read(volume, Lba(lba), Blocks::zeroed(1)).await;
                let block = read.expect("a block in range");
                let is_blank = block.bytes().iter().all(|byte| *byte == 0);
                assert!(is_blank, "seed {seed}, block {lba}");
            }
        });
    }
}

/// There is no room left beneath the dense tier, and hosts can write nothing: deallocations go on for as
/// long as hosts like, since what they leave in the log is cleaned without a group, and a smaller size
/// is taken.
#[test]
fn deallocations_find_room_where_writes_do_not() {
    const SMALL: Count = Count(100);
    for seed in 1..=6_u64 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let volume = host.volume;
        let dense = Rc::clone(&pool.dense);
        let host = pool.executor.block_on(async move {
            host.run(300).await;
            dense.no_space.set(true);
            let mut step = 0;
            while host.try_write(step * 11 % 1000, 4).await.is_ok() {
                step += 1;
            }
            host
        });
        let before = engine.counters()["chunks_cleaned"];
        let host = pool.executor.block_on(async move {
            let mut host = host;
            for step in 0..40_000 {
                let taken = host.try_discard(step * 7 % 1000, 1).await;
                taken.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
            }
            host
        });
        let cleaned = engine.counters()["chunks_cleaned"] - before;
        assert!(
            cleaned > 2,
            "seed {seed}: more than the reserve was written, {cleaned}"
        );
        let inner = Rc::clone(&engine);
        let resized = pool
            .executor
            .block_on(async move { inner.resize_volume(volume, SMALL).await });
        assert_eq!(resized, Ok(()), "seed {seed}");
        pool.executor.crash();
        drop((engine, host));
        assert_eq!(pool.open(2).volumes()[0].size, SMALL, "seed {seed}");
    }
}

/// Hosts write below the new end all the time, several at once, so that there is no moment without an operation: a volume
/// is made smaller all the same.
#[test]
fn a_busy_volume_becomes_smaller() {
    const SMALL: Count = Count(100);
    const WRITES_MAX: usize = 2000;
    for seed in 1..=4_u64 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let volume = pool.host(&engine, 1).volume;
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let is_done = Rc::new(Cell::new(false));
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let (engine, is_done) = (Rc::clone(&engine), Rc::clone(&is_done));
                world.run(async move {
                    let mut writes = 0;
                    while !is_done.get() && writes < WRITES_MAX {
                        let data = Blocks::zeroed(1);
                        let lba = Lba(number * 8 + writes as u64 % 8);
                        let written = engine.write(volume, lba, data, false).await;
                        written.expect("a block below the new end");
                        writes += 1;
                    }
                    writes
                })
            })
            .collect();
        for _ in 0..200 {
            pool.executor.turn();
        }
        let inner = Rc::clone(&engine);
        let resized = pool.executor.block_on(async move {
            let resized = inner.resize_volume(volume, SMALL).await;
            is_done.set(true);
            resized
        });
        assert_eq!(resized, Ok(()), "seed {seed}");
        let writes = pool.executor.block_on(async move {
            let mut most = 0;
            for writer in writers {
                most = most.max(writer.await);
            }
            most
        });
        assert!(
            writes < WRITES_MAX,
            "seed {seed}: it waited until hosts were done"
        );
        assert_eq!(engine.volumes()[0].size, SMALL, "seed {seed}");
    }
}
