//! Applying a change: append to the chain, keep the cached image current, report the dead.

use super::chain::{compact, is_met};
use super::directory::LeafMut;
use super::head::LeafHead;
use super::pool::{Chain, DeltaPool};
use super::slice::Slice;
use super::{CHAIN_MAX, Change, DELTA_AGE_MAX, Dead, LeafKey, Map, MapFull, report};
use crate::lifetime::Lifetimes;
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_format::{Delta, DeltaBody, Entry, LEAF_ENTRIES, LeafImage, MoveItem, Parent, Placement};
use varve_units::{Lsn, Ppa, SliceId, VolumeId};

/// Deltas of a leaf without base from which on it gets an image. Arbitrary.
const BLANK_FROM: usize = 16;

/// A leaf whose image is cached, with all that a change of it touches.
struct Cached<'a> {
    leaf: u32,
    head: &'a mut LeafHead,
    state: &'a mut Slice,
    image: &'a mut LeafImage,
    pool: &'a mut DeltaPool,
    scratch: &'a mut Vec<Delta>,
    lifetimes: Option<&'a Lifetimes>,
}

impl Cached<'_> {
    /// Room for so many more deltas.
    fn admits(&self, deltas: usize) -> Result<(), MapFull> {
        match deltas {
            1 => self.admits_one(),
            _ => self.pool.admits(self.head.chain, deltas),
        }
    }

    /// Room for one more delta.
    #[inline]
    fn admits_one(&self) -> Result<(), MapFull> {
        if usize::from(self.head.chain.len) >= CHAIN_MAX {
            Err(MapFull::Chain)
        } else if !self.pool.has_room_for_one(self.head.chain) {
            Err(MapFull::Deltas)
        } else {
            Ok(())
        }
    }

    /// Changes an entry, of which the place was `old`, and the chain, which has room. Inlined: a call costs as
    /// much as what it does.
    #[inline(always)]
    fn put(
        &mut self,
        (index, old): (u16, Ppa),
        (entry, placement): (Entry, Placement),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) {
        report(dead, old, self.state.applied);
        self.image.set(index, entry, placement);
        let delta = Delta::put(index, entry, placement, lsn);
        // A copy, written back once: fields that were just written one by one are not read as a whole.
        let mut chain = self.head.chain;
        self.pool.push(self.leaf, &mut chain, delta);
        if chain.wants_compacting() {
            chain = compact(self.pool, chain, self.scratch);
        }
        self.head.chain = chain;
        self.state.note_change(self.leaf, self.head, lsn);
    }

    /// Puts and moves: each entry can be seen. Hands back the first change that is a discard. Inlined: most
    /// records change one entry of a leaf, and what is known of it need not go through memory.
    #[inline(always)]
    fn change_each(
        mut self,
        changes: &mut impl Iterator<Item = (u16, Change)>,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<Option<(u16, Change)>, MapFull> {
        for (index, change) in changes {
            let found = self.image.entry(index);
            let new = match change {
                Change::Put { ppa, crc24, class } => {
                    assert_put(ppa);
                    let old = (found.ppa(), self.image.placement(index));
                    let lifetimes = self.lifetimes;
                    let learnt = lifetimes.map(|lifetimes| lifetimes.put(ppa, old));
                    let placement = learnt.unwrap_or(Placement::new(class, false));
                    (Entry::new(ppa, crc24), placement)
                }
                Change::Move { old, new, class } => {
                    assert_move(old, new);
                    if !is_met(found.ppa(), old) {
                        report(dead, new, lsn);
                        self.state.note_applied(lsn);
                        continue;
                    }
                    let was = (old, self.image.placement(index));
                    let lifetimes = self.lifetimes;
                    let learnt = lifetimes.map(|lifetimes| lifetimes.moved(new, was, class));
                    let placement = learnt.unwrap_or(Placement::new(class, true));
                    (Entry::new(new, found.crc24()), placement)
                }
                Change::Discard { .. } => return Ok(Some((index, change))),
            };
            self.admits_one()?;
            self.put((index, found.ppa()), new, lsn, dead);
            self.state.note_applied(lsn);
        }
        Ok(None)
    }
}

impl Map {
    /// Whether `deltas` more changes of this leaf are sure to find room.
    ///
    /// All changes of one record must be applied without a merge or a cut between them: ask for
    /// the whole record first.
    ///
    /// # Errors
    /// What is full.
    pub fn admits(&self, key: LeafKey, deltas: usize) -> Result<(), MapFull> {
        match self.leaves.find(key) {
            Some(leaf) => self.admits_more(leaf, deltas),
            None => self.admits_new(deltas),
        }
    }

    /// Nodes the delta pool can still give: so many changes of different leaves find room.
    #[must_use]
    pub fn room(&self) -> usize {
        self.pool.room()
    }

    /// From here on changes find room in the delta pool whatever its limit, as parts do that are
    /// loaded: for a start that has no room to merge. What redo adds is bounded by what was logged
    /// since a checkpoint, and there are no images yet that would take memory.
    pub fn lift_limit(&mut self) {
        self.pool.is_lifted = true;
    }

    /// The limit of the delta pool counts. Where it was overrun no change finds room until merges
    /// have brought the pool back below it.
    pub fn keep_limit(&mut self) {
        self.pool.is_lifted = false;
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
        let found = self.leaves.find(key);
        self.apply_found(key, found, (index, change), lsn, dead)
    }

    /// [`Map::apply`] by who has looked for the leaf.
    fn apply_found(
        &mut self,
        key: LeafKey,
        mut found: Option<u32>,
        change: (u16, Change),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        self.begin_record(self.slice_of(key), lsn);
        self.change_checked(key, &mut found, None, [change].into_iter(), lsn, dead)
    }

    /// [`Map::apply`] for the moves of one record, all of them of one slice.
    ///
    /// # Errors
    /// No room for one of them; those before it were applied.
    ///
    /// # Panics
    /// As [`Map::apply`].
    pub fn apply_moves(
        &mut self,
        (slice, volume): (SliceId, VolumeId),
        items: &[MoveItem],
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        self.begin_record(slice, lsn);
        for items in items.chunk_by(|item, next| item.lba.leaf() == next.lba.leaf()) {
            let leaf = items[0].lba.leaf();
            let key = LeafKey { volume, leaf };
            let mut found = self.find_expected(key);
            let mut moves = items.iter().map(|item| {
                let (old, new, class) = (item.old, item.new, item.class);
                (item.lba.index() as u16, Change::Move { old, new, class })
            });
            self.change_checked(key, &mut found, None, &mut moves, lsn, dead)?;
        }
        Ok(())
    }

    /// [`Map::apply`] for several changes of one leaf by one record; the leaf is found once.
    ///
    /// # Errors
    /// No room for all of them, each taken to need a delta; nothing was changed. A leaf that does
    /// not exist needs room if the first change is a put, as all then should be.
    ///
    /// # Panics
    /// As [`Map::apply`].
    pub fn apply_each<I>(
        &mut self,
        key: LeafKey,
        changes: I,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull>
    where
        I: IntoIterator<Item = (u16, Change), IntoIter: ExactSizeIterator>,
    {
        let mut changes = changes.into_iter();
        let count = changes.len();
        let mut found = self.find_expected(key);
        self.begin_record(self.slice_of(key), lsn);
        if found.is_some() {
            return self.change_checked(key, &mut found, Some(count), changes, lsn, dead);
        }
        let Some(first) = changes.next() else {
            return Ok(());
        };
        if matches!(first.1, Change::Put { .. }) {
            self.admits_new(count)?;
        }
        // Else there is nothing to move or discard.
        self.change_each(
            key,
            &mut found,
            [first].into_iter().chain(changes),
            lsn,
            dead,
        )
    }

    /// [`Map::apply_each`] for puts of blocks that follow one another, from the index `first` on:
    /// `(place, low 24 bits of the CRC-32C)` of each.
    ///
    /// # Errors
    /// As [`Map::apply_each`].
    ///
    /// # Panics
    /// As [`Map::apply`]; if the run goes beyond the leaf.
    pub fn apply_run(
        &mut self,
        key: LeafKey,
        first: u16,
        entries: &[(Ppa, u32)],
        class: u8,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        let end = usize::from(first) + entries.len();
        assert!(end <= LEAF_ENTRIES, "run beyond the leaf");
        let puts = entries.iter().enumerate().map(|(at, &(ppa, crc24))| {
            let put = Change::Put { ppa, crc24, class };
            (first + at as u16, put)
        });
        self.apply_each(key, puts, lsn, dead)
    }

    /// Checks that a record may be applied to leaves of a slice.
    fn begin_record(&self, slice: SliceId, lsn: Lsn) {
        let slice = self.slice(slice);
        assert!(
            lsn >= slice.applied || !self.is_strict,
            "records are applied in order"
        );
        let oldest = slice.oldest.unwrap_or(lsn);
        assert!(
            lsn.0.saturating_sub(oldest.0) < DELTA_AGE_MAX,
            "an old chain was not merged in time"
        );
    }

    /// Changes of one leaf by a record of a slice that may be applied, if the leaf has room for as many
    /// deltas as `count` says; notes the leaf in `found` if it is made.
    #[inline]
    fn change_checked(
        &mut self,
        key: LeafKey,
        found: &mut Option<u32>,
        count: Option<usize>,
        mut changes: impl Iterator<Item = (u16, Change)>,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        let Some(leaf) = *found else {
            return self.change_each(key, found, changes, lsn, dead);
        };
        let is_strict = self.is_strict;
        let (cached, floor) = self.cached(leaf);
        assert!(
            lsn > floor || !is_strict,
            "the leaf's state already includes the record"
        );
        let next = match cached {
            Some(cached) => {
                count.map_or(Ok(()), |count| cached.admits(count))?;
                cached.change_each(&mut changes, lsn, dead)?
            }
            None => {
                count.map_or(Ok(()), |count| self.admits_more(leaf, count))?;
                changes.next()
            }
        };
        let Some(change) = next else {
            return Ok(());
        };
        self.change(key, found, change, lsn, dead)?;
        self.slice_mut(self.slice_of(key)).note_applied(lsn);
        self.change_each(key, found, changes, lsn, dead)
    }

    /// The changes that follow the first that is a discard, or of a leaf whose image is not cached.
    fn change_each(
        &mut self,
        key: LeafKey,
        found: &mut Option<u32>,
        mut changes: impl Iterator<Item = (u16, Change)>,
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        loop {
            let cached = found.and_then(|leaf| self.cached(leaf).0);
            let next = match cached {
                Some(cached) => cached.change_each(&mut changes, lsn, dead)?,
                None => changes.next(),
            };
            let Some(change) = next else {
                return Ok(());
            };
            self.change(key, found, change, lsn, dead)?;
            self.slice_mut(self.slice_of(key)).note_applied(lsn);
        }
    }

    /// One change that is a discard, or of a leaf whose image is not cached.
    fn change(
        &mut self,
        key: LeafKey,
        found: &mut Option<u32>,
        (index, change): (u16, Change),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        match (change, *found) {
            (Change::Put { ppa, crc24, class }, known) => {
                assert_put(ppa);
                let leaf = match known {
                    Some(leaf) => {
                        self.admits_more(leaf, 1)?;
                        leaf
                    }
                    None => {
                        self.admits_new(1)?;
                        *found.insert(self.leaves.ensure(key))
                    }
                };
                let placement = self.placement_of_put(leaf, index, (ppa, class));
                self.put(leaf, index, (Entry::new(ppa, crc24), placement), lsn, dead);
            }
            (Change::Move { old, new, class }, known) => {
                assert_move(old, new);
                match known {
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
        Ok(())
    }

    /// A leaf to be changed, if its image is cached, and the LSN up to which records count no more for
    /// it.
    #[inline(always)]
    fn cached(&mut self, leaf: u32) -> (Option<Cached<'_>>, Lsn) {
        let LeafMut {
            head,
            slice,
            discard,
        } = self.leaves.leaf_mut(leaf);
        let floor = discard.unwrap_or(head.through());
        let Some(slot) = head.image() else {
            return (None, floor);
        };
        let state = self.slices[usize::from(slice.0)].as_mut();
        let cached = Cached {
            leaf,
            head,
            state: state.expect("the slice of a leaf is here"),
            image: self.cache.get_mut(slot),
            pool: &mut self.pool,
            scratch: &mut self.scratch,
            lifetimes: self.lifetimes.as_deref(),
        };
        (Some(cached), floor)
    }

    /// [`Map::apply`] for a record read from the log: does nothing if the leaf's base or the
    /// slice's loaded cut already includes it.
    ///
    /// A merge between two changes of one record would make the second look included: ask
    /// [`Map::admits`] for the whole record, and merge, before the first. Puts may make more leaves
    /// than there may be: leaves that a lost cut had dropped are still here.
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
        let mut found = self.leaves.find(key);
        let floor = found.map_or(Lsn::ZERO, |leaf| self.floor(leaf));
        if lsn <= slice.cut || lsn <= floor {
            return Ok(());
        }
        if matches!(change, Change::Put { .. }) && found.is_none() {
            if DeltaPool::need(Chain::EMPTY, 1) > self.pool.room() {
                return Err(MapFull::Deltas);
            }
            found = Some(self.leaves.ensure(key));
        }
        self.apply_found(key, found, (index, change), lsn, dead)
    }

    /// Makes a leaf, if it does not exist, for a put that follows at once. Asks for no limit: the
    /// leaf was within it when the put was admitted.
    pub fn make_leaf(&mut self, key: LeafKey) {
        self.leaves.ensure(key);
    }

    /// Room for more deltas of a leaf that exists.
    fn admits_more(&self, leaf: u32, deltas: usize) -> Result<(), MapFull> {
        self.pool.admits(self.leaves.head(leaf).chain, deltas)
    }

    /// Room for a leaf that does not exist, with so many deltas.
    fn admits_new(&self, deltas: usize) -> Result<(), MapFull> {
        if self.leaves.len() >= self.limits.leaves_max {
            Err(MapFull::Leaves)
        } else if deltas > CHAIN_MAX {
            Err(MapFull::Chain)
        } else if DeltaPool::need(Chain::EMPTY, deltas) > self.pool.room() {
            Err(MapFull::Deltas)
        } else {
            Ok(())
        }
    }

    /// The entry at `index` of a leaf whose image is not cached, if it can be seen.
    fn seen(&self, leaf: u32, index: u16) -> Option<(Entry, Placement)> {
        let absent = (Entry::ABSENT, Placement::default());
        let Some((_, delta)) = self.newest(leaf, index) else {
            return self.is_bare(leaf).then_some(absent);
        };
        match delta.body() {
            DeltaBody::Put { entry, placement } => Some((entry, placement)),
            DeltaBody::Discard { .. } => Some(absent),
            DeltaBody::Move { .. } => None,
        }
    }

    /// Placement state of a block that is put into a leaf whose image is not cached.
    fn placement_of_put(&self, leaf: u32, index: u16, (ppa, class): (Ppa, u8)) -> Placement {
        let Some(lifetimes) = &self.lifetimes else {
            return Placement::new(class, false);
        };
        match self.seen(leaf, index) {
            Some((old, was)) => lifetimes.put(ppa, (old.ppa(), was)),
            None => lifetimes.put_blind(ppa),
        }
    }

    /// Changes an entry of a leaf whose image is not cached.
    fn put(
        &mut self,
        leaf: u32,
        index: u16,
        (entry, placement): (Entry, Placement),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) {
        let head = self.leaves.head(leaf);
        let is_new = head.parent.sector().is_none() && self.leaves.discard(leaf).is_none();
        if is_new && usize::from(head.chain.len) >= BLANK_FROM {
            // A leaf filled from its start needs no I/O to have its image, and with it no scans
            // of an ever longer chain.
            let floor = self.floor(leaf);
            self.fold(leaf, Box::new(LeafImage::BLANK), floor, dead);
            let mut cached = self.cached(leaf).0.expect("just cached");
            let old = cached.image.entry(index).ppa();
            cached.put((index, old), (entry, placement), lsn, dead);
            return;
        }
        let delta = Delta::put(index, entry, placement, lsn);
        let newest = self.newest(leaf, index);
        if let Some((_, old)) = newest {
            // Whatever a conditional move comes to, its new place is superseded here.
            report(dead, old.ppa(), self.lsn(leaf, old));
        }
        self.supersede(leaf, newest, delta, lsn);
    }

    fn move_entry(
        &mut self,
        leaf: u32,
        index: u16,
        (old, new, class): (Ppa, Ppa, u8),
        lsn: Lsn,
        dead: &mut Vec<Dead>,
    ) -> Result<(), MapFull> {
        match self.seen(leaf, index) {
            Some((found, was)) if is_met(found.ppa(), old) => {
                self.admits_more(leaf, 1)?;
                let lifetimes = self.lifetimes.as_deref();
                let learnt = lifetimes.map(|lifetimes| lifetimes.moved(new, (old, was), class));
                let placement = learnt.unwrap_or(Placement::new(class, true));
                let moved = Entry::new(new, found.crc24());
                self.put(leaf, index, (moved, placement), lsn, dead);
            }
            Some(_) => report(dead, new, lsn),
            None => {
                self.admits_more(leaf, 1)?;
                let lifetimes = self.lifetimes.as_deref();
                let learnt = lifetimes.map(|lifetimes| lifetimes.moved_blind(new, class));
                let placement = learnt.unwrap_or(Placement::new(class, true));
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
            self.admits_more(leaf, 1)?;
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
            self.leaves.head_mut(leaf).set_switched(true);
            self.seeing(leaf, |map| map.leaves.set_discard(leaf, Some(lsn)));
            self.set_mapped(leaf, 0);
            self.touch(leaf);
        } else {
            self.set_parent(leaf, Parent::none(lsn), 0);
        }
    }
}

fn assert_put(ppa: Ppa) {
    assert!(ppa.is_place() || ppa == Ppa::LOST, "a put names a place");
}

fn assert_move(old: Ppa, new: Ppa) {
    assert!(old.is_place(), "a move starts from a place");
    assert!(
        new.is_place() || new == Ppa::LOST,
        "a move leads to a place"
    );
}
