//! What a drive can be asked.

use crate::buffer::{Blocks, Sectors};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_units::{BLOCK_BYTES, SECTOR_BYTES};

/// One piece of a write: shared, so that a mirror sends the same memory to every member.
#[derive(Clone)]
pub enum Segment {
    /// Sectors of metadata.
    Meta(Sectors),
    /// A range of blocks of user data.
    Data(Rc<Blocks>, Range<usize>),
}

impl Segment {
    /// Length on the drive, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Meta(sectors) => sectors.len() as u64 * SECTOR_BYTES,
            Self::Data(_, range) => range.len() as u64 * BLOCK_BYTES,
        }
    }
}

/// The pieces of one write, contiguous on the drive in this order.
#[derive(Clone, Default)]
pub struct Gather {
    segments: Vec<Segment>,
    bytes: u64,
}

impl Gather {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing yet, with room for so many pieces.
    #[must_use]
    pub fn with_capacity(pieces: usize) -> Self {
        Self {
            segments: Vec::with_capacity(pieces),
            bytes: 0,
        }
    }

    /// Adds a piece at the end. Blocks that follow the last piece in its memory lengthen it.
    pub fn push(&mut self, segment: Segment) {
        match segment {
            Segment::Data(blocks, range) => self.push_blocks(&blocks, &range),
            Segment::Meta(sectors) => {
                self.bytes += sectors.len() as u64 * SECTOR_BYTES;
                self.segments.push(Segment::Meta(sectors));
            }
        }
    }

    /// [`Gather::push`] of a range of blocks.
    #[inline]
    pub fn push_blocks(&mut self, blocks: &Rc<Blocks>, range: &Range<usize>) {
        self.bytes += range.len() as u64 * BLOCK_BYTES;
        if let Some(Segment::Data(last, before)) = self.segments.last_mut()
            && Rc::ptr_eq(last, blocks)
            && before.end == range.start
        {
            before.end = range.end;
            return;
        }
        let segment = Segment::Data(Rc::clone(blocks), range.clone());
        self.segments.push(segment);
    }

    /// Adds sectors at the end.
    pub fn push_meta(&mut self, sectors: Sectors) {
        self.push(Segment::Meta(sectors));
    }

    /// Adds all blocks of a run at the end.
    pub fn push_data(&mut self, blocks: Blocks) {
        let range = 0..blocks.len();
        self.push(Segment::Data(Rc::new(blocks), range));
    }

    /// The pieces, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Length on the drive, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The pieces of the byte range `from..from + length`, sharing the same memory.
    ///
    /// # Panics
    /// If the range ends inside a sector of metadata or a block of data, or beyond the gather.
    #[must_use]
    pub fn cut(&self, from: u64, length: u64) -> Self {
        assert!(from + length <= self.bytes, "cut beyond the gather");
        let mut cut = Self::new();
        let mut at = 0;
        for segment in &self.segments {
            let start = at.max(from);
            let end = (at + segment.bytes()).min(from + length);
            if start < end {
                cut.push(cut_segment(segment, start - at, end - at));
            }
            at += segment.bytes();
        }
        cut
    }
}

/// Bytes `from..to` of one segment.
fn cut_segment(segment: &Segment, from: u64, to: u64) -> Segment {
    match segment {
        Segment::Meta(sectors) => {
            assert!(
                from.is_multiple_of(SECTOR_BYTES) && to.is_multiple_of(SECTOR_BYTES),
                "cut inside a sector"
            );
            let (first, count) = (from / SECTOR_BYTES, (to - from) / SECTOR_BYTES);
            Segment::Meta(sectors.slice(first as usize, count as usize))
        }
        Segment::Data(blocks, range) => {
            assert!(
                from.is_multiple_of(BLOCK_BYTES) && to.is_multiple_of(BLOCK_BYTES),
                "cut inside a block"
            );
            let start = range.start + (from / BLOCK_BYTES) as usize;
            let end = range.start + (to / BLOCK_BYTES) as usize;
            Segment::Data(Rc::clone(blocks), start..end)
        }
    }
}

/// Memory a read fills; its length is the length of the read.
pub enum Target {
    /// Blocks of user data.
    Data(Blocks),
    /// Sectors of metadata.
    Meta(Sectors),
}

impl Target {
    /// Length on the drive, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Data(blocks) => blocks.len() as u64 * BLOCK_BYTES,
            Self::Meta(sectors) => sectors.len() as u64 * SECTOR_BYTES,
        }
    }
}

/// A placement handle: writes under one handle belong together, those of different handles are to die
/// apart. A drive that has fewer takes it for its last one, and one without placement has one.
///
/// # Source
/// NVM Express base specification, Flexible Data Placement: an index into the namespace's list of
/// placement handles.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Handle(pub u8);

/// One command to a drive. Offsets are bytes from the drive's start, multiples of its LBA size.
pub enum Command {
    /// Fill `into` from `offset` on.
    ///
    /// `copy` names one of the drive's independent ways to read (0 the usual one; a plain drive
    /// has only that; a mirror has one per member; a parity array rebuilds the block from the
    /// others). The caller tries the next when the content fails its check.
    Read {
        /// Byte offset.
        offset: u64,
        /// Memory to fill.
        into: Target,
        /// Which way to read, below [`crate::DriveInfo::copies`].
        copy: u8,
    },
    /// Write the gather from `offset` on. Not durable before a later flush, unless the drive has
    /// no volatile cache.
    Write {
        /// Byte offset.
        offset: u64,
        /// What to write.
        gather: Gather,
        /// What it belongs to: see [`crate::DriveInfo::handles`].
        handle: Handle,
    },
    /// Write content that was read and verified another way back to the copy that failed.
    Repair {
        /// Byte offset.
        offset: u64,
        /// What to write.
        gather: Gather,
        /// The copy that failed.
        copy: u8,
    },
    /// Everything whose write completed before this was submitted becomes durable.
    Flush,
    /// The range is no longer needed. A hint: it may read as anything afterwards.
    Discard {
        /// Byte offset.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

/// What a successful command returns.
pub enum Done {
    /// A read: the memory, filled.
    Read(Target),
    /// Anything else.
    Nothing,
}
