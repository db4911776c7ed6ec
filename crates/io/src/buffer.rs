//! Buffers: owned runs of blocks and of sectors.

use crate::recycler::Home;
use alloc::vec;
use alloc::vec::Vec;
use varve_units::{BLOCK, SECTOR};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// One 4 KiB block in memory, aligned as direct I/O wants it.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub struct Block(pub [u8; BLOCK]);

/// One 512 B sector in memory, aligned as direct I/O wants it.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(512))]
pub struct Sector(pub [u8; SECTOR]);

/// What one block holds: its bytes, or in payload-elided runs a symbol that stands for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockRef<'a> {
    /// 4096 bytes.
    Bytes(&'a [u8]),
    /// Symbolic content; 0 stands for all zeroes.
    Symbol(u64),
}

/// Owned run of 4 KiB blocks of user data.
///
/// In payload-elided runs (design.md 5, the laboratory) each block is an 8-byte symbol instead of
/// 4096 bytes; addresses and lengths stay those of real blocks.
#[derive(Clone)]
pub struct Blocks(Content);

#[derive(Clone)]
enum Content {
    Bytes(Memory),
    Symbols(Vec<u64>),
}

/// Memory of real blocks; goes back to the home it came from, if it came from one.
struct Memory {
    blocks: Vec<Block>,
    /// Blocks in use, the first ones.
    count: usize,
    home: Option<&'static dyn Home>,
}

impl Memory {
    fn blocks(&self) -> &[Block] {
        &self.blocks[..self.count]
    }

    fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks[..self.count]
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        let Some(home) = self.home else {
            return Self {
                blocks: self.blocks().to_vec(),
                count: self.count,
                home: None,
            };
        };
        let mut copy = Self {
            blocks: home.take(self.count),
            count: self.count,
            home: Some(home),
        };
        let into = copy.blocks_mut().as_mut_bytes();
        into.copy_from_slice(self.blocks().as_bytes());
        copy
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(home) = self.home {
            home.give(core::mem::take(&mut self.blocks));
        }
    }
}

impl Blocks {
    /// `count` blocks of zeroes.
    #[must_use]
    pub fn zeroed(count: usize) -> Self {
        Self(Content::Bytes(Memory {
            blocks: zeroed(count),
            count,
            home: None,
        }))
    }

    /// `count` blocks of whatever the recycler's memory held before, for who fills them whole.
    #[must_use]
    pub fn recycled(count: usize, from: &'static dyn Home) -> Self {
        Self(Content::Bytes(Memory {
            blocks: from.take(count),
            count,
            home: Some(from),
        }))
    }

    /// `count` symbolic blocks of zeroes.
    #[must_use]
    pub fn elided(count: usize) -> Self {
        Self(Content::Symbols(vec![0; count]))
    }

    /// `count` blocks of zeroes, symbolic if `elided`.
    #[must_use]
    pub fn new(count: usize, elided: bool) -> Self {
        if elided {
            Self::elided(count)
        } else {
            Self::zeroed(count)
        }
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Content::Bytes(memory) => memory.count,
            Content::Symbols(symbols) => symbols.len(),
        }
    }

    /// True for no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the blocks are symbols.
    #[must_use]
    pub fn is_elided(&self) -> bool {
        matches!(self.0, Content::Symbols(_))
    }

    /// Content of block `index`.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn block(&self, index: usize) -> BlockRef<'_> {
        match &self.0 {
            Content::Bytes(memory) => BlockRef::Bytes(&memory.blocks()[index].0),
            Content::Symbols(symbols) => BlockRef::Symbol(symbols[index]),
        }
    }

    /// All bytes.
    ///
    /// # Panics
    /// If the blocks are symbols.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Content::Bytes(memory) => memory.blocks().as_bytes(),
            Content::Symbols(_) => panic!("bytes of elided blocks"),
        }
    }

    /// All bytes, to be written.
    ///
    /// # Panics
    /// If the blocks are symbols.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Content::Bytes(memory) => memory.blocks_mut().as_mut_bytes(),
            Content::Symbols(_) => panic!("bytes of elided blocks"),
        }
    }

    /// All symbols.
    ///
    /// # Panics
    /// If the blocks are bytes.
    #[must_use]
    pub fn symbols(&self) -> &[u64] {
        match &self.0 {
            Content::Symbols(symbols) => symbols,
            Content::Bytes(_) => panic!("symbols of real blocks"),
        }
    }

    /// All symbols, to be written.
    ///
    /// # Panics
    /// If the blocks are bytes.
    #[must_use]
    pub fn symbols_mut(&mut self) -> &mut [u64] {
        match &mut self.0 {
            Content::Symbols(symbols) => symbols,
            Content::Bytes(_) => panic!("symbols of real blocks"),
        }
    }

    /// Copies `count` blocks of `from`, starting at `from_index`, to `index` on.
    ///
    /// # Panics
    /// If either run is too short, or one is elided and the other not.
    pub fn copy_from(&mut self, index: usize, from: &Self, from_index: usize, count: usize) {
        match (&mut self.0, &from.0) {
            (Content::Bytes(into), Content::Bytes(from)) => {
                let source = &from.blocks()[from_index..from_index + count];
                into.blocks_mut()[index..index + count]
                    .as_mut_bytes()
                    .copy_from_slice(source.as_bytes());
            }
            (Content::Symbols(into), Content::Symbols(from)) => {
                into[index..index + count].copy_from_slice(&from[from_index..from_index + count]);
            }
            _ => panic!("copy between real and elided blocks"),
        }
    }

    /// A copy of `count` blocks from `index` on.
    ///
    /// # Panics
    /// If the run is too short.
    #[must_use]
    pub fn extract(&self, index: usize, count: usize) -> Self {
        let mut copy = Self::new(count, self.is_elided());
        copy.copy_from(0, self, index, count);
        copy
    }

    /// Sets `count` blocks from `index` on to zeroes.
    ///
    /// # Panics
    /// If the run is too short.
    pub fn zero(&mut self, index: usize, count: usize) {
        match &mut self.0 {
            Content::Bytes(memory) => {
                memory.blocks_mut()[index..index + count]
                    .as_mut_bytes()
                    .fill(0);
            }
            Content::Symbols(symbols) => symbols[index..index + count].fill(0),
        }
    }
}

/// # Panics
/// If there is no such memory.
pub(crate) fn zeroed(count: usize) -> Vec<Block> {
    Block::new_vec_zeroed(count).expect("memory for a buffer within its limits")
}

/// Owned run of 512 B sectors of metadata: headers, leaves, checkpoint parts, labels.
#[derive(Clone)]
pub struct Sectors(Vec<Sector>);

impl Sectors {
    /// `count` sectors of zeroes.
    #[must_use]
    pub fn zeroed(count: usize) -> Self {
        Self(Sector::new_vec_zeroed(count).expect("memory for a buffer within its limits"))
    }

    /// The sectors that hold `bytes`, the last one padded with zeroes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut sectors = Self::zeroed(bytes.len().div_ceil(SECTOR));
        sectors.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        sectors
    }

    /// Number of sectors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for no sectors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_slice().as_bytes()
    }

    /// All bytes, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice().as_mut_bytes()
    }
}
