//! A growing array that never moves its items.
//!
//! Memory is taken a segment at a time, so that a slab fills its limit lazily and growing it never
//! copies. A segment is an array, so that the place of an item in it needs no second look at a length.
//! **Not here**: which items are free (the user's own list).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Items in segments of `SEGMENT`, addressed by a 32-bit number.
#[derive(Debug)]
pub(super) struct Slab<T, const SEGMENT: usize> {
    segments: Vec<Box<[T; SEGMENT]>>,
    len: usize,
}

impl<T: Clone, const SEGMENT: usize> Slab<T, SEGMENT> {
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
        let number = u32::try_from(self.len).expect("a slab holds less than 2^32 items");
        if self.len == self.segments.len() * SEGMENT {
            // What fills the rest until it is pushed is of no account.
            let segment = alloc::vec![item; SEGMENT].into_boxed_slice();
            let segment = segment.try_into().ok();
            self.segments
                .push(segment.expect("as many as a segment has"));
        } else {
            self[number] = item;
        }
        self.len += 1;
        number
    }

    pub(super) fn bytes(&self) -> usize {
        self.segments.len() * SEGMENT * size_of::<T>()
    }
}

impl<T, const SEGMENT: usize> Index<u32> for Slab<T, SEGMENT> {
    type Output = T;
    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.segments[number as usize / SEGMENT][number as usize % SEGMENT]
    }
}

impl<T, const SEGMENT: usize> IndexMut<u32> for Slab<T, SEGMENT> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.segments[number as usize / SEGMENT][number as usize % SEGMENT]
    }
}
