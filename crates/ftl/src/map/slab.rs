//! A growing array that never moves its items.
//!
//! Memory is taken a segment at a time, so that a slab fills its limit lazily and growing it never
//! copies. **Not here**: which items are free (the user's own list).

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Items in segments of `SEGMENT`, addressed by a 32-bit number.
#[derive(Debug)]
pub(super) struct Slab<T, const SEGMENT: usize> {
    segments: Vec<Vec<T>>,
    len: usize,
}

impl<T, const SEGMENT: usize> Slab<T, SEGMENT> {
    pub(super) const fn new() -> Self {
        Self {
            segments: Vec::new(),
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Appends an item and tells its number.
    pub(super) fn push(&mut self, item: T) -> u32 {
        if self.len == self.segments.len() * SEGMENT {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        let number = u32::try_from(self.len).expect("a slab holds less than 2^32 items");
        self.segments[self.len / SEGMENT].push(item);
        self.len += 1;
        number
    }

    pub(super) fn bytes(&self) -> usize {
        self.segments.len() * SEGMENT * size_of::<T>()
    }
}

impl<T, const SEGMENT: usize> Index<u32> for Slab<T, SEGMENT> {
    type Output = T;
    fn index(&self, number: u32) -> &T {
        &self.segments[number as usize / SEGMENT][number as usize % SEGMENT]
    }
}

impl<T, const SEGMENT: usize> IndexMut<u32> for Slab<T, SEGMENT> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.segments[number as usize / SEGMENT][number as usize % SEGMENT]
    }
}
