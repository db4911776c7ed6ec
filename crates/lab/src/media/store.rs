//! What a modelled drive holds: metadata, packed or as they are, and blocks as symbols, by place.
//!
//! **Not here**: power, time, commands (`drive`).

use super::drive::{Keeping, Kind};
use super::leaves::{LeafName, Leaves};
use super::pack::{self, Base};
use super::region::{Content, Found, Region};
use crate::aged::Aged;
use std::rc::Rc;
use varve_format::{
    BATCH_HEAD_BYTES, BatchHead, DecodeError, LEAF_BYTES, LeafImage, PayloadLayout, Record, batch,
};
use varve_io::{Blocks, Gather, Sectors, Segment, Target};
use varve_units::{BLOCK_BYTES, SECTOR, SECTOR_BYTES};
use zerocopy::IntoBytes;

/// Bytes of a region at most.
pub(super) const REGION_BYTES_MAX: u64 = 1 << 20;
/// What a batch's header, and the body of a commit, begin with.
const BATCH_MAGIC: &[u8] = b"VBAT";
const COMMIT_MAGIC: &[u8] = b"VCMT";
/// Sectors of a block.
const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// The content of a drive.
pub(super) struct Store {
    /// Writes are batches of a log (the fast tier), not stripes.
    holds_log: bool,
    keeping: Keeping,
    /// Each region lies in one chunk or group: it is emptied when that is written anew.
    regions: Vec<Region>,
    /// Bits of a sector's number within its region.
    region_bits: u32,
    pub(super) leaves: Leaves,
    /// Region written last.
    last: usize,
    settled_bytes: usize,
    scratch: Vec<u8>,
    /// Room for those of one write.
    symbols: Vec<u64>,
    /// What lies where nothing was written, and what leaves were at first.
    aged: Option<Rc<Aged>>,
}

impl Store {
    /// Nothing yet, on `units` chunks or groups.
    pub(super) fn new((unit_bytes, units): (u64, u32), holds_log: bool, keeping: Keeping) -> Self {
        let region_bytes = REGION_BYTES_MAX.min(1 << unit_bytes.trailing_zeros());
        let regions = unit_bytes * u64::from(units) / region_bytes;
        let regions = usize::try_from(regions).expect("regions fit memory");
        Self {
            holds_log,
            keeping,
            regions: (0..regions).map(|_| Region::default()).collect(),
            region_bits: (region_bytes / SECTOR_BYTES).trailing_zeros(),
            leaves: Leaves::default(),
            last: 0,
            settled_bytes: 0,
            scratch: Vec::new(),
            symbols: Vec::new(),
            aged: None,
        }
    }

    /// As if the pool had this past. Before any leaf is written.
    pub(super) fn set_past(&mut self, aged: &Rc<Aged>) {
        self.aged = Some(Rc::clone(aged));
    }

    /// Bytes of memory, roughly.
    pub(super) fn memory(&self) -> usize {
        let empty = self.regions.capacity() * size_of::<Region>();
        let shared: usize = match self.keeping {
            Keeping::Plain => self.regions.iter().map(Region::shared_bytes).sum(),
            Keeping::Packed => 0,
        };
        empty + self.settled_bytes + shared + self.leaves.bytes()
    }

    /// True if a write commits a checkpoint.
    pub(super) fn commits(&self, gather: &Gather) -> bool {
        self.holds_log && gather.segments().iter().any(is_commit)
    }

    /// Keeps what is written at byte `offset` on, and adds up the bytes by kind.
    pub(super) fn write(&mut self, offset: u64, gather: &Gather, written: &mut [u64; 4]) {
        let leaves = if self.holds_log {
            leaf_places(gather)
        } else {
            Vec::new()
        };
        let mut sector = offset / SECTOR_BYTES;
        let mut in_header = true;
        // Blocks behind one another, whatever pieces they come in.
        let mut symbols = std::mem::take(&mut self.symbols);
        for segment in gather.segments() {
            let sectors = match segment {
                Segment::Data(blocks, range) => {
                    gather_symbols(&mut symbols, &blocks.symbols()[range.clone()]);
                    in_header = false;
                    continue;
                }
                Segment::Meta(sectors) => sectors,
            };
            if !symbols.is_empty() {
                sector = self.store_symbols(sector, &symbols, written);
                symbols.clear();
            }
            let was_header = in_header;
            in_header &= !sectors.bytes().starts_with(BATCH_MAGIC);
            let leaf = leaves.iter().find(|(at, _)| *at == sector);
            match leaf {
                Some((_, leaf)) if self.keeping == Keeping::Packed => {
                    self.store_leaf(sector, *leaf, sectors.bytes());
                }
                _ => self.store_meta(sector, sectors),
            }
            let kind = match leaf {
                Some(_) => Kind::Leaves,
                None if was_header || !self.holds_log => Kind::Headers,
                None => Kind::Checkpoints,
            };
            written[kind as usize] += segment.bytes();
            sector += sectors.len() as u64;
        }
        self.store_symbols(sector, &symbols, written);
        symbols.clear();
        self.symbols = symbols;
    }

    /// Fills `into` with what lies at byte `offset` on.
    pub(super) fn read(&self, offset: u64, into: &mut Target) {
        let sector = offset / SECTOR_BYTES;
        match into {
            Target::Data(blocks) => self.read_symbols(sector, blocks),
            Target::Meta(sectors) => self.read_meta(sector, sectors),
        }
    }

    /// Where a sector lies: the number of its region, and its own in that.
    const fn place(&self, sector: u64) -> (usize, u16) {
        let within = sector & (self.region_sectors() - 1);
        ((sector >> self.region_bits) as usize, within as u16)
    }

    const fn region_sectors(&self) -> u64 {
        1 << self.region_bits
    }

    /// Sectors of the region of `sector` from there to its end.
    const fn room(&self, sector: u64) -> u64 {
        self.region_sectors() - (sector & (self.region_sectors() - 1))
    }

    /// Notes a run that begins at `sector`. A region that it reaches over into is emptied.
    fn note(&mut self, sector: u64, count: u16, content: Content, pack: impl FnOnce(&mut Vec<u8>)) {
        let (number, first) = self.place(sector);
        let last = std::mem::replace(&mut self.last, number);
        // Plain regions keep their room: they are filled as far when they are written again.
        if last != number && self.keeping == Keeping::Packed {
            let last = &mut self.regions[last];
            let before = last.bytes();
            last.settle();
            self.settled_bytes -= before - last.bytes();
        }
        let reaches_over = u64::from(first) + u64::from(count) > self.region_sectors();
        let region = &mut self.regions[number];
        let mut bytes = self.settled_bytes - region.bytes();
        region.write(first, count, content, pack);
        bytes += region.bytes();
        if reaches_over && let Some(next) = self.regions.get_mut(number + 1) {
            bytes -= next.bytes();
            next.clear();
            bytes += next.bytes();
        }
        self.settled_bytes = bytes;
    }

    /// Notes blocks, and adds them up; returns the sector behind them.
    fn store_symbols(&mut self, sector: u64, symbols: &[u64], written: &mut [u64; 4]) -> u64 {
        written[Kind::Data as usize] += symbols.len() as u64 * BLOCK_BYTES;
        let mut at = sector;
        let mut left = symbols;
        while !left.is_empty() {
            // A block that begins in one region and ends in the next counts to the first.
            let room = self.room(at).div_ceil(BLOCK_SECTORS) as usize;
            let (now, later) = left.split_at(room.min(left.len()));
            let sectors = now.len() as u64 * BLOCK_SECTORS;
            self.note(at, sectors as u16, Content::Symbols, |into| {
                pack::pack_symbols(now, into);
            });
            at += sectors;
            left = later;
        }
        at
    }

    fn store_meta(&mut self, sector: u64, piece: &Sectors) {
        let mut from = 0;
        while from < piece.len() {
            let at = sector + from as u64;
            let end = piece.len().min(from + self.room(at) as usize);
            let count = (end - from) as u16;
            match self.keeping {
                Keeping::Packed => self.note(at, count, Content::Meta, |into| {
                    let bytes = &piece.bytes()[from * SECTOR..end * SECTOR];
                    pack::pack(bytes, Base::Zeroes, into);
                }),
                Keeping::Plain => {
                    let content = Content::Plain(piece.slice(from, end - from));
                    self.note(at, count, content, |_| ());
                }
            }
            from = end;
        }
    }

    /// A leaf image may cross from one region to the next: the run is noted in the first.
    pub(super) fn store_leaf(&mut self, sector: u64, leaf: LeafName, bytes: &[u8]) {
        let mut packed = std::mem::take(&mut self.scratch);
        packed.clear();
        let first = self.first_image(leaf);
        pack::pack(bytes, leaf_base(first.as_ref()), &mut packed);
        self.leaves.write(leaf, sector, &packed);
        self.scratch = packed;
        let count = (LEAF_BYTES / SECTOR) as u16;
        self.note(sector, count, Content::Elsewhere(leaf.0), |_| ());
    }

    /// What a leaf was when the pool got its past, if it has one.
    fn first_image(&self, leaf: LeafName) -> Option<LeafImage> {
        self.aged.as_ref().map(|aged| aged.image(leaf.index()))
    }

    /// The symbol of a block where nothing of use lies at its first sector.
    fn symbol_of_nothing(&self, region: &Region, sector: u64) -> u64 {
        match &self.aged {
            Some(aged) if !self.holds_log && region.is_blank() => {
                aged.symbol_at(sector / BLOCK_SECTORS)
            }
            _ => 0,
        }
    }

    fn read_symbols(&self, sector: u64, into: &mut Blocks) {
        let mut sector = sector;
        let mut left = into.symbols_mut();
        while !left.is_empty() {
            let (number, first) = self.place(sector);
            let region = &self.regions[number];
            let (length, found) = region.read(first);
            let Some(Found::Symbols { packed, from }) = found else {
                left[0] = match found {
                    None => self.symbol_of_nothing(region, sector),
                    Some(_) => 0,
                };
                sector += BLOCK_SECTORS;
                left = &mut left[1..];
                continue;
            };
            // Blocks of one run that begin in this region.
            let here = (self.region_sectors() - u64::from(first)).min(u64::from(length));
            let count = here.div_ceil(BLOCK_SECTORS) as usize;
            let (now, later) = left.split_at_mut(count.min(left.len()));
            pack::unpack_symbols(packed, from, now);
            sector += now.len() as u64 * BLOCK_SECTORS;
            left = later;
        }
    }

    /// Blocks read as metadata are zeroes.
    pub(super) fn read_meta(&self, sector: u64, into: &mut Sectors) {
        let end = into.len();
        if end == 0 {
            return;
        }
        let (number, first) = self.place(sector);
        if let (length, Some(Found::Plain { sectors, from })) = self.regions[number].read(first)
            && usize::from(length) >= end
        {
            *into = sectors.slice(from, end);
            return;
        }
        let bytes = into.bytes_mut();
        let mut at = 0;
        while at < end {
            let sector = sector + at as u64;
            let (number, first) = self.place(sector);
            let (length, found) = self.regions[number].read(first);
            // An image that crosses into the next region is noted whole in the first.
            let here = match found {
                Some(Found::Elsewhere { .. }) => u64::from(length),
                _ => self.region_sectors() - u64::from(first),
            };
            let length = u64::from(length).min(here).min((end - at) as u64) as usize;
            let target = &mut bytes[at * SECTOR..(at + length) * SECTOR];
            match found {
                Some(Found::Meta {
                    packed,
                    sectors,
                    from,
                }) => {
                    unpack_part(packed, Base::Zeroes, sectors, from, target);
                }
                Some(Found::Plain { sectors, from }) => {
                    let bytes = &sectors.bytes()[from * SECTOR..];
                    target.copy_from_slice(&bytes[..target.len()]);
                }
                Some(Found::Elsewhere {
                    leaf,
                    first: start,
                    from,
                }) => {
                    let start = number as u64 * self.region_sectors() + u64::from(start);
                    match self.leaves.read(LeafName(leaf), start) {
                        Some(packed) => {
                            let first = self.first_image(LeafName(leaf));
                            let base = leaf_base(first.as_ref());
                            unpack_part(packed, base, LEAF_BYTES / SECTOR, from, target);
                        }
                        None => {
                            assert!(
                                target.len() < LEAF_BYTES,
                                "the image of leaf {leaf} at sector {start} was superseded long ago"
                            );
                            target.fill(0);
                        }
                    }
                }
                None if !self.holds_log && self.regions[number].is_blank() => {
                    target.fill(0);
                    if let Some(aged) = &self.aged {
                        aged.read_p2l(sector, target);
                    }
                }
                Some(Found::Symbols { .. }) | None => target.fill(0),
            }
            at += length;
        }
    }
}

/// Appends the symbols of a piece: most pieces are of one block.
#[inline]
fn gather_symbols(symbols: &mut Vec<u64>, piece: &[u64]) {
    match piece {
        [symbol] => symbols.push(*symbol),
        _ => symbols.extend_from_slice(piece),
    }
}

/// What images of a leaf are packed against.
fn leaf_base(first: Option<&LeafImage>) -> Base<'_> {
    first.map_or(Base::Blank, |first| Base::Bytes(first.as_bytes()))
}

/// Sectors `from..` of a packed run of `sectors`.
fn unpack_part(packed: &[u8], base: Base<'_>, sectors: usize, from: usize, into: &mut [u8]) {
    if from == 0 && into.len() == sectors * SECTOR {
        pack::unpack(packed, base, into);
        return;
    }
    let mut whole = vec![0; sectors * SECTOR];
    pack::unpack(packed, base, &mut whole);
    into.copy_from_slice(&whole[from * SECTOR..from * SECTOR + into.len()]);
}

fn is_commit(segment: &Segment) -> bool {
    matches!(segment, Segment::Meta(sectors) if sectors.bytes().starts_with(COMMIT_MAGIC))
}

/// Where in a batch which leaf's image lies.
fn leaf_places(gather: &Gather) -> Vec<(u64, LeafName)> {
    let metas = gather
        .segments()
        .iter()
        .filter_map(|segment| match segment {
            Segment::Meta(sectors) => Some(sectors),
            Segment::Data(..) => None,
        });
    let like_images = metas
        .clone()
        .filter(|sectors| sectors.len() == LEAF_BYTES / SECTOR)
        .count();
    if like_images == 0 {
        return Vec::new();
    }
    let header = metas
        .map(Sectors::bytes)
        .find(|bytes| bytes.starts_with(BATCH_MAGIC));
    let Some(Ok((head, records))) = header.map(|bytes| leading_records(bytes, like_images)) else {
        return Vec::new();
    };
    PayloadLayout::new(&head, &records)
        .filter_map(|at| match &records[at.record] {
            Record::Leaf { volume, leaf, .. } => {
                Some((at.meta_sector, LeafName::new(*volume, *leaf)))
            }
            _ => None,
        })
        .collect()
}

/// Head of a batch and its records up to that of leaf `leaves`: few, because leaves go before what hosts
/// write. The header comes from the engine itself, so its checksum is not looked at.
fn leading_records(bytes: &[u8], leaves: usize) -> Result<(BatchHead, Vec<Record>), DecodeError> {
    let head = batch::decode_head(bytes)?;
    let mut rest = &bytes[BATCH_HEAD_BYTES..];
    let (mut records, mut found) = (Vec::new(), 0);
    while found < leaves && records.len() < head.records as usize {
        let (record, size) = Record::decode(rest)?;
        rest = &rest[size..];
        found += usize::from(matches!(record, Record::Leaf { .. }));
        records.push(record);
    }
    Ok((head, records))
}
