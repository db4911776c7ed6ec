//! A seeded executor, in-memory drives and a recording membership for the tests of this crate.

mod drive;
mod executor;
mod membership;

pub use drive::MemoryDrive;
pub use executor::Executor;
pub use membership::Recorder;

use std::rc::Rc;
use varve_io::{Blocks, Drive, Gather, IoError, Sectors};

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// `count` bytes that depend on `seed` and differ from byte to byte.
pub fn pattern(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1);
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// A sector as it stands where a mirror could not be read.
pub fn gap(address: u64) -> Sectors {
    let mut sectors = Sectors::zeroed(1);
    sectors.bytes_mut().fill(0xa0 ^ address as u8);
    sectors
}

/// Blocks that hold `bytes`.
pub fn blocks(bytes: &[u8]) -> Blocks {
    let mut blocks = Blocks::zeroed(bytes.len() / BLOCK);
    blocks.bytes_mut().copy_from_slice(bytes);
    blocks
}

/// A gather of one run of blocks.
pub fn gather(bytes: &[u8]) -> Gather {
    let mut gather = Gather::new();
    gather.push_data(blocks(bytes));
    gather
}

/// A gather of the same bytes in randomly long pieces of data and metadata.
pub fn torn_gather(executor: &Executor, bytes: &[u8]) -> Gather {
    let mut gather = Gather::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = (1 + executor.below(5)) * BLOCK;
        let (piece, after) = rest.split_at(count.min(rest.len()));
        rest = after;
        match executor.below(3) {
            0 => gather.push_data(blocks(piece)),
            1 => gather.push_meta(Sectors::from_bytes(piece)),
            _ => {
                let cut = executor.below(piece.len() / 512 + 1) * 512;
                gather.push_meta(Sectors::from_bytes(&piece[..cut]));
                gather.push_meta(Sectors::from_bytes(&piece[cut..]));
            }
        }
    }
    gather
}

/// Reads `bytes` bytes as blocks.
pub async fn read(
    drive: &dyn Drive,
    offset: usize,
    bytes: usize,
    copy: u8,
) -> Result<Vec<u8>, IoError> {
    let into = Blocks::zeroed(bytes / BLOCK);
    let blocks = drive.read_data(offset as u64, into, copy).await?;
    Ok(blocks.bytes().to_vec())
}

/// Reads `bytes` bytes as sectors.
pub async fn read_sectors(
    drive: &dyn Drive,
    offset: usize,
    bytes: usize,
    copy: u8,
) -> Result<Vec<u8>, IoError> {
    let into = Sectors::zeroed(bytes / 512);
    let sectors = drive.read_meta(offset as u64, into, copy).await?;
    Ok(sectors.bytes().to_vec())
}

/// Drives of `bytes` bytes each.
pub fn drives(executor: &Rc<Executor>, count: usize, bytes: u64) -> Vec<Rc<MemoryDrive>> {
    let one = |_| MemoryDrive::new(Rc::clone(executor), bytes);
    (0..count).map(one).collect()
}
