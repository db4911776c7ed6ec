//! The memory of a read in pieces, one per member asked.

use varve_io::{Blocks, Sectors, Target};
use varve_units::{BLOCK_BYTES, SECTOR_BYTES};

/// Fresh memory of the same kind as `like` for `bytes` of it.
pub(crate) fn piece(like: &Target, bytes: u64) -> Target {
    match like {
        Target::Data(blocks) => {
            assert!(bytes.is_multiple_of(BLOCK_BYTES), "piece inside a block");
            let count = (bytes / BLOCK_BYTES) as usize;
            Target::Data(Blocks::new(count, blocks.is_elided()))
        }
        Target::Meta(_) => {
            assert!(bytes.is_multiple_of(SECTOR_BYTES), "piece inside a sector");
            Target::Meta(Sectors::zeroed((bytes / SECTOR_BYTES) as usize))
        }
    }
}

/// Puts a filled piece at byte `at` of the whole.
///
/// # Panics
/// If the piece is of another kind or does not fit.
pub(crate) fn put(into: &mut Target, at: u64, piece: &Target) {
    match (into, piece) {
        (Target::Data(into), Target::Data(piece)) => {
            into.copy_from((at / BLOCK_BYTES) as usize, piece, 0, piece.len());
        }
        (Target::Meta(into), Target::Meta(piece)) => {
            let at = at as usize;
            into.bytes_mut()[at..at + piece.bytes().len()].copy_from_slice(piece.bytes());
        }
        _ => panic!("piece of another kind than the whole"),
    }
}

/// The bytes of a target.
///
/// # Panics
/// If its blocks are symbols.
pub(crate) fn bytes(target: &Target) -> &[u8] {
    match target {
        Target::Data(blocks) => blocks.bytes(),
        Target::Meta(sectors) => sectors.bytes(),
    }
}

/// The bytes of a target, to be written.
///
/// # Panics
/// If its blocks are symbols.
pub(crate) fn bytes_mut(target: &mut Target) -> &mut [u8] {
    match target {
        Target::Data(blocks) => blocks.bytes_mut(),
        Target::Meta(sectors) => sectors.bytes_mut(),
    }
}
