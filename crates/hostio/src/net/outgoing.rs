//! What is sent in one go: pieces of several kinds, in order, without being copied together.

use std::ops::Range;
use std::rc::Rc;
use varve_io::Blocks;

enum Piece {
    Bytes(Vec<u8>),
    Blocks(Rc<Blocks>, Range<usize>),
}

/// Pieces to be sent one behind the other.
#[derive(Default)]
pub struct Outgoing {
    pieces: Vec<Piece>,
    bytes: usize,
}

impl Outgoing {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes at the end: headers, small answers.
    pub fn push(&mut self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.bytes += bytes.len();
        if !bytes.is_empty() {
            self.pieces.push(Piece::Bytes(bytes));
        }
    }

    /// Adds bytes `range` of blocks at the end; the blocks are shared, not copied.
    ///
    /// # Panics
    /// If the blocks are symbols or have no such bytes.
    pub fn push_blocks(&mut self, blocks: Rc<Blocks>, range: Range<usize>) {
        assert!(range.end <= blocks.bytes().len(), "bytes of the blocks");
        self.bytes += range.len();
        if !range.is_empty() {
            self.pieces.push(Piece::Blocks(blocks, range));
        }
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// True if there is nothing to send.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where the pieces lie, in order; none is empty.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Blocks(blocks, range) => &blocks.bytes()[range.clone()],
        })
    }
}
