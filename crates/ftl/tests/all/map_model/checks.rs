//! What must hold of the map at any time, of its cuts, and once everything is merged.

use super::model::{Harness, keys, load_slice};
use varve_format::Entry;
use varve_ftl::map::{LeafCursor, Live, Lookup};
use varve_units::{Ppa, SliceId};

impl Harness {
    /// What the slice's parts lead to is the slice's state.
    pub fn check_parts(&self, slice: SliceId) {
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
                    map.install(key, base, Box::new(image), &mut Vec::new())
                        .unwrap();
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

    pub fn check(&mut self) {
        let images = &self.images;
        self.map.check(|_, base| images.get(&base.sector).cloned());
        if self.map.sees_all() && !self.lossy {
            let owed = &self.owed;
            assert!(owed.is_empty(), "seed {}: not seen: {owed:?}", self.seed);
            self.count("sees all");
        }
    }

    /// Blocks judged many at a time are judged as each alone.
    fn judge_together(&self) {
        let blocks = || {
            keys()
                .into_iter()
                .flat_map(|key| (0..12).map(move |at| (key, at)))
        };
        let place = |at| {
            self.state
                .get(&at)
                .map_or(Ppa::dense(0), |entry| entry.ppa())
        };
        let asked: Vec<_> = blocks().map(|at| (at.0, at.1, place(at))).collect();
        let mut together = vec![true; asked.len()];
        self.map.perhaps_live(asked.iter().copied(), &mut together);
        for ((key, index, ppa), live) in asked.into_iter().zip(together) {
            let alone = self.map.is_live(key, index, ppa) != Live::No;
            assert_eq!(live, alone, "seed {}: {key:?} {index}", self.seed);
        }
    }

    pub fn verify(&mut self, deep: bool) {
        // Of whatever exists, may exist, or was there once: it changes nothing, and finds its way.
        self.map.prefetch(keys().into_iter().zip((0..512).cycle()));
        self.judge_together();
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
    pub fn settle(&mut self) {
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
}
