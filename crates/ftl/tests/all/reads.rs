//! How many commands reads take, and how many of them beside one another.

use crate::common::{Host, Pool, first_word};
use std::rc::Rc;
use varve_ftl::Engine;
use varve_io::Blocks;
use varve_units::{BLOCK, Lba};

/// Where the last write of a test goes.
const LAST: Lba = Lba(64);

fn read_back(pool: &Pool, host: Host) {
    let verified = pool.executor.block_on(async move { host.verify().await });
    verified.expect("every block is there");
}

/// Reads of data that one read of the last write's blocks takes: they lie behind one another in the log.
fn run_reads(pool: &Pool, engine: &Rc<Engine>, host: &Host) -> usize {
    let before = pool.fast.data_reads.begun.get();
    let (engine, volume) = (Rc::clone(engine), host.volume);
    let read = async move { engine.read(volume, LAST, Blocks::zeroed(16)).await };
    let blocks = pool.executor.block_on(read).expect("every block is there");
    assert_eq!(first_word(&blocks), host.expected(LAST.0));
    pool.fast.data_reads.begun.get() - before
}

/// Blocks that were written in another order than they are read in are read beside one another; those that
/// fail their check are read from the other copy, wherever they are among them.
#[test]
fn scattered_blocks_are_read_beside_one_another() {
    const COUNT: u64 = 100;
    for seed in 1..=4 {
        let pool = Pool::new(seed, 1, 2);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let fast = Rc::clone(&pool.fast);
        let spoilt = [0, 31, 32, 57, 99].map(|at| (at + seed) % COUNT);
        host = pool.executor.block_on(async move {
            for step in 0..COUNT {
                let lba = step * 37 % COUNT;
                host.write(lba, 1).await;
                if spoilt.contains(&lba) {
                    fast.flip(0, fast.last_write.borrow().end - BLOCK as u64 + 5);
                }
            }
            host
        });
        pool.fast.data_reads.reset();
        let (inner, volume) = (Rc::clone(&engine), host.volume);
        let into = Blocks::zeroed(COUNT as usize);
        let read = async move { inner.read(volume, Lba(0), into).await };
        let blocks = pool.executor.block_on(read).expect("every block is there");
        for (lba, block) in (0..COUNT).zip(blocks.bytes().chunks(BLOCK)) {
            let word = u64::from_le_bytes(*block.first_chunk().expect("a block has them"));
            assert_eq!(word, host.expected(lba), "seed {seed}: block {lba}");
        }
        let reads = &pool.fast.data_reads;
        assert_eq!(reads.begun.get(), COUNT as usize + spoilt.len());
        assert!((32..=33).contains(&reads.most.get()), "seed {seed}");
        assert_eq!(engine.counters()["repairs"], spoilt.len() as u64);
    }
}

/// While one of two copies is out of use, hosts and the cleaner read runs of blocks as they do otherwise, not
/// block by block, and nothing counts as mended by that.
#[test]
fn a_copy_out_of_use_costs_no_reads() {
    for seed in 1..=4 {
        let reads = |lost: Option<u8>| {
            let pool = Pool::new(seed, 2, 2);
            let engine = pool.create();
            let mut host = pool.host(&engine, 1);
            pool.fast.lost.set(lost);
            host = pool.executor.block_on(async move {
                for step in 0..600_u64 {
                    host.write(step * 16 % 1024, 16).await;
                }
                host.write(LAST.0, 16).await;
                host
            });
            pool.executor.drain();
            assert_eq!(run_reads(&pool, &engine, &host), 1, "seed {seed}: one run");
            read_back(&pool, host);
            let counters = engine.counters();
            assert!(counters["compacted_blocks"] > 1000, "seed {seed}");
            assert_eq!(counters.get("clean_repairs"), None, "seed {seed}");
            assert_eq!(counters.get("repairs"), None, "seed {seed}");
            pool.fast.data_reads.begun.get()
        };
        let (whole, without) = (reads(None), reads(Some(0)));
        assert!(
            without <= whole + whole / 4,
            "seed {seed}: {without} for {whole}"
        );
    }
}
