//! Reactors on threads of their own with a ring each, and what happens to what is in flight.

use crate::common::{Random, Scratch};
use std::cell::Cell;
use std::rc::Rc;
use varve_hostio::{Disk, DiskOptions, Executor, FileDrive, Io, run_reactors};
use varve_io::{Blocks, Command, Drive, Gather, Handle, Key, ReactorId, World};
use varve_units::Nanos;

const KEY: Key = *b"test of rings\0\0\0";
const BLOCK: u64 = 4096;

/// What each reactor keeps.
struct Local {
    drive: Rc<dyn Drive>,
}

fn block(seed: u64) -> Blocks {
    let mut block = Blocks::zeroed(1);
    Random(seed).fill(block.bytes_mut());
    block
}

async fn write(drive: &dyn Drive, index: u64, seed: u64) {
    let mut gather = Gather::new();
    gather.push_data(block(seed));
    drive.write(index * BLOCK, gather).await.unwrap();
}

/// Flows of one reactor that write by one reactor and read by the next: every wake-up, of i/o and of
/// jobs, must come, whether the reactor it is for sleeps or not.
#[test]
fn jobs_and_io_wake_the_same_sleep() {
    const COUNT: u16 = 3;
    let scratch = Scratch::new();
    let path = scratch.path("shared");
    let disk = Disk::create(&path, 4 << 20, &DiskOptions::default()).unwrap();
    let seat = |world: &Rc<dyn World>| {
        let io = Io::of(&**world).unwrap();
        let drive = Rc::new(FileDrive::new(io, disk.clone()));
        world.desk().unwrap().keep(KEY, Rc::new(Local { drive }));
    };
    for flows in [1, 8] {
        let outcome = run_reactors(COUNT, seat, |world| async move {
            let flow = |flow: u64| {
                let world = Rc::clone(&world);
                async move {
                    for round in 0..150_u64 {
                        let seed = flow << 32 | round;
                        let to = ReactorId(((flow + round) % u64::from(COUNT)) as u16);
                        let job = move |there: Rc<Local>| async move {
                            write(&*there.drive, flow, seed).await;
                        };
                        world.call(to, KEY, job).await.unwrap();
                        let from = ReactorId(((flow + round + 1) % u64::from(COUNT)) as u16);
                        let job = move |there: Rc<Local>| async move {
                            let into = Blocks::zeroed(1);
                            let drive = &*there.drive;
                            let found = drive.read_data(flow * BLOCK, into, 0).await.unwrap();
                            found.bytes() == block(seed).bytes()
                        };
                        assert_eq!(world.call(from, KEY, job).await, Ok(true));
                    }
                }
            };
            let flows: Vec<_> = (0..flows).map(|number| world.run(flow(number))).collect();
            for flow in flows {
                flow.await;
            }
        });
        assert_eq!(outcome, Ok(()));
    }
}

/// Reactors with rings that all wait for one another are told of it.
#[test]
fn a_stall_of_reactors_with_rings_is_told() {
    for _ in 0..50 {
        let seat = |world: &Rc<dyn World>| {
            Io::of(&**world).unwrap();
            world.desk().unwrap().keep(KEY, Rc::new(Cell::new(0)));
        };
        let outcome = run_reactors(2, seat, |world| async move {
            let wait = |_: Rc<Cell<i32>>| std::future::pending::<()>();
            world.call(ReactorId(1), KEY, wait).await
        });
        assert_eq!(outcome, Err(varve_hostio::Stalled));
    }
}

#[test]
fn a_reactor_with_an_idle_ring_is_told_of_a_stall() {
    let executor = Executor::new();
    Io::of(&*executor.world()).unwrap();
    let outcome = executor.run(std::future::pending::<()>());
    assert_eq!(outcome, Err(varve_hostio::Stalled));
}

/// The executor goes while the kernel has memory of its commands: none of it may be freed before the
/// kernel is done. Whatever the file holds afterwards is what was written.
#[test]
fn an_executor_is_dropped_with_commands_in_flight() {
    let scratch = Scratch::new();
    let path = scratch.path("dropped");
    let options = DiskOptions::default();
    drop(Disk::create(&path, 8 << 20, &options).unwrap());
    for round in 0..20_u64 {
        let executor = Executor::new();
        let world = executor.world();
        let disk = Disk::open(&path, &options).unwrap();
        let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(Io::of(&*world).unwrap(), disk));
        let busy = async move {
            for index in 0..500 {
                let mut gather = Gather::new();
                gather.push_data(block(index));
                let offset = index * BLOCK;
                drop(drive.submit(Command::Write {
                    offset,
                    gather,
                    handle: Handle::default(),
                }));
                let (into, copy) = (varve_io::Target::Data(Blocks::zeroed(2)), 0);
                drop(drive.submit(Command::Read { offset, into, copy }));
            }
            world.sleep(Nanos::from_micros(50 * round)).await;
        };
        executor.run(busy).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    for (index, found) in bytes.chunks_exact(4096).enumerate() {
        let is_blank = found.iter().all(|&byte| byte == 0);
        assert!(
            is_blank || found == block(index as u64).bytes(),
            "block {index}"
        );
    }
}

/// A drive that outlives its reactor says so.
#[test]
fn a_drive_without_its_reactor_is_gone() {
    let scratch = Scratch::new();
    let disk = Disk::create(&scratch.path("late"), 1 << 20, &DiskOptions::default()).unwrap();
    let executor = Executor::new();
    let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(Io::of(&*executor.world()).unwrap(), disk));
    drop(executor);
    let executor = Executor::new();
    let outcome = executor.run(async move { drive.flush().await });
    assert_eq!(outcome, Ok(Err(varve_io::IoError::Gone)));
}

/// A file that is cut off under an open drive fails reads; nothing aborts.
#[test]
fn a_file_cut_off_fails_reads() {
    let scratch = Scratch::new();
    let path = scratch.path("cut");
    let disk = Disk::create(&path, 1 << 20, &DiskOptions::default()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(64 << 10).unwrap();
    let executor = Executor::new();
    let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(Io::of(&*executor.world()).unwrap(), disk));
    let outcome = executor.run(async move {
        let whole = drive.read_data(0, Blocks::zeroed(16), 0).await.map(|_| ());
        let half = drive
            .read_data(32 << 10, Blocks::zeroed(16), 0)
            .await
            .map(|_| ());
        let beyond = drive
            .read_data(512 << 10, Blocks::zeroed(1), 0)
            .await
            .map(|_| ());
        (whole, half, beyond)
    });
    let media = Err(varve_io::IoError::Media);
    assert_eq!(outcome, Ok((Ok(()), media, media)));
}

/// Flows of several reactors that write and flush one disk, each at its own pace: a flush that waits for another
/// reactor's is woken, and all end.
#[test]
fn flushes_of_several_reactors_wait_for_one_another() {
    const COUNT: u16 = 3;
    const ROUNDS: u64 = 60;
    let scratch = Scratch::new();
    let disk = Disk::create(&scratch.path("flushed"), 4 << 20, &DiskOptions::default()).unwrap();
    let seat = |world: &Rc<dyn World>| {
        let io = Io::of(&**world).unwrap();
        let drive = Rc::new(FileDrive::new(io, disk.clone()));
        world.desk().unwrap().keep(KEY, Rc::new(Local { drive }));
    };
    let outcome = run_reactors(COUNT, seat, |world| async move {
        let flow = |flow: u64| {
            let world = Rc::clone(&world);
            async move {
                let to = ReactorId((flow % u64::from(COUNT)) as u16);
                let job = move |there: Rc<Local>| async move {
                    for round in 0..ROUNDS {
                        write(&*there.drive, flow, round).await;
                        there.drive.flush().await.unwrap();
                    }
                };
                world.call(to, KEY, job).await.unwrap();
            }
        };
        let flows: Vec<_> = (0..8).map(|number| world.run(flow(number))).collect();
        for flow in flows {
            flow.await;
        }
    });
    assert_eq!(outcome, Ok(()));
}

/// A reactor alone flushes several times at once: the second one waits in the ring, which is no stall.
#[test]
fn flushes_of_one_reactor_share() {
    let scratch = Scratch::new();
    let disk = Disk::create(&scratch.path("shared"), 1 << 20, &DiskOptions::default()).unwrap();
    let executor = Executor::new();
    let io = Io::of(&*executor.world()).unwrap();
    let drives = [0, 1].map(|_| FileDrive::new(io.clone(), disk.clone()));
    let outcome = executor.run(async move {
        for round in 0..20 {
            write(&drives[0], 0, round).await;
            let flushes: Vec<_> = (0..16)
                .map(|number| drives[number % 2].submit(Command::Flush))
                .collect();
            for flush in flushes {
                assert!(flush.await.is_ok());
            }
        }
    });
    assert_eq!(outcome, Ok(()));
}
