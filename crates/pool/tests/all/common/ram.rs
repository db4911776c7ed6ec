//! A drive in memory without a cache: what is written stays, whoever crashes.

use super::TestWorld;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use varve_io::{Blocks, Command, Completion, Done, Drive, DriveInfo, Gather, IoError};
use varve_io::{Outcome, Segment, Target};
use varve_pool::label::RESERVED_BYTES;
use varve_units::{BLOCK, SECTOR};

/// Carries out a command.
type End = Box<dyn FnOnce()>;

/// What survives the process.
pub struct Ram {
    bytes: u64,
    lba_bytes: u32,
    sectors: RefCell<BTreeMap<u64, [u8; SECTOR]>>,
    is_gone: Cell<bool>,
    /// Writes behind the label that fail with a media error.
    bad_writes: Cell<u32>,
    /// Steps by which writes of labels are late.
    label_delay: Cell<u32>,
    /// Writes of labels fail with a media error.
    has_bad_labels: Cell<bool>,
    /// What was written last behind the label.
    last_write: RefCell<Range<u64>>,
    /// Sectors that cannot be read before they are written.
    bad: RefCell<BTreeSet<u64>>,
    is_stuck: Cell<bool>,
    /// Commands that hang, and whether each is for a label.
    stuck: RefCell<Vec<(bool, End)>>,
}

impl Ram {
    pub fn new(bytes: u64, lba_bytes: u32) -> Rc<Self> {
        Rc::new(Self {
            bytes,
            lba_bytes,
            sectors: RefCell::default(),
            is_gone: Cell::new(false),
            bad_writes: Cell::new(0),
            label_delay: Cell::new(0),
            has_bad_labels: Cell::new(false),
            last_write: RefCell::new(0..0),
            bad: RefCell::default(),
            is_stuck: Cell::new(false),
            stuck: RefCell::default(),
        })
    }

    /// Lets every command fail from now on, or work again.
    pub fn set_gone(&self, is_gone: bool) {
        self.is_gone.set(is_gone);
    }

    /// Lets commands hang from now on, or end as usual; those that hang go on hanging.
    pub fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.set(is_stuck);
    }

    /// Carries out what hangs: labels, or all else. Returns how many these were.
    pub fn unstick(&self, are_labels: bool) -> usize {
        let stuck = self.stuck.take().into_iter();
        let (now, left): (Vec<_>, _) = stuck.partition(|(is_label, _)| *is_label == are_labels);
        self.stuck.replace(left);
        let count = now.len();
        now.into_iter().for_each(|(_, end)| end());
        count
    }

    /// Bytes of the last write behind the label.
    pub fn last_write(&self) -> Range<u64> {
        self.last_write.borrow().clone()
    }

    /// Lets a range of bytes be unreadable until it is written.
    pub fn spoil(&self, range: Range<u64>) {
        let sector = SECTOR as u64;
        let sectors = range.start / sector..range.end / sector;
        self.bad.borrow_mut().extend(sectors);
    }

    /// Lets so many writes behind the label fail with a media error; all else works.
    pub fn fail_writes(&self, count: u32) {
        self.bad_writes.set(count);
    }

    /// Writes behind the label that are still to fail.
    pub fn writes_to_fail(&self) -> u32 {
        self.bad_writes.get()
    }

    /// Flips a bit behind the label.
    pub fn flip(&self, offset: u64) {
        let at = RESERVED_BYTES + offset;
        let mut sectors = self.sectors.borrow_mut();
        let sector = sectors.entry(at / SECTOR as u64).or_insert([0; SECTOR]);
        sector[(at % SECTOR as u64) as usize] ^= 0x20;
    }

    /// Everything behind the label reads as zeroes.
    pub fn erase_content(&self) {
        let label = 0..RESERVED_BYTES / SECTOR as u64;
        self.sectors.borrow_mut().retain(|at, _| label.contains(at));
    }

    /// Lets writes of labels take effect and end so many steps later than they would.
    pub fn delay_labels(&self, steps: u32) {
        self.label_delay.set(steps);
    }

    /// Lets writes of labels fail with a media error, or work again; all else works.
    pub fn fail_labels(&self, is_failing: bool) {
        self.has_bad_labels.set(is_failing);
    }

    /// Erases the label and leaves all else.
    pub fn erase_label(&self) {
        let label = 0..RESERVED_BYTES / SECTOR as u64;
        self.sectors
            .borrow_mut()
            .retain(|at, _| !label.contains(at));
    }

    /// The bytes behind the label from `offset` on.
    pub fn content(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.read(RESERVED_BYTES + offset, &mut bytes);
        bytes
    }

    fn delay(&self, command: &Command) -> u32 {
        match command {
            Command::Write { offset, .. } if *offset < RESERVED_BYTES => self.label_delay.get(),
            _ => 0,
        }
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let sectors = self.sectors.borrow();
        let first = offset / SECTOR as u64;
        for (sector, bytes) in (first..).zip(into.chunks_mut(SECTOR)) {
            bytes.copy_from_slice(sectors.get(&sector).unwrap_or(&[0; SECTOR]));
        }
    }

    fn is_bad(&self, offset: u64, bytes: u64) -> bool {
        let sectors = offset / SECTOR as u64..(offset + bytes) / SECTOR as u64;
        self.bad.borrow().range(sectors).next().is_some()
    }

    fn write(&self, offset: u64, gather: &Gather) {
        if offset >= RESERVED_BYTES {
            *self.last_write.borrow_mut() = offset..offset + gather.bytes();
        }
        let mut sectors = self.sectors.borrow_mut();
        let mut sector = offset / SECTOR as u64;
        for segment in gather.segments() {
            let bytes = match segment {
                Segment::Meta(meta) => meta.bytes(),
                Segment::Data(blocks, range) => {
                    &blocks.bytes()[range.start * BLOCK..range.end * BLOCK]
                }
            };
            for bytes in bytes.chunks(SECTOR) {
                self.bad.borrow_mut().remove(&sector);
                sectors.insert(sector, bytes.try_into().unwrap());
                sector += 1;
            }
        }
    }

    fn run(&self, command: Command) -> Outcome {
        if self.is_gone.get() {
            return Err(IoError::Gone);
        }
        if let Command::Write { offset, .. } = &command
            && *offset < RESERVED_BYTES
            && self.has_bad_labels.get()
        {
            return Err(IoError::Media);
        }
        if let Command::Write { offset, .. } = &command
            && *offset >= RESERVED_BYTES
            && let Some(left) = self.bad_writes.get().checked_sub(1)
        {
            self.bad_writes.set(left);
            return Err(IoError::Media);
        }
        match command {
            Command::Read { offset, into, .. } if self.is_bad(offset, into.bytes()) => {
                Err(IoError::Media)
            }
            Command::Read { offset, into, .. } => Ok(Done::Read(match into {
                Target::Meta(mut meta) => {
                    self.read(offset, meta.bytes_mut());
                    Target::Meta(meta)
                }
                Target::Data(mut blocks) => {
                    self.read(offset, Blocks::bytes_mut(&mut blocks));
                    Target::Data(blocks)
                }
            })),
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                self.write(offset, &gather);
                Ok(Done::Nothing)
            }
            Command::Flush | Command::Discard { .. } => Ok(Done::Nothing),
        }
    }
}

/// A [`Ram`] as one process sees it.
pub struct RamDrive {
    world: Rc<TestWorld>,
    ram: Rc<Ram>,
}

impl RamDrive {
    pub fn attach(world: &Rc<TestWorld>, ram: &Rc<Ram>) -> Rc<dyn Drive> {
        Rc::new(Self {
            world: Rc::clone(world),
            ram: Rc::clone(ram),
        })
    }
}

impl Drive for RamDrive {
    fn info(&self) -> DriveInfo {
        DriveInfo {
            bytes: self.ram.bytes,
            lba_bytes: self.ram.lba_bytes,
            volatile_cache: false,
            copies: 1,
            handles: 1,
            gap_blocks: 0,
        }
    }

    fn submit(&self, command: Command) -> Completion {
        let (sender, completion) = Completion::waiting();
        let ram = Rc::clone(&self.ram);
        let delay = ram.delay(&command);
        let is_label =
            matches!(&command, Command::Write { offset, .. } if *offset < RESERVED_BYTES);
        let end = move || sender.send(ram.run(command));
        if self.ram.is_stuck.get() {
            self.ram.stuck.borrow_mut().push((is_label, Box::new(end)));
            return completion;
        }
        later(&self.world, delay, Box::new(end));
        completion
    }
}

/// Calls `end` at some step, no sooner than after `delay` others.
pub fn later(world: &Rc<TestWorld>, delay: u32, end: End) {
    let again = Rc::clone(world);
    world.complete_later(move || match delay.checked_sub(1) {
        Some(left) => later(&again, left, end),
        None => end(),
    });
}
