//! Peers that send anything: nothing panics, memory stays bounded, others are not disturbed.

use super::host::{
    Bench, HOST, IN_CAPSULE, NQN, TRANSPORT, Wire, connect_data, connect_sqe, h2cdata, icreq,
    pattern, pdu, sqe,
};
use crate::QUEUE_ENTRIES_MAX;
use crate::connection::OUTPUT_BYTES_ENTRY;
use std::vec;
use std::vec::Vec;

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ b >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A plausible session: PDUs of a host that cannot see answers, so tags are guessed.
fn session(chance: &mut Chance, has_digests: bool) -> Vec<Vec<u8>> {
    let capsule = |sqe: &[u8], data: &[u8]| pdu(4, 0, sqe, data, has_digests);
    let qid = chance.below(3) as u16;
    let cntlid = if qid == 0 { 0xffff } else { 1 };
    let connect = connect_sqe(qid, 31, chance.below(2) as u8 * 4, 0);
    let mut all = Vec::from([
        icreq(if has_digests { 3 } else { 0 }),
        capsule(&connect, &connect_data(cntlid, NQN, HOST)),
    ]);
    if qid == 0 {
        all.push(capsule(
            &sqe(0x7f, 2, 0, (TRANSPORT, 0), &[0, 0x14, 0x0046_0061]),
            &[],
        ));
    }
    for _ in 0..chance.below(60) {
        let cid = chance.below(8) as u16;
        let word = chance.next() as u32;
        all.push(match chance.below(9) {
            0 => capsule(
                &sqe(1, cid, 1, (IN_CAPSULE, 4096), &[3, 0, 0]),
                &pattern(1, 1),
            ),
            1 => capsule(&sqe(1, cid, 1, (TRANSPORT, 8192), &[3, 0, 1]), &[]),
            2 => h2cdata(
                &[cid as u8, 0, chance.below(4) as u8, 0],
                0,
                &pattern(2, 2),
                true,
                has_digests,
            ),
            3 => capsule(&sqe(2, cid, 1, (TRANSPORT, 1 << 19), &[0, 0, 127]), &[]),
            4 => capsule(&sqe(6, cid, 1, (TRANSPORT, 4096), &[word & 31]), &[]),
            5 => capsule(
                &sqe(2, cid, 0, (TRANSPORT, 4096), &[word & 15 | 1023 << 16]),
                &[],
            ),
            6 => capsule(
                &sqe(
                    chance.next() as u8,
                    cid,
                    1,
                    (TRANSPORT, 0),
                    &[word, word, word],
                ),
                &[],
            ),
            7 => capsule(&sqe(0x0c, cid, 0, (TRANSPORT, 0), &[]), &[]),
            _ => capsule(
                &sqe(9, cid, 1, (IN_CAPSULE, 16), &[0, 4]),
                &[word as u8; 16],
            ),
        });
    }
    all
}

/// Damages a stream in up to four places, or not at all.
fn damage(chance: &mut Chance, stream: &mut Vec<u8>) {
    for _ in 0..chance.below(5) {
        let at = chance.below(stream.len());
        match chance.below(4) {
            0 => stream[at] ^= 1 << chance.below(8),
            1 => stream[at] = chance.next() as u8,
            2 => stream.truncate(at.max(1)),
            _ => {
                let piece: Vec<u8> = stream[..at].to_vec();
                stream.extend_from_slice(&piece);
            }
        }
    }
}

/// Feeds a stream in drawn pieces; answers are taken and actions executed now and then.
fn play(bench: &mut Bench, chance: &mut Chance, stream: &[u8]) {
    let id = bench.target.accept(bench.now).expect("room");
    let mut at = 0;
    let mut was_stuck = false;
    while at < stream.len() {
        let end = stream.len().min(at + 1 + chance.below(20_000));
        let taken = bench.target.receive(bench.now, id, &stream[at..end]);
        at += taken;
        bench.is_held = chance.below(2) == 0;
        bench.run();
        let is_stuck = taken == 0;
        was_stuck &= is_stuck;
        if is_stuck || chance.below(4) == 0 {
            let sent = bench.target.transmit(id);
            let small: usize = sent
                .iter()
                .filter(|segment| matches!(segment, crate::Segment::Bytes(_)))
                .map(|segment| segment.as_ref().len())
                .sum();
            // One command's answer may come on top of the bound.
            let bound = OUTPUT_BYTES_ENTRY * usize::from(QUEUE_ENTRIES_MAX) + (1 << 19) + 4096;
            assert!(small <= bound, "{small} bytes of answers");
            // What was taken to be sent before is sent by now.
            let is_over = is_stuck && was_stuck && sent.is_empty();
            assert!(!is_over, "neither takes nor sends");
            was_stuck = is_stuck && sent.is_empty();
        }
    }
    if chance.below(2) == 0 {
        bench.target.closed(id);
    }
    for action in core::mem::take(&mut bench.held) {
        bench.execute(action);
    }
    bench.target.closed(id);
    bench.is_held = false;
    bench.run();
}

/// An I/O queue of a host whose name the sessions do not know: who goes by another's can end its queues.
fn stranger(bench: &mut Bench) -> Wire {
    let name = "nqn.2026-11.io.stranger:x";
    let mut connect = |cntlid, qid| {
        let mut wire = bench.open(true);
        let data = connect_data(cntlid, NQN, name);
        let (status, cntlid) = bench.simple(wire, &connect_sqe(qid, 31, 0, 0), &data);
        wire.cntlid = cntlid as u16;
        assert_eq!(status, 0);
        if qid == 0 {
            bench.enable(wire);
        }
        wire
    };
    let admin = connect(0xffff, 0);
    connect(admin.cntlid, 1)
}

/// Plays the sessions of these seeds; a good host works beside them all the time.
fn campaign(seeds: core::ops::Range<u64>) {
    let mut bench = Bench::new();
    let victim = bench.admin(true, 0);
    assert_eq!(victim.cntlid, 1, "that sessions name");
    let wire = stranger(&mut bench);
    for seed in seeds {
        let mut chance = Chance(seed);
        let has_digests = chance.below(2) == 0;
        let mut stream = session(&mut chance, has_digests).concat();
        damage(&mut chance, &mut stream);
        play(&mut bench, &mut chance, &stream);
        let data = pattern(seed as u8, 3);
        let status = bench.write_r2t(wire, 7, 300, &data, 4096);
        assert_eq!(status, 0, "seed {seed}: the good host");
        let read = sqe(2, 8, 1, (TRANSPORT, 3 * 4096), &[300, 0, 2]);
        assert_eq!(bench.fetch(wire, &read), data, "seed {seed}");
        assert_eq!(
            bench.target.controllers(),
            2,
            "seed {seed}: controllers are given back"
        );
    }
}

#[test]
fn mutated_sessions() {
    campaign(0..1500);
}

/// Bytes without any form.
#[test]
fn noise() {
    let mut bench = Bench::new();
    for seed in 0..300 {
        let mut chance = Chance(seed ^ 0xdead_0000);
        let len = chance.below(3000) + 1;
        let stream: Vec<u8> = (0..len).map(|_| chance.next() as u8).collect();
        play(&mut bench, &mut chance, &stream);
    }
    bench.admin(false, 0);
}

/// A host that sends commands and never reads answers is not listened to any more.
#[test]
fn who_does_not_read_is_not_heard() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let identify = pdu(4, 0, &sqe(6, 1, 0, (TRANSPORT, 4096), &[1]), &[], false);
    let mut taken = 0;
    for _ in 0..10_000 {
        taken += bench.target.receive(bench.now, admin.id, &identify);
    }
    assert!(taken < 10 * identify.len(), "{taken} bytes were taken");
    assert!(!bench.answers(admin).is_empty());
    let rest = identify[taken % identify.len()..].to_vec();
    assert_eq!(
        bench.exchange(admin, &rest).len(),
        2,
        "goes on after reading"
    );
}

/// Data that was not asked for ends the connection before it gets memory, whoever sends it; of Connect's
/// data no more than that is asked for.
#[test]
fn data_that_nobody_asked_for_gets_no_memory() {
    let mut bench = Bench::new();
    let admin = bench.admin(false, 0);
    let wire = bench.queue(admin, 1, 0);
    let ended = |bench: &mut Bench, wire: Wire, bytes: &[u8], status: u8, detail: u8| {
        let answers = bench.exchange(wire, bytes);
        let told: Vec<_> = answers
            .iter()
            .map(|one| (one.kind, one.specific[0], one.specific[2]))
            .collect();
        assert_eq!(told, [(3, status, detail)]);
        assert!(bench.target.is_closing(wire.id));
    };
    // 24 bytes of header, and none of the 512 KiB that it says follow.
    let head =
        |tags: &[u8], bytes: usize| h2cdata(tags, 0, &vec![0; bytes], true, false)[..24].to_vec();
    let silent = bench.open(false);
    ended(&mut bench, silent, &head(&[0, 0, 0, 0], 1 << 19), 1, 10);
    ended(&mut bench, wire, &head(&[0, 0, 0, 0], 1 << 19), 1, 10);
    let connecting = bench.open(false);
    let mut connect = connect_sqe(0, 31, 0, 0);
    connect[32..36].copy_from_slice(&1024u32.to_le_bytes());
    connect[39] = TRANSPORT;
    let r2t = bench.command(connecting, &connect, &[]);
    assert_eq!(
        (r2t[0].kind, &r2t[0].specific[8..12]),
        (9, &1024u32.to_le_bytes()[..])
    );
    let tags = r2t[0].specific[..4].to_vec();
    ended(&mut bench, connecting, &head(&tags, 1025), 4, 0);
}

/// Who has not connected has a capsule's worth of memory here, and may leave a few answers unread.
#[test]
fn who_has_not_connected_holds_little() {
    let mut bench = Bench::new();
    let wire = bench.open(false);
    let capsule = pdu(4, 0, &sqe(6, 1, 0, (TRANSPORT, 4096), &[1]), &[], false);
    let mut taken = 0;
    for _ in 0..10_000 {
        taken += bench.target.receive(bench.now, wire.id, &capsule);
    }
    assert!(taken < 200 * capsule.len(), "{taken} bytes were taken");
    let sent: usize = bench
        .target
        .transmit(wire.id)
        .iter()
        .map(|one| one.as_ref().len())
        .sum();
    assert!(sent < 5000, "{sent} bytes of answers");
    assert!(bench.target.transmit(wire.id).is_empty(), "it is sent");
    assert!(
        bench.target.receive(bench.now, wire.id, &capsule) > 0,
        "goes on after reading"
    );
}
