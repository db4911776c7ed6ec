//! Hosts that let things wait: what they may hold meanwhile, and when that ends their connections.

use super::crowd::{WHOLE, crowd, read, write};
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
