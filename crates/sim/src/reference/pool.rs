//! One life of a reference pool.

use crate::checker::space::Space;
use crate::checker::volumes::Naming;
use crate::reference::Bug;
use crate::reference::disk::{Disk, Image, Record};
use crate::rng::Rng;
use crate::subject::{Config, Flow, Outcome, Subject, SubjectError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_io::{Blocks, Drive, Gather, Sectors, World};
use varve_units::{LEAF_BLOCKS, Lba, Nanos, VolumeId};

/// First identity of a volume.
const FIRST_VOLUME: u64 = 1;
/// Longest time a write waits before it is applied.
const APPLY_NS: u64 = 30_000;

/// A reference pool that runs.
pub struct Pool {
    world: Rc<dyn World>,
    drives: Vec<Rc<dyn Drive>>,
    disk: Rc<RefCell<Disk>>,
    bug: Option<Bug>,
    rng: RefCell<Rng>,
    capacity: u64,
    is_elided: bool,
    is_volatile: bool,
    at: Cell<u64>,
    writing: Cell<u64>,
    status: RefCell<BTreeMap<&'static str, u64>>,
}

impl Pool {
    /// A pool over what survived.
    pub fn new(
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        disk: Rc<RefCell<Disk>>,
        bug: Option<Bug>,
        rng: Rng,
        config: &Config,
    ) -> Self {
        disk.borrow_mut().seed(&rng);
        let dense = config.dense.drives().max(1) as u64 * config.dense_bytes;
        Self {
            world,
            drives,
            disk,
            bug,
            rng: RefCell::new(rng),
            capacity: dense / 4096 / 2,
            is_elided: config.is_elided,
            is_volatile: config.volatile_cache,
            at: Cell::new(0),
            writing: Cell::new(0),
            status: RefCell::default(),
        }
    }

    fn count(&self, name: &'static str) {
        *self.status.borrow_mut().entry(name).or_default() += 1;
    }

    fn has(&self, bug: Bug, chance: u64) -> bool {
        self.bug == Some(bug) && self.rng.borrow_mut().chance(1, chance)
    }

    /// Keeps a drive busy as a write of a log would.
    async fn touch_drive(&self) {
        let drive = &self.drives[0];
        let info = drive.info();
        let lba = u64::from(info.lba_bytes);
        let at = self.at.get();
        self.at.set((at + 1) % ((info.bytes - (1 << 20)) / lba));
        let mut gather = Gather::new();
        gather.push_meta(Sectors::zeroed((lba / 512) as usize));
        // A mirror in memory needs no drive: whatever it answers is of no account.
        let _ = drive.write((1 << 19) + at * lba, gather).await;
        if self.has(Bug::Hangs, 400) {
            std::future::pending::<()>().await;
        }
    }

    /// Applies a change leaf by leaf.
    fn apply(&self, volume: VolumeId, lba: Lba, count: u64, data: Option<&Rc<Blocks>>) {
        let disk = &mut *self.disk.borrow_mut();
        let is_logged = data.is_some() || self.bug != Some(Bug::ForgetsDiscard);
        let end = lba.0 + count;
        let mut at = lba.0;
        while at < end {
            let stop = ((at / LEAF_BLOCKS + 1) * LEAF_BLOCKS).min(end);
            let record = Record {
                volume: volume.0,
                lba: at,
                count: stop - at,
                data: data.map(|blocks| (Rc::clone(blocks), (at - lba.0) as usize)),
            };
            disk.append(record, is_logged);
            at = stop;
        }
        if !self.is_volatile {
            let mark = disk.mark();
            disk.flush(mark);
        }
    }

    fn check_space(&self, count: u64) -> Outcome<()> {
        // Whatever is in flight was counted when it began, overwrites included.
        let planned = self.disk.borrow().used() + self.writing.get() + count;
        if planned > self.capacity || self.has(Bug::RefusesWrites, 300) {
            self.count("full_rejections");
            return Err(SubjectError::CapacityExceeded);
        }
        Ok(())
    }

    async fn write_blocks(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        forced: bool,
    ) -> Outcome<()> {
        let count = blocks.len() as u64;
        self.check_space(count)?;
        self.writing.set(self.writing.get() + count);
        self.touch_drive().await;
        let span = self.rng.borrow_mut().below(APPLY_NS);
        self.world.sleep(Nanos(span)).await;
        let blocks = Rc::new(blocks);
        self.apply(volume, lba, count, Some(&blocks));
        self.writing.set(self.writing.get() - count);
        self.count("writes");
        if self.has(Bug::SwapsWrites, 40) {
            self.apply_late(volume, lba, count, blocks);
        }
        if forced {
            self.flush_all().await
        } else {
            Ok(())
        }
    }

    /// The bug: the write is applied once more after others had their turn.
    fn apply_late(&self, volume: VolumeId, lba: Lba, count: u64, blocks: Rc<Blocks>) {
        let (disk, world) = (Rc::clone(&self.disk), Rc::clone(&self.world));
        self.world.spawn(Box::pin(async move {
            world.sleep(Nanos::from_micros(150)).await;
            let record = Record {
                volume: volume.0,
                lba: lba.0,
                count: count.min(1),
                data: Some((blocks, 0)),
            };
            disk.borrow_mut().append(record, true);
        }));
    }

    async fn read_blocks(&self, volume: VolumeId, lba: Lba, mut into: Blocks) -> Outcome<Blocks> {
        let (early, is_stale) = if self.bug == Some(Bug::ServesStale) {
            let image = self.disk.borrow().now.get(&volume.0).cloned();
            (image, self.writing.get() > 0)
        } else {
            (None, false)
        };
        let shift = u64::from(self.has(Bug::ServesNeighbour, 50));
        let span = self.rng.borrow_mut().within(10_000, 80_000);
        self.world.sleep(Nanos(span)).await;
        if is_stale {
            // Long enough for a write to be acknowledged, and its reader to follow.
            fill(&early.ok_or(SubjectError::Stopped)?, lba, shift, &mut into);
            self.stale(volume, lba, &mut into);
            return Ok(into);
        }
        let disk = self.disk.borrow();
        let image = disk.now.get(&volume.0).ok_or(SubjectError::Stopped)?;
        fill(image, lba, shift, &mut into);
        Ok(into)
    }

    /// The bug: durable content instead of what was written since.
    fn stale(&self, volume: VolumeId, lba: Lba, into: &mut Blocks) {
        let disk = self.disk.borrow();
        if let Some(image) = disk.durable.get(&volume.0) {
            fill(image, lba, 0, into);
        }
    }

    async fn zero_blocks(&self, volume: VolumeId, lba: Lba, count: u64) -> Outcome<()> {
        self.touch_drive().await;
        self.apply(volume, lba, count, None);
        self.count("discards");
        Ok(())
    }

    async fn flush_all(&self) -> Outcome<()> {
        let mark = self.disk.borrow().mark();
        let _ = self.drives[0].flush().await;
        if self.bug != Some(Bug::AcknowledgesEarly) {
            self.disk.borrow_mut().flush(mark);
        }
        self.count("flushes");
        if self.has(Bug::FailsFlush, 20) {
            return Err(SubjectError::Media);
        }
        Ok(())
    }

    async fn create(&self, count: u64) -> Outcome<VolumeId> {
        self.touch_drive().await;
        let disk = &mut *self.disk.borrow_mut();
        let id = disk.next_volume + FIRST_VOLUME;
        disk.next_volume += 1;
        let mut image = Image {
            size: count,
            blocks: BTreeMap::new(),
        };
        disk.durable.insert(id, image.clone());
        if let (Some(Bug::ResurrectsData), Some((_, old))) = (self.bug, &disk.deleted) {
            image.blocks.clone_from(&old.blocks);
            image.blocks.retain(|&lba, _| lba < count);
        }
        disk.now.insert(id, image);
        Ok(VolumeId(id))
    }

    async fn delete(&self, volume: VolumeId) -> Outcome<()> {
        self.touch_drive().await;
        let disk = &mut *self.disk.borrow_mut();
        disk.durable.remove(&volume.0);
        let image = disk.now.remove(&volume.0);
        disk.deleted = Some((volume.0, image.ok_or(SubjectError::Stopped)?));
        Ok(())
    }

    async fn resize(&self, volume: VolumeId, count: u64) -> Outcome<()> {
        self.touch_drive().await;
        let disk = &mut *self.disk.borrow_mut();
        let mark = disk.mark();
        disk.flush(mark);
        let Disk { now, durable, .. } = disk;
        for images in [now, durable] {
            let image = images.get_mut(&volume.0).ok_or(SubjectError::Stopped)?;
            image.size = count;
            drop(image.blocks.split_off(&count));
        }
        Ok(())
    }
}

/// Reads blocks from an image, `shift` blocks off.
fn fill(image: &Image, lba: Lba, shift: u64, into: &mut Blocks) {
    for index in 0..into.len() {
        match image.blocks.get(&(lba.0 + shift + index as u64)) {
            Some((blocks, at)) => into.copy_from(index, blocks, *at, 1),
            None => into.zero(index, 1),
        }
    }
}

impl Subject for Pool {
    fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        forced: bool,
    ) -> Flow<'_, Outcome<()>> {
        assert_eq!(
            blocks.is_elided(),
            self.is_elided,
            "one kind of content in a run"
        );
        Box::pin(self.write_blocks(volume, lba, blocks, forced))
    }

    fn read(&self, volume: VolumeId, lba: Lba, into: Blocks) -> Flow<'_, Outcome<Blocks>> {
        Box::pin(self.read_blocks(volume, lba, into))
    }

    fn discard(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(self.zero_blocks(volume, lba, count))
    }

    fn write_zeroes(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(self.zero_blocks(volume, lba, count))
    }

    fn flush(&self) -> Flow<'_, Outcome<()>> {
        Box::pin(self.flush_all())
    }

    fn create_volume<'a>(
        &'a self,
        _identity: &'a Naming,
        count: u64,
    ) -> Flow<'a, Outcome<VolumeId>> {
        Box::pin(self.create(count))
    }

    fn delete_volume(&self, volume: VolumeId) -> Flow<'_, Outcome<()>> {
        Box::pin(self.delete(volume))
    }

    fn resize_volume(&self, volume: VolumeId, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(self.resize(volume, count))
    }

    fn volumes(&self) -> Vec<(VolumeId, u64)> {
        let disk = self.disk.borrow();
        disk.now
            .iter()
            .map(|(&id, image)| (VolumeId(id), image.size))
            .collect()
    }

    fn replace(&self, _index: usize, _drive: Rc<dyn Drive>, _works: bool) -> Flow<'_, Outcome<()>> {
        Box::pin(async {
            self.world.sleep(Nanos::from_millis(1)).await;
            Ok(())
        })
    }

    fn is_whole(&self, _index: usize) -> bool {
        true
    }

    fn close(&self) -> Flow<'_, Outcome<()>> {
        Box::pin(self.flush_all())
    }

    fn space(&self) -> Space {
        let wrong = u64::from(self.bug == Some(Bug::MiscountsSpace));
        Space {
            used_blocks: self.disk.borrow().used() + wrong,
            capacity_blocks: self.capacity,
            capacity_leaves: u64::MAX,
            is_exact: true,
        }
    }

    fn status(&self) -> BTreeMap<&'static str, u64> {
        self.status.borrow().clone()
    }

    fn audit(&self) -> Flow<'_, Result<(), String>> {
        Box::pin(async {
            let disk = self.disk.borrow();
            let mut images = disk.now.values();
            let is_inside = |image: &Image| {
                image
                    .blocks
                    .last_key_value()
                    .is_none_or(|(&last, _)| last < image.size)
            };
            if images.all(is_inside) {
                Ok(())
            } else {
                Err("a block behind the end of its volume".to_owned())
            }
        })
    }
}
