//! What is written: random bytes that do not compress, each block stamped with what it is and with a checksum of
//! the rest; or, with payloads elided, the stamps alone, as symbols.

use varve_format::crc32c;
use varve_io::{BlockRef, Blocks, World};
use varve_lab::draw::Random;
use varve_units::{BLOCK, Lba};

/// Bytes of random payload, used in turn. As large as what a socket's receive ring would keep in
/// the second-level cache.
const RING_BYTES: usize = 512 << 10;

/// Bytes of a block that say what it is; the last four are the checksum (CRC-32C) of what follows them.
const STAMP_BYTES: usize = 16;
const CRC_AT: usize = 12;

/// Bits of a version that a symbol keeps.
const VERSION_BITS: u32 = 24;

/// What the first 16 bytes of a block, or its symbol, say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) lba: Lba,
    pub(crate) version: u32,
}

/// Ready-made payloads of one operation's size.
pub(crate) struct Ring {
    payloads: Vec<Blocks>,
    next: usize,
}

impl Ring {
    /// Payloads of `blocks` blocks each, symbols if they are elided.
    pub(crate) fn new(blocks: usize, elided: bool, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let count = (RING_BYTES / BLOCK / blocks).max(2);
        let payload = |_| {
            if elided {
                return Blocks::elided(blocks);
            }
            let mut payload = Blocks::zeroed(blocks);
            for word in payload.bytes_mut().chunks_exact_mut(8) {
                word.copy_from_slice(&random.bits().to_le_bytes());
            }
            // Once for as often as it is used.
            for block in payload.bytes_mut().chunks_exact_mut(BLOCK) {
                let crc = crc32c(&block[STAMP_BYTES..]);
                block[CRC_AT..STAMP_BYTES].copy_from_slice(&crc.to_le_bytes());
            }
            payload
        };
        Self {
            payloads: (0..count).map(payload).collect(),
            next: 0,
        }
    }

    /// Memory for a payload to be read into.
    pub(crate) fn memory(&self) -> Blocks {
        let payload = &self.payloads[self.next];
        Blocks::new(payload.len(), payload.is_elided())
    }

    /// A copy of the next payload, not yet stamped.
    pub(crate) fn take(&mut self, world: &dyn World) -> Blocks {
        let payload = &self.payloads[self.next];
        self.next = (self.next + 1) % self.payloads.len();
        let mut copy = world.blocks(payload.len(), payload.is_elided());
        copy.copy_from(0, payload, 0, payload.len());
        copy
    }
}

/// Stamps block `index` of a payload.
pub(crate) fn stamp(payload: &mut Blocks, index: usize, stamp: Stamp) {
    if payload.is_elided() {
        let version = u64::from(stamp.version) & ((1 << VERSION_BITS) - 1);
        payload.symbols_mut()[index] = stamp.lba.0 << VERSION_BITS | version;
        return;
    }
    let at = index * BLOCK;
    let bytes = &mut payload.bytes_mut()[at..at + 12];
    bytes[..8].copy_from_slice(&stamp.lba.0.to_le_bytes());
    bytes[8..].copy_from_slice(&stamp.version.to_le_bytes());
}

/// The stamp of block `index` of what was read. Of the version of a symbol the low 24 bits.
pub(crate) fn stamp_of(blocks: &Blocks, index: usize) -> Stamp {
    match blocks.block(index) {
        BlockRef::Bytes(bytes) => {
            let lba = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
            let version = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
            let lba = Lba(lba);
            Stamp { lba, version }
        }
        BlockRef::Symbol(symbol) => Stamp {
            lba: Lba(symbol >> VERSION_BITS),
            version: (symbol & ((1 << VERSION_BITS) - 1)) as u32,
        },
    }
}

/// True if what follows the stamp of block `index` is what its checksum says.
pub(crate) fn is_whole(blocks: &Blocks, index: usize) -> bool {
    match blocks.block(index) {
        BlockRef::Bytes(bytes) => {
            let crc = crc32c(&bytes[STAMP_BYTES..]);
            bytes[CRC_AT..STAMP_BYTES] == crc.to_le_bytes()
        }
        BlockRef::Symbol(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_hostio::Executor;

    #[test]
    fn a_stamp_reads_back_and_payloads_differ() {
        let mut ring = Ring::new(2, false, 1);
        let executor = Executor::new();
        let world = executor.world();
        let (mut one, other) = (ring.take(&*world), ring.take(&*world));
        assert_ne!(one.bytes(), other.bytes());
        let said = Stamp {
            lba: Lba(77),
            version: 9,
        };
        stamp(&mut one, 1, said);
        assert_eq!(stamp_of(&one, 1), said);
        assert_ne!(stamp_of(&one, 0), said);
    }

    /// A right stamp above wrong bytes is no right block.
    #[test]
    fn what_follows_the_stamp_is_checked_to_the_last_byte() {
        let mut payload = Ring::new(2, false, 1).take(&*Executor::new().world());
        let said = Stamp {
            lba: Lba(5),
            version: 1,
        };
        stamp(&mut payload, 1, said);
        assert!(is_whole(&payload, 0) && is_whole(&payload, 1));
        for at in [CRC_AT, STAMP_BYTES, 512, BLOCK - 1] {
            payload.bytes_mut()[BLOCK + at] ^= 1;
            assert_eq!(stamp_of(&payload, 1), said);
            assert!(!is_whole(&payload, 1), "{at}");
            payload.bytes_mut()[BLOCK + at] ^= 1;
        }
    }

    #[test]
    fn a_symbol_is_a_stamp() {
        let mut ring = Ring::new(3, true, 1);
        let mut payload = ring.take(&*Executor::new().world());
        let said = Stamp {
            lba: Lba((1 << 39) + 5),
            version: (1 << 24) - 1,
        };
        stamp(&mut payload, 2, said);
        assert!(payload.is_elided());
        assert_eq!(stamp_of(&payload, 2), said);
        assert_ne!(stamp_of(&payload, 1), said);
    }
}
