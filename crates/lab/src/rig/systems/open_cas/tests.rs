//! The cache against what it promises.

use super::super::bed::{self, randomly, read, write};
use super::*;
use varve_units::Nanos;

/// Blocks of the drives: about 500 lines.
const SMALL: (u64, u64) = (512, 4096);

impl OpenCas {
    /// Every block is where the cache would look for it, and clean lines are copies.
    fn audit(&self) {
        let (lines, ledger) = (self.lines.borrow(), self.ledger.borrow());
        for block in 0..self.dense.bytes() / BLOCK_BYTES {
            let line = lines.find(block);
            if let Some(line) = line {
                let is_newest = ledger.is_newest(block, Place::Fast(line.into()));
                assert!(is_newest, "block {block} in line {line}");
            }
            if !line.is_some_and(|line| lines.is_dirty(line)) {
                let is_newest = ledger.is_newest(block, Place::Dense(block));
                assert!(is_newest, "block {block} on the dense drive");
            }
        }
    }
}

/// Reads assert that they find what was written last; so does the audit of all places.
#[test]
fn every_block_is_found_where_it_was_written_last() {
    for seed in 0..8 {
        let (cache, _) = bed::run(SMALL, |world, drives| async move {
            let cache = OpenCas::create(world.clone(), drives);
            let system = Rc::clone(&cache) as Rc<dyn System>;
            randomly(&world, &system, (seed, 4_000), (16, 20)).await;
            // What reads leave to be written to lines is done behind.
            world.sleep(Nanos::from_secs(1)).await;
            cache.audit();
            system.start();
            randomly(&world, &system, (seed + 100, 8_000), (32, 20)).await;
            world.sleep(Nanos::from_secs(1)).await;
            cache
        });
        cache.audit();
        let counters = cache.counters();
        let all = ["cached", "through", "lines_cleaned", "pages_written"];
        assert!(all.iter().all(|name| counters[name] > 100), "{counters:?}");
    }
}

/// The state a line comes into is written with it, once.
#[test]
fn a_line_that_is_dirty_already_needs_no_metadata() {
    bed::run(SMALL, |world, drives| async move {
        let cache = OpenCas::create(world, drives);
        cache.start();
        write(&cache, 7, 1).await;
        assert_eq!(
            (cache.fast.traffic().writes, cache.counts.pages.get()),
            (2, 1)
        );
        write(&cache, 7, 1).await;
        assert_eq!(
            (cache.fast.traffic().writes, cache.counts.pages.get()),
            (3, 1)
        );
        assert_eq!(cache.dense.traffic().writes, 0);
        read(&cache, 7, 1).await;
        assert_eq!(cache.dense.traffic().reads, 0, "a hit");
        read(&cache, 99, 1).await;
        read(&cache, 99, 1).await;
        assert_eq!(cache.dense.traffic().reads, 1, "a miss is kept");
    });
}

/// Without a clean line a write goes through, and what was used longest ago is cleaned, 32 lines in
/// the order of their blocks.
#[test]
fn a_full_cache_lets_writes_through_and_cleans_a_batch() {
    bed::run(SMALL, |world, drives| async move {
        let cache = OpenCas::create(world.clone(), drives);
        cache.start();
        // Pairs of adjacent blocks, later pairs first.
        for pair in (0..cache.count / 2).rev() {
            write(&cache, pair * 8 + 1, 1).await;
            write(&cache, pair * 8, 1).await;
        }
        let full = cache.lines.borrow().dirty();
        assert!(full >= cache.count - 1);
        write(&cache, 3999, 2).await;
        assert_eq!(cache.counts.through.get(), 1);
        world.sleep(Nanos::from_secs(1)).await;
        assert_eq!(cache.counts.cleaned.get(), OPEN_CAS.cleaned as u64);
        assert_eq!(cache.lines.borrow().dirty(), full - OPEN_CAS.cleaned as u64);
        let writes = cache.dense.traffic().writes;
        assert_eq!(
            writes,
            1 + OPEN_CAS.cleaned as u64 / 2,
            "pairs are written together"
        );
        let oldest = (cache.count / 2 - 1) * 8;
        let line = cache.lines.borrow().find(oldest).expect("it stays");
        assert!(!cache.lines.borrow().is_dirty(line));
        write(&cache, 3999, 2).await;
        assert_eq!(cache.counts.through.get(), 1, "clean lines are taken");
        cache.audit();
    });
}

/// Streams of a megabyte bypass a cache that is full, and only that.
#[test]
fn long_streams_bypass_a_full_cache() {
    bed::run((2048, 8192), |world, drives| async move {
        let cache = OpenCas::create(world, drives);
        cache.start();
        for part in 0..80 {
            write(&cache, part * 16, 16).await;
        }
        assert_eq!(cache.counts.cut_off.get(), 0, "there is room");
        assert!(cache.lines.borrow().free() > OPEN_CAS.full_margin + 16);
        for part in 80..128 {
            write(&cache, part * 16, 16).await;
        }
        let cut = cache.counts.cut_off.get();
        assert!(cut > 10, "{cut}");
        assert_eq!(cache.dense.traffic().writes, cut);
        let free = cache.lines.borrow().free();
        write(&cache, 5000, 16).await;
        assert_eq!(
            cache.lines.borrow().free(),
            free - 16,
            "a new stream is short"
        );
        cache.audit();
    });
}

#[test]
fn runs_repeat_exactly() {
    let run = || {
        let (counters, end) = bed::run(SMALL, |world, drives| async move {
            let cache = OpenCas::create(world.clone(), drives) as Rc<dyn System>;
            cache.start();
            randomly(&world, &cache, (5, 4_000), (16, 20)).await;
            cache.counters()
        });
        (counters, end)
    };
    assert_eq!(run(), run());
}
