//! Blocks that the map will be asked for: their leaves are found, and what will be read of them is
//! fetched, many at a time.
//!
//! A miss at each step from the table to the entry: the steps are taken for many blocks at a time,
//! because reads that do not depend on one another overlap, and one block's all depend on the one
//! before.

use super::cache::ImageCache;
use super::directory::Directory;
use super::pool::{DeltaPool, NIL};
use super::{LeafKey, Live, Map};
use varve_units::{LeafIndex, Ppa, VolumeId};

/// Blocks whose entries are fetched side by side. Arbitrary: more misses than a processor has in
/// flight, less than its first cache holds.
const AHEAD: usize = 32;
/// Blocks from which on no further records are looked at before these are changed. Arbitrary: what is
/// fetched of so many fits the first cache of a processor.
const ENOUGH: usize = 2 * AHEAD;
/// Blocks whose leaves are remembered until they are changed. Arbitrary: those of a record that moves what
/// a slice has in a stripe come behind nearly enough.
const EXPECTED_MAX: usize = 2 * ENOUGH;

/// A block on its way from its leaf's name to its entry.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The leaf's number, or [`NIL`].
    leaf: u32,
    /// The leaf's image, or [`NIL`].
    slot: u32,
    /// Newest node of the leaf's chain, or [`NIL`].
    node: u32,
    index: u16,
}

impl Block {
    const NONE: Self = Self {
        leaf: NIL,
        slot: NIL,
        node: NIL,
        index: 0,
    };

    /// A block, its leaf looked for.
    #[inline]
    fn find(leaves: &Directory, key: LeafKey, index: u16) -> Self {
        let (leaf, slot, node) = match leaves.look(key) {
            Some((leaf, head)) => (leaf, head.image, head.chain.newest()),
            None => (NIL, NIL, NIL),
        };
        Self {
            leaf,
            slot,
            node,
            index,
        }
    }
}

/// The leaf of no block.
const NO_KEY: LeafKey = LeafKey {
    volume: VolumeId(0),
    leaf: LeafIndex(0),
};

/// Reads what look-ups and changes of some blocks will.
fn fetch(blocks: &[Block], pool: &DeltaPool, cache: &ImageCache) {
    let mut bits = 0;
    for block in blocks {
        bits ^= u64::from(pool.behind(block.node));
        if block.slot != NIL {
            let image = cache.glance(block.slot);
            bits ^= image.entry(block.index).bits();
            bits ^= u64::from(image.placement(block.index).bits());
        }
    }
    // Reads of which nothing comes would be left out.
    core::hint::black_box(bits);
}

/// Reads the newest nodes of chains that tell of blocks whose leaves have no image here. Reads of images
/// wait for nothing, and need not be made ahead.
fn fetch_blind(blocks: &[Block], pool: &DeltaPool) {
    let blind = blocks.iter().filter(|block| block.slot == NIL);
    let bits = blind.fold(0, |bits, block| bits ^ pool.behind(block.node));
    core::hint::black_box(bits);
}

/// Blocks in the order in which changes will ask for their leaves, none of which is removed meanwhile.
#[derive(Debug)]
pub(super) struct Expected {
    blocks: [Block; EXPECTED_MAX],
    /// Which leaf each is of.
    keys: [LeafKey; EXPECTED_MAX],
    count: usize,
    /// The one asked for last.
    at: usize,
    /// Those before were fetched.
    fetched: usize,
}

impl Default for Expected {
    fn default() -> Self {
        Self {
            blocks: [Block::NONE; EXPECTED_MAX],
            keys: [NO_KEY; EXPECTED_MAX],
            count: 0,
            at: 0,
            fetched: 0,
        }
    }
}

impl Expected {
    pub(super) const fn clear(&mut self) {
        (self.count, self.at, self.fetched) = (0, 0, 0);
    }

    /// The number of a leaf that is expected, if it was there already.
    #[inline]
    fn next(&mut self, key: LeafKey) -> Option<u32> {
        let left = &self.keys[self.at..self.count];
        self.at += left.iter().position(|expected| *expected == key)?;
        let leaf = self.blocks[self.at].leaf;
        (leaf != NIL).then_some(leaf)
    }
}

impl Map {
    /// Has what look-ups of these blocks will read in the processor's cache.
    pub fn prefetch(&self, some: impl IntoIterator<Item = (LeafKey, u16)>) {
        let mut blocks = [Block::NONE; AHEAD];
        let mut count = 0;
        some.into_iter().for_each(|(key, index)| {
            if count == AHEAD {
                fetch(&blocks, &self.pool, &self.cache);
                count = 0;
            }
            blocks[count] = Block::find(&self.leaves, key, index);
            count += 1;
        });
        fetch(&blocks[..count], &self.pool, &self.cache);
    }

    /// Tells of each block whether it is the one at a place, or may be: whether [`Map::is_live`] does
    /// not say no.
    ///
    /// # Panics
    /// If an index is beyond the leaf, or `live` is not as long.
    pub fn perhaps_live<I>(&self, mut some: I, live: &mut [bool])
    where
        I: ExactSizeIterator<Item = (LeafKey, u16, Ppa)> + Clone,
    {
        assert_eq!(some.len(), live.len(), "each block has an answer");
        let mut blocks = [Block::NONE; AHEAD];
        for live in live.chunks_mut(AHEAD) {
            let blocks = &mut blocks[..live.len()];
            for (block, (key, index, _)) in blocks.iter_mut().zip(some.clone()) {
                *block = Block::find(&self.leaves, key, index);
            }
            fetch_blind(blocks, &self.pool);
            for (live, block) in live.iter_mut().zip(blocks) {
                let (.., ppa) = some.next().expect("as many as there are answers");
                *live = match (block.leaf, block.slot) {
                    (NIL, _) => false,
                    (leaf, NIL) => self.is_live_in(leaf, block.index, ppa) != Live::No,
                    (_, slot) => self.cache.get(slot).entry(block.index).ppa() == ppa,
                };
            }
        }
    }

    /// The blocks of [`Map::expect`] follow.
    pub fn begin_expecting(&mut self) {
        self.expected.clear();
    }

    /// True if what is expected should be changed before more is.
    #[must_use]
    pub const fn expects_enough(&self) -> bool {
        self.expected.count >= ENOUGH
    }

    /// A change of this block will follow, in the order of these calls and before the next cut.
    #[inline]
    pub fn expect(&mut self, key: LeafKey, index: u16) {
        let expected = &mut self.expected;
        if expected.count == EXPECTED_MAX {
            // The leaves of those fetched last are forgotten, and found again when they are asked for.
            expected.count -= AHEAD;
            expected.fetched = expected.count;
        }
        expected.blocks[expected.count] = Block::find(&self.leaves, key, index);
        expected.keys[expected.count] = key;
        expected.count += 1;
        if expected.count - expected.fetched == AHEAD {
            self.fetch_expected();
        }
    }

    /// Has what the changes of the blocks that are expected will read in the processor's cache.
    pub fn fetch_expected(&mut self) {
        let expected = &mut self.expected;
        let blocks = &expected.blocks[expected.fetched..expected.count];
        fetch(blocks, &self.pool, &self.cache);
        expected.fetched = expected.count;
    }

    /// The number of a leaf that a change asks for, if it exists.
    #[inline]
    pub(super) fn find_expected(&mut self, key: LeafKey) -> Option<u32> {
        match self.expected.next(key) {
            None => self.leaves.find(key),
            found => found,
        }
    }
}
