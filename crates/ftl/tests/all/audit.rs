//! The engine at work, audited whenever it comes to rest.

use crate::common::{Host, Pool};
use std::rc::Rc;
use varve_ftl::{AuditReport, Engine};
use varve_io::World;

fn audit(pool: &Pool, engine: &Rc<Engine>) -> AuditReport {
    let engine = Rc::clone(engine);
    let done = pool.executor.block_on(async move { engine.audit().await });
    done.unwrap_or_else(|error| panic!("{error}"))
}

/// Lets hosts run side by side until all have done `count` operations.
fn work(pool: &Pool, hosts: Vec<Host>, count: usize) -> Vec<Host> {
    let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
    let running: Vec<_> = hosts
        .into_iter()
        .map(|mut host| {
            world.run(async move {
                host.run(count).await;
                host
            })
        })
        .collect();
    let mut done = Vec::new();
    for host in running {
        done.push(pool.executor.block_on(host));
    }
    done
}

/// Every host finds what it wrote.
fn verify(pool: &Pool, hosts: Vec<Host>) -> Vec<Host> {
    let each = hosts.into_iter().map(|host| async move {
        let verified = host.verify().await;
        verified.expect("no block is lost");
        host
    });
    each.map(|flow| pool.executor.block_on(flow)).collect()
}

/// Two hosts overwrite their volumes many times: chunks are cleaned, groups filled and collected.
#[test]
fn a_busy_pool_passes() {
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1 + (seed % 2) as u32, 1 + (seed % 2) as u8);
        let engine = pool.create();
        let mut hosts: Vec<_> = (1..=2).map(|number| pool.host(&engine, number)).collect();
        for round in 0..6 {
            hosts = work(&pool, hosts, 300);
            if round % 2 == 0 {
                pool.executor.drain();
            }
            let report = audit(&pool, &engine);
            let mapped: u64 = hosts.iter().map(Host::mapped).sum();
            assert_eq!(report.mapped, mapped, "seed {seed}");
        }
        let counters = engine.counters();
        assert!(counters["chunks_cleaned"] > 20 && counters["groups_collected"] > 2);
        verify(&pool, hosts);
    }
}

/// Compaction and garbage collection write the same groups where drives have one handle, of which none is
/// lost when the next start finds drives with another number of them.
#[test]
fn writers_that_share_groups_pass() {
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1, 1);
        let mut engine = pool.create();
        let mut hosts: Vec<_> = (1..=2).map(|number| pool.host(&engine, number)).collect();
        let mut joined = 0;
        for epoch in 2..14 {
            hosts = work(&pool, hosts, 200);
            let is_shared = pool.dense.handles.get() == 1;
            let stripes = engine.counters().get("stripes_joined").copied();
            assert!(is_shared || stripes.is_none(), "each has its own");
            joined += stripes.unwrap_or(0);
            pool.executor.crash();
            drop(engine);
            // Three starts in four find drives without placement.
            pool.dense.handles.set(if epoch % 4 == 0 { 4 } else { 1 });
            engine = pool.open(epoch);
            hosts = hosts
                .into_iter()
                .map(|host| host.moved_to(&engine))
                .collect();
            let report = audit(&pool, &engine);
            let mapped: u64 = hosts.iter().map(Host::mapped).sum();
            assert_eq!(report.mapped, mapped, "seed {seed} at {epoch}");
            hosts = verify(&pool, hosts);
        }
        assert!(joined > 5, "seed {seed}: {joined}");
    }
}

/// The audit runs while hosts, cleaner, garbage collection and checkpoints run: what it finds
/// changed under it is not wrong.
#[test]
fn an_audit_beside_work_finds_nothing() {
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let hosts: Vec<_> = (1..=2).map(|number| pool.host(&engine, number)).collect();
        let hosts = work(&pool, hosts, 300);
        let inner = Rc::clone(&engine);
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let audits = world.run(async move {
            let mut moved = 0;
            for _ in 0..20 {
                match inner.audit().await {
                    Ok(report) => moved += report.moved,
                    Err(error) => panic!("{error}"),
                }
            }
            moved
        });
        work(&pool, hosts, 200);
        pool.executor.block_on(audits);
    }
}

/// Volumes come and go; what is deleted leaves no leaf, no place, and in the end no live bit.
#[test]
fn deleted_volumes_leave_nothing() {
    let pool = Pool::new(11, 2, 1);
    let engine = pool.create();
    for number in 1..=4 {
        let hosts = vec![pool.host(&engine, number)];
        let host = work(&pool, hosts, 200).remove(0);
        let inner = Rc::clone(&engine);
        let deleted = async move { inner.delete_volume(host.volume).await };
        pool.executor.block_on(deleted).expect("a volume to delete");
        audit(&pool, &engine);
        pool.executor.drain();
        let report = audit(&pool, &engine);
        assert_eq!((report.leaves, report.mapped), (0, 0));
        assert_eq!((report.phantoms, report.used_upper), (0, 0));
    }
}

/// The power fails with records in flight; what the next start makes of the drives passes, and
/// so does what it does afterwards.
#[test]
fn a_pool_started_again_passes() {
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1, 1);
        let mut engine = pool.create();
        let mut hosts: Vec<_> = (1..=2).map(|number| pool.host(&engine, number)).collect();
        for epoch in 2..8 {
            hosts = work(&pool, hosts, 120);
            pool.executor.crash();
            drop(engine);
            engine = pool.open(epoch);
            hosts = hosts.into_iter().map(|h| h.moved_to(&engine)).collect();
            let report = audit(&pool, &engine);
            let mapped: u64 = hosts.iter().map(Host::mapped).sum();
            assert_eq!(report.mapped, mapped, "seed {seed}, epoch {epoch}");
            hosts = verify(&pool, hosts);
        }
    }
}

/// A write of the log fails: its batches go to another chunk, and everything still agrees.
#[test]
fn a_rerouted_batch_passes() {
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let mut hosts: Vec<_> = (1..=2).map(|number| pool.host(&engine, number)).collect();
        for _ in 0..5 {
            pool.fast.writes_left.set(Some(40));
            hosts = work(&pool, hosts, 60);
            audit(&pool, &engine);
            hosts = verify(&pool, hosts);
        }
        assert!(engine.counters()["log_write_errors"] > 0);
    }
}

/// Copy 0 of the dense tier is spoilt all over: the other copy serves.
#[test]
fn another_copy_serves() {
    let pool = Pool::new(5, 1, 2);
    let engine = pool.create();
    work(&pool, vec![pool.host(&engine, 1)], 400);
    pool.executor.drain();
    for block in 0..pool.geometry.dense_blocks() {
        pool.dense.flip(0, block * 4096 + 100);
    }
    let report = audit(&pool, &engine);
    assert!(report.dense > 0);
    assert_eq!(report.served_by_another(), report.dense);
    assert_eq!(pool.dense.repairs.get(), 0, "an audit repairs nothing");
}
