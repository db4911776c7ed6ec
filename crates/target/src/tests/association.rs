//! Keep alive, events, resets, and what is left when an association ends.

use super::host::{
    Bench, HOST, IN_CAPSULE, NQN, TRANSPORT, Wire, connect_data, connect_sqe, h2cdata, namespace,
    pattern, pdu, sqe,
};
use std::vec::Vec;
use varve_units::Nanos;

const KEEP_ALIVE: [u32; 0] = [];

#[test]
fn silence_ends_an_association() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 5000);
    let wire = bench.queue(admin, 1, 0);
    let flush = sqe(0, 1, 1, (TRANSPORT, 0), &[]);
    let start = bench.now;
    assert_eq!(bench.target.deadline(), Some(start + Nanos::from_secs(5)));
    // Traffic on an I/O queue keeps it, as a keep alive does.
    bench.pass(Nanos::from_secs(4));
    assert_eq!(bench.simple(wire, &flush, &[]).0, 0);
    bench.pass(Nanos::from_secs(4));
    assert!(!bench.target.is_closing(admin.id));
    let keep_alive = sqe(0x18, 1, 0, (TRANSPORT, 0), &KEEP_ALIVE);
    assert_eq!(bench.simple(admin, &keep_alive, &[]).0, 0);
    bench.pass(Nanos::from_millis(4999));
    assert_eq!(bench.target.deadline(), Some(start + Nanos::from_secs(13)));
    assert!(!bench.target.is_closing(admin.id));
    bench.pass(Nanos::from_millis(1));
    assert!(bench.target.is_closing(admin.id) && bench.target.is_closing(wire.id));
    bench.target.closed(wire.id);
    bench.target.closed(admin.id);
    assert_eq!(
        (bench.target.controllers(), bench.target.deadline()),
        (0, None)
    );
}

#[test]
fn who_never_connects_is_sent_away() {
    let mut bench = Bench::new();
    let wire = bench.open(false);
    let at = bench.target.deadline().expect("a deadline");
    bench.pass(at.since(bench.now));
    assert!(bench.target.is_closing(wire.id));
}

/// However long the caller was away, what lay in its sockets when a timer fell due is taken before
/// anything strikes, and any of it, a piece of data too, keeps its association; silence ends one all the
/// same.
#[test]
fn what_lies_in_the_sockets_is_read_first() {
    for away in [5_000, 5_001, 5_900, 9_000] {
        let mut bench = Bench::new();
        let [live, writing, silent] = [(); 3].map(|()| bench.admin(false, 5000));
        let unconnected = bench.open(false);
        let wire = bench.queue(writing, 1, 0);
        let sgl = (TRANSPORT, 2 * 4096);
        let r2t = bench.command(wire, &sqe(1, 3, 1, sgl, &[0, 0, 1]), &[]);
        let last_read = bench.now;
        bench.now = last_read + Nanos::from_millis(away);
        bench.target.tick(bench.now, last_read);
        assert!(!bench.target.is_closing(silent.id), "nobody has looked yet");
        let keep_alive = sqe(0x18, 1, 0, (TRANSPORT, 0), &KEEP_ALIVE);
        assert_eq!(bench.simple(live, &keep_alive, &[]).0, 0);
        let data = h2cdata(&r2t[0].specific[..4], 0, &pattern(1, 2), true, false);
        assert_eq!(bench.exchange(wire, &data[..100]).len(), 0);
        bench.target.tick(bench.now, bench.now);
        assert!(bench.target.is_closing(silent.id));
        for kept in [live, writing, wire, unconnected] {
            assert!(!bench.target.is_closing(kept.id), "{kept:?}");
        }
        assert_eq!(bench.exchange(wire, &data[100..])[0].response().1, 0);
    }
}

/// A piece of data keeps an association only where that is about to end: commands are what counts.
#[test]
fn a_piece_of_data_is_no_command() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 5000);
    let wire = bench.queue(admin, 1, 0);
    let sgl = (TRANSPORT, 2 * 4096);
    let r2t = bench.command(wire, &sqe(1, 3, 1, sgl, &[0, 0, 1]), &[]);
    let until = bench.target.deadline();
    bench.pass(Nanos::from_secs(4));
    let data = h2cdata(&r2t[0].specific[..4], 0, &pattern(1, 2), true, false);
    bench.exchange(wire, &data[..100]);
    assert_eq!(bench.target.deadline(), until);
}

/// A host that gave up waits for twice the timeout from its last byte on. What is found after a stop may
/// be that old, so it does not keep an association for longer.
#[test]
fn what_is_read_counts_as_old_as_the_last_reading() {
    let keep_alive = sqe(0x18, 1, 0, (TRANSPORT, 0), &KEEP_ALIVE);
    let mut bench = Bench::new();
    let admin = bench.admin(false, 5000);
    let last_heard = bench.now;
    bench.now = last_heard + Nanos::from_secs(8);
    assert_eq!(bench.simple(admin, &keep_alive, &[]).0, 0);
    bench.target.tick(bench.now, bench.now);
    let until = last_heard + Nanos::from_secs(10);
    assert_eq!(bench.target.deadline(), Some(until));
    // What comes after the reading is new.
    assert_eq!(bench.simple(admin, &keep_alive, &[]).0, 0);
    let until = bench.now + Nanos::from_secs(5);
    assert_eq!(bench.target.deadline(), Some(until));
    bench.now = bench.now + Nanos::from_secs(11);
    assert_eq!(bench.simple(admin, &keep_alive, &[]).0, 0, "it is answered");
    bench.target.tick(bench.now, bench.now);
    assert!(bench.target.is_closing(admin.id), "and may be too old");
}

/// Who needs several exchanges to connect is not sent away for a stop of the caller.
#[test]
fn a_stop_is_not_the_time_to_connect_in() {
    let mut bench = Bench::new();
    let wire = bench.open(false);
    bench.pass(Nanos::from_secs(5));
    bench.now = bench.now + Nanos::from_secs(60);
    bench.target.tick(bench.now, bench.now);
    let until = bench.now + Nanos::from_millis(4500);
    assert_eq!(bench.target.deadline(), Some(until));
    assert!(!bench.target.is_closing(wire.id));
    bench.pass(Nanos::from_millis(4500));
    assert!(bench.target.is_closing(wire.id));
}

fn changed(bench: &mut Bench, admin: Wire, rae: u32) -> u8 {
    let log = sqe(
        2,
        9,
        0xffff_ffff,
        (TRANSPORT, 4096),
        &[4 | rae << 15 | 1023 << 16, 0],
    );
    bench.fetch(admin, &log)[0]
}

/// An event is reported once, and again only after its log was read without RAE.
#[test]
fn namespace_events() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let request = |cid| sqe(0x0c, cid, 0, (TRANSPORT, 0), &[]);
    assert!(bench.command(admin, &request(20), &[]).is_empty());
    bench.target.put_namespace(2, namespace(8)).expect("good");
    assert!(bench.answers(admin).is_empty(), "AEC is off");
    let on = sqe(9, 3, 0, (TRANSPORT, 0), &[11, 1 << 8]);
    assert_eq!(bench.simple(admin, &on, &[]).0, 0);
    bench.target.put_namespace(1, namespace(600)).expect("good");
    let answers = bench.answers(admin);
    assert_eq!(answers[0].response(), (20, 0, 0x0004_0002));
    assert!(bench.command(admin, &request(21), &[]).is_empty());
    bench.target.remove_namespace(2);
    assert!(bench.answers(admin).is_empty(), "masked");
    assert_eq!(changed(&mut bench, admin, 1), 1, "read, retained");
    assert!(bench.answers(admin).is_empty(), "still masked");
    let log = sqe(2, 9, 0xffff_ffff, (TRANSPORT, 4096), &[4 | 1023 << 16, 0]);
    let answers = bench.command(admin, &log, &[]);
    assert_eq!(answers[0].data[..12], [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        answers[2].response(),
        (21, 0, 0x0004_0002),
        "the one that waited"
    );
    assert_eq!(changed(&mut bench, admin, 0), 0, "read once");
    // The same again changes nothing, so nobody is told.
    assert!(bench.command(admin, &request(22), &[]).is_empty());
    bench.target.put_namespace(1, namespace(600)).expect("good");
    assert!(bench.answers(admin).is_empty());
    for cid in 23..26 {
        assert!(bench.command(admin, &request(cid), &[]).is_empty());
    }
    assert_eq!(
        bench.simple(admin, &request(26), &[]).0,
        0x105,
        "one too many"
    );
    let abort = sqe(8, 30, 0, (TRANSPORT, 0), &[24 << 16]);
    let answers = bench.command(admin, &abort, &[]);
    assert_eq!(answers[0].response(), (24, 7, 0));
    assert_eq!(answers[1].response(), (30, 0, 0));
    assert_eq!(bench.simple(admin, &abort, &[]), (0, 1), "nothing to abort");
}

/// A write that is at the backend when its association ends does not meet the host's next one.
#[test]
fn remains_are_waited_for() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    bench.is_held = true;
    let write = sqe(1, 1, 1, (IN_CAPSULE, 4096), &[5, 0, 0]);
    assert!(bench.command(wire, &write, &pattern(1, 1)).is_empty());
    assert_eq!(bench.held.len(), 1);
    bench.target.closed(admin.id);
    assert!(
        bench.target.is_closing(wire.id),
        "the association ends with its admin queue"
    );
    let again = bench.admin(false, 0);
    let next = bench.open(false);
    let connect = connect_sqe(1, 31, 0, 0);
    let data = connect_data(again.cntlid, NQN, HOST);
    assert!(
        bench.command(next, &connect, &data).is_empty(),
        "waits while it is closing"
    );
    bench.target.closed(wire.id);
    assert!(bench.answers(next).is_empty(), "waits when it is gone");
    let action = bench.held.pop().expect("the write");
    bench.execute(action);
    assert_eq!(
        bench.answers(next)[0].response(),
        (1, 0, u64::from(again.cntlid))
    );
    bench.is_held = false;
    let read = sqe(2, 2, 1, (TRANSPORT, 4096), &[5, 0, 0]);
    assert_eq!(bench.fetch(next, &read), pattern(1, 1));
}

/// What has not reached the backend when an association ends never does.
#[test]
fn parked_writes_are_discarded() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    let write = pdu(
        4,
        0,
        &sqe(1, 1, 1, (TRANSPORT, 8192), &[0, 0, 1]),
        &[],
        false,
    );
    assert_eq!(bench.exchange(wire, &write)[0].kind, 9);
    bench.target.closed(admin.id);
    let late = super::host::h2cdata(&[1, 0, 0, 0], 0, &pattern(1, 2), true, false);
    assert!(bench.exchange(wire, &late).is_empty());
    assert!(bench.held.is_empty() && bench.disk.iter().all(|byte| *byte == 0));
}

#[test]
fn a_reset_ends_io_queues() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    let off = sqe(0x7f, 2, 0, (TRANSPORT, 0), &[0, 0x14, 0x0046_0060]);
    assert_eq!(bench.simple(admin, &off, &[]).0, 0);
    assert!(bench.target.is_closing(wire.id) && !bench.target.is_closing(admin.id));
    bench.target.closed(wire.id);
    bench.enable(admin);
    bench.queue(admin, 1, 0);
}

/// A controller whose configuration is refused says so in CSTS and takes no commands.
#[test]
fn bad_configurations() {
    for cc in [0x0046_0081, 0x0046_0801, 0x0046_0011, 0x0045_0001] {
        let mut bench = Bench::new();
        let admin = bench.connect(NQN, false, 0);
        let set = sqe(0x7f, 2, 0, (TRANSPORT, 0), &[0, 0x14, cc]);
        assert_eq!(bench.simple(admin, &set, &[]).0, 0);
        let csts = sqe(0x7f, 9, 4, (TRANSPORT, 0), &[0, 0x1c]);
        assert_eq!(bench.simple(admin, &csts, &[]), (0, 2), "{cc:#x}");
    }
}

/// A Connect that waits belongs to its association and ends with it; one that comes too late is
/// refused in a way that lets its host come back (Linux gives up for good on Do Not Retry).
#[test]
fn a_connect_that_waits_ends_with_its_association() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    bench.is_held = true;
    let write = sqe(1, 1, 1, (IN_CAPSULE, 4096), &[5, 0, 0]);
    assert!(bench.command(wire, &write, &pattern(1, 1)).is_empty());
    bench.target.closed(admin.id);
    bench.target.closed(wire.id);
    let again = bench.admin(false, 0);
    let next = bench.open(false);
    let connect = connect_sqe(1, 31, 0, 0);
    let data = connect_data(again.cntlid, NQN, HOST);
    assert!(bench.command(next, &connect, &data).is_empty(), "waits");
    bench.target.closed(again.id);
    assert!(bench.target.is_closing(next.id));
    let action = bench.held.pop().expect("the write");
    bench.execute(action);
    assert!(bench.answers(next).is_empty());
    let late = bench.open(false);
    let answers = bench.command(late, &connect, &data);
    assert_eq!(answers[0].response().1, 0x182);
    assert_eq!(answers[0].specific[15] >> 7, 0, "it may try again");
}

/// A host whose lost association left a write at the backend that does not end; its next admin queue.
fn with_a_write_left(bench: &mut Bench) -> Wire {
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    bench.is_held = true;
    let write = sqe(1, 1, 1, (IN_CAPSULE, 4096), &[5, 0, 0]);
    assert!(bench.command(wire, &write, &pattern(1, 1)).is_empty());
    bench.target.closed(admin.id);
    bench.target.closed(wire.id);
    bench.admin(false, 0)
}

/// A Connect does not wait for ever: its host is told that it may try again.
#[test]
fn a_connect_waits_for_so_long() {
    let mut bench = Bench::new();
    let again = with_a_write_left(&mut bench);
    bench.pass(Nanos::from_secs(3));
    let next = bench.open(false);
    let connect = connect_sqe(1, 31, 0, 0);
    let data = connect_data(again.cntlid, NQN, HOST);
    assert!(bench.command(next, &connect, &data).is_empty(), "waits");
    assert_eq!(
        bench.target.deadline(),
        Some(bench.now + crate::CONNECT_WAIT_MAX)
    );
    bench.pass(Nanos::from_millis(29_999));
    assert!(bench.answers(next).is_empty() && !bench.target.is_closing(next.id));
    bench.pass(Nanos::from_millis(1));
    let answers = bench.answers(next);
    assert_eq!(answers[0].response().1, 0x181);
    assert_eq!(answers[0].specific[15] >> 7, 0, "it may try again");
    assert!(bench.target.is_closing(next.id));
    assert!(!bench.target.is_closing(again.id));
    let late = bench.open(false);
    assert!(bench.command(late, &connect, &data).is_empty(), "waits");
    let action = bench.held.pop().expect("the write");
    bench.execute(action);
    assert_eq!(bench.answers(late)[0].response().1, 0);
}

/// A host has few Connects that wait, and only such as could come to something.
#[test]
fn few_connects_of_a_host_wait() {
    let mut bench = Bench::new();
    let again = with_a_write_left(&mut bench);
    let data = connect_data(again.cntlid, NQN, HOST);
    let mut waiting = Vec::new();
    for qid in 1..=crate::IO_QUEUES_MAX {
        let wire = bench.open(false);
        let connect = connect_sqe(qid, 31, 0, 0);
        assert!(bench.command(wire, &connect, &data).is_empty(), "{qid}");
        waiting.push(wire);
    }
    let more = bench.open(false);
    let answers = bench.command(more, &connect_sqe(1, 31, 0, 0), &data);
    assert_eq!(answers[0].response().1, 0x181);
    let vain = bench.open(false);
    let nowhere = connect_data(again.cntlid + 1, NQN, HOST);
    let answers = bench.command(vain, &connect_sqe(1, 31, 0, 0), &nowhere);
    assert_eq!(answers[0].response().1, 0x182, "no such controller");
    let action = bench.held.pop().expect("the write");
    bench.execute(action);
    for wire in waiting {
        assert_eq!(bench.answers(wire)[0].response().1, 0);
    }
}

/// Connect of an I/O queue keeps its association alive, as any command does.
#[test]
fn a_connect_is_heard() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 5000);
    bench.pass(Nanos::from_secs(4));
    bench.queue(admin, 1, 0);
    let until = bench.now + Nanos::from_secs(5);
    assert_eq!(bench.target.deadline(), Some(until));
}

/// What a lost I/O queue has at the backend could land on what its host writes on another one: they all
/// end. A host that closes its queues in order has nothing there, and shuts down over the admin queue.
#[test]
fn a_lost_queue_takes_the_others_along() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let [first, second, third] = [1, 2, 3].map(|qid| bench.queue(admin, qid, 0));
    bench.target.closed(first.id);
    assert!(!bench.target.is_closing(second.id));
    bench.is_held = true;
    let write = sqe(1, 1, 1, (IN_CAPSULE, 4096), &[5, 0, 0]);
    assert!(bench.command(second, &write, &pattern(1, 1)).is_empty());
    bench.target.closed(second.id);
    assert!(bench.target.is_closing(third.id) && !bench.target.is_closing(admin.id));
    let shutdown = sqe(0x7f, 9, 0, (TRANSPORT, 0), &[0, 0x14, 0x0046_4061]);
    assert_eq!(bench.simple(admin, &shutdown, &[]), (0, 0));
}

/// A reset of the controller takes its features and the list of changes back to what they were.
#[test]
fn a_reset_restores_defaults() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 5000);
    let set = |feature: u32, value: u32| sqe(9, 4, 0, (TRANSPORT, 0), &[feature, value]);
    let get = |feature: u32| sqe(10, 4, 0, (TRANSPORT, 0), &[feature, 0]);
    assert_eq!(bench.simple(admin, &set(7, 0x0003_0003), &[]).0, 0);
    assert_eq!(bench.simple(admin, &set(11, 1 << 8), &[]).0, 0);
    bench.target.put_namespace(2, namespace(8)).expect("good");
    let off = sqe(0x7f, 2, 0, (TRANSPORT, 0), &[0, 0x14, 0x0046_0060]);
    assert_eq!(bench.simple(admin, &off, &[]).0, 0);
    bench.enable(admin);
    assert_eq!(bench.simple(admin, &get(7), &[]), (0, 0x003f_003f));
    assert_eq!(bench.simple(admin, &get(11), &[]), (0, 0));
    assert_eq!(bench.simple(admin, &get(15), &[]), (0, 5000), "of Connect");
    assert_eq!(changed(&mut bench, admin, 0), 0);
}
