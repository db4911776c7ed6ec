//! Blocks that stay in the log because hosts overwrite them soon.

use crate::common::Pool;
use std::collections::BTreeMap;

/// Blocks that hosts write, in all.
const WRITES: u64 = 90_000;
/// Of each of two volumes.
const BLOCKS: u64 = 800;

/// Counters of a pool of which so many of a hundred writes go to the first `hot` blocks of a volume, the others anywhere; all
/// of it is there afterwards, also after a crash.
fn counters(seed: u64, images: usize, (per_cent, hot): (u64, u64)) -> BTreeMap<&'static str, u64> {
    let mut pool = Pool::new(seed, 2, 1);
    pool.config.map.images = images;
    let engine = pool.create();
    let mut hosts = [1, 2].map(|number| pool.host(&engine, number));
    let mut state = seed;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 33) % below
    };
    hosts = pool.executor.block_on(async move {
        for _ in 0..WRITES {
            let (volume, lba) = match draw(100) < per_cent {
                true => (0, draw(hot) * 31 % BLOCKS),
                false => (draw(2), draw(BLOCKS)),
            };
            hosts[volume as usize].write(lba, 1).await;
        }
        hosts
    });
    let counters = engine.counters();
    drop(engine);
    pool.executor.crash();
    let engine = pool.open(2);
    for host in hosts {
        let host = host.moved_to(&engine);
        let verified = pool.executor.block_on(async move { host.verify().await });
        verified.expect("every block is there after a crash");
    }
    counters
}

/// Blocks that stayed, of a hundred that were compacted.
fn staying(counters: &BTreeMap<&'static str, u64>) -> u64 {
    counters["retained_blocks"] * 100 / counters["compacted_blocks"]
}

/// Whether leaves are at hand when their blocks are written or not.
#[test]
fn what_is_overwritten_soon_stays_in_the_log() {
    for (seed, images) in [(1, 2), (2, 64), (3, 2)] {
        let skewed = staying(&counters(seed, images, (70, 500)));
        let uniform = staying(&counters(seed, images, (0, 1)));
        println!("seed {seed}: {skewed} and {uniform} of a hundred");
        assert!(skewed > 25 && (1..15).contains(&uniform), "seed {seed}");
    }
}
