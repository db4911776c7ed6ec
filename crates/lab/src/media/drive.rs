//! A modelled tier: one drive whose content is kept, packed if it is large, and whose traffic is counted by kind.
//!
//! Every command completes at once; the pool's clock passes by what it moved. An armed drive loses
//! power at the next commit of a checkpoint: the worst instant of the checkpoint cycle, because
//! everything logged since the last one is to be redone and the parts were written for nothing.

use super::leaves::{LeafName, Leaves};
use super::pack::{self, Base};
use super::region::{Content, Found, Region};
use crate::aged::Aged;
use crate::clock::Clock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_format::{
    BATCH_HEAD_BYTES, BatchHead, DecodeError, LEAF_BYTES, LeafImage, PayloadLayout, Record, batch,
};
use varve_ftl::Geometry;
use varve_hostio::thread_cpu_time;
use varve_io::{
    Blocks, Command, Completion, Done, Drive, DriveInfo, Gather, IoError, Sectors, Segment, Target,
};
use varve_units::{BLOCK_BYTES, Nanos, SECTOR, SECTOR_BYTES};
use zerocopy::IntoBytes;

/// Bytes of a region at most.
const REGION_BYTES_MAX: u64 = 1 << 20;
/// Blocks of a dense tier whose metadata are kept as they are. Chosen: 32 GiB, and 320 MB of memory.
const PLAIN_BLOCKS_MAX: u64 = 8 << 20;
/// What a batch's header, and the body of a commit, begin with.
const BATCH_MAGIC: &[u8] = b"VBAT";
const COMMIT_MAGIC: &[u8] = b"VCMT";

/// How a drive keeps metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeping {
    /// In few bytes, for pools of a real one's size; leaf images that were superseded long ago are
    /// forgotten.
    Packed,
    /// As they are, which is faster.
    Plain,
}

impl Keeping {
    /// Plain as long as that is no matter: some 40 bytes for each block of the dense tier.
    pub(crate) const fn of(geometry: &Geometry) -> Self {
        if geometry.dense_blocks() <= PLAIN_BLOCKS_MAX {
            Self::Plain
        } else {
            Self::Packed
        }
    }
}

/// What kind of bytes a write carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Headers of chunks and batches, records included; P2L on the dense tier.
    Headers,
    /// Blocks.
    Data,
    /// Leaf images.
    Leaves,
    /// Checkpoint parts and commits.
    Checkpoints,
}

/// Bytes and commands a drive has moved since it was made.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Traffic {
    /// Written, by [`Kind`].
    pub(crate) written: [u64; 4],
    /// Commits written.
    pub(crate) commits: u64,
    /// Read.
    pub(crate) read: u64,
    /// Reads.
    pub(crate) reads: u64,
    /// CPU time that the model itself took for commands while it was timed.
    pub(crate) model_cpu: Nanos,
}

impl Traffic {
    /// Bytes written of one kind.
    pub(crate) const fn of(&self, kind: Kind) -> u64 {
        self.written[kind as usize]
    }

    /// Bytes written.
    pub(crate) fn all_written(&self) -> u64 {
        self.written.iter().sum()
    }

    /// What was moved since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            written: std::array::from_fn(|kind| self.written[kind] - before.written[kind]),
            commits: self.commits - before.commits,
            read: self.read - before.read,
            reads: self.reads - before.reads,
            model_cpu: self.model_cpu.since(before.model_cpu),
        }
    }
}

/// Power of a modelled machine, shared by its drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Power {
    On,
    /// Goes with the next commit.
    Armed,
    Off,
}

/// What the drive below is told: it keeps an account of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    /// Bytes were written.
    Written {
        /// From here on.
        offset: u64,
        /// So many.
        bytes: u64,
    },
    /// Bytes are no longer needed.
    Discarded {
        /// From here on.
        offset: u64,
        /// So many.
        bytes: u64,
    },
}

/// A modelled tier.
pub(crate) struct ModelDrive {
    info: DriveInfo,
    /// Writes are batches of a log (the fast tier), not stripes.
    holds_log: bool,
    keeping: Keeping,
    clock: Rc<Clock>,
    /// Bytes a second, for the clock alone.
    bandwidth: u64,
    /// Each region lies in one chunk or group: it is emptied when that is written anew.
    regions: RefCell<Vec<Region>>,
    /// A power of two.
    region_sectors: u64,
    leaves: RefCell<Leaves>,
    /// Region written last.
    last: Cell<usize>,
    settled_bytes: Cell<usize>,
    traffic: Cell<Traffic>,
    power: Cell<Power>,
    /// Commands are timed: a start has few, and what unpacking takes is no cost of the engine.
    is_timed: Cell<bool>,
    scratch: RefCell<Vec<u8>>,
    /// Room for those of one write.
    symbols: Cell<Vec<u64>>,
    /// What lies where nothing was written, and what leaves were at first.
    aged: RefCell<Option<Rc<Aged>>>,
    /// Told what moves.
    below: RefCell<Option<Below>>,
}

type Below = Box<dyn FnMut(Moved)>;

impl ModelDrive {
    /// A blank fast tier of chunks.
    pub(crate) fn fast(
        geometry: &Geometry,
        keeping: Keeping,
        bandwidth: u64,
        clock: Rc<Clock>,
    ) -> Self {
        let units = (geometry.chunk_bytes, geometry.chunks);
        Self::new(units, SECTOR_BYTES, keeping, (bandwidth, clock))
    }

    /// A blank dense tier of groups.
    pub(crate) fn dense(
        geometry: &Geometry,
        keeping: Keeping,
        bandwidth: u64,
        clock: Rc<Clock>,
    ) -> Self {
        let units = (geometry.group_bytes(), geometry.groups);
        Self::new(units, BLOCK_BYTES, keeping, (bandwidth, clock))
    }

    fn new(
        (unit_bytes, units): (u64, u32),
        lba_bytes: u64,
        keeping: Keeping,
        (bandwidth, clock): (u64, Rc<Clock>),
    ) -> Self {
        let bytes = unit_bytes * u64::from(units);
        let region_bytes = REGION_BYTES_MAX.min(1 << unit_bytes.trailing_zeros());
        let regions = usize::try_from(bytes / region_bytes).expect("regions fit memory");
        Self {
            info: DriveInfo {
                bytes,
                lba_bytes: lba_bytes as u32,
                volatile_cache: false,
                copies: 1,
                handles: 1,
                gap_blocks: 0,
            },
            holds_log: lba_bytes == SECTOR_BYTES,
            keeping,
            clock,
            bandwidth,
            regions: RefCell::new((0..regions).map(|_| Region::default()).collect()),
            region_sectors: region_bytes / SECTOR_BYTES,
            leaves: RefCell::default(),
            last: Cell::new(0),
            settled_bytes: Cell::new(0),
            traffic: Cell::default(),
            power: Cell::new(Power::On),
            is_timed: Cell::new(false),
            scratch: RefCell::default(),
            symbols: Cell::default(),
            aged: RefCell::default(),
            below: RefCell::default(),
        }
    }

    /// From here on the drive answers as if the pool had this past. Before any leaf is written.
    pub(crate) fn set_past(&self, aged: &Rc<Aged>) {
        self.aged.replace(Some(Rc::clone(aged)));
    }

    /// From here on `below` is told what is written and discarded.
    pub(crate) fn watch(&self, below: Below) {
        self.below.replace(Some(below));
    }

    fn tell(&self, moved: Moved) {
        if let Some(below) = &mut *self.below.borrow_mut() {
            below(moved);
        }
    }

    /// What was moved so far.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// Takes the power away with the next commit.
    pub(crate) fn arm(&self) {
        if self.power.get() == Power::On {
            self.power.set(Power::Armed);
        }
    }

    /// True if the power went.
    pub(crate) fn is_off(&self) -> bool {
        self.power.get() == Power::Off
    }

    /// Gives the power back; from here on commands are timed. A start begins.
    pub(crate) fn power_on(&self) {
        self.power.set(Power::On);
        self.is_timed.set(true);
        self.leaves.borrow_mut().set_starting(true);
    }

    /// The start has ended.
    pub(crate) fn has_started(&self) {
        self.leaves.borrow_mut().set_starting(false);
    }

    /// Carries a command out, and counts what that takes if it is to be known.
    fn timed<T>(&self, carry_out: impl FnOnce() -> T) -> T {
        if !self.is_timed.get() {
            return carry_out();
        }
        let before = thread_cpu_time();
        let done = carry_out();
        let mut traffic = self.traffic.get();
        traffic.model_cpu = Nanos(traffic.model_cpu.0 + thread_cpu_time().since(before).0);
        self.traffic.set(traffic);
        done
    }

    /// Memory the model takes, roughly, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let regions = self.regions.borrow();
        let empty = regions.capacity() * size_of::<Region>();
        let shared: usize = match self.keeping {
            Keeping::Plain => regions.iter().map(Region::shared_bytes).sum(),
            Keeping::Packed => 0,
        };
        empty + self.settled_bytes.get() + shared + self.leaves.borrow().bytes()
    }

    fn check(&self, offset: u64, length: u64) {
        let lba_bytes = u64::from(self.info.lba_bytes);
        assert!(
            offset.is_multiple_of(lba_bytes) && length.is_multiple_of(lba_bytes),
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.info.bytes),
            "range {offset}+{length} beyond the end"
        );
    }

    fn pass(&self, bytes: u64) {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth);
        self.clock.pass(Nanos(nanos as u64));
    }

    fn write(&self, offset: u64, gather: &Gather) -> Result<(), IoError> {
        let commits = gather.segments().iter().any(is_commit);
        match self.power.get() {
            Power::Armed if commits => self.power.set(Power::Off),
            Power::Off => {}
            Power::On | Power::Armed => {
                self.store(offset, gather);
                let bytes = gather.bytes();
                self.tell(Moved::Written { offset, bytes });
                if commits {
                    let mut traffic = self.traffic.get();
                    traffic.commits += 1;
                    self.traffic.set(traffic);
                    self.leaves.borrow_mut().committed();
                }
            }
        }
        if self.is_off() {
            Err(IoError::Gone)
        } else {
            Ok(())
        }
    }

    fn store(&self, offset: u64, gather: &Gather) {
        let leaves = leaf_places(gather);
        let mut traffic = self.traffic.get();
        let mut sector = offset / SECTOR_BYTES;
        let mut in_header = true;
        // Blocks behind one another, whatever pieces they come in, and where they begin.
        let (mut symbols, mut start) = (self.symbols.take(), sector);
        for segment in gather.segments() {
            let bytes = segment.bytes();
            let kind = match segment {
                Segment::Data(blocks, range) => {
                    symbols.extend_from_slice(&blocks.symbols()[range.clone()]);
                    in_header = false;
                    Kind::Data
                }
                Segment::Meta(sectors) => {
                    self.store_symbols(start, &symbols);
                    symbols.clear();
                    start = sector + bytes / SECTOR_BYTES;
                    let leaf = leaves.iter().find(|(at, _)| *at == sector);
                    match leaf {
                        Some((_, leaf)) if self.keeping == Keeping::Packed => {
                            self.store_leaf(sector, *leaf, sectors.bytes());
                        }
                        _ => self.store_meta(sector, sectors),
                    }
                    let was_header = in_header;
                    if sectors.bytes().starts_with(BATCH_MAGIC) {
                        in_header = false;
                    }
                    match leaf {
                        Some(_) => Kind::Leaves,
                        None if was_header || !self.holds_log => Kind::Headers,
                        None => Kind::Checkpoints,
                    }
                }
            };
            traffic.written[kind as usize] += bytes;
            sector += bytes / SECTOR_BYTES;
        }
        self.store_symbols(start, &symbols);
        symbols.clear();
        self.symbols.set(symbols);
        self.traffic.set(traffic);
        self.pass(gather.bytes());
    }

    /// Where a sector lies: the number of its region, and its own in that.
    const fn place(&self, sector: u64) -> (usize, u16) {
        let number = sector >> self.region_sectors.trailing_zeros();
        (number as usize, (sector & (self.region_sectors - 1)) as u16)
    }

    /// Sectors of the region of `sector` from there to its end.
    const fn room(&self, sector: u64) -> u64 {
        self.region_sectors - (sector & (self.region_sectors - 1))
    }

    /// Notes a run that begins at `sector`. A region that it reaches over into is emptied.
    fn note(&self, sector: u64, count: u16, content: Content, pack: impl FnOnce(&mut Vec<u8>)) {
        let (number, first) = self.place(sector);
        let mut regions = self.regions.borrow_mut();
        let last = self.last.replace(number);
        // Plain regions keep their room: they are filled as far when they are written again.
        if last != number && self.keeping == Keeping::Packed {
            let before = regions[last].bytes();
            regions[last].settle();
            let freed = before - regions[last].bytes();
            self.settled_bytes.set(self.settled_bytes.get() - freed);
        }
        let region = &mut regions[number];
        let mut bytes = self.settled_bytes.get() - region.bytes();
        region.write(first, count, content, pack);
        bytes += region.bytes();
        let reaches_over = u64::from(first) + u64::from(count) > self.region_sectors;
        if reaches_over && let Some(next) = regions.get_mut(number + 1) {
            bytes -= next.bytes();
            next.clear();
            bytes += next.bytes();
        }
        self.settled_bytes.set(bytes);
    }

    fn store_symbols(&self, sector: u64, symbols: &[u64]) {
        let block_sectors = BLOCK_BYTES / SECTOR_BYTES;
        let mut at = sector;
        let mut left = symbols;
        while !left.is_empty() {
            // A block that begins in one region and ends in the next counts to the first.
            let room = self.room(at).div_ceil(block_sectors) as usize;
            let (now, later) = left.split_at(room.min(left.len()));
            let sectors = now.len() as u64 * block_sectors;
            self.note(at, sectors as u16, Content::Symbols, |into| {
                pack::pack_symbols(now, into);
            });
            at += sectors;
            left = later;
        }
    }

    fn store_meta(&self, sector: u64, piece: &Rc<Sectors>) {
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
                    let content = Content::Plain(Rc::clone(piece), from as u32);
                    self.note(at, count, content, |_| ());
                }
            }
            from = end;
        }
    }

    /// A leaf image may cross from one region to the next: the run is noted in the first.
    fn store_leaf(&self, sector: u64, leaf: LeafName, bytes: &[u8]) {
        let mut packed = self.scratch.borrow_mut();
        packed.clear();
        let first = self.first_image(leaf);
        pack::pack(bytes, leaf_base(first.as_ref()), &mut packed);
        self.leaves.borrow_mut().write(leaf, sector, &packed);
        let count = (LEAF_BYTES / SECTOR) as u16;
        self.note(sector, count, Content::Elsewhere(leaf.0), |_| ());
    }

    /// What a leaf was when the pool got its past, if it has one.
    fn first_image(&self, leaf: LeafName) -> Option<LeafImage> {
        let aged = self.aged.borrow();
        aged.as_ref().map(|aged| aged.image(leaf.index()))
    }

    fn read_symbols(&self, offset: u64, into: &mut Blocks) {
        let regions = self.regions.borrow();
        let block_sectors = BLOCK_BYTES / SECTOR_BYTES;
        let mut sector = offset / SECTOR_BYTES;
        let mut left = into.symbols_mut();
        while !left.is_empty() {
            let (number, first) = self.place(sector);
            let region = &regions[number];
            let (length, found) = region.read(first);
            // Blocks of one run that begin in this region.
            let here = (self.region_sectors - u64::from(first)).min(u64::from(length));
            let count = match found {
                Some(Found::Symbols { .. }) => here.div_ceil(block_sectors) as usize,
                _ => 1,
            };
            let (now, later) = left.split_at_mut(count.min(left.len()));
            match found {
                Some(Found::Symbols { packed, from }) => {
                    for (at, symbol) in (from..).zip(now.iter_mut()) {
                        *symbol = pack::symbol(packed, at);
                    }
                }
                None if !self.holds_log && region.is_blank() => {
                    let aged = self.aged.borrow();
                    let block = sector / block_sectors;
                    now.fill(aged.as_ref().map_or(0, |aged| aged.symbol_at(block)));
                }
                _ => now.fill(0),
            }
            sector += now.len() as u64 * block_sectors;
            left = later;
        }
    }

    /// Blocks read as metadata are zeroes.
    fn read_meta(&self, offset: u64, into: &mut Sectors) {
        let regions = self.regions.borrow();
        let end = into.len();
        if end == 0 {
            return;
        }
        let (number, first) = self.place(offset / SECTOR_BYTES);
        if let (_, Some(Found::Plain(bytes))) = regions[number].read(first)
            && let Some(all) = bytes.get(..end * SECTOR)
        {
            into.fill(all);
            return;
        }
        let bytes = into.bytes_mut();
        let mut at = 0;
        while at < end {
            let sector = offset / SECTOR_BYTES + at as u64;
            let (number, first) = self.place(sector);
            let (length, found) = regions[number].read(first);
            // An image that crosses into the next region is noted whole in the first.
            let here = match found {
                Some(Found::Elsewhere { .. }) => u64::from(length),
                _ => self.region_sectors - u64::from(first),
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
                Some(Found::Plain(bytes)) => target.copy_from_slice(&bytes[..target.len()]),
                Some(Found::Elsewhere {
                    leaf,
                    first: start,
                    from,
                }) => {
                    let leaves = self.leaves.borrow();
                    let start = number as u64 * self.region_sectors + u64::from(start);
                    match leaves.read(LeafName(leaf), start) {
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
                None if !self.holds_log && regions[number].is_blank() => {
                    target.fill(0);
                    if let Some(aged) = &*self.aged.borrow() {
                        aged.read_p2l(sector, target);
                    }
                }
                Some(Found::Symbols { .. }) | None => target.fill(0),
            }
            at += length;
        }
    }

    fn read(&self, offset: u64, into: &mut Target) -> Result<(), IoError> {
        if self.is_off() {
            return Err(IoError::Gone);
        }
        match into {
            Target::Data(blocks) => self.read_symbols(offset, blocks),
            Target::Meta(sectors) => self.read_meta(offset, sectors),
        }
        let mut traffic = self.traffic.get();
        traffic.read += into.bytes();
        traffic.reads += 1;
        self.traffic.set(traffic);
        self.pass(into.bytes());
        Ok(())
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
        .map(|sectors| sectors.bytes())
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

impl Drive for ModelDrive {
    fn info(&self) -> DriveInfo {
        self.info
    }

    fn submit(&self, command: Command) -> Completion {
        let done = match command {
            Command::Read {
                offset,
                mut into,
                copy,
            } => {
                assert_eq!(copy, 0, "a plain drive has one copy");
                self.check(offset, into.bytes());
                let read = self.timed(|| self.read(offset, &mut into));
                read.map(|()| Done::Read(into))
            }
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                self.check(offset, gather.bytes());
                let written = self.timed(|| self.write(offset, &gather));
                written.map(|()| Done::Nothing)
            }
            Command::Flush | Command::Discard { .. } if self.is_off() => Err(IoError::Gone),
            Command::Flush => Ok(Done::Nothing),
            Command::Discard { offset, length } => {
                self.check(offset, length);
                let bytes = length;
                self.tell(Moved::Discarded { offset, bytes });
                Ok(Done::Nothing)
            }
        };
        Completion::ready(done)
    }
}

#[cfg(test)]
mod tests;
