//! The engine at work, audited whenever it comes to rest.

mod common;

use common::{Host, Pool};
use std::rc::Rc;
use varve_ftl as ftl;
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

/// Two hosts overwrite their volumes many times: chunks are cleaned, groups filled and collected.
#[test]
fn a_busy_pool_passes() {
    for seed in 1..=6 {
        let pool = Pool::new(seed, 1 + (seed % 2) as u32, 1 + (seed % 2) as u8);
        let engine = pool.create();
        let mut hosts: Vec<_> = (1..=2).map(|number| pool.host(&engine, number)).collect();
        for round in 0..6 {
            hosts = work(&pool, hosts, 150);
            if round % 2 == 0 {
                pool.executor.drain();
            }
            let report = audit(&pool, &engine);
            let mapped: u64 = hosts.iter().map(Host::mapped).sum();
            assert_eq!(report.mapped, mapped, "seed {seed}");
        }
        let counters = engine.counters();
        eprintln!("{seed}: {counters:?}");
        assert!(counters["chunks_cleaned"] > 20 && counters["groups_collected"] > 2);
        for host in hosts {
            let verified = pool.executor.block_on(async move { host.verify().await });
            verified.expect("no block is lost");
        }
    }
}
