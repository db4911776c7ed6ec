//! Live bits, stamps and generations of units.

use super::masks::user_mask;
use super::*;
use crate::geometry::SMALL;

#[test]
fn masks_agree_with_the_geometry() {
    for (stripe_blocks, p2l_copies) in [(256, 1), (256, 2), (12, 2), (24, 1), (100, 2)] {
        let geometry = Geometry {
            chunk_bytes: 1 << 20,
            chunks: 16,
            lba_bytes: 512,
            group_blocks: stripe_blocks * 32,
            groups: 12,
            stripe_blocks,
            p2l_copies,
            slices: 4,
        };
        let area = geometry.stripe_p2l_blocks() / p2l_copies;
        for first in (0..geometry.group_blocks - 63).step_by(64) {
            let user = |bit: &u32| geometry.is_user_block(first + bit);
            let expected = (0..64).filter(user).fold(0, |mask, bit| mask | 1 << bit);
            let mask = user_mask(first, stripe_blocks, area * (p2l_copies - 1), area);
            assert_eq!(mask, expected, "{stripe_blocks} {p2l_copies} {first}");
            let masks = user_masks(&geometry);
            assert_eq!(masks[(first / 64) as usize % masks.len()], expected);
        }
    }
}

#[test]
fn a_report_older_than_the_stamp_buries_nothing() {
    let units = UnitTable::new(SMALL);
    let chunk = UnitId::chunk(3);
    units.open(chunk, Lsn(100));
    let ppa = Ppa::fast(3 * SMALL.chunk_sectors() + 17);
    units.append(ppa);
    units.bury(ppa, Lsn(99));
    assert_eq!(units.unit(chunk).live(), 1);
    units.bury(ppa, Lsn(100));
    assert_eq!(units.unit(chunk).live(), 0);
    units.bury(ppa, Lsn(100));
    assert_eq!(units.unit(chunk).live(), 0);
}

#[test]
fn every_place_of_both_tiers_has_its_own_bit() {
    for block in 0..SMALL.dense_blocks() {
        let place = SMALL.locate(Ppa::dense(block)).unwrap();
        assert_eq!(place.unit.tier, Tier::Dense);
        assert_eq!(
            u64::from(place.unit.index) * 256 + u64::from(place.bit),
            block
        );
    }
    for block in 0..u64::from(SMALL.chunks * SMALL.chunk_blocks()) {
        let sector = block * 8 + 3;
        let place = SMALL.locate(Ppa::fast(sector)).unwrap();
        assert_eq!(place.unit.tier, Tier::Fast);
        assert_eq!(
            u64::from(place.unit.index) * 256 + u64::from(place.bit),
            block
        );
        assert_eq!(place.offset, sector * 512);
    }
    assert_eq!(SMALL.locate(Ppa::ABSENT), None);
    assert_eq!(SMALL.locate(Ppa::fast(SMALL.fast_sectors())), None);
}

/// A unit's places are those that are located in it, up to its first and last.
#[test]
fn the_places_of_a_unit_are_those_located_in_it() {
    let fast = (0..SMALL.fast_sectors()).map(Ppa::fast);
    for ppa in fast.chain((0..SMALL.dense_blocks()).map(Ppa::dense)) {
        let unit = SMALL.locate(ppa).unwrap().unit;
        let all = (0..SMALL.chunks).map(UnitId::chunk);
        for other in all.chain((0..SMALL.groups).map(UnitId::group)) {
            let has = SMALL.places(other).contains(&ppa.bits());
            assert_eq!(has, other == unit, "{ppa:?} {other:?}");
        }
    }
}

/// Of many dead, of several units in any order, some of them twice and some of an earlier use, the same is left and
/// counted as of one after the other.
#[test]
fn many_are_buried_as_one_by_one() {
    let (together, apart) = (UnitTable::new(SMALL), UnitTable::new(SMALL));
    let mut dead = Vec::new();
    for units in [&together, &apart] {
        for index in 0..8 {
            units.open(UnitId::chunk(index), Lsn(10 * u64::from(index)));
            units.open(UnitId::group(index), Lsn(7 * u64::from(index)));
            units.append_run(Ppa::fast(u64::from(index) * SMALL.chunk_sectors()), 200);
            units.append_run(Ppa::dense(u64::from(index) * 256 + 1), 40);
        }
    }
    let mut state = 1_u64;
    for _ in 0..2000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (unit, block) = (state >> 40 & 7, state >> 33 & 63);
        let place = match state >> 60 & 1 {
            0 => Ppa::fast(unit * SMALL.chunk_sectors() + block * 8),
            _ => Ppa::dense(unit * 256 + block),
        };
        let runs = 1 + (state >> 50 & 3);
        dead.extend((0..runs).map(|_| (place, Lsn(state >> 55 & 63))));
    }
    dead.push((Ppa::ABSENT, Lsn(99)));
    together.bury_each(dead.iter().copied());
    dead.iter()
        .for_each(|(ppa, since)| apart.bury(*ppa, *since));
    for index in 0..8 {
        for id in [UnitId::chunk(index), UnitId::group(index)] {
            let (one, other) = (together.unit(id), apart.unit(id));
            assert_eq!(one.words(), other.words(), "{id:?}");
            assert_eq!(one.live(), other.live(), "{id:?}");
            let bits: u32 = one.words().iter().map(|word| word.count_ones()).sum();
            assert_eq!(one.live(), bits, "{id:?}");
        }
    }
}

#[test]
fn a_run_is_marked_as_its_blocks_would_be() {
    let units = UnitTable::new(SMALL);
    let start = |chunk| chunk * SMALL.chunk_sectors();
    for (first, count) in [(0, 1), (3, 60), (3, 61), (60, 4), (60, 196), (0, 256)] {
        units.append_run(Ppa::fast(start(1) + first * 8 + 5), count);
        (0..u64::from(count)).for_each(|block| {
            units.append(Ppa::fast(start(2) + (first + block) * 8 + 5));
        });
        let (run, blocks) = (units.unit(UnitId::chunk(1)), units.unit(UnitId::chunk(2)));
        assert_eq!(run.words(), blocks.words(), "{first}+{count}");
        assert_eq!(run.live(), blocks.live(), "{first}+{count}");
        run.clear_all();
        blocks.clear_all();
    }
}

/// Words are restored as single bits would be: known ones as dumped, others as live, P2L and
/// what lies above the write pointer never.
#[test]
fn dumped_words_are_restored_bit_by_bit() {
    for (copies, stripe) in [(1, 64), (2, 64), (1, 96), (2, 32), (1, 256)] {
        let geometry = Geometry {
            stripe_blocks: stripe,
            group_blocks: stripe * 4,
            p2l_copies: copies,
            ..SMALL
        };
        let dumped: Vec<u64> = (1..17)
            .map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        for (id, unit) in [(UnitId::group(1), 1), (UnitId::chunk(2), 8)] {
            for pointer in (0..=256_u32)
                .step_by(37)
                .map(|bits| bits.min(stripe * 4) * unit)
            {
                let units = UnitTable::new(geometry);
                let restore = UnitRestore {
                    state: UnitState::Closed,
                    generation: Generation(0),
                    stamp: Lsn(1),
                    write_pointer: pointer,
                    is_resumed: false,
                };
                units.restore(id, &restore);
                units.assume_live(id);
                let known = pointer / unit * 2 / 3;
                units.restore_run(id, 0, &dumped[..1], known);
                units.restore_run(id, 1, &dumped[1..], known);
                let expected = |bit: u32| {
                    let user = id.tier == Tier::Fast || geometry.is_user_block(bit);
                    let live = bit >= known || dumped[(bit / 64) as usize] >> (bit % 64) & 1 == 1;
                    user && live && bit < pointer / unit
                };
                let bits = if unit == 8 { 256 } else { stripe * 4 };
                let all: Vec<u32> = (0..bits).filter(|bit| expected(*bit)).collect();
                let found: Vec<u32> = (0..bits)
                    .filter(|bit| units.unit(id).is_set(*bit))
                    .collect();
                assert_eq!(found, all, "{id:?} {copies} {stripe} {pointer}");
                assert_eq!(units.unit(id).live() as usize, all.len());
            }
        }
    }
}

#[test]
#[should_panic(expected = "cannot go from Free to Closed")]
fn a_free_unit_cannot_be_closed() {
    UnitTable::new(SMALL).transition(UnitId::chunk(0), UnitState::Closed);
}

/// A repair finds its unit as it was, or not at all, while another thread frees it again and again.
#[test]
fn a_pinned_unit_is_not_freed() {
    const USES: u32 = 2000;
    let units = UnitTable::new(SMALL);
    let id = UnitId::chunk(3);
    let (pinned, missed) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let unit = units.unit(id);
                loop {
                    let generation = unit.generation();
                    if generation.0 >= USES {
                        return;
                    }
                    core::hint::spin_loop();
                    if unit.try_pin(generation) {
                        for _ in 0..20 {
                            core::hint::spin_loop();
                            assert_eq!(unit.generation(), generation);
                        }
                        unit.unpin();
                        pinned.fetch_add(1, Ordering::Relaxed);
                    } else {
                        missed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let turns = || missed.load(Ordering::Relaxed) + pinned.load(Ordering::Relaxed);
        for stamp in 1..=u64::from(USES) {
            // The others have their turns too, whatever the machine.
            while u64::from(turns()) + 1 < stamp {
                std::thread::yield_now();
            }
            units.open(id, Lsn(stamp));
            units.transition(id, UnitState::Closed);
            units.transition(id, UnitState::Emptied);
            while !units.try_free(id) {
                core::hint::spin_loop();
            }
        }
    });
    assert!(pinned.into_inner() > 0);
    // A place that was looked up in an earlier use.
    let unit = units.unit(id);
    assert!(!unit.try_pin(Generation(USES - 1)) && !unit.is_pinned());
    assert!(unit.try_pin(Generation(USES)) && unit.is_pinned());
    units.open(id, Lsn(u64::from(USES) + 1));
    units.transition(id, UnitState::Closed);
    units.transition(id, UnitState::Emptied);
    assert!(!units.try_free(id));
    unit.unpin();
    assert!(units.try_free(id));
    assert_eq!(unit.generation(), Generation(USES + 1));
}

/// Deaths of a use that are reported late, on another thread, change neither what is counted when the unit is
/// freed nor its next use: as long as that thread is called between, as a checkpoint does.
#[test]
fn late_reports_do_not_meet_the_next_use() {
    const USES: u64 = 10_000;
    const BLOCKS: u32 = 48;
    const STEP: u64 = 10;
    let units = UnitTable::new(SMALL);
    let id = UnitId::group(2);
    let first = SMALL.places(id).start;
    let blocks = || (first..first + u64::from(BLOCKS)).map(Ppa::dense);
    let (emptied, asked, answered) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let use_once = |number: u64| {
        units.open(id, Lsn(number * STEP));
        blocks().for_each(|block| units.append(block));
        let filled = units.unit(id).live();
        units.transition(id, UnitState::Closed);
        units.transition(id, UnitState::Emptied);
        emptied.store(number, Ordering::Release);
        units.end_use(id, Lsn((number + 1) * STEP));
        asked.store(number, Ordering::Release);
        while answered.load(Ordering::Acquire) < number {
            std::thread::yield_now();
        }
        assert!(units.try_free(id), "nobody repairs");
        (filled, units.unit(id).live())
    };
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                answered.store(asked.load(Ordering::Acquire), Ordering::Release);
                // References made in the use that was emptied last.
                let since = Lsn(emptied.load(Ordering::Acquire) * STEP + 1);
                units.bury_each(blocks().map(|block| (block, since)));
            }
        });
        let mut uses = (1..=USES).map(|number| (number, use_once(number)));
        let wrong = uses.find(|(_, counts)| *counts != (BLOCKS, 0));
        is_over.store(true, Ordering::Relaxed);
        wrong
    });
    assert_eq!(
        wrong, None,
        "a use, its live blocks when it was full and after it"
    );
}

/// Only stripes at the end of a group that are all narrow without the same member are told, however it came to them.
#[test]
fn a_run_of_narrow_stripes_is_told() {
    let unit = Unit::new(640);
    assert_eq!(unit.narrow(), None);
    let widths = [
        None,
        Some(3),
        Some(3),
        Some(1),
        Some(1),
        None,
        Some(127),
        Some(127),
    ];
    let mut expected: Option<(u8, u32)> = None;
    for (stripe, width) in (0..).zip(widths) {
        unit.note_width(stripe, width);
        expected = width.map(|member| match expected {
            Some((of, from)) if of == member => (of, from),
            _ => (member, stripe),
        });
        let told = unit.narrow().map(|narrow| (narrow.member, narrow.from));
        assert_eq!(told, expected, "{stripe}");
    }
    let beyond = NarrowGroup {
        member: 1,
        from: 1 << 24,
    };
    unit.restore_narrow(Some(beyond));
    assert_eq!(unit.narrow(), None, "less is told rather than more");
}

#[test]
fn live_blocks_are_counted_from_anywhere() {
    let unit = Unit::new(640);
    (0..640).step_by(3).for_each(|bit| unit.set(bit));
    for first in 0..640 {
        let expected = (first..640).filter(|bit| bit % 3 == 0).count();
        assert_eq!(unit.live_from(first), expected as u32, "{first}");
    }
    assert_eq!(unit.live_from(640), 0);
    assert_eq!(unit.live_from(u32::MAX), 0);
}

/// A unit is told of once for all that its stamp went through.
#[test]
fn units_with_another_stamp_are_told_of_once() {
    let units = UnitTable::new(SMALL);
    let taken = || {
        let mut ids = Vec::new();
        units.restamped.take(|id| ids.push(id));
        ids
    };
    assert_eq!(taken(), []);
    let (chunk, group) = (UnitId::chunk(SMALL.chunks - 1), UnitId::group(0));
    units.open(group, Lsn(4));
    units.open(chunk, Lsn(5));
    units.transition(chunk, UnitState::Closed);
    units.transition(chunk, UnitState::Emptied);
    units.end_use(chunk, Lsn(6));
    assert_eq!(taken(), [chunk, group]);
    assert_eq!(taken(), []);
}
