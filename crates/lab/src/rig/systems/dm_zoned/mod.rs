//! The Linux target dm-zoned, version 2: zones of the dense drive that are written in order, and the
//! fast drive as zones of a cache.
//!
//! 1. A chunk of the volume is as long as a zone. At its first write it gets a zone of the cache.
//! 2. Once it lies in a sequential zone, writes at its write pointer go there; all others go to a
//!    zone of the cache that becomes the chunk's buffer. Bitmaps tell which of the two has a block.
//! 3. When 30 % of the cache's zones are free or fewer, chunks are reclaimed one at a time
//!    (`reclaim`): what lies in the cache alone moves to a sequential zone; a sequential zone moves
//!    into its buffer, or the buffer behind its write pointer. Requests for such a chunk cut the
//!    copying short and wait; writes wait for a free zone of the cache.
//! 4. After each chunk the changed pages of the metadata are written, to both of its sets, while no
//!    request is dispatched.
//!
//! # Invariants
//! A block is valid in one zone at most. Requests for a chunk are dispatched in the order they came.
//!
//! # Not here
//! A zoned drive's zones are those of the target, as long as they can be written; metadata and what is
//! written anywhere have the fast drive, as there are no conventional zones. A conventional drive is
//! written in order, and the reset of a zone deallocates it; there
//! are as many zones as the document's drive has. Either way each is smaller by what the model's drive is:
//! a chunk is copied that much faster, so where chunks are copied for few blocks each the real thing
//! is slower. All bitmaps are in memory (the real one caches few and reads the others), with a page
//! for each zone. What dispatches requests has as many threads as there are chunks. No figure for
//! what the kernel's processors do.
//!
//! Like the kernel's it does not count active zones: a volume that was once written full has one or two of
//! them, one with many half-written chunks may have more than a drive allows, and would fail here.
//!
//! # Source
//! Linux, `drivers/md/dm-zoned-target.c`, `dm-zoned-metadata.c`, `dm-zoned-reclaim.c` as of 5.8 and
//! later (two devices). From memory: sixteen reserved zones (`dmzadm`), the order of writes of a
//! metadata flush, the pace of a throttled copy. Published: about 10 MB/s of random writes; CSAL
//! writes 5.24 times as much in order (document 002).

mod reclaim;
#[cfg(test)]
mod tests;
mod zones;

use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System, pieces};
use super::ledger::{Ledger, Place};
use super::locks::{Hold, Locks};
use crate::comparators::DM_ZONED;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use varve_io::{Event, Receiver, World};
use varve_media::ZoneShape;
use varve_media::timed::Ask;
use varve_units::BLOCK_BYTES;
use zones::Zones;

/// Sequential zones that no chunk is promised.
const RESERVED: u64 = DM_ZONED.reserved;
const PAGE_BYTES: u64 = DM_ZONED.page_bytes;

/// Sizes of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DmZonedPlan {
    zone_blocks: u64,
    cached: u64,
    sequential: u64,
}

impl DmZonedPlan {
    /// For a dense drive of `dense` bytes and a cache of `fast` bytes; metadata come on top. None if
    /// there is no room for zones.
    pub(crate) fn new(dense: u64, fast: u64) -> Option<Self> {
        let blocks = dense / BLOCK_BYTES;
        let zone_blocks = (blocks / DM_ZONED.zones())
            .max(1)
            .next_multiple_of(DM_ZONED.zone_blocks_step);
        let plan = Self {
            zone_blocks,
            cached: fast / BLOCK_BYTES / zone_blocks,
            sequential: blocks / zone_blocks,
        };
        plan.check()
    }

    /// With fewer zones than these the cache always counts as used up.
    fn check(self) -> Option<Self> {
        (self.cached > 3 && self.sequential > RESERVED).then_some(self)
    }

    /// For a zoned drive, and a cache of `fast` bytes.
    pub(crate) fn zoned(shape: &ZoneShape, fast: u64) -> Option<Self> {
        let zone_blocks = shape.capacity_bytes / BLOCK_BYTES;
        let plan = Self {
            zone_blocks,
            cached: fast / BLOCK_BYTES / zone_blocks,
            sequential: shape.zones.into(),
        };
        plan.check()
    }

    /// Bytes of the fast drive: zones, and two sets of metadata.
    pub(crate) const fn fast_bytes(&self) -> u64 {
        self.cached * self.zone_blocks * BLOCK_BYTES + 2 * self.set_pages() * PAGE_BYTES
    }

    const fn chunks(&self) -> u64 {
        self.sequential - RESERVED
    }

    /// Pages of a set: superblock, bitmaps, map.
    const fn set_pages(&self) -> u64 {
        self.map_page() + self.chunks().div_ceil(DM_ZONED.map_page_chunks)
    }

    const fn map_page(&self) -> u64 {
        1 + self.cached + self.sequential
    }
}

/// The target.
pub(crate) struct DmZoned {
    world: Rc<dyn World>,
    plan: DmZonedPlan,
    fast: Rc<Station>,
    dense: Rc<Station>,
    zones: RefCell<Zones>,
    ledger: RefCell<Ledger>,
    /// Requests of a chunk are dispatched in order.
    chunks: Locks,
    /// Writes that need a zone of the cache get it in turn.
    turn: Locks,
    /// Pages of the metadata that were changed.
    dirty: RefCell<BTreeSet<u64>>,
    started: Cell<bool>,
    is_reclaiming: Cell<bool>,
    is_flushing: Cell<bool>,
    /// Zones were freed, chunks left, metadata written.
    changed: Event,
    counts: RefCell<BTreeMap<&'static str, u64>>,
}

impl DmZoned {
    /// A volume of which nothing is written.
    pub(crate) fn create(
        world: Rc<dyn World>,
        plan: DmZonedPlan,
        (fast, dense): (Rc<Station>, Rc<Station>),
    ) -> Rc<Self> {
        let (cached, sequential) = (plan.cached as usize, plan.sequential as usize);
        let chunks = plan.chunks();
        let blocks = |zones: u64| zones * plan.zone_blocks;
        let ledger = Ledger::new(blocks(chunks), blocks(plan.cached), blocks(plan.sequential));
        Rc::new(Self {
            world,
            plan,
            zones: RefCell::new(Zones::new(
                plan.zone_blocks,
                (cached, sequential),
                chunks as usize,
            )),
            ledger: RefCell::new(ledger),
            chunks: Locks::default(),
            turn: Locks::default(),
            dirty: RefCell::default(),
            started: Cell::new(false),
            is_reclaiming: Cell::new(false),
            is_flushing: Cell::new(false),
            changed: Event::new(),
            counts: RefCell::default(),
            fast,
            dense,
        })
    }

    /// Serves what a request wants of a chunk.
    async fn serve_part(self: &Rc<Self>, is_read: bool, (chunk, block, count): (u64, u64, u64)) {
        self.chunks.lock(chunk, 1, Hold::Alone).await;
        let number = chunk as usize;
        let commands = if is_read {
            self.wait_for_chunk(number).await;
            self.read(number, block, count)
        } else {
            let zone = self.zone_for(number, block).await;
            vec![self.write(number, zone, block, count)]
        };
        {
            let mut zones = self.zones.borrow_mut();
            zones.chunks[number].active += 1;
            zones.touch(number);
        }
        self.chunks.unlock(chunk, 1);
        for command in commands {
            command.await;
        }
        self.leave(number);
    }

    /// Waits until a chunk is not being reclaimed, and no metadata are being written.
    async fn wait_for_chunk(&self, chunk: usize) {
        loop {
            let in_reclaim = {
                let mut zones = self.zones.borrow_mut();
                let chunk = &mut zones.chunks[chunk];
                chunk.is_wanted |= chunk.in_reclaim;
                chunk.in_reclaim
            };
            if !in_reclaim && !self.is_flushing.get() {
                return;
            }
            self.changed.listen().await;
        }
    }

    /// The zone that a write goes to.
    async fn zone_for(self: &Rc<Self>, chunk: usize, block: u64) -> usize {
        self.wait_for_chunk(chunk).await;
        if let Some(zone) = self.zone_of(chunk, block) {
            return zone;
        }
        self.turn.lock(0, 1, Hold::Alone).await;
        let zone = loop {
            self.schedule_reclaim().await;
            // Reclaim may have begun, or ended, with this very chunk.
            self.wait_for_chunk(chunk).await;
            if let Some(zone) = self.zone_of(chunk, block) {
                break zone;
            }
            let taken = self.zones.borrow_mut().take_cached();
            if let Some(zone) = taken {
                self.give(chunk, zone);
                break zone;
            }
            self.add("waits_for_a_zone", 1);
            self.changed.listen().await;
        };
        self.turn.unlock(0, 1);
        zone
    }

    /// The zone of a chunk that a write can go to, if it has one.
    fn zone_of(&self, chunk: usize, block: u64) -> Option<usize> {
        let zones = self.zones.borrow();
        let data = zones.chunks[chunk].data?;
        let is_direct = zones.is_cached(data) || zones.zones[data].wp == block;
        if is_direct {
            Some(data)
        } else {
            zones.chunks[chunk].buffer
        }
    }

    /// A zone of the cache becomes a chunk's only zone or its buffer.
    fn give(&self, chunk: usize, zone: usize) {
        let mut zones = self.zones.borrow_mut();
        let now = &mut zones.chunks[chunk];
        if now.data.is_some() {
            now.buffer = Some(zone);
        } else {
            now.data = Some(zone);
        }
        drop(zones);
        self.note_map(chunk);
    }

    /// Writes to a zone of the chunk; the other one no longer has the blocks.
    fn write(&self, chunk: usize, zone: usize, block: u64, count: u64) -> Receiver<()> {
        let mut zones = self.zones.borrow_mut();
        let both = [zones.chunks[chunk].data, zones.chunks[chunk].buffer];
        for other in both.into_iter().flatten().filter(|other| *other != zone) {
            zones.set(other, block, count, false);
            self.note_zone(other);
        }
        zones.set(zone, block, count, true);
        let is_direct = !zones.is_cached(zone);
        if is_direct {
            zones.zones[zone].wp += count;
        }
        let first = chunk as u64 * self.plan.zone_blocks;
        for block in block..block + count {
            let mut ledger = self.ledger.borrow_mut();
            ledger.write(first + block, zones.place(zone, block));
        }
        drop(zones);
        self.note_zone(zone);
        self.add(if is_direct { "direct" } else { "cached" }, 1);
        self.ask(Ask::Write, zone, block, count)
    }

    /// Reads each block from the zone that has it.
    fn read(&self, chunk: usize, block: u64, count: u64) -> Vec<Receiver<()>> {
        let zones = self.zones.borrow();
        let both = [zones.chunks[chunk].data, zones.chunks[chunk].buffer];
        let mut runs: Vec<(usize, u64, u64)> = Vec::new();
        for block in block..block + count {
            let mut has = both.into_iter().flatten();
            let Some(zone) = has.find(|zone| zones.has(*zone, block)) else {
                continue;
            };
            let number = chunk as u64 * self.plan.zone_blocks + block;
            let at = zones.place(zone, block);
            assert!(self.ledger.borrow().is_newest(number, at), "an old block");
            match runs.last_mut() {
                Some((of, first, count)) if *of == zone && *first + *count == block => *count += 1,
                _ => runs.push((zone, block, 1)),
            }
        }
        let ask = |(zone, first, count)| self.ask(Ask::Read, zone, first, count);
        runs.into_iter().map(ask).collect()
    }

    /// A request has ended: zones that have nothing any more are free.
    fn leave(&self, chunk: usize) {
        let (buffer, data) = {
            let mut zones = self.zones.borrow_mut();
            zones.chunks[chunk].active -= 1;
            let is_empty = |zone: &usize| zones.zones[*zone].weight == 0;
            let now = &zones.chunks[chunk];
            let buffer = now.buffer.filter(is_empty).filter(|_| now.active == 0);
            let is_alone = now.active == 0 && (now.buffer.is_none() || buffer.is_some());
            let data = now.data.filter(is_empty).filter(|_| is_alone);
            (buffer, data)
        };
        if buffer.is_some() {
            self.zones.borrow_mut().chunks[chunk].buffer = None;
        }
        if data.is_some() {
            self.zones.borrow_mut().chunks[chunk].data = None;
        }
        buffer.into_iter().chain(data).for_each(|zone| {
            self.release(zone);
            self.note_map(chunk);
        });
        self.changed.notify();
    }

    /// Writes the changed pages of the metadata: to the second set, then in place, each with its
    /// superblock.
    async fn flush_metadata(&self) {
        let pages = self.dirty.take();
        if !self.started.get() {
            return;
        }
        self.is_flushing.set(true);
        let zones = self.plan.cached * self.plan.zone_blocks * BLOCK_BYTES;
        for set in [1, 0] {
            let base = zones + set * self.plan.set_pages() * PAGE_BYTES;
            let write = |page: &u64| self.fast.write(base + page * PAGE_BYTES, PAGE_BYTES);
            let writes: Vec<_> = pages.iter().map(write).collect();
            for write in writes {
                write.await;
            }
            self.fast.ask(Ask::Flush, 0, 0).await;
            self.fast.write(base, PAGE_BYTES).await;
        }
        self.is_flushing.set(false);
        self.changed.notify();
        self.add("pages_written", 2 * (pages.len() as u64 + 1));
    }

    /// The bitmap of a zone has changed.
    fn note_zone(&self, zone: usize) {
        self.dirty.borrow_mut().insert(1 + zone as u64);
    }

    /// The map of a chunk has changed.
    fn note_map(&self, chunk: usize) {
        let page = self.plan.map_page() + chunk as u64 / DM_ZONED.map_page_chunks;
        self.dirty.borrow_mut().insert(page);
    }

    fn ask(&self, ask: Ask, zone: usize, block: u64, count: u64) -> Receiver<()> {
        let place = self.zones.borrow().place(zone, block);
        let (drive, block) = match place {
            Place::Fast(block) => (&self.fast, block),
            Place::Dense(block) => (&self.dense, block),
        };
        drive.ask(ask, block * BLOCK_BYTES, count * BLOCK_BYTES)
    }

    fn add(&self, name: &'static str, more: u64) {
        if more > 0 {
            *self.counts.borrow_mut().entry(name).or_insert(0) += more;
        }
    }
}

impl System for DmZoned {
    fn bytes(&self) -> u64 {
        self.plan.chunks() * self.plan.zone_blocks * BLOCK_BYTES
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        Box::pin(async move {
            let (first, count) = (io.offset / BLOCK_BYTES, io.bytes / BLOCK_BYTES);
            let mut parts: Vec<_> = pieces(first, count, self.plan.zone_blocks).collect();
            let last = parts.pop();
            let world = &self.world;
            let others: Vec<_> = parts
                .into_iter()
                .map(|part| {
                    let itself = Rc::clone(&self);
                    world.run(async move { itself.serve_part(io.is_read, part).await })
                })
                .collect();
            if let Some(last) = last {
                self.serve_part(io.is_read, last).await;
            }
            for other in others {
                other.await;
            }
            Ok(())
        })
    }

    fn drives(&self) -> Vec<(Role, Rc<Station>)> {
        vec![
            (Role::Fast, Rc::clone(&self.fast)),
            (Role::Dense, Rc::clone(&self.dense)),
        ]
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let plan = &self.plan;
        let zone = (plan.zone_blocks * BLOCK_BYTES) >> 10;
        let reclaim = format!(
            "up to {} % free zones; {} % of the time, or all of it below {} %",
            DM_ZONED.low_per_cent,
            DM_ZONED.throttle,
            DM_ZONED.low_per_cent / 2
        );
        let copies = format!(
            "{} KiB, {} at once",
            (DM_ZONED.copy_blocks * BLOCK_BYTES) >> 10,
            DM_ZONED.copies
        );
        let mut parameters = vec![
            ("fast", self.fast.name().to_owned()),
            ("dense", self.dense.name().to_owned()),
            ("zones", format!("{} of {zone} KiB", plan.sequential)),
            ("zones of cache", plan.cached.to_string()),
            ("zones reserved", RESERVED.to_string()),
            ("reclaim", reclaim),
            ("copies", copies),
        ];
        let drive = self.dense.zones_in_words();
        parameters.extend(drive.map(|zones| ("zones of the drive", zones)));
        parameters
    }

    fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.counts.borrow().clone()
    }

    fn start(&self) {
        self.started.set(true);
        self.fast.start();
        self.dense.start();
    }
}
