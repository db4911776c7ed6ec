//! Hosts that let things wait: what they may hold meanwhile, and when that ends their connections.

use super::crowd::{WHOLE, crowd, read, used, write};
use super::host::{Bench, TRANSPORT, Wire, h2cdata, pattern, pdu, sqe};
use varve_units::Nanos;

/// A host that wants more room than there is, without being late itself.
fn want(bench: &mut Bench, wire: Wire, reads: u16) {
    bench.is_held = true;
    for cid in 0..reads {
        bench.target.receive(bench.now, wire.id, &read(cid));
        bench.run();
    }
    assert!(bench.held.len() < usize::from(reads), "it has to wait");
}

/// Data behind a batch of answers that its host does not read keeps others waiting as that batch would.
#[test]
fn data_behind_answers_that_are_not_read() {
    let (mut bench, wires) = crowd(2);
    let [deaf, other] = wires[..] else {
        panic!("two");
    };
    let flush = pdu(4, 0, &sqe(0, 20, 1, (TRANSPORT, 0), &[]), &[], false);
    bench.target.receive(bench.now, deaf.id, &flush);
    bench.run();
    // Taken to be sent; it is never said that it was.
    assert_eq!(bench.target.transmit(deaf.id).len(), 1);
    for cid in 0..8 {
        bench.target.receive(bench.now, deaf.id, &read(cid));
        bench.run();
    }
    want(&mut bench, other, 2);
    bench.pass(Nanos::from_secs(9));
    assert!(!bench.target.is_closing(deaf.id));
    bench.pass(Nanos::from_secs(2));
    assert!(bench.target.is_closing(deaf.id) && !bench.target.is_closing(other.id));
}

/// Answers that nobody reads are no more than a queue's commands may have.
#[test]
fn answers_that_are_not_read_are_few() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    let refused = pdu(4, 0, &sqe(0x0d, 1, 1, (TRANSPORT, 0), &[]), &[], false);
    let mut taken = bench.target.receive(bench.now, wire.id, &refused);
    assert_eq!(bench.target.transmit(wire.id).len(), 1);
    for _ in 0..3000 {
        taken += bench.target.receive(bench.now, wire.id, &refused);
    }
    assert!(taken < 1000 * refused.len(), "{taken} bytes were taken");
    assert_eq!(bench.answers(wire).len(), taken / refused.len() - 1);
    bench.exchange(wire, &refused);
}

/// Pages of a log that nobody reads: an admin queue holds one that is being sent and one behind it, they
/// count, and when others wait for the room it ends.
#[test]
fn pages_that_are_not_read_count() {
    let (mut bench, wires) = crowd(1);
    let admin = bench.admin(false, 0);
    let log = sqe(
        2,
        9,
        0xffff_ffff,
        (TRANSPORT, WHOLE),
        &[4 | 0xffff << 16, 1],
    );
    let log = pdu(4, 0, &log, &[], false);
    assert_eq!(bench.target.receive(bench.now, admin.id, &log), log.len());
    assert!(!bench.target.transmit(admin.id).is_empty());
    assert_eq!(bench.target.receive(bench.now, admin.id, &log), log.len());
    assert_eq!(bench.target.receive(bench.now, admin.id, &log), 0);
    assert!(used(&bench.target) >= 2 * u64::from(WHOLE) - (16 << 10));
    want(&mut bench, wires[0], 8);
    bench.pass(Nanos::from_secs(11));
    assert!(bench.target.is_closing(admin.id) && !bench.target.is_closing(wires[0].id));
}

/// A host behind a slow line is no host that stands still: data that comes counts, of those that wait
/// behind it too.
#[test]
fn data_that_comes_slowly() {
    let (mut bench, wires) = crowd(2);
    let [slow, other] = wires[..] else {
        panic!("two");
    };
    let mut asked = std::vec::Vec::new();
    for cid in 0..8 {
        asked.extend(bench.exchange(slow, &write(cid)));
    }
    want(&mut bench, other, 2);
    let data = pattern(1, WHOLE as usize / 4096);
    let bytes = h2cdata(&asked[0].specific[..4], 0, &data, true, false);
    for part in bytes.chunks((64 << 10) + 24) {
        bench.pass(Nanos::from_secs(6));
        assert!(!bench.target.is_closing(slow.id));
        bench.exchange(slow, part);
    }
    bench.pass(Nanos::from_secs(9));
    assert!(!bench.target.is_closing(slow.id));
    // A few bytes now and then are no progress.
    let next = h2cdata(&asked[1].specific[..4], 0, &data, true, false);
    for at in 0..2 {
        bench.exchange(slow, &next[at * 100..][..100]);
        bench.pass(Nanos::from_secs(1));
    }
    assert!(bench.target.is_closing(slow.id) && !bench.target.is_closing(other.id));
}

/// What is sent goes in batches of a transfer at most, so that a host that reads slowly is seen to read.
#[test]
fn data_that_is_read_slowly() {
    let (mut bench, wires) = crowd(2);
    let [slow, other] = wires[..] else {
        panic!("two");
    };
    for cid in 0..8 {
        bench.target.receive(bench.now, slow.id, &read(cid));
        bench.run();
    }
    for left in (0..8).rev() {
        let batch = bench.target.transmit(slow.id);
        let bytes: usize = batch.iter().map(|one| one.as_ref().len()).sum();
        assert!((1..=WHOLE as usize + 4096).contains(&bytes), "{bytes}");
        if left == 7 {
            want(&mut bench, other, 2);
        }
        bench.pass(Nanos::from_secs(6));
        assert!(!bench.target.is_closing(slow.id), "{left} are left");
    }
    assert!(bench.target.transmit(slow.id).is_empty());
}
