//! What the map must say: the state of each block and of each place, and what draws from the seed.

use std::collections::{BTreeMap, BTreeSet};
use varve_format::{Entry, LeafImage, PartPayload};
use varve_ftl::map::{Change, Dead, LeafKey, Map, MapLimits, SliceLoad};
use varve_units::{LeafIndex, Lsn, Ppa, SliceId, VolumeId};

pub struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Logged {
    Change(u16, Change),
    Leaf(u64, Lsn),
}

pub type Block = (LeafKey, u16);
/// A slice's payloads: whether they are full, the payloads, the cut.
pub type Cut = (bool, Vec<PartPayload>, Lsn);

pub struct Merging {
    pub key: LeafKey,
    pub through: Lsn,
    pub image: LeafImage,
    /// Sector of its leaf record, once logged.
    pub sector: Option<u64>,
}

/// The map, and beside it what it must say.
pub struct Harness {
    pub rng: Rng,
    pub seed: u64,
    pub map: Map,
    pub limits: MapLimits,
    pub next: u64,
    pub state: BTreeMap<Block, Entry>,
    /// Places in use: the stamp of the use, the block if it still refers to it.
    pub places: BTreeMap<Ppa, (Lsn, Option<Block>)>,
    /// Places whose reference is gone and whose death is yet to be reported.
    pub owed: BTreeSet<Ppa>,
    pub idle: Vec<Ppa>,
    pub images: BTreeMap<u64, LeafImage>,
    pub log: Vec<(LeafKey, Lsn, Logged)>,
    pub parts: BTreeMap<SliceId, Vec<Cut>>,
    pub merging: Vec<Merging>,
    pub dead: Vec<Dead>,
    pub lossy: bool,
    pub counts: BTreeMap<&'static str, u32>,
}

pub const SLICES: u16 = 3;
/// First leaf of the second volume: near the end of what a volume can have, 2^31 leaves.
const FAR: u64 = 1 << 30;

/// Loads a slice from its cuts, given oldest first.
pub fn load_slice(map: &mut Map, slice: SliceId, parts: &[Cut]) {
    let mut load = SliceLoad::new(slice, SLICES);
    for (full, payloads, _) in parts.iter().rev() {
        for payload in payloads.iter().rev() {
            load.add(*full, payload.bytes()).unwrap();
        }
    }
    assert_eq!(Some(load.cut()), parts.last().map(|(.., cut)| *cut));
    map.load(&load).unwrap();
}

impl Harness {
    pub fn new(seed: u64) -> Self {
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

    pub fn fresh(limits: MapLimits) -> Map {
        let mut map = Map::new(limits, SLICES);
        (0..SLICES).for_each(|s| map.add_slice(SliceId(s)));
        map
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub fn lsn(&mut self) -> Lsn {
        // Steps that differ, so that LSNs of one slice are not dense; now and then a long one.
        self.next += 1 + self.rng.below(2) * self.rng.below(3);
        if self.rng.below(500) == 0 {
            self.next += 0x0800_0000;
        }
        Lsn(self.next)
    }

    pub fn key(&mut self) -> LeafKey {
        let (volume, leaf) = (VolumeId(1 + self.rng.below(2)), self.rng.below(5));
        let far = if volume.0 == 2 { FAR } else { 0 };
        LeafKey {
            volume,
            leaf: LeafIndex(leaf + far),
        }
    }

    pub fn index(&mut self) -> u16 {
        if self.rng.below(8) == 0 {
            self.rng.below(512) as u16
        } else {
            self.rng.below(12) as u16
        }
    }

    pub fn take_place(&mut self) -> Ppa {
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

    pub fn reports(&mut self) {
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

    pub fn model(&mut self, key: LeafKey, index: u16, change: Change, lsn: Lsn) {
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
}

pub fn keys() -> Vec<LeafKey> {
    let far = |volume| if volume == 2 { FAR } else { 0 };
    let leaves = |volume| (0..5).map(move |leaf| (volume, leaf + far(volume)));
    let all = (1..=2).flat_map(leaves);
    all.map(|(v, l)| LeafKey {
        volume: VolumeId(v),
        leaf: LeafIndex(l),
    })
    .collect()
}
