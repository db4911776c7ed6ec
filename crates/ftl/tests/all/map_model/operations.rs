//! What is done to the map and, beside it, to the model: changes, merges, cuts, crashes.

use super::model::{Harness, Logged, Merging, SLICES, keys, load_slice};
use varve_format::LeafImage;
use varve_ftl::map::{Change, LeafCursor, LeafKey, MapFull, NeedsImage};
use varve_units::{Lsn, Ppa, SliceId};

impl Harness {
    pub fn read(&mut self, key: LeafKey) {
        match self.map.base(key) {
            Some(base) => {
                let image = self.images[&base.sector].clone();
                self.map
                    .install(key, base, Box::new(image), &mut self.dead)
                    .unwrap();
            }
            None => {
                let _ = self.map.install_blank(key, &mut self.dead);
            }
        }
        self.reports();
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
        if lsn.0.is_multiple_of(2) {
            // Others may be looked ahead for before and behind it; some of them are not there.
            map.begin_expecting();
            keys().into_iter().for_each(|other| map.expect(other, 0));
            map.fetch_expected();
        }
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

    pub fn begin(&mut self, key: LeafKey) {
        if self.map.is_merging(key) || self.map.chain_len(key) == 0 {
            return;
        }
        loop {
            match self.map.begin_merge(key) {
                Ok(merge) => {
                    let image = LeafImage::decode(merge.image.bytes()).unwrap();
                    assert_eq!(image.is_empty(), merge.is_empty, "seed {}", self.seed);
                    self.merging.push(Merging {
                        key,
                        through: merge.through,
                        image: *image,
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
    pub fn finish_logged(&mut self, at: usize) {
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

    pub fn clear_one(&mut self) {
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

    fn crash(&mut self) {
        self.count("crash");
        self.map = Self::fresh(self.limits);
        self.merging.clear();
        for (&slice, parts) in &self.parts {
            load_slice(&mut self.map, slice, parts);
        }
        // Reports between a cut and the crash are repeated only as far as redo can see.
        self.lossy = true;
        self.check();
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

    pub fn step(&mut self, crashes: bool) {
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
