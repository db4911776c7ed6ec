//! Pools at their limits: nothing waits for ever, nothing overruns what is exported.

mod common;

use common::{Host, Pool};
use std::rc::Rc;
use varve_ftl as ftl;
use varve_io::{Blocks, World};
use varve_units::Lba;

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
