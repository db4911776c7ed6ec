//! Memory of blocks that is used again.
//!
//! Fresh memory of aligned blocks costs an allocation and its zeroing, 200 ns a block; memory that
//! was dropped a moment ago is initialised and still in the cache.
//!
//! **Invariants**: memory on shelf *s* has 2^s blocks; all shelves together keep at most
//! `blocks_max` blocks.

use crate::buffer::{Block, zeroed};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Shelves: runs of up to 2^(SHELVES - 1) = 256 blocks, 1 MiB, are kept. Longer ones are rare and
/// cost little per block.
const SHELVES: usize = 9;

/// Where memory of [`crate::Blocks`] comes from and goes back to. Blocks wander between reactors,
/// so whoever implements this serves all of them: with one [`Recycler`] per thread, say.
pub trait Home: Sync {
    /// At least `count` blocks of any content.
    fn take(&self, count: usize) -> Vec<Block>;

    /// Memory that [`Home::take`] gave, perhaps to another reactor, is no longer in use.
    fn give(&self, blocks: Vec<Block>);
}

/// Keeps memory of dropped blocks for the next ones; single-threaded.
pub struct Recycler {
    memory: RefCell<[Vec<Vec<Block>>; SHELVES]>,
    kept: Cell<usize>,
    blocks_max: usize,
}

impl Recycler {
    /// A recycler that keeps at most `blocks_max` blocks that are not in use.
    #[must_use]
    pub const fn new(blocks_max: usize) -> Self {
        Self {
            memory: RefCell::new([const { Vec::new() }; SHELVES]),
            kept: Cell::new(0),
            blocks_max,
        }
    }

    /// Blocks kept that are not in use.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.get()
    }

    /// At least `count` blocks of any content.
    #[must_use]
    pub fn take(&self, count: usize) -> Vec<Block> {
        let shelf = shelf(count);
        let kept = self.memory.borrow_mut().get_mut(shelf).and_then(Vec::pop);
        match kept {
            Some(blocks) => {
                self.kept.set(self.kept.get() - blocks.len());
                blocks
            }
            None if shelf < SHELVES => zeroed(1 << shelf),
            None => zeroed(count),
        }
    }

    /// Memory that [`Recycler::take`] gave, this one's or another's, is no longer in use.
    pub fn give(&self, blocks: Vec<Block>) {
        let kept = self.kept.get() + blocks.len();
        if kept > self.blocks_max {
            return;
        }
        if let Some(shelf) = self.memory.borrow_mut().get_mut(shelf(blocks.len())) {
            shelf.push(blocks);
            self.kept.set(kept);
        }
    }
}

/// The shelf for runs of `count` blocks; none of that number exists if they are too long.
fn shelf(count: usize) -> usize {
    count.max(1).next_power_of_two().trailing_zeros() as usize
}
