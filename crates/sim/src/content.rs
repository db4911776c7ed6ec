//! What hosts write: every block says which write of which block of which volume it is.
//!
//! **Invariants**: no two writes of a run have the same identity; identity 0 is «zeroes».
//!
//! **Not here**: whether a read may return what it returned (`checker`).

use crate::fingerprint::mix;
use varve_io::{Block, BlockRef, Blocks, ZEROES};
use varve_units::{BLOCK, Lba, VolumeId};

/// First word of every written block.
const MAGIC: u64 = 0x6576_7276_0153_494d;
/// Words of the head that is readable as such.
const HEAD: usize = 5;
/// Odd step between the words behind the head.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Identity of a host write (a discard and a write of zeroes have one too); above 0.
pub type WriteId = u64;

/// What a block turned out to hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Content {
    /// All zeroes.
    Zero,
    /// The block of this write that belongs here.
    Write(WriteId),
    /// A block of another address, volume or run, whole.
    Foreign,
    /// Nothing a host ever wrote.
    Garbage,
}

/// Where a block belongs and which write it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Its volume.
    pub volume: VolumeId,
    /// Its block.
    pub lba: Lba,
    /// Seed of the run.
    pub seed: u64,
}

/// Fills block `index` with write `id`.
pub fn fill(blocks: &mut Blocks, index: usize, stamp: Stamp, id: WriteId) {
    if blocks.is_elided() {
        blocks.symbols_mut()[index] = id;
        return;
    }
    let mut block = Block([0; BLOCK]);
    let head = [MAGIC, stamp.volume.0, stamp.lba.0, id, stamp.seed];
    let key = key(&head);
    for (at, word) in block.0.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = word_at(&head, key, at).to_le_bytes();
    }
    blocks.put(index, std::slice::from_ref(&block));
}

/// What a block that was read at `stamp` holds. In payload-elided runs the symbol is the write's
/// identity alone, and the caller checks that this write covers the block.
#[must_use]
pub fn identify(block: BlockRef<'_>, stamp: Stamp) -> Content {
    let bytes = match block {
        BlockRef::Symbol(0) => return Content::Zero,
        BlockRef::Symbol(symbol) if symbol >> 63 == 1 => return Content::Garbage,
        BlockRef::Symbol(symbol) => return Content::Write(symbol),
        BlockRef::Bytes(bytes) => bytes,
    };
    let words = bytes.as_chunks::<8>().0;
    let mut head = [0; HEAD];
    for (value, word) in head.iter_mut().zip(words) {
        *value = u64::from_le_bytes(*word);
    }
    if head[0] == 0 {
        let is_zero = *bytes == ZEROES.0;
        return if is_zero {
            Content::Zero
        } else {
            Content::Garbage
        };
    }
    let key = key(&head);
    if head[0] != MAGIC || !is_tail_of(&words[HEAD..], key) {
        return Content::Garbage;
    }
    if head == [MAGIC, stamp.volume.0, stamp.lba.0, head[3], stamp.seed] {
        Content::Write(head[3])
    } else {
        Content::Foreign
    }
}

fn key(head: &[u64; HEAD]) -> u64 {
    head.iter().fold(0, |key, &word| mix(key ^ word))
}

/// True if the words behind the head are those of this key. Without an early end: the processor
/// compares several at a time.
fn is_tail_of(words: &[[u8; 8]], key: u64) -> bool {
    let mut step = STEP.wrapping_mul(HEAD as u64);
    let mut difference = 0;
    for word in words {
        difference |= u64::from_le_bytes(*word) ^ key ^ step;
        step = step.wrapping_add(STEP);
    }
    difference == 0
}

fn word_at(head: &[u64; HEAD], key: u64, at: usize) -> u64 {
    if at < HEAD {
        head[at]
    } else {
        key ^ STEP.wrapping_mul(at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        volume: VolumeId(3),
        lba: Lba(9),
        seed: 77,
    };

    /// A block knows itself; a flipped bit anywhere, another place and another run are told apart.
    #[test]
    fn content_is_identified() {
        let mut blocks = Blocks::zeroed(2);
        fill(&mut blocks, 0, STAMP, 42);
        assert_eq!(identify(blocks.block(0), STAMP), Content::Write(42));
        assert_eq!(identify(blocks.block(1), STAMP), Content::Zero);
        let elsewhere = Stamp {
            lba: Lba(8),
            ..STAMP
        };
        assert_eq!(identify(blocks.block(0), elsewhere), Content::Foreign);
        let other_run = Stamp { seed: 78, ..STAMP };
        assert_eq!(identify(blocks.block(0), other_run), Content::Foreign);
        for byte in 0..4096 {
            blocks.bytes_mut()[byte] ^= 4;
            assert_eq!(identify(blocks.block(0), STAMP), Content::Garbage, "{byte}");
            blocks.bytes_mut()[byte] ^= 4;
        }
        blocks.bytes_mut()[4096 + 4000] = 1;
        assert_eq!(identify(blocks.block(1), STAMP), Content::Garbage);
    }
}
