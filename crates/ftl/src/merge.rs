//! Leaves: reading images into the cache, merging chains into new leaf records.
//!
//! A merge reads the image if it is not cached, folds the chain, appends a `leaf` record, waits
//! for its acknowledgement, switches the parent and drops the folded deltas (engine.md U2).

use crate::config::Canary;
use crate::error::EngineError;
use crate::geometry::UnitId;
use crate::limits::{CHAIN_MAX, MERGES_MAX, RETRY_PAUSE};
use crate::load::{Appended, Stopped};
use crate::map::{Base, LeafCursor, LeafKey, Map, Merge, NeedsImage};
use crate::shard::Shard;
use crate::shared::{FIRST, Shared};
use crate::ways::Ways;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use varve_format::{LEAF_BYTES, LeafImage, Record, crc32c_parts};
use varve_io::{Event, IoError, Sectors};
use varve_units::{Lsn, SECTOR_BYTES};

/// Checksum of a leaf, seeded with what it is the image of, so that a leaf found in the wrong
/// place or of the wrong age fails it.
pub(crate) fn leaf_crc(key: LeafKey, through: Lsn, bytes: &[u8]) -> u32 {
    let mut seed = [0; 24];
    seed[..8].copy_from_slice(&key.volume.0.to_le_bytes());
    seed[8..16].copy_from_slice(&key.leaf.0.to_le_bytes());
    seed[16..].copy_from_slice(&through.0.to_le_bytes());
    crc32c_parts(&[&seed, bytes])
}

/// Why a leaf could not be read.
enum Unread {
    /// Every copy was read and failed its check, said that it cannot be read, or is out of use.
    Lost,
    /// A copy that may come back did not answer.
    Away(IoError),
}

impl Shared {
    /// There is no chunk for leaves. Before a start has ended none will ever be freed: redo goes on
    /// without merges then.
    pub(crate) fn lift_map_limits(&self) {
        if self.is_serving.load(Ordering::SeqCst) {
            return;
        }
        for to in self.reactors() {
            self.tell(to, |there| {
                let shard = there.shard();
                shard.map.borrow_mut().lift_limit();
                shard.nodes_freed.notify();
            });
        }
    }
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
            match read {
                Ok(image) => {
                    let mut dead = Vec::new();
                    let installed =
                        self.change_leaf(key, |map| map.install(key, base, image, &mut dead));
                    self.bury(&mut dead);
                    if installed.is_ok() {
                        return Ok(());
                    }
                }
                Err(Unread::Lost) if self.map.borrow().is_merging(key) => {
                    // What it is being merged into stands for it.
                    self.nodes_freed.listen().await;
                }
                Err(Unread::Lost) => self.declare_lost(key, base),
                Err(Unread::Away(error)) if self.map.borrow().base(key) == Some(base) => {
                    return Err(EngineError::Io(error));
                }
                Err(Unread::Away(_)) => {}
            }
        }
    }

    /// No copy of a leaf can be read: its blocks are lost but for those in its chain. The merger
    /// writes that down, so that nothing waits for the leaf for ever.
    fn declare_lost(&self, key: LeafKey, base: Base) {
        let declared = self.change_leaf(key, |map| map.declare_lost(key, base));
        if declared.is_ok() {
            self.note_lost();
            self.merge_wanted.notify();
        }
    }

    /// The places that a lost leaf named are known to nobody: their bits stay.
    fn note_lost(&self) {
        self.shared.count("leaves_lost", 1);
        self.shared.units.doubt_all();
    }

    /// What must be read to get an image; `None` if it is cached, blank, lost, or of no leaf.
    fn install_blank(&self, key: LeafKey) -> Option<Base> {
        if !self.map.borrow().exists(key) || self.map.borrow().is_cached(key) {
            return None;
        }
        let mut dead = Vec::new();
        let base = self.map.borrow().base(key);
        if base.is_none() {
            self.change_leaf(key, |map| map.install_blank(key, &mut dead))
                .expect("a leaf without base takes a blank image");
        } else {
            let lost = self.change_leaf(key, |map| map.install_lost(key, &mut dead));
            if lost.is_err() {
                return base;
            }
        }
        self.bury(&mut dead);
        None
    }

    /// Reads and verifies a leaf, trying every copy.
    async fn read_leaf(&self, key: LeafKey, base: Base) -> Result<Box<LeafImage>, Unread> {
        self.shared.count("leaf_reads", 1);
        let sectors = LEAF_BYTES as u64 / SECTOR_BYTES;
        let mut ways = Ways::default();
        let mut is_gone = false;
        loop {
            for copy in 0..self.shared.fast.info().copies {
                match self.try_read_sectors(base.sector, sectors, copy).await {
                    Ok(read) if leaf_crc(key, base.through, read.bytes()) == base.crc => {
                        let image = LeafImage::decode(read.bytes());
                        if copy > 0 && !is_gone && self.map.borrow().stored(key) == Some(base) {
                            self.shared.count("leaf_repairs", 1);
                            self.repair_sectors(base.sector, read).await;
                        }
                        return image.map_err(|_| Unread::Lost);
                    }
                    Ok(_) => ways.note_mismatch(),
                    Err(error) => {
                        is_gone |= copy == 0 && error.is_absence();
                        ways.note_error(error);
                    }
                }
            }
            if !ways.tries_again() {
                break;
            }
        }
        Err(ways.away().map_or(Unread::Lost, Unread::Away))
    }

    /// Reads `count` sectors from fast-tier sector `sector` on, whatever the LBA size.
    pub(crate) async fn read_sectors(&self, sector: u64, count: u64, copy: u8) -> Option<Sectors> {
        self.try_read_sectors(sector, count, copy).await.ok()
    }

    pub(crate) async fn try_read_sectors(
        &self,
        sector: u64,
        count: u64,
        copy: u8,
    ) -> Result<Sectors, IoError> {
        let unit = u64::from(self.shared.units.geometry().lba_bytes) / SECTOR_BYTES;
        let start = sector / unit * unit;
        let end = (sector + count).next_multiple_of(unit);
        let into = Sectors::zeroed((end - start) as usize);
        let read = self
            .shared
            .fast
            .read_meta(start * SECTOR_BYTES, into, copy)
            .await?;
        Ok(read.slice((sector - start) as usize, count as usize))
    }

    /// Merges until the shard stops: when nodes are short, when someone waits for them, when a
    /// chain is long, when a leaf is lost.
    pub(crate) async fn run_merger(self: Rc<Self>) {
        while !self.shared.is_stopped() {
            match self.next_merge() {
                Some(key) => {
                    let shard = Rc::clone(&self);
                    self.merges.set(self.merges.get() + 1);
                    self.picked.borrow_mut().push(key);
                    self.shared.spawn(async move {
                        let merged = shard.merge(key).await;
                        if merged.is_err() && !shard.shared.is_stopped() {
                            // A copy is away: others come first, then it is tried again.
                            shard.shared.world.sleep(RETRY_PAUSE).await;
                        }
                        shard.merges.set(shard.merges.get() - 1);
                        shard.picked.borrow_mut().retain(|other| *other != key);
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
        if let Some(key) = map.lost_except(&picked) {
            return Some(key);
        }
        let key = map.fullest_except(&picked)?;
        // A long chain can wait while the log is short: the cleaner needs what is left of it.
        let is_long = || map.chain_len(key) >= CHAIN_MAX && !self.shared.is_log_short();
        ((short && !self.shared.is_log_for_upkeep()) || is_long()).then_some(key)
    }

    /// Merges a leaf now; waits if it is being merged already.
    ///
    /// # Errors
    /// The engine stopped, or a copy that holds the leaf is away.
    pub(crate) async fn merge_now(&self, key: LeafKey) -> Result<(), EngineError> {
        while self.map.borrow().is_merging(key) && !self.shared.is_stopped() {
            self.nodes_freed.listen().await;
        }
        self.merge(key).await
    }

    /// Merges one leaf; one of a volume that is being deleted is dropped instead.
    ///
    /// # Errors
    /// The engine stopped, or a copy that holds the leaf is away.
    pub(crate) async fn merge(&self, key: LeafKey) -> Result<(), EngineError> {
        loop {
            // Its places may hold blocks of others by now. A new image would name them with an LSN
            // younger than those blocks, and the purge would bury them. Looked at before each attempt:
            // the volume may have been deleted while the old image was read.
            if self.shared.volumes.borrow().is_deleting(key.volume) {
                return self.drop_leaf(key).await;
            }
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
        if merge.is_empty {
            self.change_leaf(key, |map| map.finish_empty(key, merge.through));
            self.nodes_freed.notify();
            return;
        }
        let claimed = match self.planted(Canary::LeafThroughOffByOne) {
            true => merge.through.next(),
            false => merge.through,
        };
        let crc = leaf_crc(key, claimed, merge.image.bytes());
        let record = Record::Leaf {
            volume: key.volume,
            leaf: key.leaf,
            through: claimed,
            crc,
        };
        let appended = match self.shared.is_serving.load(Ordering::SeqCst) {
            true => self.append_meta(record, Some(merge.image)).await,
            false => self.append_first(key, record, merge.image).await,
        };
        if appended.is_ok() {
            self.shared.count("leaf_merges", 1);
        }
        self.nodes_freed.notify();
    }

    /// Appends a leaf record during a start, to lane 0 whoever owns the leaf: before the checkpoint
    /// that ends the start there is one chunk for leaves, not one for each lane. Nothing redoes the
    /// record together with older ones, so it need not be in its slice's lane: that checkpoint has
    /// everything that came before, and `through` says what the image holds.
    async fn append_first(
        &self,
        key: LeafKey,
        record: Record,
        payload: Sectors,
    ) -> Result<Appended, Stopped> {
        let Record::Leaf { through, crc, .. } = record else {
            unreachable!("only leaves are written before a start has ended");
        };
        let append = move |first: Rc<Shared>| async move {
            first.shard().append_meta(record, Some(payload)).await
        };
        let at = self.shared.call(FIRST, append).await??;
        if self.shared.reactor != FIRST {
            self.adopt_leaf(key, at.meta_sector, crc, through);
        }
        Ok(at)
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
        let read = self.read_leaf(key, base).await;
        if self.shared.is_stopped() {
            return Err(EngineError::Stopped);
        }
        let (image, is_lost) = match read {
            Ok(image) => (image, false),
            Err(Unread::Lost) => (Box::new(LeafImage::BLANK), true),
            Err(Unread::Away(error)) if self.map.borrow().stored(key) == Some(base) => {
                return Err(EngineError::Io(error));
            }
            Err(Unread::Away(_)) => return Ok(()),
        };
        let mut dead = Vec::new();
        // Stale: the leaf has another base by now, whoever changed it cleared the bits.
        let cleared =
            self.change_leaf(key, |map| map.clear_discarded(key, base, &image, &mut dead));
        self.bury(&mut dead);
        if is_lost && cleared.is_ok() {
            self.note_lost();
        }
        Ok(())
    }

    /// Drops a leaf of a deleted volume and clears the live bits of its places. Those of a leaf
    /// that is lost stay: the cleaner asks the catalogue.
    ///
    /// # Errors
    /// The engine stopped, or a copy that holds the leaf is away.
    pub(crate) async fn drop_leaf(&self, key: LeafKey) -> Result<(), EngineError> {
        loop {
            while self.map.borrow().is_merging(key) && !self.shared.is_stopped() {
                self.nodes_freed.listen().await;
            }
            let base = self.map.borrow().stored(key);
            let image = match base {
                Some(base) => Some(self.read_leaf(key, base).await),
                None => None,
            };
            if self.shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            if self.map.borrow().stored(key) != base || self.map.borrow().is_merging(key) {
                continue;
            }
            let (image, is_lost) = match image {
                Some(Ok(image)) => (image, false),
                Some(Err(Unread::Lost)) => (Box::new(LeafImage::BLANK), true),
                Some(Err(Unread::Away(error))) => return Err(EngineError::Io(error)),
                None => (Box::new(LeafImage::BLANK), false),
            };
            let stored = base.map(|base| (base, &*image));
            let mut dead = Vec::new();
            let dropped = self.change_leaf(key, |map| map.drop_volume_leaf(key, stored, &mut dead));
            self.bury(&mut dead);
            if dropped.is_ok() {
                if is_lost {
                    self.note_lost();
                }
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
                // While a copy is away the leaf keeps its bits; the cleaner asks the map.
                if let Err(EngineError::Stopped) = self.clear_discarded(key, base).await {
                    return;
                }
            }
            wanted.await;
        }
    }

    /// Changes a leaf, keeps the number of live leaves of each chunk and shows what the map holds
    /// now: an image that settles which moves were met lowers the bound too.
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
