//! Cutting a gather into consecutive strips, front to back in one walk.
//!
//! [`Gather::cut`] looks at every segment each time; a gather of thousands of blocks cut into
//! hundreds of strips that way would cost their product.

use alloc::rc::Rc;
use varve_io::{Gather, Segment};
use varve_units::{BLOCK_BYTES, SECTOR_BYTES};

/// A gather and how much of it was cut off already.
pub(crate) struct Ribbon<'a> {
    segments: &'a [Segment],
    /// Bytes of the first segment that are gone.
    used: u64,
}

impl<'a> Ribbon<'a> {
    pub(crate) fn new(gather: &'a Gather) -> Self {
        Self {
            segments: gather.segments(),
            used: 0,
        }
    }

    /// Cuts off the next `bytes`, handing their segments to `push` in order. Memory is shared,
    /// except sectors of a metadata segment that a cut runs through.
    ///
    /// # Panics
    /// If the gather ends before that, or the cut runs through a block of data or a sector.
    pub(crate) fn take(&mut self, bytes: u64, mut push: impl FnMut(Segment)) {
        let mut missing = bytes;
        while missing > 0 {
            let (first, rest) = self.segments.split_first().expect("cut beyond the gather");
            let length = first.bytes() - self.used;
            let taken = length.min(missing);
            if taken > 0 {
                push(part(first, self.used, self.used + taken));
            }
            missing -= taken;
            self.used += taken;
            if taken == length {
                self.segments = rest;
                self.used = 0;
            }
        }
    }
}

/// Bytes `from..to` of a segment.
fn part(segment: &Segment, from: u64, to: u64) -> Segment {
    if from == 0 && to == segment.bytes() {
        return segment.clone();
    }
    match segment {
        Segment::Data(blocks, range) => {
            assert!(
                from.is_multiple_of(BLOCK_BYTES) && to.is_multiple_of(BLOCK_BYTES),
                "cut inside a block"
            );
            let start = range.start + (from / BLOCK_BYTES) as usize;
            let end = range.start + (to / BLOCK_BYTES) as usize;
            Segment::Data(Rc::clone(blocks), start..end)
        }
        Segment::Meta(sectors) => {
            assert!(
                from.is_multiple_of(SECTOR_BYTES) && to.is_multiple_of(SECTOR_BYTES),
                "cut inside a sector"
            );
            let (first, count) = (from / SECTOR_BYTES, (to - from) / SECTOR_BYTES);
            Segment::Meta(sectors.slice(first as usize, count as usize))
        }
    }
}
