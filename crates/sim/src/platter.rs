//! Sparse storage of a simulated drive: bytes by the sector, symbols by the block.
//!
//! A sector holds 512 bytes or is one eighth of a symbolic block (payload-elided runs). Symbolic
//! sectors read as filler bytes that are a function of the symbol, so that a reader of metadata
//! who strays into data sees neither zeroes nor a header.
//!
//! **Not here**: caching, faults (`drive`).

use crate::fingerprint::mix;
use std::collections::BTreeMap;
use varve_io::{BlockRef, Gather, Segment};
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

/// Symbol and part of each sector of a page that is symbolic.
type Symbols = [Option<(u64, u8)>; SECTORS];

#[derive(Clone, Default)]
struct Page {
    bytes: Option<Box<[u8; BLOCK]>>,
    symbols: Option<Box<Symbols>>,
}

/// The content of a drive; what was never written reads as zeroes.
#[derive(Clone, Default)]
pub struct Platter {
    pages: BTreeMap<u64, Page>,
}

impl Platter {
    /// Number of 4 KiB pages that were ever written.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Byte offset of the first page ever written at or behind `offset`.
    #[must_use]
    pub fn written_from(&self, offset: u64) -> Option<u64> {
        let mut from = self.pages.range(offset / BLOCK_BYTES..);
        from.next().map(|(&page, _)| page * BLOCK_BYTES)
    }

    /// Writes bytes, whole sectors.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES) as usize;
            let length = rest.len().min(BLOCK - within);
            let page = self.pages.entry(at / BLOCK_BYTES).or_default();
            let content = page.bytes.get_or_insert_with(|| Box::new([0; BLOCK]));
            content[within..within + length].copy_from_slice(&rest[..length]);
            if let Some(symbols) = &mut page.symbols {
                symbols[within / SECTOR..(within + length) / SECTOR].fill(None);
            }
            at += length as u64;
            rest = &rest[length..];
        }
    }

    /// Writes a symbolic block at a sector.
    pub fn write_symbol(&mut self, offset: u64, symbol: u64) {
        if symbol == 0 {
            self.zero(offset, BLOCK_BYTES);
            return;
        }
        for part in 0..SECTORS as u8 {
            self.put(
                offset / SECTOR_BYTES + u64::from(part),
                &Cell::Symbol(symbol, part),
            );
        }
    }

    /// Writes zeroes, whole sectors.
    pub fn zero(&mut self, offset: u64, length: u64) {
        let zeroes = [0; BLOCK];
        let end = offset + length;
        let mut at = offset;
        while at < end {
            let next = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let stop = next.min(end);
            if self.pages.contains_key(&(at / BLOCK_BYTES)) {
                self.write(at, &zeroes[..(stop - at) as usize]);
            }
            at = stop;
        }
    }

    /// Writes one sector.
    pub fn put(&mut self, sector: u64, cell: &Cell) {
        match cell {
            Cell::Bytes(bytes) => self.write(sector * SECTOR_BYTES, &bytes[..]),
            Cell::Symbol(symbol, part) => {
                let page = self.pages.entry(sector / SECTORS as u64).or_default();
                let symbols = page.symbols.get_or_insert_default();
                symbols[(sector % SECTORS as u64) as usize] = Some((*symbol, *part));
            }
        }
    }

    /// Reads one sector.
    #[must_use]
    pub fn cell(&self, sector: u64) -> Cell {
        let within = (sector % SECTORS as u64) as usize;
        let Some(page) = self.pages.get(&(sector / SECTORS as u64)) else {
            return Cell::Bytes(Box::new([0; SECTOR]));
        };
        if let Some(symbols) = &page.symbols
            && let Some((symbol, part)) = symbols[within]
        {
            return Cell::Symbol(symbol, part);
        }
        let mut content = Box::new([0; SECTOR]);
        if let Some(bytes) = &page.bytes {
            content.copy_from_slice(&bytes[within * SECTOR..(within + 1) * SECTOR]);
        }
        Cell::Bytes(content)
    }

    /// Reads bytes, whole sectors.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES) as usize;
            let length = rest.len().min(BLOCK - within);
            let (here, behind) = rest.split_at_mut(length);
            match self.pages.get(&(at / BLOCK_BYTES)) {
                None => here.fill(0),
                Some(page) => read_page(page, within, here),
            }
            at += length as u64;
            rest = behind;
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
                let bytes = &sectors.bytes()[from as usize..to as usize];
                self.write(offset + from, bytes);
            }
            Segment::Data(blocks, range) if blocks.is_elided() => {
                let first = from.div_ceil(BLOCK_BYTES);
                for index in first..to / BLOCK_BYTES {
                    let symbol = blocks.symbols()[range.start + index as usize];
                    self.write_symbol(offset + index * BLOCK_BYTES, symbol);
                }
            }
            Segment::Data(blocks, range) => {
                let start = range.start * BLOCK;
                let bytes = blocks.bytes();
                let bytes = &bytes[start + from as usize..start + to as usize];
                self.write(offset + from, bytes);
            }
        }
    }
}

fn read_page(page: &Page, within: usize, into: &mut [u8]) {
    match &page.bytes {
        None => into.fill(0),
        Some(bytes) => into.copy_from_slice(&bytes[within..within + into.len()]),
    }
    if let Some(symbols) = &page.symbols {
        for (index, sector) in into.chunks_exact_mut(SECTOR).enumerate() {
            if let Some((symbol, part)) = symbols[within / SECTOR + index] {
                fill(symbol, part, sector);
            }
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
        Segment::Data(blocks, range) if !blocks.is_elided() => {
            let start = range.start * BLOCK + at;
            into.copy_from_slice(&blocks.bytes()[start..start + into.len()]);
        }
        Segment::Data(..) => {
            for (index, sector) in into.chunks_exact_mut(SECTOR).enumerate() {
                segment_cell(segment, (at + index * SECTOR) as u64).copy_to(sector);
            }
        }
    }
}

fn segment_cell(segment: &Segment, at: u64) -> Cell {
    let mut content = Box::new([0; SECTOR]);
    match segment {
        Segment::Meta(sectors) => {
            content.copy_from_slice(&sectors.bytes()[at as usize..at as usize + SECTOR]);
        }
        Segment::Data(blocks, range) => {
            let index = range.start + (at / BLOCK_BYTES) as usize;
            let within = (at % BLOCK_BYTES) as usize;
            match blocks.block(index) {
                BlockRef::Symbol(0) => {}
                BlockRef::Symbol(symbol) => {
                    return Cell::Symbol(symbol, (within / SECTOR) as u8);
                }
                BlockRef::Bytes(bytes) => {
                    content.copy_from_slice(&bytes[within..within + SECTOR]);
                }
            }
        }
    }
    Cell::Bytes(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::{Blocks, Sectors};

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
}
