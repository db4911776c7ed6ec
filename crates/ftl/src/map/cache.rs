//! The image cache: a bounded slab of leaf images, all clean, evicted by CLOCK.
//!
//! **Not here**: which leaf has which slot (the leaf's head holds it; the slot names the leaf).

use super::pool::NIL;
use super::slab::Slab;
use alloc::vec::Vec;
use core::cell::Cell;
use varve_format::LeafImage;

#[derive(Debug)]
struct Owner {
    leaf: u32,
    used: Cell<bool>,
}

impl Owner {
    /// Writes only what changes: most images in use are marked.
    fn note_use(&self) {
        if !self.used.get() {
            self.used.set(true);
        }
    }
}

/// Cached images of a shard.
#[derive(Debug)]
pub(super) struct ImageCache {
    images: Slab<LeafImage, 16>,
    owners: Vec<Owner>,
    images_max: usize,
    free: Vec<u32>,
    hand: usize,
}

impl ImageCache {
    pub(super) fn new(images_max: usize) -> Self {
        assert!(images_max > 0, "a map needs room for one image");
        assert!(images_max < NIL as usize, "images are numbered by 32 bits");
        Self {
            images: Slab::new(),
            owners: Vec::new(),
            images_max,
            free: Vec::new(),
            hand: 0,
        }
    }

    /// The image in `slot`; marks it used.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> &LeafImage {
        self.owners[slot as usize].note_use();
        &self.images[slot]
    }

    /// The image in `slot`, to change it; marks it used.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut LeafImage {
        self.owners[slot as usize].note_use();
        &mut self.images[slot]
    }

    /// The image in `slot`; does not mark it used.
    #[inline]
    pub(super) fn glance(&self, slot: u32) -> &LeafImage {
        &self.images[slot]
    }

    /// Stores a copy of an image; tells its slot and the leaf that lost it, if one did.
    pub(super) fn insert(&mut self, leaf: u32, image: &LeafImage) -> (u32, Option<u32>) {
        let owner = Owner {
            leaf,
            used: Cell::new(true),
        };
        if self.free.is_empty() && self.images.len() < self.images_max {
            self.owners.push(owner);
            return (self.images.push(image.clone()), None);
        }
        let (slot, evicted) = match self.free.pop() {
            Some(slot) => (slot, None),
            None => self.victim(),
        };
        self.images[slot].clone_from(image);
        self.owners[slot as usize] = owner;
        (slot, evicted)
    }

    /// Forgets the image in `slot`.
    pub(super) fn remove(&mut self, slot: u32) {
        self.owners[slot as usize].leaf = NIL;
        self.free.push(slot);
    }

    /// The leaf that the slot belongs to.
    pub(super) fn owner(&self, slot: u32) -> u32 {
        self.owners[slot as usize].leaf
    }

    /// Images held.
    pub(super) fn len(&self) -> usize {
        self.images.len() - self.free.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.images.bytes() + self.owners.capacity() * size_of::<Owner>()
    }

    fn victim(&mut self) -> (u32, Option<u32>) {
        loop {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.owners.len();
            let owner = &self.owners[slot];
            if !owner.used.replace(false) {
                let number = u32::try_from(slot).expect("images are numbered by 32 bits");
                return (number, Some(owner.leaf));
            }
        }
    }
}
