//! The modelled ZN540 against what was measured of one, and against itself at other sizes.
//!
//! # Source
//! The data set of `zns-zn540.toml`; of each figure the tolerance says how well the model does.

use crate::common::Rng;
use varve_media::timed::{ZoneAsk, ZoneCompletion, ZoneRequest, ZonedDrive};
use varve_media::zoned_sheet::ZonedSheet;
use varve_media::{AnySheet, ZoneShape, ZoneState, Zones};
use varve_units::Nanos;

const REAL: u64 = 904 * (1077 << 20);
/// A row for each die of each zone: 3 MiB.
const SMALL: u64 = 904 * (3 << 20);

fn sheet() -> ZonedSheet {
    let Ok(AnySheet::Zoned(sheet)) = AnySheet::named("zns-zn540") else {
        panic!("it comes with the program");
    };
    *sheet
}

fn shape(bytes: u64) -> ZoneShape {
    ZoneShape::scaled(&sheet(), bytes).expect("a possible drive")
}

fn empty(bytes: u64) -> ZonedDrive {
    ZonedDrive::new(Zones::new(shape(bytes)), &sheet())
}

fn near(what: &str, measured: f64, ours: f64, per_cent: f64) {
    let off = (ours / measured - 1.0) * 100.0;
    println!("{what}: {ours:.1}, measured {measured:.1}, {off:+.1} %");
    assert!(off.abs() < per_cent, "{what}: {ours} against {measured}");
}

/// One command alone: how long it takes, in microseconds.
fn alone(drive: &mut ZonedDrive, now: &mut Nanos, ask: ZoneAsk, offset: u64, length: u64) -> f64 {
    let request = ZoneRequest {
        id: 0,
        ask,
        offset,
        length,
    };
    drive.submit(*now, request);
    let begun = *now;
    let mut end: Option<ZoneCompletion> = None;
    while let Some(at) = drive.next() {
        *now = at;
        drive.advance(at, &mut |done| end = Some(done));
    }
    let end = end.expect("a command ends");
    assert!(end.result.is_ok(), "{request:?}: {:?}", end.result);
    end.at.since(begun).0 as f64 / 1e3
}

/// A closed loop: `next` gives the command of a number; commands and bytes a second of the second
/// half.
fn closed(
    drive: &mut ZonedDrive,
    depth: u64,
    commands: u64,
    mut next: impl FnMut(u64) -> (ZoneAsk, u64, u64),
) -> (f64, f64) {
    let (mut submitted, mut ended, mut from, mut to, mut bytes) = (0, 0, Nanos(0), Nanos(0), 0);
    let mut submit = |drive: &mut ZonedDrive, now: Nanos| {
        let (ask, offset, length) = next(submitted);
        let request = ZoneRequest {
            id: length,
            ask,
            offset,
            length,
        };
        submitted += 1;
        drive.submit(now, request);
    };
    (0..depth).for_each(|_| submit(drive, Nanos(0)));
    while ended < commands {
        let now = drive.next().expect("commands are in flight");
        let mut ends = Vec::new();
        drive.advance(now, &mut |end| ends.push(end));
        for end in ends {
            assert!(end.result.is_ok(), "{end:?}");
            ended += 1;
            if ended == commands / 2 {
                from = end.at;
            } else if ended > commands / 2 {
                bytes += end.id;
                to = end.at;
            }
            submit(drive, end.at);
        }
    }
    let seconds = to.since(from).0 as f64 / 1e9;
    let counted = ended - commands / 2;
    (counted as f64 / seconds, bytes as f64 / seconds)
}

fn random_reads(bytes: u64, depth: u64) -> f64 {
    let shape = shape(bytes);
    let mut drive = ZonedDrive::new(Zones::written(shape), &sheet());
    let mut rng = Rng(1);
    let per_zone = shape.capacity_bytes / 4096;
    let (reads, _) = closed(&mut drive, depth, 40_000, |_| {
        let at = rng.below(u64::from(shape.zones) * per_zone);
        let offset = at / per_zone * shape.zone_bytes + at % per_zone * 4096;
        (ZoneAsk::Read, offset, 4096)
    });
    reads
}

/// Writes, or appends, of a size, round so many zones until these are full, then round the next:
/// commands and bytes a second.
fn puts(bytes: u64, ask: ZoneAsk, zones: u64, length: u64, depth: u64) -> (f64, f64) {
    let mut drive = empty(bytes);
    let shape = *drive.zones().shape();
    let per_zone = shape.capacity_bytes / length;
    assert_eq!(shape.capacity_bytes % length, 0, "zones are filled");
    closed(&mut drive, depth, 20_000, |at| {
        let (round, at) = (at / (zones * per_zone), at % (zones * per_zone));
        let start = (round * zones + at % zones) * shape.zone_bytes;
        let pointer = match ask {
            ZoneAsk::Append => start,
            _ => start + at / zones * length,
        };
        (ask, pointer, length)
    })
}

/// At depth 128 the rate of commands is what it was fitted to; at 1 latencies are sums of fitted
/// parts. In between the drive measured is slower than its parts would let it be.
#[test]
fn random_reads_are_near_what_was_measured() {
    near("reads at 128", 423e3, random_reads(REAL, 128), 2.0);
    near("reads at 64", 363e3, random_reads(REAL, 64), 20.0);
    near("reads at 16", 171e3, random_reads(REAL, 16), 16.0);
    near("reads at 1", 13.4e3, random_reads(REAL, 1), 4.0);
    let mut drive = ZonedDrive::new(Zones::written(shape(REAL)), &sheet());
    let us = alone(&mut drive, &mut Nanos(0), ZoneAsk::Read, 0, 4096);
    near("a read alone, us", 74.0, us, 2.5);
}

#[test]
fn writes_are_near_what_was_measured() {
    let (writes, _) = puts(REAL, ZoneAsk::Write, 1, 4096, 1);
    near("4 KiB at 1", 85e3, writes, 4.0);
    let (_, bytes) = puts(REAL, ZoneAsk::Write, 1, 16384, 1);
    near("16 KiB at 1, MB/s", 973.0, bytes / 1e6, 12.0);
    let (_, bytes) = puts(REAL, ZoneAsk::Write, 1, 65536, 1);
    near("64 KiB at 1, MB/s", 1198.0, bytes / 1e6, 1.0);
    let (writes, _) = puts(REAL, ZoneAsk::Write, 8, 4096, 8);
    near("4 KiB to 8 zones", 186e3, writes, 1.0);
    // The drive is what limits, not the zone.
    for zones in [1, 4, 14] {
        let (_, bytes) = puts(REAL, ZoneAsk::Write, zones, 128 << 10, zones);
        near("128 KiB, MB/s", 1202.0, bytes / 1e6, 1.0);
    }
}

#[test]
fn appends_are_near_what_was_measured() {
    let (appends, _) = puts(REAL, ZoneAsk::Append, 1, 4096, 1);
    near("4 KiB at 1", 66e3, appends, 3.0);
    for depth in [4, 14] {
        let (appends, _) = puts(REAL, ZoneAsk::Append, 1, 4096, depth);
        near("4 KiB at 4 and more", 132e3, appends, 1.0);
    }
    let (appends, _) = puts(REAL, ZoneAsk::Append, 14, 4096, 14);
    near("4 KiB to 14 zones", 135e3, appends, 3.0);
    // Twice the size was a little faster, as if not commands were what limits.
    let (appends, _) = puts(REAL, ZoneAsk::Append, 1, 8192, 4);
    near("8 KiB at 4", 147e3, appends, 13.0);
}

#[test]
fn managing_zones_takes_what_was_measured() {
    let (mut drive, mut now) = (empty(REAL), Nanos(0));
    let shape = *drive.zones().shape();
    let mut go = |ask, zone: u64, offset, length| {
        let offset = zone * shape.zone_bytes + offset;
        alone(&mut drive, &mut now, ask, offset, length) / 1e3
    };
    let capacity = shape.capacity_bytes;
    near(
        "reset of an empty zone, ms",
        1.08,
        go(ZoneAsk::Reset, 0, 0, 0),
        1.0,
    );
    go(ZoneAsk::Write, 0, 0, capacity / 2);
    near(
        "reset at a half, ms",
        11.6,
        go(ZoneAsk::Reset, 0, 0, 0),
        2.0,
    );
    go(ZoneAsk::Write, 0, 0, capacity);
    near(
        "reset of a full zone, ms",
        16.2,
        go(ZoneAsk::Reset, 0, 0, 0),
        1.0,
    );
    go(ZoneAsk::Write, 1, 0, capacity / 2);
    go(ZoneAsk::Finish, 1, 0, 0);
    near(
        "reset, finished at a half, ms",
        8.5,
        go(ZoneAsk::Reset, 1, 0, 0),
        2.0,
    );
    go(ZoneAsk::Write, 2, 0, 4096);
    near(
        "finish of all, ms",
        907.0,
        go(ZoneAsk::Finish, 2, 0, 0),
        5.0,
    );
    go(ZoneAsk::Write, 3, 0, capacity - 4096);
    near(
        "finish of a block, ms",
        3.1,
        go(ZoneAsk::Finish, 3, 0, 0),
        1.0,
    );
    near("open, us", 9.6, go(ZoneAsk::Open, 4, 0, 0) * 1e3, 0.1);
    near("close, us", 11.0, go(ZoneAsk::Close, 4, 0, 0) * 1e3, 0.1);
    let first = go(ZoneAsk::Write, 5, 0, 4096);
    let more = (first - go(ZoneAsk::Write, 5, 4096, 4096)) * 1e3;
    near("a write that opens, us more", 2.0, more, 0.1);
    let first = go(ZoneAsk::Append, 6, 0, 4096);
    let more = (first - go(ZoneAsk::Append, 6, 0, 4096)) * 1e3;
    near("an append that opens, us more", 2.8, more, 0.1);
}

/// Reads and writes go on beside resets and share the rate with padding.
#[test]
fn resets_disturb_nothing_and_padding_takes_its_share() {
    let rate = |beside: Option<ZoneAsk>| {
        let mut drive = empty(REAL);
        let shape = *drive.zones().shape();
        if let Some(ask) = beside {
            let offset = 20 * shape.zone_bytes;
            drive.submit(
                Nanos(0),
                ZoneRequest {
                    id: 0,
                    ask,
                    offset,
                    length: 0,
                },
            );
        }
        let length = 128 << 10;
        let (_, bytes) = closed(&mut drive, 8, 3_000, |at| {
            (ZoneAsk::Write, at * length, length)
        });
        bytes
    };
    let alone = rate(None);
    near("beside a reset", alone, rate(Some(ZoneAsk::Reset)), 0.1);
    // Padding has a row at a time in the queue, writes the buffer's rows: they keep most of the rate.
    let share = rate(Some(ZoneAsk::Finish)) / alone;
    assert!((0.5..1.0).contains(&share), "{share}");
}

/// What is in the buffer, or was never written, needs no die; what was programmed does.
#[test]
fn reads_find_what_they_read_where_it_is() {
    let (mut drive, mut now) = (empty(REAL), Nanos(0));
    let mut go = |ask, offset, length| alone(&mut drive, &mut now, ask, offset, length);
    let unwritten = go(ZoneAsk::Read, 0, 4096);
    go(ZoneAsk::Write, 0, 4096);
    let waiting = go(ZoneAsk::Read, 0, 4096);
    go(ZoneAsk::Write, 4096, (96 << 10) - 4096);
    let programmed = go(ZoneAsk::Read, 0, 4096);
    assert_eq!(unwritten.to_bits(), waiting.to_bits());
    // Sensing, and 4 KiB over a channel.
    near("a die, us", 45.0 + 9.1, programmed - waiting, 0.1);
    go(ZoneAsk::Append, 0, 4096);
    go(ZoneAsk::Finish, 0, 0);
    let finished = go(ZoneAsk::Read, 96 << 10, 4096);
    near("finished, us", programmed, finished, 0.1);
    let beyond = go(ZoneAsk::Read, (96 << 10) + 4096, 4096);
    assert_eq!(beyond.to_bits(), unwritten.to_bits());
    go(ZoneAsk::Reset, 0, 0);
    let reset = go(ZoneAsk::Read, 0, 4096);
    assert_eq!(reset.to_bits(), unwritten.to_bits());
}

/// Resets overtake what they reset, or find it in the buffer: either way it takes no room there, or
/// writes would end with the buffer full of what no row will ever complete.
#[test]
fn what_was_reset_on_its_way_takes_no_room() {
    let (mut drive, mut now) = (empty(SMALL), Nanos(0));
    let shape = *drive.zones().shape();
    for round in 0..2_000 {
        for (ask, length) in [(ZoneAsk::Append, 20 << 10), (ZoneAsk::Reset, 0)] {
            let request = ZoneRequest {
                id: round,
                ask,
                offset: 0,
                length,
            };
            drive.submit(now, request);
            // The append takes 21 us until it is in the buffer, the reset 12 before it has an effect.
            now = Nanos(now.0 + [20_000, 5_000, 0][round as usize % 3]);
            drive.advance(now, &mut |_| {});
        }
        now = Nanos(now.0 + 1_000_000);
        drive.advance(now, &mut |_| {});
        assert!(drive.next().is_none(), "round {round}");
        alone(&mut drive, &mut now, ZoneAsk::Reset, 0, 0);
        assert_eq!(drive.zones().all()[0].state, ZoneState::Empty);
    }
    let us = alone(
        &mut drive,
        &mut now,
        ZoneAsk::Write,
        0,
        shape.capacity_bytes,
    );
    assert!(us < 1_000.0, "{us} us for what the buffer takes at once");
}

/// Zones of a 359th of the size: rates, latencies and the share of resets stay.
#[test]
fn the_drive_scales() {
    assert_eq!(sheet().capacity.user_bytes.value, REAL);
    let (real, small) = (shape(REAL), shape(SMALL));
    assert_eq!(
        (real.zones, real.capacity_bytes, real.zone_bytes),
        (904, 1077 << 20, 2 << 30)
    );
    assert_eq!((small.zones, small.capacity_bytes), (904, 3 << 20));
    let ratio = |shape: &ZoneShape| shape.zone_bytes as f64 / shape.capacity_bytes as f64;
    near("size by capacity", ratio(&real), ratio(&small), 0.1);
    for depth in [1, 16, 128] {
        near(
            "reads",
            random_reads(REAL, depth),
            random_reads(SMALL, depth),
            1.0,
        );
    }
    for (zones, length, depth) in [(14, 4096, 14), (14, 16384, 14), (14, 128 << 10, 14)] {
        let rate = |bytes| puts(bytes, ZoneAsk::Append, zones, length, depth).0;
        near("appends", rate(REAL), rate(SMALL), 1.0);
    }
    let cycle = |bytes| {
        let (mut drive, mut now) = (empty(bytes), Nanos(0));
        let capacity = drive.zones().shape().capacity_bytes;
        alone(&mut drive, &mut now, ZoneAsk::Append, 0, capacity / 2);
        let finish = alone(&mut drive, &mut now, ZoneAsk::Finish, 0, 0);
        let reset = alone(&mut drive, &mut now, ZoneAsk::Reset, 0, 0);
        let part = capacity as f64 / f64::from(1077 << 20);
        (finish / part, reset / part)
    };
    let ((finish, reset), (small_finish, small_reset)) = (cycle(REAL), cycle(SMALL));
    near("finish", finish, small_finish, 1.0);
    near("reset", reset, small_reset, 1.0);
}
