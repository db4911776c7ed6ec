//! Memory of blocks and sectors that is used again.
//!
//! Fresh memory of aligned blocks costs an allocation and its zeroing, 200 ns a block; memory that
//! was dropped a moment ago is initialised and still in the cache.
//!
//! **Invariants**: memory of blocks on shelf *s* has 2^s of them, of sectors *s*; all shelves together keep at most
//! as many as they may.

use crate::buffer::{Block, Sector, zeroed, zeroed_sectors};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Shelves: runs of up to 2^(SHELVES - 1) = 256 blocks, 1 MiB, are kept. Longer ones are rare and
/// cost little per block.
const SHELVES: usize = 9;

/// Shelves of sectors: one for each length up to 16 KiB. What the engine writes all the time is shorter: headers of
/// batches, images of leaves, areas of stripes, parts of checkpoints. Each has the memory it needs, no more: a drive in
/// memory keeps it.
const SECTOR_SHELVES: usize = 33;

/// Where memory of [`crate::Blocks`] and [`crate::Sectors`] comes from and goes back to. Both wander between reactors,
/// so whoever implements this serves all of them: with one [`Recycler`] per thread, say.
pub trait Home: Sync {
    /// At least `count` blocks of any content.
    fn take(&self, count: usize) -> Vec<Block>;

    /// Memory that [`Home::take`] gave, perhaps to another reactor, is no longer in use.
    fn give(&self, blocks: Vec<Block>);

    /// `count` sectors of any content.
    fn take_sectors(&self, count: usize) -> Vec<Sector>;

    /// Memory that [`Home::take_sectors`] gave, perhaps to another reactor, is no longer in use.
    fn give_sectors(&self, sectors: Vec<Sector>);
}

/// Keeps memory of dropped blocks and sectors for the next ones; single-threaded.
pub struct Recycler {
    blocks: Shelves<Block, SHELVES>,
    sectors: Shelves<Sector, SECTOR_SHELVES>,
}

/// Memory that is not in use, by length.
struct Shelves<T, const COUNT: usize> {
    memory: RefCell<[Vec<Vec<T>>; COUNT]>,
    kept: Cell<usize>,
    most: usize,
}

impl<T, const COUNT: usize> Shelves<T, COUNT> {
    const fn new(most: usize) -> Self {
        Self {
            memory: RefCell::new([const { Vec::new() }; COUNT]),
            kept: Cell::new(0),
            most,
        }
    }

    fn take(&self, shelf: usize) -> Option<Vec<T>> {
        let memory = self.memory.borrow_mut().get_mut(shelf)?.pop()?;
        self.kept.set(self.kept.get() - memory.len());
        Some(memory)
    }

    fn give(&self, shelf: usize, memory: Vec<T>) {
        let kept = self.kept.get() + memory.len();
        if kept > self.most {
            return;
        }
        if let Some(shelf) = self.memory.borrow_mut().get_mut(shelf) {
            shelf.push(memory);
            self.kept.set(kept);
        }
    }
}

impl Recycler {
    /// A recycler that keeps at most `blocks_max` blocks and `sectors_max` sectors that are not in use.
    #[must_use]
    pub const fn new(blocks_max: usize, sectors_max: usize) -> Self {
        Self {
            blocks: Shelves::new(blocks_max),
            sectors: Shelves::new(sectors_max),
        }
    }

    /// Blocks kept that are not in use.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.blocks.kept.get()
    }

    /// Sectors kept that are not in use.
    #[must_use]
    pub fn kept_sectors(&self) -> usize {
        self.sectors.kept.get()
    }

    /// At least `count` blocks of any content.
    #[must_use]
    pub fn take(&self, count: usize) -> Vec<Block> {
        let shelf = shelf(count);
        match self.blocks.take(shelf) {
            Some(blocks) => blocks,
            None if shelf < SHELVES => zeroed(1 << shelf),
            None => zeroed(count),
        }
    }

    /// Memory that [`Recycler::take`] gave, this one's or another's, is no longer in use.
    pub fn give(&self, blocks: Vec<Block>) {
        self.blocks.give(shelf(blocks.len()), blocks);
    }

    /// `count` sectors of any content.
    #[must_use]
    pub fn take_sectors(&self, count: usize) -> Vec<Sector> {
        let kept = self.sectors.take(count);
        kept.unwrap_or_else(|| zeroed_sectors(count))
    }

    /// Memory that [`Recycler::take_sectors`] gave, this one's or another's, is no longer in use.
    pub fn give_sectors(&self, sectors: Vec<Sector>) {
        self.sectors.give(sectors.len(), sectors);
    }
}

/// The shelf for runs of `count` blocks; none of that number exists if they are too long.
fn shelf(count: usize) -> usize {
    count.max(1).next_power_of_two().trailing_zeros() as usize
}
