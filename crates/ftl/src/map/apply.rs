//! Applying a change: append to the chain, keep the cached image current, report the dead.

use super::chain::{is_met, need};
use super::pool::{Chain, DeltaPool};
use super::{CHAIN_MAX, Change, DELTA_AGE_MAX, Dead, LeafKey, Map, MapFull, report};
use alloc::vec::Vec;
use varve_format::{Delta, DeltaBody, Entry, LEAF_ENTRIES, Parent, Placement};
use varve_units::{Lsn, Ppa};

impl Map {
    /// Whether `deltas` more changes of this leaf are sure to find room.
    ///
    /// All changes of one record must be applied without a merge or a cut between them: ask for
    /// the whole record first.
    ///
    /// # Errors
    /// What is full.
    pub fn admits(&self, key: LeafKey, deltas: usize) -> Result<(), MapFull> {
        let found = self.leaves.find(key);
        let chain = found.map_or(Chain::EMPTY, |leaf| self.leaves.head(leaf).chain);
        if found.is_none() && self.leaves.len() >= self.limits.leaves_max {
            Err(MapFull::Leaves)
        } else if usize::from(chain.len) + deltas > CHAIN_MAX {
            Err(MapFull::Chain)
        } else if DeltaPool::need(chain, deltas) > self.pool.room() {
            Err(MapFull::Deltas)
        } else {
            Ok(())
        }
    }

    /// Nodes the delta pool can still give: so many changes of different leaves find room.
    #[must_use]
    pub fn room(&self) -> usize {
        self.pool.room()
    }

    /// Applies a change made by the record `lsn`; reports the places seen to lose their reference.
    ///
    /// Discards of a whole leaf, and of leaves without any block, always find room.
    ///
    /// # Errors
    /// No room; nothing was changed.
    ///
    /// # Panics
    /// If the slice is not here, if `lsn` goes back, or if the leaf's state already includes it
    /// (a merge or a discard of the leaf came between two changes of one record), if a chain's
    /// oldest delta is [`DELTA_AGE_MAX`] behind, if an index, run or class is out of range.
    pub fn apply(
        &mut self,
        key: LeafKey,
        index: u16,
        change: Change,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        let slice = self.slice(self.slice_of(key));
        assert!(lsn >= slice.applied, "records are applied in order");
        let oldest = slice.oldest.unwrap_or(lsn);
        assert!(
            lsn.0 - oldest.0 < DELTA_AGE_MAX,
            "an old chain was not merged in time"
        );
        let found = self.leaves.find(key);
        if let Some(leaf) = found {
            assert!(
                lsn > self.floor(leaf),
                "the leaf's state already includes the record"
            );
        }
        match (change, found) {
            (Change::Put { ppa, crc24, class }, _) => {
                assert!(ppa.is_place() || ppa == Ppa::LOST, "a put names a place");
                self.admits(key, 1)?;
                let leaf = self.leaves.ensure(key);
                let placement = Placement::new(class, false);
                self.put(leaf, index, (Entry::new(ppa, crc24), placement), lsn, dead);
            }
            (Change::Move { old, new, class }, found) => {
                assert!(old.is_place(), "a move starts from a place");
                assert!(
                    new.is_place() || new == Ppa::LOST,
                    "a move leads to a place"
                );
                match found {
                    Some(leaf) => {
                        self.move_entry(leaf, index, (old, new, class), lsn, dead)?;
                    }
                    None => report(dead, new, lsn),
                }
            }
            (Change::Discard { count, zero }, Some(leaf)) => {
                self.discard(leaf, index, (count, zero), lsn, dead)?;
            }
            (Change::Discard { .. }, None) => {}
        }
        let slice = self.slice_of(key);
        self.slice_mut(slice).applied = lsn;
        Ok(())
    }

    /// [`Map::apply`] for a record read from the log: does nothing if the leaf's base or the
    /// slice's loaded cut already includes it.
    ///
    /// A merge between two changes of one record would make the second look included: ask
    /// [`Map::admits`] for the whole record, and merge, before the first.
    ///
    /// # Errors
    /// No room; nothing was changed.
    ///
    /// # Panics
    /// As [`Map::apply`].
    pub fn redo(
        &mut self,
        key: LeafKey,
        index: u16,
        change: Change,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        let slice = self.slice(self.slice_of(key));
        let floor = self
            .leaves
            .find(key)
            .map_or(Lsn::ZERO, |leaf| self.floor(leaf));
        if lsn <= slice.cut || lsn <= floor {
            return Ok(());
        }
        self.apply(key, index, change, lsn, dead)
    }

    /// Room for one more delta of a leaf that exists.
    fn admits_one(&self, leaf: u32) -> Result<(), MapFull> {
        let chain = self.leaves.head(leaf).chain;
        if usize::from(chain.len) >= CHAIN_MAX {
            Err(MapFull::Chain)
        } else if need(chain) > self.pool.room() {
            Err(MapFull::Deltas)
        } else {
            Ok(())
        }
    }

    /// The entry at `index` and an LSN at which it was in force, if it can be seen.
    fn seen(&self, leaf: u32, index: u16) -> Option<(Entry, Lsn)> {
        let head = self.leaves.head(leaf);
        if let Some(slot) = head.image() {
            let applied = self.slice(self.leaves.slice(leaf)).applied;
            return Some((self.cache.get(slot).entry(index), applied));
        }
        let Some((_, delta)) = self.newest(leaf, index, usize::MAX) else {
            return self
                .is_bare(leaf)
                .then_some((Entry::ABSENT, head.through()));
        };
        match delta.body() {
            DeltaBody::Put { entry, .. } => Some((entry, self.lsn(leaf, delta))),
            DeltaBody::Discard { .. } => Some((Entry::ABSENT, self.lsn(leaf, delta))),
            DeltaBody::Move { .. } => None,
        }
    }

    fn put(
        &mut self,
        leaf: u32,
        index: u16,
        (entry, placement): (Entry, Placement),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) {
        if let Some((old, since)) = self.seen(leaf, index) {
            report(dead, old.ppa(), since);
        } else if let Some((_, unjudged)) = self.newest(leaf, index, usize::MAX) {
            // Whatever a conditional move comes to, its new place is superseded here.
            report(dead, unjudged.ppa(), self.lsn(leaf, unjudged));
        }
        if let Some(slot) = self.leaves.head(leaf).image() {
            self.cache.get_mut(slot).set(index, entry, placement);
        }
        let delta = Delta::new(index, DeltaBody::Put { entry, placement }, lsn);
        self.enter(leaf, delta, lsn);
    }

    fn move_entry(
        &mut self,
        leaf: u32,
        index: u16,
        (old, new, class): (Ppa, Ppa, u8),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        let placement = Placement::new(class, true);
        match self.seen(leaf, index) {
            Some((found, _)) if is_met(found.ppa(), old) => {
                self.admits_one(leaf)?;
                let moved = Entry::new(new, found.crc24());
                self.put(leaf, index, (moved, placement), lsn, dead);
            }
            Some(_) => report(dead, new, lsn),
            None => {
                self.admits_one(leaf)?;
                let body = DeltaBody::Move {
                    old,
                    new,
                    placement,
                };
                self.push(leaf, Delta::new(index, body, lsn), lsn);
            }
        }
        Ok(())
    }

    fn discard(
        &mut self,
        leaf: u32,
        index: u16,
        (count, zero): (u16, bool),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        let delta = Delta::new(index, DeltaBody::Discard { count, zero }, lsn);
        let whole = usize::from(count) == LEAF_ENTRIES;
        if !whole {
            self.admits_one(leaf)?;
        }
        let slot = self.leaves.head(leaf).image();
        if let Some(slot) = slot {
            let applied = self.slice(self.leaves.slice(leaf)).applied;
            let image = self.cache.get_mut(slot);
            let empty = if zero && !whole {
                Entry::ZERO
            } else {
                Entry::ABSENT
            };
            for at in index..index + count {
                report(dead, image.entry(at).ppa(), applied);
                image.set(at, empty, Placement::default());
            }
        }
        let reports = if slot.is_some() { None } else { Some(dead) };
        let covers = |d: Delta, _| index <= d.index() && d.end() <= index + count;
        self.prune(leaf, reports, covers);
        if whole {
            self.discard_leaf(leaf, lsn);
        } else {
            self.push(leaf, delta, lsn);
        }
        Ok(())
    }

    /// All entries of the leaf became absent at `lsn`; its chain is empty.
    fn discard_leaf(&mut self, leaf: u32, lsn: Lsn) {
        let kept = self.leaves.discard(leaf).is_some();
        let unseen = kept || self.leaves.head(leaf).image().is_none();
        if unseen && self.leaves.head(leaf).parent.sector().is_some() {
            self.leaves.head_mut(leaf).switched = true;
            self.leaves.set_discard(leaf, Some(lsn));
            self.set_mapped(leaf, 0);
            self.touch(leaf);
        } else {
            self.set_parent(leaf, Parent::none(lsn), 0);
        }
    }
}
