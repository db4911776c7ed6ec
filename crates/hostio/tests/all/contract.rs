//! What every drive promises, asked of drives in memory, of files and of block devices alike.

use crate::common::system::LoopDevice;
use crate::common::{Random, Scratch};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use varve_hostio::{Disk, DiskKind, DiskOptions, Executor, FileDrive, Io, RamDrive};
use varve_io::{Blocks, Command, Done, Drive, Gather, Handle, Sectors, Segment, Target, World};

const BYTES: u64 = 24 << 20;
const BLOCK: u64 = 4096;

/// Asks `what` of every kind of drive, blank.
fn of_all(what: impl AsyncFn(Rc<dyn World>, Rc<dyn Drive>) + Copy + 'static) {
    for lba_bytes in [512, 4096] {
        let executor = Executor::new();
        let drive = Rc::new(RamDrive::new(BYTES, lba_bytes));
        let world = executor.world();
        executor
            .run(async move { what(world, drive).await })
            .unwrap();
    }
    let scratch = Scratch::new();
    for lba_bytes in [512, 4096] {
        let options = DiskOptions {
            lba_bytes: Some(lba_bytes),
            ..DiskOptions::default()
        };
        let path = scratch.path(&format!("file{lba_bytes}"));
        of_disk(Disk::create(&path, BYTES, &options).unwrap(), what);
        let path = scratch.path(&format!("device{lba_bytes}"));
        drop(Disk::create(&path, BYTES, &options).unwrap());
        if let Some(device) = LoopDevice::over(&path, lba_bytes) {
            let disk = Disk::open(device.path(), &DiskOptions::default()).unwrap();
            assert_eq!(
                (disk.kind(), disk.info().lba_bytes),
                (DiskKind::Device, lba_bytes)
            );
            of_disk(disk, what);
        }
    }
}

/// What cannot be made whole leaves nothing behind that a repetition would meet.
#[test]
fn a_disk_that_cannot_be_made_leaves_no_file() {
    let scratch = Scratch::new();
    let path = scratch.path("large");
    // More than a file's size can say.
    assert!(Disk::create(&path, 1 << 63, &DiskOptions::default()).is_err());
    assert!(!path.exists());
    let odd = DiskOptions {
        lba_bytes: Some(100),
        ..DiskOptions::default()
    };
    assert!(Disk::create(&path, BYTES, &odd).is_err());
    assert!(!path.exists());
    drop(Disk::create(&path, BYTES, &DiskOptions::default()).unwrap());
    // What was there before is not what failed to be made.
    assert!(Disk::create(&path, BYTES, &DiskOptions::default()).is_err());
    assert!(path.exists());
}

fn of_disk(disk: Disk, what: impl AsyncFn(Rc<dyn World>, Rc<dyn Drive>) + Copy + 'static) {
    assert!(disk.is_direct() && disk.info().volatile_cache);
    let executor = Executor::new();
    let world = executor.world();
    let drive = Rc::new(FileDrive::new(Io::of(&*world).unwrap(), disk));
    executor
        .run(async move { what(world, drive).await })
        .unwrap();
}

fn noise(count: usize, random: &mut Random) -> Blocks {
    let mut blocks = Blocks::zeroed(count);
    random.fill(blocks.bytes_mut());
    blocks
}

async fn read(drive: &dyn Drive, offset: u64, bytes: u64) -> Vec<u8> {
    if bytes.is_multiple_of(BLOCK) {
        let into = Blocks::zeroed((bytes / BLOCK) as usize);
        let blocks = drive.read_data(offset, into, 0).await.unwrap();
        blocks.bytes().to_vec()
    } else {
        let into = Sectors::zeroed((bytes / 512) as usize);
        let sectors = drive.read_meta(offset, into, 0).await.unwrap();
        sectors.bytes().to_vec()
    }
}

/// A gather of pieces of all kinds, a multiple of `lba` long, and its bytes.
fn drawn_gather(random: &mut Random, lba: u64) -> (Gather, Vec<u8>) {
    let mut gather = Gather::new();
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(5) {
        if random.below(2) == 0 {
            let mut meta = vec![0; 512 * (1 + random.below(16)) as usize];
            random.fill(&mut meta);
            bytes.extend_from_slice(&meta);
            gather.push_meta(Sectors::from_bytes(&meta));
        } else {
            let blocks = noise(1 + random.below(8) as usize, random);
            let first = random.below(blocks.len() as u64) as usize;
            bytes.extend_from_slice(&blocks.bytes()[first * BLOCK as usize..]);
            let range = first..blocks.len();
            gather.push(Segment::Data(Rc::new(blocks), range));
        }
    }
    let rest = (lba - gather.bytes() % lba) % lba;
    gather.push_meta(Sectors::zeroed((rest / 512) as usize));
    bytes.extend(std::iter::repeat_n(0, rest as usize));
    (gather, bytes)
}

/// Flows that each write and read a part of the drive of their own, many commands at once.
#[test]
fn what_was_written_last_reads_back() {
    const PARTS: u64 = 8;
    of_all(async |world, drive| {
        let part_bytes = BYTES / PARTS;
        let flows: Vec<_> = (0..PARTS)
            .map(|part| {
                let drive = Rc::clone(&drive);
                world.run(async move {
                    let mut random = Random(part);
                    let lba = u64::from(drive.info().lba_bytes);
                    let mut model = vec![0; part_bytes as usize];
                    for round in 0..60 {
                        let (gather, bytes) = drawn_gather(&mut random, lba);
                        let length = bytes.len() as u64;
                        let at = random.below((part_bytes - length) / lba) * lba;
                        drive.write(part * part_bytes + at, gather).await.unwrap();
                        model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                        let length = lba * (1 + random.below(40));
                        let at = random.below((part_bytes - length) / lba) * lba;
                        let found = read(&*drive, part * part_bytes + at, length).await;
                        assert!(found == model[at as usize..][..length as usize], "{round}");
                        if round % 16 == 0 {
                            drive.flush().await.unwrap();
                        }
                    }
                    let all = read(&*drive, part * part_bytes, part_bytes).await;
                    assert!(all == model, "part {part}");
                })
            })
            .collect();
        for flow in flows {
            flow.await;
        }
    });
}

#[test]
fn a_blank_drive_reads_as_zeroes() {
    of_all(async |_, drive| {
        let info = drive.info();
        assert_eq!((info.bytes, info.copies), (BYTES, 1));
        let mut random = Random(3);
        let into = noise(4, &mut random);
        let blocks = drive.read_data(BYTES - 4 * BLOCK, into, 0).await.unwrap();
        assert!(blocks.bytes().iter().all(|&byte| byte == 0));
    });
}

/// More pieces than one call of the kernel takes.
#[test]
fn a_write_of_many_pieces_is_whole() {
    of_all(async |_, drive| {
        let mut random = Random(4);
        let mut gather = Gather::new();
        let mut bytes = Vec::new();
        for _ in 0..2500 {
            let block = noise(1, &mut random);
            bytes.extend_from_slice(block.bytes());
            gather.push_data(block);
        }
        drive.write(BLOCK, gather).await.unwrap();
        let found = read(&*drive, BLOCK, bytes.len() as u64).await;
        assert!(found == bytes);
    });
}

/// What a write of a block is given, on the slowest of machines. Arbitrary.
const WITHIN: varve_units::Nanos = varve_units::Nanos::from_secs(60);

/// A command runs whether or not its future is polled, and a flush waits for what has completed.
#[test]
fn a_command_runs_without_being_polled() {
    of_all(async |world, drive| {
        let mut random = Random(5);
        let block = noise(1, &mut random);
        let mut gather = Gather::new();
        gather.push_data(block.clone());
        let limit = world.now() + WITHIN;
        let write = drive.submit(Command::Write {
            offset: 0,
            gather,
            handle: Handle::default(),
        });
        // Polled by nobody until it is there, which takes as long as the disk is busy.
        while read(&*drive, 0, BLOCK).await != block.bytes() {
            assert!(world.now() < limit, "nobody polled it, and it did not run");
            world.sleep(varve_units::Nanos::from_millis(10)).await;
        }
        assert!(write.await.is_ok());
        drive.flush().await.unwrap();
    });
}

/// What was discarded may read as anything, but reads; its neighbours stay as they were.
#[test]
fn a_discard_leaves_its_neighbours_alone() {
    of_all(async |_, drive| {
        let mut random = Random(6);
        let blocks = noise(16, &mut random);
        let mut gather = Gather::new();
        gather.push_data(blocks.clone());
        drive.write(0, gather).await.unwrap();
        let discard = Command::Discard {
            offset: 4 * BLOCK,
            length: 8 * BLOCK,
        };
        assert!(drive.submit(discard).await.is_ok());
        let found = read(&*drive, 0, 16 * BLOCK).await;
        assert!(found[..4 * 4096] == blocks.bytes()[..4 * 4096]);
        assert!(found[12 * 4096..] == blocks.bytes()[12 * 4096..]);
    });
}

/// A repair is a write to the only copy there is.
#[test]
fn a_repair_writes() {
    of_all(async |_, drive| {
        let mut random = Random(7);
        let block = noise(1, &mut random);
        let mut gather = Gather::new();
        gather.push_data(block.clone());
        let repair = Command::Repair {
            offset: BLOCK,
            gather,
            copy: 0,
        };
        assert!(matches!(drive.submit(repair).await, Ok(Done::Nothing)));
        assert!(read(&*drive, BLOCK, BLOCK).await == block.bytes());
    });
}

#[test]
fn ranges_that_do_not_exist_are_programmer_errors() {
    of_all(async |_, drive| {
        let lba = u64::from(drive.info().lba_bytes);
        for (offset, bytes) in [
            (BYTES, BLOCK),
            (BYTES - lba, 2 * BLOCK),
            (u64::MAX - 4095, BLOCK),
        ] {
            let into = Target::Data(Blocks::zeroed((bytes / BLOCK) as usize));
            let submit = || {
                drop(drive.submit(Command::Read {
                    offset,
                    into,
                    copy: 0,
                }));
            };
            assert!(
                catch_unwind(AssertUnwindSafe(submit)).is_err(),
                "{offset}+{bytes}"
            );
        }
        let misaligned = || {
            drop(drive.submit(Command::Discard {
                offset: 256,
                length: BLOCK,
            }));
        };
        assert!(catch_unwind(AssertUnwindSafe(misaligned)).is_err());
    });
}

/// Commands of a depth beyond the ring's queues all end.
#[test]
fn more_commands_than_the_ring_has_room_for() {
    of_all(async |_, drive| {
        let ended = RefCell::new(0);
        let writes: Vec<_> = (0..3000_u64)
            .map(|index| {
                let mut gather = Gather::new();
                let mut block = Blocks::zeroed(1);
                block.bytes_mut().fill(index as u8);
                gather.push_data(block);
                let offset = index * BLOCK;
                drive.submit(Command::Write {
                    offset,
                    gather,
                    handle: Handle::default(),
                })
            })
            .collect();
        for write in writes {
            assert!(write.await.is_ok());
            *ended.borrow_mut() += 1;
        }
        assert_eq!(ended.into_inner(), 3000);
        let found = read(&*drive, 2999 * BLOCK, BLOCK).await;
        assert!(found.iter().all(|&byte| byte == 2999_u64 as u8));
    });
}
