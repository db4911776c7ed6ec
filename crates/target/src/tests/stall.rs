//! Hosts that let things wait: what they may hold meanwhile, and when that ends their connections.

use super::crowd::{crowd, read};
use super::host::{Bench, TRANSPORT, Wire, pdu, sqe};
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
