//! Buffers: owned runs of blocks and of sectors.

use crate::recycler::Home;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::OnceCell;
use varve_units::{BLOCK, SECTOR};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// One 4 KiB block in memory, aligned as direct I/O wants it.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub struct Block(pub [u8; BLOCK]);

/// A block of zeroes.
pub static ZEROES: Block = Block([0; BLOCK]);

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
    Symbols(Symbols),
}

/// Symbols that need no memory of their own: as many as fit where real blocks have their [`Memory`].
const FEW: usize = 4;

/// Symbols of blocks: most writes and reads are of few.
#[derive(Clone)]
enum Symbols {
    Few { count: u8, all: [u64; FEW] },
    Many(Vec<u64>),
}

impl Symbols {
    fn zeroed(count: usize) -> Self {
        if count <= FEW {
            Self::Few {
                count: count as u8,
                all: [0; FEW],
            }
        } else {
            Self::Many(vec![0; count])
        }
    }

    #[inline]
    fn as_slice(&self) -> &[u64] {
        match self {
            Self::Few { count, all } => &all[..usize::from(*count)],
            Self::Many(all) => all,
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [u64] {
        match self {
            Self::Few { count, all } => &mut all[..usize::from(*count)],
            Self::Many(all) => all,
        }
    }
}

/// Memory of real blocks; goes back to the home it came from, if it came from one.
///
/// **Invariants**: blocks that `held` does not reach, up to `count`, are zeroes; memory of a home
/// is held in full.
struct Memory {
    /// The first blocks, or more than `count`.
    held: Vec<Block>,
    /// Blocks in use, the first ones.
    count: usize,
    /// All blocks, if somebody asked for their bytes before all were held. Rare, so in a box:
    /// blocks are moved about much.
    #[expect(clippy::box_collection, reason = "a thin pointer is wanted here")]
    whole: OnceCell<Box<Vec<Block>>>,
    home: Option<&'static dyn Home>,
}

impl Memory {
    const fn new(held: Vec<Block>, count: usize, home: Option<&'static dyn Home>) -> Self {
        Self {
            held,
            count,
            whole: OnceCell::new(),
            home,
        }
    }

    fn blocks(&self) -> &[Block] {
        match self.held.get(..self.count) {
            Some(blocks) => blocks,
            None => self.whole.get_or_init(|| {
                let mut whole = zeroed(self.count);
                whole[..self.held.len()].clone_from_slice(&self.held);
                Box::new(whole)
            }),
        }
    }

    fn blocks_mut(&mut self) -> &mut [Block] {
        self.hold(self.count);
        &mut self.held[..self.count]
    }

    fn block(&self, index: usize) -> &Block {
        assert!(index < self.count, "a block of the run");
        self.held.get(index).unwrap_or(&ZEROES)
    }

    /// Holds the first `count` blocks at least.
    fn hold(&mut self, count: usize) {
        self.whole = OnceCell::new();
        if self.held.is_empty() && count == self.count {
            self.held = zeroed(count);
        } else if self.held.len() < count {
            self.held.reserve_exact(self.count - self.held.len());
            self.held.resize(count, ZEROES.clone());
        }
    }

    /// Copies `from` to `index` on. Memory behind what is held is not zeroed before.
    fn put(&mut self, index: usize, from: &[Block]) {
        assert!(index + from.len() <= self.count, "blocks of the run");
        if self.held.is_empty() {
            self.held.reserve_exact(self.count);
        }
        if index > self.held.len() {
            self.hold(index);
        }
        self.whole = OnceCell::new();
        let (over, behind) = from.split_at(from.len().min(self.held.len() - index));
        let into = &mut self.held[index..index + over.len()];
        into.as_mut_bytes().copy_from_slice(over.as_bytes());
        self.held.extend_from_slice(behind);
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        let Some(home) = self.home else {
            let held = &self.held[..self.held.len().min(self.count)];
            return Self::new(held.to_vec(), self.count, None);
        };
        let mut copy = Self::new(home.take(self.count), self.count, Some(home));
        let into = copy.blocks_mut().as_mut_bytes();
        into.copy_from_slice(self.blocks().as_bytes());
        copy
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(home) = self.home {
            home.give(core::mem::take(&mut self.held));
        }
    }
}

impl Blocks {
    /// `count` blocks of zeroes. Takes no memory before something else is written there: most are
    /// filled by a drive at once.
    #[must_use]
    pub const fn zeroed(count: usize) -> Self {
        Self(Content::Bytes(Memory::new(Vec::new(), count, None)))
    }

    /// `count` blocks of whatever the recycler's memory held before, for who fills them whole.
    #[must_use]
    pub fn recycled(count: usize, from: &'static dyn Home) -> Self {
        Self(Content::Bytes(Memory::new(
            from.take(count),
            count,
            Some(from),
        )))
    }

    /// `count` symbolic blocks of zeroes.
    #[must_use]
    pub fn elided(count: usize) -> Self {
        Self(Content::Symbols(Symbols::zeroed(count)))
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
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Content::Bytes(memory) => memory.count,
            Content::Symbols(symbols) => symbols.as_slice().len(),
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
    #[inline]
    #[must_use]
    pub fn block(&self, index: usize) -> BlockRef<'_> {
        match &self.0 {
            Content::Bytes(memory) => BlockRef::Bytes(&memory.block(index).0),
            Content::Symbols(symbols) => BlockRef::Symbol(symbols.as_slice()[index]),
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
            Content::Symbols(symbols) => symbols.as_slice(),
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
            Content::Symbols(symbols) => symbols.as_mut_slice(),
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
                let end = from_index + count;
                assert!(end <= from.count, "blocks of the run");
                if let Some(source) = from.held.get(from_index..end) {
                    into.put(index, source);
                } else {
                    for offset in 0..count {
                        let block = from.block(from_index + offset);
                        into.put(index + offset, core::slice::from_ref(block));
                    }
                }
            }
            (Content::Symbols(into), Content::Symbols(from)) => {
                let from = &from.as_slice()[from_index..from_index + count];
                into.as_mut_slice()[index..index + count].copy_from_slice(from);
            }
            _ => panic!("copy between real and elided blocks"),
        }
    }

    /// Copies `blocks`, real ones, to `index` on. Front to back this is the cheapest way to fill
    /// memory of zeroes.
    ///
    /// # Panics
    /// If the run is too short or elided.
    pub fn put(&mut self, index: usize, blocks: &[Block]) {
        match &mut self.0 {
            Content::Bytes(memory) => memory.put(index, blocks),
            Content::Symbols(_) => panic!("bytes for elided blocks"),
        }
    }

    /// Block `index`.
    ///
    /// # Panics
    /// If there is no such block or the run is elided.
    #[must_use]
    pub fn get(&self, index: usize) -> &Block {
        match &self.0 {
            Content::Bytes(memory) => memory.block(index),
            Content::Symbols(_) => panic!("bytes of elided blocks"),
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
                assert!(index + count <= memory.count, "blocks of the run");
                memory.whole = OnceCell::new();
                let end = memory.held.len().min(index + count);
                if let Some(blocks) = memory.held.get_mut(index..end) {
                    blocks.as_mut_bytes().fill(0);
                }
            }
            Content::Symbols(symbols) => symbols.as_mut_slice()[index..index + count].fill(0),
        }
    }
}

/// # Panics
/// If there is no such memory.
pub(crate) fn zeroed(count: usize) -> Vec<Block> {
    Block::new_vec_zeroed(count).expect("memory for a buffer within its limits")
}

/// Run of 512 B sectors of metadata: headers, leaves, checkpoint parts, labels.
///
/// Clones and slices share memory, so that a mirror sends the same to every member, and a drive in memory gives back
/// what it was given; who writes to shared sectors gets a copy. Sectors of zeroes take no memory before somebody asks for
/// their bytes: most are filled at once. Those that an engine writes all the time come from a [`crate::Supply`].
#[derive(Clone)]
pub struct Sectors {
    /// The first one in the memory.
    first: u32,
    count: u32,
    /// None as long as all are zeroes.
    memory: OnceCell<Arc<Held>>,
}

/// Memory of sectors; goes back to the home it came from, if it came from one.
struct Held {
    sectors: Vec<Sector>,
    home: Option<&'static dyn Home>,
}

impl Held {
    fn shared(sectors: Vec<Sector>) -> Arc<Self> {
        Arc::new(Self {
            sectors,
            home: None,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(home) = self.home {
            home.give_sectors(core::mem::take(&mut self.sectors));
        }
    }
}

impl Sectors {
    /// `count` sectors of zeroes.
    #[must_use]
    pub const fn zeroed(count: usize) -> Self {
        assert!(count <= u32::MAX as usize, "metadata of less than 2 TiB");
        Self {
            first: 0,
            count: count as u32,
            memory: OnceCell::new(),
        }
    }

    /// The sectors that hold `bytes`, the last one padded with zeroes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::of(Held::shared(sectors_of(bytes)))
    }

    /// `home`'s own, filled already.
    pub(crate) fn of_home(sectors: Vec<Sector>, home: &'static dyn Home) -> Self {
        let home = Some(home);
        Self::of(Arc::new(Held { sectors, home }))
    }

    fn of(memory: Arc<Held>) -> Self {
        let zeroes = Self::zeroed(memory.sectors.len());
        Self {
            memory: OnceCell::from(memory),
            ..zeroes
        }
    }

    /// `count` sectors that `write` fills; it finds zeroes. Memory that is nobody else's yet is written without asking
    /// for that, which would wait until all that was written before has left the processor.
    #[must_use]
    pub fn made(count: usize, write: impl FnOnce(&mut [u8])) -> Self {
        let mut memory = zeroed_sectors(count);
        write(memory.as_mut_slice().as_mut_bytes());
        Self::of(Held::shared(memory))
    }

    /// Number of sectors.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True for no sectors.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let zeroes = || Held::shared(zeroed_sectors(self.len()));
        let memory = self.memory.get_or_init(zeroes);
        memory.sectors[self.first as usize..][..self.len()].as_bytes()
    }

    /// All bytes, to be written.
    ///
    /// # Panics
    /// If there is no such memory.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.is_shared() {
            *self = Self::from_bytes(self.bytes());
        }
        let zeroes = || Held::shared(zeroed_sectors(self.len()));
        self.memory.get_or_init(zeroes);
        let memory = self.memory.get_mut().and_then(Arc::get_mut);
        let memory = memory.expect("it was made, and nobody else has it");
        memory.sectors[self.first as usize..][..self.count as usize].as_mut_bytes()
    }

    /// True if others have the same memory.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        let memory = self.memory.get();
        memory.is_some_and(|memory| Arc::strong_count(memory) > 1)
    }

    /// `count` of them from `first` on.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn slice(&self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.len(), "sectors of the run");
        let mut slice = Self::zeroed(count);
        if let Some(memory) = self.memory.get() {
            slice.first = self.first + first as u32;
            slice.memory = OnceCell::from(Arc::clone(memory));
        }
        slice
    }

    /// Makes all of them `bytes`. Memory is not zeroed before.
    ///
    /// # Panics
    /// If they have another length.
    pub fn fill(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len() * SECTOR, "bytes for every sector");
        if self.memory.get().is_some() && !self.is_shared() {
            self.bytes_mut().copy_from_slice(bytes);
        } else {
            *self = Self::from_bytes(bytes);
        }
    }
}

/// # Panics
/// If there is no such memory.
pub(crate) fn zeroed_sectors(count: usize) -> Vec<Sector> {
    Sector::new_vec_zeroed(count).expect("memory for a buffer within its limits")
}

fn sectors_of(bytes: &[u8]) -> Vec<Sector> {
    let (whole, rest) = bytes.as_chunks::<SECTOR>();
    let mut sectors = Vec::with_capacity(bytes.len().div_ceil(SECTOR));
    sectors.extend(whole.iter().map(|bytes| Sector(*bytes)));
    if !rest.is_empty() {
        let mut last = Sector([0; SECTOR]);
        last.0[..rest.len()].copy_from_slice(rest);
        sectors.push(last);
    }
    sectors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols are the same however many there are.
    #[test]
    fn few_symbols_are_like_many() {
        for count in 0..2 * FEW {
            let mut blocks = Blocks::elided(count);
            assert_eq!(
                (blocks.len(), blocks.symbols()),
                (count, &[0; 2 * FEW][..count])
            );
            for (index, symbol) in blocks.symbols_mut().iter_mut().enumerate() {
                *symbol = index as u64 + 1;
            }
            for first in 0..count {
                let part = blocks.extract(first, count - first);
                assert_eq!(part.symbols(), &blocks.symbols()[first..]);
                assert_eq!(part.block(0), BlockRef::Symbol(first as u64 + 1));
            }
            blocks.zero(count / 2, count - count / 2);
            let left = blocks.symbols().iter().filter(|symbol| **symbol != 0);
            assert_eq!(left.count(), count / 2);
        }
    }

    /// Sectors are the same however they came to be what they are.
    #[test]
    fn sectors_are_zeroes_until_they_are_filled() {
        let bytes: Vec<u8> = (0..2 * SECTOR + 7).map(|at| at as u8 | 1).collect();
        let padded = Sectors::from_bytes(&bytes);
        assert_eq!(padded.len(), 3);
        assert_eq!(padded.bytes()[..bytes.len()], bytes);
        assert_eq!(padded.bytes()[bytes.len()..], [0; SECTOR - 7]);
        let untouched = Sectors::zeroed(3);
        assert_eq!(untouched.clone().bytes(), [0; 3 * SECTOR]);
        let mut written = Sectors::zeroed(3);
        written.bytes_mut()[SECTOR] = 9;
        assert_eq!(written.bytes()[SECTOR..SECTOR + 2], [9, 0]);
        for mut into in [untouched, written] {
            into.fill(padded.bytes());
            assert_eq!(into.bytes(), padded.bytes());
        }
    }
    /// Slices and clones are the same, of slices too, and stay as they are when another is written.
    #[test]
    fn shared_sectors_stay_as_they_are() {
        let bytes: Vec<u8> = (0..5 * SECTOR).map(|at| (at / SECTOR) as u8).collect();
        let mut all = Sectors::from_bytes(&bytes);
        let middle = all.slice(1, 3);
        let mut last = middle.slice(1, 2);
        assert!(all.is_shared());
        assert_eq!(last.bytes(), &bytes[2 * SECTOR..4 * SECTOR]);
        let mut copy = last.clone();
        last.bytes_mut()[0] = 99;
        assert_eq!(last.bytes()[..2], [99, 2]);
        all.bytes_mut().fill(7);
        assert_eq!((middle.bytes()[0], copy.bytes()[0]), (1, 2));
        drop(middle);
        assert!(!copy.is_shared() && !all.is_shared());
        copy.bytes_mut()[SECTOR] = 55;
        assert_eq!((copy.bytes()[0], copy.bytes()[SECTOR]), (2, 55));
        copy.fill(&bytes[..2 * SECTOR]);
        assert_eq!(copy.bytes(), &bytes[..2 * SECTOR]);
        assert_eq!(Sectors::zeroed(3).slice(1, 2).bytes(), [0; 2 * SECTOR]);
    }
}
