//! How long hosts wait before they try again: Host Behavior Support, CRDT1, CRD.

use super::host::{Answer, Bench, DISCOVERY, IN_CAPSULE, TRANSPORT, Wire, sqe};
use crate::Failure;
use std::vec;
use std::vec::Vec;

/// Set Features of Host Behavior Support, data in the capsule.
fn set(bench: &mut Bench, admin: Wire, data: &[u8]) -> u16 {
    let command = sqe(9, 3, 0, (IN_CAPSULE, data.len() as u32), &[0x16, 0]);
    bench.simple(admin, &command, data).0
}

/// Get Features of it; SEL is 0 for the one in force, 1 for the default.
fn get(bench: &mut Bench, admin: Wire, select: u32) -> Vec<u8> {
    let command = sqe(10, 4, 0, (TRANSPORT, 512), &[0x16 | select << 8]);
    bench.fetch(admin, &command)
}

fn behavior(acre: u8) -> Vec<u8> {
    let mut data = vec![0; 512];
    data[0] = acre;
    data
}

/// CRD and DNR of a read that fails.
fn failed_read(bench: &mut Bench, queue: Wire, failure: Failure) -> (u16, u16) {
    bench.failing = Some(failure);
    let read = sqe(2, 7, 1, (TRANSPORT, 4096), &[0, 0, 0]);
    let answers = bench.command(queue, &read, &[]);
    let [Answer { specific, .. }] = &answers[..] else {
        panic!("a response alone: {answers:?}");
    };
    let word = u16::from_le_bytes([specific[14], specific[15]]);
    (word >> 12 & 3, word >> 15)
}

/// Hosts that keep to it are told to wait where something takes time, others never, nor once they say
/// that they do not.
#[test]
fn who_keeps_to_it_is_told_to_wait() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let identify = sqe(6, 5, 0, (TRANSPORT, 4096), &[1]);
    let controller = bench.fetch(admin, &identify);
    assert_eq!(controller[128..134], [50, 0, 0, 0, 0, 0], "CRDT1 of 5 s");
    let queue = bench.queue(admin, 1, 0);
    let waits = [
        (Failure::Interrupted, 1),
        (Failure::NotReady, 1),
        (Failure::Stopped, 0),
    ];
    for (failure, _) in waits {
        assert_eq!(
            failed_read(&mut bench, queue, failure),
            (0, 0),
            "{failure:?}"
        );
    }
    assert_eq!(set(&mut bench, admin, &behavior(1)), 0);
    for (failure, crd) in waits {
        assert_eq!(
            failed_read(&mut bench, queue, failure),
            (crd, 0),
            "{failure:?}"
        );
    }
    assert_eq!(failed_read(&mut bench, queue, Failure::NoSpace), (0, 1));
    assert_eq!(get(&mut bench, admin, 0), behavior(1));
    assert_eq!(get(&mut bench, admin, 1), behavior(0));
    assert_eq!(set(&mut bench, admin, &behavior(0)), 0);
    assert_eq!(failed_read(&mut bench, queue, Failure::Interrupted), (0, 0));
}

/// Wrong data changes nothing; a discovery controller has no such feature.
#[test]
fn wrong_behavior_is_refused() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    assert_eq!(set(&mut bench, admin, &behavior(1)), 0);
    assert_eq!(set(&mut bench, admin, &behavior(2)), 2);
    assert_ne!(set(&mut bench, admin, &[0; 256]), 0);
    assert_eq!(get(&mut bench, admin, 0), behavior(1));
    // SEL 3: what can be done with it, without data.
    let supported = sqe(10, 4, 0, (TRANSPORT, 0), &[0x316]);
    assert_eq!(bench.simple(admin, &supported, &[]), (0, 4));
    let discovery = bench.connect(DISCOVERY, false, 0);
    bench.enable(discovery);
    assert_eq!(set(&mut bench, discovery, &behavior(1)), 2);
}
