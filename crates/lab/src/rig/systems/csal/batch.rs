//! What is done behind a host's write.

use super::reuse::{Life, Reuse};
use varve_units::BLOCK_BYTES;

/// Blocks that go to places behind one another.
pub(super) struct Batch {
    first: u32,
    blocks: u32,
    /// Placement handle it is written under.
    handle: u8,
    /// What has to be read: whether of the fast tier, first block, blocks.
    sources: Vec<(bool, u32, u32)>,
    /// Pages of the map that name its blocks, in their order, each as often as another one came between.
    pages: Vec<u32>,
    /// On a zoned drive, what it needs of zones: first of the one it goes to.
    lives: Vec<Life>,
}

/// Something to be done behind.
pub(super) enum Work {
    Move(Batch),
    Discard { first: u32, count: u32 },
    Reset(Life),
}

impl Batch {
    /// An empty one that begins at a place.
    pub(super) const fn at(first: u32, handle: u8) -> Self {
        Self {
            first,
            blocks: 0,
            handle,
            sources: Vec::new(),
            pages: Vec::new(),
            lives: Vec::new(),
        }
    }

    /// One block more, from a slot of the fast tier or a place of the dense one, and the page of the map that names it.
    pub(super) fn add(&mut self, is_fast: bool, from: u32, page: u32) {
        self.blocks += 1;
        if self.pages.last() != Some(&page) {
            self.pages.push(page);
        }
        match self.sources.last_mut() {
            Some((fast, first, blocks)) if *fast == is_fast && *first + *blocks == from => {
                *blocks += 1;
            }
            _ => self.sources.push((is_fast, from, 1)),
        }
    }

    /// It needs a zone as it is decided to be now.
    pub(super) fn uses(&mut self, reuse: &mut Reuse, zone: u32) {
        let life = reuse.life(zone);
        if !self.lives.contains(&life) {
            self.lives.push(life);
            reuse.begin(life);
        }
    }

    pub(super) fn is_use_of(&self, life: Life) -> bool {
        self.lives.contains(&life)
    }

    /// True if the zone it goes to is ready for it.
    pub(super) fn is_due(&self, reuse: &Reuse) -> bool {
        self.lives.first().is_none_or(|life| reuse.is_begun(*life))
    }

    /// It has been carried out.
    pub(super) fn end(&self, reuse: &mut Reuse) {
        self.lives.iter().for_each(|life| reuse.end(*life));
    }

    /// Placement handle it is written under.
    pub(super) const fn handle(&self) -> u8 {
        self.handle
    }

    /// Its blocks.
    pub(super) const fn blocks(&self) -> usize {
        self.blocks as usize
    }

    /// What has to be read.
    pub(super) fn sources(&self) -> &[(bool, u32, u32)] {
        &self.sources
    }

    /// Pages of the map that are changed for it.
    pub(super) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Its blocks of the fast tier.
    pub(super) fn fast_blocks(&self) -> u64 {
        let fast = self.sources.iter().filter(|(is_fast, ..)| *is_fast);
        fast.map(|(.., blocks)| u64::from(*blocks)).sum()
    }

    /// Where it goes, in bytes: first, and how many.
    pub(super) fn place(&self) -> (u64, u64) {
        let bytes = u64::from(self.blocks) * BLOCK_BYTES;
        (u64::from(self.first) * BLOCK_BYTES, bytes)
    }
}
