//! What of a reference pool survives a crash.

use crate::reference::Bug;
use crate::rng::Rng;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_io::Blocks;
use varve_units::LEAF_BLOCKS;

/// One block of data: a place in a shared buffer.
pub type Place = (Rc<Blocks>, usize);

/// A volume's size and blocks.
#[derive(Clone, Default)]
pub struct Image {
    /// Size in blocks.
    pub size: u64,
    /// Blocks that hold data.
    pub blocks: BTreeMap<u64, Place>,
}

/// One change of one leaf.
#[derive(Clone)]
pub struct Record {
    /// The volume.
    pub volume: u64,
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub count: u64,
    /// The data; none for zeroes.
    pub data: Option<Place>,
}

impl Record {
    /// Applies the change to the volumes.
    pub fn apply(&self, volumes: &mut BTreeMap<u64, Image>) {
        let Some(image) = volumes.get_mut(&self.volume) else {
            return;
        };
        for at in 0..self.count {
            match &self.data {
                Some((blocks, index)) => {
                    let place = (Rc::clone(blocks), index + at as usize);
                    image.blocks.insert(self.lba + at, place);
                }
                None => {
                    image.blocks.remove(&(self.lba + at));
                }
            }
        }
    }
}

/// The state of a reference pool.
#[derive(Default)]
pub struct Disk {
    /// What reads see.
    pub now: BTreeMap<u64, Image>,
    /// What survives any crash.
    pub durable: BTreeMap<u64, Image>,
    /// Changes that are not durable, in order.
    pub log: Vec<Record>,
    /// Records that were ever made durable.
    pub flushed: u64,
    /// Identity of the next volume.
    pub next_volume: u64,
    /// Blocks of the volume deleted last.
    pub deleted: Option<(u64, Image)>,
    rng: Option<Rng>,
}

impl Disk {
    /// Sets where a crash draws from.
    pub fn seed(&mut self, rng: &Rng) {
        self.rng.get_or_insert_with(|| rng.split("crash"));
    }

    /// Changes the volumes and appends a record.
    pub fn append(&mut self, record: Record, is_logged: bool) {
        record.apply(&mut self.now);
        if is_logged {
            self.log.push(record);
        }
    }

    /// The number of the next record.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.flushed + self.log.len() as u64
    }

    /// Makes all records before `mark` durable.
    pub fn flush(&mut self, mark: u64) {
        let count = mark.saturating_sub(self.flushed) as usize;
        for record in self.log.drain(..count) {
            record.apply(&mut self.durable);
        }
        self.flushed = self.flushed.max(mark);
    }

    /// Blocks that hold data.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.now
            .values()
            .map(|image| image.blocks.len() as u64)
            .sum()
    }

    /// A start after a crash: each leaf keeps some prefix of its records.
    pub fn recover(&mut self, bug: Option<Bug>) {
        let mut rng = self.rng.clone().expect("a pool ran before");
        let mut cuts: BTreeMap<(u64, u64), bool> = BTreeMap::new();
        self.flushed += self.log.len() as u64;
        let log = std::mem::take(&mut self.log);
        for record in log {
            let leaf = (record.volume, record.lba / LEAF_BLOCKS);
            let is_cut = cuts.entry(leaf).or_insert(false);
            *is_cut |= rng.chance(1, 8);
            let skips = bug == Some(Bug::KeepsNewerOnly) && rng.chance(1, 2);
            if *is_cut && !skips {
                if bug == Some(Bug::TearsRecords) && record.count > 1 {
                    let half = Record { count: 1, ..record };
                    half.apply(&mut self.durable);
                }
                continue;
            }
            record.apply(&mut self.durable);
        }
        self.break_durable(bug, &mut rng);
        self.now.clone_from(&self.durable);
        self.rng = Some(rng);
    }

    fn break_durable(&mut self, bug: Option<Bug>, rng: &mut Rng) {
        match bug {
            Some(Bug::DropsFlushed) if rng.chance(1, 2) => {
                if let Some(image) = self.durable.values_mut().next() {
                    image.blocks.pop_first();
                }
            }
            Some(Bug::LosesVolume) if self.durable.len() > 1 && rng.chance(1, 4) => {
                self.durable.pop_last();
            }
            Some(Bug::ResurrectsVolume) => {
                if let Some((id, image)) = self.deleted.take() {
                    self.durable.insert(id, image);
                }
            }
            _ => {}
        }
    }
}
