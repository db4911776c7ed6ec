//! Checksums: CRC-32C of structures and blocks, and its low 24 bits for map entries.
//!
//! **Invariants**: a symbolic block of value 0 has the checksum of a block of zeroes; no symbolic checksum is 0.

use core::sync::atomic::{AtomicBool, Ordering};
use crc_fast::{CrcAlgorithm, Digest};
use varve_io::BlockRef;
use varve_units::BLOCK;

/// CRC-32C of 4096 zero bytes.
const ZERO_BLOCK_CRC: u32 = 0x98f9_4189;

/// Structures have symbolic checksums in this process: [`make_checksums_symbolic`].
static SYMBOLIC: AtomicBool = AtomicBool::new(false);

/// From here on, until this process ends, checksums of structures are symbols of their lengths, which cost nothing: they
/// tell nothing of what a structure holds. Without a way back, so that nothing that was written with the one is looked
/// at with the other.
///
/// For commands of the laboratory that end with their process, whose modelled drives give back what they were given; real
/// blocks keep their checksums. Who opens drives of a pool asks [`are_checksums_symbolic`], and has none of it.
pub fn make_checksums_symbolic() {
    SYMBOLIC.store(true, Ordering::Relaxed);
}

/// True after [`make_checksums_symbolic`]: what is written in this process only this process can read.
#[inline]
#[must_use]
pub fn are_checksums_symbolic() -> bool {
    SYMBOLIC.load(Ordering::Relaxed)
}

/// CRC-32C (CRC-32/ISCSI) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    if are_checksums_symbolic() {
        return symbolic(bytes.len());
    }
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of the concatenation of `parts`.
///
/// # Panics
/// Never: a 32-bit CRC has 32 bits.
#[must_use]
pub fn crc32c_parts(parts: &[&[u8]]) -> u32 {
    if are_checksums_symbolic() {
        return symbolic(parts.iter().map(|part| part.len()).sum());
    }
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
            crc_fast::crc32_iscsi(bytes)
        }
        BlockRef::Symbol(symbol) => mix(symbol) ^ ZERO_BLOCK_CRC,
    }
}

/// The 24 bits of a block's checksum that a map entry keeps.
#[must_use]
pub const fn crc24(crc: u32) -> u32 {
    crc & 0x00ff_ffff
}

/// The symbolic checksum of so many bytes. It is odd, so never that of a field that nobody wrote, and another one for each
/// length below 2 GiB.
const fn symbolic(bytes: usize) -> u32 {
    (2 * bytes as u32 + 1).wrapping_mul(0x9e37_79b9)
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

    /// Structures of different lengths have different symbols, and none that of zeroes. (The process's own setting is not
    /// tried: other tests would find it.)
    #[test]
    fn symbols_of_lengths_differ() {
        assert!(!are_checksums_symbolic(), "not unless a command asks");
        let mut seen: alloc::vec::Vec<u32> = (0..=1 << 16).map(symbolic).collect();
        seen.sort_unstable();
        assert!(seen[0] > 0, "a structure of zeroes is none");
        let distinct = |pair: &[u32]| pair[0] != pair[1];
        assert!(seen.windows(2).all(distinct));
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
