//! Drives in time: latencies that can be added up by hand, and what must hold for any load.

use crate::common::{Rng, fill, nobody};
use std::collections::BTreeMap;
use varve_media::timed::{Ask, DiskDrive, InPlaceDrive, Request, Timed};
use varve_media::{AnySheet, Shape, Sheet, Ssd};
use varve_units::Nanos;

fn sheet() -> Sheet {
    Sheet::named("mlc-002").expect("it comes with the program")
}

/// A drive of this sheet, written in order.
fn drive(sheet: &Sheet) -> Timed {
    let shape = Shape::scaled(sheet, Shape::smallest(sheet)).expect("a possible drive");
    let mut ssd = Ssd::new(shape);
    fill(&mut ssd);
    Timed::new(ssd, sheet)
}

fn ask(id: u64, ask: Ask, offset: u64, length: u64) -> Request {
    Request {
        id,
        ask,
        offset,
        length,
        handle: 0,
    }
}

/// Lets everything happen; when each command ended.
fn settle(drive: &mut Timed) -> BTreeMap<u64, Nanos> {
    let mut ended = BTreeMap::new();
    while let Some(now) = drive.next() {
        drive.advance(now, &mut |id, at| {
            assert!(at <= now, "not before its time");
            assert!(ended.insert(id, at).is_none(), "{id} ended twice");
        });
    }
    ended
}

/// Controller 769 ns, firmware 8 us, sensing 35 us, 4 KiB over a channel of 1.2 GB/s 3,413 ns and
/// over a link of 7 GB/s 585 ns.
#[test]
fn a_lone_read_takes_the_sum_of_its_ways() {
    let mut drive = drive(&sheet());
    drive.submit(Nanos(1000), ask(1, Ask::Read, 8192, 4096));
    let sum = 769 + 8_000 + 35_000 + 3_413 + 585;
    let took = settle(&mut drive)[&1].0 - 1000;
    assert!(took.abs_diff(sum) <= 3, "{took} of {sum}");
}

/// Controller 769 ns, firmware 9 us, 4 KiB over a link of 5.5 GB/s 744 ns: the buffer takes it.
#[test]
fn a_lone_write_ends_in_the_buffer() {
    let mut drive = drive(&sheet());
    drive.submit(Nanos(0), ask(1, Ask::Write, 8192, 4096));
    let sum = 769 + 9_000 + 744;
    let took = settle(&mut drive)[&1].0;
    assert!(took.abs_diff(sum) <= 3, "{took} of {sum}");
    // What is still in the buffer is read without a die.
    drive.submit(Nanos(0), ask(2, Ask::Read, 8192, 4096));
    let sum = 769 + 8_000 + 585;
    let took = settle(&mut drive)[&2].0;
    assert!(took.abs_diff(sum) <= 3, "{took} of {sum}");
}

/// A long read senses each flash page once, all dies beside one another.
#[test]
fn a_long_read_uses_many_dies() {
    let mut drive = drive(&sheet());
    drive.submit(Nanos(0), ask(1, Ask::Read, 0, 1 << 20));
    let took = settle(&mut drive)[&1].0;
    // 1 MiB at 7 GB/s is 150 us; the first page arrives after sensing and 64 KiB of a channel.
    assert!((150_000..260_000).contains(&took), "{took}");
}

/// Programs take 0.8 ms. Reads that meet them wait for an interruption only.
#[test]
fn reads_interrupt_programs() {
    let late = |suspends_max: u32| {
        let mut sheet = sheet();
        sheet.nand.suspends_max.value = suspends_max;
        let mut drive = drive(&sheet);
        let bytes = drive.ssd().shape().bytes;
        let mut rng = Rng(1);
        // As much as the buffer holds is programmed for a while, without anything to wait for.
        for id in 0..32 {
            drive.submit(Nanos(0), ask(id, Ask::Write, id << 18, 1 << 18));
        }
        let mut submitted = BTreeMap::new();
        let mut worst = 0;
        for id in 100..400 {
            let now = Nanos(300_000 + (id - 100) * 2_000);
            let mut note = |id: u64, at: Nanos| {
                if let Some(from) = submitted.get(&id) {
                    worst = worst.max(at.since(*from).0);
                }
            };
            drive.advance(now, &mut note);
            let at = bytes / 2 + rng.below(bytes / 8192) * 4096;
            submitted.insert(id, now);
            drive.submit(now, ask(id, Ask::Read, at, 4096));
        }
        for (id, at) in settle(&mut drive) {
            if let Some(from) = submitted.get(&id) {
                worst = worst.max(at.since(*from).0);
            }
        }
        worst
    };
    let (interrupted, waited) = (late(1000), late(0));
    assert!(interrupted < 400_000, "{interrupted} ns");
    assert!(waited > 700_000, "{waited} ns");
}

/// The buffer takes what it holds at once; then writes are as fast as programs.
#[test]
fn the_buffer_is_filled_first() {
    let sheet = sheet();
    let mut drive = drive(&sheet);
    let piece = 1 << 17;
    for id in 0..1000 {
        drive.submit(Nanos(0), ask(id, Ask::Write, id * piece % (1 << 26), piece));
    }
    let ended = settle(&mut drive);
    let at = |id: u64| ended[&id].0;
    let rate = |from: u64, to: u64| ((to - from) * piece) as f64 / (at(to) - at(from)) as f64;
    let early = rate(1, 50);
    assert!((early / 5.5 - 1.0).abs() < 0.01, "the link's rate: {early}");
    let late = rate(500, 999);
    assert!((late / 5.22 - 1.0).abs() < 0.03, "the flash's rate: {late}");
}

/// Everything that is submitted ends once, in a drive of any age, and twice the same.
#[test]
fn any_load_ends_and_repeats() {
    for name in ["qlc-002", "tlc-002", "slc-p5810"] {
        let sheet = Sheet::named(name).expect("it comes with the program");
        for seed in 0..4 {
            assert_eq!(load(&sheet, seed), load(&sheet, seed), "{name} {seed}");
        }
    }
}

fn load(sheet: &Sheet, seed: u64) -> BTreeMap<u64, Nanos> {
    let shape = Shape::scaled(sheet, Shape::smallest(sheet) / 64).expect("a possible drive");
    let mut rng = Rng(seed);
    let mut ssd = Ssd::new(shape);
    for _ in 0..3 * shape.ius {
        let at = rng.below(shape.bytes / 4096) * 4096;
        ssd.write(at, 4096, &mut nobody);
    }
    let mut drive = Timed::new(ssd, sheet);
    let mut ended = BTreeMap::new();
    let mut now = Nanos(0);
    let count = 20_000;
    for id in 0..count {
        now = now + Nanos(rng.below(40_000));
        drive.advance(now, &mut |id, at| {
            assert!(ended.insert(id, at).is_none(), "{id} ended twice");
        });
        let what = match rng.below(40) {
            0 => Ask::Deallocate,
            1 => Ask::Flush,
            2..20 => Ask::Write,
            _ => Ask::Read,
        };
        let length = (1 + rng.below(64)) * 512;
        let at = rng.below((shape.bytes - length) / 512) * 512;
        drive.submit(now, ask(id, what, at, length));
    }
    ended.extend(settle(&mut drive));
    assert_eq!(ended.len() as u64, count, "all end");
    let counters = drive.ssd().counters();
    assert!(counters.gc_moved_bytes > 0 && counters.erases > 0);
    ended
}

fn in_place() -> InPlaceDrive {
    let Ok(AnySheet::InPlace(sheet)) = AnySheet::named("slc-002") else {
        panic!("it comes with the program");
    };
    InPlaceDrive::new(&sheet)
}

fn disk() -> DiskDrive {
    let Ok(AnySheet::Disk(sheet)) = AnySheet::named("hdd-002") else {
        panic!("it comes with the program");
    };
    DiskDrive::new(&sheet)
}

/// Controller 667 (writes 741) ns, firmware 0.8 (1.2) us, a bank 1 us, 4 KiB over a channel of
/// 2 GB/s 2,048 ns and over a link of 7.2 (6.1) GB/s 569 (671) ns.
#[test]
fn in_place_is_as_fast_as_its_parts() {
    for (what, sum) in [
        (Ask::Read, 667 + 800 + 1_000 + 2_048 + 569),
        (Ask::Write, 741 + 1_200 + 1_000 + 2_048 + 671),
    ] {
        let mut drive = in_place();
        drive.submit(Nanos(0), ask(1, what, 8192, 4096));
        let mut took = 0;
        while let Some(now) = drive.next() {
            drive.advance(now, &mut |_, at| took = at.0);
        }
        assert!(took.abs_diff(sum) <= 3, "{what:?}: {took} of {sum}");
    }
}

/// Seek over half the stroke: 1 ms and 12 ms by the root of a half; then up to a rotation.
#[test]
fn a_disk_seeks_and_turns() {
    let mut disk = disk();
    let half = 11_000_000_000_000 / 4096 * 4096;
    disk.submit(Nanos(0), ask(1, Ask::Read, half, 4096));
    disk.submit(Nanos(0), ask(2, Ask::Read, half + 4096, 4096));
    let mut ended = BTreeMap::new();
    while let Some(now) = disk.next() {
        disk.advance(now, &mut |id, at| {
            ended.insert(id, at.0);
        });
    }
    let seek = 150_000 + 1_000_000 + 8_485_281;
    let turn = ended[&1].checked_sub(seek).expect("after the seek");
    assert!(turn <= 8_330_000 + 16_000, "{turn}");
    // What follows comes by without a wait: 4 KiB at 260 MB/s.
    assert!((ended[&2] - ended[&1]).abs_diff(15_754) <= 2);
}

/// The nearest first, not the oldest; and each once.
#[test]
fn a_disk_takes_what_it_reaches_first() {
    let mut disk = disk();
    let far = 21_000_000_000_000 / 4096 * 4096;
    // The head is busy with the first while the others come.
    for (id, at) in [
        (0, 0),
        (1, far),
        (2, 1 << 32),
        (3, far + (1 << 32)),
        (4, 2 << 32),
    ] {
        disk.submit(Nanos(0), ask(id, Ask::Read, at, 4096));
    }
    let mut order = Vec::new();
    while let Some(now) = disk.next() {
        disk.advance(now, &mut |id, _| order.push(id));
    }
    assert_eq!(order.len(), 5);
    let at = |id: u64| order.iter().position(|seen| *seen == id);
    assert!(at(2) < at(1) && at(4) < at(1) && at(4) < at(3), "{order:?}");
}

/// The cache takes so many writes at once; the next ones wait for the head.
#[test]
fn a_disk_caches_writes() {
    let mut disk = disk();
    for id in 0..2100 {
        disk.submit(Nanos(0), ask(id, Ask::Write, id << 30, 4096));
    }
    let mut ended = BTreeMap::new();
    while let Some(now) = disk.next() {
        disk.advance(now, &mut |id, at| {
            assert!(ended.insert(id, at.0).is_none());
        });
    }
    assert_eq!(ended.len(), 2100);
    let at_once = ended.values().filter(|at| **at == 0).count();
    assert!((2048..=2049).contains(&at_once), "{at_once}");
    assert_eq!(disk.counters().media_bytes, 2100 * 4096);
}
