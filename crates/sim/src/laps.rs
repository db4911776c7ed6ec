//! How often each chunk of the fast tier was opened, seen from outside: by the heads written.
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

/// What is known of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lap {
    /// Never opened.
    Blank,
    /// Opened once; hash of its head.
    Opened(u64),
    /// Opened more than once.
    Reused,
}

/// The chunks of a fast tier.
#[derive(Clone, Debug)]
pub struct Laps {
    area: LogArea,
    chunks: Vec<Lap>,
}

impl Laps {
    /// No chunk was opened yet.
    #[must_use]
    pub fn new(area: LogArea) -> Self {
        let chunks = vec![Lap::Blank; area.chunks];
        Self { area, chunks }
    }

    /// A write to any drive of the tier.
    pub fn note(&mut self, offset: u64, gather: &Gather) {
        let Some(within) = offset.checked_sub(self.area.base) else {
            return;
        };
        let index = (within / self.area.chunk_bytes) as usize;
        if !within.is_multiple_of(self.area.chunk_bytes) || index >= self.chunks.len() {
            return;
        }
        let Some(Segment::Meta(sectors)) = gather.segments().first() else {
            return;
        };
        let bytes = sectors.bytes();
        let head = hash_bytes(&bytes[..bytes.len().min(BLOCK)]);
        let lap = &mut self.chunks[index];
        *lap = match *lap {
            Lap::Blank => Lap::Opened(head),
            Lap::Opened(before) if before == head => Lap::Opened(head),
            Lap::Opened(_) | Lap::Reused => Lap::Reused,
        };
    }

    /// Chunks that were not opened twice yet.
    #[must_use]
    pub fn left(&self) -> usize {
        let left = self.chunks.iter().filter(|&&lap| lap != Lap::Reused);
        left.count()
    }

    /// The drives were wiped.
    pub fn clear(&mut self) {
        self.chunks.fill(Lap::Blank);
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
    fn chunks_are_reused_by_other_heads() {
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
        assert_eq!(laps.left(), 2);
        laps.note(8192, &head(2));
        assert_eq!(laps.left(), 1);
        laps.note(8192 + (1 << 20), &head(1));
        laps.note(8192 + (1 << 20), &head(3));
        assert_eq!(laps.left(), 0);
        laps.clear();
        assert_eq!(laps.left(), 2);
    }
}
