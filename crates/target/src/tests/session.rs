//! A whole session: from ICReq over Identify to reads and writes.

use super::host::{
    Bench, DISK_BLOCKS, HOST, IN_CAPSULE, NQN, TRANSPORT, connect_data, connect_sqe, h2cdata,
    icreq, namespace, pattern, pdu, sqe,
};
use crate::{DATA_BYTES_MAX, Failure, Hosts, Operation};
use std::vec;
use varve_nvme::Nqn;

/// The first bytes of a session, as a peer that knows only the specification expects them.
#[test]
fn golden_start() {
    let mut bench = Bench::new();
    let id = bench.target.accept(bench.now).expect("room");
    assert_eq!(bench.target.receive(bench.now, id, &icreq(0)), 128);
    let segments = bench.target.transmit(id);
    assert_eq!(segments.len(), 1);
    let icresp = segments[0].as_ref();
    assert_eq!(icresp.len(), 128);
    // ICResp, 128 bytes, format 0, alignment 0, no digests, MAXH2CDATA 512 KiB.
    assert_eq!(icresp[..8], [1, 0, 128, 0, 128, 0, 0, 0]);
    assert_eq!(icresp[8..16], [0, 0, 0, 0, 0, 0, 8, 0]);
    let capsule = pdu(
        4,
        0,
        &connect_sqe(0, 31, 0, 0),
        &connect_data(0xffff, NQN, HOST),
        false,
    );
    assert_eq!(bench.target.receive(bench.now, id, &capsule), capsule.len());
    let segments = bench.target.transmit(id);
    let response = [
        5, 0, 24, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
    ];
    assert_eq!(segments[0].as_ref(), response);
}

#[test]
fn properties() {
    let mut bench = Bench::new();
    let wire = bench.connect(NQN, false, 0);
    let mut get = |offset: u32, size: u32| {
        let command = sqe(0x7f, 9, 4, (TRANSPORT, 0), &[size, offset]);
        bench.simple(wire, &command, &[])
    };
    // CAP: MQES 127, CQR, 30 s, NVM and all sets, ready with media.
    assert_eq!(get(0, 1), (0, 0x0800_0820_3c01_007f));
    assert_eq!(get(8, 0), (0, 0x0002_0000));
    assert_eq!(get(0x1c, 0), (0, 0));
    assert_eq!(get(0x68, 0), (0, 60));
    // Wrong size, unknown property.
    assert_eq!(get(0, 0).0, 2);
    assert_eq!(get(0x20, 0).0, 2);
    bench.enable(wire);
    let csts = sqe(0x7f, 9, 4, (TRANSPORT, 0), &[0, 0x1c]);
    assert_eq!(bench.simple(wire, &csts, &[]), (0, 1));
    // A normal shutdown flushes before it is complete.
    let shutdown = sqe(0x7f, 9, 0, (TRANSPORT, 0), &[0, 0x14, 0x0046_4061]);
    assert_eq!(bench.simple(wire, &shutdown, &[]), (0, 0));
    assert_eq!(bench.flushes, 1);
    assert_eq!(bench.simple(wire, &csts, &[]), (0, 1 | 2 << 2));
}

#[test]
fn identify() {
    let mut bench = Bench::new();
    let wire = bench.admin(false, 0);
    let identify = |cns: u32, nsid: u32| sqe(6, 3, nsid, (TRANSPORT, 4096), &[cns, 0]);
    let id = bench.fetch(wire, &identify(1, 0));
    assert_eq!(id[4..24], *b"VARVE0001           ");
    assert_eq!(id[77], 7, "MDTS 512 KiB");
    assert_eq!(id[92..96], [0, 1, 0, 0], "OAES: notices, not warnings");
    assert_eq!(id[111], 1, "an I/O controller");
    assert_eq!(id[261], 0b110, "LPA: effects without scopes");
    assert_eq!(id[320..322], [10, 0], "KAS");
    assert_eq!(id[514..516], [128, 0], "MAXCMD");
    assert_eq!(id[525], 0b111, "VWC");
    assert_eq!(id[768..768 + NQN.len()], *NQN.as_bytes());
    assert_eq!(id[1792..1796], [4, 2, 0, 0], "IOCCSZ 8256 / 16");
    let ns = bench.fetch(wire, &identify(0, 1));
    assert_eq!(ns[..8], 512u64.to_le_bytes());
    assert_eq!(ns[24], 0b11, "thin, atomic");
    assert_eq!((ns[128 + 2], ns[26]), (12, 0), "one format of 4 KiB");
    assert_eq!(ns[40..42], [0xff, 1], "NABSN 511");
    assert_eq!(ns[104..120], [7; 16]);
    assert_eq!(
        bench.fetch(wire, &identify(2, 0))[..8],
        [1, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(bench.fetch(wire, &identify(3, 1))[..4], [2, 16, 0, 0]);
    assert_eq!(bench.fetch(wire, &identify(8, 1))[14], 1, "ready");
    assert_eq!(bench.fetch(wire, &identify(0xffff_001c, 0))[..2], [1, 0]);
    assert_eq!(
        bench.simple(wire, &identify(0x0099_001c, 0), &[]).0,
        2,
        "another controller"
    );
    for cns in [5, 6, 7] {
        bench.fetch(wire, &identify(cns, 1));
        let other_set = sqe(6, 3, 1, (TRANSPORT, 4096), &[cns, 2 << 24]);
        assert_eq!(bench.simple(wire, &other_set, &[]).0, 0x12c);
    }
    assert!(
        bench
            .fetch(wire, &identify(0, 2))
            .iter()
            .all(|byte| *byte == 0)
    );
    assert_eq!(bench.simple(wire, &identify(3, 2), &[]).0, 0x0b);
    assert_eq!(bench.simple(wire, &identify(0, 9999), &[]).0, 0x0b);
    assert_eq!(bench.simple(wire, &identify(0x13, 0), &[]).0, 2);
}

/// Hosts of fabrics have identifiers of 128 bits only; the shorter form is refused for that.
#[test]
fn host_identifiers() {
    let mut bench = Bench::new();
    let wire = bench.admin(false, 5000);
    let host_id = |exhid, length| sqe(10, 4, 0, (TRANSPORT, length), &[0x81, exhid]);
    assert_eq!(bench.fetch(wire, &host_id(1, 16)), [0x42; 16]);
    assert_eq!(bench.simple(wire, &host_id(0, 8), &[]).0, 2);
}

#[test]
fn features_and_logs() {
    let mut bench = Bench::new();
    let wire = bench.admin(false, 5000);
    let get = |feature: u32| sqe(10, 4, 0, (TRANSPORT, 0), &[feature, 0]);
    let set = |feature: u32, value: u32| sqe(9, 4, 0, (TRANSPORT, 0), &[feature, value]);
    assert_eq!(
        bench.simple(wire, &set(7, 0x0003_0007), &[]),
        (0, 0x0003_0003)
    );
    assert_eq!(bench.simple(wire, &get(7), &[]), (0, 0x0003_0003));
    assert_eq!(bench.simple(wire, &get(15), &[]), (0, 5000));
    assert_eq!(bench.simple(wire, &set(15, 1500), &[]), (0, 0));
    assert_eq!(
        bench.simple(wire, &get(15), &[]),
        (0, 2000),
        "rounded up to KAS"
    );
    assert_eq!(bench.simple(wire, &get(6), &[]), (0, 1), "VWC is on");
    assert_eq!(bench.simple(wire, &set(6, 0), &[]).0, 0x10e, "and stays on");
    assert_eq!(bench.simple(wire, &set(11, 0xffff_ffff), &[]), (0, 0));
    assert_eq!(
        bench.simple(wire, &get(11), &[]),
        (0, 1 << 8 | 0x3f),
        "AEC within OAES, and all critical warnings"
    );
    for feature in [1, 2, 4, 5, 10] {
        assert_eq!(bench.simple(wire, &get(feature), &[]).0, 0, "{feature}");
    }
    assert_eq!(bench.simple(wire, &get(0x99), &[]).0, 2);
    assert_eq!(
        bench.simple(wire, &set(1 | 1 << 31, 0), &[]).0,
        0x10d,
        "nothing is saved"
    );
    let log = |lid: u32, bytes: u32, offset: u32| {
        sqe(
            2,
            5,
            0xffff_ffff,
            (TRANSPORT, bytes),
            &[lid | (bytes / 4 - 1) << 16, 0, offset],
        )
    };
    let supported = bench.fetch(wire, &log(0, 1024, 0));
    for lid in 0..256u32 {
        let is_supported = supported[lid as usize * 4] & 1 == 1;
        let answers = bench.command(wire, &log(lid, 64, 0), &[]);
        assert_eq!(answers.len() == 2, is_supported, "log {lid:#x}");
    }
    let effects = bench.fetch(wire, &log(5, 4096, 0));
    assert_eq!(
        effects[1024..1032],
        [1, 0, 0, 0, 3, 0, 0, 0],
        "flush, write"
    );
    assert_eq!(bench.fetch(wire, &log(5, 4, 1028)), [3, 0, 0, 0]);
    assert_eq!(
        bench.simple(wire, &log(5, 4, 8192), &[]).0,
        2,
        "beyond the log"
    );
    let other_set = sqe(2, 5, 0, (TRANSPORT, 4), &[5, 0, 0, 0, 2 << 24]);
    assert_eq!(bench.simple(wire, &other_set, &[]).0, 0x129);
    let errors = bench.fetch(wire, &log(1, 64, 0));
    assert_eq!(
        errors[10..14],
        [5, 0, 0x52, 0x82],
        "the newest error: command 5, 129h with DNR"
    );
}

#[test]
fn reads_and_writes() {
    for (has_digests, cattr) in [(false, 0), (true, 0), (false, 4), (true, 4)] {
        let mut bench = Bench::new();
        let admin = bench.admin(has_digests, 0);
        let wire = bench.queue(admin, 1, cattr);
        let one = pattern(1, 1);
        let write = sqe(1, 1, 1, (IN_CAPSULE, 4096), &[5, 0, 0]);
        assert_eq!(bench.simple(wire, &write, &one), (0, 0));
        let many = pattern(2, 100);
        assert_eq!(bench.write_r2t(wire, 2, 10, &many, many.len()), 0);
        let other = pattern(3, 3);
        assert_eq!(bench.write_r2t(wire, 3, 200, &other, 5000), 0, "in pieces");
        let read = sqe(2, 4, 1, (TRANSPORT, 100 * 4096), &[10, 0, 99]);
        let answers = bench.command(wire, &read, &[]);
        // LAST always; SUCCESS instead of a response only without flow control.
        let expected = if cattr == 4 { (1, 12) } else { (2, 4) };
        assert_eq!((answers.len(), answers[0].flags & 12), expected);
        assert_eq!(answers[0].data, many);
        assert_eq!(bench.disk[5 * 4096..6 * 4096], one);
        assert_eq!(bench.disk[200 * 4096..203 * 4096], other);
        let compare = sqe(5, 5, 1, (IN_CAPSULE, 4096), &[5, 0, 0]);
        assert_eq!(bench.simple(wire, &compare, &one).0, 0);
        assert_eq!(bench.simple(wire, &compare, &pattern(9, 1)).0, 0x285);
        let flush = sqe(0, 6, 1, (TRANSPORT, 0), &[]);
        assert_eq!((bench.simple(wire, &flush, &[]).0, bench.flushes), (0, 1));
        let zeroes = sqe(8, 7, 1, (TRANSPORT, 0), &[5, 0, 0]);
        assert_eq!(bench.simple(wire, &zeroes, &[]).0, 0);
        assert!(bench.disk[5 * 4096..6 * 4096].iter().all(|byte| *byte == 0));
        let mut ranges = vec![0; 32];
        ranges[4] = 100;
        ranges[8] = 10;
        let discard = sqe(9, 8, 1, (IN_CAPSULE, 32), &[1, 4]);
        assert_eq!(bench.simple(wire, &discard, &ranges).0, 0);
        assert!(
            bench.disk[10 * 4096..110 * 4096]
                .iter()
                .all(|byte| *byte == 0)
        );
        // Linux sends room for 256 ranges, whatever their number is.
        let data = pattern(4, 2);
        assert_eq!(bench.write_r2t(wire, 9, 0, &data, 8192), 0);
        let mut ranges = vec![0xff; 4096];
        ranges[4..16].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let discard = sqe(9, 10, 1, (IN_CAPSULE, 4096), &[0, 4]);
        assert_eq!(bench.simple(wire, &discard, &ranges).0, 0);
        assert!(bench.disk[..4096].iter().all(|byte| *byte == 0));
        assert_eq!(bench.disk[4096..8192], data[4096..]);
    }
}

/// Commands that are wrong are answered so, ask for no data, and change nothing.
#[test]
fn refused_commands() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    let rw = |opcode, sgl, words: &[u32]| sqe(opcode, 1, 1, sgl, words);
    let big = 129 * 4096;
    let cases = [
        (rw(1, (TRANSPORT, 4096), &[512, 0, 0]), 0x80),
        (rw(2, (TRANSPORT, 8192), &[511, 0, 1]), 0x80),
        (
            rw(2, (TRANSPORT, 4096), &[0xffff_ffff, 0xffff_ffff, 0]),
            0x80,
        ),
        (rw(8, (TRANSPORT, 0), &[511, 0, 1]), 0x80),
        (rw(1, (TRANSPORT, big), &[0, 0, 128]), 0x02),
        (rw(1, (TRANSPORT, 8192), &[0, 0, 0]), 0x0f),
        (rw(2, (TRANSPORT, 512), &[0, 0, 0]), 0x0f),
        (rw(1, (IN_CAPSULE, 4096), &[0, 0, 0]), 0x0f),
        (rw(2, (IN_CAPSULE, 4096), &[0, 0, 0]), 0x11),
        (rw(1, (0x40, 4096), &[0, 0, 0]), 0x11),
        (rw(2, (TRANSPORT, 4096), &[0, 0, 1 << 29]), 0x02),
        (rw(0x0d, (TRANSPORT, 0), &[]), 0x01),
        (rw(0x7f, (TRANSPORT, 0), &[1, 0]), 0x0c),
        (rw(9, (TRANSPORT, 16), &[1, 4]), 0x0f),
        (rw(9, (TRANSPORT, 4112), &[0, 4]), 0x0f),
        (sqe(2, 1, 2, (TRANSPORT, 4096), &[0, 0, 0]), 0x0b),
        (sqe(2, 1, 0xffff_ffff, (TRANSPORT, 4096), &[0, 0, 0]), 0x0b),
    ];
    for (command, status) in cases {
        assert_eq!(bench.simple(wire, &command, &[]).0, status, "{command:x?}");
    }
    let mut fused = rw(2, (TRANSPORT, 4096), &[0, 0, 0]);
    fused[1] = 0x41;
    assert_eq!(bench.simple(wire, &fused, &[]).0, 2);
    let mut prp = rw(2, (TRANSPORT, 4096), &[0, 0, 0]);
    prp[1] = 0;
    assert_eq!(bench.simple(wire, &prp, &[]).0, 2);
    assert!(bench.disk.iter().all(|byte| *byte == 0));
    bench
        .target
        .put_namespace(1, namespace(4))
        .expect("smaller");
    let read = rw(2, (TRANSPORT, 4096), &[4, 0, 0]);
    assert_eq!(bench.simple(wire, &read, &[]).0, 0x80);
}

/// A wrong data digest costs the command, a wrong header digest the connection.
#[test]
fn digests() {
    let mut bench = Bench::new();
    let admin = bench.admin(true, 0);
    let wire = bench.queue(admin, 1, 0);
    let write = sqe(1, 1, 1, (IN_CAPSULE, 4096), &[5, 0, 0]);
    let mut bytes = pdu(4, 0, &write, &pattern(1, 1), true);
    let at = bytes.len() - 100;
    bytes[at] ^= 1;
    let answers = bench.exchange(wire, &bytes);
    assert_eq!(answers[0].response().1, 0x22);
    let answers = bench.command(wire, &sqe(1, 2, 1, (TRANSPORT, 8192), &[5, 0, 1]), &[]);
    let tags = answers[0].specific[..4].to_vec();
    let data = pattern(4, 2);
    let mut first = h2cdata(&tags, 0, &data[..4096], false, true);
    first[50] ^= 0x80;
    assert!(bench.exchange(wire, &first).is_empty());
    let second = h2cdata(&tags, 4096, &data[4096..], true, true);
    assert_eq!(bench.exchange(wire, &second)[0].response(), (2, 0x22, 0));
    assert!(
        bench.disk.iter().all(|byte| *byte == 0),
        "nothing was written"
    );
    assert_eq!(
        bench.write_r2t(wire, 3, 5, &data, 8192),
        0,
        "the connection lives"
    );
    let mut bad = pdu(4, 0, &sqe(0, 4, 1, (TRANSPORT, 0), &[]), &[], true);
    bad[20] ^= 1;
    let digest = u32::from_le_bytes(bad[72..76].try_into().expect("4 bytes"));
    let answers = bench.exchange(wire, &bad);
    assert_eq!(answers[0].term(), (3, digest));
    assert_eq!(answers[0].data, bad[..72]);
    assert!(bench.target.is_closing(wire.id));
    assert!(!bench.target.is_closing(admin.id));
}

/// Data of reads and R2Ts together stay below the bound; all are served in the end.
#[test]
fn data_is_bounded() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 4);
    bench.is_held = true;
    let read = |cid| {
        pdu(
            4,
            0,
            &sqe(2, cid, 1, (TRANSPORT, 1 << 19), &[0, 0, 127]),
            &[],
            false,
        )
    };
    for cid in 0..60 {
        assert!(bench.exchange(wire, &read(cid)).is_empty());
    }
    assert_eq!(bench.held.len() as u64, DATA_BYTES_MAX >> 19);
    let mut served = 0;
    while let Some(action) = bench.held.pop() {
        bench.execute(action);
        bench.run();
        served += bench.answers(wire).len();
        assert!(bench.held.len() as u64 <= DATA_BYTES_MAX >> 19);
    }
    assert_eq!(served, 60);
}

#[test]
fn only_named_hosts() {
    let friend = Nqn::new(HOST).expect("a name");
    let mut bench = Bench::with_hosts(Hosts::Only([friend].into()));
    bench.admin(false, 0);
    let wire = bench.open(false);
    let data = connect_data(0xffff, NQN, "nqn.2026-11.io.stranger:x");
    assert_eq!(
        bench.simple(wire, &connect_sqe(0, 31, 0, 0), &data).0,
        0x184
    );
}

/// Data may be received where it belongs; with and without a digest behind it.
#[test]
fn data_in_place() {
    for has_digests in [false, true] {
        let mut bench = Bench::new();
        let admin = bench.admin(has_digests, 0);
        let wire = bench.queue(admin, 1, 0);
        let write = sqe(1, 2, 1, (TRANSPORT, 8192), &[5, 0, 1]);
        let r2t = bench.command(wire, &write, &[]);
        let data = pattern(4, 2);
        let bytes = h2cdata(&r2t[0].specific[..4], 0, &data, true, has_digests);
        let head = if has_digests { 28 } else { 24 };
        assert_eq!(bench.target.missing(wire.id), 0);
        assert_eq!(
            bench.target.receive(bench.now, wire.id, &bytes[..head]),
            head
        );
        for part in data.chunks(5000) {
            let mut lent = bench.target.lend(wire.id);
            lent.extend_from_slice(part);
            let surplus = bench.target.give_back(bench.now, wire.id, lent);
            assert!(surplus.is_empty());
        }
        assert_eq!(bench.target.missing(wire.id), 0);
        let answers = bench.exchange(wire, &bytes[head + data.len()..]);
        assert_eq!(answers[0].response(), (2, 0, 0));
        assert_eq!(bench.disk[5 * 4096..7 * 4096], data);
    }
}

/// Linux looks at VWC when it meets a controller, not when a namespace is added: a controller without one that needs
/// flushes must not say that none ever will.
#[test]
fn a_controller_without_namespaces_asks_for_flushes() {
    let mut bench = Bench::new();
    bench.target.remove_namespace(1);
    let admin = bench.admin(false, 0);
    let id = bench.fetch(admin, &sqe(6, 3, 0, (TRANSPORT, 4096), &[1]));
    assert_eq!(id[525], 0b111);
    let cache = sqe(10, 4, 0, (TRANSPORT, 0), &[6]);
    assert_eq!(bench.simple(admin, &cache, &[]), (0, 1), "enabled");
}

/// FUA of a read or compare: what was answered becomes durable first, where it is not already.
#[test]
fn reads_that_force_unit_access() {
    let fua = 1 << 30;
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    let one = pattern(0, 1);
    bench.disk[..4096].copy_from_slice(&one);
    let read = sqe(2, 4, 1, (TRANSPORT, 4096), &[0, 0, fua]);
    let compare = sqe(5, 5, 1, (IN_CAPSULE, 4096), &[0, 0, fua]);
    assert_eq!(bench.fetch(wire, &read), one);
    assert_eq!(bench.flushes, 1);
    assert_eq!(bench.simple(wire, &compare, &one), (0, 0));
    assert_eq!(bench.simple(wire, &compare, &pattern(1, 1)).0, 0x285);
    assert_eq!(bench.flushes, 3);
    assert_eq!(bench.target.data().0, 0);
    // The blocks are not read before, nor if they could not be made durable.
    bench.is_held = true;
    assert!(bench.command(wire, &read, &[]).is_empty());
    let flush = bench.held.pop().expect("one action");
    assert_eq!((flush.nsid, &flush.operation), (Some(1), &Operation::Flush));
    let failed = Err(Failure::WriteFault);
    bench.target.complete(flush.connection, flush.tag, failed);
    bench.run();
    assert!(bench.held.is_empty());
    assert_eq!(bench.answers(wire)[0].response(), (4, 0x280, 0));
    assert_eq!(bench.target.data().0, 0);
    bench.is_held = false;
    let mut durable = namespace(DISK_BLOCKS);
    durable.is_volatile = false;
    bench.target.put_namespace(1, durable).expect("good");
    assert_eq!(bench.fetch(wire, &read), one);
    assert_eq!(bench.flushes, 3);
}
