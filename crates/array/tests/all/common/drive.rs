//! A drive in memory: answers at drawn turns, so out of order; writes and reads take place at the
//! answer; errors can be injected; commands are counted.

use super::{BLOCK, Executor};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use varve_io::{
    Command, Completion, Done, Drive, DriveInfo, Gather, Handle, IoError, Outcome, Segment, Sender,
    Target,
};

pub struct MemoryDrive {
    itself: Weak<MemoryDrive>,
    executor: Rc<Executor>,
    pub info: Cell<DriveInfo>,
    bytes: RefCell<Vec<u8>>,
    symbols: RefCell<BTreeMap<u64, u64>>,
    /// Every command ends with this.
    pub broken: Cell<Option<IoError>>,
    /// The next write ends with this.
    pub next_write: Cell<Option<IoError>>,
    /// The next flush ends with this.
    pub next_flush: Cell<Option<IoError>>,
    /// Sectors that cannot be read until they are written.
    bad: RefCell<BTreeSet<u64>>,
    pub reads: Cell<usize>,
    pub writes: Cell<usize>,
    pub flushes: Cell<usize>,
    pub discards: RefCell<Vec<(u64, u64)>>,
    /// What the last write was under.
    pub handle: Cell<Handle>,
    /// Address of the first byte of each data segment written.
    pub seen: RefCell<Vec<usize>>,
    /// Commands do not end before [`MemoryDrive::wake`].
    pub is_hung: Cell<bool>,
    hung: RefCell<Vec<(Command, Sender<Outcome>)>>,
}

impl MemoryDrive {
    pub fn new(executor: Rc<Executor>, bytes: u64) -> Rc<Self> {
        Rc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            executor,
            info: Cell::new(DriveInfo {
                bytes,
                lba_bytes: 512,
                volatile_cache: false,
                copies: 1,
                handles: 1,
                gap_blocks: 0,
            }),
            bytes: RefCell::new(vec![0; bytes as usize]),
            symbols: RefCell::default(),
            broken: Cell::default(),
            next_write: Cell::default(),
            next_flush: Cell::default(),
            bad: RefCell::default(),
            reads: Cell::default(),
            writes: Cell::default(),
            flushes: Cell::default(),
            discards: RefCell::default(),
            handle: Cell::default(),
            seen: RefCell::default(),
            is_hung: Cell::default(),
            hung: RefCell::default(),
        })
    }

    /// Makes a range unreadable until it is written.
    pub fn spoil(&self, offset: u64, length: u64) {
        let sectors = offset / 512..(offset + length) / 512;
        self.bad.borrow_mut().extend(sectors);
    }

    /// Makes everything readable.
    pub fn unspoil(&self) {
        self.bad.borrow_mut().clear();
    }

    /// Commands that hang.
    pub fn hanging(&self) -> usize {
        self.hung.borrow().len()
    }

    /// Carries out what hangs, later, and answers again.
    pub fn wake(&self) {
        self.is_hung.set(false);
        for (command, sender) in self.hung.take() {
            self.answer(command, sender);
        }
    }

    fn answer(&self, command: Command, sender: Sender<Outcome>) {
        let drive = self.itself.upgrade().expect("a drive in use lives");
        self.executor
            .later(move || sender.send(drive.execute(command)));
    }

    /// The executor it answers on.
    pub fn executor(&self) -> Rc<Executor> {
        Rc::clone(&self.executor)
    }

    /// A copy of the bytes of a range.
    pub fn peek(&self, offset: usize, length: usize) -> Vec<u8> {
        self.bytes.borrow()[offset..offset + length].to_vec()
    }

    /// Changes bytes behind everyone's back.
    pub fn poke(&self, offset: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn count(&self, command: &Command) {
        let check = |offset: u64, length: u64| {
            let info = self.info.get();
            let lba = u64::from(info.lba_bytes);
            assert!(offset.is_multiple_of(lba) && length.is_multiple_of(lba));
            assert!(offset + length <= info.bytes, "beyond the drive");
        };
        match command {
            Command::Read { offset, into, .. } => {
                check(*offset, into.bytes());
                self.reads.set(self.reads.get() + 1);
            }
            Command::Write {
                offset,
                gather,
                handle,
            } => {
                check(*offset, gather.bytes());
                self.handle.set(*handle);
                self.writes.set(self.writes.get() + 1);
            }
            Command::Repair { .. } => panic!("arrays repair their members by writes"),
            Command::Flush => self.flushes.set(self.flushes.get() + 1),
            Command::Discard { offset, length } => {
                check(*offset, *length);
                self.discards.borrow_mut().push((*offset, *length));
            }
        }
    }

    fn execute(&self, command: Command) -> Outcome {
        if let Some(why) = self.broken.get() {
            return Err(why);
        }
        match command {
            Command::Read {
                offset, mut into, ..
            } => {
                self.fill(offset, &mut into)?;
                Ok(Done::Read(into))
            }
            Command::Write { offset, gather, .. } => {
                if let Some(why) = self.next_write.take() {
                    return Err(why);
                }
                self.store(offset, &gather);
                Ok(Done::Nothing)
            }
            Command::Flush => match self.next_flush.take() {
                Some(why) => Err(why),
                None => Ok(Done::Nothing),
            },
            Command::Discard { .. } | Command::Repair { .. } => Ok(Done::Nothing),
        }
    }

    fn fill(&self, offset: u64, into: &mut Target) -> Result<(), IoError> {
        let length = into.bytes();
        let mut sectors = offset / 512..(offset + length) / 512;
        if sectors.any(|sector| self.bad.borrow().contains(&sector)) {
            return Err(IoError::Media);
        }
        let bytes = self.peek(offset as usize, length as usize);
        match into {
            Target::Meta(sectors) => sectors.bytes_mut().copy_from_slice(&bytes),
            Target::Data(blocks) if blocks.is_elided() => {
                for (index, symbol) in blocks.symbols_mut().iter_mut().enumerate() {
                    let at = offset + (index * BLOCK) as u64;
                    *symbol = self.symbols.borrow().get(&at).copied().unwrap_or(0);
                }
            }
            Target::Data(blocks) => blocks.bytes_mut().copy_from_slice(&bytes),
        }
        Ok(())
    }

    fn store(&self, offset: u64, gather: &Gather) {
        let mut at = offset;
        for segment in gather.segments() {
            match segment {
                Segment::Meta(sectors) => self.poke(at as usize, sectors.bytes()),
                Segment::Data(blocks, range) if blocks.is_elided() => {
                    for (index, &symbol) in blocks.symbols()[range.clone()].iter().enumerate() {
                        let place = at + (index * BLOCK) as u64;
                        self.symbols.borrow_mut().insert(place, symbol);
                    }
                }
                Segment::Data(blocks, range) => {
                    let bytes = &blocks.bytes()[range.start * BLOCK..range.end * BLOCK];
                    self.seen.borrow_mut().push(bytes.as_ptr() as usize);
                    self.poke(at as usize, bytes);
                }
            }
            at += segment.bytes();
        }
        let mut bad = self.bad.borrow_mut();
        bad.retain(|&sector| sector < offset / 512 || sector >= at / 512);
    }
}

impl Drive for MemoryDrive {
    fn info(&self) -> DriveInfo {
        self.info.get()
    }

    fn submit(&self, command: Command) -> Completion {
        self.count(&command);
        let (sender, completion) = Completion::waiting();
        match self.is_hung.get() {
            true => self.hung.borrow_mut().push((command, sender)),
            false => self.answer(command, sender),
        }
        completion
    }
}
