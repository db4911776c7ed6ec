//! The host's side of a zoned drive against the rules it keeps.

use super::zone_port::{ZonePort, age};
use varve_media::timed::{Ask, Request};
use varve_media::zoned_sheet::ZonedSheet;
use varve_media::{AnySheet, ZoneShape, Zones};
use varve_units::Nanos;

fn sheet() -> ZonedSheet {
    match AnySheet::named("zns-zn540") {
        Ok(AnySheet::Zoned(sheet)) => *sheet,
        _ => panic!("it comes with the program"),
    }
}

/// A fresh drive with its smallest zones: a row in every die.
fn port() -> (ZonePort, u64) {
    let sheet = sheet();
    let shape = ZoneShape::scaled(&sheet, 1).expect("a possible drive");
    let port = ZonePort::new(Zones::new(shape), &sheet);
    (port, shape.capacity_bytes)
}

fn request(id: u64, ask: Ask, offset: u64, length: u64) -> Request {
    Request {
        id,
        ask,
        offset,
        length,
        handle: 0,
    }
}

/// Lets all happen that does; tells who ended, in order.
fn run(port: &mut ZonePort) -> Vec<u64> {
    let mut ended = Vec::new();
    while let Some(next) = port.next() {
        port.advance(next, &mut |id, _| ended.push(id));
    }
    ended
}

const PIECE: u64 = 64 << 10;

/// Writes that come in reverse reach the drive in the order of their places; what has a gap before it
/// does not end.
#[test]
fn writes_wait_for_those_in_front_of_them() {
    let (mut port, capacity) = port();
    for id in (1..8).rev() {
        port.submit(
            Nanos(0),
            request(id, Ask::Write, capacity + id * PIECE, PIECE),
        );
    }
    assert_eq!(run(&mut port), [0; 0]);
    port.submit(Nanos(0), request(0, Ask::Write, capacity, PIECE));
    assert_eq!(run(&mut port), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(port.counters().host_bytes, 8 * PIECE);
}

/// One zone more than may be active waits until one of the others is full, and until then no longer.
#[test]
fn no_more_zones_are_active_than_may_be() {
    let (mut port, capacity) = port();
    let most = u64::from(sheet().zones.active_max.value);
    for zone in 0..=most {
        port.submit(Nanos(0), request(zone, Ask::Write, zone * capacity, PIECE));
    }
    assert_eq!(run(&mut port).len() as u64, most, "all but one");
    let rest = request(100, Ask::Write, 3 * capacity + PIECE, capacity - PIECE);
    port.submit(Nanos(0), rest);
    assert_eq!(run(&mut port), [100, most]);
    assert_eq!(u64::from(port.active_most()), most);
}

/// A reset empties a zone; who writes it at once waits for that. What is empty is not reset, and ends.
#[test]
fn deallocating_is_resetting() {
    let (mut port, capacity) = port();
    port.submit(Nanos(0), request(1, Ask::Write, 0, 2 * capacity));
    assert_eq!(run(&mut port), [1], "two zones, one request");
    port.submit(Nanos(0), request(2, Ask::Deallocate, 0, 3 * capacity));
    port.submit(Nanos(0), request(3, Ask::Write, 0, PIECE));
    assert_eq!(run(&mut port), [2, 3]);
    assert_eq!(port.counters().erases, 2);
    assert_eq!(port.counters().deallocated_bytes, 2 * capacity);
    port.submit(
        Nanos(0),
        request(4, Ask::Deallocate, 5 * capacity, capacity),
    );
    assert_eq!(run(&mut port), [4]);
    assert_eq!(port.counters().erases, 2);
}

/// A read over the border of two zones is one of each, and ends with the later.
#[test]
fn reads_cross_zones() {
    let (mut port, capacity) = port();
    port.submit(Nanos(0), request(1, Ask::Write, 0, 2 * capacity));
    run(&mut port);
    port.submit(Nanos(0), request(2, Ask::Read, capacity - PIECE, 2 * PIECE));
    assert_eq!(run(&mut port), [2]);
}

#[test]
#[should_panic(expected = "is written again")]
fn a_place_is_not_written_again() {
    let (mut port, _) = port();
    port.submit(Nanos(0), request(1, Ask::Write, 0, PIECE));
    run(&mut port);
    port.submit(Nanos(0), request(2, Ask::Write, 0, PIECE));
}

#[test]
#[should_panic(expected = "is no whole number of zones")]
fn a_part_of_a_zone_is_not_reset() {
    let (mut port, _) = port();
    port.submit(Nanos(0), request(1, Ask::Deallocate, 0, PIECE));
}

#[test]
#[should_panic(expected = "is reset while it is written")]
fn what_is_being_written_is_not_reset() {
    let (mut port, capacity) = port();
    port.submit(Nanos(0), request(1, Ask::Write, 0, PIECE));
    port.submit(Nanos(0), request(2, Ask::Deallocate, 0, capacity));
}

/// Ageing and running leave the same zones behind, and a drive that was aged goes on where it stands.
#[test]
fn a_drive_goes_on_from_the_state_it_was_aged_to() {
    let sheet = sheet();
    let shape = ZoneShape::scaled(&sheet, 1).expect("a possible drive");
    let mut zones = Zones::new(shape);
    let capacity = shape.capacity_bytes;
    age(&mut zones, Ask::Write, 0, capacity + PIECE);
    age(&mut zones, Ask::Deallocate, 0, capacity);
    let mut port = ZonePort::new(zones, &sheet);
    assert_eq!(port.active_most(), 1);
    port.submit(Nanos(0), request(1, Ask::Write, capacity + PIECE, PIECE));
    port.submit(Nanos(0), request(2, Ask::Write, 0, PIECE));
    assert_eq!(run(&mut port), [1, 2]);
    assert_eq!(port.active_most(), 2);
}
