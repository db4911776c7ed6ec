//! A fast tier that is one log: written in order, emptied chunk by chunk from its oldest end.

use crate::comparators::TIERS;

/// No block.
const NOBODY: u32 = u32::MAX;

/// A log of blocks.
pub(crate) struct FifoTier {
    chunk_blocks: u32,
    slots: Vec<u32>,
    next: u32,
}

impl FifoTier {
    /// A log of about `blocks` blocks; none if that is not a block for each chunk.
    pub(crate) fn new(blocks: u64) -> Option<Self> {
        let chunk_blocks =
            u32::try_from(blocks / u64::from(TIERS.chunks)).expect("blocks are counted in 32 bits");
        (chunk_blocks > 0).then(|| Self {
            chunk_blocks,
            slots: vec![NOBODY; chunk_blocks as usize * TIERS.chunks as usize],
            next: 0,
        })
    }

    /// The chunk that the next block begins, if it begins one: its slots, to be emptied before.
    pub(crate) fn due(&self) -> Option<std::ops::Range<u32>> {
        let is_first = self.next.is_multiple_of(self.chunk_blocks);
        is_first.then(|| self.next..self.next + self.chunk_blocks)
    }

    /// The block that was written last to a slot.
    pub(crate) fn owner(&self, slot: u32) -> Option<u32> {
        let owner = self.slots[slot as usize];
        (owner != NOBODY).then_some(owner)
    }

    /// Writes a block; returns its slot.
    pub(crate) fn append(&mut self, block: u32) -> u32 {
        let slot = self.next;
        self.slots[slot as usize] = block;
        self.next = (slot + 1) % self.slots.len() as u32;
        slot
    }
}
