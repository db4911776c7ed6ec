//! Gaps: what a drive was filled with where nobody could give what it should hold.

use varve_format::Gap;
use varve_units::{Lsn, SECTOR};

/// What says of a gap that it stands for what is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Gaps {
    /// Identity of the pool.
    pub(crate) pool: [u8; 16],
    /// A gap that is not newer was there before what is looked for, which therefore was never written
    /// over it.
    pub(crate) since: Lsn,
}

impl Gaps {
    /// True if one of the sectors in `bytes`, read from `sector` on, is a gap: what these hold nobody
    /// knows.
    pub(crate) fn has_any(&self, bytes: &[u8], sector: u64) -> bool {
        (sector..)
            .zip(bytes.chunks_exact(SECTOR))
            .filter_map(|(address, bytes)| Gap::decode(bytes, &self.pool, address).ok())
            .any(|gap| gap.stamp > self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A gap counts where it was written, for the pool it was written for, and for what is older.
    #[test]
    fn only_newer_gaps_of_this_place_count() {
        let (pool, address, stamp) = ([3; 16], 40, Lsn(100));
        let gap = Gap {
            pool,
            address,
            stamp,
        };
        let mut bytes: Vec<u8> = alloc::vec![7; 2 * SECTOR];
        bytes.extend_from_slice(gap.encode().bytes());
        let gaps = |pool, since| Gaps { pool, since };
        assert!(gaps(pool, Lsn(99)).has_any(&bytes, 38));
        assert!(!gaps(pool, Lsn(100)).has_any(&bytes, 38));
        assert!(!gaps(pool, Lsn(99)).has_any(&bytes, 40));
        assert!(!gaps([4; 16], Lsn(99)).has_any(&bytes, 38));
        assert!(!gaps(pool, Lsn(99)).has_any(&bytes[..2 * SECTOR], 38));
    }
}
