//! The scrub on a drive with copies: what it finds, what it mends, what it leaves alone.

use crate::common::{Executor, Host, Pool};
use std::cell::Cell;
use std::rc::Rc;
use varve_ftl::{AuditNews, BadCopy, Beneath, Engine, ScrubProgress, ScrubReport, Tier};
use varve_io::{Blocks, Flow, IoError, World};
use varve_units::Nanos;

/// Copies beneath both tiers, no parity.
struct Copies(u8);

impl Beneath for Copies {
    fn ways(&self, _: Tier) -> u8 {
        self.0
    }

    fn is_whole(&self, _: Tier) -> bool {
        true
    }

    fn parity_bytes(&self) -> u64 {
        0
    }

    fn wrong_parity<'a>(
        &'a self,
        _: u64,
        _: &'a Blocks,
        _: &'a [bool],
    ) -> Flow<'a, Result<Vec<u64>, IoError>> {
        unreachable!("there is no parity")
    }

    fn mend_parity<'a>(
        &'a self,
        _: u64,
        _: &'a Blocks,
        _: &'a [u64],
    ) -> Flow<'a, Result<(), IoError>> {
        unreachable!("there is no parity")
    }
}

async fn scrub(engine: &Engine, copies: u8, limit: Option<u64>) -> ScrubReport {
    let (beneath, mut last) = (Copies(copies), 0);
    let mut watch = |progress: ScrubProgress| {
        assert!(last <= progress.done && progress.done <= progress.total);
        last = progress.done;
        true
    };
    let report = engine.scrub(&beneath, limit, &mut watch).await;
    report.expect("the engine goes on")
}

fn scrub_now(pool: &Pool, engine: &Rc<Engine>, copies: u8) -> ScrubReport {
    let engine = Rc::clone(engine);
    pool.executor
        .block_on(async move { scrub(&engine, copies, None).await })
}

/// A pool with `copies` in which two hosts have worked, at rest.
fn worked(seed: u64, p2l_copies: u32, copies: u8) -> (Pool, Rc<Engine>, Vec<Host>) {
    let pool = Pool::new(seed, p2l_copies, copies);
    let engine = pool.create();
    let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
    let hosts = (1..=2).map(|number| {
        let mut host = pool.host(&engine, number);
        world.run(async move {
            host.run(600).await;
            host
        })
    });
    let hosts: Vec<_> = hosts.collect();
    let hosts = hosts.into_iter().map(|host| pool.executor.block_on(host));
    let hosts = hosts.collect();
    pool.executor.drain();
    (pool, engine, hosts)
}

fn bad_copies(pool: &Pool, engine: &Rc<Engine>) -> Vec<BadCopy> {
    let engine = Rc::clone(engine);
    pool.executor.block_on(async move {
        let (mut found, mut steps) = (Vec::new(), Vec::new());
        let mut note = |news| match news {
            AuditNews::Bad(bad) => found.push(bad),
            AuditNews::Step(step) => steps.push(step),
        };
        let audited = engine.audit_all_copies(&mut note).await;
        audited.expect("another copy has all that is wrong");
        // Each part from its beginning, in order, and never as a whole before it ended.
        for part in steps.chunk_by(|one, next| one.of == next.of) {
            assert_eq!(part[0].done, 0, "{part:?}");
            assert!(part.is_sorted_by_key(|step| step.done), "{part:?}");
            assert!(part.iter().all(|step| step.done < step.all), "{part:?}");
        }
        let parts: Vec<_> = steps.chunk_by(|one, next| one.of == next.of).collect();
        assert!(parts.len() >= 5, "{parts:?}");
        found
    })
}

/// Spoils a copy of every block in so many.
fn rot(pool: &Pool, every: usize) {
    for (drive, bytes) in [(&pool.fast, 18_u64 << 20), (&pool.dense, 13 << 20)] {
        // Never two copies of one block.
        for (index, at) in (0..bytes).step_by(4096).enumerate() {
            if index % every == 0 {
                drive.flip((index / every % 2) as u8, at + 1000);
            }
        }
    }
}

async fn verified(hosts: Vec<Host>) {
    for host in hosts {
        host.verify().await.expect("no block is lost");
    }
}

/// Every kind of wrong copy in both tiers, on drives of both sector sizes: one scrub mends all of them, the next finds
/// nothing, and the audit of all copies agrees.
#[test]
fn what_is_wrong_on_one_copy_is_mended() {
    for seed in 1..=4 {
        let (pool, engine, hosts) = worked(seed, 1 + (seed % 2) as u32, 2);
        let first = scrub_now(&pool, &engine, 2);
        assert!(first.is_whole && first.is_clean(), "seed {seed}: {first:?}");
        assert_eq!(first.repairs, 0, "seed {seed}");
        assert!(first.blocks > 500 && first.records > 10, "{first:?}");
        assert!(first.bytes >= first.blocks * 2 * 4096, "{first:?}");
        rot(&pool, 3);
        let bad = bad_copies(&pool, &engine);
        assert!(bad.len() > 100, "seed {seed}: {}", bad.len());
        let second = scrub_now(&pool, &engine, 2);
        assert!(second.is_clean(), "seed {seed}: {second:?}");
        assert!(
            second.repairs >= bad.len() as u64,
            "seed {seed}: {second:?}"
        );
        assert_eq!(bad_copies(&pool, &engine), [], "seed {seed}");
        let third = scrub_now(&pool, &engine, 2);
        assert_eq!(third.repairs, 0, "seed {seed}: {third:?}");
        let counters = engine.counters();
        assert_eq!(counters["scrubs"], 3);
        assert_eq!(counters["scrub_repairs"], second.repairs);
        pool.executor.block_on(verified(hosts));
    }
}

/// A block that no copy has is told by volume and block, once, and stays as it is; nothing else is lost with it.
#[test]
fn what_no_copy_has_is_named() {
    for copies in [1, 2] {
        let (pool, engine, hosts) = worked(9, 2, copies);
        // Some of them live, some do not; P2L areas, at both ends of a stripe, stay.
        let is_data = |block: &u64| (1..63).contains(&(block % 64));
        let spoilt: Vec<u64> = (0..13 * 256).step_by(7).filter(is_data).collect();
        for block in &spoilt {
            for copy in 0..copies {
                pool.dense.flip(copy, block * 4096 + 5);
            }
        }
        let report = scrub_now(&pool, &engine, copies);
        assert!(!report.is_clean() && report.lost_blocks > 0, "{report:?}");
        assert!(report.lost_blocks < spoilt.len() as u64, "{report:?}");
        assert_eq!((report.failures, report.unknown), (0, 0), "{report:?}");
        let named: u64 = report.lost.iter().map(|lost| lost.blocks).sum();
        assert_eq!(named, report.lost_blocks);
        let again = scrub_now(&pool, &engine, copies);
        assert_eq!(again.lost, report.lost, "nothing was declared lost");
        let losses = report.lost.clone();
        pool.executor.block_on(async move {
            let mut failed = 0;
            for host in &hosts {
                for lba in 0..crate::common::VOLUME_BLOCKS {
                    let into = Blocks::zeroed(1);
                    let lba = varve_units::Lba(lba);
                    let read = host.engine.read(host.volume, lba, into).await;
                    let is_named = losses.iter().any(|lost| {
                        lost.volume == host.volume
                            && lost.lba <= lba
                            && lba.0 < lost.lba.0 + lost.blocks
                    });
                    assert_eq!(read.is_err(), is_named, "{lba}");
                    failed += u64::from(read.is_err());
                }
            }
            assert_eq!(failed, report.lost_blocks);
        });
    }
}

/// Hosts overwrite what it reads, chunks and groups are emptied and used again beneath it: nothing that they write is lost
/// and nothing old comes back, on any copy.
#[test]
fn a_scrub_in_a_busy_pool_spoils_nothing() {
    for seed in 1..=4 {
        let (pool, engine, hosts) = worked(seed, 1, 2);
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let is_done = Rc::new(Cell::new(false));
        let (over, inner) = (Rc::clone(&is_done), Rc::clone(&engine));
        let scrubs = world.run(async move {
            let mut count = 0;
            while !over.get() {
                let report = scrub(&inner, 2, None).await;
                assert!(report.is_clean(), "{report:?}");
                count += 1;
            }
            count
        });
        let running: Vec<_> = hosts
            .into_iter()
            .map(|mut host| {
                world.run(async move {
                    host.run(600).await;
                    host
                })
            })
            .collect();
        let each = running.into_iter().enumerate().map(|(round, host)| {
            // What rots meanwhile is mended, by whoever meets it.
            if round == 0 {
                rot(&pool, 40);
            }
            pool.executor.block_on(host)
        });
        let hosts: Vec<_> = each.collect();
        is_done.set(true);
        assert!(pool.executor.block_on(scrubs) > 0);
        pool.executor.drain();
        let last = scrub_now(&pool, &engine, 2);
        assert!(last.is_clean(), "seed {seed}: {last:?}");
        assert_eq!(bad_copies(&pool, &engine), [], "seed {seed}");
        pool.executor.block_on(verified(hosts));
    }
}

/// It reads no faster than it may, and ends when it is told to.
#[test]
fn a_scrub_keeps_to_its_limit_and_can_be_ended() {
    let (pool, engine, _hosts) = worked(3, 1, 2);
    let executor: Rc<Executor> = Rc::clone(&pool.executor);
    let before = executor.now();
    let inner = Rc::clone(&engine);
    let report = pool
        .executor
        .block_on(async move { scrub(&inner, 2, Some(1 << 20)).await });
    let takes = executor.now().since(before);
    let least = report.bytes * 1_000_000_000 / (1 << 20) * 9 / 10;
    assert!(
        takes >= Nanos(least),
        "{takes:?} for {} bytes",
        report.bytes
    );
    let inner = Rc::clone(&engine);
    let early = pool.executor.block_on(async move {
        let mut watch = |progress: ScrubProgress| progress.done < progress.total / 2;
        let report = inner.scrub(&Copies(2), None, &mut watch).await;
        report.expect("the engine goes on")
    });
    assert!(!early.is_whole && early.blocks < report.blocks, "{early:?}");
    assert_eq!(engine.counters()["scrubs"], 1, "one of them was whole");
}
