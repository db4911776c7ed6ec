//! Memory of blocks that is used again.
//!
//! Fresh memory of aligned blocks costs an allocation and its zeroing, 200 ns a block; memory that
//! was dropped a moment ago is initialised and still in the cache.
//!
//! **Invariants**: memory on shelf *s* has 2^s blocks; all shelves together keep at most
//! `blocks_max` blocks.

use crate::buffer::{Block, zeroed};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Shelves: runs of up to 2^(SHELVES - 1) = 256 blocks, 1 MiB, are kept. Longer ones are rare and
/// cost little per block.
const SHELVES: usize = 9;

/// Keeps memory of dropped [`crate::Blocks`] for the next ones. One per reactor: single-threaded.
/// Clones share the same memory.
#[derive(Clone)]
pub struct Recycler(Rc<Shelves>);

struct Shelves {
    memory: RefCell<[Vec<Vec<Block>>; SHELVES]>,
    kept: Cell<usize>,
    blocks_max: usize,
}

impl Recycler {
    /// A recycler that keeps at most `blocks_max` blocks that are not in use.
    #[must_use]
    pub fn new(blocks_max: usize) -> Self {
        Self(Rc::new(Shelves {
            memory: RefCell::default(),
            kept: Cell::new(0),
            blocks_max,
        }))
    }

    /// Blocks kept that are not in use.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.0.kept.get()
    }

    /// At least `count` blocks of any content.
    pub(crate) fn take(&self, count: usize) -> Vec<Block> {
        let shelf = shelf(count);
        let kept = self.0.memory.borrow_mut().get_mut(shelf).and_then(Vec::pop);
        match kept {
            Some(blocks) => {
                self.0.kept.set(self.0.kept.get() - blocks.len());
                blocks
            }
            None if shelf < SHELVES => zeroed(1 << shelf),
            None => zeroed(count),
        }
    }

    /// Memory that [`Recycler::take`] gave is no longer in use.
    pub(crate) fn give(&self, blocks: Vec<Block>) {
        let kept = self.0.kept.get() + blocks.len();
        if kept > self.0.blocks_max {
            return;
        }
        if let Some(shelf) = self.0.memory.borrow_mut().get_mut(shelf(blocks.len())) {
            shelf.push(blocks);
            self.0.kept.set(kept);
        }
    }
}

/// The shelf for runs of `count` blocks; none of that number exists if they are too long.
fn shelf(count: usize) -> usize {
    count.max(1).next_power_of_two().trailing_zeros() as usize
}
