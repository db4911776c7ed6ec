//! Blocks on their way to a stripe, and their order in what a stripe is made of and told in.

use alloc::rc::Rc;
use varve_format::{MoveItem, P2lEntry};
use varve_io::{Blocks, Gather, Segment};
use varve_units::{Lba, Lsn, Ppa, SliceId, VolumeId};

/// A verified block on its way.
pub(crate) struct Item {
    pub(crate) volume: VolumeId,
    pub(crate) lba: Lba,
    pub(crate) old: Ppa,
    pub(crate) birth: Lsn,
    pub(crate) crc: u32,
    pub(crate) class: u8,
    pub(crate) data: (Rc<Blocks>, usize),
}

impl Item {
    /// What the P2L of its stripe says of it.
    pub(super) fn entry(&self) -> P2lEntry {
        P2lEntry {
            volume: self.volume,
            lba: self.lba,
            birth: self.birth,
            crc: self.crc,
        }
    }

    /// What the record of its move says of it.
    pub(super) const fn moved_to(&self, new: Ppa) -> MoveItem {
        MoveItem {
            lba: self.lba,
            old: self.old,
            new,
            class: self.class,
        }
    }

    /// True if it is block `index` of this memory.
    fn is_at(&self, blocks: &Rc<Blocks>, index: usize) -> bool {
        self.data.1 == index && Rc::ptr_eq(&self.data.0, blocks)
    }
}

/// A block of a stripe among those that move, slice by slice and in the order of the stripe. One word, because
/// sorting them is much of what a move takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

impl Turn {
    const INDEX_BITS: u32 = 32;

    pub(super) fn new(slice: SliceId, index: usize) -> Self {
        let index = index as u64;
        assert!(index >> Self::INDEX_BITS == 0, "blocks of one stripe");
        Self(u64::from(slice.0) << Self::INDEX_BITS | index)
    }

    /// Of the block.
    pub(super) const fn slice(self) -> SliceId {
        SliceId((self.0 >> Self::INDEX_BITS) as u16)
    }

    /// Of the block in its stripe.
    pub(super) const fn index(self) -> usize {
        (self.0 & u32::MAX as u64) as usize
    }
}

/// Adds the blocks of items to a write, in one piece what was read in one.
pub(super) fn push_blocks<'a>(gather: &mut Gather, items: impl Iterator<Item = &'a Item>) {
    let mut items = items.peekable();
    while let Some(item) = items.next() {
        let (blocks, first) = &item.data;
        let mut end = first + 1;
        while items.next_if(|next| next.is_at(blocks, end)).is_some() {
            end += 1;
        }
        gather.push(Segment::Data(Rc::clone(blocks), *first..end));
    }
}
