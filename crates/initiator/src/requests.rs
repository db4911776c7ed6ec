//! What the caller wants of the namespace, cut into commands the controller takes.
//!
//! A request is cut front to back as queues have room. What was answered before a loss is kept, if no
//! loss can undo it; a request begins again at the first gap. Otherwise one that takes longer than an
//! association lives would never end. What a volatile cache may have held is not kept: the target may
//! be another one, started anew, and a request that is answered after that must be there as a whole.
//! Its parts then go out to be durable at once (FUA), so that it loses its progress once at most. What
//! was in hand at too many losses without any progress between them fails instead.
//!
//! **Invariants**: a request ends once; what is kept, parts in flight, parts to come, parts to be sent
//! again and what may be in a cache cover it.
//!
//! **Not here**: queues, connections.

use crate::discard::Discard;
use crate::error::Failure;
use crate::flights::{Owner, Transfer};
use crate::kept::Kept;
use crate::payload::Payload;
use crate::queue::Done;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_io::{Gather, Target};
use varve_nvme::opcode::io;
use varve_nvme::sqe::BlockRange;
use varve_nvme::status::StatusField;
use varve_nvme::{Sqe, Status};
use varve_units::{Nanos, PLANTS_BUGS};

/// Times a command is sent again after a passing failure. As Linux.
const RETRIES_MAX: u8 = 5;
/// Time before that.
const RETRY_DELAY: Nanos = Nanos::from_millis(100);
/// DEAC, word 12 of Write Zeroes.
const DEALLOCATE: u32 = 1 << 25;

/// What is wanted. Blocks are those of the namespace; data is whole blocks.
pub enum Operation {
    /// Fill memory.
    Read {
        /// First block.
        lba: u64,
        /// Memory.
        into: Target,
    },
    /// Store data.
    Write {
        /// First block.
        lba: u64,
        /// Content.
        data: Gather,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Compare with data.
    Compare {
        /// First block.
        lba: u64,
        /// What is expected there.
        data: Gather,
    },
    /// Make durable what was answered.
    Flush,
    /// Blocks read as zeroes from now on.
    WriteZeroes {
        /// First block.
        lba: u64,
        /// Number of blocks.
        blocks: u64,
        /// They need no memory any more.
        deallocate: bool,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Blocks are not needed any more: first block and number.
    Deallocate {
        /// Ranges.
        ranges: Vec<(u64, u32)>,
    },
}

/// How a request ended.
pub struct Completion {
    /// What the caller called it.
    pub id: u64,
    /// The memory of a read that succeeded.
    pub memory: Option<Target>,
    /// Why it failed, if it did.
    pub result: Result<(), Failure>,
}

/// What the controller takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub nsid: u32,
    pub block_bytes: u32,
    /// Blocks of a read, write or compare.
    pub transfer_blocks: u32,
    /// Blocks of a Write Zeroes; 0 if it has no such command.
    pub zeroes_blocks: u32,
    /// Blocks of a range of a Dataset Management; 0 if it has no such command.
    pub range_blocks: u32,
    /// Ranges of one.
    pub ranges: u32,
    /// Blocks of all of them.
    pub discard_blocks: u64,
    pub has_compare: bool,
    /// Writes that were answered can be lost until they are flushed.
    pub is_volatile: bool,
}

/// A piece of a request that one command does: bytes of data, or blocks, from `at` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    request: u32,
    serial: u64,
    at: u64,
    count: u32,
    tries: u8,
    /// No loss undoes it once it is answered well.
    is_lasting: bool,
}

/// What a request does, its data ready to be shared.
enum Work {
    Read {
        lba: u64,
        into: Target,
    },
    Write {
        lba: u64,
        data: Rc<Gather>,
        fua: bool,
    },
    Compare {
        lba: u64,
        data: Rc<Gather>,
    },
    /// Writes answered before it was asked for.
    Flush {
        covers: u64,
    },
    WriteZeroes {
        lba: u64,
        blocks: u64,
        flags: (bool, bool),
    },
    Deallocate(Discard),
}

struct Request {
    id: u64,
    serial: u64,
    work: Work,
    /// What need not be sent again.
    kept: Kept,
    /// Up to here it is cut, in this association.
    cursor: u64,
    /// Parts that are not answered.
    parts: u32,
    /// Parts were answered in this association that its loss undoes.
    has_fleeting: bool,
    /// Parts are durable before they are answered, asked for or not.
    is_forced: bool,
    /// Associations that were lost while the controller had some of it in hand, since any was kept.
    losses: u32,
    failure: Option<Failure>,
}

/// All requests.
#[derive(Default)]
pub(crate) struct Requests {
    slab: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Requests with parts to cut.
    waiting: VecDeque<u32>,
    /// Parts to be sent again, and when.
    delayed: VecDeque<(Nanos, Part)>,
    completions: VecDeque<Completion>,
    next_serial: u64,
    /// Writes that were answered, and how many of them are durable.
    written: u64,
    flushed: u64,
    /// Answered writes may be lost: every flush would vouch for them, and fails.
    is_cache_lost: bool,
    is_vouching: bool,
}

impl Work {
    fn new(operation: Operation, written: u64) -> Self {
        match operation {
            Operation::Read { lba, into } => Self::Read { lba, into },
            Operation::Write { lba, data, fua } => Self::Write {
                lba,
                data: Rc::new(data),
                fua,
            },
            Operation::Compare { lba, data } => Self::Compare {
                lba,
                data: Rc::new(data),
            },
            Operation::Flush => Self::Flush { covers: written },
            Operation::WriteZeroes {
                lba,
                blocks,
                deallocate,
                fua,
            } => Self::WriteZeroes {
                lba,
                blocks,
                flags: (deallocate, fua),
            },
            Operation::Deallocate { ranges } => Self::Deallocate(Discard::new(&ranges)),
        }
    }

    /// Its length in what parts count: bytes, blocks; 1 for a flush.
    fn length(&self) -> u64 {
        match self {
            Self::Read { into, .. } => into.bytes(),
            Self::Write { data, .. } | Self::Compare { data, .. } => data.bytes(),
            Self::Flush { .. } => 1,
            Self::WriteZeroes { blocks, .. } => *blocks,
            Self::Deallocate(discard) => discard.blocks(),
        }
    }

    /// What one command takes of it from `at` on; 0 if the controller has no such command.
    fn part_max(&self, at: u64, limits: &Limits) -> u64 {
        let bytes = u64::from(limits.transfer_blocks) * u64::from(limits.block_bytes);
        match self {
            Self::Read { .. } | Self::Write { .. } => bytes,
            Self::Compare { .. } if limits.has_compare => bytes,
            Self::Compare { .. } => 0,
            Self::Flush { .. } => 1,
            Self::WriteZeroes { .. } => limits.zeroes_blocks.into(),
            Self::Deallocate(discard) => discard.command_blocks(at, limits),
        }
    }

    /// True if it may change what the namespace holds.
    const fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::WriteZeroes { .. } | Self::Deallocate(_)
        )
    }

    /// True if it needs a later flush to be durable.
    const fn is_cached(&self) -> bool {
        matches!(
            self,
            Self::Write { fua: false, .. }
                | Self::WriteZeroes {
                    flags: (_, false),
                    ..
                }
        )
    }

    /// True if no loss undoes what this controller has answered: it has no cache to lose, or was told to
    /// pass it by. Reads have filled their memory, and a comparison has been made.
    const fn is_lasting(&self, limits: &Limits) -> bool {
        let is_durable = match self {
            Self::Read { .. } | Self::Compare { .. } | Self::Flush { .. } => true,
            Self::Write { fua, .. } => *fua,
            Self::WriteZeroes { flags, .. } => flags.1,
            Self::Deallocate(_) => false,
        };
        is_durable || !limits.is_volatile
    }
}

impl Request {
    /// What is to be cut next.
    fn next_gap(&self) -> Option<Range<u64>> {
        self.kept.gap(self.cursor, self.work.length())
    }

    /// A part was answered well.
    fn keep(&mut self, part: Part) {
        if part.is_lasting {
            self.kept.add(part.at..part.at + u64::from(part.count));
            self.losses = 0;
        } else {
            self.has_fleeting = true;
        }
    }

    /// Its association is lost.
    fn start_again(&mut self) {
        self.losses = self.losses.saturating_add(u32::from(self.parts > 0));
        // A deallocation has no such flag. One command of it takes as many blocks as there are, mostly.
        self.is_forced |= self.has_fleeting && self.work.is_cached();
        self.has_fleeting = false;
        self.cursor = 0;
        self.parts = 0;
        // That a part failed is not told yet: the others may still land, until there is an association
        // again. Who was told would not expect that.
        self.failure = None;
        assert!(self.next_gap().is_some(), "what is answered has ended");
    }
}

impl Requests {
    /// Takes a request in.
    ///
    /// # Panics
    /// If data is not whole blocks.
    pub fn submit(&mut self, id: u64, operation: Operation, limits: &Limits) {
        let work = Work::new(operation, self.written);
        if let Work::Read { .. } | Work::Write { .. } | Work::Compare { .. } = work {
            let block = u64::from(limits.block_bytes);
            assert!(work.length().is_multiple_of(block), "data is whole blocks");
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let request = Request {
            id,
            serial,
            kept: Kept::default(),
            cursor: 0,
            parts: 0,
            has_fleeting: false,
            is_forced: false,
            losses: 0,
            failure: None,
            work,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slab[index as usize] = Some(request);
                index
            }
            None => {
                self.slab.push(Some(request));
                (self.slab.len() - 1) as u32
            }
        };
        self.admit(index, limits);
    }

    /// Puts a request into the line, or ends it if there is nothing to do.
    fn admit(&mut self, index: u32, limits: &Limits) {
        let is_cache_lost = self.is_cache_lost;
        let request = self.get_mut(index);
        if let Work::Flush { .. } = request.work
            && is_cache_lost
        {
            request.failure = Some(Failure::CacheLost);
            return self.end(index);
        }
        let Some(gap) = request.next_gap() else {
            return self.end(index);
        };
        if request.work.part_max(gap.start, limits) == 0 {
            request.failure = Some(Failure::Unsupported);
            return self.end(index);
        }
        self.waiting.push_back(index);
    }

    fn get_mut(&mut self, index: u32) -> &mut Request {
        let request = self.slab[index as usize].as_mut();
        request.expect("a request is there until it ends")
    }

    /// The request of a part, unless it failed while the part was in flight.
    fn of(&self, part: Part) -> Option<&Request> {
        let request = self.slab[part.request as usize].as_ref()?;
        (request.serial == part.serial).then_some(request)
    }

    /// The next part to be sent.
    pub fn next_part(&mut self, now: Nanos, limits: &Limits) -> Option<Part> {
        if let Some((at, part)) = self.delayed.front().copied()
            && at <= now
        {
            self.delayed.pop_front();
            return Some(part);
        }
        let (index, gap, part_max) = loop {
            let index = *self.waiting.front()?;
            let request = self.get_mut(index);
            let gap = request.next_gap().expect("what waits has parts to cut");
            let part_max = request.work.part_max(gap.start, limits);
            if part_max > 0 {
                break (index, gap, part_max);
            }
            // It was let in by an earlier association, and the controller has no such command any more.
            self.waiting.pop_front();
            self.get_mut(index).failure = Some(Failure::Unsupported);
            self.end(index);
        };
        let request = self.get_mut(index);
        let count = (gap.end - gap.start).min(part_max);
        let part = Part {
            request: index,
            serial: request.serial,
            at: gap.start,
            count: count as u32,
            tries: 0,
            is_lasting: request.is_forced || request.work.is_lasting(limits),
        };
        request.cursor = gap.start + count;
        request.parts += 1;
        if request.next_gap().is_none() {
            self.waiting.pop_front();
        }
        Some(part)
    }

    /// When a part is to be sent again.
    pub fn deadline(&self) -> Option<Nanos> {
        self.delayed.front().map(|(at, _)| *at)
    }

    /// The command for a part that was just given.
    pub fn command(&self, part: Part, limits: &Limits) -> (Sqe, Transfer) {
        let request = self.of(part).expect("its request waits for it");
        let block = u64::from(limits.block_bytes);
        let ranged = |opcode, lba: u64| {
            let mut sqe = Sqe::new(opcode, 0, limits.nsid);
            sqe.set_range(BlockRange {
                slba: lba + part.at / block,
                count: (u64::from(part.count) / block) as u32,
            });
            sqe
        };
        let payload = |data: &Rc<Gather>| {
            Transfer::ToController(Payload::Gather(Rc::clone(data), part.at), part.count)
        };
        match &request.work {
            Work::Read { lba, .. } => (ranged(io::READ, *lba), Transfer::ToHost(part.count)),
            Work::Write { lba, data, fua } => {
                let mut sqe = ranged(io::WRITE, *lba);
                if *fua || request.is_forced {
                    sqe.set_fua();
                }
                (sqe, payload(data))
            }
            Work::Compare { lba, data } => (ranged(io::COMPARE, *lba), payload(data)),
            Work::Flush { .. } => (Sqe::new(io::FLUSH, 0, limits.nsid), Transfer::None),
            Work::WriteZeroes { lba, flags, .. } => {
                let mut sqe = Sqe::new(io::WRITE_ZEROES, 0, limits.nsid);
                sqe.set_range(BlockRange {
                    slba: lba + part.at,
                    count: part.count,
                });
                if flags.0 {
                    sqe.set_cdw(12, sqe.cdw(12) | DEALLOCATE);
                }
                if flags.1 || request.is_forced {
                    sqe.set_fua();
                }
                (sqe, Transfer::None)
            }
            Work::Deallocate(discard) => {
                let (sqe, bytes) = discard.command(part.at, part.count, limits);
                let length = bytes.len() as u32;
                let payload = Payload::Bytes(bytes.into());
                (sqe, Transfer::ToController(payload, length))
            }
        }
    }

    /// Data of a part arrived.
    pub fn fill(&mut self, part: Part, offset: u32, bytes: &[u8]) {
        if self.of(part).is_none() {
            return;
        }
        let Work::Read { into, .. } = &mut self.get_mut(part.request).work else {
            panic!("only reads have data to the host");
        };
        let memory = match into {
            Target::Data(blocks) => blocks.bytes_mut(),
            Target::Meta(sectors) => sectors.bytes_mut(),
        };
        let at = part.at as usize + offset as usize;
        memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A part was answered.
    pub fn answered(&mut self, now: Nanos, part: Part, done: &Done) {
        if self.of(part).is_none() {
            return;
        }
        let failure = if !done.status.is_success() {
            Some(Failure::Status(done.status))
        } else if done.is_bad {
            Some(Failure::Digest)
        } else if !done.is_whole {
            Some(Failure::ShortData)
        } else {
            None
        };
        if let Some(failure) = failure
            && part.tries < RETRIES_MAX
            && is_passing(failure)
        {
            let tries = part.tries + 1;
            let again = Part { tries, ..part };
            self.delayed.push_back((now + RETRY_DELAY, again));
            return;
        }
        let request = self.get_mut(part.request);
        request.parts -= 1;
        request.failure = request.failure.or(failure);
        if failure.is_none() {
            request.keep(part);
        }
        let is_cut = request.next_gap().is_none();
        let (parts, has_failed) = (request.parts, request.failure.is_some());
        if has_failed && !is_cut {
            self.waiting.retain(|index| *index != part.request);
            let request = self.get_mut(part.request);
            request.cursor = request.work.length();
        }
        if parts == 0 && (is_cut || has_failed) {
            self.end(part.request);
        }
    }

    /// A request has ended.
    fn end(&mut self, index: u32) {
        let request = self.slab[index as usize].take().expect("it ends once");
        self.free.push(index);
        if request.failure.is_none() {
            if request.work.is_cached() {
                self.written += 1;
            }
            if let Work::Flush { covers } = request.work {
                self.flushed = self.flushed.max(covers);
            }
        }
        let memory = match (request.work, request.failure) {
            (Work::Read { into, .. }, None) => Some(into),
            _ => None,
        };
        self.completions.push_back(Completion {
            id: request.id,
            memory,
            result: request.failure.map_or(Ok(()), Err),
        });
    }

    pub fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// True if the part's command may change what the namespace holds.
    pub fn is_change(&self, owner: Owner) -> bool {
        match owner {
            Owner::Part(part) => self.of(part).is_none_or(|request| request.work.is_change()),
            _ => false,
        }
    }

    /// The association is lost: everything begins again at its first gap. Answers to parts are not given
    /// any more.
    pub fn start_again(&mut self, limits: &Limits) {
        for (_, part) in core::mem::take(&mut self.delayed) {
            // It was answered: the controller has it in hand no more.
            if self.of(part).is_some() {
                self.get_mut(part.request).parts -= 1;
            }
        }
        self.waiting.clear();
        let has_unflushed = limits.is_volatile && self.written > self.flushed;
        self.is_cache_lost |= has_unflushed && !self.is_vouching;
        let live = self.slab.iter().enumerate();
        let live = live.filter_map(|(index, slot)| Some((slot.as_ref()?.serial, index as u32)));
        let mut live: Vec<_> = live.collect();
        live.sort_unstable();
        if self.is_cache_lost {
            // Once that is accepted later writes count.
            self.flushed = self.written;
        }
        for (_, index) in live {
            self.get_mut(index).start_again();
            self.admit(index, limits);
        }
    }

    /// Ends what was in hand at more losses than that since some of it was kept: it may be what
    /// associations are lost by, and each loss is one for all others too. One part among good ones that
    /// does that is found out when the good ones are used up: what is kept is not sent again. Only while
    /// nothing of an earlier association can land any more, because who is told may write there again.
    pub fn end_unanswered(&mut self, resends_max: u32) {
        for index in 0..self.slab.len() as u32 {
            let Some(request) = &mut self.slab[index as usize] else {
                continue;
            };
            assert!(request.parts == 0, "nothing is in flight between two");
            if request.losses > resends_max {
                request.failure = Some(Failure::Unanswered);
                self.waiting.retain(|other| *other != index);
                self.end(index);
            }
        }
    }

    /// See [`crate::Host::accept_loss`].
    pub fn accept_loss(&mut self) {
        self.is_cache_lost = false;
    }

    /// See [`crate::Host::plant`].
    pub fn plant(&mut self, vouching: bool) {
        self.is_vouching = PLANTS_BUGS && vouching;
    }

    /// Nothing will be done any more.
    pub fn fail_all(&mut self) {
        self.delayed.clear();
        self.waiting.clear();
        for index in 0..self.slab.len() as u32 {
            if let Some(request) = &mut self.slab[index as usize] {
                request.failure = Some(Failure::Gone);
                self.end(index);
            }
        }
    }

    /// A request that can never be done.
    pub fn refuse(&mut self, id: u64) {
        let result = Err(Failure::Gone);
        let memory = None;
        self.completions
            .push_back(Completion { id, memory, result });
    }

    /// Requests that have not ended.
    pub fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }
}

/// True if the same command may succeed later.
fn is_passing(failure: Failure) -> bool {
    match failure {
        Failure::Digest => true,
        Failure::Status(field) => is_passing_status(field),
        _ => false,
    }
}

fn is_passing_status(field: StatusField) -> bool {
    !field.is_final()
        && field.status().is_some_and(|status| !status.is_final())
        && field.status() != Some(Status::PathPersistentLoss)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request waits; the controller that comes back lacks its command. It fails, and the next one goes on.
    #[test]
    fn a_command_that_is_gone_fails_what_waits_for_it() {
        let had = Limits {
            nsid: 1,
            block_bytes: 4096,
            transfer_blocks: 8,
            zeroes_blocks: 8,
            range_blocks: 8,
            ranges: 8,
            discard_blocks: u64::MAX,
            has_compare: true,
            is_volatile: true,
        };
        let has = Limits {
            zeroes_blocks: 0,
            range_blocks: 0,
            ranges: 0,
            ..had
        };
        let mut requests = Requests::default();
        let zeroes = Operation::WriteZeroes {
            lba: 0,
            blocks: 16,
            deallocate: false,
            fua: false,
        };
        let ranges = alloc::vec![(0, 8)];
        requests.submit(1, zeroes, &had);
        requests.submit(2, Operation::Deallocate { ranges }, &had);
        requests.submit(3, Operation::Flush, &had);
        let part = requests.next_part(Nanos(0), &has).expect("the flush");
        assert_eq!(requests.of(part).map(|request| request.id), Some(3));
        for id in [1, 2] {
            let ended = requests.next_completion().expect("it has ended");
            assert_eq!((ended.id, ended.result), (id, Err(Failure::Unsupported)));
        }
        assert!(requests.next_completion().is_none());
    }
}
