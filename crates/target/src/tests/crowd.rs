//! Data of all connections together: bounded, shared in turns, never stuck.

use super::host::{Answer, Bench, IN_CAPSULE, TRANSPORT, Wire, h2cdata, pattern, pdu, sqe};
use crate::{DATA_BYTES_MAX, TRANSFER_BYTES_MAX, Target};
use std::vec::Vec;
use varve_units::Nanos;

/// The bound of these tests: as low as one may be.
const MAX: u64 = DATA_BYTES_MAX;
pub const WHOLE: u32 = TRANSFER_BYTES_MAX;

/// I/O queues of as many hosts, all data bounded.
pub fn crowd(count: usize) -> (Bench, Vec<Wire>) {
    let mut bench = Bench::new();
    bench.target.limit_data(MAX);
    let wires = (0..count).map(|_| {
        let admin = bench.admin(false, 0);
        bench.queue(admin, 1, 0)
    });
    let wires = wires.collect();
    (bench, wires)
}

pub fn write(cid: u16) -> Vec<u8> {
    let blocks = WHOLE / 4096;
    let sgl = (TRANSPORT, WHOLE);
    pdu(4, 0, &sqe(1, cid, 1, sgl, &[0, 0, blocks - 1]), &[], false)
}

pub fn read(cid: u16) -> Vec<u8> {
    let blocks = WHOLE / 4096;
    let sgl = (TRANSPORT, WHOLE);
    pdu(4, 0, &sqe(2, cid, 1, sgl, &[0, 0, blocks - 1]), &[], false)
}

pub fn used(target: &Target<Vec<u8>>) -> u64 {
    target.data().0
}

/// Sends the data that an R2T asks for; what came back.
fn deliver(bench: &mut Bench, wire: Wire, r2t: &Answer) -> Vec<Answer> {
    assert_eq!(r2t.kind, 9);
    let data = pattern(1, WHOLE as usize / 4096);
    bench.exchange(wire, &h2cdata(&r2t.specific[..4], 0, &data, true, false))
}

/// Writes of many queues hold no more than they may together; each begins when its turn comes, and the
/// one with a single write waits for one of each other, not for all of them.
#[test]
fn writes_of_all_queues_share_the_room() {
    let (mut bench, wires) = crowd(4);
    let mut asked = Vec::new();
    for (at, wire) in wires.iter().enumerate() {
        // The last one has a single write, the others have more than all room.
        for cid in 0..if at == 3 { 1 } else { 12 } {
            let answers = bench.exchange(*wire, &write(cid));
            asked.extend(answers.into_iter().map(|r2t| (at, r2t)));
        }
    }
    // All room, and one each of those that came late.
    let bound = MAX + 3 * u64::from(WHOLE);
    assert_eq!(asked.len() as u64, bound / u64::from(WHOLE));
    assert_eq!(used(&bench.target), bound);
    let mut order = Vec::new();
    while let Some((at, r2t)) = asked.pop() {
        let answers = deliver(&mut bench, wires[at], &r2t);
        assert!(answers.iter().any(|one| one.kind == 5), "it is answered");
        assert!(used(&bench.target) <= bound);
        asked.extend(
            answers
                .into_iter()
                .filter(|one| one.kind == 9)
                .map(|r2t| (at, r2t)),
        );
        for (other, wire) in wires.iter().enumerate() {
            for r2t in bench.answers(*wire) {
                asked.push((other, r2t));
            }
        }
        order.push(at);
    }
    assert_eq!(order.len(), 3 * 12 + 1, "all are done");
    let last = order.iter().position(|at| *at == 3).expect("it is done");
    assert!(last <= 12, "{order:?}");
    assert_eq!(used(&bench.target), 0);
    assert!(
        bench.target.data().1 >= 2,
        "and it is told that there were waits"
    );
}

/// Data of reads counts until it was sent: a host that does not read keeps others waiting no longer
/// than a stall may last, and then it is ended.
#[test]
fn a_host_that_does_not_read_makes_room_in_the_end() {
    let (mut bench, wires) = crowd(2);
    let [deaf, other] = wires[..] else {
        panic!("two");
    };
    for cid in 0..8 {
        bench.target.receive(bench.now, deaf.id, &read(cid));
        bench.run();
    }
    // Taken to be sent; it is never said that it was.
    drop(bench.target.transmit(deaf.id));
    assert_eq!(used(&bench.target), MAX);
    bench.is_held = true;
    let both = [read(1), read(2)].concat();
    let taken = bench.target.receive(bench.now, other.id, &both);
    bench.run();
    assert_eq!(bench.held.len(), 1, "no room for two");
    // Before a host would give up the command that waits: Linux does after 30 s.
    bench.pass(Nanos::from_secs(15));
    assert!(bench.target.is_closing(deaf.id) && !bench.target.is_closing(other.id));
    bench.target.closed(deaf.id);
    bench.run();
    bench.target.receive(bench.now, other.id, &both[taken..]);
    bench.run();
    let held = core::mem::take(&mut bench.held);
    assert_eq!(held.len(), 2);
    held.into_iter().for_each(|action| bench.execute(action));
    assert!(!bench.answers(other).is_empty());
    assert_eq!(used(&bench.target), 0);
}

/// A stop of the target's caller is not a stall of hosts: what they sent meanwhile is being read.
#[test]
fn a_stop_is_no_stall() {
    let (mut bench, wires) = crowd(2);
    let mut asked = Vec::new();
    for cid in 0..8 {
        asked.extend(bench.exchange(wires[0], &write(cid)));
    }
    bench.is_held = true;
    for cid in 1..3 {
        bench.target.receive(bench.now, wires[1].id, &read(cid));
        bench.run();
    }
    bench.is_held = false;
    assert_eq!(bench.held.len(), 1, "no room for two");
    bench.now = bench.now + Nanos::from_secs(60);
    bench.target.tick(bench.now, bench.now);
    bench.pass(Nanos::from_secs(5));
    assert!(!bench.target.is_closing(wires[0].id));
    let answers = deliver(&mut bench, wires[0], &asked[0]);
    assert_eq!((answers.len(), answers[0].kind), (1, 5));
    bench.pass(Nanos::from_secs(9));
    assert!(!bench.target.is_closing(wires[0].id), "it has moved");
    bench.pass(Nanos::from_secs(2));
    assert!(bench.target.is_closing(wires[0].id), "the others are late");
}

/// A host that is asked for data and sends none, however much else it says.
#[test]
fn a_host_that_does_not_send_makes_room_in_the_end() {
    let (mut bench, wires) = crowd(2);
    let [idle, other] = wires[..] else {
        panic!("two");
    };
    for cid in 0..8 {
        assert_eq!(bench.exchange(idle, &write(cid)).len(), 1);
    }
    let flush = sqe(0, 20, 1, (TRANSPORT, 0), &[]);
    // Alone it may take its time.
    for _ in 0..40 {
        bench.pass(Nanos::from_secs(1));
        assert_eq!(bench.simple(idle, &flush, &[]).0, 0);
    }
    let r2t = bench.exchange(other, &[write(1), write(2)].concat());
    assert_eq!(r2t.len(), 1, "no room for two");
    bench.pass(Nanos::from_secs(1));
    assert!(bench.target.is_closing(idle.id));
    bench.target.closed(idle.id);
    let more = bench.answers(other);
    for r2t in [&r2t[0], &more[0]] {
        assert_eq!(deliver(&mut bench, other, r2t).len(), 1);
    }
    assert_eq!(used(&bench.target), 0);
}

/// Data in capsules cannot be asked to wait: the queue that brings it is left unread while all room is
/// taken, others with nothing there are not, and it goes on where it stopped.
#[test]
fn capsules_with_data_are_left_unread() {
    let (mut bench, wires) = crowd(3);
    let [busy, capsules, other] = wires[..] else {
        panic!("three");
    };
    for cid in 0..8 {
        bench.exchange(busy, &write(cid));
    }
    bench.is_held = true;
    let small = |cid| {
        let command = sqe(1, cid, 1, (IN_CAPSULE, 4096), &[cid.into(), 0, 0]);
        pdu(4, 0, &command, &pattern(3, 1), false)
    };
    let all: Vec<u8> = (0..100).flat_map(small).collect();
    let mut taken = bench.target.receive(bench.now, capsules.id, &all);
    bench.run();
    assert_eq!((taken, bench.held.len()), (small(0).len(), 1));
    let flush = sqe(0, 20, 1, (TRANSPORT, 0), &[]);
    bench.is_held = false;
    assert_eq!(
        bench.simple(other, &flush, &[]).0,
        0,
        "who brings no data is heard"
    );
    // Its data is gone, but others still have all there is.
    let held = core::mem::take(&mut bench.held);
    held.into_iter().for_each(|action| bench.execute(action));
    bench.target.closed(busy.id);
    let mut woken = Vec::new();
    while let Some(id) = bench.target.next_woken() {
        woken.push(id);
    }
    assert!(woken.contains(&capsules.id), "it is told that it may go on");
    taken += bench.target.receive(bench.now, capsules.id, &all[taken..]);
    bench.run();
    assert_eq!(taken, all.len());
    assert_eq!(bench.answers(capsules).len(), 100);
    assert_eq!(used(&bench.target), 0);
}

/// What an ended connection has at the backend counts until it comes back.
#[test]
fn what_is_left_of_a_connection_counts() {
    let (mut bench, wires) = crowd(2);
    bench.is_held = true;
    let r2t = bench.exchange(wires[0], &write(1));
    assert!(deliver(&mut bench, wires[0], &r2t[0]).is_empty());
    bench.exchange(wires[0], &write(2));
    assert_eq!(used(&bench.target), 2 * u64::from(WHOLE));
    bench.target.closed(wires[0].id);
    assert_eq!(used(&bench.target), u64::from(WHOLE));
    let held = core::mem::take(&mut bench.held);
    held.into_iter().for_each(|action| bench.execute(action));
    assert_eq!(used(&bench.target), 0);
}

/// A pool that answers nothing keeps no room from hosts of others: who holds nothing begins a command
/// all the same, up to twice the bound.
#[test]
fn who_holds_nothing_begins_one() {
    let (mut bench, wires) = crowd(14);
    let (hung, others) = (wires[0], &wires[1..]);
    bench.is_held = true;
    for cid in 0..8 {
        bench.exchange(hung, &read(cid));
    }
    let kept: Vec<_> = bench.held.drain(..).collect();
    assert_eq!((kept.len(), used(&bench.target)), (8, MAX));
    // It stands in line in front of all others, and is left unread.
    assert_eq!(bench.target.receive(bench.now, hung.id, &read(8)), 0);
    for wire in others {
        bench.exchange(*wire, &read(1));
    }
    assert_eq!((bench.held.len(), used(&bench.target)), (8, 2 * MAX));
    let mut done = 0;
    while let Some(action) = bench.held.pop() {
        bench.execute(action);
        bench.run();
        let answers = others.iter().map(|wire| bench.answers(*wire).len());
        done += answers.sum::<usize>();
    }
    assert_eq!(done, 2 * others.len(), "data and response of each");
    assert_eq!(used(&bench.target), MAX);
    // Data in capsules goes on as well, one after the other.
    let command = sqe(1, 1, 1, (IN_CAPSULE, 4096), &[0, 0, 0]);
    let write = pdu(4, 0, &command, &pattern(3, 1), false);
    for _ in 0..3 {
        bench.exchange(wires[1], &write);
        assert_eq!(bench.target.receive(bench.now, wires[1].id, &write), 0);
        let action = bench.held.pop().expect("the write");
        bench.execute(action);
        while let Some(id) = bench.target.next_woken() {
            done += usize::from(id == wires[1].id);
        }
        assert_eq!(bench.answers(wires[1]).len(), 1);
    }
    assert_eq!(done, 2 * others.len() + 3, "it is told that it may go on");
}

/// A small queue that waits for room and whose answers wait to be sent: who gives its bytes again is not told at once
/// that it may.
#[test]
fn a_queue_without_room_does_not_wake_itself() {
    let (mut bench, wires) = crowd(16);
    bench.is_held = true;
    for wire in &wires[1..] {
        bench.exchange(*wire, &read(1));
    }
    let small = sqe(2, 1, 1, (TRANSPORT, 4096), &[0, 0, 0]);
    bench.exchange(wires[0], &pdu(4, 0, &small, &[], false));
    assert!(used(&bench.target) < 2 * MAX);
    let admin = bench.admin(false, 0);
    let small = bench.small_queue(admin, 1, 31);
    let mut all = read(1);
    for cid in 2..600 {
        all.extend(pdu(
            4,
            0,
            &sqe(0x55, cid, 1, (TRANSPORT, 0), &[]),
            &[],
            false,
        ));
    }
    // As the server does: what is taken, then a batch is begun and not sent, then again.
    let mut taken = bench.target.receive(bench.now, small.id, &all);
    bench.run();
    drop(bench.target.transmit(small.id));
    bench.run();
    for round in 0..100 {
        while bench.target.next_woken().is_some() {}
        let more = bench.target.receive(bench.now, small.id, &all[taken..]);
        taken += more;
        bench.run();
        let mut is_woken = false;
        while let Some(id) = bench.target.next_woken() {
            is_woken |= id == small.id;
        }
        if more == 0 {
            assert!(taken < all.len());
            assert!(!is_woken, "round {round}: it took nothing and is woken");
            return;
        }
    }
    panic!("it takes for ever");
}
