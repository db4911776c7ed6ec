//! Critical warnings: the byte in the SMART log, and the event.

use super::host::{Answer, Bench, DISCOVERY, TRANSPORT, Wire, sqe};
use crate::Warnings;
use std::vec::Vec;

const DEGRADED: Warnings = Warnings {
    is_degraded: true,
    is_read_only: false,
};
const STOPPED: Warnings = Warnings {
    is_degraded: true,
    is_read_only: true,
};
/// Type 1 (SMART), information 00h (reliability), log 02h.
const RELIABILITY: u64 = 0x0002_0001;
const NAMESPACES: u64 = 0x0004_0002;

fn smart(nsid: u32, rae: u32) -> Vec<u8> {
    let words = [2 | rae << 15 | 127 << 16, 0];
    sqe(2, 9, nsid, (TRANSPORT, 512), &words)
}

fn critical(bench: &mut Bench, admin: Wire, rae: u32) -> u8 {
    bench.fetch(admin, &smart(0xffff_ffff, rae))[0]
}

fn ask(bench: &mut Bench, admin: Wire, cid: u16) -> Vec<Answer> {
    bench.command(admin, &sqe(0x0c, cid, 0, (TRANSPORT, 0), &[]), &[])
}

/// AEC: which bits of Critical Warning are told.
fn enable(bench: &mut Bench, admin: Wire, bits: u32) {
    let set = sqe(9, 3, 0, (TRANSPORT, 0), &[11, bits]);
    assert_eq!(bench.simple(admin, &set, &[]).0, 0);
}

/// The log says what is so now, whether anybody wants to be told or not; it is one of all namespaces.
#[test]
fn the_log_tells_how_it_is_now() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let log = bench.fetch(admin, &smart(0xffff_ffff, 0));
    assert_eq!(log[..6], [0, 0, 0, 100, 0, 0], "no warning, all of a spare");
    assert!(ask(&mut bench, admin, 20).is_empty());
    for (warnings, byte) in [(DEGRADED, 4), (STOPPED, 12), (Warnings::default(), 0)] {
        bench.target.warn(warnings);
        assert!(bench.answers(admin).is_empty(), "AEC is off");
        assert_eq!(critical(&mut bench, admin, 0), byte);
        assert_eq!(bench.fetch(admin, &smart(0, 0))[0], byte);
    }
    assert_eq!(bench.simple(admin, &smart(1, 0), &[]).0, 2);
}

/// A warning is told when it comes, once until the log was read without RAE, and not again while it stays.
#[test]
fn a_warning_is_told_once() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    enable(&mut bench, admin, 0b1100);
    assert!(ask(&mut bench, admin, 20).is_empty());
    bench.target.warn(DEGRADED);
    assert_eq!(bench.answers(admin)[0].response(), (20, 0, RELIABILITY));
    assert!(ask(&mut bench, admin, 21).is_empty());
    bench.target.warn(STOPPED);
    assert!(bench.answers(admin).is_empty(), "masked");
    assert_eq!(critical(&mut bench, admin, 1), 12, "read, retained");
    assert!(bench.answers(admin).is_empty(), "still masked");
    let answers = bench.command(admin, &smart(0xffff_ffff, 0), &[]);
    assert_eq!(
        answers[2].response(),
        (21, 0, RELIABILITY),
        "the one that waited"
    );
    assert_eq!(critical(&mut bench, admin, 0), 12);
    assert!(ask(&mut bench, admin, 22).is_empty());
    bench.target.warn(STOPPED);
    bench.target.warn(DEGRADED);
    assert!(bench.answers(admin).is_empty(), "nothing came");
    bench.target.warn(STOPPED);
    assert_eq!(bench.answers(admin)[0].response(), (22, 0, RELIABILITY));
    // What comes and goes while nobody may be told is not told.
    bench.target.warn(Warnings::default());
    bench.target.warn(DEGRADED);
    bench.target.warn(Warnings::default());
    assert!(ask(&mut bench, admin, 23).is_empty());
    assert_eq!(critical(&mut bench, admin, 0), 0);
    assert!(bench.answers(admin).is_empty());
    bench.target.warn(DEGRADED);
    assert_eq!(bench.answers(admin)[0].response(), (23, 0, RELIABILITY));
}

/// Bits of AEC stand for themselves, and a warning masks no notice of another type.
#[test]
fn only_what_is_enabled_is_told() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    enable(&mut bench, admin, 1 << 3 | 1 << 8);
    assert!(ask(&mut bench, admin, 20).is_empty());
    bench.target.warn(DEGRADED);
    assert!(bench.answers(admin).is_empty(), "bit 2 is off");
    bench.target.warn(STOPPED);
    assert_eq!(bench.answers(admin)[0].response(), (20, 0, RELIABILITY));
    assert!(ask(&mut bench, admin, 21).is_empty());
    bench.target.remove_namespace(1);
    assert_eq!(bench.answers(admin)[0].response(), (21, 0, NAMESPACES));
}

/// One that waits for a request is told with the first; discovery knows nothing of it.
#[test]
fn a_warning_waits_for_a_request() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    enable(&mut bench, admin, 0xff);
    let discovery = bench.connect(DISCOVERY, false, 0);
    bench.enable(discovery);
    enable(&mut bench, discovery, 0xff);
    assert!(ask(&mut bench, discovery, 20).is_empty());
    bench.target.warn(DEGRADED);
    let told = ask(&mut bench, admin, 20);
    assert_eq!(told[0].response(), (20, 0, RELIABILITY));
    assert!(bench.answers(discovery).is_empty());
    let get = sqe(10, 4, 0, (TRANSPORT, 0), &[11, 0]);
    assert_eq!(bench.simple(discovery, &get, &[]), (0, 0));
    assert_eq!(
        bench.simple(discovery, &smart(0xffff_ffff, 0), &[]).0,
        0x109
    );
}
