//! Which errors of a block its checksum shows, in 32 bits and in the 24 of them that the map keeps.

use crate::draw::Draw;
use varve_format::{block_crc, crc24};
use varve_io::BlockRef;
use varve_units::BLOCK;

/// Pairs of flipped bits, of some 537 million, that leave the low 24 bits as they were: 2^29 / 2^24 are to be expected
/// of any 24 bits. Moves compare all 32, so they see these too.
const PAIRS_MISSED: usize = 29;

fn checksum(block: &[u8]) -> u32 {
    block_crc(BlockRef::Bytes(block))
}

/// What each flipped bit changes in the checksum of a block, whatever the block: a CRC is linear.
fn changes() -> Vec<u32> {
    let mut block = vec![0; BLOCK];
    let right = checksum(&block);
    let mut changes = Vec::with_capacity(8 * BLOCK);
    for index in 0..BLOCK {
        for bit in 0..8 {
            block[index] ^= 1 << bit;
            changes.push(checksum(&block) ^ right);
            block[index] ^= 1 << bit;
        }
    }
    changes
}

/// How many pairs are equal.
fn equal_pairs(mut values: Vec<u32>) -> usize {
    values.sort_unstable();
    let runs = values.chunk_by(|one, other| one == other);
    runs.map(|run| run.len() * (run.len() - 1) / 2).sum()
}

/// What flips change in the checksum of zeroes they change in that of any block.
#[test]
fn flips_add_up_in_any_block() {
    let changes = changes();
    let mut draw = Draw(3);
    for _ in 0..100 {
        let mut block: Vec<u8> = std::iter::repeat_with(|| draw.below(256) as u8)
            .take(BLOCK)
            .collect();
        let mut expected = checksum(&block);
        for _ in 0..20 {
            let bit = draw.below(changes.len() as u64) as usize;
            block[bit / 8] ^= 1 << (bit % 8);
            expected ^= changes[bit];
        }
        assert_eq!(checksum(&block), expected);
    }
}

/// Every flipped bit and every changed byte shows in the 24 bits of the map.
#[test]
fn the_map_sees_every_bit_and_byte() {
    let changes = changes();
    for (index, bits) in changes.chunks_exact(8).enumerate() {
        for flips in 1..256_u32 {
            let flipped = bits.iter().enumerate();
            let flipped = flipped.filter(|(bit, _)| flips >> bit & 1 == 1);
            let change = flipped.fold(0, |sum, (_, change)| sum ^ change);
            assert_ne!(crc24(change), 0, "byte {index} ^ {flips:#x}");
        }
    }
}

/// Every two flipped bits show in the whole checksum, and all but a few in the 24 bits of the map.
#[test]
fn the_map_sees_nearly_all_pairs_of_bits() {
    let changes = changes();
    assert_eq!(equal_pairs(changes.clone()), 0);
    let kept = changes.into_iter().map(crc24).collect();
    assert_eq!(equal_pairs(kept), PAIRS_MISSED);
}
