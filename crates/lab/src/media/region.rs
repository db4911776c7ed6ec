//! A piece of a drive: runs of sectors, packed or as they are, in order of place.
//!
//! Written again from its first sector, a region is emptied first: what the last use left behind
//! reads as zeroes, as on a drive on which the range was deallocated.

use super::pack;
use varve_io::Sectors;
use varve_units::{BLOCK, SECTOR};

/// Sectors of a block.
const BLOCK_SECTORS: u16 = (BLOCK / SECTOR) as u16;

/// What a run of sectors holds.
pub(super) enum Content {
    /// Blocks as symbols.
    Symbols,
    /// Metadata, packed.
    Meta,
    /// Metadata as they are: shared with whoever wrote it, not copied.
    Plain(Sectors),
    /// The image of this leaf, kept elsewhere (`leaves`).
    Elsewhere(u32),
}

struct Run {
    first: u16,
    /// The sector behind it.
    end: u16,
    /// Where its packed bytes begin.
    at: u32,
    content: Content,
}

impl Run {
    const fn count(&self) -> u16 {
        self.end - self.first
    }

    /// True if both are symbols, one behind the other here and where they are packed.
    fn is_continued_by(&self, next: &Self) -> bool {
        let packed = usize::from(self.count() / BLOCK_SECTORS) * pack::SYMBOL_BYTES;
        matches!(
            (&self.content, &next.content),
            (Content::Symbols, Content::Symbols)
        ) && self.end == next.first
            && self.at as usize + packed == next.at as usize
    }
}

/// A piece of a drive, within one chunk or group.
#[derive(Default)]
pub(super) struct Region {
    runs: Vec<Run>,
    bytes: Vec<u8>,
}

/// Sectors `first..end` of a region, as a reader finds them.
pub(super) enum Found<'a> {
    /// Symbols; the first is block `from` of the packed ones.
    Symbols { packed: &'a [u8], from: usize },
    /// Metadata, to be unpacked whole; the first sector wanted is `from`.
    Meta {
        packed: &'a [u8],
        sectors: usize,
        from: usize,
    },
    /// Metadata; the first sector wanted is `from`.
    Plain { sectors: &'a Sectors, from: usize },
    /// The image of a leaf, kept elsewhere, that begins at sector `first`; the first one wanted is
    /// `from`.
    Elsewhere { leaf: u32, first: u16, from: usize },
}

impl Region {
    /// Notes a run of sectors, which may reach over the region's end; what it overlaps is gone as a whole.
    pub(super) fn write(
        &mut self,
        first: u16,
        count: u16,
        content: Content,
        pack: impl FnOnce(&mut Vec<u8>),
    ) {
        if first == 0 {
            self.clear();
        }
        let run = Run {
            first,
            end: first + count,
            at: u32::try_from(self.bytes.len()).expect("a region packs into less than 4 GiB"),
            content,
        };
        // What is written comes behind all else, as a rule.
        match self.runs.last_mut() {
            Some(last) if last.end > first => self.replace(run),
            Some(last) if last.is_continued_by(&run) => last.end += count,
            _ => self.runs.push(run),
        }
        pack(&mut self.bytes);
    }

    /// Puts a run in the place of those that it overlaps.
    fn replace(&mut self, run: Run) {
        let at = self.runs.partition_point(|old| old.end <= run.first);
        let overlapped = self.runs[at..]
            .iter()
            .take_while(|old| old.first < run.end)
            .count();
        self.runs.splice(at..at + overlapped, [run]);
    }

    /// True if nothing lies here.
    pub(super) const fn is_blank(&self) -> bool {
        self.runs.is_empty()
    }

    /// Nothing lies here any more.
    pub(super) fn clear(&mut self) {
        self.look_ahead();
        self.runs.clear();
        self.bytes.clear();
    }

    /// Looks at all that is shared before any of it is given back: what was written long ago is in no cache, and reads
    /// that do not depend on one another wait for memory together.
    fn look_ahead(&self) {
        for run in &self.runs {
            if let Content::Plain(sectors) = &run.content {
                std::hint::black_box(sectors.bytes().as_ptr());
            }
        }
    }

    /// Gives back memory set aside for more: nothing is written here for a while.
    pub(super) fn settle(&mut self) {
        self.runs.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    /// Bytes of memory of its own.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.capacity() + self.runs.capacity() * size_of::<Run>()
    }

    /// Bytes of the pieces it shares.
    pub(super) fn shared_bytes(&self) -> usize {
        let pieces = self.runs.iter().map(|run| match run.content {
            Content::Plain(..) => usize::from(run.count()) * SECTOR,
            Content::Symbols | Content::Meta | Content::Elsewhere(_) => 0,
        });
        pieces.sum()
    }

    /// What lies at sector `first`, and how many sectors of it from there; `None` with the
    /// sectors until something lies there, or far more than a region has.
    pub(super) fn read(&self, first: u16) -> (u16, Option<Found<'_>>) {
        let at = self.runs.partition_point(|run| run.end <= first);
        let Some(run) = self.runs.get(at) else {
            return (u16::MAX, None);
        };
        if run.first > first {
            return (run.first - first, None);
        }
        let from = usize::from(first - run.first);
        let packed = &self.bytes[run.at as usize..];
        let sectors = usize::from(run.count());
        let found = match &run.content {
            Content::Symbols => Found::Symbols {
                packed,
                from: from / usize::from(BLOCK_SECTORS),
            },
            Content::Meta => Found::Meta {
                packed,
                sectors,
                from,
            },
            Content::Plain(sectors) => Found::Plain { sectors, from },
            Content::Elsewhere(leaf) => Found::Elsewhere {
                leaf: *leaf,
                first: run.first,
                from,
            },
        };
        (run.end - first, Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(region: &mut Region, first: u16, fill: u8) {
        region.write(first, 1, Content::Meta, |into| {
            pack::pack(&[fill; SECTOR], pack::Base::Zeroes, into);
        });
    }

    fn sector(region: &Region, first: u16) -> Option<u8> {
        match region.read(first).1? {
            Found::Meta {
                packed,
                sectors,
                from,
            } => {
                let mut bytes = vec![0; sectors * SECTOR];
                pack::unpack(packed, pack::Base::Zeroes, &mut bytes);
                Some(bytes[from * SECTOR])
            }
            _ => None,
        }
    }

    #[test]
    fn the_newest_content_of_a_sector_counts() {
        let mut region = Region::default();
        (0..10).for_each(|first| meta(&mut region, first, 1));
        meta(&mut region, 4, 2);
        assert_eq!(sector(&region, 3), Some(1));
        assert_eq!(sector(&region, 4), Some(2));
        assert_eq!(sector(&region, 5), Some(1));
        assert_eq!(sector(&region, 10), None);
        meta(&mut region, 0, 3);
        assert_eq!(sector(&region, 0), Some(3));
        assert_eq!(sector(&region, 1), None);
    }

    #[test]
    fn blocks_behind_one_another_are_one_run() {
        let mut region = Region::default();
        for block in 0..5_u64 {
            region.write(8 + block as u16 * 8, 8, Content::Symbols, |into| {
                pack::pack_symbols(&[block + 70], into);
            });
        }
        let (left, Some(Found::Symbols { packed, from })) = region.read(24) else {
            panic!("blocks lie there");
        };
        assert_eq!((left, from), (24, 2));
        let mut symbols = [0];
        pack::unpack_symbols(packed, from, &mut symbols);
        assert_eq!(symbols, [72]);
    }
}
