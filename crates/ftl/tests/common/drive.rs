//! A drive in memory: answers at drawn turns, so out of order; reads and writes take place at the
//! answer. Each copy has bytes of its own, which tests may spoil.

use super::Executor;
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::vec;
use std::vec::Vec;
use varve_io::{
    Command, Completion, Done, Drive, DriveInfo, Gather, Handle, IoError, Outcome, Segment, Sender,
    Target,
};
use varve_units::BLOCK;

pub struct MemoryDrive {
    itself: Weak<MemoryDrive>,
    executor: Rc<Executor>,
    info: DriveInfo,
    /// Placement handles it has.
    pub handles: Cell<u8>,
    copies: RefCell<Vec<Vec<u8>>>,
    /// So many more writes end well, the next one with a media error.
    pub writes_left: Cell<Option<u32>>,
    pub repairs: Cell<usize>,
    /// After so many more writes one does not reach copy 0, silently.
    pub lose_in: Cell<Option<u32>>,
    /// After so many more writes at a multiple of 1 MiB one does not reach copy 0, silently.
    pub lose_start_in: Cell<Option<u32>>,
    pub gone: Cell<bool>,
    /// One write in so many is stored, yet answered as if it had come to nothing; the next one to its place does not
    /// reach copy 0, silently. 0: none.
    pub late_every: Cell<u32>,
    late: RefCell<Late>,
    /// Writes are never answered.
    pub silent: Cell<bool>,
    unanswered: RefCell<Vec<Sender<Outcome>>>,
    /// Writes find no space beneath the drive.
    pub no_space: Cell<bool>,
    /// Writes are not answered until [`MemoryDrive::release`].
    pub holds_writes: Cell<bool>,
    /// Writes are refused.
    pub read_only: Cell<bool>,
    /// Reads of metadata that lie here fail on every copy.
    pub bad: Cell<Option<(u64, u64)>>,
    /// Reads of metadata that lie here wait until they are let go.
    pub held: Cell<Option<(u64, u64)>>,
    waiting: RefCell<VecDeque<Box<dyn FnOnce()>>>,
    /// Reads of metadata at multiples of 1 MiB, where chunks have their headers, end too late.
    pub late_heads: Cell<bool>,
    /// Reads that touch these bytes of this copy fail.
    pub bad_on: RefCell<Vec<(u8, Range<u64>)>>,
    /// So many more reads of each copy say that it is gone.
    pub gone_reads: RefCell<Vec<u32>>,
    /// Reads by this copy say that it is gone.
    pub away: Cell<Option<u8>>,
    /// This copy is out of use: reads by it are answered so at once.
    pub lost: Cell<Option<u8>>,
    /// There is one way to read until so many reads were answered so.
    pub lost_alone: Cell<u32>,
    /// Where the last write went.
    pub last_write: RefCell<Range<u64>>,
    pub written: Cell<u64>,
    /// What was written before the first flush since it was taken.
    pub written_before_flush: Cell<Option<u64>>,
    /// Where writes went since the last flush.
    unflushed: RefCell<Vec<Range<u64>>>,
    /// What each mebibyte was written under, from its start on.
    pub under: RefCell<BTreeMap<u64, Vec<Handle>>>,
    /// Reads of metadata, and of data, by copies in use.
    pub meta_reads: Reads,
    pub data_reads: Reads,
}

/// Reads of one kind.
#[derive(Default)]
pub struct Reads {
    pub begun: Cell<usize>,
    on_way: Cell<usize>,
    /// The most that were on their way at once.
    pub most: Cell<usize>,
}

impl Reads {
    /// Forgets what was counted.
    pub fn reset(&self) {
        self.begun.set(0);
        self.most.set(self.on_way.get());
    }

    fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
        self.on_way.set(self.on_way.get() + 1);
        self.most.set(self.most.get().max(self.on_way.get()));
    }

    fn end(&self) {
        self.on_way.set(self.on_way.get() - 1);
    }
}

impl MemoryDrive {
    pub fn new(executor: Rc<Executor>, bytes: u64, copies: u8) -> Rc<Self> {
        Rc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            executor,
            info: DriveInfo {
                bytes,
                lba_bytes: 512,
                volatile_cache: true,
                copies,
                handles: 4,
                gap_blocks: 2,
            },
            handles: Cell::new(4),
            copies: RefCell::new(vec![vec![0; bytes as usize]; usize::from(copies)]),
            writes_left: Cell::default(),
            repairs: Cell::default(),
            lose_in: Cell::default(),
            lose_start_in: Cell::default(),
            gone: Cell::default(),
            late_every: Cell::default(),
            late: RefCell::default(),
            silent: Cell::default(),
            unanswered: RefCell::default(),
            no_space: Cell::default(),
            holds_writes: Cell::default(),
            read_only: Cell::default(),
            bad: Cell::default(),
            held: Cell::default(),
            waiting: RefCell::default(),
            late_heads: Cell::default(),
            bad_on: RefCell::default(),
            gone_reads: RefCell::new(vec![0; usize::from(copies)]),
            away: Cell::default(),
            lost: Cell::default(),
            lost_alone: Cell::default(),
            last_write: RefCell::default(),
            written: Cell::default(),
            written_before_flush: Cell::default(),
            unflushed: RefCell::default(),
            under: RefCell::default(),
            meta_reads: Reads::default(),
            data_reads: Reads::default(),
        })
    }

    const fn reads(&self, of_meta: bool) -> &Reads {
        if of_meta {
            &self.meta_reads
        } else {
            &self.data_reads
        }
    }

    /// Flips a bit of one byte of one copy.
    pub fn flip(&self, copy: u8, offset: u64) {
        self.copies.borrow_mut()[usize::from(copy)][offset as usize] ^= 0x10;
    }

    /// Reads that wait to be let go.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Lets the read go that has waited longest.
    pub fn let_go(&self) {
        let read = self.waiting.borrow_mut().pop_front();
        self.executor.later(read.expect("a read that waits"));
    }

    /// Answers what is held, and holds nothing any more.
    pub fn release(&self) {
        self.holds_writes.set(false);
        let held = self.waiting.take();
        held.into_iter().for_each(|answer| answer());
    }

    fn is_held(&self, command: &Command) -> bool {
        if matches!(command, Command::Write { .. }) {
            return self.holds_writes.get();
        }
        let Command::Read {
            offset,
            into: into @ Target::Meta(_),
            ..
        } = command
        else {
            return false;
        };
        let held = self.held.get();
        held.is_some_and(|(from, to)| *offset < to && from < offset + into.bytes())
    }

    /// Bytes of copy 0.
    pub fn peek(&self, offset: u64, length: usize) -> Vec<u8> {
        self.peek_at(0, offset, length)
    }

    /// Bytes of a copy.
    pub fn peek_at(&self, copy: u8, offset: u64, length: usize) -> Vec<u8> {
        self.copies.borrow()[usize::from(copy)][offset as usize..][..length].to_vec()
    }

    fn check(&self, offset: u64, length: u64) {
        let lba = u64::from(self.info.lba_bytes);
        assert!(offset.is_multiple_of(lba) && length.is_multiple_of(lba));
        assert!(offset + length <= self.info.bytes, "beyond the drive");
    }

    fn note(&self, offset: u64, handle: Handle) {
        let mut under = self.under.borrow_mut();
        let here = under.entry(offset >> 20).or_default();
        if offset.is_multiple_of(1 << 20) {
            here.clear();
        }
        here.push(handle);
    }

    fn execute(&self, command: Command) -> Outcome {
        if self.gone.get() {
            return Err(IoError::Gone);
        }
        match command {
            Command::Read {
                offset,
                mut into,
                copy,
            } => {
                let length = into.bytes() as usize;
                if let Some((from, to)) = self.bad.get()
                    && offset < to
                    && from < offset + length as u64
                {
                    return Err(IoError::Media);
                }
                let is_head = matches!(into, Target::Meta(_)) && offset.is_multiple_of(1 << 20);
                if is_head && self.late_heads.get() {
                    return Err(IoError::Timeout);
                }
                if self.is_away(copy) {
                    return Err(IoError::Gone);
                }
                let is_hit = |(on, bad): &(u8, Range<u64>)| {
                    *on == copy && offset < bad.end && bad.start < offset + length as u64
                };
                if self.bad_on.borrow().iter().any(is_hit) {
                    return Err(IoError::Media);
                }
                let copies = self.copies.borrow();
                let bytes = &copies[usize::from(copy)][offset as usize..][..length];
                match &mut into {
                    Target::Meta(sectors) => sectors.bytes_mut().copy_from_slice(bytes),
                    Target::Data(blocks) => blocks.bytes_mut().copy_from_slice(bytes),
                }
                return Ok(Done::Read(into));
            }
            Command::Write { .. } if self.no_space.get() => return Err(IoError::NoSpace),
            Command::Write { .. } if self.read_only.get() => return Err(IoError::ReadOnly),
            Command::Write { offset, gather, .. } => {
                if let Some(left) = self.writes_left.get() {
                    self.writes_left.set(left.checked_sub(1));
                    if left == 0 {
                        return Err(IoError::Media);
                    }
                }
                self.written.set(self.written.get() + gather.bytes());
                let range = offset..offset + gather.bytes();
                self.unflushed.borrow_mut().push(range.clone());
                *self.last_write.borrow_mut() = range;
                let is_start = offset.is_multiple_of(1 << 20);
                let lost = is_due(&self.lose_in) | (is_start && is_due(&self.lose_start_in));
                if self.land(offset, &gather, lost) {
                    return Err(IoError::Timeout);
                }
            }
            Command::Repair {
                offset,
                gather,
                copy,
            } => {
                self.repairs.set(self.repairs.get() + 1);
                self.store(copy, offset, &gather);
            }
            Command::Flush => self.note_flush(),
            Command::Discard { .. } => {}
        }
        Ok(Done::Nothing)
    }

    /// True if a read of this copy says that it is gone.
    fn is_away(&self, copy: u8) -> bool {
        let gone = &mut self.gone_reads.borrow_mut()[usize::from(copy)];
        let is_gone = *gone > 0;
        *gone = gone.saturating_sub(1);
        is_gone || self.away.get() == Some(copy)
    }

    /// True if this byte was written and not flushed since.
    pub fn is_unflushed(&self, offset: u64) -> bool {
        let unflushed = self.unflushed.borrow();
        unflushed.iter().any(|range| range.contains(&offset))
    }

    fn note_flush(&self) {
        self.unflushed.borrow_mut().clear();
        let first = self.written_before_flush.get();
        let first = first.unwrap_or(self.written.get());
        self.written_before_flush.set(Some(first));
    }

    /// Stores a write on every copy, or on all but the first. True if that is to be answered late.
    fn land(&self, offset: u64, gather: &Gather, lost: bool) -> bool {
        let (is_late, is_lost) = self.late.borrow_mut().note(self.late_every.get(), offset);
        for copy in u8::from(lost | is_lost)..self.info.copies {
            self.store(copy, offset, gather);
        }
        is_late
    }

    fn store(&self, copy: u8, offset: u64, gather: &Gather) {
        let mut at = offset as usize;
        for segment in gather.segments() {
            let bytes = match segment {
                Segment::Meta(sectors) => sectors.bytes(),
                Segment::Data(blocks, range) => {
                    &blocks.bytes()[range.start * BLOCK..range.end * BLOCK]
                }
            };
            self.copies.borrow_mut()[usize::from(copy)][at..at + bytes.len()]
                .copy_from_slice(bytes);
            at += bytes.len();
        }
    }
}

/// Writes that were answered late.
#[derive(Default)]
struct Late {
    writes: u32,
    /// Where the last one went, until something else is written there.
    at: Option<u64>,
}

impl Late {
    /// Whether a write is late, one in `every`, and whether it is lost.
    fn note(&mut self, every: u32, offset: u64) -> (bool, bool) {
        if self.at == Some(offset) {
            self.at = None;
            return (false, true);
        }
        if every == 0 || self.at.is_some() {
            return (false, false);
        }
        self.writes += 1;
        let is_late = self.writes.is_multiple_of(every);
        self.at = is_late.then_some(offset);
        (is_late, false)
    }
}

/// Counts down to the one fault that is planned.
fn is_due(left: &Cell<Option<u32>>) -> bool {
    let now = left.get();
    left.set(now.and_then(|left| left.checked_sub(1)));
    now == Some(0)
}

impl Drive for MemoryDrive {
    fn info(&self) -> DriveInfo {
        let handles = self.handles.get();
        let copies = match self.lost_alone.get() {
            0 => self.info.copies,
            _ => 1,
        };
        DriveInfo {
            copies,
            handles,
            ..self.info
        }
    }

    fn submit(&self, command: Command) -> Completion {
        match &command {
            Command::Read { offset, into, .. } => self.check(*offset, into.bytes()),
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                self.check(*offset, gather.bytes());
            }
            Command::Flush | Command::Discard { .. } => {}
        }
        match &command {
            Command::Write { offset, handle, .. } => self.note(*offset, *handle),
            Command::Read { copy, .. } if self.lost.get() == Some(*copy) => {
                let left = self.lost_alone.get();
                self.lost_alone.set(left.saturating_sub(1));
                return Completion::ready(Err(IoError::GivenUp));
            }
            _ => {}
        }
        let (sender, completion) = Completion::waiting();
        let drive = self.itself.upgrade().expect("a drive in use lives");
        let of_meta = match &command {
            Command::Read { into, .. } => Some(matches!(into, Target::Meta(_))),
            _ => None,
        };
        if let Some(of_meta) = of_meta {
            self.reads(of_meta).begin();
        }
        if self.silent.get() && matches!(command, Command::Write { .. }) {
            self.unanswered.borrow_mut().push(sender);
            return completion;
        }
        let is_held = self.is_held(&command);
        let answer = move || {
            if let Some(of_meta) = of_meta {
                drive.reads(of_meta).end();
            }
            sender.send(drive.execute(command));
        };
        if is_held {
            self.waiting.borrow_mut().push_back(Box::new(answer));
        } else {
            self.executor.later(answer);
        }
        completion
    }
}
