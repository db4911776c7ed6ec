//! Data on its way to the controller: shared memory, in pieces, never copied.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_io::{Gather, Segment as Piece};
use varve_units::BLOCK;

/// A piece of what a connection sends.
#[derive(Clone)]
pub enum Segment {
    /// Headers, digests, small data.
    Bytes(Vec<u8>),
    /// A range of bytes of a piece of a write.
    Piece(Piece, Range<usize>),
}

impl AsRef<[u8]> for Segment {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Piece(Piece::Meta(sectors), range) => &sectors.bytes()[range.clone()],
            Self::Piece(Piece::Data(blocks, within), range) => {
                let start = within.start * BLOCK;
                &blocks.bytes()[start + range.start..start + range.end]
            }
        }
    }
}

/// Data of one command to the controller.
#[derive(Clone)]
pub(crate) enum Payload {
    /// Small data of the machine's own.
    Bytes(Rc<[u8]>),
    /// Bytes of a write from a byte on.
    Gather(Rc<Gather>, u64),
}

impl Payload {
    /// Segments of `length` bytes from byte `offset` of the command's data on.
    pub fn cut(&self, offset: u32, length: u32) -> Vec<Segment> {
        let (offset, length) = (offset as usize, length as usize);
        match self {
            Self::Bytes(bytes) => {
                Vec::from([Segment::Bytes(bytes[offset..offset + length].to_vec())])
            }
            Self::Gather(gather, from) => cut(gather, *from as usize + offset, length),
        }
    }
}

fn cut(gather: &Gather, from: usize, length: usize) -> Vec<Segment> {
    let (mut at, until) = (0, from + length);
    let mut segments = Vec::new();
    for piece in gather.segments() {
        let end = at + piece.bytes() as usize;
        let (start, stop) = (from.max(at), until.min(end));
        if start < stop {
            segments.push(Segment::Piece(piece.clone(), start - at..stop - at));
        }
        at = end;
        if at >= until {
            break;
        }
    }
    assert!(at >= until, "bytes {from}+{length} of a gather of {at}");
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::{Blocks, Sectors};

    #[test]
    fn every_cut_has_its_bytes() {
        let mut blocks = Blocks::zeroed(3);
        for (at, byte) in blocks.bytes_mut().iter_mut().enumerate() {
            *byte = (at / 3 % 251) as u8;
        }
        let mut gather = Gather::new();
        gather.push_meta(Sectors::from_bytes(&[7; 700]));
        gather.push(Piece::Data(Rc::new(blocks.clone()), 1..3));
        let mut whole = [0; 1024].to_vec();
        whole[..700].fill(7);
        whole.extend_from_slice(&blocks.bytes()[4096..]);
        let payload = Payload::Gather(Rc::new(gather), 512);
        for (offset, length) in [(0, 1), (0, 512), (500, 13), (100, 5000), (512, 8192)] {
            let joined: Vec<u8> = payload
                .cut(offset, length)
                .iter()
                .flat_map(|segment| segment.as_ref().to_vec())
                .collect();
            let from = 512 + offset as usize;
            assert_eq!(joined, whole[from..from + length as usize]);
        }
    }
}
