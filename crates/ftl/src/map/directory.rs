//! Leaf heads in small pages, found by (volume, slice, page number).
//!
//! Leaf heads of a slice lie in pages of 16: the leaf's position within its slice is
//! `leaf / slices`, because each run of `slices` leaves has exactly one of every slice. Pages
//! exist only where a leaf was touched, so a huge empty volume costs nothing. A table with linear
//! probing and a fixed hash finds a page in one or two cache misses.
//!
//! **Invariants**: a page with no leaf does not exist. **Not here**: what a head means.

use super::LeafKey;
use super::head::LeafHead;
use super::pool::NIL;
use super::slab::Slab;
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_units::{LeafIndex, Lsn, SliceId, VolumeId};

/// Leaves of a page.
pub(super) const PAGE_LEAVES: usize = 16;

/// Which page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageKey {
    volume: VolumeId,
    number: u64,
    pub(super) slice: SliceId,
}

impl PageKey {
    /// The page of a leaf in a pool of `slices` slices, and which of its leaves it is.
    pub(super) fn place(key: LeafKey, slices: u16) -> (Self, u32) {
        let position = match slices.is_power_of_two() {
            true => key.leaf.0 >> slices.trailing_zeros(),
            false => key.leaf.0 / u64::from(slices),
        };
        let page = Self {
            volume: key.volume,
            number: position / PAGE_LEAVES as u64,
            slice: slice_of(key, slices),
        };
        (page, (position % PAGE_LEAVES as u64) as u32)
    }

    /// Where a table of so many places, a power of two and at least two, has the page if it can.
    ///
    /// A fixed mix, of which the upper bits are the good ones: pages of a volume and a slice follow one
    /// another, and so do slices, which multiplication by the golden ratio spreads evenly. Volumes follow
    /// one another too, and what they have must not fall in step: they are mixed first (splitmix64).
    pub(super) fn home(self, places: usize) -> usize {
        let mut volume = self.volume.0;
        volume = (volume ^ volume >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        volume = (volume ^ volume >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        volume ^= volume >> 31;
        let place = self.number.rotate_left(16) ^ u64::from(self.slice.0);
        let mixed = place
            .wrapping_add(volume)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (u64::BITS - places.trailing_zeros())) as usize
    }
}

/// `(leaf + volume) mod slices`.
fn slice_of(key: LeafKey, slices: u16) -> SliceId {
    let count = u64::from(slices);
    if slices.is_power_of_two() {
        return SliceId((key.leaf.0.wrapping_add(key.volume.0) & (count - 1)) as u16);
    }
    let sum = key.leaf.0 % count + key.volume.0 % count;
    SliceId(u16::try_from(sum % count).expect("less than the number of slices"))
}

#[derive(Debug)]
struct Page {
    key: PageKey,
    /// Where in its slice's list of pages it stands.
    listed: u32,
    /// Bit per leaf that exists; 0 in a free page.
    present: u16,
    /// LSN of the discard of each leaf marked `discarded`; only while there is one.
    discards: Option<Box<[Lsn; PAGE_LEAVES]>>,
    heads: [LeafHead; PAGE_LEAVES],
}

/// All leaf heads of a shard.
#[derive(Debug)]
pub(super) struct Directory {
    slices: u16,
    pages: Slab<Page, 64>,
    free: Vec<u32>,
    /// A power of two of places, at least two.
    table: Vec<u32>,
    /// The pages of each slice: what walks a slice must not walk the others.
    of_slice: Vec<Vec<u32>>,
    leaves: usize,
    discard_arrays: usize,
}

impl Directory {
    pub(super) fn new(slices: u16) -> Self {
        assert!(slices > 0, "a pool has slices");
        Self {
            slices,
            pages: Slab::new(),
            free: Vec::new(),
            table: alloc::vec![NIL; 16],
            of_slice: (0..slices).map(|_| Vec::new()).collect(),
            leaves: 0,
            discard_arrays: 0,
        }
    }

    /// `(leaf + volume) mod slices`.
    pub(super) fn slice_of(&self, key: LeafKey) -> SliceId {
        slice_of(key, self.slices)
    }

    /// Leaves that exist.
    pub(super) const fn len(&self) -> usize {
        self.leaves
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.bytes()
            + self.table.capacity() * size_of::<u32>()
            + self.of_slice.iter().map(Vec::capacity).sum::<usize>() * size_of::<u32>()
            + self.discard_arrays * size_of::<[Lsn; PAGE_LEAVES]>()
    }

    /// Number of the leaf, if it exists.
    pub(super) fn find(&self, key: LeafKey) -> Option<u32> {
        let (wanted, at) = self.place(key);
        let mask = self.table.len() - 1;
        let mut place = wanted.home(self.table.len());
        loop {
            let number = self.table[place];
            if number == NIL {
                return None;
            }
            let page = &self.pages[number];
            if page.key == wanted {
                let exists = page.present >> at & 1 == 1;
                return exists.then_some(number * PAGE_LEAVES as u32 + at);
            }
            place = (place + 1) & mask;
        }
    }

    /// The page of a leaf, most likely, and which of its leaves it is; for [`Directory::glance`].
    pub(super) fn guess(&self, key: LeafKey) -> (u32, u32) {
        let (page, at) = self.place(key);
        (self.table[page.home(self.table.len())], at)
    }

    /// A leaf's head, if there is one at the place of a guess.
    pub(super) fn glance(&self, page: u32, at: u32) -> Option<&LeafHead> {
        if page == NIL {
            return None;
        }
        let page = &self.pages[page];
        let head = &page.heads[at as usize];
        (page.present >> at & 1 == 1).then_some(head)
    }

    /// Number of the leaf; creates it empty if need be.
    pub(super) fn ensure(&mut self, key: LeafKey) -> u32 {
        let (page_key, at) = self.place(key);
        let page = match self.page(page_key) {
            Some(page) => page,
            None => self.create(page_key),
        };
        let found = &mut self.pages[page];
        if found.present >> at & 1 == 0 {
            found.present |= 1 << at;
            found.heads[at as usize] = LeafHead::EMPTY;
            self.leaves += 1;
        }
        page * PAGE_LEAVES as u32 + at
    }

    /// Makes a page with the leaves whose bits are in `present`, all empty. Number of the leaf, or
    /// the gap, that it begins with.
    ///
    /// # Panics
    /// If the page exists, or there are no leaves.
    pub(super) fn add_page(&mut self, key: PageKey, present: u16) -> u32 {
        assert!(present != 0, "a page with no leaf does not exist");
        assert!(self.page(key).is_none(), "the page is new");
        let page = self.create(key);
        self.pages[page].present = present;
        self.leaves += present.count_ones() as usize;
        page * PAGE_LEAVES as u32
    }

    /// Forgets a leaf.
    pub(super) fn remove(&mut self, leaf: u32) {
        self.set_discard(leaf, None);
        let (number, at) = Self::split(leaf);
        let page = &mut self.pages[number];
        assert!(page.present >> at & 1 == 1, "the leaf exists");
        page.present &= !(1 << at);
        self.leaves -= 1;
        if page.present == 0 {
            if page.discards.take().is_some() {
                self.discard_arrays -= 1;
            }
            self.unhash(number);
            self.unlist(number);
            self.free.push(number);
        }
    }

    pub(super) fn head(&self, leaf: u32) -> &LeafHead {
        let (page, at) = Self::split(leaf);
        &self.pages[page].heads[at]
    }

    pub(super) fn head_mut(&mut self, leaf: u32) -> &mut LeafHead {
        let (page, at) = Self::split(leaf);
        &mut self.pages[page].heads[at]
    }

    /// A leaf's head, and its slice.
    pub(super) fn head_and_slice(&mut self, leaf: u32) -> (&mut LeafHead, SliceId) {
        let (page, at) = Self::split(leaf);
        let page = &mut self.pages[page];
        (&mut page.heads[at], page.key.slice)
    }

    /// LSN of the discard that emptied a leaf whose old image is still to be cleared.
    pub(super) fn discard(&self, leaf: u32) -> Option<Lsn> {
        let (page, at) = Self::split(leaf);
        let discards = self.pages[page].discards.as_ref()?;
        (discards[at] != Lsn::ZERO).then_some(discards[at])
    }

    pub(super) fn set_discard(&mut self, leaf: u32, lsn: Option<Lsn>) {
        let (number, at) = Self::split(leaf);
        let page = &mut self.pages[number];
        if page.discards.is_none() && lsn.is_some() {
            page.discards = Some(Box::new([Lsn::ZERO; PAGE_LEAVES]));
            self.discard_arrays += 1;
        }
        if let Some(discards) = &mut page.discards {
            discards[at] = lsn.unwrap_or(Lsn::ZERO);
            if discards.iter().all(|&l| l == Lsn::ZERO) {
                page.discards = None;
                self.discard_arrays -= 1;
            }
        }
    }

    /// Which leaf has this number.
    pub(super) fn key(&self, leaf: u32) -> LeafKey {
        let (page, at) = Self::split(leaf);
        let PageKey {
            volume,
            number,
            slice,
        } = self.pages[page].key;
        let slices = u64::from(self.slices);
        let position = number * PAGE_LEAVES as u64 + at as u64;
        let rest = match slices.is_power_of_two() {
            true => u64::from(slice.0).wrapping_sub(volume.0) & (slices - 1),
            false => (u64::from(slice.0) + slices - volume.0 % slices) % slices,
        };
        LeafKey {
            volume,
            leaf: LeafIndex(position * slices + rest),
        }
    }

    pub(super) fn slice(&self, leaf: u32) -> SliceId {
        self.pages[Self::split(leaf).0].key.slice
    }

    /// The first leaf with a number of `from` or above that exists in a page that `wanted` picks.
    fn scan(&self, from: u32, wanted: impl Fn(&Page) -> bool) -> Option<u32> {
        let mut leaf = from;
        while (leaf as usize) < self.pages.len() * PAGE_LEAVES {
            let (number, at) = Self::split(leaf);
            let page = &self.pages[number];
            let left = page.present >> at;
            if left != 0 && wanted(page) {
                return Some(leaf + left.trailing_zeros());
            }
            leaf = (number + 1) * PAGE_LEAVES as u32;
        }
        None
    }

    /// All leaves, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.iter_from(0)
    }

    /// All leaves with a number of `from` or above.
    pub(super) fn iter_from(&self, mut from: u32) -> impl Iterator<Item = u32> {
        core::iter::from_fn(move || {
            let leaf = self.scan(from, |_| true)?;
            from = leaf + 1;
            Some(leaf)
        })
    }

    /// All leaves of a slice.
    pub(super) fn of_slice(&self, slice: SliceId) -> impl Iterator<Item = u32> {
        let pages = self.of_slice[usize::from(slice.0)].iter();
        pages.flat_map(|&number| {
            let present = self.pages[number].present;
            (0..PAGE_LEAVES as u32)
                .filter(move |at| present >> at & 1 == 1)
                .map(move |at| number * PAGE_LEAVES as u32 + at)
        })
    }

    /// The first leaf of a volume with a number of `from` or above.
    pub(super) fn next_of_volume(&self, volume: VolumeId, from: u32) -> Option<u32> {
        self.scan(from, |page| page.key.volume == volume)
    }

    /// The first leaf with a number of `from` or above whose old image is to be cleared.
    pub(super) fn next_discarded(&self, mut from: u32) -> Option<u32> {
        if self.discard_arrays == 0 {
            return None;
        }
        loop {
            let leaf = self.scan(from, |page| page.discards.is_some())?;
            if self.discard(leaf).is_some() {
                return Some(leaf);
            }
            from = leaf + 1;
        }
    }

    fn split(leaf: u32) -> (u32, usize) {
        (leaf / PAGE_LEAVES as u32, leaf as usize % PAGE_LEAVES)
    }

    fn place(&self, key: LeafKey) -> (PageKey, u32) {
        PageKey::place(key, self.slices)
    }

    fn page(&self, key: PageKey) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut at = key.home(self.table.len());
        while self.table[at] != NIL {
            if self.pages[self.table[at]].key == key {
                return Some(self.table[at]);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn create(&mut self, key: PageKey) -> u32 {
        let page = Page {
            key,
            listed: self.of_slice[usize::from(key.slice.0)].len() as u32,
            present: 0,
            discards: None,
            heads: [LeafHead::EMPTY; PAGE_LEAVES],
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.pages[number] = page;
                number
            }
            None => self.pages.push(page),
        };
        self.of_slice[usize::from(key.slice.0)].push(number);
        let pages = self.pages.len() - self.free.len();
        if pages * 4 > self.table.len() * 3 {
            let old = core::mem::take(&mut self.table);
            self.table = alloc::vec![NIL; old.len() * 2];
            old.into_iter()
                .filter(|&p| p != NIL)
                .for_each(|p| self.hash(p));
        }
        self.hash(number);
        number
    }

    fn hash(&mut self, page: u32) {
        let mask = self.table.len() - 1;
        let mut at = self.pages[page].key.home(self.table.len());
        while self.table[at] != NIL {
            at = (at + 1) & mask;
        }
        self.table[at] = page;
    }

    /// Takes a page out of its slice's list; the last one takes its place.
    fn unlist(&mut self, number: u32) {
        let (slice, at) = (self.pages[number].key.slice, self.pages[number].listed);
        let list = &mut self.of_slice[usize::from(slice.0)];
        let gone = list.swap_remove(at as usize);
        assert_eq!(gone, number, "a page knows its place");
        if let Some(&moved) = list.get(at as usize) {
            self.pages[moved].listed = at;
        }
    }

    /// Takes a page out of the table; pages behind it that probed past it move up.
    fn unhash(&mut self, page: u32) {
        let mask = self.table.len() - 1;
        let mut hole = self.pages[page].key.home(self.table.len());
        while self.table[hole] != page {
            hole = (hole + 1) & mask;
        }
        let mut at = (hole + 1) & mask;
        while self.table[at] != NIL {
            let home = self.pages[self.table[at]].key.home(self.table.len());
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.table[hole] = self.table[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.table[hole] = NIL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places looked at to find each of the pages that these volumes have, if each slice has so many of
    /// each: on average.
    fn looks(volumes: impl Iterator<Item = u64>, pages: u64) -> f64 {
        const SLICES: u16 = 256;
        let mut directory = Directory::new(SLICES);
        for volume in volumes.map(VolumeId) {
            let each = PAGE_LEAVES as u64 * u64::from(SLICES);
            for position in 0..pages * u64::from(SLICES) {
                let run = position / u64::from(SLICES) * each + position % u64::from(SLICES);
                let leaf = LeafIndex(run);
                directory.ensure(LeafKey { volume, leaf });
            }
        }
        let table = &directory.table;
        let taken = (0..).zip(table).filter(|(_, page)| **page != NIL);
        let far = taken.map(|(at, page): (usize, _)| {
            let home = directory.pages[*page].key.home(table.len());
            (at.wrapping_sub(home) & (table.len() - 1)) + 1
        });
        let (sum, count) = far.fold((0, 0), |(sum, count), far| (sum + far, count + 1));
        sum as f64 / f64::from(count)
    }

    /// Volumes with numbers that follow one another, as they are given, do not get into each other's way.
    #[test]
    fn pages_are_found_in_few_looks() {
        for (volumes, pages) in [
            (1, 1),
            (1, 96),
            (12, 1),
            (24, 1),
            (64, 1),
            (90, 1),
            (190, 1),
            (40, 4),
            (64, 2),
        ] {
            for (first, step) in [(1, 1), (2, 2), (1000, 1)] {
                let numbers = (0..volumes).map(|at| first + at * step);
                let found = looks(numbers, pages);
                assert!(
                    found < 3.0,
                    "{volumes} volumes of {pages} from {first}: {found}"
                );
            }
        }
    }
}
