//! Leaves: reading images into the cache, merging chains into new leaf records.
//!
//! A merge reads the image if it is not cached, folds the chain, appends a `leaf` record, waits
//! for its acknowledgement, switches the parent and drops the folded deltas (engine.md U2).

use crate::config::Canary;
use crate::error::EngineError;
use crate::geometry::UnitId;
use crate::limits::{CHAIN_MAX, MERGES_MAX};
use crate::map::{Base, LeafCursor, LeafKey, Map, Merge, NeedsImage};
use crate::shard::Shard;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{LEAF_BYTES, LeafImage, Record, crc32c_parts};
use varve_io::{Event, IoError, Sectors};
use varve_units::{Lba, Lsn, SECTOR_BYTES};
use zerocopy::IntoBytes;

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
    /// Makes sure the image of a leaf that exists is cached when this returns. A leaf that does not
    /// exist needs none.
    pub(crate) async fn ensure_image(&self, key: LeafKey) -> Result<(), EngineError> {
        loop {
            let Some(base) = self.install_blank(key) else {
                return Ok(());
            };
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
            if self.shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            let mut dead = Vec::new();
            let installed = match read {
                Some(image) => self
                    .map
                    .borrow_mut()
                    .install(key, base, *image, &mut dead)
                    .is_ok(),
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

    /// What must be read to get an image; `None` if it is cached, blank, or of no leaf.
    fn install_blank(&self, key: LeafKey) -> Option<Base> {
        let mut map = self.map.borrow_mut();
        if !map.exists(key) || map.is_cached(key) {
            return None;
        }
        let base = map.base(key);
        if base.is_none() {
            let mut dead = Vec::new();
            map.install_blank(key, &mut dead)
                .expect("a leaf without base takes a blank image");
            drop(map);
            self.bury(&mut dead);
        }
        base
    }

    /// Reads and verifies a leaf, trying every copy. `None` if none passes.
    async fn read_leaf(&self, key: LeafKey, base: Base) -> Option<Box<LeafImage>> {
        self.shared.count("leaf_reads", 1);
        let sectors = LEAF_BYTES as u64 / SECTOR_BYTES;
        let mut is_gone = false;
        for copy in 0..self.shared.fast.info().copies {
            let bytes = match self.try_read_sectors(base.sector, sectors, copy).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    is_gone |= copy == 0 && error == IoError::Gone;
                    continue;
                }
            };
            if leaf_crc(key, base.through, &bytes[..LEAF_BYTES]) == base.crc {
                if copy > 0 && !is_gone && self.map.borrow().stored(key) == Some(base) {
                    self.shared.count("leaf_repairs", 1);
                    self.repair_sectors(base.sector, &bytes).await;
                }
                return LeafImage::decode(&bytes[..LEAF_BYTES]).ok();
            }
        }
        None
    }

    /// Reads `count` sectors from fast-tier sector `sector` on, whatever the LBA size.
    pub(crate) async fn read_sectors(&self, sector: u64, count: u64, copy: u8) -> Option<Vec<u8>> {
        self.try_read_sectors(sector, count, copy).await.ok()
    }

    async fn try_read_sectors(
        &self,
        sector: u64,
        count: u64,
        copy: u8,
    ) -> Result<Vec<u8>, IoError> {
        let unit = u64::from(self.shared.units.geometry().lba_bytes) / SECTOR_BYTES;
        let start = sector / unit * unit;
        let end = (sector + count).next_multiple_of(unit);
        let into = Sectors::zeroed((end - start) as usize);
        let read = self
            .shared
            .fast
            .read_meta(start * SECTOR_BYTES, into, copy)
            .await?;
        let from = ((sector - start) * SECTOR_BYTES) as usize;
        Ok(read.bytes()[from..from + (count * SECTOR_BYTES) as usize].to_vec())
    }

    /// Merges until the shard stops: when nodes are short, when someone waits for them, when a
    /// chain is long.
    pub(crate) async fn run_merger(self: Rc<Self>) {
        while !self.shared.is_stopped() {
            match self.next_merge() {
                Some(key) => {
                    let shard = Rc::clone(&self);
                    self.merges.set(self.merges.get() + 1);
                    self.picked.borrow_mut().push(key);
                    self.shared.spawn(async move {
                        let merged = shard.merge(key).await;
                        shard.merges.set(shard.merges.get() - 1);
                        if merged.is_ok() {
                            // One that cannot be read stays picked: it is not tried again.
                            shard.picked.borrow_mut().retain(|other| *other != key);
                        }
                        shard.nodes_freed.notify();
                        shard.merge_wanted.notify();
                    });
                }
                None => self.merge_wanted.listen().await,
            }
        }
    }

    fn next_merge(&self) -> Option<LeafKey> {
        if self.merges.get() >= MERGES_MAX {
            return None;
        }
        let mut map = self.map.borrow_mut();
        let short = self.node_waiters.get() > 0
            || map.room() < self.shared.nodes_low(self) + self.merges.get();
        let picked = self.picked.borrow();
        let key = map.fullest_except(&picked)?;
        (short || map.chain_len(key) >= CHAIN_MAX).then_some(key)
    }

    /// Merges a leaf now; waits if it is being merged already.
    pub(crate) async fn merge_now(&self, key: LeafKey) {
        while self.map.borrow().is_merging(key) && !self.shared.is_stopped() {
            self.nodes_freed.listen().await;
        }
        // One that cannot be read stays as it is: its reads fail, its chunk is not emptied.
        let _ = self.merge(key).await;
    }

    /// Merges one leaf.
    ///
    /// # Errors
    /// The engine stopped, or the leaf cannot be read.
    pub(crate) async fn merge(&self, key: LeafKey) -> Result<(), EngineError> {
        loop {
            if !self.map.borrow().exists(key) || self.map.borrow().is_merging(key) {
                return Ok(());
            }
            let begun = self.map.borrow_mut().begin_merge(key);
            match begun {
                Ok(merge) => {
                    self.write_leaf(key, merge).await;
                    return Ok(());
                }
                Err(NeedsImage::Discarded(base)) => {
                    self.clear_discarded(key, base).await?;
                }
                Err(NeedsImage::Read(_) | NeedsImage::Blank) => {
                    self.ensure_image(key).await?;
                }
            }
        }
    }

    async fn write_leaf(&self, key: LeafKey, merge: Merge) {
        if merge.image.is_empty() {
            self.change_leaf(key, |map| map.finish_empty(key, merge.through));
            self.nodes_freed.notify();
            return;
        }
        let claimed = match self.planted(Canary::LeafThroughOffByOne) {
            true => merge.through.next(),
            false => merge.through,
        };
        let bytes = merge.image.as_bytes();
        let crc = leaf_crc(key, claimed, bytes);
        let record = Record::Leaf {
            volume: key.volume,
            leaf: key.leaf,
            through: claimed,
            crc,
        };
        let appended = self
            .append_meta(record, Some(Sectors::from_bytes(bytes)))
            .await;
        if appended.is_ok() {
            self.shared.count("leaf_merges", 1);
        }
        self.nodes_freed.notify();
    }

    /// A leaf record is acknowledged: it is the leaf's base now.
    pub(crate) fn adopt_leaf(&self, key: LeafKey, sector: u64, crc: u32, through: Lsn) {
        self.change_leaf(key, |map| {
            if map.is_merging(key) {
                map.finish_merge(key, sector, crc, through);
            }
        });
    }

    /// Reads the old image of a discarded leaf and clears the live bits of its places.
    async fn clear_discarded(&self, key: LeafKey, base: Base) -> Result<(), EngineError> {
        let image = self.read_leaf(key, base).await;
        if self.shared.is_stopped() {
            return Err(EngineError::Stopped);
        }
        let mut dead = Vec::new();
        match image {
            Some(image) => self.change_leaf(key, |map| {
                // Stale: the leaf has another base by now, whoever changed it cleared the bits.
                let _ = map.clear_discarded(key, base, &image, &mut dead);
            }),
            None if self.map.borrow().stored(key) == Some(base) => {
                self.shared.count("leaves_lost", 1);
                let lba = Lba(key.leaf.first().0);
                return Err(EngineError::Lost(key.volume, lba));
            }
            None => {}
        }
        self.bury(&mut dead);
        Ok(())
    }

    /// Drops a leaf of a deleted volume and clears the live bits of its places. A leaf whose image
    /// cannot be read is left: its bits stay, the cleaner asks the catalogue.
    pub(crate) async fn drop_leaf(&self, key: LeafKey) -> Result<(), EngineError> {
        loop {
            while self.map.borrow().is_merging(key) && !self.shared.is_stopped() {
                self.nodes_freed.listen().await;
            }
            let base = self.map.borrow().stored(key);
            let image = match base {
                Some(base) => self.read_leaf(key, base).await,
                None => None,
            };
            if self.shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            if self.map.borrow().stored(key) != base || self.map.borrow().is_merging(key) {
                continue;
            }
            let stored = match (base, &image) {
                (Some(base), Some(image)) => Some((base, &**image)),
                (Some(_), None) => {
                    self.shared.count("leaves_lost", 1);
                    return Ok(());
                }
                (None, _) => None,
            };
            let mut dead = Vec::new();
            let dropped = self.change_leaf(key, |map| map.drop_volume_leaf(key, stored, &mut dead));
            self.bury(&mut dead);
            if dropped.is_ok() {
                self.nodes_freed.notify();
                return Ok(());
            }
        }
    }

    /// Clears the live bits of discarded leaves, so that deallocation frees units.
    pub(crate) async fn run_clearer(self: Rc<Self>) {
        while !self.shared.is_stopped() {
            // Heard from here on: a leaf discarded behind the walk starts another one.
            let wanted = self.clear_wanted.listen();
            let mut from = LeafCursor::default();
            loop {
                let next = self.map.borrow().discarded_next(from);
                let Some((key, base, after)) = next else {
                    break;
                };
                from = after;
                // A leaf that cannot be read keeps its bits; the cleaner asks the map.
                if let Err(EngineError::Stopped) = self.clear_discarded(key, base).await {
                    return;
                }
            }
            wanted.await;
        }
    }

    /// Changes a leaf and keeps the number of live leaves of each chunk.
    pub(crate) fn change_leaf<T>(&self, key: LeafKey, change: impl FnOnce(&mut Map) -> T) -> T {
        let mut map = self.map.borrow_mut();
        let before = map.stored(key).map(|base| base.sector);
        let result = change(&mut map);
        let after = map.stored(key).map(|base| base.sector);
        drop(map);
        self.show_used();
        if before != after {
            self.count_leaf(before, after);
        }
        result
    }

    /// Keeps the number of live leaves of each chunk.
    pub(crate) fn count_leaf(&self, old: Option<u64>, new: Option<u64>) {
        if !self.leaves_counted.get() {
            return;
        }
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
