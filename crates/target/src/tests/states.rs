//! Every state of a connection against every kind of command and PDU.

use super::host::{
    Bench, HOST, NQN, TRANSPORT, Wire, connect_data, connect_sqe, h2cdata, icreq, pdu, sqe,
};
use std::vec::Vec;

/// Status of a command of each kind: flush/delete queue, read, identify, keep alive, property get.
fn statuses(bench: &mut Bench, wire: Wire) -> Vec<u16> {
    let commands = [
        sqe(0x00, 1, 1, (TRANSPORT, 0), &[]),
        sqe(0x02, 1, 1, (TRANSPORT, 4096), &[0x03ff_0000, 0, 0]),
        sqe(0x06, 1, 0, (TRANSPORT, 4096), &[1]),
        sqe(0x18, 1, 0, (TRANSPORT, 0), &[]),
        sqe(0x7f, 1, 4, (TRANSPORT, 0), &[0, 8]),
        sqe(0x7f, 1, 0x22, (TRANSPORT, 0), &[]),
    ];
    let status = |command: &Vec<u8>| {
        let answers = bench.command(wire, command, &[]);
        answers.last().expect("an answer").response().1
    };
    commands.iter().map(status).collect()
}

#[test]
fn states_and_commands() {
    let mut bench = Bench::new();
    let open = bench.open(false);
    assert_eq!(statuses(&mut bench, open), [0xc; 6]);
    let disabled = bench.connect(NQN, false, 0);
    assert_eq!(statuses(&mut bench, disabled), [0xc, 0xc, 0xc, 0xc, 0, 2]);
    let admin = bench.admin(false, 0);
    assert_eq!(statuses(&mut bench, admin), [1, 0, 0, 0, 0, 2]);
    let queue = bench.queue(admin, 1, 0);
    assert_eq!(statuses(&mut bench, queue), [0, 0x80, 1, 1, 0x185, 2]);
}

/// Connect with one parameter wrong: status, and where the parameter is.
#[test]
fn wrong_connects() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    bench.queue(admin, 3, 0);
    let wide = |offset: u64, is_data: u64| offset | is_data << 16;
    let good = connect_data(0xffff, NQN, HOST);
    let own = connect_data(admin.cntlid, NQN, HOST);
    let mut nameless = good.clone();
    nameless[..16].fill(0);
    let mut record = connect_sqe(0, 31, 0, 0);
    record[40] = 1;
    let other = "nqn.2026-11.io.varve:other";
    let cases = [
        (record, good.clone(), 0x180, 0),
        (connect_sqe(0, 0, 0, 0), good.clone(), 0x182, wide(44, 0)),
        (connect_sqe(0, 128, 0, 0), good.clone(), 0x182, wide(44, 0)),
        (connect_sqe(0, 31, 0, 0), own.clone(), 0x182, wide(16, 1)),
        (
            connect_sqe(0, 31, 0, 0),
            connect_data(0xffff, other, HOST),
            0x182,
            wide(256, 1),
        ),
        (
            connect_sqe(0, 31, 0, 0),
            connect_data(0xffff, NQN, "me"),
            0x182,
            wide(512, 1),
        ),
        (connect_sqe(0, 31, 0, 0), nameless, 0x182, wide(0, 1)),
        (connect_sqe(1, 31, 0, 0), good, 0x182, wide(16, 1)),
        (connect_sqe(3, 31, 0, 0), own.clone(), 0x182, wide(42, 0)),
        (connect_sqe(65, 31, 0, 0), own, 0x182, wide(42, 0)),
        (
            connect_sqe(1, 31, 0, 0),
            connect_data(admin.cntlid, NQN, other),
            0x182,
            wide(512, 1),
        ),
    ];
    for (at, (command, data, status, result)) in cases.iter().enumerate() {
        let wire = bench.open(false);
        assert_eq!(
            bench.simple(wire, command, data),
            (*status, *result),
            "case {at}"
        );
    }
    // A queue of a controller that is not enabled.
    let disabled = bench.connect(NQN, false, 0);
    let wire = bench.open(false);
    let data = connect_data(disabled.cntlid, NQN, HOST);
    assert_eq!(bench.simple(wire, &connect_sqe(1, 31, 0, 0), &data).0, 0xc);
}

/// PDUs that may not come: grade, and offset or nothing.
#[test]
fn wrong_pdus() {
    let flush = pdu(4, 0, &sqe(0, 1, 1, (TRANSPORT, 0), &[]), &[], false);
    let write = pdu(
        4,
        0,
        &sqe(1, 1, 1, (TRANSPORT, 8192), &[0, 0, 1]),
        &[],
        false,
    );
    let data = |tag: u8, cid: u8, offset, len, is_last| {
        h2cdata(&[cid, 0, tag, 0], offset, &[1; 8192][..len], is_last, false)
    };
    let mut version = icreq(0);
    version[8] = 1;
    let mut alignment = icreq(0);
    alignment[10] = 32;
    // Before ICReq.
    for (bytes, term) in [(flush, (2, 0)), (version, (6, 8)), (alignment, (1, 10))] {
        let mut bench = Bench::new();
        let id = bench.target.accept(bench.now).expect("room");
        let wire = Wire {
            id,
            has_digests: false,
            cntlid: 0,
        };
        assert_eq!(bench.exchange(wire, &bytes)[0].term(), term);
        assert!(bench.target.is_closing(id));
    }
    // On a queue that waits for 8 KiB of command 1 with tag `t`.
    let cases = [
        (icreq(0), (2, 0)),
        (data(99, 1, 0, 8192, true), (1, 10)),
        (data(0, 2, 0, 8192, true), (1, 8)),
        (data(0, 1, 4, 4096, false), (4, 0)),
        (data(0, 1, 0, 4096, true), (1, 1)),
        (pdu(5, 0, &[0; 16], &[], false), (1, 0)),
    ];
    for (bytes, term) in cases {
        let mut bench = Bench::new();
        let admin = bench.admin(false, 0);
        let wire = bench.queue(admin, 1, 0);
        let r2t = bench.exchange(wire, &write);
        assert_eq!(r2t[0].specific[2..4], [0, 0], "the first tag");
        assert_eq!(bench.exchange(wire, &bytes)[0].term(), term);
        assert!(bench.target.is_closing(wire.id) && !bench.target.is_closing(admin.id));
    }
}
