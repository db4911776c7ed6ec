//! The discovery subsystem.

use super::host::{Bench, DISCOVERY, HOST, TRANSPORT, Wire, connect_data, connect_sqe, sqe};
use crate::{Hosts, Listener};
use std::vec;
use std::vec::Vec;
use varve_units::Nanos;

fn log(bench: &mut Bench, wire: Wire, bytes: u32) -> Vec<u8> {
    let words = [0x70 | (bytes / 4 - 1) << 16, 0];
    bench.fetch(wire, &sqe(2, 5, 0, (TRANSPORT, bytes), &words))
}

#[test]
fn log_names_what_is_advertised() {
    let mut bench = Bench::new();
    let wire = bench.connect(DISCOVERY, false, 0);
    bench.enable(wire);
    let id = bench.fetch(wire, &sqe(6, 3, 0, (TRANSPORT, 4096), &[1]));
    assert_eq!(id[111], 2, "a discovery controller");
    assert_eq!(id[92..96], [0, 0, 0, 0x80], "OAES discovery log");
    let bytes = log(&mut bench, wire, 3072);
    assert_eq!((bytes[0], bytes[8]), (1, 2), "generation, entries");
    let entry = &bytes[1024..2048];
    assert_eq!(entry[..3], [3, 1, 2], "TCP, IPv4, NVM subsystem");
    assert_eq!(entry[6..8], [0xff, 0xff]);
    assert_eq!(entry[32..37], *b"4420 ");
    assert_eq!(entry[512..522], *b"192.0.2.1 ");
    assert_eq!(bytes[2048 + 2], 3, "this discovery subsystem");
    // Namespaces are not served here, nor I/O queues.
    let read = sqe(6, 3, 1, (TRANSPORT, 4096), &[0]);
    assert_eq!(bench.simple(wire, &read, &[]).0, 2);
    let queue = bench.open(false);
    let data = super::host::connect_data(wire.cntlid, DISCOVERY, HOST);
    let connect = super::host::connect_sqe(1, 31, 0, 0);
    assert_eq!(bench.simple(queue, &connect, &data).0, 0x182);
}

#[test]
fn changes_are_told() {
    let mut bench = Bench::new();
    let wire = bench.connect(DISCOVERY, false, 30_000);
    bench.enable(wire);
    assert_eq!(
        bench
            .simple(wire, &sqe(9, 3, 0, (TRANSPORT, 0), &[11, 1 << 31]), &[])
            .0,
        0
    );
    assert!(
        bench
            .command(wire, &sqe(0x0c, 20, 0, (TRANSPORT, 0), &[]), &[])
            .is_empty()
    );
    let listener = Listener {
        advertise: "[2001:db8::1]:4420".parse().expect("an address"),
        is_discovery: false,
    };
    bench.target.set_listeners(vec![listener]);
    assert_eq!(bench.answers(wire)[0].response(), (20, 0, 0x0070_f002));
    let bytes = log(&mut bench, wire, 2048);
    assert_eq!((bytes[0], bytes[8]), (2, 1));
    assert_eq!((bytes[1025], &bytes[1536..1548]), (2, &b"2001:db8::1 "[..]));
}

#[test]
fn strangers_see_no_subsystem() {
    let mut bench = Bench::with_hosts(Hosts::Only([].into()));
    let wire = bench.connect(DISCOVERY, false, 0);
    bench.enable(wire);
    let bytes = log(&mut bench, wire, 2048);
    assert_eq!(
        (bytes[8], bytes[1026]),
        (1, 3),
        "only the discovery subsystem"
    );
}

/// Whoever asks what there is and goes away without a word leaves nothing behind, and any number of them leaves room
/// for hosts that want to read and write.
#[test]
fn silent_askers_keep_nobody_out() {
    let mut bench = Bench::new();
    let start = bench.now;
    let first = bench.connect(DISCOVERY, false, 0);
    for _ in 1..128 {
        bench.connect(DISCOVERY, false, 0);
    }
    let refused = bench.open(false);
    let data = connect_data(0xffff, DISCOVERY, HOST);
    let (status, _) = bench.simple(refused, &connect_sqe(0, 31, 0, 0), &data);
    assert_eq!(status & 0x7ff, 0x181, "busy");
    bench.admin(false, 0);
    assert_eq!(bench.target.controllers(), 129);
    let at = start + Nanos::from_secs(120);
    assert!(bench.target.deadline().is_some_and(|due| due <= at));
    bench.pass(at.since(bench.now));
    assert!(bench.target.is_closing(first.id));
}
