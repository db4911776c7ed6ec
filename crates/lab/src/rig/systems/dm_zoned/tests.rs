//! The target against what it promises.

use super::super::bed::{self, Pair, randomly, read, write, zoned};
use super::*;
use varve_sim::executor::Reactor;
use varve_units::Nanos;

/// Blocks of the drives: 64 sequential zones of 64 blocks, and a cache of eight.
const DENSE: u64 = 64 * 64;
const CACHE: u64 = 8 * 64;
const FAST: u64 = 1024;

fn create(world: &Rc<Reactor>, drives: Pair) -> Rc<DmZoned> {
    let plan = DmZonedPlan::new(DENSE * BLOCK_BYTES, CACHE * BLOCK_BYTES).unwrap();
    assert!(plan.fast_bytes() <= FAST * BLOCK_BYTES && plan.zone_blocks == 64);
    DmZoned::create(world.clone(), plan, drives)
}

impl DmZoned {
    /// Every block that was written is valid in one zone, and that has it; sequential zones have
    /// nothing behind their write pointer.
    fn audit(&self) {
        let (zones, ledger) = (self.zones.borrow(), self.ledger.borrow());
        for (number, chunk) in zones.chunks.iter().enumerate() {
            let both = [chunk.data, chunk.buffer];
            for block in 0..zones.blocks {
                let has = both
                    .iter()
                    .flatten()
                    .filter(|zone| zones.has(**zone, block));
                let places: Vec<_> = has.map(|zone| zones.place(*zone, block)).collect();
                assert!(places.len() <= 1, "chunk {number}, block {block}");
                let block = number as u64 * zones.blocks + block;
                let at = places.first().copied();
                let is_right = at.map_or_else(
                    || ledger.is_unwritten(block),
                    |at| ledger.is_newest(block, at),
                );
                assert!(is_right, "block {block} at {at:?}");
            }
            assert!(!(chunk.data.is_none() && chunk.buffer.is_some()));
        }
        for zone in &zones.zones[zones.cached..] {
            assert!(zone.weight <= zone.wp && zone.wp <= zones.blocks);
        }
    }
}

#[test]
fn every_block_is_found_where_it_was_written_last() {
    for seed in 0..8 {
        let (target, _) = bed::run((FAST, DENSE), |world, drives| async move {
            let target = create(&world, drives);
            let system = Rc::clone(&target) as Rc<dyn System>;
            randomly(&world, &system, (seed, 4_000), (16, 20)).await;
            target.audit();
            system.start();
            randomly(&world, &system, (seed + 100, 8_000), (32, 20)).await;
            world.sleep(Nanos::from_secs(1)).await;
            target
        });
        target.audit();
        let counters = target.counters();
        let all = ["cached", "reclaimed", "waits_for_a_zone", "pages_written"];
        assert!(all.iter().all(|name| counters[name] > 100), "{counters:?}");
    }
}

/// On zones the drive has what the target thinks, and was never written but at its write pointers: it would
/// have refused.
#[test]
fn zones_of_a_drive_are_written_in_order() {
    for seed in 0..4 {
        let fast = FAST;
        let (target, _) = bed::run((fast, 1), move |world, (fast, _)| async move {
            let dense = zoned(64, &world);
            let plan = DmZonedPlan::zoned(dense.zones().unwrap(), CACHE * BLOCK_BYTES).unwrap();
            let target = DmZoned::create(world.clone(), plan, (fast, dense));
            for chunk in 0..plan.chunks() {
                write(&target, chunk * plan.zone_blocks, plan.zone_blocks).await;
            }
            let system = Rc::clone(&target) as Rc<dyn System>;
            randomly(&world, &system, (seed, 4_000), (16, 20)).await;
            target.audit();
            system.start();
            randomly(&world, &system, (seed + 100, 8_000), (32, 20)).await;
            world.sleep(Nanos::from_secs(1)).await;
            target
        });
        target.audit();
        let written = target.dense.zones_written();
        let zones = target.zones.borrow();
        for (zone, bytes) in zones.zones[zones.cached..].iter().zip(written) {
            assert_eq!(bytes, zone.wp * BLOCK_BYTES);
        }
        assert!(target.dense.counters().erases > 100);
    }
}

/// What was reclaimed in part goes on at the write pointer, past the cache; elsewhere a buffer is
/// needed, and reads find both.
#[test]
fn writes_at_the_write_pointer_go_straight_to_the_zone() {
    bed::run((FAST, DENSE), |world, drives| async move {
        let target = create(&world, drives);
        target.start();
        // Eight zones of cache: the sixth chunk leaves two free, which is where reclaim begins.
        for chunk in 0..8 {
            write(&target, chunk * 64, 16).await;
        }
        world.sleep(Nanos::from_secs(1)).await;
        target.audit();
        assert_eq!(target.counters().get("direct"), None);
        let chunk = target.zones.borrow().chunks[0].clone();
        let data = chunk.data.unwrap();
        assert!(!target.zones.borrow().is_cached(data) && chunk.buffer.is_none());
        assert_eq!(target.zones.borrow().zones[data].wp, 16);
        write(&target, 16, 4).await;
        assert_eq!(target.counters()["direct"], 1);
        write(&target, 40, 1).await;
        assert_eq!(target.counters()["direct"], 1, "a hole");
        write(&target, 3, 1).await;
        let buffer = target.zones.borrow().chunks[0].buffer.unwrap();
        assert_eq!(target.zones.borrow().zones[buffer].weight, 2);
        let before = (target.fast.traffic().reads, target.dense.traffic().reads);
        read(&target, 0, 20).await;
        let after = (target.fast.traffic().reads, target.dense.traffic().reads);
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 2));
        target.audit();
    });
}

/// A buffer before the write pointer takes its zone in and then leaves the cache as a whole.
#[test]
fn a_buffered_chunk_is_merged_into_a_new_zone() {
    bed::run((FAST, DENSE), |world, drives| async move {
        let target = create(&world, drives);
        // Without time: reclaim has ended when the write has.
        for chunk in 0..40 {
            write(&target, chunk * 64, 64).await;
        }
        let first = target.zones.borrow().chunks[0].data.unwrap();
        target.start();
        for chunk in 0..12 {
            write(&target, chunk * 64 + 5, 1).await;
        }
        world.sleep(Nanos::from_secs(1)).await;
        target.audit();
        let moved = (0..12).filter(|chunk| {
            let zones = target.zones.borrow();
            let chunk = &zones.chunks[*chunk];
            chunk.buffer.is_none() && !zones.is_cached(chunk.data.unwrap())
        });
        let moved: Vec<_> = moved.collect();
        assert!(moved.len() >= 4, "{moved:?}");
        assert!(!moved.contains(&0) || target.zones.borrow().chunks[0].data != Some(first));
        assert!(target.zones.borrow().free_cached() * 100 / 8 > DM_ZONED.low_per_cent);
        let copied = target.counters()["blocks_copied"];
        assert!(
            copied >= moved.len() as u64 * 127,
            "{copied}: there and back"
        );
    });
}

#[test]
fn runs_repeat_exactly() {
    let run = || {
        bed::run((FAST, DENSE), |world, drives| async move {
            let target = create(&world, drives) as Rc<dyn System>;
            target.start();
            randomly(&world, &target, (5, 4_000), (16, 20)).await;
            target.counters()
        })
    };
    assert_eq!(run(), run());
}
