//! A drive in memory: completes every command at once, has no volatile cache.
//!
//! Memory is taken in large pieces when it is first written, and never given back before the
//! drive goes. Not for payload-elided blocks: it holds bytes.
//!
//! Writes go past the processor's cache: nobody reads them soon, and what is in use stays in it.

use crate::memory::Piece;
use crate::stream;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use varve_io::{Command, Completion, Done, Drive, DriveInfo, Gather, Segment, Target};

/// Bytes of one piece of memory. Arbitrary: many huge pages, few pieces.
const PIECE: usize = 64 << 20;

/// Bytes a drive has moved since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Written, repairs included.
    pub written: u64,
    /// Read.
    pub read: u64,
}

/// A drive in memory.
pub struct RamDrive {
    info: DriveInfo,
    pieces: RefCell<Vec<Option<Piece>>>,
    traffic: Cell<Traffic>,
}

impl RamDrive {
    /// A drive of `bytes` zeroes.
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
        Self {
            info: DriveInfo {
                bytes,
                lba_bytes,
                volatile_cache: false,
                copies: 1,
            },
            pieces: RefCell::new((0..pieces).map(|_| None).collect()),
            traffic: Cell::default(),
        }
    }

    /// Bytes moved so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    fn check(&self, offset: u64, length: u64) {
        let lba_bytes = u64::from(self.info.lba_bytes);
        assert!(
            offset.is_multiple_of(lba_bytes) && length.is_multiple_of(lba_bytes),
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.info.bytes),
            "range {offset}+{length} beyond the end"
        );
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let pieces = self.pieces.borrow();
        for (index, range, part) in cut(offset, into.len()) {
            match &pieces[index] {
                Some(piece) => into[part].copy_from_slice(&piece.bytes()[range]),
                None => into[part].fill(0),
            }
        }
    }

    fn write(&self, offset: u64, gather: &Gather) {
        let mut at = offset;
        for segment in gather.segments() {
            match segment {
                Segment::Meta(sectors) => self.write_bytes(at, sectors.bytes()),
                Segment::Data(blocks, range) => {
                    let bytes = range.start * varve_units::BLOCK..range.end * varve_units::BLOCK;
                    self.write_bytes(at, &blocks.bytes()[bytes]);
                }
            }
            at += segment.bytes();
        }
    }

    fn write_bytes(&self, offset: u64, from: &[u8]) {
        let mut pieces = self.pieces.borrow_mut();
        for (index, range, part) in cut(offset, from.len()) {
            let piece = pieces[index].get_or_insert_with(|| Piece::zeroed(PIECE));
            stream::copy(&mut piece.bytes_mut()[range], &from[part]);
        }
    }

    fn note(&self, written: u64, read: u64) {
        let before = self.traffic.get();
        self.traffic.set(Traffic {
            written: before.written + written,
            read: before.read + read,
        });
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
        self.info
    }

    fn submit(&self, command: Command) -> Completion {
        let done = match command {
            Command::Read {
                offset,
                mut into,
                copy,
            } => {
                assert_eq!(copy, 0, "a plain drive has one copy");
                self.check(offset, into.bytes());
                match &mut into {
                    Target::Data(blocks) => self.read(offset, blocks.bytes_mut()),
                    Target::Meta(sectors) => self.read(offset, sectors.bytes_mut()),
                }
                self.note(0, into.bytes());
                Done::Read(into)
            }
            Command::Write { offset, gather } | Command::Repair { offset, gather, .. } => {
                self.check(offset, gather.bytes());
                self.write(offset, &gather);
                self.note(gather.bytes(), 0);
                Done::Nothing
            }
            Command::Flush => Done::Nothing,
            Command::Discard { offset, length } => {
                self.check(offset, length);
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
    use std::rc::Rc;
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
