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
    /// The page of a leaf in a pool of so many slices, and which of its leaves it is.
    #[inline]
    pub(super) fn place(key: LeafKey, slices: Slices) -> (Self, u32) {
        let (position, slice) = slices.place(key);
        let page = Self {
            volume: key.volume,
            number: position / PAGE_LEAVES as u64,
            slice,
        };
        (page, (position % PAGE_LEAVES as u64) as u32)
    }

    /// Where a table of so many places, a power of two and at least two, has the page if it can.
    ///
    /// A fixed mix, of which the upper bits are the good ones: pages of a volume and a slice follow one
    /// another, and so do slices, which multiplication by the golden ratio spreads evenly. Volumes follow
    /// one another too, and what they have must not fall in step: they are mixed first.
    #[inline]
    pub(super) fn home(self, places: usize) -> usize {
        let mut volume = self.volume.0.wrapping_mul(0xd6e8_feb8_6659_fd93);
        volume ^= volume >> 32;
        let place = self.number.rotate_left(16) ^ u64::from(self.slice.0);
        let mixed = place
            .wrapping_add(volume)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.rotate_left(places.trailing_zeros()) as usize & (places - 1)
    }
}

/// How many slices a pool has: what each leaf's number is divided by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slices {
    count: u16,
    /// The binary logarithm, if they are a power of two.
    bits: Option<u8>,
}

impl Slices {
    /// So many, at least one.
    pub(super) fn new(count: u16) -> Self {
        let bits = count.is_power_of_two();
        let bits = bits.then_some(count.trailing_zeros() as u8);
        Self { count, bits }
    }

    /// A leaf's position within its slice, and the slice: `(leaf + volume) mod slices`.
    #[inline]
    fn place(self, key: LeafKey) -> (u64, SliceId) {
        let count = u64::from(self.count);
        if let Some(bits) = self.bits {
            let slice = key.leaf.0.wrapping_add(key.volume.0) & (count - 1);
            return (key.leaf.0 >> bits, SliceId(slice as u16));
        }
        let sum = key.leaf.0 % count + key.volume.0 % count;
        let slice = u16::try_from(sum % count).expect("less than the number of slices");
        (key.leaf.0 / count, SliceId(slice))
    }

    /// The leaf of a volume that has this position within a slice.
    #[inline]
    fn leaf(self, volume: VolumeId, slice: SliceId, position: u64) -> LeafIndex {
        let count = u64::from(self.count);
        let rest = match self.bits {
            Some(_) => u64::from(slice.0).wrapping_sub(volume.0) & (count - 1),
            None => (u64::from(slice.0) + count - volume.0 % count) % count,
        };
        LeafIndex(position * count + rest)
    }
}

#[derive(Clone, Debug)]
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

impl Page {
    /// LSN of the discard of a leaf that is marked `discarded`.
    #[inline]
    fn discard(&self, at: usize) -> Option<Lsn> {
        let discards = self.discards.as_ref()?;
        (discards[at] != Lsn::ZERO).then_some(discards[at])
    }
}

/// A leaf, to be changed: what its page has of it.
pub(super) struct LeafMut<'a> {
    pub(super) head: &'a mut LeafHead,
    pub(super) slice: SliceId,
    /// LSN of the discard that emptied it, if its old image is still to be cleared.
    pub(super) discard: Option<Lsn>,
}

/// All leaf heads of a shard.
#[derive(Debug)]
pub(super) struct Directory {
    slices: Slices,
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
            slices: Slices::new(slices),
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
        self.slices.place(key).1
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
        self.look(key).map(|(leaf, _)| leaf)
    }

    /// Number and head of the leaf, if it exists.
    #[inline]
    pub(super) fn look(&self, key: LeafKey) -> Option<(u32, &LeafHead)> {
        let (wanted, at) = self.place(key);
        let mask = self.table.len() - 1;
        let mut place = wanted.home(self.table.len());
        loop {
            let number = self.table[place & mask];
            if number == NIL {
                return None;
            }
            let page = &self.pages[number];
            if page.key == wanted {
                let leaf = number * PAGE_LEAVES as u32 + at;
                let exists = page.present >> at & 1 == 1;
                return exists.then_some((leaf, &page.heads[at as usize % PAGE_LEAVES]));
            }
            place += 1;
        }
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

    #[inline]
    pub(super) fn head(&self, leaf: u32) -> &LeafHead {
        let (page, at) = Self::split(leaf);
        &self.pages[page].heads[at]
    }

    #[inline]
    pub(super) fn head_mut(&mut self, leaf: u32) -> &mut LeafHead {
        let (page, at) = Self::split(leaf);
        &mut self.pages[page].heads[at]
    }

    /// A leaf, to be changed.
    #[inline]
    pub(super) fn leaf_mut(&mut self, leaf: u32) -> LeafMut<'_> {
        let (page, at) = Self::split(leaf);
        let page = &mut self.pages[page];
        let discard = page.discard(at);
        LeafMut {
            head: &mut page.heads[at],
            slice: page.key.slice,
            discard,
        }
    }

    /// A leaf's head, and the LSN up to which records and leaf images count no more for it.
    #[inline]
    pub(super) fn head_and_floor(&self, leaf: u32) -> (&LeafHead, Lsn) {
        let (page, at) = Self::split(leaf);
        let page = &self.pages[page];
        let head = &page.heads[at];
        (head, page.discard(at).unwrap_or(head.through()))
    }

    /// LSN of the discard that emptied a leaf whose old image is still to be cleared.
    #[inline]
    pub(super) fn discard(&self, leaf: u32) -> Option<Lsn> {
        let (page, at) = Self::split(leaf);
        self.pages[page].discard(at)
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
        self.key_of(&self.pages[page], at)
    }

    /// Which leaf this one of a page is.
    #[inline]
    fn key_of(&self, page: &Page, at: usize) -> LeafKey {
        let PageKey {
            volume,
            number,
            slice,
        } = page.key;
        let position = number * PAGE_LEAVES as u64 + at as u64;
        let leaf = self.slices.leaf(volume, slice, position);
        LeafKey { volume, leaf }
    }

    /// A leaf by its number: which it is, its head, and the LSN of the discard that emptied it, if its
    /// old image is still to be cleared.
    #[inline]
    pub(super) fn leaf(&self, leaf: u32) -> (LeafKey, &LeafHead, Option<Lsn>) {
        let (page, at) = Self::split(leaf);
        let page = &self.pages[page];
        (self.key_of(page, at), &page.heads[at], page.discard(at))
    }

    #[inline]
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

    #[inline]
    fn split(leaf: u32) -> (u32, usize) {
        (leaf / PAGE_LEAVES as u32, leaf as usize % PAGE_LEAVES)
    }

    #[inline]
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
