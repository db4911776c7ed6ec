//! The map against a `BTreeMap`: random changes, evictions, merges, cuts, crashes.
//!
//! The model knows for every place which block it belongs to and the stamp of its present use;
//! a place that lost its block is used again at once, under a new stamp. A death report that is
//! not older than the stamp must be of a place without a block.

use std::collections::{BTreeMap, BTreeSet};
use varve_format::{Entry, LeafImage};
use varve_ftl::map::{
    Change, Dead, LeafCursor, LeafKey, Live, LoadError, Lookup, Map, MapFull, MapLimits,
    NeedsImage, SliceLoad,
};
use varve_units::{LeafIndex, Lsn, Ppa, SliceId, VolumeId};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[derive(Clone, Copy, Debug)]
enum Logged {
    Change(u16, Change),
    Leaf(u64, Lsn),
}

type Block = (LeafKey, u16);
/// A slice's payloads: whether they are full, the bytes, the cut.
type Cut = (bool, Vec<Vec<u8>>, Lsn);

struct Merging {
    key: LeafKey,
    through: Lsn,
    image: LeafImage,
    /// Sector of its leaf record, once logged.
    sector: Option<u64>,
}

struct Harness {
    rng: Rng,
    seed: u64,
    map: Map,
    limits: MapLimits,
    next: u64,
    state: BTreeMap<Block, Entry>,
    /// Places in use: the stamp of the use, the block if it still refers to it.
    places: BTreeMap<Ppa, (Lsn, Option<Block>)>,
    /// Places whose reference is gone and whose death is yet to be reported.
    owed: BTreeSet<Ppa>,
    idle: Vec<Ppa>,
    images: BTreeMap<u64, LeafImage>,
    log: Vec<(LeafKey, Lsn, Logged)>,
    parts: BTreeMap<SliceId, Vec<Cut>>,
    merging: Vec<Merging>,
    dead: Vec<Dead>,
    lossy: bool,
    counts: BTreeMap<&'static str, u32>,
}

const SLICES: u16 = 3;
/// First leaf of the second volume: near the end of what a volume can have, 2^31 leaves.
const FAR: u64 = 1 << 30;

/// Loads a slice from its cuts, given oldest first.
fn load_slice(map: &mut Map, slice: SliceId, parts: &[Cut]) {
    let mut load = SliceLoad::new(slice, SLICES);
    for (full, payloads, _) in parts.iter().rev() {
        for payload in payloads.iter().rev() {
            load.add(*full, payload).unwrap();
        }
    }
    assert_eq!(Some(load.cut()), parts.last().map(|(.., cut)| *cut));
    map.load(&load).unwrap();
}

impl Harness {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let limits = MapLimits {
            delta_nodes: 12 + rng.below(60) as usize,
            images: 1 + rng.below(4) as usize,
            leaves_max: 64,
        };
        Self {
            map: Self::fresh(limits),
            rng,
            seed,
            limits,
            next: 1,
            state: BTreeMap::new(),
            places: BTreeMap::new(),
            owed: BTreeSet::new(),
            idle: (0..40)
                .map(|n| Ppa::fast(n * 8))
                .chain((0..4000).map(Ppa::dense))
                .collect(),
            images: BTreeMap::new(),
            log: Vec::new(),
            parts: BTreeMap::new(),
            merging: Vec::new(),
            dead: Vec::new(),
            lossy: false,
            counts: BTreeMap::new(),
        }
    }

    fn fresh(limits: MapLimits) -> Map {
        let mut map = Map::new(limits, SLICES);
        (0..SLICES).for_each(|s| map.add_slice(SliceId(s)));
        map
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn lsn(&mut self) -> Lsn {
        // Steps that differ, so that LSNs of one slice are not dense; now and then a long one.
        self.next += 1 + self.rng.below(2) * self.rng.below(3);
        if self.rng.below(500) == 0 {
            self.next += 0x0800_0000;
        }
        Lsn(self.next)
    }

    fn key(&mut self) -> LeafKey {
        let (volume, leaf) = (VolumeId(1 + self.rng.below(2)), self.rng.below(5));
        let far = if volume.0 == 2 { FAR } else { 0 };
        LeafKey {
            volume,
            leaf: LeafIndex(leaf + far),
        }
    }

    fn index(&mut self) -> u16 {
        if self.rng.below(8) == 0 {
            self.rng.below(512) as u16
        } else {
            self.rng.below(12) as u16
        }
    }

    fn take_place(&mut self) -> Ppa {
        // The most recently idle place first, so that places are reused soon.
        let ppa = self.idle.pop().expect("places enough");
        let stamp = self.lsn();
        self.owed.remove(&ppa);
        self.places.insert(ppa, (stamp, None));
        ppa
    }

    fn lose(&mut self, ppa: Ppa, at: Lsn) {
        if ppa.is_place() {
            let place = self.places.get_mut(&ppa).unwrap();
            assert!(place.0 < at);
            place.1 = None;
            self.owed.insert(ppa);
        }
    }

    fn reports(&mut self) {
        for Dead { ppa, since } in std::mem::take(&mut self.dead) {
            let (stamp, block) = self.places[&ppa];
            if stamp > since {
                continue;
            }
            assert_eq!(
                block, None,
                "seed {}: {ppa:?} dead though in use",
                self.seed
            );
            self.owed.remove(&ppa);
            // Idle places are reused only after their death is known, some of them at once.
            if !self.idle.contains(&ppa) && self.rng.below(2) == 0 {
                self.idle.push(ppa);
            }
        }
    }

    fn read(&mut self, key: LeafKey) {
        match self.map.base(key) {
            Some(base) => {
                let image = self.images[&base.sector].clone();
                self.map.install(key, base, image, &mut self.dead).unwrap();
            }
            None => {
                let _ = self.map.install_blank(key, &mut self.dead);
            }
        }
        self.reports();
    }

    fn model(&mut self, key: LeafKey, index: u16, change: Change, lsn: Lsn) {
        match change {
            Change::Put { ppa, crc24, .. } => {
                let old = self.state.insert((key, index), Entry::new(ppa, crc24));
                self.places.get_mut(&ppa).unwrap().1 = Some((key, index));
                old.into_iter().for_each(|e| self.lose(e.ppa(), lsn));
            }
            Change::Move { old, new, .. } => match self.state.get_mut(&(key, index)) {
                Some(entry) if entry.ppa() == old => {
                    *entry = Entry::new(new, entry.crc24());
                    self.places.get_mut(&new).unwrap().1 = Some((key, index));
                    self.lose(old, lsn);
                }
                _ => self.lose(new, lsn),
            },
            Change::Discard { count, .. } => {
                for at in index..index + count {
                    if let Some(entry) = self.state.remove(&(key, at)) {
                        self.lose(entry.ppa(), lsn);
                    }
                }
            }
        }
    }

    fn change(&mut self) {
        let (key, mut index) = (self.key(), self.index());
        let class = self.rng.below(16) as u8;
        let change = match self.rng.below(20) {
            0..10 => {
                let crc24 = self.rng.below(1 << 24) as u32;
                Change::Put {
                    ppa: self.take_place(),
                    crc24,
                    class,
                }
            }
            10..17 => {
                let found = self.state.get(&(key, index)).map(|e| e.ppa());
                let old = match (found, self.rng.below(4)) {
                    (Some(ppa), 1..) => ppa,
                    _ => Ppa::dense(self.rng.below(4000)),
                };
                Change::Move {
                    old,
                    new: self.take_place(),
                    class,
                }
            }
            17..19 => {
                let count = (1 + self.rng.below(8) as u16).min(512 - index);
                Change::Discard {
                    count,
                    zero: self.rng.below(2) == 0,
                }
            }
            _ => {
                index = 0;
                Change::Discard {
                    count: 512,
                    zero: self.rng.below(2) == 0,
                }
            }
        };
        // A put record of several blocks makes deltas of one LSN.
        let more = if matches!(change, Change::Put { .. }) {
            self.rng.below(4) as u16
        } else {
            0
        };
        let more: Vec<_> = (0..more.min(511 - index))
            .map(|_| self.take_place())
            .collect();
        while let Err(full) = self.map.admits(key, 4) {
            self.make_room(full);
        }
        let lsn = self.lsn();
        let mut changes = vec![(index, change)];
        for (at, ppa) in (index + 1..).zip(more) {
            let crc24 = u32::from(at);
            changes.push((at, Change::Put { ppa, crc24, class }));
        }
        self.record(key, &changes, lsn);
        self.reports();
    }

    /// Applies a record, in one of the ways there are.
    fn record(&mut self, key: LeafKey, changes: &[(u16, Change)], lsn: Lsn) {
        let (dead, map) = (&mut self.dead, &mut self.map);
        let blocks: Vec<(Ppa, u32)> = changes
            .iter()
            .filter_map(|(_, change)| match change {
                Change::Put { ppa, crc24, .. } => Some((*ppa, *crc24)),
                _ => None,
            })
            .collect();
        match (self.rng.below(3), changes[0]) {
            (0, (first, Change::Put { class, .. })) => {
                map.apply_run(key, first, &blocks, class, lsn, dead)
                    .unwrap();
            }
            (1, _) => map
                .apply_each(key, changes.iter().copied(), lsn, dead)
                .unwrap(),
            _ => changes.iter().for_each(|&(index, change)| {
                map.apply(key, index, change, lsn, dead).unwrap();
            }),
        }
        for &(index, change) in changes {
            self.log.push((key, lsn, Logged::Change(index, change)));
            self.model(key, index, change, lsn);
        }
    }

    fn make_room(&mut self, full: MapFull) {
        assert_eq!(full, MapFull::Deltas, "seed {}", self.seed);
        self.count("pool full");
        match self.map.fullest() {
            Some(key) => {
                self.begin(key);
                while !self.merging.is_empty() {
                    self.advance(0);
                }
            }
            None => self.advance(0),
        }
    }

    fn begin(&mut self, key: LeafKey) {
        if self.map.is_merging(key) || self.map.chain_len(key) == 0 {
            return;
        }
        loop {
            match self.map.begin_merge(key) {
                Ok(merge) => {
                    let image = (*merge.image).clone();
                    self.merging.push(Merging {
                        key,
                        through: merge.through,
                        image,
                        sector: None,
                    });
                    return;
                }
                Err(NeedsImage::Discarded(base)) => {
                    let image = self.images[&base.sector].clone();
                    self.count("cleared for a merge");
                    self.map
                        .clear_discarded(key, base, &image, &mut self.dead)
                        .unwrap();
                    self.reports();
                }
                Err(_) => self.read(key),
            }
        }
    }

    /// Logs the leaf record of a merge, or finishes it.
    fn advance(&mut self, at: usize) {
        if self.merging.is_empty() {
            return;
        }
        let mut merge = self.merging.remove(at % self.merging.len());
        if merge.image.is_empty() {
            self.count("finished empty");
            self.map.finish_empty(merge.key, merge.through);
        } else if let Some(sector) = merge.sector {
            self.count("finished");
            self.map
                .finish_merge(merge.key, sector, sector as u32, merge.through);
        } else {
            let sector = self.images.len() as u64;
            self.images.insert(sector, merge.image.clone());
            merge.sector = Some(sector);
            self.merging.push(merge);
        }
    }

    /// A leaf record counts from its own LSN on; finishing is its application in lane order.
    fn finish_logged(&mut self, at: usize) {
        if self.merging.is_empty() {
            return;
        }
        let at = at % self.merging.len();
        let (key, through) = (self.merging[at].key, self.merging[at].through);
        let logged = self.merging[at].sector;
        self.advance(at);
        if let Some(sector) = logged {
            let lsn = self.lsn();
            self.log.push((key, lsn, Logged::Leaf(sector, through)));
        }
    }

    fn clear_one(&mut self) {
        if let Some((key, base, _)) = self.map.discarded_next(LeafCursor::default()) {
            let image = self.images[&base.sector].clone();
            self.map
                .clear_discarded(key, base, &image, &mut self.dead)
                .unwrap();
            self.count("cleared");
            self.reports();
        }
    }

    fn cut(&mut self) {
        let slice = SliceId(self.rng.below(u64::from(SLICES)) as u16);
        self.cut_slice(slice);
    }

    fn cut_slice(&mut self, slice: SliceId) {
        let full = !self.parts.contains_key(&slice) || self.rng.below(4) == 0;
        let (payloads, cut) = self.map.cut(slice, full);
        let parts = self.parts.entry(slice).or_default();
        if full {
            parts.clear();
        }
        parts.push((full, payloads, cut));
        self.count("cut");
        self.check_parts(slice);
    }

    /// What the slice's parts lead to is the slice's state.
    fn check_parts(&self, slice: SliceId) {
        let mut map = Self::fresh(self.limits);
        load_slice(&mut map, slice, &self.parts[&slice]);
        assert_eq!(map.applied(slice), self.map.applied(slice));
        for key in keys()
            .into_iter()
            .filter(|&key| self.map.slice_of(key) == slice)
        {
            assert_eq!(map.stored(key), self.map.stored(key));
            match map.base(key) {
                Some(base) => {
                    let image = self.images[&base.sector].clone();
                    map.install(key, base, image, &mut Vec::new()).unwrap();
                }
                None => {
                    let _ = map.install_blank(key, &mut Vec::new());
                }
            }
            map.check(|_, base| self.images.get(&base.sector).cloned());
            for index in 0..512 {
                let found = match map.lookup(key, index) {
                    Lookup::Entry { entry, .. } => Some(entry),
                    _ => None,
                };
                assert_eq!(
                    found,
                    self.state.get(&(key, index)).copied(),
                    "seed {}",
                    self.seed
                );
            }
        }
    }

    fn crash(&mut self) {
        self.count("crash");
        self.map = Self::fresh(self.limits);
        self.merging.clear();
        for (&slice, parts) in &self.parts {
            load_slice(&mut self.map, slice, parts);
        }
        self.check();
        // Reports between a cut and the crash are repeated only as far as redo can see.
        self.lossy = true;
        let mut last = Lsn::ZERO;
        for (key, lsn, logged) in self.log.clone() {
            let slice = self.map.slice_of(key);
            let cut = self
                .parts
                .get(&slice)
                .and_then(|p| p.last())
                .map_or(Lsn::ZERO, |p| p.2);
            match logged {
                Logged::Change(index, change) => {
                    // Room for the whole record: no merge may come between its changes.
                    while lsn != last && self.map.admits(key, 4).is_err() {
                        self.redo_room();
                    }
                    last = lsn;
                    self.map
                        .redo(key, index, change, lsn, &mut self.dead)
                        .unwrap();
                }
                Logged::Leaf(sector, through) if lsn > cut => {
                    self.map.redo_leaf(key, sector, sector as u32, through);
                }
                Logged::Leaf(..) => {}
            }
            self.reports();
        }
    }

    /// Room while redoing: a merge whose record is lost with the next crash, as it should be.
    fn redo_room(&mut self) {
        self.count("pool full at redo");
        let key = self.map.fullest().unwrap();
        self.begin(key);
        while !self.merging.is_empty() {
            self.advance(0);
        }
    }

    fn check(&mut self) {
        let images = &self.images;
        self.map.check(|_, base| images.get(&base.sector).cloned());
    }

    fn verify(&mut self, deep: bool) {
        // Of whatever exists, may exist, or was there once: it changes nothing, and finds its way.
        self.map.prefetch(keys().into_iter().zip((0..512).cycle()));
        for key in keys() {
            if deep {
                self.read(key);
            }
            let mut run = [Lookup::NeedsImage; 512];
            self.map.lookup_run(key, 0, &mut run);
            for (index, &found) in (0u16..).zip(&run) {
                let expected = self.state.get(&(key, index)).copied();
                if index < 16 {
                    assert_eq!(self.map.lookup(key, index), found, "one is as a run");
                }
                match (found, expected) {
                    (Lookup::Entry { entry, since }, Some(e)) => {
                        assert_eq!(entry, e, "seed {}: {key:?} {index}", self.seed);
                        assert!(
                            since > self.places[&e.ppa()].0,
                            "since is in the place's use"
                        );
                    }
                    (Lookup::Zeroes, None) => {}
                    (Lookup::NeedsImage, _) if !deep => {}
                    _ => panic!(
                        "seed {}: {key:?} {index}: {found:?}, not {expected:?}",
                        self.seed
                    ),
                }
                if index < 12 {
                    let probe = self.rng.below(4000);
                    let ppa = expected.map_or(Ppa::dense(probe), Entry::ppa);
                    let live = self.map.is_live(key, index, ppa);
                    assert!(live != Live::No || expected.is_none(), "seed {}", self.seed);
                    assert!(
                        live != Live::Yes || expected.is_some(),
                        "seed {}",
                        self.seed
                    );
                }
            }
        }
        let mapped = self.state.len() as u64;
        assert!(
            self.map.used_upper() >= mapped,
            "seed {}: used is an upper bound",
            self.seed
        );
    }

    /// Folds and merges everything: nothing may be owed, the bound must be exact.
    fn settle(&mut self) {
        while !self.merging.is_empty() {
            self.finish_logged(0);
        }
        if self.rng.below(2) > 0 {
            self.verify(true);
        }
        while let Some(key) = self.map.next_bound() {
            self.read(key);
        }
        while self.map.discarded_next(LeafCursor::default()).is_some() {
            self.clear_one();
        }
        while let Some(key) = self.map.fullest() {
            self.begin(key);
            while !self.merging.is_empty() {
                self.finish_logged(0);
            }
        }
        self.check();
        self.verify(true);
        assert_eq!(
            self.map.used_upper(),
            self.state.len() as u64,
            "seed {}",
            self.seed
        );
        if !self.lossy {
            assert!(
                self.owed.is_empty(),
                "seed {}: never reported: {:?}",
                self.seed,
                self.owed
            );
        }
        assert_eq!(self.map.memory().delta_nodes_used, 0);
    }

    /// Drops a leaf as of a deleted volume. It leaves no record here, so all slices are cut, as
    /// the catalogue's record would keep the leaf from coming back.
    fn delete(&mut self) {
        let key = self.key();
        if self.map.is_merging(key) || self.rng.below(3) > 0 {
            return;
        }
        let stored = self.map.stored(key);
        let image = stored.map(|base| (base, self.images[&base.sector].clone()));
        let image = image.as_ref().map(|(base, image)| (*base, image));
        self.map
            .drop_volume_leaf(key, image, &mut self.dead)
            .unwrap();
        let lsn = self.lsn();
        self.model(
            key,
            0,
            Change::Discard {
                count: 512,
                zero: false,
            },
            lsn,
        );
        self.reports();
        self.cut_slice(self.map.slice_of(key));
        self.count("deleted");
    }

    fn step(&mut self, crashes: bool) {
        match self.rng.below(100) {
            0..70 => self.change(),
            70..78 => {
                let key = self.key();
                self.read(key);
            }
            78..84 => {
                let key = self.key();
                self.begin(key);
            }
            84..92 => {
                let at = self.rng.below(4) as usize;
                self.finish_logged(at);
            }
            92..94 => self.clear_one(),
            94..98 => self.cut(),
            98 if crashes && self.rng.below(2) == 0 => self.crash(),
            98 if self.rng.below(3) == 0 => self.settle(),
            _ => self.delete(),
        }
        self.check();
        self.verify(false);
    }
}

fn keys() -> Vec<LeafKey> {
    let far = |volume| if volume == 2 { FAR } else { 0 };
    let leaves = |volume| (0..5).map(move |leaf| (volume, leaf + far(volume)));
    let all = (1..=2).flat_map(leaves);
    all.map(|(v, l)| LeafKey {
        volume: VolumeId(v),
        leaf: LeafIndex(l),
    })
    .collect()
}

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
    assert_eq!(map.begin_merge(key).unwrap_err(), NeedsImage::Blank);
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
            load.add(cuts[at].0, &cuts[at].1)?;
        }
        Harness::fresh(limits).load(&load)
    };
    assert_eq!(add(&[2, 1, 0]), Ok(()));
    assert_eq!(add(&[1, 0]), Ok(()));
    for wrong in [&[2, 1][..], &[2, 0], &[1, 2, 0], &[0, 0], &[2]] {
        assert_eq!(add(wrong), Err(LoadError::Order), "{wrong:?}");
    }
    let mut load = SliceLoad::new(SliceId(2), SLICES);
    assert_eq!(load.add(false, &cuts[2].1), Err(LoadError::Mismatch));
    let mut load = SliceLoad::new(slice, SLICES);
    assert_eq!(load.add(true, &cuts[2].1), Err(LoadError::Mismatch));
}
