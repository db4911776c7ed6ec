//! Pools at their limits: nothing waits for ever, nothing overruns what is exported.

use crate::common::{Host, Pool};
use std::rc::Rc;
use varve_format::PartPayload;
use varve_ftl::map::{Change, LeafKey, Map, MapLimits, SliceLoad};
use varve_ftl::{Engine, EngineError};
use varve_io::{Blocks, World};
use varve_units::{Lba, LeafIndex, Lsn, Ppa, SliceId, VolumeId};

async fn fill(host: &mut Host, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let length = 16.min(to - at);
        host.write(at, length).await;
        at += length;
    }
}

/// A volume that is full can be deleted while hosts write to it: a write that waits for room does
/// not wait for the deletion that waits for it.
#[test]
fn a_full_volume_is_deleted_under_writes() {
    for seed in 1..=20 {
        let mut pool = Pool::new(seed, 1, 1);
        pool.config.reserve.capacity_blocks = 600;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            fill(&mut host, 0, 592).await;
            host
        });
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let volume = host.volume;
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let engine = Rc::clone(&engine);
                world.run(async move {
                    let at = Lba(700 + number * 32);
                    engine.write(volume, at, Blocks::zeroed(16), false).await
                })
            })
            .collect();
        for _ in 0..(seed * 3) {
            pool.executor.turn();
        }
        let inner = Rc::clone(&engine);
        let deleted = async move { inner.delete_volume(volume).await };
        pool.executor.block_on(deleted).expect("a volume to delete");
        for writer in writers {
            // Refused or written: the volume was full, or not yet.
            let _ = pool.executor.block_on(writer);
        }
        pool.executor.drain();
        assert_eq!(engine.used_upper(), 0, "seed {seed}");
    }
}

/// What a start could not count takes no room from hosts: bases that were merged since the last
/// checkpoint are read before a write is refused.
#[test]
fn a_start_takes_no_room() {
    let mut guesses = 0;
    for seed in 1..=8 {
        let mut pool = Pool::new(seed, 1, 1);
        pool.config.reserve.capacity_blocks = 1000;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            for from in [0, 976] {
                fill(&mut host, from, 1000).await;
                // Before it is refused all leaves are merged.
                let full = host.try_write(1040, 1).await;
                assert_eq!(full, Err(EngineError::CapacityExceeded), "seed {seed}");
            }
            host
        });
        pool.executor.crash();
        let again = pool.open(2);
        // It counts exactly if it has read that leaf for another reason.
        guesses += u32::from(again.used_upper() > 1000);
        let mut host = host.moved_to(&again);
        pool.executor.block_on(async move {
            // Of the other leaf than the one that was merged twice: that has no chain.
            host.discard(0, 20).await;
            fill(&mut host, 1024, 1044).await;
            let full = host.try_write(1044, 1).await;
            assert_eq!(full, Err(EngineError::CapacityExceeded), "seed {seed}");
        });
    }
    assert!(guesses > 5, "{guesses} starts guess");
}

/// What the log holds at the leaf limit can be redone, and what a start then checkpoints can be
/// loaded: leaves that a lost cut had dropped are still there.
#[test]
fn what_was_applied_at_the_leaf_limit_is_redone() {
    let limits = MapLimits {
        delta_nodes: 64,
        images: 2,
        leaves_max: 1,
    };
    let key = |leaf| LeafKey {
        volume: VolumeId(1),
        leaf: LeafIndex(leaf),
    };
    let put = |place| Change::Put {
        ppa: Ppa::dense(place),
        crc24: 1,
        class: 0,
    };
    let whole = Change::Discard {
        count: 512,
        zero: false,
    };
    // Payloads of the only slice, the newest cut first.
    let load = |map: &mut Map, cuts: &[(bool, &[PartPayload])]| {
        let mut load = SliceLoad::new(SliceId(0), 1);
        for (full, payloads) in cuts {
            payloads
                .iter()
                .rev()
                .for_each(|p| load.add(*full, p.bytes()).unwrap());
        }
        map.load(&load).unwrap();
    };
    let (slice, mut dead) = (SliceId(0), Vec::new());
    let mut map = Map::new(limits, 1);
    map.add_slice(slice);
    map.apply(key(0), 3, put(5), Lsn(1), &mut dead).unwrap();
    let (parts, cut) = map.cut(slice, true); // This checkpoint commits.
    map.apply(key(0), 0, whole, Lsn(2), &mut dead).unwrap();
    let _ = map.cut(slice, true); // The power fails before this one has.
    map.apply(key(1), 3, put(6), Lsn(3), &mut dead).unwrap();
    let mut again = Map::new(limits, 1);
    again.add_slice(slice);
    load(&mut again, &[(true, &parts)]);
    assert_eq!(again.applied(slice), cut);
    again.redo(key(0), 0, whole, Lsn(2), &mut dead).unwrap();
    again.redo(key(1), 3, put(6), Lsn(3), &mut dead).unwrap();
    let (changes, after) = again.cut(slice, false); // The start ends with a checkpoint.
    let mut third = Map::new(limits, 1);
    third.add_slice(slice);
    load(&mut third, &[(false, &changes), (true, &parts)]);
    assert_eq!(third.applied(slice), after);
    assert!(third.exists(key(1)) && !third.exists(key(0)));
    third.check(|_, _| None);
}

/// A pool of one lane in which two leaves may exist, the first holding `first` blocks, and the
/// second 16.
fn two_leaves(seed: u64, capacity: u64, first: u64) -> (Pool, Rc<Engine>, Host) {
    let mut pool = Pool::new(seed, 1, 1);
    pool.config.lanes = 1;
    pool.config.map.leaves_max = 2;
    pool.config.reserve.leaves_max = 2;
    pool.config.reserve.capacity_blocks = capacity;
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        fill(&mut host, 0, first).await;
        fill(&mut host, 512, 528).await;
        host
    });
    (pool, engine, host)
}

/// A write to a leaf that is deallocated and dropped before the write arrives, while another write
/// takes the room of the leaf.
#[test]
fn a_leaf_may_go_under_a_write() {
    for seed in 1..=12 {
        for before in [true, false] {
            let (pool, engine, mut host) = two_leaves(seed, 1764, 512);
            let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
            let volume = host.volume;
            let write = |lba, blocks| {
                let engine = Rc::clone(&engine);
                world.run(async move {
                    let data = Blocks::zeroed(blocks);
                    engine.write(volume, Lba(lba), data, false).await
                })
            };
            if before {
                host = pool.executor.block_on(async move {
                    host.discard(512, 512).await;
                    host
                });
            }
            // Delta nodes are so few that it waits between its pieces.
            let both = write(0, 1024);
            for _ in 0..10 {
                pool.executor.turn();
            }
            let emptied = world.run(async move { host.discard(512, 512).await });
            let third = write(1024, 16);
            let both = pool.executor.block_on(both);
            assert!(matches!(both, Ok(()) | Err(EngineError::CapacityExceeded)));
            let third = pool.executor.block_on(third);
            assert!(matches!(third, Ok(()) | Err(EngineError::CapacityExceeded)));
            pool.executor.block_on(emptied);
            pool.executor.drain();
        }
    }
}

/// Writes that wait for room for a leaf count as blocks on their way meanwhile.
#[test]
fn writes_that_wait_for_a_leaf_do_not_overrun_the_capacity() {
    for seed in 1..=8 {
        let (pool, engine, mut host) = two_leaves(seed, 532, 500);
        let volume = host.volume;
        pool.executor.block_on(async move {
            host.discard(512, 512).await;
        });
        // The leaf is vacant, and goes with the next checkpoint.
        pool.executor.drain();
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let engine = Rc::clone(&engine);
                world.run(async move {
                    let at = Lba(1024 + number * 16);
                    engine.write(volume, at, Blocks::zeroed(16), false).await
                })
            })
            .collect();
        let done = writers
            .into_iter()
            .map(|writer| pool.executor.block_on(writer))
            .filter(Result::is_ok)
            .count();
        assert!((1..=2).contains(&done), "seed {seed}: {done} of 4 writes");
    }
}

/// Thousands of deallocations of one leaf at once, none of which covers another one before it.
#[test]
fn deallocations_side_by_side_do_not_overflow_a_chain() {
    let mut pool = Pool::new(3, 1, 1);
    pool.config.lanes = 1;
    pool.config.map.delta_nodes = 1 << 16;
    pool.config.lane.inflight_max = 16;
    pool.config.checkpoint_records = 1 << 20;
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        fill(&mut host, 0, 512).await;
        host
    });
    let volume = host.volume;
    let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
    let ranges = (1..512_u64)
        .rev()
        .flat_map(|length| (0..=512 - length).map(move |at| (at, length)));
    let running: Vec<_> = ranges
        .take(9000)
        .map(|(at, length)| {
            let engine = Rc::clone(&engine);
            world.run(async move { engine.discard(volume, Lba(at), length).await })
        })
        .collect();
    for done in running {
        pool.executor.block_on(done).expect("a discard in range");
    }
}
