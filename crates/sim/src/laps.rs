//! How often the log of the fast tier was written from end to end, seen from outside: by the heads
//! of chunks. A chunk whose blocks nobody overwrites may rest meanwhile.
//!
//! Whoever opens a chunk of a log writes its head, the first block, and no two heads are alike.
//! A head that is written again (to another member of the mirror, after a crash) says nothing new.
//!
//! **Not here**: what a head says; only whether it is another one.

use crate::fingerprint::hash_bytes;
use varve_io::{Gather, Segment};
use varve_units::BLOCK;

/// Where the chunks of a log lie on each drive of the fast tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogArea {
    /// First byte of the first chunk.
    pub base: u64,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Number of chunks.
    pub chunks: usize,
}

/// The chunks of a fast tier.
#[derive(Clone, Debug)]
pub struct Laps {
    area: LogArea,
    /// Hash of the newest head of each chunk.
    heads: Vec<Option<u64>>,
    openings: usize,
}

impl Laps {
    /// No chunk was opened yet.
    #[must_use]
    pub fn new(area: LogArea) -> Self {
        let heads = vec![None; area.chunks];
        Self {
            area,
            heads,
            openings: 0,
        }
    }

    /// A write to any drive of the tier.
    pub fn note(&mut self, offset: u64, gather: &Gather) {
        let Some(within) = offset.checked_sub(self.area.base) else {
            return;
        };
        let index = (within / self.area.chunk_bytes) as usize;
        if !within.is_multiple_of(self.area.chunk_bytes) || index >= self.heads.len() {
            return;
        }
        let Some(Segment::Meta(sectors)) = gather.segments().first() else {
            return;
        };
        let bytes = sectors.bytes();
        let head = hash_bytes(&bytes[..bytes.len().min(BLOCK)]);
        if self.heads[index].replace(head) != Some(head) {
            self.openings += 1;
        }
    }

    /// Chunks to be opened until as many were as the log has, twice over.
    #[must_use]
    pub fn left(&self) -> usize {
        (2 * self.heads.len()).saturating_sub(self.openings)
    }

    /// The drives were wiped.
    pub fn clear(&mut self) {
        self.heads.fill(None);
        self.openings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::Sectors;

    fn head(value: u8) -> Gather {
        let mut gather = Gather::new();
        gather.push_meta(Sectors::from_bytes(&[value; BLOCK]));
        gather
    }

    /// The same head twice is one opening, another head is a second one; writes elsewhere are none.
    #[test]
    fn chunks_are_opened_by_other_heads() {
        let mut laps = Laps::new(LogArea {
            base: 8192,
            chunk_bytes: 1 << 20,
            chunks: 2,
        });
        laps.note(8192, &head(1));
        laps.note(8192, &head(1));
        laps.note(0, &head(2));
        laps.note(8192 + 4096, &head(2));
        laps.note(8192 + (2 << 20), &head(2));
        assert_eq!(laps.left(), 3);
        laps.note(8192, &head(2));
        assert_eq!(laps.left(), 2);
        laps.note(8192 + (1 << 20), &head(1));
        laps.note(8192 + (1 << 20), &head(3));
        assert_eq!(laps.left(), 0);
        laps.clear();
        assert_eq!(laps.left(), 4);
    }
}
