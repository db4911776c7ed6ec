//! Sparse storage of a simulated drive: bytes by the sector, symbols by the block.
//!
//! It keeps no copy of what was written but shares the memory of the write, sector ranges of it.
//!
//! A sector holds 512 bytes or is one eighth of a symbolic block (payload-elided runs). Symbolic
//! sectors read as filler bytes that are a function of the symbol, so that a reader of metadata
//! who strays into data sees neither zeroes nor a header.
//!
//! **Not here**: caching, faults (`drive`).

use crate::fingerprint::mix;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_io::{Block, BlockRef, Blocks, Gather, Sectors, Segment};
use varve_units::{BLOCK, BLOCK_BYTES, SECTOR, SECTOR_BYTES};

/// Sectors of a page.
const SECTORS: usize = BLOCK / SECTOR;

/// What one sector holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    /// Bytes.
    Bytes(Box<[u8; SECTOR]>),
    /// Part `1` (0..8) of symbol `0`.
    Symbol(u64, u8),
}

impl Cell {
    /// The cell's bytes; filler for a symbol.
    pub fn copy_to(&self, bytes: &mut [u8]) {
        match self {
            Self::Bytes(content) => bytes.copy_from_slice(&content[..]),
            Self::Symbol(symbol, part) => fill(*symbol, *part, bytes),
        }
    }
}

/// The symbol eight cells make up: the one they are the parts of, 0 for zeroes, or garbage.
#[must_use]
pub fn join(cells: &[Cell]) -> u64 {
    assert_eq!(cells.len(), SECTORS, "a block is eight sectors");
    if let Cell::Symbol(symbol, 0) = cells[0]
        && (0_u8..)
            .zip(cells)
            .all(|(part, cell)| *cell == Cell::Symbol(symbol, part))
    {
        return symbol;
    }
    let mut hash = 0;
    let mut is_zero = true;
    for cell in cells {
        match cell {
            Cell::Bytes(bytes) => {
                is_zero &= bytes.iter().all(|&byte| byte == 0);
                hash = mix(hash ^ crate::fingerprint::hash_bytes(&bytes[..]));
            }
            Cell::Symbol(symbol, part) => {
                is_zero = false;
                hash = mix(hash ^ symbol ^ u64::from(*part));
            }
        }
    }
    if is_zero { 0 } else { hash | 1 << 63 }
}

fn fill(symbol: u64, part: u8, bytes: &mut [u8]) {
    let key = mix(symbol ^ u64::from(part) << 56);
    for (index, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&(key ^ index as u64).to_le_bytes());
    }
}

/// What sectors are shared with: the memory that was written.
#[derive(Clone)]
enum Source {
    Meta(Sectors),
    Data(Rc<Blocks>),
    /// By this key what nobody wrote.
    Noise(u64),
}

impl Source {
    /// The cell at `sector`.
    fn cell(&self, sector: u64) -> Cell {
        let at = sector as usize * SECTOR;
        match self {
            Self::Meta(sectors) => bytes_cell(&sectors.bytes()[at..at + SECTOR]),
            Self::Data(blocks) => block_cell(blocks, at / BLOCK, at % BLOCK),
            Self::Noise(key) => noise_cell(*key, sector),
        }
    }

    /// The bytes from `sector` on, whole sectors; filler for symbols.
    fn copy_to(&self, sector: u64, into: &mut [u8]) {
        let at = sector as usize * SECTOR;
        match self {
            Self::Meta(sectors) => into.copy_from_slice(&sectors.bytes()[at..at + into.len()]),
            Self::Data(blocks) => blocks_bytes(blocks, at, into),
            Self::Noise(key) => noise_bytes(*key, sector, into),
        }
    }

    /// The real block at `sector`, if it is one.
    fn block(&self, sector: u64) -> Option<&Block> {
        match self {
            Self::Data(blocks) if !blocks.is_elided() && sector.is_multiple_of(SECTORS as u64) => {
                Some(blocks.get(sector as usize / SECTORS))
            }
            _ => None,
        }
    }
}

/// Sectors from `start` on that hold what `source` holds from its sector `first` on.
#[derive(Clone)]
struct Extent {
    start: u64,
    first: u64,
    source: Source,
}

/// The content of a drive; what was never written reads as zeroes.
///
/// **Invariants**: extents, by the sector they end before, do not overlap; sectors of no extent are zeroes.
/// What was written is shared with the writer, who cannot change it any more.
#[derive(Clone, Default)]
pub struct Platter {
    extents: BTreeMap<u64, Extent>,
    /// A bit for each page that was ever written.
    pages: Vec<u64>,
}

impl Platter {
    /// Number of 4 KiB pages that were ever written.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
            .iter()
            .map(|bits| bits.count_ones() as usize)
            .sum()
    }

    /// Byte offset of the first page ever written at or behind `offset`.
    #[must_use]
    pub fn written_from(&self, offset: u64) -> Option<u64> {
        let page = offset / BLOCK_BYTES;
        let (word, bit) = ((page / 64) as usize, page % 64);
        let mut masks = std::iter::once(!0 << bit).chain(std::iter::repeat(!0));
        let words = self.pages.iter().enumerate().skip(word);
        words
            .zip(masks.by_ref())
            .map(|((word, bits), mask)| (word as u64, bits & mask))
            .find(|(_, bits)| *bits != 0)
            .map(|(word, bits)| (word * 64 + u64::from(bits.trailing_zeros())) * BLOCK_BYTES)
    }

    /// Writes bytes, whole sectors.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let source = Source::Meta(Sectors::from_bytes(bytes));
        self.put(offset, bytes.len() as u64, source, 0);
    }

    /// Writes zeroes, whole sectors.
    pub fn zero(&mut self, offset: u64, length: u64) {
        self.cut(offset / SECTOR_BYTES, (offset + length) / SECTOR_BYTES);
    }

    /// Makes bytes `from..to` of a range that as a whole begins at `offset`, whole sectors, something that nobody wrote.
    pub fn scramble(&mut self, offset: u64, from: u64, to: u64, key: u64) {
        self.put(offset + from, to - from, Source::Noise(key), from);
    }

    /// Makes the range hold what `source` holds from its byte `from` on.
    fn put(&mut self, offset: u64, length: u64, source: Source, from: u64) {
        let (start, end) = (offset / SECTOR_BYTES, (offset + length) / SECTOR_BYTES);
        let first = from / SECTOR_BYTES;
        if start == end {
            return;
        }
        self.touch(offset / BLOCK_BYTES, (offset + length - 1) / BLOCK_BYTES);
        self.cut(start, end);
        let extent = Extent {
            start,
            first,
            source,
        };
        self.extents.insert(end, extent);
    }

    /// Pages `first..=last` are written.
    fn touch(&mut self, first: u64, last: u64) {
        let words = (last / 64) as usize + 1;
        if self.pages.len() < words {
            self.pages.resize(words, 0);
        }
        for page in first..=last {
            self.pages[(page / 64) as usize] |= 1 << (page % 64);
        }
    }

    /// Makes sectors `start..end` belong to no extent.
    fn cut(&mut self, start: u64, end: u64) {
        let mut before = None;
        let mut gone = Vec::new();
        for (&stop, extent) in self.extents.range_mut(start + 1..) {
            if extent.start >= end {
                break;
            }
            if extent.start < start {
                before = Some(extent.clone());
            }
            if stop > end {
                extent.first += end - extent.start;
                extent.start = end;
            } else {
                gone.push(stop);
            }
        }
        for stop in gone {
            self.extents.remove(&stop);
        }
        if let Some(extent) = before {
            self.extents.insert(start, extent);
        }
    }

    /// The parts of sectors `start..end`, in order: how many sectors, and where they are held.
    fn parts(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Option<(&Source, u64)>)> {
        let mut extents = self.extents.range(start + 1..);
        let mut next = extents.next();
        let mut at = start;
        std::iter::from_fn(move || {
            let (stop, held) = match next {
                Some((&stop, extent)) if extent.start <= at => {
                    next = extents.next();
                    let held = (&extent.source, extent.first + (at - extent.start));
                    (stop.min(end), Some(held))
                }
                Some((_, extent)) => (extent.start.min(end), None),
                None => (end, None),
            };
            let count = stop.saturating_sub(at);
            at = stop;
            (count > 0).then_some((count, held))
        })
    }

    /// Reads one sector.
    #[must_use]
    pub fn cell(&self, sector: u64) -> Cell {
        match self.parts(sector, sector + 1).next() {
            Some((_, Some((source, at)))) => source.cell(at),
            _ => Cell::Bytes(Box::new([0; SECTOR])),
        }
    }

    /// Reads bytes, whole sectors.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let start = offset / SECTOR_BYTES;
        let mut rest = into;
        for (count, held) in self.parts(start, start + (rest.len() / SECTOR) as u64) {
            let (here, behind) = rest.split_at_mut(count as usize * SECTOR);
            match held {
                Some((source, at)) => source.copy_to(at, here),
                None => here.fill(0),
            }
            rest = behind;
        }
    }

    /// Reads whole blocks into fresh memory of zeroes.
    pub fn read_blocks(&self, offset: u64, into: &mut Blocks) {
        let start = offset / SECTOR_BYTES;
        let mut done = 0;
        for (count, held) in self.parts(start, start + (into.len() * SECTORS) as u64) {
            if let Some((source, at)) = held {
                read_part(source, at, into, done, count as usize);
            }
            done += count as usize;
        }
    }

    /// Writes bytes `from..to` of a gather that as a whole lies at `offset`. A symbolic block is
    /// written if the range covers all of it.
    pub fn apply(&mut self, offset: u64, gather: &Gather, from: u64, to: u64) {
        let mut at = 0;
        for segment in gather.segments() {
            let end = at + segment.bytes();
            let (start, stop) = (at.max(from), end.min(to));
            if start < stop {
                self.apply_segment(offset + at, segment, start - at, stop - at);
            }
            at = end;
        }
    }

    /// Writes bytes `from..to` of a segment that as a whole lies at `offset`.
    fn apply_segment(&mut self, offset: u64, segment: &Segment, from: u64, to: u64) {
        match segment {
            Segment::Meta(sectors) => {
                let source = Source::Meta(sectors.clone());
                self.put(offset + from, to - from, source, from);
            }
            Segment::Data(blocks, range) if blocks.is_elided() => {
                self.apply_symbols(offset, blocks, range.start, from, to);
            }
            Segment::Data(blocks, range) => {
                let source = Source::Data(Rc::clone(blocks));
                let first = range.start as u64 * BLOCK_BYTES + from;
                self.put(offset + from, to - from, source, first);
            }
        }
    }

    /// Writes the symbolic blocks that lie in bytes `from..to` of blocks, from block `shift` of
    /// them on, that as a whole lie at `offset`. Runs without a zero become one extent.
    fn apply_symbols(
        &mut self,
        offset: u64,
        blocks: &Rc<Blocks>,
        shift: usize,
        from: u64,
        to: u64,
    ) {
        let (from, to) = (from.div_ceil(BLOCK_BYTES), to / BLOCK_BYTES);
        if from >= to {
            return;
        }
        let symbols = &blocks.symbols()[shift + from as usize..shift + to as usize];
        let mut at = from;
        for run in symbols.chunk_by(|one, two| (*one == 0) == (*two == 0)) {
            let length = run.len() as u64 * BLOCK_BYTES;
            let start = offset + at * BLOCK_BYTES;
            if run[0] == 0 {
                self.zero(start, length);
            } else {
                let source = Source::Data(Rc::clone(blocks));
                self.put(start, length, source, (shift as u64 + at) * BLOCK_BYTES);
            }
            at += run.len() as u64;
        }
    }
}

/// Copies `count` sectors of a source, from its sector `at` on, to sector `to` of blocks that are
/// filled front to back: whole blocks without zeroing their memory before.
fn read_part(source: &Source, at: u64, into: &mut Blocks, to: usize, count: usize) {
    let mut done = 0;
    while done < count {
        let (index, within) = ((to + done) / SECTORS, (to + done) % SECTORS);
        let length = (SECTORS - within).min(count - done);
        let from = at + done as u64;
        match source.block(from) {
            Some(block) if length == SECTORS => into.put(index, std::slice::from_ref(block)),
            _ => {
                let mut block = into.get(index).clone();
                let bytes = &mut block.0[within * SECTOR..(within + length) * SECTOR];
                source.copy_to(from, bytes);
                into.put(index, std::slice::from_ref(&block));
            }
        }
        done += length;
    }
}

/// Sector `sector` of what nobody wrote.
#[must_use]
pub fn noise_cell(key: u64, sector: u64) -> Cell {
    let mut content = Box::new([0; SECTOR]);
    noise_bytes(key, sector, &mut content[..]);
    Cell::Bytes(content)
}

/// What nobody wrote from sector `sector` on, whole sectors.
pub fn noise_bytes(key: u64, sector: u64, into: &mut [u8]) {
    for (number, sector) in (sector..).zip(into.chunks_exact_mut(SECTOR)) {
        let mut word = mix(key ^ number);
        for chunk in sector.chunks_exact_mut(8) {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            chunk.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The cell at byte `at` of a gather.
///
/// # Panics
/// If the gather is shorter.
#[must_use]
pub fn gather_cell(gather: &Gather, at: u64) -> Cell {
    let mut start = 0;
    for segment in gather.segments() {
        let end = start + segment.bytes();
        if at < end {
            return segment_cell(segment, at - start);
        }
        start = end;
    }
    panic!("byte {at} of a gather of {start}");
}

/// The bytes from byte `at` of a gather on, whole sectors; filler for symbols.
pub fn gather_bytes(gather: &Gather, at: u64, mut into: &mut [u8]) {
    let mut start = 0;
    let mut at = at;
    for segment in gather.segments() {
        let end = start + segment.bytes();
        if at < end && !into.is_empty() {
            let length = into.len().min((end - at) as usize);
            let (here, behind) = into.split_at_mut(length);
            segment_bytes(segment, (at - start) as usize, here);
            into = behind;
            at += length as u64;
        }
        start = end;
    }
    assert!(into.is_empty(), "bytes beyond the end of a gather");
}

fn segment_bytes(segment: &Segment, at: usize, into: &mut [u8]) {
    match segment {
        Segment::Meta(sectors) => into.copy_from_slice(&sectors.bytes()[at..at + into.len()]),
        Segment::Data(blocks, range) => blocks_bytes(blocks, range.start * BLOCK + at, into),
    }
}

fn segment_cell(segment: &Segment, at: u64) -> Cell {
    let at = at as usize;
    match segment {
        Segment::Meta(sectors) => bytes_cell(&sectors.bytes()[at..at + SECTOR]),
        Segment::Data(blocks, range) => block_cell(blocks, range.start + at / BLOCK, at % BLOCK),
    }
}

/// The bytes from byte `at` of blocks on, whole sectors; filler for symbols.
fn blocks_bytes(blocks: &Blocks, at: usize, into: &mut [u8]) {
    let mut at = at;
    let mut rest = into;
    while !rest.is_empty() {
        let within = at % BLOCK;
        let length = rest.len().min(BLOCK - within);
        let (here, behind) = rest.split_at_mut(length);
        match blocks.block(at / BLOCK) {
            BlockRef::Bytes(bytes) => here.copy_from_slice(&bytes[within..within + length]),
            BlockRef::Symbol(0) => here.fill(0),
            BlockRef::Symbol(symbol) => {
                for (index, sector) in here.chunks_exact_mut(SECTOR).enumerate() {
                    fill(symbol, (within / SECTOR + index) as u8, sector);
                }
            }
        }
        at += length;
        rest = behind;
    }
}

fn bytes_cell(bytes: &[u8]) -> Cell {
    let mut content = Box::new([0; SECTOR]);
    content.copy_from_slice(bytes);
    Cell::Bytes(content)
}

/// The cell at byte `within` of block `index`.
fn block_cell(blocks: &Blocks, index: usize, within: usize) -> Cell {
    match blocks.block(index) {
        BlockRef::Symbol(0) => Cell::Bytes(Box::new([0; SECTOR])),
        BlockRef::Symbol(symbol) => Cell::Symbol(symbol, (within / SECTOR) as u8),
        BlockRef::Bytes(bytes) => bytes_cell(&bytes[within..within + SECTOR]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// Bytes written at an odd sector come back across pages; the rest is zero.
    #[test]
    fn bytes_straddle_pages() {
        let mut platter = Platter::default();
        let bytes: Vec<u8> = (0..6 * SECTOR).map(|index| (index % 251) as u8).collect();
        platter.write(7 * 512, &bytes);
        let mut read = vec![1; 8 * SECTOR];
        platter.read(6 * 512, &mut read);
        assert!(read[..SECTOR].iter().all(|&byte| byte == 0));
        assert_eq!(&read[SECTOR..7 * SECTOR], &bytes[..]);
        assert!(read[7 * SECTOR..].iter().all(|&byte| byte == 0));
    }

    /// Symbols lie at any sector; a block with one foreign sector is garbage, never a symbol.
    #[test]
    fn symbols_are_whole_or_garbage() {
        let mut platter = Platter::default();
        let mut blocks = Blocks::elided(2);
        blocks.symbols_mut().copy_from_slice(&[41, 42]);
        let mut gather = Gather::new();
        gather.push_meta(Sectors::zeroed(1));
        gather.push_data(blocks);
        platter.apply(512, &gather, 0, gather.bytes());
        let cells = |platter: &Platter, first: u64| -> Vec<Cell> {
            (first..first + 8)
                .map(|sector| platter.cell(sector))
                .collect()
        };
        assert_eq!(join(&cells(&platter, 2)), 41);
        assert_eq!(join(&cells(&platter, 10)), 42);
        assert!(join(&cells(&platter, 3)) >> 63 == 1);
        platter.write(12 * 512, &[0; SECTOR]);
        assert!(join(&cells(&platter, 10)) >> 63 == 1);
        platter.zero(10 * 512, BLOCK_BYTES);
        assert_eq!(join(&cells(&platter, 10)), 0);
        assert_eq!(gather_cell(&gather, 512 + 4096 + 1024), Cell::Symbol(42, 2));
    }

    /// Extents that lie over one another in every way read as plain sectors would, by bytes, by
    /// cells and by blocks, and the pages that were written are those.
    #[test]
    fn extents_are_plain_sectors() {
        const COUNT: u64 = 96;
        let mut rng = crate::rng::Rng::new(7);
        for _ in 0..60 {
            let mut platter = Platter::default();
            let mut model = vec![0_u8; COUNT as usize * SECTOR];
            let mut pages = std::collections::BTreeSet::new();
            for value in 1..40_u8 {
                let (start, kind) = (rng.below(COUNT - 24), rng.below(4));
                let blocks = 1 + rng.below(3);
                let length = blocks * BLOCK_BYTES;
                let from = rng.below(SECTORS as u64) * SECTOR_BYTES;
                let offset = start * SECTOR_BYTES;
                let mut data = Blocks::zeroed(blocks as usize);
                data.bytes_mut().fill(value);
                data.bytes_mut()[..SECTOR].fill(value | 128);
                let mut gather = Gather::new();
                if kind == 1 {
                    gather.push_meta(Sectors::from_bytes(data.bytes()));
                } else {
                    gather.push_data(data.clone());
                }
                let range = (offset + from) as usize..(offset + length) as usize;
                if kind == 0 {
                    platter.zero(offset + from, length - from);
                    model[range].fill(0);
                    continue;
                }
                platter.apply(offset, &gather, from, length);
                model[range].copy_from_slice(&data.bytes()[from as usize..]);
                pages
                    .extend((offset + from) / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES));
            }
            let mut bytes = vec![1; model.len()];
            platter.read(0, &mut bytes);
            assert!(bytes == model, "bytes");
            for (sector, content) in (0..).zip(model.chunks(SECTOR)) {
                assert!(platter.cell(sector) == bytes_cell(content), "cell {sector}");
            }
            for first in 0..SECTORS {
                let mut blocks = Blocks::zeroed(COUNT as usize / SECTORS - 1);
                platter.read_blocks(first as u64 * SECTOR_BYTES, &mut blocks);
                let plain = &model[first * SECTOR..][..blocks.len() * BLOCK];
                assert!(blocks.bytes() == plain, "blocks from sector {first}");
            }
            assert_eq!(platter.pages(), pages.len());
            for page in 0..COUNT / SECTORS as u64 {
                let written = pages.range(page..).next().map(|page| page * BLOCK_BYTES);
                assert_eq!(platter.written_from(page * BLOCK_BYTES), written);
            }
        }
    }
}
