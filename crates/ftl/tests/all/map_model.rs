//! The map against a `BTreeMap`: random changes, evictions, merges, cuts, crashes.
//!
//! The model knows for every place which block it belongs to and the stamp of its present use;
//! a place that lost its block is used again at once, under a new stamp. A death report that is
//! not older than the stamp must be of a place without a block.

mod checks;
mod model;
mod operations;

use model::{Harness, SLICES, load_slice};
use std::collections::BTreeMap;
use varve_ftl::map::{
    Change, Dead, LeafKey, LoadError, Lookup, MapFull, MapLimits, NeedsImage, SliceLoad,
};
use varve_units::{LeafIndex, Lsn, Ppa, SliceId, VolumeId};

fn run(seeds: std::ops::Range<u64>, steps: u64, crashes: bool) -> BTreeMap<&'static str, u32> {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let mut harness = Harness::new(seed);
        (0..steps).for_each(|_| harness.step(crashes));
        harness.settle();
        for (what, count) in harness.counts {
            *counts.entry(what).or_default() += count;
        }
    }
    counts
}

/// Without crashes every superseded place is reported, and none that is in use.
#[test]
fn every_death_is_reported_and_none_too_early() {
    let counts = run(0..25, 400, false);
    for what in [
        "pool full",
        "cleared",
        "finished",
        "finished empty",
        "cut",
        "deleted",
        "sees all",
    ] {
        assert!(counts.contains_key(what), "{what} never happened");
    }
}

/// Parts and redo lead back to the state before the crash, however often.
#[test]
fn cuts_and_redo_restore_the_map() {
    let counts = run(1000..1025, 400, true);
    for what in ["crash", "pool full at redo", "cleared for a merge"] {
        assert!(counts.contains_key(what), "{what} never happened");
    }
}

/// A leaf record of before a discard, itself applied before a cut that has forgotten the leaf.
#[test]
fn a_leaf_record_does_not_bring_back_a_leaf_that_vanished() {
    let limits = MapLimits {
        delta_nodes: 8,
        images: 1,
        leaves_max: 2,
    };
    let mut map = Harness::fresh(limits);
    let key = LeafKey {
        volume: VolumeId(1),
        leaf: LeafIndex(0),
    };
    let slice = map.slice_of(key);
    let mut dead = Vec::new();
    let put = Change::Put {
        ppa: Ppa::dense(7),
        crc24: 1,
        class: 11,
    };
    let discard = Change::Discard {
        count: 512,
        zero: false,
    };
    map.apply(key, 4, put, Lsn(10), &mut dead).unwrap();
    map.install_blank(key, &mut dead).unwrap();
    let merge = map.begin_merge(key).unwrap();
    map.apply(key, 0, discard, Lsn(11), &mut dead).unwrap();
    // The record is in the lane as LSN 12; the slice has seen no change since 11.
    map.finish_merge(key, 5, 6, merge.through);
    let (payloads, cut) = map.cut(slice, true);
    assert_eq!((cut, map.exists(key)), (Lsn(11), false));
    let mut map = Harness::fresh(limits);
    load_slice(&mut map, slice, &[(true, payloads, cut)]);
    map.redo_leaf(key, 5, 6, merge.through);
    assert_eq!(map.lookup(key, 4), Lookup::Zeroes);
    assert!(!map.exists(key) && !map.is_leaf_live(key, 5));
    map.check(|_, _| None);
}

/// Merges drop chains as a whole, some with a lost block, one of a leaf with all its blocks: their nodes come
/// back, and nothing is miscounted.
#[test]
fn nodes_of_merged_chains_are_used_again() {
    let limits = MapLimits {
        delta_nodes: 256,
        images: 13,
        leaves_max: 13,
    };
    let (mut map, mut dead) = (Harness::fresh(limits), Vec::new());
    let keys = (0..13).map(|leaf| LeafKey {
        volume: VolumeId(1),
        leaf: LeafIndex(leaf),
    });
    let mut lsn = Lsn(10);
    for round in 0..4 {
        for (key, at) in keys.clone().zip(1..) {
            let count = if (round, at) == (0, 13) { 512 } else { at };
            for index in 0..count {
                let is_lost = (index, at) == (0, 4);
                let put = Change::Put {
                    ppa: if is_lost {
                        Ppa::LOST
                    } else {
                        Ppa::dense(lsn.0)
                    },
                    crc24: 1,
                    class: 0,
                };
                map.apply(key, index, put, lsn, &mut dead).unwrap();
                lsn = lsn.plus(1);
            }
        }
        for (key, at) in keys.clone().zip(1..) {
            map.install_blank(key, &mut dead).ok();
            let merge = map.begin_merge(key).unwrap();
            map.finish_merge(key, at, 1, merge.through);
        }
        map.check(|_, _| None);
        let blocks = (1..=12).sum::<u64>() - 1 + 512;
        assert_eq!((map.room(), map.used_upper()), (256, blocks));
    }
}

/// A lost block reads as lost, counts as no place, and a merge given up can be begun again.
#[test]
fn lost_blocks_and_merges_given_up() {
    let limits = MapLimits {
        delta_nodes: 8,
        images: 1,
        leaves_max: 2,
    };
    let mut map = Harness::fresh(limits);
    let key = LeafKey {
        volume: VolumeId(1),
        leaf: LeafIndex(0),
    };
    let (mut dead, ppa) = (Vec::new(), Ppa::dense(7));
    let put = Change::Put {
        ppa,
        crc24: 1,
        class: 11,
    };
    map.apply(key, 4, put, Lsn(10), &mut dead).unwrap();
    let lost = Change::Move {
        old: ppa,
        new: Ppa::LOST,
        class: 0,
    };
    map.apply(key, 4, lost, Lsn(11), &mut dead).unwrap();
    assert_eq!(
        dead,
        [Dead {
            ppa,
            since: Lsn(10)
        }]
    );
    assert_eq!((map.lookup(key, 4), map.used_upper()), (Lookup::Lost, 0));
    assert_eq!(map.begin_merge(key).err(), Some(NeedsImage::Blank));
    map.install_blank(key, &mut dead).unwrap();
    assert!(!map.begin_merge(key).unwrap().image.is_empty());
    assert_eq!(
        map.fullest(),
        None,
        "a leaf being merged is not offered again"
    );
    map.abort_merge(key);
    assert_eq!(map.fullest(), Some(key));
    assert_eq!(map.begin_merge(key).unwrap().through, Lsn(11));
    map.finish_merge(key, 5, 6, Lsn(11));
    assert!(map.is_leaf_live(key, 5) && map.chain_len(key) == 0);
    map.redo(key, 4, put, Lsn(11), &mut dead).unwrap();
    assert_eq!(
        map.lookup(key, 4),
        Lookup::Lost,
        "the base includes the record"
    );
    let far = LeafKey {
        volume: VolumeId(1),
        leaf: LeafIndex(u64::MAX >> 12),
    };
    map.apply(far, 0, put, Lsn(12), &mut dead).unwrap();
    let third = LeafKey {
        volume: VolumeId(9),
        leaf: LeafIndex(0),
    };
    assert_eq!(
        map.apply(third, 0, put, Lsn(13), &mut dead),
        Err(MapFull::Leaves)
    );
    map.check(|_, _| None);
}

/// Parts are taken newest first, up to the whole state; anything else is refused.
#[test]
fn parts_out_of_order_are_refused() {
    let limits = MapLimits {
        delta_nodes: 8,
        images: 1,
        leaves_max: 4,
    };
    let mut map = Harness::fresh(limits);
    let slice = SliceId(1);
    let key = LeafKey {
        volume: VolumeId(1),
        leaf: LeafIndex(0),
    };
    let mut cuts = Vec::new();
    for (lsn, full) in [(10, true), (11, false), (12, false)] {
        let put = Change::Put {
            ppa: Ppa::dense(lsn),
            crc24: 1,
            class: 0,
        };
        map.apply(key, lsn as u16, put, Lsn(lsn), &mut Vec::new())
            .unwrap();
        let (mut payloads, _) = map.cut(slice, full);
        assert_eq!(payloads.len(), 1);
        cuts.push((full, payloads.remove(0)));
    }
    let add = |order: &[usize]| {
        let mut load = SliceLoad::new(slice, SLICES);
        for &at in order {
            load.add(cuts[at].0, cuts[at].1.bytes())?;
        }
        Harness::fresh(limits).load(&load)
    };
    assert_eq!(add(&[2, 1, 0]), Ok(()));
    assert_eq!(add(&[1, 0]), Ok(()));
    for wrong in [&[2, 1][..], &[2, 0], &[1, 2, 0], &[0, 0], &[2]] {
        assert_eq!(add(wrong), Err(LoadError::Order), "{wrong:?}");
    }
    let mut load = SliceLoad::new(SliceId(2), SLICES);
    assert_eq!(load.add(false, cuts[2].1.bytes()), Err(LoadError::Mismatch));
    let mut load = SliceLoad::new(slice, SLICES);
    assert_eq!(load.add(true, cuts[2].1.bytes()), Err(LoadError::Mismatch));
}
