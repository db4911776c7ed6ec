//! What was answered before a loss: what of it is sent again, and how often.

use super::net::{BLOCK, Net, config, content, gather, read};
use crate::flights::{Owner, Transfer};
use crate::queue::Done;
use crate::requests::{Limits, Part, Requests};
use crate::{Completion, Failure, Operation};
use std::vec;
use std::vec::Vec;
use varve_io::Target as Memory;
use varve_nvme::dsm::DsmRange;
use varve_nvme::opcode::io;
use varve_nvme::{Sqe, Status};
use varve_target::Operation as Task;
use varve_units::Nanos;
use zerocopy::FromBytes;

const NOW: Nanos = Nanos(1);
/// Resends of a request that makes no progress.
const RESENDS_MAX: u32 = 2;
/// Blocks of a request here, and of one command of it at first.
const LENGTH: u64 = 40;
const STEP: u32 = 8;

const fn limits(is_volatile: bool) -> Limits {
    Limits {
        nsid: 1,
        block_bytes: BLOCK as u32,
        transfer_blocks: STEP,
        zeroes_blocks: STEP,
        range_blocks: STEP,
        ranges: 1,
        discard_blocks: u64::MAX,
        has_compare: true,
        is_volatile,
    }
}

/// The same with commands of another length.
const fn cut_at(blocks: u32, limits: Limits) -> Limits {
    Limits {
        transfer_blocks: blocks,
        zeroes_blocks: blocks,
        range_blocks: blocks,
        ..limits
    }
}

fn write(fua: bool) -> Operation {
    let data = gather(1, 0, LENGTH as usize);
    Operation::Write { lba: 0, data, fua }
}

fn zeroes(fua: bool) -> Operation {
    let (blocks, deallocate) = (LENGTH, false);
    Operation::WriteZeroes {
        lba: 0,
        blocks,
        deallocate,
        fua,
    }
}

fn deallocate() -> Operation {
    let ranges = vec![(0, LENGTH as u32)];
    Operation::Deallocate { ranges }
}

/// A command as it goes out: its part, first block, number of blocks, FUA.
struct Sent {
    part: Part,
    lba: u64,
    blocks: u32,
    is_forced: bool,
}

/// Requests, and what became of them.
struct Line {
    requests: Requests,
    limits: Limits,
}

impl Line {
    fn new(operation: Operation, limits: Limits) -> Self {
        let mut requests = Requests::default();
        requests.submit(1, operation, &limits);
        Self { requests, limits }
    }

    /// All commands that can go out.
    fn send(&mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        while let Some(part) = self.requests.next_part(NOW, &self.limits) {
            let (sqe, transfer) = self.requests.command(part, &self.limits);
            let (lba, blocks) = match transfer {
                Transfer::ToController(data, length) if sqe.opcode == io::DATASET_MANAGEMENT => {
                    let segments = data.cut(0, length);
                    let bytes = segments[0].as_ref();
                    let (range, rest) = DsmRange::ref_from_prefix(bytes).expect("a range");
                    assert!(rest.is_empty(), "one range is taken at a time");
                    (range.slba.get(), range.nlb.get())
                }
                _ => of(&sqe),
            };
            let is_forced = sqe.opcode != io::DATASET_MANAGEMENT && sqe.fua();
            all.push(Sent {
                part,
                lba,
                blocks,
                is_forced,
            });
        }
        all
    }

    /// Places of the commands that go out.
    fn places(&mut self) -> Vec<(u64, u32)> {
        let all = self.send();
        all.iter().map(|one| (one.lba, one.blocks)).collect()
    }

    fn answer(&mut self, part: Part, status: Status) {
        let done = Done {
            owner: Owner::Part(part),
            status: status.field(),
            result: 0,
            is_whole: true,
            is_bad: false,
        };
        self.requests.answered(NOW, part, &done);
    }

    /// Sends what there is; commands to these places are answered well, then the association is lost.
    fn lose_after(&mut self, answered: &[u64]) {
        let sent = self.send();
        for lba in answered {
            let one = sent.iter().find(|one| one.lba == *lba);
            self.answer(one.expect("it was sent").part, Status::Success);
        }
        self.lose();
    }

    fn lose(&mut self) {
        self.requests.start_again(&self.limits);
        self.requests.end_unanswered(RESENDS_MAX);
    }

    /// Everything is sent and answered well.
    fn finish(&mut self) -> Completion {
        for one in self.send() {
            self.answer(one.part, Status::Success);
        }
        self.requests.next_completion().expect("it has ended")
    }
}

fn of(sqe: &Sqe) -> (u64, u32) {
    let range = sqe.range();
    (range.slba, range.count)
}

/// What no loss undoes is not sent again, whatever else is; the rest ends the request.
#[test]
fn what_was_answered_is_kept() {
    let compare = Operation::Compare {
        lba: 0,
        data: gather(1, 0, LENGTH as usize),
    };
    let table = [
        ("read", read(0, LENGTH as usize), true),
        ("compare", compare, true),
        ("durable write", write(true), true),
        ("durable zeroes", zeroes(true), true),
        ("write", write(false), false),
        ("zeroes", zeroes(false), false),
        ("deallocation", deallocate(), false),
    ];
    for (what, operation, is_volatile) in table {
        let mut line = Line::new(operation, limits(is_volatile));
        line.lose_after(&[24, 8]);
        let left = line.send();
        let places: Vec<_> = left.iter().map(|one| (one.lba, one.blocks)).collect();
        assert_eq!(places, [(0, 8), (16, 8), (32, 8)], "{what}");
        let is_durable = what.starts_with("durable");
        assert!(left.iter().all(|one| one.is_forced == is_durable), "{what}");
        for one in left {
            assert!(line.requests.next_completion().is_none(), "{what}");
            line.answer(one.part, Status::Success);
        }
        let ended = line.requests.next_completion().expect("it has ended");
        assert_eq!(ended.result, Ok(()), "{what}");
    }
}

/// What was read before a loss is in the memory that comes back.
#[test]
fn memory_keeps_what_was_read() {
    let mut line = Line::new(read(0, LENGTH as usize), limits(true));
    for round in 0..5 {
        // The last one that is left.
        let sent = line.send().pop().expect("something is left");
        let block = content(1, sent.lba);
        line.requests.fill(sent.part, 0, &block);
        line.answer(sent.part, Status::Success);
        if round < 4 {
            line.lose();
        }
    }
    let ended = line.requests.next_completion().expect("it has ended");
    let Some(Memory::Data(blocks)) = ended.memory else {
        panic!("no memory: {:?}", ended.result);
    };
    for lba in (0..LENGTH).step_by(STEP as usize) {
        let from = lba as usize * BLOCK;
        assert!(
            blocks.bytes()[from..from + BLOCK] == content(1, lba),
            "{lba}"
        );
    }
}

/// What was answered into a cache may be gone with it: it is sent again, and durable at once from then
/// on, or the next loss would take it again.
#[test]
fn a_cache_takes_what_it_held_once() {
    for operation in [write(false), zeroes(false)] {
        let mut line = Line::new(operation, limits(true));
        let first = line.send();
        assert!(first.iter().all(|one| !one.is_forced));
        line.answer(first[1].part, Status::Success);
        line.lose();
        let second = line.send();
        assert_eq!(second.len(), 5);
        assert!(second.iter().all(|one| one.is_forced));
        for one in &second[..3] {
            line.answer(one.part, Status::Success);
        }
        line.lose();
        assert_eq!(line.places(), [(24, 8), (32, 8)]);
        line.lose();
        assert_eq!(line.finish().result, Ok(()));
    }
}

/// A loss before anything was answered takes nothing: the cache is used as before.
#[test]
fn nothing_is_forced_that_lost_nothing() {
    let mut line = Line::new(write(false), limits(true));
    line.lose_after(&[]);
    assert!(line.send().iter().all(|one| !one.is_forced));
}

/// There is no deallocation that is durable at once.
#[test]
fn a_deallocation_into_a_cache_starts_from_its_front() {
    let mut line = Line::new(deallocate(), limits(true));
    line.lose_after(&[0, 8, 16, 24]);
    let all = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8)];
    assert_eq!(line.places(), all);
}

/// The controller that comes back takes less, or more: what is left is cut as it says.
#[test]
fn what_is_left_is_cut_by_the_limits_of_its_association() {
    let mut line = Line::new(write(true), limits(true));
    line.lose_after(&[16]);
    line.limits = cut_at(6, line.limits);
    let smaller = [(0, 6), (6, 6), (12, 4), (24, 6), (30, 6), (36, 4)];
    assert_eq!(line.places(), smaller);
    line.lose();
    line.lose_after(&[6, 24]);
    line.limits = cut_at(100, line.limits);
    assert_eq!(line.places(), [(0, 6), (12, 4), (30, 10)]);
    line.lose();
    assert_eq!(line.finish().result, Ok(()));
    // As many deallocations as ranges fit.
    let mut line = Line::new(deallocate(), limits(false));
    line.lose_after(&[16]);
    line.limits = cut_at(6, line.limits);
    assert_eq!(line.places(), smaller);
}

/// What is left of a request for which the controller has no command any more.
#[test]
fn a_command_that_is_gone_fails_what_is_left() {
    let mut line = Line::new(zeroes(true), limits(true));
    line.lose_after(&[0]);
    line.limits.zeroes_blocks = 0;
    assert!(line.send().is_empty());
    let ended = line.requests.next_completion().expect("it has ended");
    assert_eq!(ended.result, Err(Failure::Unsupported));
}

/// A part that was refused is not kept, nor one that waits for another try.
#[test]
fn what_failed_is_left() {
    for status in [Status::NamespaceNotReady, Status::LbaOutOfRange] {
        let mut line = Line::new(write(true), limits(true));
        let sent = line.send();
        line.answer(sent[0].part, Status::Success);
        line.answer(sent[2].part, status);
        line.answer(sent[1].part, Status::Success);
        line.lose();
        assert_eq!(line.places(), [(16, 8), (24, 8), (32, 8)], "{status:?}");
    }
}

/// Losses count while nothing is kept between them: a long request outlives many.
#[test]
fn losses_with_progress_between_them_end_nothing() {
    let mut line = Line::new(write(true), limits(true));
    for lba in [32, 24, 16, 8] {
        line.lose_after(&[]);
        line.lose_after(&[lba]);
    }
    assert!(line.requests.next_completion().is_none());
    assert_eq!(line.finish().result, Ok(()));
}

/// A command by which every association is lost is ended, however many good ones are beside it: those
/// run out.
#[test]
fn a_part_that_kills_associations_is_ended() {
    for fua in [true, false] {
        let mut line = Line::new(write(fua), limits(true));
        let (mut losses, mut good) = (0, vec![24, 16, 8, 0]);
        while line.requests.len() > 0 {
            let answered = good.pop();
            if losses == 0 && !fua {
                // Into a cache that goes with the association.
                good.extend(answered);
            }
            line.lose_after(answered.as_slice());
            losses += 1;
        }
        let ended = line.requests.next_completion().expect("it has ended");
        assert_eq!(ended.result, Err(Failure::Unanswered));
        // One for each good part, the one of the cache, and those without progress.
        assert_eq!(losses, 4 + u32::from(!fua) + RESENDS_MAX);
    }
    // What is answered into a cache each time is no progress.
    let mut line = Line::new(deallocate(), limits(true));
    for _ in 0..=RESENDS_MAX {
        assert_eq!(line.requests.len(), 1);
        line.lose_after(&[0, 8]);
    }
    assert_eq!(line.requests.len(), 0);
}

/// A target with which an association lives for one command: a write of eight takes no more than that,
/// beside what was in a cache at the first loss.
#[test]
fn a_slow_target_gets_done() {
    const BLOCKS: u64 = 1000;
    for fua in [true, false] {
        let mut net = Net::new(21, config());
        net.ready();
        net.is_held = true;
        let data = gather(1, 3, BLOCKS as usize);
        net.host
            .submit(net.now, 1, Operation::Write { lba: 3, data, fua });
        let (mut writes, mut losses) = (0, 0);
        while net.completions.is_empty() {
            net.until("commands", |net| {
                !net.step() && net.host.is_ready() && !net.orders.is_empty()
            });
            let order = net.orders.remove(0);
            let Task::Write { fua: is_forced, .. } = &order.operation else {
                panic!("{:?}", order.operation);
            };
            assert_eq!(*is_forced, fua || writes > 0, "write {writes}");
            writes += 1;
            net.execute(order);
            while net.step() {}
            if net.completions.is_empty() {
                losses += 1;
                while net.cut(false) {}
                // New queues are let in when nothing of the old ones is left.
                for order in core::mem::take(&mut net.orders) {
                    net.put_off(&order);
                }
                net.until("a loss", |net| !net.host.is_ready());
            }
        }
        assert_eq!(net.completions[0].result, Ok(()));
        // 128 blocks each.
        assert_eq!(writes, 8 + u32::from(!fua));
        assert!(losses > config().resends_max);
        let expected: Vec<u8> = (3..3 + BLOCKS).flat_map(|lba| content(1, lba)).collect();
        assert!(net.disk[3 * BLOCK..][..expected.len()] == expected);
    }
}
