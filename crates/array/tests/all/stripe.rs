//! The stripe set, case by case.

use crate::common::{
    BLOCK, Executor, MemoryDrive, Recorder, drives, gather, pattern, read, read_sectors,
    torn_gather,
};
use std::cell::Cell;
use std::rc::Rc;
use std::slice::from_ref;
use varve_array::{
    AssembleError, Geometry, Member, MemberState, Protection, RestoreError, StripeSet,
};
use varve_io::{
    Blocks, Command, Drive, DriveInfo, Gather, Handle, IoError, Outcome, Sectors, World,
};

const BASE: u64 = 4096;
const PARITY: Protection = Protection::Parity { data: 3 };

struct Rig {
    executor: Rc<Executor>,
    drives: Vec<Rc<MemoryDrive>>,
    membership: Rc<Recorder>,
    set: Rc<StripeSet>,
    geometry: Geometry,
}

/// Four drives, strips of 2 blocks, zones of 5 strips, 3 groups.
fn rig(protection: Protection) -> Rig {
    let executor = Executor::new(11);
    let geometry = Geometry::new(4, 2, 5, 3, protection).unwrap();
    let drives = drives(&executor, 4, BASE + geometry.member_bytes());
    let membership = Recorder::new(&executor);
    let members = drives
        .iter()
        .map(|drive| Member::live(Rc::clone(drive) as Rc<dyn Drive>, BASE));
    let world = Rc::clone(&executor) as Rc<dyn World>;
    let recorder = Rc::clone(&membership) as _;
    let set = StripeSet::new(geometry, members.collect(), recorder, world).unwrap();
    Rig {
        executor,
        drives,
        membership,
        set: Rc::new(set),
        geometry,
    }
}

impl Rig {
    fn drive(&self) -> Rc<dyn Drive> {
        Rc::clone(&self.set) as Rc<dyn Drive>
    }

    fn submit(&self, command: Command) -> Outcome {
        let completion = self.set.submit(command);
        self.executor.block_on(completion)
    }

    fn write(&self, offset: usize, gather: Gather) -> Result<(), IoError> {
        let offset = offset as u64;
        self.submit(Command::Write {
            offset,
            gather,
            handle: Handle::default(),
        })
        .map(|_| ())
    }

    fn read(&self, offset: usize, bytes: usize, copy: u8) -> Result<Vec<u8>, IoError> {
        let drive = self.drive();
        self.executor
            .block_on(async move { read(&*drive, offset, bytes, copy).await })
    }

    fn fresh(&self) -> Rc<MemoryDrive> {
        let bytes = BASE + self.geometry.member_bytes();
        MemoryDrive::new(Rc::clone(&self.executor), bytes)
    }

    /// XOR over all drives is zero everywhere.
    fn assert_parity(&self) {
        let bytes = self.geometry.member_bytes() as usize;
        let mut sum = vec![0; bytes];
        for drive in &self.drives {
            varve_gf::xor_into(&mut sum, &drive.peek(BASE as usize, bytes));
        }
        assert!(sum.iter().all(|&byte| byte == 0), "stripe xor is not zero");
    }
}

/// One command per drive for any number of stripes, data by reference, parity right, blocks and
/// sectors of metadata mixed, both ways of reading, in both kinds of memory.
#[test]
fn stripes_are_written_once_per_drive_and_read_both_ways() {
    for protection in [Protection::None, Protection::Mirror, PARITY] {
        let rig = rig(protection);
        let stripe = rig.geometry.stripe_bytes() as usize;
        let bytes = pattern(3, 6 * stripe);
        let torn = torn_gather(&rig.executor, &bytes);
        rig.write(2 * stripe, torn).unwrap();
        assert!(rig.drives.iter().all(|drive| drive.writes.get() == 1));
        if protection == PARITY {
            rig.assert_parity();
        }
        for copy in 0..rig.set.info().copies {
            let found = rig.read(2 * stripe, 6 * stripe, copy).unwrap();
            assert!(found == bytes, "{protection:?} copy {copy}");
            for block in 0..6 * stripe / BLOCK {
                let (drive, at) = (rig.drive(), 2 * stripe + block * BLOCK);
                let found = rig
                    .executor
                    .block_on(async move { read_sectors(&*drive, at, BLOCK, copy).await });
                assert!(found.unwrap() == bytes[block * BLOCK..][..BLOCK]);
            }
        }
    }
}

#[test]
fn data_is_not_copied_on_the_way() {
    let rig = rig(PARITY);
    let stripe = rig.geometry.stripe_bytes() as usize;
    let bytes = gather(&pattern(1, stripe));
    let varve_io::Segment::Data(blocks, _) = &bytes.segments()[0] else {
        panic!("a gather of data");
    };
    let start = blocks.bytes().as_ptr() as usize;
    let memory = start..start + stripe;
    rig.write(0, bytes).unwrap();
    let seen: Vec<_> = rig.drives.iter().map(|d| d.seen.borrow()[0]).collect();
    let shared = seen.iter().filter(|address| memory.contains(address));
    assert_eq!(shared.count(), 3, "three strips by reference, one parity");
}

#[test]
fn copy_1_needs_the_direct_drive_for_nothing() {
    for protection in [Protection::Mirror, PARITY] {
        let rig = rig(protection);
        let stripe = rig.geometry.stripe_bytes() as usize;
        let bytes = pattern(8, 4 * stripe);
        rig.write(0, gather(&bytes)).unwrap();
        for block in 0..4 * stripe / BLOCK {
            let place = rig.geometry.place(block as u64);
            let direct = rig.geometry.direct(place.stripe, place.strip);
            let reads = rig.drives[direct].reads.get();
            let found = rig.read(block * BLOCK, BLOCK, 1).unwrap();
            assert!(found == bytes[block * BLOCK..][..BLOCK]);
            assert_eq!(rig.drives[direct].reads.get(), reads);
        }
    }
}

#[test]
fn media_errors_are_the_callers_and_repair_heals() {
    for protection in [Protection::Mirror, PARITY] {
        let rig = rig(protection);
        let stripe = rig.geometry.stripe_bytes() as usize;
        let bytes = pattern(8, 2 * stripe);
        rig.write(0, gather(&bytes)).unwrap();
        for block in 0..2 * stripe / BLOCK {
            let place = rig.geometry.place(block as u64);
            let direct = rig.geometry.direct(place.stripe, place.strip);
            let start = place.stripe * rig.geometry.strip_bytes() + place.block * 4096;
            rig.drives[direct].spoil(BASE + start, 4096);
            let at = block * BLOCK;
            assert_eq!(rig.read(at, BLOCK, 0).err(), Some(IoError::Media));
            let good = rig.read(at, BLOCK, 1).unwrap();
            assert!(good == bytes[at..at + BLOCK]);
            let (offset, gather, copy) = (at as u64, gather(&good), 0);
            let repair = Command::Repair {
                offset,
                gather,
                copy,
            };
            assert!(rig.submit(repair).is_ok());
            assert!(rig.read(at, BLOCK, 0).unwrap() == good);
        }
        let repair = Command::Repair {
            offset: 0,
            gather: gather(&bytes[..BLOCK]),
            copy: 1,
        };
        let partner = rig.geometry.direct(0, 0) ^ 1;
        rig.drives[partner].spoil(BASE, 4096);
        let expected = (protection == PARITY).then_some(IoError::Media);
        assert_eq!(rig.submit(repair).err(), expected);
        assert_eq!(rig.read(0, BLOCK, 1).err(), expected);
        assert_eq!(rig.set.state(0), MemberState::Live);
    }
}

/// With one drive lost some copy serves every read, of one block and of many stripes.
#[test]
fn one_lost_drive_leaves_every_read_a_way() {
    for protection in [Protection::Mirror, PARITY] {
        for lost in 0..4 {
            let rig = rig(protection);
            let stripe = rig.geometry.stripe_bytes() as usize;
            let bytes = pattern(8, 5 * stripe);
            rig.write(0, gather(&bytes)).unwrap();
            rig.set.set_lost(lost);
            for (at, length) in [(0, 5 * stripe), (BLOCK, 3 * stripe), (stripe, BLOCK)] {
                let found = (0..2).find_map(|copy| rig.read(at, length, copy).ok());
                assert!(
                    found.unwrap() == bytes[at..at + length],
                    "drive {lost} lost"
                );
            }
            let more = pattern(9, stripe);
            rig.write(5 * stripe, gather(&more)).unwrap();
            assert!(rig.membership.asked.borrow().is_empty(), "committed before");
        }
    }
}

#[test]
fn a_degraded_write_waits_for_the_commit() {
    let rig = rig(PARITY);
    rig.membership.is_waiting.set(true);
    rig.drives[2].next_write.set(Some(IoError::Timeout));
    let stripe = rig.geometry.stripe_bytes() as usize;
    let is_done = Rc::new(Cell::new(0));
    for turn in 0..2 {
        let (drive, flag) = (rig.drive(), Rc::clone(&is_done));
        let bytes = gather(&pattern(turn, stripe));
        rig.executor.spawn(Box::pin(async move {
            drive.write(turn * stripe as u64, bytes).await.unwrap();
            flag.set(flag.get() + 1);
        }));
        rig.executor.drain();
        assert_eq!(is_done.get(), 0);
        assert_eq!(rig.set.state(2), MemberState::Leaving);
    }
    assert_eq!(*rig.membership.asked.borrow(), [(2, IoError::Timeout)]);
    rig.membership.release();
    rig.executor.drain();
    assert_eq!((is_done.get(), rig.set.state(2)), (2, MemberState::Lost));
}

#[test]
fn a_failed_commit_fails_the_write() {
    let rig = rig(Protection::Mirror);
    rig.membership.failures.set(2);
    rig.drives[2].next_write.set(Some(IoError::Gone));
    let stripe = rig.geometry.stripe_bytes() as usize;
    for expected in [Err(IoError::Timeout), Err(IoError::Timeout), Ok(())] {
        assert_eq!(rig.write(0, gather(&pattern(1, stripe))), expected);
    }
}

/// Beyond the redundancy a failure is the command's and changes no state.
#[test]
fn what_redundancy_cannot_bear_fails_the_command() {
    for (protection, lost, failing, expected) in [
        (Protection::None, None, 1, Err(IoError::Media)),
        (PARITY, Some(0), 1, Err(IoError::Media)),
        (Protection::Mirror, Some(0), 1, Err(IoError::Media)),
        (Protection::Mirror, Some(0), 2, Ok(())),
    ] {
        let rig = rig(protection);
        if let Some(lost) = lost {
            rig.set.set_lost(lost);
        }
        rig.drives[failing].next_write.set(Some(IoError::Media));
        let bytes = gather(&pattern(1, rig.geometry.stripe_bytes() as usize));
        assert_eq!(rig.write(0, bytes.clone()), expected, "{protection:?}");
        assert_eq!(
            rig.set.state(failing) == MemberState::Live,
            expected.is_err()
        );
        assert_eq!(rig.write(0, bytes), Ok(()));
    }
    let rig = rig(Protection::None);
    rig.set.set_lost(3);
    let bytes = gather(&pattern(1, rig.geometry.stripe_bytes() as usize));
    assert_eq!(rig.write(0, bytes), Err(IoError::Gone));
    assert!(
        rig.read(0, BLOCK, 0).is_ok(),
        "strips elsewhere are still read"
    );
    assert_eq!(rig.read(6 * BLOCK, BLOCK, 0).err(), Some(IoError::GivenUp));
}

/// Whoever asks a way in vain is told whether its drive may be back with what it has: not once it was given up, and as
/// long as nobody has begun to fill another one in its place.
#[test]
fn who_may_be_back_is_told_from_who_was_given_up() {
    let rig = rig(PARITY);
    let stripe = rig.geometry.stripe_bytes() as usize;
    rig.write(0, gather(&pattern(4, 3 * stripe))).unwrap();
    // Stripe 0 has its parity on the last drive: block 2 lies on drive 1.
    let (gone, given_up) = (Some(IoError::Gone), Some(IoError::GivenUp));
    let ways = |at| [0, 1].map(|copy| rig.read(at, BLOCK, copy).err());
    // On its way out, and its loss is not committed.
    rig.membership.failures.set(u32::MAX);
    rig.drives[0].broken.set(gone);
    assert_eq!(ways(0), [gone, None]);
    assert_eq!(ways(2 * BLOCK), [None, gone]);
    assert_eq!(rig.set.state(0), MemberState::Leaving);
    rig.drives[0].broken.set(None);
    assert_eq!(ways(0), [gone, None], "it has missed writes");
    rig.set.set_lost(0);
    assert_eq!(ways(0), [given_up, None]);
    // One that is needed and does not answer stays, and comes back.
    rig.drives[1].broken.set(gone);
    assert_eq!(ways(2 * BLOCK), [gone, given_up]);
    assert_eq!(rig.set.state(1), MemberState::Live);
    // What the new drive is to hold: nothing yet, then who knows.
    rig.set.replace(0, rig.fresh(), BASE).unwrap();
    assert_eq!(ways(0), [given_up, gone]);
    let set = Rc::clone(&rig.set);
    let copy = async move { set.rebuild(0, from_ref(&(0..15)), |_| ()).await };
    assert!(rig.executor.block_on(copy).is_err());
    assert_eq!(rig.set.state(0), MemberState::Rebuilding);
    rig.drives[1].broken.set(None);
    assert_eq!(ways(0), [gone, None]);
    assert_eq!(ways(2 * BLOCK), [None, gone]);
    rig.set.set_lost(0);
    assert_eq!(ways(2 * BLOCK), [None, given_up]);
}

/// The same of a way by a drive that is kept: it lacks another drive that may be back, or one that may not.
#[test]
fn a_kept_drive_may_lack_one_that_comes_back() {
    let rig = rig(PARITY);
    rig.membership.failures.set(u32::MAX);
    let stripe = rig.geometry.stripe_bytes() as usize;
    rig.write(0, gather(&pattern(4, 3 * stripe))).unwrap();
    let usual = rig.set.info().copies;
    rig.set.keep(0);
    rig.set.set_lost(0);
    let read = |at| rig.read(at, BLOCK, usual).err();
    assert_eq!(read(2 * BLOCK), None, "the sum of all but drive 1");
    rig.drives[0].broken.set(Some(IoError::Gone));
    assert_eq!(read(2 * BLOCK), Some(IoError::Gone), "it is asked");
    rig.drives[0].broken.set(None);
    rig.drives[2].broken.set(Some(IoError::Gone));
    assert_eq!(read(2 * BLOCK), Some(IoError::Gone));
    assert_eq!(rig.set.state(2), MemberState::Live, "it is needed");
    rig.set.set_lost(2);
    assert_eq!(read(2 * BLOCK), Some(IoError::GivenUp));
    assert_eq!(read(0), None, "its own strips");
}

#[test]
fn discard_reaches_drives_for_whole_groups() {
    let rig = rig(PARITY);
    let (group, zone) = (rig.geometry.group_bytes(), rig.geometry.zone_bytes());
    let discard = |offset, length| {
        assert!(rig.submit(Command::Discard { offset, length }).is_ok());
        let seen = rig.drives.iter().map(|drive| drive.discards.take());
        let mut seen: Vec<_> = seen.collect();
        seen.dedup();
        assert_eq!(seen.len(), 1, "every drive alike");
        seen.pop().unwrap()
    };
    assert_eq!(discard(group, group), [(BASE + zone, zone)]);
    assert_eq!(discard(4096, 3 * group - 4096), [(BASE + zone, 2 * zone)]);
    assert_eq!(discard(4096, group), []);
}

/// Data and parity alike; an array has as many handles as the drive with the fewest.
#[test]
fn every_drive_writes_under_the_handle_of_the_write() {
    let rig = rig(PARITY);
    for (drive, handles) in rig.drives.iter().zip([8, 4, 128, 8]) {
        let info = drive.info.get();
        drive.info.set(DriveInfo { handles, ..info });
    }
    assert_eq!(rig.drive().info().handles, 4);
    let write = Command::Write {
        offset: 0,
        gather: gather(&pattern(1, 6 * BLOCK)),
        handle: Handle(3),
    };
    assert!(rig.submit(write).is_ok());
    assert!(
        rig.drives
            .iter()
            .all(|drive| drive.handle.get() == Handle(3))
    );
}

#[test]
fn flush_reaches_every_drive() {
    let rig = rig(PARITY);
    assert!(rig.submit(Command::Flush).is_ok());
    assert!(rig.drives.iter().all(|drive| drive.flushes.get() == 1));
}

#[test]
fn rebuild_restores_data_and_parity_of_the_named_stripes_only() {
    for protection in [Protection::Mirror, PARITY] {
        for lost in 0..4 {
            let rig = rig(protection);
            let stripe = rig.geometry.stripe_bytes() as usize;
            rig.write(0, gather(&pattern(4, 15 * stripe))).unwrap();
            let bytes = rig.geometry.member_bytes() as usize;
            let expected = rig.drives[lost].peek(BASE as usize, bytes);
            rig.set.set_lost(lost);
            let fresh = rig.fresh();
            rig.set.replace(lost, Rc::clone(&fresh) as _, BASE).unwrap();
            let set = Rc::clone(&rig.set);
            let restored = rig.executor.block_on(async move {
                let mut last = None;
                let ranges = [0..5, 10..12];
                let report = |progress| last = Some(progress);
                let restored = set.rebuild(lost, &ranges, report).await.unwrap();
                let last = last.unwrap();
                assert_eq!(last.done, last.total);
                restored
            });
            rig.set.set_live(lost);
            let strip = rig.geometry.strip_bytes() as usize;
            assert_eq!(restored.bytes, 7 * strip as u64);
            let found = fresh.peek(BASE as usize, bytes);
            assert!(found[..5 * strip] == expected[..5 * strip]);
            assert!(found[5 * strip..10 * strip].iter().all(|&byte| byte == 0));
            assert!(found[10 * strip..12 * strip] == expected[10 * strip..12 * strip]);
        }
    }
    let rig = rig(Protection::None);
    let set = Rc::clone(&rig.set);
    let error = rig
        .executor
        .block_on(async move { set.rebuild(0, &[], |_| ()).await });
    assert_eq!(error, Err(RestoreError::Unprotected));
}

#[test]
fn rebuild_reports_unreadable_blocks_and_ends_without_sources() {
    let rig = rig(PARITY);
    let stripe = rig.geometry.stripe_bytes() as usize;
    rig.write(0, gather(&pattern(4, 15 * stripe))).unwrap();
    rig.set.set_lost(1);
    rig.set.replace(1, rig.fresh(), BASE).unwrap();
    rig.drives[3].spoil(BASE + 2 * 4096 + 512, 512);
    let set = Rc::clone(&rig.set);
    let restored = rig.executor.block_on(async move {
        let ranges = [set.geometry().group_stripes(0)];
        set.rebuild(1, &ranges, |_| ()).await.unwrap()
    });
    assert_eq!(restored.unreadable, vec![8192..12288]);
    rig.drives[0].broken.set(Some(IoError::Gone));
    let set = Rc::clone(&rig.set);
    let error = rig
        .executor
        .block_on(async move { set.rebuild(1, &[0..1, 3..4], |_| ()).await });
    assert_eq!(error, Err(RestoreError::Source(IoError::Gone)));
    assert_eq!(rig.set.state(0), MemberState::Live, "the last cover stays");
}

/// Where one of the others is lost, the rest are not asked for what nobody would await: a drive would still
/// work on it while its seat says that it rests.
#[test]
fn a_rebuild_without_sources_asks_nobody() {
    let rig = rig(PARITY);
    let stripe = rig.geometry.stripe_bytes() as usize;
    rig.write(0, gather(&pattern(4, stripe))).unwrap();
    rig.set.set_lost(0);
    rig.set.replace(0, rig.fresh(), BASE).unwrap();
    rig.set.set_lost(3);
    rig.drives[1].is_hung.set(true);
    let set = Rc::clone(&rig.set);
    let copy = async move { set.rebuild(0, from_ref(&(0..1)), |_| ()).await };
    let error = rig.executor.block_on(copy);
    assert_eq!(error, Err(RestoreError::Source(IoError::Gone)));
    assert!(rig.drives.iter().all(|drive| drive.reads.get() == 0));
    assert!(rig.set.is_drained(1) && rig.drives[1].hanging() == 0);
}

/// Payload-elided blocks and real P2L sectors pass without parity.
#[test]
fn elided_payload_passes_where_there_is_no_parity() {
    for protection in [Protection::None, Protection::Mirror] {
        let rig = rig(protection);
        let blocks = (rig.geometry.stripe_bytes() / 4096) as usize;
        let mut symbols = Blocks::elided(blocks - 1);
        for (index, symbol) in symbols.symbols_mut().iter_mut().enumerate() {
            *symbol = 100 + index as u64;
        }
        let p2l = pattern(5, BLOCK);
        let mut gather = Gather::new();
        gather.push_data(symbols);
        gather.push_meta(Sectors::from_bytes(&p2l));
        rig.write(0, gather).unwrap();
        for copy in 0..rig.set.info().copies {
            let drive = rig.drive();
            let at = (blocks - 1) * BLOCK;
            let found = rig.executor.block_on(async move {
                let data = drive.read_data(0, Blocks::elided(blocks - 1), copy).await;
                let meta = read_sectors(&*drive, at, BLOCK, copy).await;
                (data.unwrap(), meta.unwrap())
            });
            let expected: Vec<_> = (0..blocks as u64 - 1).map(|index| 100 + index).collect();
            assert_eq!(found.0.symbols(), expected);
            assert!(found.1 == p2l);
        }
    }
}

#[test]
#[should_panic(expected = "parity of payload-elided blocks")]
fn elided_payload_has_no_parity() {
    let rig = rig(PARITY);
    let mut gather = Gather::new();
    gather.push_data(Blocks::elided(
        (rig.geometry.stripe_bytes() / 4096) as usize,
    ));
    rig.write(0, gather).unwrap();
}

#[test]
#[should_panic(expected = "is not whole stripes")]
fn a_partial_stripe_is_a_programmer_error() {
    let rig = rig(PARITY);
    rig.write(0, gather(&pattern(1, BLOCK))).unwrap();
}

#[test]
fn assembly_refuses_what_does_not_fit() {
    let executor = Executor::new(1);
    let geometry = Geometry::new(3, 1, 1, 1, Protection::Parity { data: 2 }).unwrap();
    let assemble = |members: Vec<Member>| {
        let world = Rc::clone(&executor) as Rc<dyn World>;
        StripeSet::new(geometry, members, Recorder::new(&executor) as _, world).err()
    };
    let live = |bytes| {
        let drive = MemoryDrive::new(Rc::clone(&executor), bytes);
        Member::live(drive as _, 4096)
    };
    let (least, most, found) = (3, 3, 1);
    let count = AssembleError::MemberCount { least, most, found };
    assert_eq!(assemble(vec![live(8192)]), Some(count));
    let members = vec![live(8192), live(4096), live(8192)];
    let (member, bytes, needed) = (1, 0, 4096);
    let small = AssembleError::TooSmall {
        member,
        bytes,
        needed,
    };
    assert_eq!(assemble(members), Some(small));
    let members = vec![live(8192), Member::lost(), Member::lost()];
    assert_eq!(
        assemble(members),
        Some(AssembleError::TooFewLive { live: 1 })
    );
    assert_eq!(assemble(vec![live(8192), Member::lost(), live(8192)]), None);
}

/// While a drive that is kept is all that has what was there, it is read by one way more than usual; what was
/// written since is not there, and what it cannot be read for neither. Of parity here are only its own strips.
#[test]
fn what_a_kept_drive_alone_holds_can_be_read() {
    for protection in [PARITY, Protection::Mirror] {
        let rig = rig(protection);
        let stripe = rig.geometry.stripe_bytes() as usize;
        let strip = rig.geometry.strip_bytes();
        let all = pattern(4, 6 * stripe);
        rig.write(0, gather(&all)).unwrap();
        let (lost, usual) = (1, rig.set.info().copies);
        for other in (0..rig.drives.len()).filter(|other| *other != lost) {
            rig.drives[other].poke(BASE as usize, &vec![7; 6 * strip as usize]);
        }
        rig.drives[lost].spoil(BASE + 2 * strip, strip);
        rig.set.keep(lost);
        assert_eq!(rig.set.info().copies, usual + 1);
        rig.set.set_lost(lost);
        rig.write(4 * stripe, gather(&all[..stripe])).unwrap();
        let mut read = 0;
        for at in (0..6 * stripe).step_by(BLOCK) {
            let place = rig.geometry.place((at / BLOCK) as u64);
            let seat = rig.geometry.direct(place.stripe, place.strip);
            let is_its = seat == lost || protection == Protection::Mirror && seat / 2 == lost / 2;
            if !is_its && protection == PARITY {
                continue;
            }
            let found = rig.read(at, BLOCK, usual);
            let expected = match place.stripe {
                _ if !is_its => Err(IoError::GivenUp),
                2 => Err(IoError::Media),
                4 => Err(IoError::GivenUp),
                _ => Ok(all[at..at + BLOCK].to_vec()),
            };
            assert_eq!(
                found.as_ref().err(),
                expected.as_ref().err(),
                "block {}",
                at / BLOCK
            );
            assert!(found == expected, "block {}", at / BLOCK);
            read += u32::from(found.is_ok());
        }
        assert!(read > 0);
        rig.set.release_kept(lost);
        assert_eq!(rig.set.info().copies, usual);
        assert_eq!(rig.read(0, BLOCK, usual).unwrap_err(), IoError::GivenUp);
    }
}

/// While a seat is filled that a strip of another drive's is to be summed from, the drive that is kept stands in
/// for it; not for what was written since, nor where it cannot be read or yet another drive is missing.
#[test]
fn a_kept_drive_helps_to_sum_what_another_drive_lost() {
    let rig = rig(PARITY);
    let stripe = rig.geometry.stripe_bytes() as usize;
    let strip = rig.geometry.strip_bytes();
    let all = pattern(4, 6 * stripe);
    rig.write(0, gather(&all)).unwrap();
    let (lost, rotten, usual) = (1, 2, rig.set.info().copies);
    rig.drives[lost].spoil(BASE + 2 * strip, strip);
    rig.set.keep(lost);
    rig.set.set_lost(lost);
    rig.set.replace(lost, rig.fresh(), BASE).unwrap();
    let later = pattern(5, stripe);
    rig.write(4 * stripe, gather(&later)).unwrap();
    let whole = rig.read(BLOCK, 2 * stripe - 2 * BLOCK, usual).unwrap();
    assert!(whole == all[BLOCK..2 * stripe - BLOCK], "every piece");
    rig.drives[rotten].poke(BASE as usize, &vec![7; 4 * strip as usize]);
    rig.drives[rotten].spoil(BASE + 5 * strip, strip);
    let mut read = 0;
    for at in (0..6 * stripe).step_by(BLOCK) {
        let place = rig.geometry.place((at / BLOCK) as u64);
        if rig.geometry.direct(place.stripe, place.strip) != rotten {
            continue;
        }
        let expected = match place.stripe {
            2 => Err(IoError::Media),
            4 => Err(IoError::GivenUp),
            _ => Ok(all[at..at + BLOCK].to_vec()),
        };
        let before = rig.drives[0].reads.get();
        assert!(rig.read(at, BLOCK, usual) == expected, "block at {at}");
        let is_asked = rig.drives[0].reads.get() > before;
        assert_eq!(is_asked, expected != Err(IoError::GivenUp));
        if place.stripe == 4 {
            assert!(rig.read(at, BLOCK, 0).unwrap() == later[at - 4 * stripe..][..BLOCK]);
            continue;
        }
        assert!(rig.read(at, BLOCK, 0).ok() != Some(all[at..at + BLOCK].to_vec()));
        assert_eq!(rig.read(at, BLOCK, 1), Err(IoError::GivenUp));
        if let Ok(bytes) = expected {
            let sectors = rig.drive();
            let sectors = async move { read_sectors(&*sectors, at, BLOCK, usual).await };
            assert!(rig.executor.block_on(sectors).unwrap() == bytes);
            read += 1;
        }
    }
    assert!(read > 0);
    // Stripe 0 has its parity on the last drive, and its third strip on the rotten one.
    let (at, before) = (4 * BLOCK, rig.drives[0].reads.get());
    rig.set.set_lost(3);
    assert_eq!(rig.read(at, BLOCK, usual), Err(IoError::GivenUp));
    assert_eq!(rig.drives[0].reads.get(), before, "nobody is asked");
}

/// What is written while a sum is read that a drive that is kept is a part of would be in some strips of it:
/// it is not given, whoever answers late.
#[test]
fn a_sum_with_a_kept_drive_mixes_in_no_write() {
    for late in [0, 1, 3] {
        let rig = rig(PARITY);
        let stripe = rig.geometry.stripe_bytes() as usize;
        let old = pattern(4, 2 * stripe);
        rig.write(0, gather(&old)).unwrap();
        let (lost, usual) = (1, rig.set.info().copies);
        rig.set.keep(lost);
        rig.set.set_lost(lost);
        rig.drives[late].is_hung.set(true);
        let start = |at: usize| {
            let drive = rig.drive();
            let read = async move { read(&*drive, at, BLOCK, usual).await };
            (&*rig.executor as &dyn World).run(read)
        };
        // Neither strip is the kept drive's; only the first one's stripe is written.
        let direct = |stripe, strip| rig.geometry.direct(stripe, strip);
        assert_eq!((direct(0, 2), direct(1, 1)), (2, 0));
        let touched = start(4 * BLOCK);
        let other = start(stripe + 2 * BLOCK);
        rig.executor.drain();
        let write = rig.set.submit(Command::Write {
            offset: 0,
            gather: gather(&pattern(5, stripe)),
            handle: Handle::default(),
        });
        let written = (&*rig.executor as &dyn World).run(write);
        rig.executor.drain();
        rig.drives[late].wake();
        assert!(rig.executor.block_on(written).is_ok());
        assert_eq!(rig.executor.block_on(touched), Err(IoError::Gone));
        let other = rig.executor.block_on(other).unwrap();
        assert!(other == old[stripe + 2 * BLOCK..][..BLOCK]);
    }
}

/// A drive is replaced while it works, and the others do not add up to what it holds: what it held is copied
/// from it, what it cannot be read for and what was written since from the others. Then it is let go.
#[test]
fn a_retired_drive_is_copied_from() {
    for lost in 0..4 {
        let rig = rig(PARITY);
        let stripe = rig.geometry.stripe_bytes() as usize;
        let strip = rig.geometry.strip_bytes() as usize;
        rig.write(0, gather(&pattern(4, 15 * stripe))).unwrap();
        let bytes = rig.geometry.member_bytes() as usize;
        let mut expected = rig.drives[lost].peek(BASE as usize, bytes);
        // What no longer adds up: everything but the third stripe, of which the drive cannot be read.
        let (other, third) = (&rig.drives[(lost + 1) % 4], 2 * strip..3 * strip);
        other.poke(BASE as usize, &vec![7; 2 * strip]);
        other.poke(BASE as usize + 3 * strip, &vec![7; bytes - 3 * strip]);
        rig.drives[lost].spoil(BASE + third.start as u64, strip as u64);
        rig.set.keep(lost);
        rig.set.set_lost(lost);
        // Half of these are written before the new drive is there.
        let later = pattern(5, stripe);
        rig.write(6 * stripe, gather(&later)).unwrap();
        let fresh = rig.fresh();
        rig.set.replace(lost, Rc::clone(&fresh) as _, BASE).unwrap();
        rig.write(8 * stripe, gather(&later)).unwrap();
        let set = Rc::clone(&rig.set);
        let whole = 0..rig.geometry.stripes();
        let copy = async move { set.rebuild(lost, &[whole], |_| ()).await };
        let restored = rig.executor.block_on(copy).unwrap();
        assert!(restored.unreadable.is_empty());
        rig.set.set_live(lost);
        assert!(Rc::strong_count(&rig.drives[lost]) > 1, "it is still here");
        rig.set.release_kept(lost);
        assert_eq!(Rc::strong_count(&rig.drives[lost]), 1, "it is let go");
        let mut found = fresh.peek(BASE as usize, bytes);
        for written in [6, 8] {
            let read = rig.read(written * stripe, stripe, 0).unwrap();
            assert!(read == later, "stripe {written}");
            let range = written * strip..(written + 1) * strip;
            expected[range.clone()].fill(0);
            found[range].fill(0);
        }
        assert!(found == expected, "drive {lost}");
    }
}
