//! Starts from states that the public interface reaches by chance only.

use super::ahead::{Ahead, batch_bytes};
use super::names::{GroupNames, NamedGroup};
use super::scan::Scan;
use super::walk::LaneWalk;
use crate::common::Pool;
use crate::engine::Engine;
use crate::geometry::{Tier, UnitId};
use crate::shared::Identity;
use crate::units::UnitState;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::rc::Rc;
use varve_format::{BatchHead, Record};
use varve_io::{Drive, World};
use varve_units::{Generation, SECTOR_BYTES};

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

/// A start leaves groups in doubt; those with the fewest live bits are recounted first.
#[test]
fn the_leanest_groups_are_recounted_first() {
    let pool = Pool::new(5, 1, 1);
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        host.run(900).await;
        host
    });
    pool.executor.crash();
    drop((host, engine));
    let engine = pool.open(2);
    let lives = |groups: Vec<u32>| -> Vec<u32> {
        let units = &engine.shared.units;
        let live = |group| units.unit(UnitId::group(group)).live();
        groups.into_iter().map(live).collect()
    };
    let all = lives(engine.shared.doubtful_groups(usize::MAX));
    assert!(all.is_sorted() && all.first() < all.last(), "{all:?}");
    assert_eq!(lives(engine.shared.doubtful_groups(2)), all[..2]);
}

/// A count takes the doubt from all groups it is for, and the bits that the map does not name; leaves of both
/// reactors are read beside one another into a cache of one image.
#[test]
fn a_recount_leaves_what_the_map_names() {
    let mut cleared = 0;
    for seed in 21..=24 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let mut host = pool.host(&engine, 2);
        let host = pool.executor.block_on(async move {
            host.run(900).await;
            host
        });
        pool.executor.crash();
        let moved = host;
        drop(engine);
        let engine = pool.open(2);
        let host = moved.moved_to(&engine);
        pool.executor.drain();
        let live = |engine: &Engine| -> u32 {
            let units = &engine.shared.units;
            let ids = units.ids(crate::geometry::Tier::Dense);
            ids.map(|id| units.unit(id).live()).sum()
        };
        let before = live(&engine);
        assert!(!engine.shared.doubtful_groups(usize::MAX).is_empty());
        let inner = Rc::clone(&engine);
        let report = pool.executor.block_on(async move {
            inner.shared.recount().await;
            assert_eq!(inner.shared.doubtful_groups(usize::MAX), []);
            inner.audit().await
        });
        report.expect("every block that the map names has its bit");
        cleared += before - live(&engine);
        let verified = pool.executor.block_on(async move { host.verify().await });
        verified.expect("every block is there");
    }
    assert!(cleared > 0, "a crash brings bits back");
}

/// Every lane of a pool that crashed, followed with `room` bytes for records.
fn follow(pool: &Pool, room: usize) -> Vec<LaneWalk> {
    follow_newest(pool, room).1
}

/// The number of the newest checkpoint, and every lane from there.
fn follow_newest(pool: &Pool, room: usize) -> (u64, Vec<LaneWalk>) {
    let (world, fast) = (Rc::clone(&pool.executor), Rc::clone(&pool.fast));
    let (world, fast) = (world as Rc<dyn World>, fast as Rc<dyn Drive>);
    let drive = Rc::clone(&pool.fast);
    let (geometry, config) = (pool.geometry, pool.config);
    let identity = Identity {
        pool: pool.id,
        epoch: 2,
    };
    pool.executor.block_on(async move {
        let scan = Scan::read(&*fast, &geometry, &config, identity).await;
        let (body, _) = scan.newest_commit(&*fast).await.expect("a checkpoint");
        let mut walks = Vec::new();
        drive.meta_reads.reset();
        for position in &body.lanes {
            let lane = scan.lane(body.epoch, position.lane);
            let ahead = Ahead::new(&world, &fast);
            walks.push(LaneWalk::follow(&*fast, &scan, position, &lane, ahead, room).await);
        }
        (body.checkpoint, walks)
    })
}

/// Batches that had been flushed are missed, told of and stepped over, however much later and in whichever
/// chunk another says that they had been; behind others the lane ends. Checkpoints are found behind both.
#[test]
fn lost_batches_that_were_flushed_are_told() {
    let (mut told, mut ends, mut far) = (0, 0, 0);
    for seed in 1..=8 {
        let mut pool = Pool::new(seed, 1, 1);
        if seed > 6 {
            // Less than a batch.
            pool.config.flush_bytes = 16 << 10;
        }
        pool.config.checkpoint_records = 4000;
        pool.config.checkpoint_bytes = 8 << 20;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            host.run(500).await;
            host
        });
        pool.executor.crash();
        drop((host, engine));
        let (checkpoint, walks) = follow_newest(&pool, usize::MAX);
        for (number, walk) in walks.iter().enumerate() {
            assert!(walk.damage.is_empty(), "seed {seed}");
            let heads: Vec<_> = walk.found.iter().map(|found| found.head).collect();
            for (at, width) in (1..heads.len()).zip([1, 2, 3].into_iter().cycle()) {
                let lost = at..(at + width).min(heads.len());
                let records = walk.found[lost.clone()].iter();
                let mut records = records.flat_map(|found| found.records.as_deref().expect("kept"));
                if records.any(|record| matches!(record, Record::Commit { .. })) {
                    continue;
                }
                let flip = || {
                    for head in &heads[lost.clone()] {
                        pool.fast.flip(0, head.address * SECTOR_BYTES + 20);
                    }
                };
                flip();
                let (newest, again) = follow_newest(&pool, usize::MAX);
                flip();
                let (before, behind) = (&heads[..at], &heads[lost.end..]);
                let last = before[at - 1].last_lsn();
                let proof = behind.iter().position(|head| head.durable_through > last);
                let walk = &again[number];
                let found: Vec<_> = walk.found.iter().map(|found| found.head.sequence).collect();
                let all = |heads: &[BatchHead]| heads.iter().map(|head| head.sequence).collect();
                let mut left: Vec<u64> = all(before);
                match proof {
                    Some(proof) => {
                        left.extend::<Vec<u64>>(all(behind));
                        let [damage] = &walk.damage[..] else {
                            panic!("seed {seed}, batch {at}: {:?}", walk.damage);
                        };
                        assert_eq!((damage.from, damage.to), (last.next(), behind[0].first_lsn));
                        assert_eq!(newest, checkpoint, "seed {seed}, batch {at}");
                        told += 1;
                        let chunk = |head: &BatchHead| pool.geometry.chunk_of(head.address);
                        far += u32::from(proof > 0 && chunk(&behind[proof]) != chunk(&behind[0]));
                    }
                    None => {
                        assert_eq!(walk.damage, [], "seed {seed}, batch {at}");
                        ends += 1;
                    }
                }
                assert_eq!(found, left, "seed {seed}, batch {at}");
            }
        }
    }
    assert!(
        told > 100 && ends > 0 && far > 0,
        "{told} told, {far} of them far, {ends} ends"
    );
}

/// What lanes name, whether their records were kept or not.
fn names(pool: &Pool, walks: &[LaneWalk]) -> Vec<(u32, u32, u64)> {
    let mut all: BTreeMap<u32, NamedGroup> = BTreeMap::new();
    for walk in walks {
        let mut names: GroupNames = walk.names.clone();
        for found in &walk.found {
            let records = found.records.as_deref().unwrap_or_default();
            names.note(&pool.geometry, found.head.sequence, records);
        }
        names.add_to(&mut all);
    }
    let list = all.into_iter();
    list.map(|(group, named)| (group, named.end, named.volume.0))
        .collect()
}

/// What a walk keeps of batches that were flushed fits the memory there is for it; what it finds, and
/// the groups that are named, are the same however little that is.
#[test]
fn a_walk_keeps_no_more_records_than_fit() {
    let mut named = 0;
    for seed in 1..=6 {
        let mut pool = Pool::new(seed, 1, 1 + (seed % 2) as u8);
        pool.config.checkpoint_records = 4000;
        pool.config.checkpoint_bytes = 64 << 20;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            host.run(700).await;
            host
        });
        pool.executor.crash();
        drop((host, engine));
        let all = follow(&pool, usize::MAX);
        let heads = |walks: &[LaneWalk]| -> Vec<_> {
            let found = walks.iter().flat_map(|walk| &walk.found);
            found
                .map(|found| (found.head.address, found.head.first_lsn))
                .collect()
        };
        assert!(heads(&all).len() > 10, "seed {seed}: {}", heads(&all).len());
        named += names(&pool, &all).len();
        let kept = all.iter().flat_map(|walk| &walk.found);
        assert!(kept.into_iter().all(|found| found.records.is_some()));
        for room in [0, 2000, 20_000] {
            let walks = follow(&pool, room);
            assert_eq!(heads(&walks), heads(&all), "seed {seed}");
            assert_eq!(names(&pool, &walks), names(&pool, &all), "seed {seed}");
            for walk in &walks {
                let found = walk.found.iter().filter(|found| found.rewrite.is_none());
                let kept = found.filter_map(|found| Some((found.head, found.records.as_ref()?)));
                let kept = kept.map(|(head, records)| batch_bytes(&head, records.len()));
                assert!(kept.sum::<usize>() <= room, "seed {seed}: more than {room}");
            }
        }
    }
    assert!(named > 0, "groups are named");
}

/// The number of the newest checkpoint, and the byte where the batch with its commit begins.
fn newest_commit(pool: &Pool) -> (u64, u64) {
    let fast = Rc::clone(&pool.fast) as Rc<dyn Drive>;
    let (geometry, config) = (pool.geometry, pool.config);
    let identity = Identity {
        pool: pool.id,
        epoch: 9,
    };
    pool.executor.block_on(async move {
        let scan = Scan::read(&*fast, &geometry, &config, identity).await;
        let (body, place) = scan.newest_commit(&*fast).await.expect("a checkpoint");
        (body.checkpoint, place.sector * SECTOR_BYTES)
    })
}

/// A chunk whose header is of this epoch, as copy 1 has it.
fn chunk_of_epoch(pool: &Pool, epoch: u32) -> Option<u64> {
    let starts =
        (0..u64::from(pool.geometry.chunks)).map(|chunk| chunk * pool.geometry.chunk_bytes);
    starts.into_iter().find(|start| {
        let header = pool.fast.peek_at(1, *start, 16);
        header[..4] == *b"VCHK" && header[12..] == epoch.to_le_bytes()
    })
}

/// The power fails when the newest commit has reached one copy alone. A start goes by it, and the power fails again
/// with the start's first chunk written, taking that copy along: the other one must not be left with a name of a
/// checkpoint that it does not hold, nor without what the one before needs.
#[test]
fn a_commit_on_one_copy_is_on_both_before_a_start_writes() {
    let mut cut = 0;
    for seed in 1..=8 {
        let mut pool = Pool::new(seed, 1, 2);
        pool.set_lanes(1 + (seed % 2) as u16);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let host = pool.executor.block_on(async move {
            host.run(400).await;
            host
        });
        pool.executor.drain();
        let inner = Rc::clone(&engine);
        let taken = pool.executor.block_on(async move {
            inner.shared.flush_log().await.expect("a drive");
            inner.shared.take_checkpoint().await
        });
        taken.expect("a checkpoint");
        pool.executor.crash();
        drop(engine);
        let (newest, commit) = newest_commit(&pool);
        let before = pool.fast.peek_at(1, commit, 64);
        pool.fast.flip(1, commit + 20);
        let torn = pool.fast.peek_at(1, commit, 64);
        pool.fast.lost.set(Some(0));
        let (other, _) = newest_commit(&pool);
        pool.fast.lost.set(None);
        if other == newest {
            continue;
        }
        cut += 1;
        let world = Rc::clone(&pool.executor) as Rc<dyn World>;
        let mut opening = world.run(pool.opening(2));
        while chunk_of_epoch(&pool, 2).is_none() {
            assert!(pool.executor.turn(), "the start writes");
        }
        assert!(opening.try_take().is_none(), "it has not ended");
        pool.executor.crash();
        drop(opening);
        // What was not flushed is lost with the power.
        if pool.fast.is_unflushed(commit) && pool.fast.peek_at(1, commit, 64) == before {
            pool.fast.flip(1, commit + 20);
            assert_eq!(pool.fast.peek_at(1, commit, 64), torn);
        }
        pool.fast.lost.set(Some(0));
        let opened = pool.try_open(3);
        let (engine, report) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(report.damage, [], "seed {seed}");
        let host = host.moved_to(&engine);
        let verified = pool.executor.block_on(async move { host.verify().await });
        verified.expect("every block is there");
    }
    assert!(cut > 3, "{cut} pools were cut so");
}

/// A unit that stays free has another generation after each start: what one that was cut short wrote there is of no use
/// that counts.
#[test]
fn free_units_get_a_new_generation_at_a_start() {
    let pool = Pool::new(3, 1, 1);
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    pool.executor.block_on(async move { host.run(200).await });
    pool.executor.crash();
    drop(engine);
    let mut before: BTreeMap<UnitId, Generation> = BTreeMap::new();
    let mut compared = [0, 0];
    for epoch in 2..6 {
        let engine = pool.open(epoch);
        let units = &engine.shared.units;
        let ids = units.ids(Tier::Fast).chain(units.ids(Tier::Dense));
        let free = ids.filter(|id| units.unit(*id).state() == UnitState::Free);
        let now: BTreeMap<_, _> = free.map(|id| (id, units.unit(id).generation())).collect();
        for (id, generation) in &now {
            if let Some(before) = before.get(id) {
                assert!(generation > before, "{id}, start {epoch}");
                compared[usize::from(id.tier == Tier::Dense)] += 1;
            }
        }
        before = now;
        pool.executor.crash();
    }
    assert!(compared.iter().all(|count| *count > 5), "{compared:?}");
}
