//! Drives that take commands and do not end them: what waits for one ends when it is given up.

use crate::common::{BLOCK, Executor, MemoryDrive, Recorder, drives, gap, gather, pattern, read};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::slice::from_ref;
use varve_array::{Geometry, Member, MemberState, Mirror, Protection, StripeSet};
use varve_io::{Blocks, Command, Drive, Gather, Handle, IoError, Outcome, Target, World};

const MIB: usize = 1 << 20;
const BASE: u64 = 4096;
const BYTES: u64 = 4 * MIB as u64;

/// An array under test and the drives below it.
struct Rig<A> {
    executor: Rc<Executor>,
    drives: Vec<Rc<MemoryDrive>>,
    membership: Rc<Recorder>,
    array: Rc<A>,
}

fn live(drives: &[Rc<MemoryDrive>]) -> Vec<Member> {
    let drives = drives.iter();
    let live = drives.map(|drive| Member::live(Rc::clone(drive) as Rc<dyn Drive>, BASE));
    live.collect()
}

fn mirror(count: usize) -> Rig<Mirror> {
    let executor = Executor::new(7);
    let drives = drives(&executor, count, BASE + BYTES);
    let membership = Recorder::new(&executor);
    let world = Rc::clone(&executor) as Rc<dyn World>;
    let mirror = Mirror::new(live(&drives), Rc::clone(&membership) as _, world).unwrap();
    Rig {
        executor,
        drives,
        membership,
        array: Rc::new(mirror),
    }
}

fn parity() -> Rig<StripeSet> {
    let executor = Executor::new(11);
    let geometry = Geometry::new(4, 2, 5, 3, Protection::Parity { data: 3 }).unwrap();
    let drives = drives(&executor, 4, BASE + geometry.member_bytes());
    let membership = Recorder::new(&executor);
    let world = Rc::clone(&executor) as Rc<dyn World>;
    let recorder = Rc::clone(&membership) as _;
    let set = StripeSet::new(geometry, live(&drives), recorder, world).unwrap();
    Rig {
        executor,
        drives,
        membership,
        array: Rc::new(set),
    }
}

/// How a command ended, once it has.
type Ending = Rc<RefCell<Option<Outcome>>>;

impl<A: Drive + 'static> Rig<A> {
    /// Starts a command; somebody awaits it.
    fn start(&self, command: Command) -> Ending {
        let ending = Ending::default();
        let (completion, into) = (self.array.submit(command), Rc::clone(&ending));
        self.executor.spawn(Box::pin(async move {
            let outcome = completion.await;
            *into.borrow_mut() = Some(outcome);
        }));
        ending
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Ending {
        self.start(write(offset, gather(bytes)))
    }

    fn read(&self, offset: usize, bytes: usize, copy: u8) -> Result<Vec<u8>, IoError> {
        let array = Rc::clone(&self.array);
        let read = async move { read(&*array, offset, bytes, copy).await };
        self.executor.block_on(read)
    }

    fn start_read(&self, offset: u64, blocks: usize, copy: u8) -> Ending {
        let into = varve_io::Target::Data(varve_io::Blocks::zeroed(blocks));
        self.start(Command::Read { offset, into, copy })
    }
}

fn write(offset: u64, gather: Gather) -> Command {
    Command::Write {
        offset,
        gather,
        handle: Handle::default(),
    }
}

fn has_ended(endings: &[&Ending]) -> Vec<bool> {
    let endings = endings.iter();
    endings.map(|ending| ending.borrow().is_some()).collect()
}

fn result(ending: &Ending) -> Result<(), IoError> {
    let outcome = ending.borrow_mut().take().expect("it has ended");
    outcome.map(|_| ())
}

impl Rig<Mirror> {
    fn give_up(&self, member: usize) {
        let mirror = Rc::clone(&self.array);
        let commit = async { Ok::<(), ()>(()) };
        let given = async move { mirror.give_up(member, commit).await };
        self.executor.block_on(given).unwrap();
        assert_eq!(self.array.state(member), MemberState::Lost);
    }
}

/// A mirror of which one drive hangs: what was sent to it ends when the drive is given up, and the
/// other one serves. The drive may not take its seat again before all that has ended there as well.
#[test]
fn a_mirror_waits_no_longer_for_a_drive_that_is_given_up() {
    let rig = mirror(2);
    let old = pattern(1, 2 * BLOCK);
    let before = rig.write(0, &old);
    rig.executor.drain();
    result(&before).unwrap();
    rig.drives[0].is_hung.set(true);
    let new = pattern(2, BLOCK);
    let written = rig.write(0, &new);
    let flushed = rig.start(Command::Flush);
    let one = rig.start_read(0, 1, 0);
    let split = rig.start_read(MIB as u64 - BLOCK as u64, 2, 0);
    let (offset, copy) = (BLOCK as u64, 0);
    let repaired = rig.start(Command::Repair {
        offset,
        gather: gather(&old[BLOCK..]),
        copy,
    });
    let length = BLOCK as u64;
    let discarded = rig.start(Command::Discard { offset, length });
    let all = [&written, &flushed, &one, &split, &repaired, &discarded];
    rig.executor.drain();
    assert_eq!(has_ended(&all), [false; 6], "all have a part on it");
    rig.give_up(0);
    rig.executor.drain();
    assert_eq!(has_ended(&all), [true; 6]);
    for kept in [&written, &flushed, &discarded] {
        assert_eq!(result(kept), Ok(()));
    }
    for lost in [&one, &split, &repaired] {
        assert_eq!(result(lost), Err(IoError::Gone));
    }
    // As a caller goes on: the next way.
    assert!(rig.read(0, BLOCK, 1).unwrap() == new);
    assert!(rig.read(BLOCK, BLOCK, 1).unwrap() == old[BLOCK..]);
    let later = rig.write(0, &old);
    rig.executor.drain();
    assert_eq!(result(&later), Ok(()));
    assert!(rig.membership.asked.borrow().is_empty());

    assert_eq!(rig.drives[0].hanging(), 6);
    assert!(!rig.array.is_drained(0));
    rig.drives[0].wake();
    assert!(!rig.array.is_drained(0), "they are only about to end");
    rig.executor.drain();
    assert!(rig.array.is_drained(0));
    // What came late is on the drive, so it is filled anew.
    assert!(rig.drives[0].peek(BASE as usize, BLOCK) == new);
    let drive = Rc::clone(&rig.drives[0]) as Rc<dyn Drive>;
    rig.array.replace(0, drive, BASE).unwrap();
    let mirror = Rc::clone(&rig.array);
    let copy = async move { mirror.rebuild(0, from_ref(&(0..8192)), &gap, |_| ()).await };
    rig.executor.block_on(copy).unwrap();
    rig.array.set_live(0);
    assert!(rig.read(0, 2 * BLOCK, 0).unwrap() == old);
}

/// As above with parity, for a drive that fails one command and hangs for the others: the loss is
/// committed by the command that failed.
#[test]
fn a_stripe_set_waits_no_longer_for_a_drive_that_failed() {
    let rig = parity();
    let stripe = 6 * BLOCK;
    let old = pattern(3, stripe);
    let before = rig.write(0, &old);
    rig.executor.drain();
    result(&before).unwrap();
    rig.drives[0].is_hung.set(true);
    let new = pattern(4, stripe);
    let written = rig.write(stripe as u64, &new);
    let flushed = rig.start(Command::Flush);
    let direct = rig.start_read(0, 2, 0);
    let all = [&written, &flushed, &direct];
    rig.executor.drain();
    assert_eq!(has_ended(&all), [false; 3]);
    rig.drives[0].is_hung.set(false);
    rig.drives[0].next_write.set(Some(IoError::Media));
    let failed = rig.write(2 * stripe as u64, &new);
    rig.executor.drain();
    assert_eq!(has_ended(&all), [true; 3]);
    assert_eq!(result(&failed), Ok(()));
    assert_eq!(result(&written), Ok(()));
    assert_eq!(result(&flushed), Ok(()));
    assert_eq!(result(&direct), Err(IoError::Gone));
    assert_eq!(*rig.membership.committed.borrow(), [0]);
    // Rebuilt from the others: the old content, and what the drive has not written.
    assert!(rig.read(0, 2 * BLOCK, 1).unwrap() == old[..2 * BLOCK]);
    for block in 0..6 {
        let at = stripe + block * BLOCK;
        let ways = [0, 1].map(|copy| rig.read(at, BLOCK, copy));
        let is_right =
            |way: &Result<Vec<u8>, _>| way.as_deref() == Ok(&new[block * BLOCK..][..BLOCK]);
        assert!(ways.iter().any(is_right), "block {block}");
    }
    assert!(!rig.array.is_drained(0));
    rig.drives[0].wake();
    rig.executor.drain();
    assert!(rig.array.is_drained(0));
}

/// While its loss is not committed a part of a drive that hangs keeps its command: nobody may be told
/// that a write is safe without it. Where the labels cannot be written it fails.
#[test]
fn what_waits_for_a_drive_ends_as_its_loss_does() {
    for fails in [false, true] {
        let rig = mirror(2);
        rig.drives[1].is_hung.set(true);
        let written = rig.write(0, &pattern(1, BLOCK));
        rig.executor.drain();
        rig.drives[1].is_hung.set(false);
        rig.drives[1].broken.set(Some(IoError::Gone));
        rig.membership.is_waiting.set(!fails);
        rig.membership.failures.set(u32::MAX);
        assert_eq!(rig.read(0, BLOCK, 1).err(), Some(IoError::Gone));
        assert!(rig.read(0, BLOCK, 0).is_ok());
        assert_eq!(rig.read(0, BLOCK, 1).err(), Some(IoError::Gone));
        rig.executor.drain();
        assert_eq!(rig.array.state(1), MemberState::Leaving);
        if fails {
            assert_eq!(result(&written), Err(IoError::Timeout));
            continue;
        }
        assert_eq!(has_ended(&[&written]), [false]);
        rig.membership.release();
        rig.executor.drain();
        assert_eq!(result(&written), Ok(()));
    }
}

/// A drive that is being filled and hangs holds up whatever is written; given up, nobody waits for
/// it, the copy ends, and another drive takes the seat while commands of the old one still hang.
#[test]
fn a_drive_that_hangs_while_it_is_filled_is_given_up() {
    let rig = mirror(2);
    let bytes = pattern(5, BLOCK);
    let before = rig.write(0, &bytes);
    rig.executor.drain();
    result(&before).unwrap();
    rig.array.set_lost(0);
    let drive = || MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES);
    let first = drive();
    first.is_hung.set(true);
    let seat = Rc::clone(&first) as Rc<dyn Drive>;
    rig.array.replace(0, seat, BASE).unwrap();
    let ended = Rc::new(Cell::new(false));
    let (mirror, flag) = (Rc::clone(&rig.array), Rc::clone(&ended));
    rig.executor.spawn(Box::pin(async move {
        let copied = mirror.rebuild(0, from_ref(&(0..8192)), &gap, |_| ()).await;
        assert!(copied.is_err());
        flag.set(true);
    }));
    rig.executor.drain();
    let written = rig.write(2 * MIB as u64, &bytes);
    let held = rig.write(0, &bytes);
    rig.executor.drain();
    assert_eq!(has_ended(&[&written, &held]), [false; 2]);
    rig.give_up(0);
    rig.executor.drain();
    assert!(ended.get(), "the copy is over");
    assert_eq!(result(&written), Ok(()));
    assert_eq!(result(&held), Ok(()));
    let second = drive();
    let seat = Rc::clone(&second) as Rc<dyn Drive>;
    rig.array.replace(0, seat, BASE).unwrap();
    let mirror = Rc::clone(&rig.array);
    let copy = async move { mirror.rebuild(0, from_ref(&(0..8192)), &gap, |_| ()).await };
    rig.executor.block_on(copy).unwrap();
    rig.array.set_live(0);
    first.wake();
    rig.executor.drain();
    assert_eq!(
        rig.array.state(0),
        MemberState::Live,
        "the late end is not its"
    );
    assert!(rig.read(0, BLOCK, 0).unwrap() == bytes);
}

/// A drive that is kept to be copied from, and hangs: the copy waits for it once, then takes all from the
/// others, and what is written meanwhile goes on.
#[test]
fn a_copy_waits_no_longer_for_a_kept_drive_that_hangs() {
    let rig = mirror(2);
    let bytes = pattern(6, 3 * MIB);
    let before = rig.write(0, &bytes);
    rig.executor.drain();
    result(&before).unwrap();
    rig.array.keep(0);
    rig.give_up(0);
    rig.drives[0].is_hung.set(true);
    let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + BYTES);
    let seat = Rc::clone(&fresh) as Rc<dyn Drive>;
    rig.array.replace(0, seat, BASE).unwrap();
    let (mirror, copied) = (Rc::clone(&rig.array), Rc::new(Cell::new(false)));
    let flag = Rc::clone(&copied);
    let copy = async move {
        let all = 0..3 * MIB as u64;
        let restored = mirror.rebuild(0, from_ref(&all), &gap, |_| ()).await;
        flag.set(true);
        restored
    };
    let copying = (&*rig.executor as &dyn World).run(copy);
    rig.executor.drain();
    assert!(!copied.get(), "it may answer yet");
    let held = rig.write(0, &bytes[..BLOCK]);
    rig.executor.drain();
    assert_eq!(has_ended(&[&held]), [false], "of what is being copied");
    let restored = rig.executor.block_on(copying).unwrap();
    assert!(restored.unreadable.is_empty());
    rig.executor.drain();
    assert_eq!(result(&held), Ok(()));
    rig.array.set_live(0);
    assert!(fresh.peek(BASE as usize, 3 * MIB) == bytes);
    assert_eq!(rig.drives[0].hanging(), 1, "it was asked once");
    assert!(!rig.array.is_drained(0));
    rig.drives[0].wake();
    rig.executor.drain();
    assert!(rig.array.is_drained(0));
}

/// A drive that is kept and hangs is waited for once by who reads, as long as it has not answered; then it is asked again.
#[test]
fn reads_wait_no_longer_for_a_kept_drive_that_hangs() {
    let rig = mirror(2);
    let bytes = pattern(6, BLOCK);
    let before = rig.write(0, &bytes);
    rig.executor.drain();
    result(&before).unwrap();
    rig.array.keep(0);
    rig.give_up(0);
    rig.drives[0].is_hung.set(true);
    for _ in 0..3 {
        assert_eq!(rig.read(0, BLOCK, 2), Err(IoError::Gone));
    }
    assert_eq!(rig.drives[0].hanging(), 1, "it was asked once");
    rig.drives[0].wake();
    rig.executor.drain();
    assert!(rig.read(0, BLOCK, 2).unwrap() == bytes);
}

/// Where no drive answers none is given up for that; nor for the answer of one that was asked before the other fell silent.
#[test]
fn drives_that_are_silent_together_are_kept() {
    let rig = mirror(2);
    let answers = |copy| rig.read(0, BLOCK, copy).is_ok();
    let is_gone = |drive: usize, is_gone: bool| {
        let error = is_gone.then_some(IoError::Gone);
        rig.drives[drive].broken.set(error);
    };
    is_gone(0, true);
    is_gone(1, true);
    assert!([0, 1, 0, 1].map(answers).iter().all(|answers| !answers));
    is_gone(0, false);
    is_gone(1, false);
    assert!([1, 0].map(answers).iter().all(|answers| *answers));
    // One that answers again is no longer silent.
    is_gone(0, true);
    assert!(!answers(0));
    is_gone(0, false);
    assert!([1, 0, 1].map(answers).iter().all(|answers| *answers));
    rig.drives[1].is_hung.set(true);
    let early = rig.start(Command::Read {
        offset: 0,
        into: Target::Data(Blocks::zeroed(1)),
        copy: 1,
    });
    rig.executor.drain();
    is_gone(0, true);
    assert!(!answers(0));
    rig.drives[1].wake();
    rig.executor.drain();
    assert!(early.borrow().as_ref().is_some_and(Result::is_ok));
    assert!(!answers(0));
    rig.executor.drain();
    assert!(rig.membership.asked.borrow().is_empty());
    assert!(answers(1) && !answers(0));
    rig.executor.drain();
    assert_eq!(*rig.membership.committed.borrow(), [0]);
}

/// The same of a set of stripes; what is rebuilt from the others is an answer of each.
#[test]
fn a_shelf_that_is_away_costs_no_drive() {
    let rig = parity();
    let all_are_gone = |error| rig.drives.iter().for_each(|drive| drive.broken.set(error));
    let written = rig.write(0, &pattern(3, 6 * BLOCK));
    rig.executor.drain();
    assert_eq!(result(&written), Ok(()));
    all_are_gone(Some(IoError::Gone));
    for copy in [0, 1, 0, 1] {
        assert!(rig.read(0, BLOCK, copy).is_err());
    }
    all_are_gone(None);
    for copy in [0, 1] {
        assert!(rig.read(0, BLOCK, copy).is_ok());
    }
    rig.executor.drain();
    assert!(rig.membership.asked.borrow().is_empty());
    rig.drives[0].broken.set(Some(IoError::Gone));
    let reads = [0, 1, 0].map(|copy| rig.read(0, BLOCK, copy).is_ok());
    assert_eq!(reads, [false, true, false]);
    rig.executor.drain();
    assert_eq!(*rig.membership.committed.borrow(), [0]);
}
