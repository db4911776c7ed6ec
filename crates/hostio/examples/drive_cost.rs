//! What a 4 KiB transfer costs: `drive_cost PATH [MIB] [SECONDS]`; makes the file if there is none.
//!
//! Prints operations per second and CPU time per operation of random reads and writes, 32 in flight,
//! and the CPU time of ten idle seconds. CPU time is that of all threads, the kernel's workers for
//! this process included.

use std::path::PathBuf;
use std::rc::Rc;
use varve_hostio::{Disk, DiskOptions, Executor, FileDrive, Io};
use varve_io::{Blocks, Drive, Gather, Segment, World};
use varve_units::Nanos;

const IN_FLIGHT: u64 = 32;
const BLOCK: u64 = 4096;

/// CPU time of all threads in nanoseconds.
fn cpu_time() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    *state >> 33
}

async fn fill(drive: &Rc<dyn Drive>, bytes: u64) {
    const PIECE: usize = 256;
    let data = Rc::new(Blocks::zeroed(PIECE));
    for offset in (0..bytes).step_by(PIECE * BLOCK as usize) {
        let mut gather = Gather::new();
        gather.push(Segment::Data(Rc::clone(&data), 0..PIECE));
        drive
            .write(offset, gather)
            .await
            .expect("the file is filled");
    }
    drive.flush().await.expect("the file is flushed");
}

/// One of the flows: a transfer in flight until the time is over. How many it made.
async fn repeat(
    world: Rc<dyn World>,
    drive: Rc<dyn Drive>,
    until: Nanos,
    seed: u64,
    is_write: bool,
) -> u64 {
    let mut state = seed * 977 + 1;
    let blocks = drive.info().bytes / BLOCK;
    let data = Rc::new(Blocks::zeroed(1));
    let mut into = Blocks::zeroed(1);
    let mut done = 0;
    while world.now() < until {
        let offset = next(&mut state) % blocks * BLOCK;
        if is_write {
            let mut gather = Gather::new();
            gather.push(Segment::Data(Rc::clone(&data), 0..1));
            drive.write(offset, gather).await.expect("a write");
        } else {
            into = drive.read_data(offset, into, 0).await.expect("a read");
        }
        done += 1;
    }
    done
}

async fn load(world: &Rc<dyn World>, drive: &Rc<dyn Drive>, span: Nanos, is_write: bool) {
    let (start, cpu) = (world.now(), cpu_time());
    let flow = |seed| {
        repeat(
            Rc::clone(world),
            Rc::clone(drive),
            start + span,
            seed,
            is_write,
        )
    };
    let flows: Vec<_> = (0..IN_FLIGHT).map(|seed| world.run(flow(seed))).collect();
    let mut done = 0;
    for flow in flows {
        done += flow.await;
    }
    let per_second = done * 1_000_000_000 / world.now().since(start).0;
    let each = (cpu_time() - cpu) / done;
    let kind = if is_write { "write" } else { "read" };
    println!("{kind}: {per_second} operations/s, {each} ns CPU each");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().expect("drive_cost PATH [MIB] [SECONDS]"));
    let mut number = |usual: u64| {
        arguments
            .next()
            .map_or(usual, |text| text.parse().expect("a number"))
    };
    let (bytes, span) = (number(1024) << 20, Nanos::from_secs(number(3)));
    let executor = Executor::new();
    let world = executor.world();
    let io = Io::of(&*world).expect("io_uring");
    let options = DiskOptions::default();
    let is_new = !path.exists();
    let disk = if is_new {
        Disk::create(&path, bytes, &options)
    } else {
        Disk::open(&path, &options)
    };
    let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(io, disk.expect("the file")));
    let run = async move {
        if is_new {
            fill(&drive, bytes).await;
        }
        for is_write in [false, true, false, true] {
            load(&world, &drive, span, is_write).await;
        }
        let cpu = cpu_time();
        world.sleep(Nanos::from_secs(10)).await;
        println!("idle: {} us CPU in 10 s", (cpu_time() - cpu) / 1000);
    };
    executor.run(run).expect("it ends");
}
