//! A drive in memory: completes every command at once, has no volatile cache.
//!
//! Memory is taken in large pieces when it is first written, and never given back before the
//! last drive over it goes. Symbols of payload-elided blocks stand side by side in memory of their
//! own, one for each 4 KiB of the drive in which a block begins: what is written as symbols is read
//! as symbols.
//!
//! Writes go past the processor's cache: nobody reads them soon, and what is in use stays in it.

use crate::memory::Piece;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use varve_io::{Command, Completion, Done, Drive, DriveInfo, Gather, Segment, Target};
use varve_units::BLOCK;

/// Bytes of one piece of memory. Arbitrary: many huge pages, few pieces.
const PIECE: usize = 64 << 20;

/// The smallest unit in which the system gives memory.
const PAGE: usize = 4096;

/// A read that begins less than so many bytes behind the end of the one before goes on with it: who
/// empties a unit skips what is dead. Arbitrary: some dead blocks.
const GAP_MAX: u64 = 32 << 10;

/// Bytes a drive has moved since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Written, repairs included.
    pub written: u64,
    /// Read.
    pub read: u64,
}

/// The memory of a drive: any number of reactors have a [`RamDrive`] on it.
#[derive(Clone)]
pub struct RamMemory(Arc<Inner>);

struct Inner {
    info: DriveInfo,
    pieces: Box<[OnceLock<Piece>]>,
    /// The block that begins in each 4 KiB, once there is one anywhere: of two that begin in the same 4 KiB the later
    /// one overwrote the other.
    symbols: OnceLock<Box<[Symbol]>>,
    /// What each drive over this memory has moved.
    counts: Mutex<Vec<Arc<Counts>>>,
}

/// A payload-elided block. Relaxed accesses do: what is written and read at once has no defined content.
#[derive(Default)]
struct Symbol {
    value: AtomicU64,
    /// One more than the byte at which it begins; 0 for no block.
    begin: AtomicU64,
}

impl Symbol {
    fn set(&self, offset: u64, value: u64) {
        self.value.store(value, Ordering::Relaxed);
        self.begin.store(offset + 1, Ordering::Relaxed);
    }

    /// What the block that begins there holds; zeroes if none does.
    fn get(&self, offset: u64) -> u64 {
        if self.begin.load(Ordering::Relaxed) == offset + 1 {
            self.value.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Forgets the block if it begins among these bytes.
    fn forget(&self, bytes: &Range<u64>) {
        let begin = self.begin.load(Ordering::Relaxed);
        if begin > bytes.start && begin <= bytes.end {
            self.begin.store(0, Ordering::Relaxed);
        }
    }
}

/// What one drive has moved, in bytes. On cache lines of its own: each drive counts every command.
///
/// Statistics: no other memory depends on them, so relaxed accesses do.
#[repr(align(128))]
#[derive(Default)]
struct Counts {
    written: AtomicU64,
    read: AtomicU64,
}

impl Counts {
    /// To be called by the drive alone, which is on one thread.
    fn note(&self, written: u64, read: u64) {
        let add = |to: &AtomicU64, by: u64| {
            to.store(to.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        };
        add(&self.written, written);
        add(&self.read, read);
    }
}

/// A drive in memory, as one reactor has it.
pub struct RamDrive {
    memory: RamMemory,
    counts: Arc<Counts>,
    /// Where the last read ended.
    last_end: Cell<u64>,
    /// Its counters have one writer: it stays on its thread.
    alone: PhantomData<Rc<()>>,
}

impl RamMemory {
    /// Memory of a drive of `bytes` zeroes.
    ///
    /// # Panics
    /// If `bytes` is no multiple of `lba_bytes`, or that is neither 512 nor 4096.
    #[must_use]
    pub fn new(bytes: u64, lba_bytes: u32) -> Self {
        assert!(
            matches!(lba_bytes, 512 | 4096),
            "an LBA has 512 or 4096 bytes"
        );
        assert!(bytes.is_multiple_of(u64::from(lba_bytes)), "whole LBAs");
        let pieces = bytes.div_ceil(PIECE as u64) as usize;
        Self(Arc::new(Inner {
            info: DriveInfo {
                bytes,
                lba_bytes,
                volatile_cache: false,
                copies: 1,
                handles: 1,
                // Measured: `varve bench ram:` of random writes costs 4 to 7 % more CPU with 1, a fifth more with 6: a
                // block is copied in the time of a command.
                gap_blocks: 0,
            },
            pieces: (0..pieces).map(|_| OnceLock::new()).collect(),
            symbols: OnceLock::new(),
            counts: Mutex::default(),
        }))
    }

    /// Bytes moved so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let drives = self.counts();
        let mut sum = Traffic::default();
        for counts in &*drives {
            sum.written += counts.written.load(Ordering::Relaxed);
            sum.read += counts.read.load(Ordering::Relaxed);
        }
        sum
    }

    fn counts(&self) -> MutexGuard<'_, Vec<Arc<Counts>>> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the memory of a blank drive from the system now: the first touch of a page costs more
    /// than any copy of it later, which must not fall into what is measured.
    pub fn take_all(&self) {
        let mut left = self.0.info.bytes;
        for piece in &self.0.pieces {
            let used = left.min(PIECE as u64);
            left -= used;
            piece.get_or_init(|| {
                let piece = Piece::zeroed(PIECE);
                (0..used as usize)
                    .step_by(PAGE)
                    .for_each(|at| piece.write(at, &[0]));
                piece
            });
        }
    }

    fn check(&self, offset: u64, length: u64) {
        let lba_bytes = u64::from(self.0.info.lba_bytes);
        assert!(
            offset.is_multiple_of(lba_bytes) && length.is_multiple_of(lba_bytes),
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.0.info.bytes),
            "range {offset}+{length} beyond the end"
        );
    }

    fn read(&self, offset: u64, into: &mut [u8], goes_on: bool) {
        for (index, range, part) in cut(offset, into.len()) {
            match self.0.pieces[index].get() {
                Some(piece) => piece.read(range.start, &mut into[part], goes_on),
                None => into[part].fill(0),
            }
        }
    }

    fn write(&self, offset: u64, gather: &Gather) {
        let mut at = offset;
        for segment in gather.segments() {
            match segment {
                Segment::Meta(sectors) => self.write_bytes(at, sectors.bytes()),
                Segment::Data(blocks, range) if blocks.is_elided() => {
                    self.write_symbols(at, &blocks.symbols()[range.clone()]);
                }
                Segment::Data(blocks, range) => {
                    let bytes = range.start * BLOCK..range.end * BLOCK;
                    self.write_bytes(at, &blocks.bytes()[bytes]);
                }
            }
            at += segment.bytes();
        }
        crate::stream::fence();
    }

    /// The symbols of blocks from byte `offset` on; zeroes where none was written, or something else since.
    fn read_symbols(&self, offset: u64, into: &mut [u64]) {
        let Some(symbols) = self.0.symbols.get() else {
            into.fill(0);
            return;
        };
        let places = (offset..).step_by(BLOCK);
        for (value, at) in into.iter_mut().zip(places) {
            *value = symbols[block_at(at)].get(at);
        }
    }

    fn write_symbols(&self, offset: u64, from: &[u64]) {
        let symbols = self.0.symbols.get_or_init(|| {
            let blocks = self.0.info.bytes.div_ceil(BLOCK as u64);
            (0..blocks).map(|_| Symbol::default()).collect()
        });
        let places = (offset..).step_by(BLOCK);
        for (value, at) in from.iter().zip(places) {
            symbols[block_at(at)].set(at, *value);
        }
    }

    /// Bytes take the place of symbols.
    fn forget_symbols(&self, offset: u64, length: usize) {
        if let Some(symbols) = self.0.symbols.get() {
            let bytes = offset..offset + length as u64;
            let end = bytes.end.div_ceil(BLOCK as u64) as usize;
            for symbol in &symbols[block_at(offset)..end] {
                symbol.forget(&bytes);
            }
        }
    }

    fn write_bytes(&self, offset: u64, from: &[u8]) {
        self.forget_symbols(offset, from.len());
        for (index, range, part) in cut(offset, from.len()) {
            let piece = self.0.pieces[index].get_or_init(|| Piece::zeroed(PIECE));
            piece.write(range.start, &from[part]);
        }
    }
}

/// The 4 KiB in which a byte lies.
const fn block_at(offset: u64) -> usize {
    (offset / BLOCK as u64) as usize
}

impl RamDrive {
    /// A drive of `bytes` zeroes, with memory of its own.
    ///
    /// # Panics
    /// As [`RamMemory::new`].
    #[must_use]
    pub fn new(bytes: u64, lba_bytes: u32) -> Self {
        Self::over(RamMemory::new(bytes, lba_bytes))
    }

    /// A drive over memory that others may use as well.
    #[must_use]
    pub fn over(memory: RamMemory) -> Self {
        let counts = Arc::<Counts>::default();
        memory.counts().push(Arc::clone(&counts));
        Self {
            memory,
            counts,
            last_end: Cell::new(0),
            alone: PhantomData,
        }
    }

    /// Bytes moved so far, by all drives over this memory.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.memory.traffic()
    }
}

/// Cuts a range at the bounds of pieces: which piece, bytes of the piece, bytes of the range.
fn cut(offset: u64, length: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % PIECE as u64) as usize;
        let count = (PIECE - start).min(length - done);
        let part = done..done + count;
        done += count;
        Some(((at / PIECE as u64) as usize, start..start + count, part))
    })
}

impl Drive for RamDrive {
    fn info(&self) -> DriveInfo {
        self.memory.0.info
    }

    fn submit(&self, command: Command) -> Completion {
        let done = match command {
            Command::Read {
                offset,
                mut into,
                copy,
            } => {
                assert_eq!(copy, 0, "a plain drive has one copy");
                self.memory.check(offset, into.bytes());
                let gap = offset.wrapping_sub(self.last_end.replace(offset + into.bytes()));
                let goes_on = gap < GAP_MAX;
                match &mut into {
                    Target::Data(blocks) if blocks.is_elided() => {
                        self.memory.read_symbols(offset, blocks.symbols_mut());
                    }
                    Target::Data(blocks) => self.memory.read(offset, blocks.bytes_mut(), goes_on),
                    Target::Meta(sectors) => self.memory.read(offset, sectors.bytes_mut(), goes_on),
                }
                self.counts.note(0, into.bytes());
                Done::Read(into)
            }
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                self.memory.check(offset, gather.bytes());
                self.memory.write(offset, &gather);
                self.counts.note(gather.bytes(), 0);
                Done::Nothing
            }
            Command::Flush => Done::Nothing,
            Command::Discard { offset, length } => {
                self.memory.check(offset, length);
                Done::Nothing
            }
        };
        Completion::ready(Ok(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Executor;
    use varve_io::{Blocks, Sectors};

    fn patterned(count: usize, seed: u8) -> Blocks {
        let mut blocks = Blocks::zeroed(count);
        for (index, byte) in blocks.bytes_mut().iter_mut().enumerate() {
            *byte = (index as u8).wrapping_mul(31).wrapping_add(seed);
        }
        blocks
    }

    #[test]
    fn what_was_written_reads_back_across_pieces_and_kinds() {
        let drive: Rc<dyn Drive> = Rc::new(RamDrive::new(2 * PIECE as u64, 512));
        let offset = PIECE as u64 - 4096 - 512;
        let data = patterned(3, 5);
        let mut gather = Gather::new();
        gather.push_meta(Sectors::from_bytes(&[9; 512]));
        gather.push(Segment::Data(Rc::new(data.clone()), 1..3));
        let executor = Executor::new();
        let task = async move {
            drive.write(offset, gather).await.unwrap();
            let meta = drive
                .read_meta(offset, Sectors::zeroed(1), 0)
                .await
                .unwrap();
            let from = Blocks::zeroed(2);
            let blocks = drive.read_data(offset + 512, from, 0).await.unwrap();
            let old = Sectors::from_bytes(&[1; 512]);
            let before = drive.read_meta(offset - 512, old, 0).await.unwrap();
            (meta, blocks, before)
        };
        let (meta, blocks, before) = executor.run(task).unwrap();
        assert!(meta.bytes().iter().all(|&byte| byte == 9));
        assert_eq!(blocks.bytes(), &data.bytes()[4096..]);
        assert!(before.bytes().iter().all(|&byte| byte == 0));
    }

    /// Memory taken at once is as blank as memory that comes when it is written, and keeps what was.
    #[test]
    fn taking_memory_changes_nothing() {
        let memory = RamMemory::new(PIECE as u64 + 8192, 4096);
        let drive: Rc<dyn Drive> = Rc::new(RamDrive::over(memory.clone()));
        let last = PIECE as u64 + 4096;
        let data = patterned(1, 3);
        let mut gather = Gather::new();
        gather.push_data(data.clone());
        let task = async move {
            drive.write(last, gather).await.unwrap();
            memory.take_all();
            let first = drive.read_data(0, Blocks::zeroed(2), 0).await.unwrap();
            let found = drive.read_data(last, Blocks::zeroed(1), 0).await.unwrap();
            (first, found)
        };
        let (first, found) = Executor::new().run(task).unwrap();
        assert!(first.bytes().iter().all(|&byte| byte == 0));
        assert_eq!(found.bytes(), data.bytes());
    }

    /// Reads that go on where others ended, with gaps and up to the last byte of the memory.
    #[test]
    fn reads_in_order_tell_what_is_there() {
        let drive: Rc<dyn Drive> = Rc::new(RamDrive::new(PIECE as u64, 512));
        let blocks = 64;
        let data = patterned(blocks, 7);
        let start = PIECE as u64 - (blocks * BLOCK) as u64;
        let mut gather = Gather::new();
        gather.push_data(data.clone());
        let task = async move {
            drive.write(start, gather).await.unwrap();
            let mut found = Vec::new();
            let (mut at, mut length) = (0, 1);
            while at < blocks {
                length = (length % 5 + 1).min(blocks - at);
                let offset = start + (at * BLOCK) as u64;
                let into = Blocks::zeroed(length);
                found.push((at, drive.read_data(offset, into, 0).await.unwrap()));
                at += length + at % 3;
            }
            found
        };
        let found = Executor::new().run(task).unwrap();
        assert!(found.len() > 10);
        for (at, read) in found {
            let bytes = at * BLOCK..(at + read.len()) * BLOCK;
            assert_eq!(read.bytes(), &data.bytes()[bytes]);
        }
    }

    /// Symbols read back as such, at any sector, beside bytes, until something else is written there.
    #[test]
    fn symbols_read_back() {
        let drive: Rc<dyn Drive> = Rc::new(RamDrive::new(1 << 20, 512));
        let mut data = Blocks::elided(3);
        data.symbols_mut().copy_from_slice(&[7, u64::MAX, 9]);
        let mut gather = Gather::new();
        gather.push_meta(Sectors::from_bytes(&[5; 512]));
        gather.push(Segment::Data(Rc::new(data), 1..3));
        let bytes = |byte| {
            let mut gather = Gather::new();
            gather.push_meta(Sectors::from_bytes(&[byte; 512]));
            gather
        };
        let task = async move {
            let symbols = async |offset, count| {
                let read = drive.read_data(offset, Blocks::elided(count), 0).await;
                read.unwrap().symbols().to_vec()
            };
            drive.write(512, gather).await.unwrap();
            assert_eq!(symbols(1024, 3).await, [u64::MAX, 9, 0]);
            assert_eq!(symbols(1536, 2).await, [0, 0], "no block begins there");
            // What stood in the same 4 KiB as a block, before it, and what stands right behind it.
            drive.write(512, bytes(6)).await.unwrap();
            drive.write(1024 + 2 * 4096, bytes(8)).await.unwrap();
            assert_eq!(symbols(1024, 3).await, [u64::MAX, 9, 0]);
            drive.write(1024 + 4096, bytes(7)).await.unwrap();
            assert_eq!(symbols(1024, 2).await, [u64::MAX, 0]);
            drive.read_meta(512, Sectors::zeroed(1), 0).await.unwrap()
        };
        let meta = Executor::new().run(task).unwrap();
        assert!(meta.bytes().iter().all(|&byte| byte == 6));
    }

    /// Drives of two threads over one memory see the same content.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a second reactor")]
    fn memory_is_shared_between_threads() {
        let memory = RamMemory::new(1 << 20, 4096);
        let other = memory.clone();
        let written = std::thread::spawn(move || {
            let drive: Rc<dyn Drive> = Rc::new(RamDrive::over(other));
            let mut gather = Gather::new();
            gather.push_data(patterned(2, 3));
            let write = async move { drive.write(8192, gather).await };
            Executor::new().run(write).unwrap()
        });
        written.join().unwrap().unwrap();
        let drive: Rc<dyn Drive> = Rc::new(RamDrive::over(memory.clone()));
        let read = async move { drive.read_data(8192, Blocks::zeroed(2), 0).await };
        let blocks = Executor::new().run(read).unwrap().unwrap();
        assert_eq!(blocks.bytes(), patterned(2, 3).bytes());
        let traffic = memory.traffic();
        assert_eq!((traffic.written, traffic.read), (8192, 8192));
    }

    #[test]
    fn untouched_memory_reads_as_zeroes() {
        let drive: Rc<dyn Drive> = Rc::new(RamDrive::new(1 << 40, 4096));
        let executor = Executor::new();
        let read = async move { drive.read_data(1 << 39, patterned(2, 1), 0).await.unwrap() };
        let blocks = executor.run(read).unwrap();
        assert!(blocks.bytes().iter().all(|&byte| byte == 0));
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn a_range_beyond_the_end_is_refused() {
        let drive = RamDrive::new(8192, 4096);
        let into = Target::Data(Blocks::zeroed(1));
        drop(drive.submit(Command::Read {
            offset: 8192,
            into,
            copy: 0,
        }));
    }
}
