//! Leaves: reading images into the cache, merging chains into new leaf records.
//!
//! A merge reads the image if it is not cached, folds the chain, appends a `leaf` record, waits
//! for its acknowledgement, switches the parent and drops the folded deltas (engine.md U2).

use crate::config::Canary;
use crate::error::EngineError;
use crate::geometry::UnitId;
use crate::limits::{CHAIN_MAX, MERGES_MAX};
use crate::map::{Base, LeafKey};
use crate::shard::Shard;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{LEAF_BYTES, LeafImage, Record, crc32c_parts};
use varve_io::{Event, Sectors};
use varve_units::{Lba, Lsn, SECTOR_BYTES};

/// Checksum of a leaf, seeded with what it is the image of, so that a leaf found in the wrong
/// place or of the wrong age fails it.
pub(crate) fn leaf_crc(key: LeafKey, through: Lsn, bytes: &[u8]) -> u32 {
    let mut seed = [0; 24];
    seed[..8].copy_from_slice(&key.volume.0.to_le_bytes());
    seed[8..16].copy_from_slice(&key.leaf.0.to_le_bytes());
    seed[16..].copy_from_slice(&through.0.to_le_bytes());
    crc32c_parts(&[&seed, bytes])
}

impl Shard {
    /// Makes sure the image of a leaf is cached when this returns.
    pub(crate) async fn ensure_image(&self, key: LeafKey) -> Result<(), EngineError> {
        loop {
            let base = {
                let mut map = self.map.borrow_mut();
                if map.has_image(key) {
                    return Ok(());
                }
                let base = map.base(key);
                if base.is_none() {
                    let mut dead = Vec::new();
                    map.install_blank(key, &mut dead);
                    drop(map);
                    self.bury(&mut dead);
                    return Ok(());
                }
                base
            };
            let base = base.expect("just seen");
            let other = self.loads.borrow().get(&key).cloned();
            if let Some(event) = other {
                event.listen().await;
                continue;
            }
            let event = Rc::new(Event::new());
            self.loads.borrow_mut().insert(key, Rc::clone(&event));
            let read = self.read_leaf(key, base).await;
            self.loads.borrow_mut().remove(&key);
            event.notify();
            let mut dead = Vec::new();
            let installed = match read {
                Some(image) => self.map.borrow_mut().install(key, base, image, &mut dead).is_ok(),
                None if self.map.borrow().base(key) == Some(base) => {
                    self.shared.count("leaves_lost", 1);
                    return Err(EngineError::Lost(key.volume, Lba(key.leaf.first().0)));
                }
                None => false,
            };
            self.bury(&mut dead);
            if installed {
                return Ok(());
            }
        }
    }

    /// Reads and verifies a leaf, trying every copy. `None` if none passes.
    async fn read_leaf(&self, key: LeafKey, base: Base) -> Option<LeafImage> {
        self.shared.count("leaf_reads", 1);
        let sectors = LEAF_BYTES as u64 / SECTOR_BYTES;
        for copy in 0..self.shared.fast.info().copies {
            let Some(bytes) = self.read_sectors(base.sector, sectors, copy).await else {
                continue;
            };
            if leaf_crc(key, base.through, &bytes[..LEAF_BYTES]) == base.crc {
                if copy > 0 {
                    self.shared.count("leaf_repairs", 1);
                    self.repair_sectors(base.sector, bytes).await;
                }
                return LeafImage::from_bytes(&bytes[..LEAF_BYTES]);
            }
        }
        None
    }

    /// Reads `count` sectors from fast-tier sector `sector` on, whatever the LBA size.
    pub(crate) async fn read_sectors(&self, sector: u64, count: u64, copy: u8) -> Option<Vec<u8>> {
        let unit = u64::from(self.shared.units.geometry().lba_bytes) / SECTOR_BYTES;
        let start = sector / unit * unit;
        let end = (sector + count).next_multiple_of(unit);
        let into = Sectors::zeroed((end - start) as usize);
        let read = self.shared.fast.read_meta(start * SECTOR_BYTES, into, copy).await.ok()?;
        let from = ((sector - start) * SECTOR_BYTES) as usize;
        Some(read.bytes()[from..from + (count * SECTOR_BYTES) as usize].to_vec())
    }

    /// Merges until the shard stops: when nodes are short, when someone waits for them, when a
    /// chain is long.
    pub(crate) async fn run_merger(self: Rc<Self>) {
        while !self.shared.is_stopped() {
            match self.next_merge() {
                Some(key) => {
                    self.merging.borrow_mut().push(key);
                    let shard = Rc::clone(&self);
                    self.shared.world.spawn(Box::pin(async move {
                        shard.merge(key).await;
                        shard.merging.borrow_mut().retain(|other| *other != key);
                        shard.nodes_freed.notify();
                        shard.merge_wanted.notify();
                    }));
                }
                None => self.merge_wanted.listen().await,
            }
        }
    }

    fn next_merge(&self) -> Option<LeafKey> {
        let merging = self.merging.borrow();
        if merging.len() >= MERGES_MAX {
            return None;
        }
        let mut map = self.map.borrow_mut();
        let short = self.node_waiters.get() > 0
            || map.free_nodes() < self.shared.nodes_low(self) + merging.len();
        let key = map.fullest(&merging)?;
        (short || map.chain_len(key) >= CHAIN_MAX).then_some(key)
    }

    /// Merges one leaf. Gives up silently if the engine stops or the leaf cannot be read.
    pub(crate) async fn merge(&self, key: LeafKey) {
        if self.ensure_image(key).await.is_err() {
            return;
        }
        let (bytes, through) = {
            let mut map = self.map.borrow_mut();
            let Some(merge) = map.begin_merge(key) else { return };
            if merge.image.is_blank() {
                let old = map.base(key);
                map.finish_empty(key, merge.through);
                self.count_leaf(old.map(|base| base.sector), None);
                drop(map);
                self.nodes_freed.notify();
                return;
            }
            (merge.image.to_bytes(), merge.through)
        };
        let claimed = match self.planted(Canary::LeafThroughOffByOne) {
            true => through.next(),
            false => through,
        };
        let crc = leaf_crc(key, claimed, &bytes);
        let record = Record::Leaf { volume: key.volume, leaf: key.leaf, through: claimed, crc };
        let appended = self.append_meta(record, Some(Sectors::from_bytes(&bytes))).await;
        match appended {
            Ok(at) => {
                self.shared.count("leaf_merges", 1);
                let mut map = self.map.borrow_mut();
                let old = map.base(key);
                map.finish_merge(key, at.meta_sector, crc, claimed);
                self.count_leaf(old.map(|base| base.sector), Some(at.meta_sector));
            }
            Err(_) => self.map.borrow_mut().abandon_merge(key),
        }
        self.nodes_freed.notify();
    }

    /// Keeps the number of live leaves of each chunk.
    pub(crate) fn count_leaf(&self, old: Option<u64>, new: Option<u64>) {
        let units = &self.shared.units;
        let chunk = |sector| UnitId::chunk(units.geometry().chunk_of(sector));
        if let Some(sector) = old {
            units.unit(chunk(sector)).leaf_gone();
        }
        if let Some(sector) = new {
            units.unit(chunk(sector)).leaf_added();
        }
    }
}
