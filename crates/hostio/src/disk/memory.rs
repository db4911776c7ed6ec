//! Memory of a drive's transfer as the kernel wants it.
//!
//! Commands' memory is passed as it is. Only pieces that a direct transfer cannot take (a run of
//! metadata shorter than an LBA, memory aligned to less than the device demands) are copied through
//! aligned memory.

use crate::vectors::{Vectors, piece};
use varve_io::{Blocks, Gather, Segment, Target};
use varve_units::BLOCK;

/// What a direct transfer demands of each piece of memory.
#[derive(Clone, Copy)]
pub(super) struct Demand {
    /// Of its start.
    pub(super) align: usize,
    /// Of its length.
    pub(super) multiple: usize,
}

impl Demand {
    fn is_met(self, start: *const u8, length: usize) -> bool {
        (start as usize).is_multiple_of(self.align) && length.is_multiple_of(self.multiple)
    }
}

/// What keeps the memory of a transfer alive.
pub(super) enum Memory {
    /// A write's own, or a copy of it.
    Source {
        #[expect(dead_code, reason = "kept for the kernel, which has its address")]
        gather: Gather,
        #[cfg_attr(
            not(test),
            expect(dead_code, reason = "kept for the kernel, which has its address")
        )]
        copy: Option<Blocks>,
    },
    /// A read's own, and what is read in its place.
    Target { into: Target, copy: Option<Blocks> },
}

fn bytes_of(segment: &Segment) -> &[u8] {
    match segment {
        Segment::Meta(sectors) => sectors.bytes(),
        Segment::Data(blocks, range) => &blocks.bytes()[range.start * BLOCK..range.end * BLOCK],
    }
}

/// Aligned memory of at least `bytes`.
fn aligned(bytes: u64) -> Blocks {
    Blocks::zeroed((bytes as usize).div_ceil(BLOCK))
}

/// The pieces of a write.
pub(super) fn source(gather: Gather, demand: Demand) -> (Vectors, Memory) {
    let segments = gather.segments().iter().map(bytes_of);
    let pieces: Vec<_> = segments
        .filter(|bytes| !bytes.is_empty())
        .map(|bytes| piece(bytes.as_ptr(), bytes.len()))
        .collect();
    let is_met = |piece: &libc::iovec| demand.is_met(piece.iov_base.cast(), piece.iov_len);
    if pieces.iter().all(is_met) {
        let memory = Memory::Source { gather, copy: None };
        return (Vectors::new(pieces), memory);
    }
    let mut copy = aligned(gather.bytes());
    let mut at = 0;
    for bytes in gather.segments().iter().map(bytes_of) {
        copy.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    let pieces = vec![piece(copy.bytes().as_ptr(), at)];
    let copy = Some(copy);
    (Vectors::new(pieces), Memory::Source { gather, copy })
}

/// The one piece of a read.
pub(super) fn target(mut into: Target, demand: Demand) -> (Vectors, Memory) {
    let bytes = target_bytes(&mut into);
    let (start, length) = (bytes.as_mut_ptr(), bytes.len());
    if demand.is_met(start, length) {
        let pieces = vec![piece(start, length)];
        return (Vectors::new(pieces), Memory::Target { into, copy: None });
    }
    let mut copy = aligned(into.bytes());
    let pieces = vec![piece(copy.bytes_mut().as_mut_ptr(), length)];
    let copy = Some(copy);
    (Vectors::new(pieces), Memory::Target { into, copy })
}

/// What was read.
pub(super) fn filled(mut into: Target, copy: Option<&Blocks>) -> Target {
    if let Some(copy) = copy {
        let bytes = target_bytes(&mut into);
        let length = bytes.len();
        bytes.copy_from_slice(&copy.bytes()[..length]);
    }
    into
}

fn target_bytes(into: &mut Target) -> &mut [u8] {
    match into {
        Target::Data(blocks) => blocks.bytes_mut(),
        Target::Meta(sectors) => sectors.bytes_mut(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::Sectors;

    fn lengths(vectors: &Vectors) -> Vec<usize> {
        vectors.pieces().iter().map(|piece| piece.iov_len).collect()
    }

    #[test]
    fn memory_that_fits_is_not_copied() {
        let mut gather = Gather::new();
        gather.push_meta(Sectors::zeroed(8));
        gather.push_data(Blocks::zeroed(3));
        let demand = Demand {
            align: 512,
            multiple: 4096,
        };
        let (vectors, memory) = source(gather.clone(), demand);
        assert_eq!(lengths(&vectors), [4096, 12288]);
        assert!(matches!(memory, Memory::Source { copy: None, .. }));
        let start = bytes_of(&gather.segments()[1]).as_ptr();
        assert_eq!(vectors.pieces()[1].iov_base.cast_const().cast(), start);
    }

    #[test]
    fn pieces_shorter_than_an_lba_are_put_together() {
        let mut gather = Gather::new();
        gather.push_meta(Sectors::from_bytes(&[1; 512]));
        gather.push_meta(Sectors::from_bytes(&[2; 3584]));
        let demand = Demand {
            align: 512,
            multiple: 4096,
        };
        let (vectors, memory) = source(gather, demand);
        assert_eq!(lengths(&vectors), [4096]);
        let Memory::Source {
            copy: Some(copy), ..
        } = memory
        else {
            panic!("it was copied");
        };
        assert_eq!((copy.bytes()[511], copy.bytes()[512]), (1, 2));
    }
}
