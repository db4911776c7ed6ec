//! The mirror, case by case.

use crate::common::{
    BLOCK, Executor, MemoryDrive, Recorder, drives, gap, gather, pattern, read, read_sectors,
};
use std::cell::Cell;
use std::rc::Rc;
use std::slice::from_ref;
use varve_array::{AssembleError, Member, MemberState, Mirror, RestoreError};
use varve_io::{Command, Drive, Handle, IoError, Outcome, Sectors, World};

const MIB: usize = 1 << 20;
const BASE: u64 = 8192;
const BYTES: usize = 4 * MIB;

struct Rig {
    executor: Rc<Executor>,
    drives: Vec<Rc<MemoryDrive>>,
    membership: Rc<Recorder>,
    mirror: Rc<Mirror>,
}

fn rig(count: usize) -> Rig {
    let executor = Executor::new(7);
    let drives = drives(&executor, count, BASE + BYTES as u64);
    let membership = Recorder::new(&executor);
    let members = drives
        .iter()
        .map(|drive| Member::live(Rc::clone(drive) as Rc<dyn Drive>, BASE));
    let world = Rc::clone(&executor) as Rc<dyn World>;
    let mirror = Mirror::new(members.collect(), Rc::clone(&membership) as _, world).unwrap();
    Rig {
        executor,
        drives,
        membership,
        mirror: Rc::new(mirror),
    }
}

impl Rig {
    fn drive(&self) -> Rc<dyn Drive> {
        Rc::clone(&self.mirror) as Rc<dyn Drive>
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), IoError> {
        let (drive, gather) = (self.drive(), gather(bytes));
        self.executor
            .block_on(async move { drive.write(offset as u64, gather).await })
    }

    fn read(&self, offset: usize, bytes: usize, copy: u8) -> Result<Vec<u8>, IoError> {
        let drive = self.drive();
        self.executor
            .block_on(async move { read(&*drive, offset, bytes, copy).await })
    }

    fn submit(&self, command: Command) -> Outcome {
        let completion = self.mirror.submit(command);
        self.executor.block_on(completion)
    }

    fn repair(&self, offset: usize, bytes: &[u8], copy: u8) -> Result<(), IoError> {
        self.submit(Command::Repair {
            offset: offset as u64,
            gather: gather(bytes),
            copy,
        })
        .map(|_| ())
    }
}

#[test]
fn a_write_reaches_every_member_with_the_same_memory() {
    let rig = rig(3);
    let bytes = pattern(1, 3 * BLOCK);
    rig.write(BLOCK, &bytes).unwrap();
    for drive in &rig.drives {
        assert_eq!(drive.peek(BASE as usize + BLOCK, 3 * BLOCK), bytes);
        assert_eq!(drive.seen.borrow()[..], rig.drives[0].seen.borrow()[..]);
        assert_eq!(drive.peek(0, BASE as usize), vec![0; BASE as usize]);
    }
    assert!(rig.membership.asked.borrow().is_empty());
}

#[test]
fn copies_read_different_members_and_rotate() {
    let rig = rig(2);
    for offset in [0, MIB - BLOCK, MIB, 3 * MIB] {
        for copy in 0..2 {
            let before: Vec<_> = rig.drives.iter().map(|drive| drive.reads.get()).collect();
            rig.read(offset, BLOCK, copy).unwrap();
            let member = (offset / MIB + usize::from(copy)) % 2;
            assert_eq!(rig.mirror.member_of(offset as u64, copy), member);
            assert_eq!(rig.drives[member].reads.get(), before[member] + 1);
            assert_eq!(rig.drives[1 - member].reads.get(), before[1 - member]);
        }
    }
}

/// What is under one checksum is whole on one member at least: reads of sectors are never put together from several.
#[test]
fn sectors_come_from_one_member() {
    let rig = rig(2);
    let bytes = pattern(8, 64 * BLOCK);
    let start = MIB - 32 * BLOCK;
    rig.write(start, &bytes).unwrap();
    // One member lost the write, or cannot read all of it.
    rig.drives[0].poke(BASE as usize + start, &vec![0xee; bytes.len()]);
    let read = |copy| {
        let (drive, length) = (rig.drive(), bytes.len());
        let flow = async move { read_sectors(&*drive, start, length, copy).await };
        rig.executor.block_on(flow).unwrap()
    };
    let whole = (0..2).filter(|&copy| read(copy) == bytes).count();
    assert_eq!(whole, 1);
    // Blocks have checksums of their own, and are split as before.
    let mixed = (0..2).filter(|&copy| rig.read(start, bytes.len(), copy).unwrap() == bytes);
    assert_eq!(mixed.count(), 0);
}

/// A read of blocks across the rotation's bound is split, and joined in order.
#[test]
fn reads_across_the_rotation_bound_are_joined() {
    let rig = rig(3);
    let bytes = pattern(5, 8 * BLOCK);
    rig.write(MIB - 4 * BLOCK, &bytes).unwrap();
    for copy in 0..3 {
        let found = rig.read(MIB - 4 * BLOCK, 8 * BLOCK, copy).unwrap();
        assert!(found == bytes, "copy {copy}");
        let drive = rig.drive();
        let found = rig
            .executor
            .block_on(async move { read_sectors(&*drive, MIB - 512, 1536, copy).await });
        assert!(found.unwrap() == bytes[4 * BLOCK - 512..][..1536]);
    }
    rig.mirror.set_lost(1);
    let served = (0..3).filter(|&copy| rig.read(MIB - BLOCK, 2 * BLOCK, copy).is_ok());
    assert!(served.count() >= 1);
}

/// Blocks start at any sector: one that lies across the bound is read from, and repaired on, the
/// member of its first byte, alone as well as inside a longer run.
#[test]
fn a_block_across_the_rotation_bound_belongs_to_its_first_byte() {
    let rig = rig(2);
    for start in [MIB - 2 * BLOCK + 512, 2 * MIB - BLOCK - 512, 3 * MIB - 512] {
        let bytes = pattern(start as u64, 4 * BLOCK);
        rig.write(start, &bytes).unwrap();
        for copy in 0..2 {
            let run = rig.read(start, 4 * BLOCK, copy).unwrap();
            assert!(run == bytes, "copy {copy} of {start}");
        }
        for block in 0..4 {
            let at = start + block * BLOCK;
            let first = at / MIB % 2;
            assert_eq!(rig.mirror.member_of(at as u64, 0), first);
            rig.drives[first].poke(BASE as usize + at, &[0xee; BLOCK]);
            let run = rig.read(start, 4 * BLOCK, 0).unwrap();
            assert!(run[block * BLOCK..][..BLOCK] == [0xee; BLOCK]);
            rig.repair(at, &bytes[block * BLOCK..][..BLOCK], 0).unwrap();
            assert!(rig.read(start, 4 * BLOCK, 0).unwrap() == bytes);
        }
        for drive in &rig.drives {
            assert!(drive.peek(BASE as usize + start, 4 * BLOCK) == bytes);
        }
    }
}

#[test]
fn media_errors_are_the_callers_and_repair_reaches_that_member_only() {
    let rig = rig(2);
    let bytes = pattern(3, 4 * BLOCK);
    let offset = MIB - 2 * BLOCK;
    rig.write(offset, &bytes).unwrap();
    for block in 0..4 {
        let at = offset + block * BLOCK;
        let bad = rig.mirror.member_of(at as u64, 0);
        rig.drives[bad].spoil(BASE + at as u64, 512);
        let reads: usize = rig.drives.iter().map(|drive| drive.reads.get()).sum();
        assert_eq!(rig.read(at, BLOCK, 0).err(), Some(IoError::Media));
        let after: usize = rig.drives.iter().map(|drive| drive.reads.get()).sum();
        assert_eq!(after, reads + 1, "no retry inside");
        let good = rig.read(at, BLOCK, 1).unwrap();
        let writes = rig.drives[1 - bad].writes.get();
        rig.repair(at, &good, 0).unwrap();
        assert_eq!(rig.drives[1 - bad].writes.get(), writes);
        assert!(rig.read(at, BLOCK, 0).unwrap() == good);
    }
    assert_eq!(rig.mirror.state(0), MemberState::Live);
}

/// The heart of it: while the commit is under way the write is not complete.
#[test]
fn a_degraded_write_waits_for_the_commit() {
    let rig = rig(2);
    rig.membership.is_waiting.set(true);
    rig.drives[1].next_write.set(Some(IoError::Media));
    let is_done = Rc::new(Cell::new(0));
    for index in 0..3 {
        let (drive, is_done) = (rig.drive(), Rc::clone(&is_done));
        let bytes = pattern(9 + index, BLOCK);
        rig.executor.spawn(Box::pin(async move {
            let at = index * BLOCK as u64;
            drive.write(at, gather(&bytes)).await.unwrap();
            is_done.set(is_done.get() + 1);
        }));
    }
    rig.executor.drain();
    assert_eq!(rig.mirror.state(1), MemberState::Leaving);
    let early = is_done.get();
    // A write that begins now skips the member and waits just so.
    let (drive, flag) = (rig.drive(), Rc::clone(&is_done));
    rig.executor.spawn(Box::pin(async move {
        drive.write(0, gather(&pattern(4, BLOCK))).await.unwrap();
        flag.set(flag.get() + 1);
    }));
    let drive = rig.drive();
    let flag = Rc::clone(&is_done);
    rig.executor.spawn(Box::pin(async move {
        drive.flush().await.unwrap();
        flag.set(flag.get() + 1);
    }));
    rig.executor.drain();
    assert!(early < 3, "the failed write is not complete");
    assert_eq!(is_done.get(), early, "nor is what skipped the member");
    assert_eq!(rig.membership.asked.borrow().len(), 1, "one commit for all");
    rig.membership.release();
    rig.executor.drain();
    assert_eq!(is_done.get(), 5);
    assert_eq!(rig.mirror.state(1), MemberState::Lost);
    let ways = [rig.read(0, BLOCK, 0).err(), rig.read(0, BLOCK, 1).err()];
    assert_eq!(ways, [None, Some(IoError::GivenUp)]);
}

#[test]
fn a_failed_commit_fails_the_write_and_the_next_one_asks_again() {
    let rig = rig(2);
    rig.membership.failures.set(1);
    rig.drives[0].next_write.set(Some(IoError::Timeout));
    assert_eq!(rig.write(0, &pattern(1, BLOCK)), Err(IoError::Timeout));
    assert_eq!(rig.mirror.state(0), MemberState::Leaving);
    assert_eq!(rig.write(0, &pattern(2, BLOCK)), Ok(()));
    assert_eq!(rig.mirror.state(0), MemberState::Lost);
    assert_eq!(*rig.membership.committed.borrow(), [0]);
    assert_eq!(rig.membership.asked.borrow().len(), 2);
}

/// Nothing is said of a member that is away before something is written without it.
#[test]
fn the_first_write_commits_the_loss_of_a_member_that_is_away() {
    for is_flush in [false, true] {
        let mut rig = rig(2);
        let here = Member::live(Rc::clone(&rig.drives[0]) as Rc<dyn Drive>, BASE);
        let world = Rc::clone(&rig.executor) as Rc<dyn World>;
        let membership = Rc::clone(&rig.membership) as _;
        let mirror = Mirror::new(vec![here, Member::away()], membership, world);
        rig.mirror = Rc::new(mirror.unwrap());
        let ways = [rig.read(0, BLOCK, 0).err(), rig.read(0, BLOCK, 1).err()];
        assert_eq!(ways, [None, Some(IoError::GivenUp)]);
        assert_eq!(rig.mirror.state(1), MemberState::Leaving);
        assert!(rig.membership.asked.borrow().is_empty());
        rig.membership.failures.set(1);
        let bytes = pattern(1, BLOCK);
        let write = || match is_flush {
            true => rig.submit(Command::Flush).map(|_| ()),
            false => rig.write(0, &bytes),
        };
        assert_eq!(write(), Err(IoError::Timeout), "no commit, no success");
        assert_eq!(write(), Ok(()));
        assert_eq!(rig.mirror.state(1), MemberState::Lost);
        assert_eq!(*rig.membership.committed.borrow(), [1]);
    }
}

/// From the moment on that a member is given up nobody else can be spared, and what misses it waits
/// for that commit, not for one of its own.
#[test]
fn a_member_that_is_given_up_is_counted_on_no_more() {
    let rig = rig(2);
    let (sender, commit) = varve_io::slot::<Result<(), u8>>();
    let mirror = Rc::clone(&rig.mirror);
    rig.executor.spawn(Box::pin(async move {
        mirror.give_up(0, commit).await.unwrap();
    }));
    rig.executor.drain();
    assert_eq!(rig.mirror.state(0), MemberState::Leaving);
    rig.drives[1].next_write.set(Some(IoError::Media));
    assert_eq!(rig.write(0, &pattern(1, BLOCK)), Err(IoError::Media));
    assert_eq!(rig.mirror.state(1), MemberState::Live);
    let is_done = Rc::new(Cell::new(false));
    let (drive, flag) = (rig.drive(), Rc::clone(&is_done));
    rig.executor.spawn(Box::pin(async move {
        drive.write(0, gather(&pattern(2, BLOCK))).await.unwrap();
        flag.set(true);
    }));
    rig.executor.drain();
    assert!(!is_done.get(), "the loss is not committed");
    sender.send(Ok(()));
    rig.executor.drain();
    assert!(is_done.get());
    assert_eq!(rig.mirror.state(0), MemberState::Lost);
    assert!(rig.membership.asked.borrow().is_empty());
    // The last one stays, whatever is tried.
    let mirror = Rc::clone(&rig.mirror);
    let refused = async move { mirror.give_up(1, async { Err::<(), _>(7) }).await };
    assert_eq!(rig.executor.block_on(refused), Err(7));
    assert_eq!(rig.mirror.state(1), MemberState::Live);
}

#[test]
fn the_last_member_is_never_given_up() {
    let rig = rig(2);
    for drive in &rig.drives {
        drive.next_write.set(Some(IoError::Media));
    }
    assert_eq!(rig.write(0, &pattern(1, BLOCK)), Err(IoError::Media));
    assert_eq!(rig.mirror.state(0), MemberState::Live);
    assert_eq!(rig.mirror.state(1), MemberState::Live);
    rig.mirror.set_lost(0);
    rig.drives[1].next_write.set(Some(IoError::NoSpace));
    assert_eq!(rig.write(0, &pattern(1, BLOCK)), Err(IoError::NoSpace));
    assert_eq!(rig.write(0, &pattern(1, BLOCK)), Ok(()));
    rig.mirror.set_lost(1);
    assert_eq!(rig.write(0, &pattern(1, BLOCK)), Err(IoError::Gone));
    assert_eq!(rig.submit(Command::Flush).err(), Some(IoError::Gone));
    assert!(rig.membership.asked.borrow().is_empty());
}

#[test]
fn flush_reaches_all_and_a_failed_one_loses_the_member() {
    let rig = rig(3);
    assert!(rig.submit(Command::Flush).is_ok());
    assert!(rig.drives.iter().all(|drive| drive.flushes.get() == 1));
    rig.drives[2].next_flush.set(Some(IoError::Media));
    assert!(rig.submit(Command::Flush).is_ok());
    assert_eq!(*rig.membership.committed.borrow(), [2]);
    assert!(rig.submit(Command::Flush).is_ok());
    assert_eq!(
        rig.drives[2].flushes.get(),
        2,
        "a lost member is left alone"
    );
}

#[test]
fn a_read_or_repair_that_finds_the_drive_gone_loses_it() {
    let rig = rig(2);
    rig.drives[0].broken.set(Some(IoError::Gone));
    assert_eq!(rig.read(0, BLOCK, 0).err(), Some(IoError::Gone));
    assert!(rig.read(0, BLOCK, 1).is_ok());
    assert_eq!(rig.read(0, BLOCK, 0).err(), Some(IoError::Gone));
    rig.executor.drain();
    assert_eq!(*rig.membership.committed.borrow(), [0]);
    let again = rig.drives[0].reads.get();
    assert_eq!(rig.read(0, BLOCK, 0).err(), Some(IoError::GivenUp));
    assert_eq!(rig.drives[0].reads.get(), again, "answered at once");

    let rig = self::rig(2);
    rig.drives[1].next_write.set(Some(IoError::Media));
    assert_eq!(rig.repair(0, &pattern(1, BLOCK), 1), Err(IoError::Media));
    rig.executor.drain();
    assert_eq!(*rig.membership.committed.borrow(), [1]);
}

#[test]
fn info_and_discard() {
    let rig = rig(2);
    let mut info = rig.drives[1].info.get();
    info.volatile_cache = true;
    info.lba_bytes = 4096;
    rig.drives[1].info.set(info);
    let bigger = MemoryDrive::new(Rc::clone(&rig.executor), BASE + 2 * BYTES as u64);
    let members = [&rig.drives[1], &bigger].map(|drive| Member::live(Rc::clone(drive) as _, BASE));
    let world = Rc::clone(&rig.executor) as Rc<dyn World>;
    let mirror = Mirror::new(members.into(), Rc::clone(&rig.membership) as _, world).unwrap();
    let info = mirror.info();
    assert_eq!((info.bytes, info.lba_bytes), (BYTES as u64, 4096));
    assert_eq!((info.volatile_cache, info.copies), (true, 2));
    let (offset, length) = (4096, 8192);
    assert!(rig.submit(Command::Discard { offset, length }).is_ok());
    for drive in &rig.drives {
        assert_eq!(*drive.discards.borrow(), [(BASE + offset, length)]);
    }
}

#[test]
fn assembly_refuses_what_does_not_fit() {
    let executor = Executor::new(1);
    let membership = Recorder::new(&executor);
    let assemble = |members| {
        let world = Rc::clone(&executor) as Rc<dyn World>;
        Mirror::new(members, Rc::clone(&membership) as _, world).err()
    };
    let drive = |bytes| MemoryDrive::new(Rc::clone(&executor), bytes) as Rc<dyn Drive>;
    let (least, most) = (1, 4);
    let count = |found| Some(AssembleError::MemberCount { least, most, found });
    assert_eq!(assemble(Vec::new()), count(0));
    let five = (0..5).map(|_| Member::live(drive(8192), 0)).collect();
    assert_eq!(assemble(five), count(5));
    let none = Some(AssembleError::TooFewLive { live: 0 });
    assert_eq!(assemble(vec![Member::lost()]), none);
    let bent = Some(AssembleError::Misaligned {
        member: 0,
        base: 100,
    });
    assert_eq!(assemble(vec![Member::live(drive(8192), 100)]), bent);
    let small = Some(AssembleError::TooSmall {
        member: 0,
        bytes: 0,
        needed: 512,
    });
    assert_eq!(assemble(vec![Member::live(drive(4096), 8192)]), small);
}

/// A write in flight when the drive is seated is not sent to it; the copy makes up for that, even
/// if the caller lists no range.
#[test]
fn writes_in_flight_at_replacement_are_copied() {
    let rig = rig(2);
    rig.mirror.set_lost(1);
    let bytes = pattern(21, 2 * BLOCK);
    let write = rig.mirror.submit(Command::Write {
        offset: MIB as u64,
        gather: gather(&bytes),
        handle: Handle::default(),
    });
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(1, Rc::clone(&fresh) as _, BASE).unwrap();
    assert_eq!(rig.mirror.state(1), MemberState::Rebuilding);
    let mirror = Rc::clone(&rig.mirror);
    let copy = (&*rig.executor as &dyn World)
        .run(async move { mirror.rebuild(1, from_ref(&(0..8192)), &gap, |_| ()).await });
    rig.executor.block_on(write).unwrap();
    let restored = rig.executor.block_on(copy).unwrap();
    assert_eq!(restored.bytes, 8192 + 2 * BLOCK as u64);
    assert_eq!(fresh.flushes.get(), 1);
    rig.mirror.set_live(1);
    assert!(fresh.peek(BASE as usize + MIB, 2 * BLOCK) == bytes);
}

#[test]
fn rebuild_reports_what_cannot_be_read_and_goes_on() {
    let rig = rig(2);
    let bytes = pattern(2, MIB);
    rig.write(0, &bytes).unwrap();
    rig.mirror.set_lost(0);
    rig.drives[1].spoil(BASE + 1024, 1024);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(0, Rc::clone(&fresh) as _, BASE).unwrap();
    let mirror = Rc::clone(&rig.mirror);
    let restored = rig.executor.block_on(async move {
        let range = 0..MIB as u64;
        mirror.rebuild(0, &[range], &gap, |_| ()).await.unwrap()
    });
    assert_eq!(restored.unreadable, vec![1024..2048]);
    let mut expected = bytes;
    expected[1024..1536].fill(0xa2);
    expected[1536..2048].fill(0xa3);
    assert!(fresh.peek(BASE as usize, MIB) == expected);
}

/// What a drive answered badly is counted where it sits, and forgotten with it.
#[test]
fn faults_are_counted_of_the_drive_that_has_them() {
    let rig = rig(2);
    let of = |member: usize| {
        let faults = rig.mirror.faults(member);
        (faults.read_errors, faults.write_errors, faults.repairs)
    };
    let bytes = pattern(5, BLOCK);
    rig.write(0, &bytes).unwrap();
    let home = rig.mirror.member_of(0, 0);
    rig.drives[home].spoil(BASE, 512);
    assert_eq!(rig.read(0, BLOCK, 0), Err(IoError::Media));
    assert_eq!((of(home), of(1 - home)), ((1, 0, 0), (0, 0, 0)));
    let repair = rig.mirror.submit(Command::Repair {
        offset: 0,
        gather: gather(&bytes),
        copy: 0,
    });
    rig.executor.block_on(repair).unwrap();
    assert_eq!((of(home), of(1 - home)), ((1, 0, 1), (0, 0, 0)));
    rig.drives[home].next_write.set(Some(IoError::Media));
    rig.write(0, &bytes).unwrap();
    assert_eq!((of(home), of(1 - home)), ((1, 1, 1), (0, 0, 0)));
    rig.executor.drain();
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(home, fresh, BASE).unwrap();
    assert_eq!(of(home), (0, 0, 0));
}

/// Of a mirror of three, what one source cannot read another one may have that does not answer now: that
/// is no gap, whichever of them is asked last. The next attempt copies it.
#[test]
fn rebuild_makes_no_gap_of_what_a_late_source_may_hold() {
    for (late, bad) in [(0, 1), (1, 0)] {
        let rig = rig(3);
        let bytes = pattern(4, MIB);
        rig.write(0, &bytes).unwrap();
        rig.mirror.set_lost(2);
        rig.drives[bad].spoil(BASE + 1024, 1024);
        rig.drives[late].broken.set(Some(IoError::Timeout));
        let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
        rig.mirror.replace(2, Rc::clone(&fresh) as _, BASE).unwrap();
        let copy = || {
            let mirror = Rc::clone(&rig.mirror);
            let range = 0..MIB as u64;
            async move { mirror.rebuild(2, &[range], &gap, |_| ()).await }
        };
        let error = rig.executor.block_on(copy());
        assert_eq!(error, Err(RestoreError::Source(IoError::Timeout)), "{late}");
        rig.drives[late].broken.set(None);
        let restored = rig.executor.block_on(copy()).unwrap();
        assert!(restored.unreadable.is_empty());
        assert!(fresh.peek(BASE as usize, MIB) == bytes);
    }
}

/// A source that fails every read, because of its cable say, is one unreadable range, however long: nothing
/// was copied, so the new drive must not be called whole. The next attempt copies all.
#[test]
fn rebuild_ends_when_its_source_fails_every_read() {
    let rig = rig(2);
    let bytes = pattern(3, 3 * MIB);
    rig.write(0, &bytes).unwrap();
    rig.mirror.set_lost(0);
    rig.drives[1].spoil(BASE, BYTES as u64);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(0, Rc::clone(&fresh) as _, BASE).unwrap();
    let copy = || {
        let mirror = Rc::clone(&rig.mirror);
        let range = 0..3 * MIB as u64;
        async move { mirror.rebuild(0, &[range], &gap, |_| ()).await }
    };
    let error = rig.executor.block_on(copy());
    assert_eq!(error, Err(RestoreError::Unreadable));
    assert_eq!(rig.mirror.state(0), MemberState::Rebuilding);
    rig.drives[1].unspoil();
    let restored = rig.executor.block_on(copy()).unwrap();
    assert!(restored.unreadable.is_empty());
    assert!(fresh.peek(BASE as usize, 3 * MIB) == bytes);
}

#[test]
fn rebuild_ends_when_its_target_fails() {
    let rig = rig(2);
    rig.mirror.set_lost(0);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    fresh.next_write.set(Some(IoError::Media));
    rig.mirror.replace(0, Rc::clone(&fresh) as _, BASE).unwrap();
    let mirror = Rc::clone(&rig.mirror);
    let range = 0..MIB as u64;
    let copy = async move { mirror.rebuild(0, &[range], &gap, |_| ()).await };
    let error = rig.executor.block_on(copy);
    assert_eq!(error, Err(RestoreError::Target(IoError::Media)));
    rig.executor.drain();
    assert_eq!(rig.mirror.state(0), MemberState::Lost);
    assert_eq!(*rig.membership.committed.borrow(), [0]);
}

/// The late answer of a replaced drive does not touch its successor.
#[test]
fn an_old_drives_error_does_not_lose_the_new_one() {
    let rig = rig(2);
    rig.drives[1].broken.set(Some(IoError::Gone));
    let write = rig.mirror.submit(Command::Write {
        offset: 0,
        gather: gather(&pattern(1, BLOCK)),
        handle: Handle::default(),
    });
    rig.mirror.set_lost(1);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(1, fresh, BASE).unwrap();
    rig.executor.block_on(write).unwrap();
    assert_eq!(rig.mirror.state(1), MemberState::Rebuilding);
}

#[test]
#[should_panic(expected = "member 0: illegal transition from live to live")]
fn a_live_member_is_not_set_live() {
    rig(2).mirror.set_live(0);
}

#[test]
#[should_panic(expected = "member 1: illegal transition from live to rebuilding")]
fn a_live_member_is_not_replaced() {
    let rig = rig(2);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(1, fresh, BASE).unwrap();
}

#[test]
#[should_panic(expected = "beyond the end")]
fn a_read_beyond_the_end_is_a_programmer_error() {
    let rig = rig(1);
    let into = varve_io::Target::Meta(Sectors::zeroed(2));
    let offset = BYTES as u64 - 512;
    drop(rig.mirror.submit(Command::Read {
        offset,
        into,
        copy: 0,
    }));
}

/// What was flushed before a member goes live must be durable there too.
#[test]
fn flush_reaches_a_rebuilding_member() {
    let rig = rig(2);
    rig.mirror.set_lost(0);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(0, Rc::clone(&fresh) as _, BASE).unwrap();
    assert!(rig.submit(Command::Flush).is_ok());
    assert_eq!(fresh.flushes.get(), 1);
    assert_eq!(
        rig.read(0, BLOCK, 0).err(),
        Some(IoError::GivenUp),
        "no reads"
    );
}

/// One drive is replaced and the other lost while a flush is under way: what was written before it is
/// on the new drive, which is asked as well.
#[test]
fn a_flush_outlives_those_it_was_sent_to() {
    let rig = rig(2);
    assert!(rig.write(0, &pattern(1, BLOCK)).is_ok());
    let flush = rig.mirror.submit(Command::Flush);
    rig.drives[0].broken.set(Some(IoError::Gone));
    rig.mirror.set_lost(0);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(0, Rc::clone(&fresh) as _, BASE).unwrap();
    rig.mirror.set_live(0);
    rig.drives[1].broken.set(Some(IoError::Gone));
    assert!(rig.executor.block_on(flush).is_ok());
    assert_eq!(
        (fresh.flushes.get(), rig.mirror.state(1)),
        (1, MemberState::Lost)
    );
}

#[test]
#[should_panic(expected = "goes live before writes it missed were copied")]
fn a_member_that_missed_writes_is_not_set_live() {
    let rig = rig(2);
    rig.mirror.set_lost(0);
    let write = rig.mirror.submit(Command::Write {
        offset: 0,
        gather: gather(&pattern(1, BLOCK)),
        handle: Handle::default(),
    });
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(0, fresh, BASE).unwrap();
    rig.executor.block_on(write).unwrap();
    rig.mirror.set_live(0);
}

/// A copy waits for one write and holds up the next; the caller awaits the second one first.
#[test]
fn the_order_in_which_writes_are_awaited_is_free_while_rebuilding() {
    let rig = rig(2);
    rig.mirror.set_lost(0);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES as u64);
    rig.mirror.replace(0, Rc::clone(&fresh) as _, BASE).unwrap();
    let write = |seed| {
        let gather = gather(&pattern(seed, BLOCK));
        rig.mirror.submit(Command::Write {
            offset: 0,
            gather,
            handle: Handle::default(),
        })
    };
    let first = write(1);
    let mirror = Rc::clone(&rig.mirror);
    let copy = async move { mirror.rebuild(0, from_ref(&(0..8192)), &gap, |_| ()).await };
    let copy = (&*rig.executor as &dyn World).run(copy);
    rig.executor.settle();
    let writes = fresh.writes.get();
    let second = write(2);
    rig.executor.settle();
    assert_eq!(fresh.writes.get(), writes, "the second write is held");
    rig.executor.block_on(second).unwrap();
    rig.executor.block_on(first).unwrap();
    rig.executor.block_on(copy).unwrap();
    assert!(fresh.peek(BASE as usize, BLOCK) == pattern(2, BLOCK));
}
