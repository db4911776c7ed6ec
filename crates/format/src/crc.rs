//! Checksums: CRC-32C of structures and blocks, and its low 24 bits for map entries.
//!
//! **Invariants**: a symbolic block of value 0 has the checksum of a block of zeroes.

use crc_fast::{CrcAlgorithm, Digest};
use varve_io::BlockRef;
use varve_units::BLOCK;

/// CRC-32C of 4096 zero bytes.
const ZERO_BLOCK_CRC: u32 = 0x98f9_4189;

/// CRC-32C (CRC-32/ISCSI) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of the concatenation of `parts`.
///
/// # Panics
/// Never: a 32-bit CRC has 32 bits.
#[must_use]
pub fn crc32c_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).expect("a 32-bit CRC has 32 bits")
}

/// Checksum of one block: its CRC-32C, or a 32-bit mix of its symbol.
///
/// # Panics
/// If the block has another length than 4096 bytes.
#[inline]
#[must_use]
pub fn block_crc(block: BlockRef<'_>) -> u32 {
    match block {
        BlockRef::Bytes(bytes) => {
            assert_eq!(bytes.len(), BLOCK, "a block has 4096 bytes");
            crc32c(bytes)
        }
        BlockRef::Symbol(symbol) => mix(symbol) ^ ZERO_BLOCK_CRC,
    }
}

/// The 24 bits of a block's checksum that a map entry keeps.
#[must_use]
pub const fn crc24(crc: u32) -> u32 {
    crc & 0x00ff_ffff
}

/// The low half of the SplitMix64 finalizer: each bit of the symbol changes each bit of the
/// result with probability one half, and 0 gives 0.
const fn mix(symbol: u64) -> u32 {
    let a = (symbol ^ (symbol >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let c = b ^ (b >> 31);
    (c & 0xffff_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_parts(&[b"12", b"", b"3456789"]), 0xe306_9283);
        assert_eq!(block_crc(BlockRef::Bytes(&[0; BLOCK])), ZERO_BLOCK_CRC);
        assert_eq!(block_crc(BlockRef::Symbol(0)), ZERO_BLOCK_CRC);
        assert_eq!(crc24(0xffab_cdef), 0x00ab_cdef);
    }

    /// A symbol with one or two flipped bits has another checksum, even in the 24 bits of the map.
    #[test]
    fn flipped_symbols_differ() {
        for symbol in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
            let right = crc24(block_crc(BlockRef::Symbol(symbol)));
            for first in 0..64 {
                for second in 0..64 {
                    let flips = (1u64 << first) | (1u64 << second);
                    let wrong = crc24(block_crc(BlockRef::Symbol(symbol ^ flips)));
                    assert_ne!(right, wrong, "{symbol:#x} ^ {flips:#x}");
                }
            }
        }
    }

    /// Each bit of the symbol changes each of the 24 bits in 40 to 60 % of cases.
    #[test]
    fn symbols_avalanche() {
        const SYMBOLS: u64 = 2000;
        for flip in 0..64 {
            let mut changed = [0u64; 24];
            for symbol in 0..SYMBOLS {
                let change = mix(symbol) ^ mix(symbol ^ (1 << flip));
                for (bit, count) in changed.iter_mut().enumerate() {
                    *count += u64::from((change >> bit) & 1);
                }
            }
            let even = SYMBOLS * 2 / 5..SYMBOLS * 3 / 5;
            assert!(
                changed.iter().all(|count| even.contains(count)),
                "{flip}: {changed:?}"
            );
        }
    }
}
