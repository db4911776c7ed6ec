//! What is left of a pool without its fast tier.

use crate::common::{Host, MemoryDrive, Pool, VOLUME_BLOCKS, first_word};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use varve_ftl::{Engine, EngineError, RebuildError, RebuildReport};
use varve_io::{Blocks, World};
use varve_units::{BLOCK_BYTES, Lba};

/// Memory in which all leaves of these pools fit.
const MEMORY: u64 = 1 << 20;

/// Hosts that have worked for a while, on a pool that was closed since.
struct Past {
    pool: Pool,
    hosts: Vec<Host>,
    /// What each block on the dense tier begins with.
    dense: Vec<BTreeMap<u64, u64>>,
}

/// Has `count` hosts work in turns, over a start in between, and closes the pool.
fn past(seed: u64, p2l_copies: u32, copies: u8, count: u64) -> Past {
    let pool = Pool::new(seed, p2l_copies, copies);
    let mut engine = pool.create();
    let mut hosts: Vec<Host> = (1..=count).map(|one| pool.host(&engine, one)).collect();
    for epoch in 2..=4 {
        for host in &mut hosts {
            let mut one = host.clone().moved_to(&engine);
            *host = pool.executor.block_on(async move {
                one.run(200).await;
                one
            });
        }
        let inner = Rc::clone(&engine);
        pool.executor
            .block_on(async move { inner.close().await })
            .expect("closed in order");
        pool.executor.drain();
        engine = pool.open(epoch);
    }
    let inner = Rc::clone(&engine);
    let found = pool
        .executor
        .block_on(async move { inner.blocks_on_dense().await });
    let mut dense = vec![BTreeMap::new(); hosts.len()];
    for (volume, lba) in found.expect("a sound map") {
        for (host, dense) in hosts.iter().zip(&mut dense) {
            if host.volume == volume {
                dense.insert(lba.0, host.expected(lba.0));
            }
        }
    }
    let inner = Rc::clone(&engine);
    pool.executor
        .block_on(async move { inner.close().await })
        .expect("closed in order");
    drop(engine);
    pool.executor.drain();
    Past { pool, hosts, dense }
}

impl Past {
    /// The fast drive is gone; another one is in its place.
    fn lose_fast(&mut self) {
        let copies = 2;
        self.pool.fast = MemoryDrive::new(Rc::clone(&self.pool.executor), 18 << 20, copies);
    }

    fn rebuild(&self, epoch: u32, memory: u64) -> Result<RebuildReport, RebuildError> {
        let rebuilding = self.pool.rebuilding(epoch, memory);
        let report = self.pool.executor.block_on(rebuilding);
        self.pool.executor.drain();
        report
    }

    /// Every block that was on the dense tier reads as before; all others hold what was once written to them, or
    /// nothing. Returns how many came back that were not there any more.
    fn check(&mut self, engine: &Rc<Engine>) -> u64 {
        let mut freed = 0;
        let found: BTreeSet<_> = engine.volumes().iter().map(|entry| entry.id).collect();
        for (host, dense) in self.hosts.iter_mut().zip(&self.dense) {
            *host = host.clone().moved_to(engine);
            if !found.contains(&host.volume) {
                assert!(dense.is_empty(), "blocks of {} are there", host.volume);
                continue;
            }
            for lba in 0..VOLUME_BLOCKS {
                let (inner, volume) = (Rc::clone(engine), host.volume);
                let read = async move { inner.read(volume, Lba(lba), Blocks::zeroed(1)).await };
                let word = first_word(&self.pool.executor.block_on(read).expect("readable"));
                match dense.get(&lba) {
                    Some(expected) => assert_eq!(word, *expected, "block {lba} of {volume}"),
                    None if word == 0 => {}
                    None => {
                        assert_eq!(host.place_of(word), Some(lba), "block {lba} of {volume}");
                        freed += u64::from(word != host.expected(lba));
                    }
                }
                host.accept(lba, word);
            }
        }
        freed
    }

    /// The pool works as any other: writes, collection, a crash, a start.
    fn go_on(&mut self, engine: Rc<Engine>, epoch: u32) {
        let executor = Rc::clone(&self.pool.executor);
        for host in &mut self.hosts {
            let mut one = host.clone().moved_to(&engine);
            *host = executor.block_on(async move {
                one.run(150).await;
                one
            });
        }
        audit(&self.pool, &engine);
        let inner = Rc::clone(&engine);
        executor
            .block_on(async move { inner.flush().await })
            .expect("flushed");
        executor.crash();
        drop(engine);
        let engine = self.pool.open(epoch);
        for host in &mut self.hosts {
            let one = host.clone().moved_to(&engine);
            executor
                .block_on(async move { one.verify().await })
                .expect("all of it");
        }
        audit(&self.pool, &engine);
    }
}

fn audit(pool: &Pool, engine: &Rc<Engine>) {
    let inner = Rc::clone(engine);
    let audited = pool.executor.block_on(async move { inner.audit().await });
    audited.expect("a sound pool");
}

/// Whatever hosts did: what was on the dense tier is there again, nothing is foreign, and the pool goes on.
#[test]
fn what_the_dense_tier_holds_comes_back() {
    let (mut freed, mut evacuated, mut passes) = (0, 0, BTreeSet::new());
    for seed in 0..12 {
        let (p2l_copies, memory) = (1 + seed as u32 % 2, [MEMORY, 0, 40_000][seed as usize % 3]);
        let mut past = past(seed, p2l_copies, 2, 2);
        past.lose_fast();
        let report = past.rebuild(9, memory).expect("a map");
        assert_eq!(
            (report.lost, report.stripes_unreadable),
            (0, 0),
            "{report:?}"
        );
        let on_dense: usize = past.dense.iter().map(BTreeMap::len).sum();
        assert!(report.mapped >= on_dense as u64, "{report:?}");
        assert!(report.passed_over > 0, "{report:?}");
        passes.insert(report.passes);
        evacuated += report.groups_evacuated;
        let engine = past.pool.open(10);
        audit(&past.pool, &engine);
        freed += past.check(&engine);
        past.go_on(engine, 11);
    }
    assert!(freed > 0, "something that was freed came back");
    assert!(evacuated > 0, "groups had to be emptied");
    assert!(passes.len() > 2, "{passes:?}");
}

/// A crash anywhere: nothing on the dense tier has changed, and the same again makes the map, also where the drive holds
/// what the attempt before left.
#[test]
fn a_rebuild_that_is_cut_short_begins_again() {
    let mut past = past(3, 1, 2, 2);
    past.lose_fast();
    let before = past.pool.dense.peek(0, 13 << 20);
    for turns in [1, 50, 200, 400, 600, 800, 1000, 1500, 2000] {
        let rebuilding = past.pool.rebuilding(9, 40_000);
        let world: &dyn World = &*past.pool.executor;
        let mut running = world.run(rebuilding);
        let is_over = past
            .pool
            .executor
            .turns(turns, || running.try_take().is_some());
        past.pool.executor.crash();
        if is_over {
            break;
        }
        assert!(past.pool.dense.peek(0, 13 << 20) == before, "{turns} turns");
    }
    past.rebuild(10, MEMORY).expect("a map");
    assert!(past.pool.dense.peek(0, 13 << 20) == before);
    let engine = past.pool.open(11);
    past.check(&engine);
    past.go_on(engine, 12);
}

/// The pool's own fast drive, with a log and younger checkpoints, serves as any other.
#[test]
fn the_old_fast_drive_is_not_believed() {
    let mut past = past(5, 1, 2, 2);
    past.rebuild(9, MEMORY).expect("a map");
    let engine = past.pool.open(10);
    past.check(&engine);
    past.go_on(engine, 11);
}

/// Another pool was on the drives before, with the same epoch, the same numbers of volumes and more writes: its P2L areas
/// are whole, and nothing of them is in the map.
#[test]
fn what_an_older_pool_left_comes_back_in_no_map() {
    let mut past = past(11, 1, 2, 2);
    // Of four equal words nothing is left when they are folded.
    past.pool.id = *b"one more pool of";
    past.lose_fast();
    let engine = past.pool.create();
    let mut host = past.pool.host(&engine, 7);
    let host = past.pool.executor.block_on(async move {
        host.run(400).await;
        host
    });
    let inner = Rc::clone(&engine);
    let found = past
        .pool
        .executor
        .block_on(async move { inner.blocks_on_dense().await });
    let dense = found.expect("a sound map").into_iter();
    past.dense = vec![
        dense
            .map(|(_, lba)| (lba.0, host.expected(lba.0)))
            .collect(),
    ];
    past.hosts = vec![host];
    let inner = Rc::clone(&engine);
    past.pool
        .executor
        .block_on(async move { inner.close().await })
        .expect("closed in order");
    past.pool.executor.drain();
    past.lose_fast();
    past.rebuild(9, MEMORY).expect("a map");
    let engine = past.pool.open(10);
    let found: Vec<_> = engine.volumes().iter().map(|entry| entry.id).collect();
    assert!(
        found.iter().all(|id| *id == past.hosts[0].volume),
        "{found:?}"
    );
    past.check(&engine);
    past.go_on(engine, 11);
}

/// What cannot be read of the stripe that was written last gives way to what was there before it; elsewhere it is lost.
#[test]
fn a_winner_that_cannot_be_read_gives_way_at_the_end_of_a_group_alone() {
    let mut past = past(7, 1, 1, 2);
    past.lose_fast();
    let group = past.pool.geometry.group_bytes();
    let stripe = u64::from(past.pool.geometry.stripe_blocks) * BLOCK_BYTES;
    // Of each group the first block of the last stripe.
    for at in 0..u64::from(past.pool.geometry.groups) {
        past.pool.dense.flip(0, at * group + group - stripe + 5);
    }
    let report = past.rebuild(9, MEMORY).expect("a map");
    assert!(report.gave_way > 0, "{report:?}");
    let engine = past.pool.open(10);
    audit(&past.pool, &engine);
    let (mut older, mut lost) = (0, 0);
    for (host, dense) in past.hosts.iter_mut().zip(&past.dense) {
        for (lba, expected) in dense {
            let (inner, volume, lba) = (Rc::clone(&engine), host.volume, *lba);
            let read = async move { inner.read(volume, Lba(lba), Blocks::zeroed(1)).await };
            match past.pool.executor.block_on(read) {
                Ok(block) if first_word(&block) == *expected => {}
                Ok(block) => {
                    assert_eq!(host.place_of(first_word(&block)), Some(lba));
                    older += 1;
                }
                Err(error) => {
                    assert_eq!(error, EngineError::Lost(volume, Lba(lba)));
                    lost += 1;
                }
            }
        }
    }
    // Blocks that were freed, and came back, may be lost as well.
    assert!(lost <= report.lost, "{lost} of {report:?}");
    assert!(older + lost > 0 && older + lost <= report.gave_way);
}

/// A P2L area that no way gives is told of, with its group, and costs the blocks of its stripe.
#[test]
fn areas_that_cannot_be_read_are_told() {
    let mut past = past(8, 1, 1, 2);
    past.lose_fast();
    let group = past.pool.geometry.group_bytes();
    let stripe = u64::from(past.pool.geometry.stripe_blocks) * BLOCK_BYTES;
    let begun = |at: &u64| past.pool.dense.peek(at * group + stripe - BLOCK_BYTES, 4) == b"VP2L";
    let first = (0..13).find(begun).expect("a group with a stripe");
    past.pool
        .dense
        .flip(0, first * group + stripe - BLOCK_BYTES + 100);
    let report = past.rebuild(9, MEMORY).expect("a map");
    assert_eq!(report.stripes_unreadable, 1);
    assert_eq!(report.groups_unreadable, [first as u32]);
    let engine = past.pool.open(10);
    audit(&past.pool, &engine);
}

/// By another copy everything is found where one has rotted.
#[test]
fn what_has_rotted_is_read_another_way() {
    let mut past = past(9, 1, 2, 2);
    past.lose_fast();
    for block in (0..13 * 256).step_by(3) {
        past.pool.dense.flip(0, block * BLOCK_BYTES + 40);
    }
    let report = past.rebuild(9, MEMORY).expect("a map");
    assert_eq!(
        (report.lost, report.gave_way, report.stripes_unreadable),
        (0, 0, 0)
    );
    let engine = past.pool.open(10);
    past.check(&engine);
}

/// A dense tier that does not answer is waited for, and then told of.
#[test]
fn a_dense_tier_that_is_away_is_an_error() {
    let mut past = past(10, 1, 1, 1);
    past.lose_fast();
    past.pool.dense.gone.set(true);
    let error = past.rebuild(9, MEMORY).expect_err("nothing can be read");
    assert!(matches!(error, RebuildError::Dense(_)), "{error:?}");
    past.pool.dense.gone.set(false);
    past.rebuild(9, MEMORY).expect("a map");
}
