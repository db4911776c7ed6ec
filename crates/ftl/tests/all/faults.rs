//! Drives that lose writes, or go away for a while: what was acknowledged is there afterwards.

use crate::common::{Host, Pool, VOLUME_BLOCKS, first_word};
use std::rc::Rc;
use varve_ftl::EngineError;
use varve_io::{Blocks, IoError, World};
use varve_units::{Lba, Nanos};

fn verify(pool: &Pool, host: Host) -> Result<Host, String> {
    pool.executor.block_on(async move {
        match host.verify().await {
            Ok(()) => Ok(host),
            Err(error) => Err(format!("{error}")),
        }
    })
}

/// One write of the log misses one of two copies. What an earlier use of the chunk left there is
/// not taken for what should be there when the chunk is cleaned.
#[test]
fn one_lost_write_on_one_copy_costs_nothing() {
    let mut failures = Vec::new();
    for seed in 1..=12_u64 {
        let mut pool = Pool::new(seed, 1, 2);
        pool.config.lanes = 1;
        pool.geometry.lba_bytes = 4096;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let mut other = pool.host(&engine, 2);
        let fast = Rc::clone(&pool.fast);
        host = pool.executor.block_on(async move {
            // The log wraps, then one write is lost, then the log wraps again.
            for step in 0..4000_u64 {
                host.write(step % 1000, 1).await;
            }
            fast.lose_in.set(Some(seed as u32 * 11));
            for step in 4000..4300_u64 {
                host.write(step % 1000, 1).await;
            }
            for step in 0..4000_u64 {
                other.write(step * 7 % 400, 1).await;
            }
            host
        });
        pool.executor.drain();
        assert_eq!(pool.fast.lose_in.get(), None, "the write was lost");
        let counters = engine.counters();
        let (lost, stuck) = (
            counters.get("blocks_lost").copied(),
            counters.get("chunks_stuck").copied(),
        );
        if let Err(error) = verify(&pool, host) {
            failures.push((seed, lost, error));
        }
        assert_eq!(
            stuck, None,
            "seed {seed}: the other copy holds every header"
        );
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// The dense tier is away for a while: nothing of it is written off, and no group of it is taken
/// out of use.
#[test]
fn a_dense_tier_that_comes_back_has_lost_nothing() {
    for seed in 1..=4 {
        let pool = Pool::new(seed, 2, 1);
        let engine = pool.create();
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let run = |mut host: Host, count| {
            world.run(async move {
                host.run(count).await;
                host
            })
        };
        let hosts: Vec<_> = (1..=2)
            .map(|number| run(pool.host(&engine, number), 300))
            .collect();
        let hosts: Vec<_> = hosts
            .into_iter()
            .map(|host| pool.executor.block_on(host))
            .collect();
        pool.dense.gone.set(true);
        let running: Vec<_> = hosts.into_iter().map(|host| run(host, 200)).collect();
        for _ in 0..60_000 {
            pool.executor.turn();
        }
        let counters = engine.counters();
        let errors = ["stripe_write_errors", "gc_failures"].map(|name| counters.get(name));
        let errors: u64 = errors.into_iter().flatten().sum();
        assert!(errors > 0, "seed {seed}: what moves blocks met the outage");
        pool.dense.gone.set(false);
        let hosts: Vec<_> = running
            .into_iter()
            .map(|host| pool.executor.block_on(host))
            .collect();
        pool.executor.drain();
        let counters = engine.counters();
        assert_eq!(counters.get("blocks_lost"), None, "seed {seed}");
        assert_eq!(counters.get("units_retired"), None, "seed {seed}");
        assert_eq!(engine.stop_reason(), None, "seed {seed}");
        for host in hosts {
            verify(&pool, host).expect("every block is there");
        }
    }
}

/// What chunks hold cannot be read for a while: they are emptied afterwards, without a start in between.
#[test]
fn a_chunk_that_cannot_be_read_now_is_emptied_later() {
    for seed in 1..=4 {
        let pool = Pool::new(seed, 1, 1 + (seed % 2) as u8);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        host = pool.executor.block_on(async move {
            host.run(300).await;
            host
        });
        pool.fast.late_heads.set(true);
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let running = world.run(async move {
            host.run(400).await;
            host
        });
        for _ in 0..60_000 {
            pool.executor.turn();
        }
        let counters = engine.counters();
        assert!(counters.get("chunks_deferred") > Some(&0), "seed {seed}");
        pool.fast.late_heads.set(false);
        let host = pool.executor.block_on(running);
        pool.executor.drain();
        assert_eq!(engine.counters().get("chunks_stuck"), None, "seed {seed}");
        verify(&pool, host).expect("every block is there");
    }
}

/// The dense tier does not answer for a while: reads of what lies there fail, and nothing is said to be
/// lost. The same reads succeed when it is back.
#[test]
fn reads_of_a_tier_that_is_away_may_be_tried_again() {
    for seed in 1..=4 {
        let pool = Pool::new(seed, 1, 1 + (seed % 2) as u8);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let mut other = pool.host(&engine, 2);
        let host = pool.executor.block_on(async move {
            host.run(300).await;
            other.run(300).await;
            host
        });
        pool.executor.drain();
        pool.dense.gone.set(true);
        let (inner, volume) = (Rc::clone(&engine), host.volume);
        let read = async move {
            let (mut good, mut away) = (0, 0);
            for lba in 0..VOLUME_BLOCKS {
                match inner.read(volume, Lba(lba), Blocks::zeroed(1)).await {
                    Ok(_) => good += 1,
                    Err(EngineError::Io(IoError::Gone)) => away += 1,
                    Err(error) => panic!("seed {seed} at {lba}: {error}"),
                }
            }
            let all = inner.read(volume, Lba(0), Blocks::zeroed(600)).await;
            (good, away, all.err())
        };
        let (good, away, all) = pool.executor.block_on(read);
        assert!(good > 0 && away > 0, "seed {seed}: {good} and {away}");
        assert_eq!(all, Some(EngineError::Io(IoError::Gone)), "seed {seed}");
        pool.dense.gone.set(false);
        let host = verify(&pool, host).expect("every block is there");
        drop(host);
        assert_eq!(engine.counters().get("blocks_lost"), None, "seed {seed}");
    }
}

/// How the dense tier takes nothing, and what hosts hear of it.
struct Trouble {
    set: fn(&Pool, bool),
    error: EngineError,
    counter: &'static str,
    /// What was written can be read meanwhile.
    reads: bool,
}

const TROUBLES: [Trouble; 3] = [
    Trouble {
        set: |pool, is_on| pool.dense.no_space.set(is_on),
        error: EngineError::Io(IoError::NoSpace),
        counter: "no_space_refusals",
        reads: true,
    },
    Trouble {
        set: |pool, is_on| pool.dense.read_only.set(is_on),
        error: EngineError::DenseAway,
        counter: "away_refusals",
        reads: true,
    },
    Trouble {
        set: |pool, is_on| pool.dense.gone.set(is_on),
        error: EngineError::DenseAway,
        counter: "away_refusals",
        reads: false,
    },
];

/// One host after the dense tier takes nothing any more: it writes until it is refused, asks
/// again and again, deallocates as often, reads everything that can be read.
async fn without_dense(mut host: Host, seed: u64, trouble: &Trouble) -> Host {
    let refused = |done: &Result<(), EngineError>| match done {
        Ok(()) => false,
        Err(error) if *error == trouble.error => true,
        Err(error) => panic!("seed {seed}: {error}"),
    };
    let mut step = 0;
    while !refused(&host.try_write(step * 11 % 1000, 4).await) {
        step += 1;
        assert!(step < 4000, "seed {seed}: the log is not that large");
    }
    // Of several records and leaves: what was set aside for the rest is given back.
    assert!(refused(&host.try_write(400, 150).await), "seed {seed}");
    let mut holes = 0;
    for step in 0..3000 {
        let lba = step % 2 * 512 + step % 500;
        holes += u32::from(!refused(&host.try_discard(lba, 1).await));
        let again = host.try_write(lba, 1).await;
        assert!(refused(&again), "seed {seed}: no chunk can be emptied");
    }
    assert!(holes > 0, "seed {seed}: deallocations find room for longer");
    if trouble.reads {
        host.verify().await.expect("every block is there");
    }
    host
}

/// The dense tier takes nothing, for want of room beneath it or because it is away: hosts get an error instead of
/// waiting for it, reads go on where it can be read, and when it is back so do writes.
#[test]
fn a_tier_that_takes_nothing_is_an_error_until_it_is_back() {
    for (seed, trouble) in (1..=6).flat_map(|seed| TROUBLES.iter().map(move |one| (seed, one))) {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let hosts = [1, 2].map(|number| pool.host(&engine, number));
        let hosts = hosts.map(|mut host| {
            pool.executor.block_on(async move {
                host.run(300).await;
                host
            })
        });
        (trouble.set)(&pool, true);
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let hosts = hosts.map(|host| world.run(without_dense(host, seed, trouble)));
        let hosts = hosts.map(|host| pool.executor.block_on(host));
        let counters = engine.counters();
        assert!(counters[trouble.counter] > 0, "seed {seed}");
        assert_eq!(counters.get("units_retired"), None, "seed {seed}");
        assert_eq!(engine.waits()["dense_short"], 1, "seed {seed}");
        let outage = engine.dense_outage().expect("it is told");
        assert!(outage.refuses_hosts && outage.holds_hosts, "seed {seed}");
        (trouble.set)(&pool, false);
        let hosts = hosts.map(|mut host| {
            let world = Rc::clone(&world);
            pool.executor.block_on(async move {
                // The next attempt comes by itself.
                while host.try_write(0, 1).await.is_err() {
                    world.sleep(Nanos::from_millis(100)).await;
                }
                host.run(300).await;
                host
            })
        });
        pool.executor.drain();
        let waits = engine.waits();
        for name in ["dense_short", "pending_blocks", "pending_leaves"] {
            assert_eq!(waits[name], 0, "seed {seed}: {name}");
        }
        assert_eq!(engine.dense_outage(), None, "seed {seed}");
        assert_eq!(engine.counters().get("blocks_lost"), None, "seed {seed}");
        assert_eq!(engine.stop_reason(), None, "seed {seed}");
        for host in hosts {
            verify(&pool, host).expect("every block is there");
        }
    }
}

/// The tier takes all that is written and gives nothing back: garbage collection frees no group, compaction waits for one,
/// and no stripe is ever refused. Hosts hear of it all the same.
#[test]
fn a_tier_that_cannot_be_read_is_away_once_it_is_full() {
    let mut refused = 0;
    for seed in 1..=40 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let begun = |mut host: Host, count| {
            world.run(async move {
                host.run(count).await;
                host
            })
        };
        let running = [1, 2].map(|number| begun(pool.host(&engine, number), 600));
        let waits = |name| engine.waits()[name];
        pool.executor.turns(5_000, || false);
        pool.dense.away.set(Some(0));
        let turned = (0..400_000).any(|_| {
            pool.executor.turn();
            waits("dense_short") > 0
        });
        let counters = engine.counters();
        assert_eq!(counters.get("stripe_write_errors"), None, "seed {seed}");
        refused += u32::from(turned);
        pool.dense.away.set(None);
        let hosts = running.map(|host| pool.executor.block_on(host));
        pool.executor.drain();
        assert_eq!(waits("dense_short"), 0, "seed {seed}");
        assert_eq!(engine.counters().get("blocks_lost"), None, "seed {seed}");
        for host in hosts {
            verify(&pool, host).expect("every block is there");
        }
    }
    assert!(refused > 30, "{refused} seeds");
}

/// The first write of a chunk misses one of two copies, where the header of an earlier use by the
/// busier lane stays: a start believes the later one, whatever lanes they are of.
#[test]
fn a_header_of_a_busier_lane_hides_none_that_is_younger() {
    for seed in 1..=24_u64 {
        let mut pool = Pool::new(seed, 1, 2);
        pool.geometry.lba_bytes = 4096;
        pool.config.checkpoint_records = 2000;
        pool.config.checkpoint_bytes = 12 << 20;
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let fast = Rc::clone(&pool.fast);
        let host = pool.executor.block_on(async move {
            for step in 0..3000_u64 {
                // One leaf takes nearly all, so one lane does.
                let lba = if step % 16 == 0 {
                    512 + step % 500
                } else {
                    step % 512
                };
                host.write(lba, 1).await;
            }
            fast.lose_start_in.set(Some(seed as u32 % 4));
            while fast.lose_start_in.get().is_some() {
                let lba = host.written() * 7 % VOLUME_BLOCKS;
                host.write(lba, 1).await;
            }
            for step in 0..4 {
                host.write(step * 300, 1).await;
            }
            host
        });
        pool.executor.crash();
        drop(engine);
        let engine = pool.open(2);
        verify(&pool, host.moved_to(&engine)).expect("every block is there");
    }
}

/// A pool of two copies whose last write was one batch of 16 blocks, and where that lies.
fn after_one_batch(seed: u64) -> (Pool, Host, std::ops::Range<u64>) {
    let mut pool = Pool::new(seed, 1, 2);
    pool.config.checkpoint_records = 2000;
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    host = pool.executor.block_on(async move {
        host.run(100).await;
        host
    });
    pool.executor.drain();
    host = pool.executor.block_on(async move {
        host.write(0, 16).await;
        host
    });
    let batch = pool.fast.last_write.borrow().clone();
    pool.executor.crash();
    (pool, host, batch)
}

/// One block of the last batch cannot be read from one copy, another one not from the other: each
/// block is on a copy, so the batch is there.
#[test]
fn a_batch_is_put_together_from_both_copies() {
    for seed in 1..=8 {
        let (pool, host, batch) = after_one_batch(seed);
        let data = batch.end - 16 * 4096;
        for (copy, block) in [(0, 3), (1, 10)] {
            let at = data + block * 4096;
            pool.fast.bad_on.borrow_mut().push((copy, at..at + 4096));
        }
        let (engine, report) = pool.try_open(2).expect("a pool that was used");
        assert_eq!(report.damage, [], "seed {seed}");
        verify(&pool, host.moved_to(&engine)).expect("every block is there");
    }
}

/// The header of the last batch cannot be read from any copy: whether it was acknowledged nobody
/// can know, so the start says where the log became unreadable.
#[test]
fn an_unreadable_end_of_the_log_is_reported() {
    for seed in 1..=8 {
        let (pool, _, batch) = after_one_batch(seed);
        // A chunk's first write begins with the chunk's header, twice.
        let is_first = batch.start.is_multiple_of(1 << 20);
        let at = batch.start + if is_first { 8192 } else { 0 };
        for copy in 0..2 {
            pool.fast.bad_on.borrow_mut().push((copy, at..at + 512));
        }
        let (_, report) = pool.try_open(2).expect("a pool that was used");
        assert_eq!(report.damage.len(), 1, "seed {seed}: {report:?}");
    }
}

/// A data block of the last batch cannot be read from any copy.
#[test]
fn an_unreadable_payload_at_the_end_of_the_log_is_reported() {
    for seed in 1..=8 {
        let (pool, _, batch) = after_one_batch(seed);
        for copy in 0..2 {
            let bad = batch.end - 4096..batch.end;
            pool.fast.bad_on.borrow_mut().push((copy, bad));
        }
        let (_, report) = pool.try_open(2).expect("a pool that was used");
        assert_eq!(report.damage.len(), 1, "seed {seed}: {report:?}");
    }
}

/// One member comes back while a read is on its way, another leaves before it ends: each way was out
/// of use when it was asked, and at no time were all.
#[test]
fn a_way_that_was_gone_is_asked_again() {
    let pool = Pool::new(1, 1, 2);
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        host.write(0, 1).await;
        host
    });
    pool.executor.drain();
    // Alone, in its run, and last of all.
    *pool.fast.gone_reads.borrow_mut() = vec![3, 1];
    let inner = Rc::clone(&engine);
    let read = async move { inner.read(host.volume, Lba(0), Blocks::zeroed(1)).await };
    let block = pool.executor.block_on(read).expect("no block is lost");
    assert_eq!(first_word(&block), host.expected(0));
    assert_eq!(
        *pool.fast.gone_reads.borrow(),
        [0, 0],
        "all ways were tried"
    );
    assert_eq!(engine.counters().get("blocks_lost"), None);
}

/// The same while groups are collected, where a block would be written off for good: of two copies
/// one cannot be read, the other is out of use for a moment.
#[test]
fn what_was_gone_for_a_moment_is_not_written_off() {
    let pool = Pool::new(3, 1, 2);
    let engine = pool.create();
    let hosts = [1, 2].map(|number| pool.host(&engine, number));
    let dense = Rc::clone(&pool.dense);
    dense.bad_on.borrow_mut().push((1, 0..16 << 20));
    let hosts = pool.executor.block_on(async move {
        let [mut one, mut other] = hosts;
        for lba in (0..960).step_by(20) {
            one.write(lba, 20).await;
            other.write(lba, 20).await;
        }
        for step in 0..20_000_u64 {
            // Seldom enough that no read meets three of them: it would be misled.
            dense.gone_reads.borrow_mut()[0] = 2 * u32::from(step % 3 == 0);
            let mixed = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            let host = if step % 2 == 0 { &mut one } else { &mut other };
            host.write(mixed % 960, 1).await;
        }
        dense.gone_reads.borrow_mut()[0] = 0;
        [one, other]
    });
    pool.executor.drain();
    let counters = engine.counters();
    assert!(counters["gc_blocks"] > 100, "{counters:?}");
    assert!(counters["clean_repairs"] > 0, "{counters:?}");
    assert_eq!(counters.get("blocks_lost"), None, "{counters:?}");
    for host in hosts {
        verify(&pool, host).expect("no block is lost");
    }
}

/// One copy is away for long, as a drive whose cable was pulled, and of the other one some blocks are wrong: these stay where
/// they are, what is in other groups is collected all the same, and when the copy is back nothing is lost.
#[test]
fn what_a_copy_that_is_away_may_hold_is_kept() {
    let (mut failures, mut kept, mut since) = (0, 0, 0);
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1, 2);
        let engine = pool.create();
        let hosts = [1, 2].map(|number| pool.host(&engine, number));
        let dense = Rc::clone(&pool.dense);
        for group in [2, 5, 7] {
            let start = (group << 20) + 20 * 4096;
            dense.bad_on.borrow_mut().push((1, start..start + 4 * 4096));
        }
        let counted = |name| engine.counters().get(name).copied().unwrap_or(0);
        let run = |hosts: [Host; 2], from: u64, steps: u64| {
            pool.executor.block_on(async move {
                let [mut one, mut other] = hosts;
                for step in from..from + steps {
                    let mixed = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                    let host = if step % 2 == 0 { &mut one } else { &mut other };
                    host.write(mixed % 860, 1).await;
                }
                [one, other]
            })
        };
        let hosts = pool.executor.block_on(async move {
            let [mut one, mut other] = hosts;
            for lba in (0..860).step_by(20) {
                one.write(lba, 20).await;
                other.write(lba, 20).await;
            }
            [one, other]
        });
        dense.away.set(Some(0));
        let hosts = run(hosts, 0, 6000);
        let collected = counted("groups_collected");
        let hosts = run(hosts, 6000, 2000);
        assert_eq!(counted("blocks_lost"), 0, "seed {seed}");
        failures += counted("gc_failures");
        since += counted("groups_collected") - collected;
        let inner = Rc::clone(&engine);
        let volumes = hosts.each_ref().map(|host| host.volume);
        let read = async move {
            let mut away = 0;
            for volume in volumes {
                for lba in 0..VOLUME_BLOCKS {
                    match inner.read(volume, Lba(lba), Blocks::zeroed(1)).await {
                        Ok(_) => {}
                        Err(EngineError::Io(IoError::Gone)) => away += 1,
                        Err(error) => panic!("seed {seed} at {lba}: {error}"),
                    }
                }
            }
            away
        };
        kept += pool.executor.block_on(read);
        dense.away.set(None);
        for host in run(hosts, 8000, 2000) {
            verify(&pool, host).expect("no block is lost");
        }
        assert_eq!(counted("blocks_lost"), 0, "seed {seed}");
    }
    assert!(
        failures > 0 && kept > 0 && since > 6,
        "{failures} victims stayed, {kept} blocks with them, {since} others went"
    );
}

/// The drives held another pool before, and the dense tier loses writes on one copy: what is left
/// there of the other pool's P2L is intact, and of the same stripe, group and generation.
#[test]
fn what_an_older_pool_left_is_not_believed() {
    let mut pool = Pool::new(5, 1, 2);
    pool.id = *b"an older pool of";
    let engine = pool.create();
    let hosts = [1, 2].map(|number| pool.host(&engine, number));
    pool.executor.block_on(async move {
        let [mut one, mut other] = hosts;
        for step in (0..64).rev() {
            one.write(step * 20 % 860, 20).await;
            other.write(step * 20 % 860, 20).await;
        }
    });
    pool.executor.crash();
    drop(engine);
    pool.id = [7; 16];
    let engine = pool.create();
    let hosts = [1, 2].map(|number| pool.host(&engine, number));
    let dense = Rc::clone(&pool.dense);
    let hosts = pool.executor.block_on(async move {
        let [mut one, mut other] = hosts;
        for lba in (0..860).step_by(20) {
            dense.lose_in.set(Some(0));
            one.write(lba, 20).await;
            other.write(lba, 20).await;
        }
        for step in 0..5000_u64 {
            dense.lose_in.set(Some(0));
            let mixed = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            one.write(mixed % 860, 1).await;
        }
        [one, other]
    });
    pool.executor.drain();
    let counters = engine.counters();
    assert!(counters["groups_collected"] > 3, "{counters:?}");
    for host in hosts {
        verify(&pool, host).expect("no block is lost");
    }
}
