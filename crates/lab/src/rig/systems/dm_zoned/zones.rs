//! Zones, the chunks they belong to, and which blocks of them are valid.

use super::super::ledger::Place;
use std::collections::{BTreeSet, VecDeque};

/// A zone: those of the cache come first.
pub(super) struct Zone {
    /// Where the next write of a sequential zone goes, in blocks.
    pub(super) wp: u64,
    /// Valid blocks, and which.
    pub(super) weight: u64,
    valid: Vec<bool>,
    chunk: usize,
    key: Option<Key>,
}

/// In which order zones of the cache are reclaimed: those that are a chunk's only zone before
/// buffers, the former by use, the latter by the weight of the sequential zone, heaviest first.
type Key = (bool, u64, u64);

/// A chunk of the volume, a zone long.
#[derive(Clone, Default)]
pub(super) struct Chunk {
    /// The zone it lies in, of either kind.
    pub(super) data: Option<usize>,
    /// A zone of the cache for what cannot go to its sequential zone.
    pub(super) buffer: Option<usize>,
    /// Requests under way.
    pub(super) active: u64,
    /// It is being reclaimed; somebody waits for the end of that.
    pub(super) in_reclaim: bool,
    pub(super) is_wanted: bool,
}

/// All of them.
pub(super) struct Zones {
    /// Blocks of a zone.
    pub(super) blocks: u64,
    /// Zones of the cache.
    pub(super) cached: usize,
    pub(super) zones: Vec<Zone>,
    pub(super) chunks: Vec<Chunk>,
    free_cached: VecDeque<usize>,
    free_sequential: VecDeque<usize>,
    order: BTreeSet<(Key, usize)>,
    clock: u64,
}

impl Zones {
    /// Zones of `blocks` each, in the cache and on the dense drive, all free, and chunks without.
    pub(super) fn new(blocks: u64, (cached, sequential): (usize, usize), chunks: usize) -> Self {
        let zone = |_| Zone {
            wp: 0,
            weight: 0,
            valid: vec![false; blocks as usize],
            chunk: usize::MAX,
            key: None,
        };
        Self {
            blocks,
            cached,
            zones: (0..cached + sequential).map(zone).collect(),
            chunks: vec![Chunk::default(); chunks],
            free_cached: (0..cached).collect(),
            free_sequential: (cached..cached + sequential).collect(),
            order: BTreeSet::new(),
            clock: 0,
        }
    }

    /// True of zones of the cache, in which any place may be written.
    pub(super) const fn is_cached(&self, zone: usize) -> bool {
        zone < self.cached
    }

    /// Free zones of the cache.
    pub(super) fn free_cached(&self) -> usize {
        self.free_cached.len()
    }

    /// Takes a free zone of the cache.
    pub(super) fn take_cached(&mut self) -> Option<usize> {
        self.free_cached.pop_front()
    }

    /// Takes a free sequential zone.
    pub(super) fn take_sequential(&mut self) -> Option<usize> {
        self.free_sequential.pop_front()
    }

    /// Frees a zone; a sequential one is as new. The chunk must not name it any more.
    pub(super) fn release(&mut self, zone: usize) {
        self.unfile(zone);
        self.set(zone, 0, self.blocks, false);
        self.zones[zone].wp = 0;
        if self.is_cached(zone) {
            self.free_cached.push_back(zone);
        } else {
            self.free_sequential.push_back(zone);
        }
    }

    /// Makes blocks of a zone valid or not.
    pub(super) fn set(&mut self, zone: usize, block: u64, count: u64, is_valid: bool) {
        let zone = &mut self.zones[zone];
        for bit in &mut zone.valid[block as usize..(block + count) as usize] {
            zone.weight = zone.weight + u64::from(is_valid) - u64::from(*bit);
            *bit = is_valid;
        }
    }

    /// True if a zone has a block.
    pub(super) fn has(&self, zone: usize, block: u64) -> bool {
        self.zones[zone].valid[block as usize]
    }

    /// The first run of valid blocks from a block on: its first block, and how many.
    pub(super) fn run(&self, zone: usize, from: u64) -> Option<(u64, u64)> {
        let rest = &self.zones[zone].valid[from as usize..];
        let skipped = rest.iter().position(|bit| *bit)?;
        let rest = &rest[skipped..];
        let count = rest.iter().position(|bit| !*bit).unwrap_or(rest.len());
        Some((from + skipped as u64, count as u64))
    }

    /// Where a block of a zone lies.
    pub(super) const fn place(&self, zone: usize, block: u64) -> Place {
        if self.is_cached(zone) {
            Place::Fast(zone as u64 * self.blocks + block)
        } else {
            Place::Dense((zone - self.cached) as u64 * self.blocks + block)
        }
    }

    /// A chunk was used, or has other zones than before.
    pub(super) fn touch(&mut self, chunk: usize) {
        self.clock += 1;
        let Chunk { data, buffer, .. } = self.chunks[chunk];
        let weight = data.map_or(0, |zone| self.zones[zone].weight);
        let cached = data.filter(|zone| self.is_cached(*zone));
        let both = [(cached, false), (buffer, true)];
        for (zone, is_buffer) in both {
            let Some(zone) = zone else { continue };
            self.unfile(zone);
            let lightness = if is_buffer { self.blocks - weight } else { 0 };
            let key = (is_buffer, lightness, self.clock);
            (self.zones[zone].chunk, self.zones[zone].key) = (chunk, Some(key));
            self.order.insert((key, zone));
        }
    }

    fn unfile(&mut self, zone: usize) {
        if let Some(key) = self.zones[zone].key.take() {
            self.order.remove(&(key, zone));
        }
    }

    /// The chunk to be reclaimed next: one that no request is in. With no free sequential zone only
    /// buffers help.
    pub(super) fn candidate(&self) -> Option<usize> {
        let only_buffers = self.free_sequential.is_empty();
        let keys = self
            .order
            .iter()
            .filter(|((is_buffer, ..), _)| *is_buffer || !only_buffers);
        let mut chunks = keys.map(|(_, zone)| self.zones[*zone].chunk);
        chunks.find(|chunk| {
            let chunk = &self.chunks[*chunk];
            chunk.active == 0 && !chunk.in_reclaim
        })
    }
}
