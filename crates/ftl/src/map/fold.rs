//! Folding a chain onto the base image just read: every doubt ends here.

use super::chain::{drop_superseded, is_met};
use super::pool::NIL;
use super::{Base, Dead, LeafKey, Map, Stale, report};
use crate::lifetime::Lifetimes;
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_format::{Delta, DeltaBody, Entry, LEAF_ENTRIES, LeafImage, Placement};
use varve_units::Lsn;

/// An image on its way from the base to the present.
struct Fold<'a> {
    image: Box<LeafImage>,
    /// LSN of the reference each entry holds.
    since: [Lsn; LEAF_ENTRIES],
    dead: &'a mut Vec<Dead>,
    lifetimes: Option<&'a Lifetimes>,
}

impl Fold<'_> {
    fn set(&mut self, index: u16, entry: Entry, placement: Placement, lsn: Lsn) {
        let old = self.image.entry(index).ppa();
        report(self.dead, old, self.since[usize::from(index)]);
        self.image.set(index, entry, placement);
        self.since[usize::from(index)] = lsn;
    }

    /// Applies a delta; tells what remains of it in the chain.
    fn step(&mut self, delta: Delta, lsn: Lsn) -> Option<Delta> {
        let index = delta.index();
        match delta.body() {
            DeltaBody::Put { entry, placement } => {
                let before = (self.image.entry(index).ppa(), self.image.placement(index));
                let tell = |lifetimes: &Lifetimes| lifetimes.tell((entry.ppa(), placement), before);
                let placement = self.lifetimes.map_or(placement, tell);
                self.set(index, entry, placement, lsn);
                return Some(Delta::put(index, entry, placement, lsn));
            }
            DeltaBody::Discard { zero, .. } => {
                let empty = if zero { Entry::ZERO } else { Entry::ABSENT };
                for at in index..delta.end() {
                    self.set(at, empty, Placement::default(), lsn);
                }
            }
            DeltaBody::Move {
                old,
                new,
                placement,
            } => {
                let found = self.image.entry(index);
                if !is_met(found.ppa(), old) {
                    report(self.dead, new, lsn);
                    return None;
                }
                let was = (old, self.image.placement(index));
                let class = placement.class();
                let learn = |lifetimes: &Lifetimes| lifetimes.moved(new, was, class);
                let placement = self.lifetimes.map_or(placement, learn);
                let entry = Entry::new(new, found.crc24());
                self.set(index, entry, placement, lsn);
                return Some(Delta::new(index, DeltaBody::Put { entry, placement }, lsn));
            }
        }
        Some(delta)
    }
}

impl Map {
    /// What to read to get the leaf's image; `None` if entries outside the chain are all absent.
    #[must_use]
    pub fn base(&self, key: LeafKey) -> Option<Base> {
        let leaf = self.leaves.find(key)?;
        if self.is_bare(leaf) {
            return None;
        }
        self.stored_base(leaf)
    }

    /// The image on media, also if the leaf is discarded and the image only awaits its clearing.
    #[must_use]
    pub fn stored(&self, key: LeafKey) -> Option<Base> {
        self.stored_base(self.leaves.find(key)?)
    }

    pub(super) fn stored_base(&self, leaf: u32) -> Option<Base> {
        let parent = self.leaves.head(leaf).parent;
        let (crc, through) = (parent.crc(), parent.through());
        parent.sector().map(|sector| Base {
            sector,
            crc,
            through,
        })
    }

    /// True if the leaf's image is cached.
    #[must_use]
    pub fn is_cached(&self, key: LeafKey) -> bool {
        let found = self.leaves.find(key);
        found.is_some_and(|leaf| self.leaves.head(leaf).image().is_some())
    }

    /// Folds the chain onto the image just read from `base`, where it stands, and caches a copy; reports every
    /// superseded place and the new place of every move that does not apply. Another image may be
    /// evicted. Does nothing if the image is cached already.
    ///
    /// # Errors
    /// The leaf has another base by now, or none.
    pub fn install(
        &mut self,
        key: LeafKey,
        base: Base,
        image: Box<LeafImage>,
        dead: &mut Vec<Dead>,
    ) -> Result<(), Stale> {
        let leaf = self.leaves.find(key).ok_or(Stale)?;
        if self.base(key) != Some(base) {
            return Err(Stale);
        }
        self.fold(leaf, image, base.through, dead);
        Ok(())
    }

    /// [`Map::install`] for a leaf without base: nothing is read.
    ///
    /// # Errors
    /// The leaf has a base, or does not exist.
    pub fn install_blank(&mut self, key: LeafKey, dead: &mut Vec<Dead>) -> Result<(), Stale> {
        let leaf = self.leaves.find(key).ok_or(Stale)?;
        if self.base(key).is_some() {
            return Err(Stale);
        }
        self.fold(leaf, Box::new(LeafImage::BLANK), self.floor(leaf), dead);
        Ok(())
    }

    /// Makes a leaf whose image is cached and in no log yet; a merge that follows at once writes it
    /// (`preload`).
    ///
    /// # Panics
    /// If the leaf exists, the slice is not here or `lsn` goes back.
    pub fn seed(&mut self, key: LeafKey, image: LeafImage, lsn: Lsn) {
        self.note_applied(self.slice_of(key), lsn);
        assert!(self.leaves.find(key).is_none(), "the leaf is new");
        let leaf = self.leaves.ensure(key);
        self.fold(leaf, Box::new(image), lsn, &mut Vec::new());
        self.touch(leaf);
    }

    /// Brings the image of a base to the present and caches a copy.
    pub(super) fn fold(
        &mut self,
        leaf: u32,
        image: Box<LeafImage>,
        through: Lsn,
        dead: &mut Vec<Dead>,
    ) {
        if self.leaves.head(leaf).image().is_some() {
            return;
        }
        self.set_counted(leaf, image.mapped());
        let applied = self.slice(self.leaves.slice(leaf)).applied;
        let lifetimes = self.lifetimes.clone();
        let mut fold = Fold {
            image,
            since: [through; LEAF_ENTRIES],
            dead,
            lifetimes: lifetimes.as_deref(),
        };
        let mut deltas = self.unroll(leaf);
        let mut places = 0;
        deltas.retain_mut(|delta| {
            let lsn = delta
                .lsn_within(applied)
                .expect("no delta is younger than its slice");
            match fold.step(*delta, lsn) {
                Some(judged) => *delta = judged,
                None => {
                    places += u64::from(delta.brings_place());
                    return false;
                }
            }
            true
        });
        places += drop_superseded(&mut deltas);
        let image = fold.image;
        self.rewrite(leaf, deltas, places);
        self.leaves.head_mut(leaf).chain.fresh = 0;
        let (slot, evicted) = self.cache.insert(leaf, &image);
        if let Some(loser) = evicted {
            self.seeing(loser, |map| map.leaves.head_mut(loser).image = NIL);
        }
        self.seeing(leaf, |map| map.leaves.head_mut(leaf).image = slot);
    }
}
