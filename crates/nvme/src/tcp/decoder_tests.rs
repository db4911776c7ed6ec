//! Golden PDUs, all cuts of a stream, each single wrong field.

use super::super::header::{DataTransfer, IcReq, IcResp, R2t};
use super::super::{ADMIN_CAPSULE_DATA, encode};
use super::*;
use crate::{Cqe, Sqe, Status};
use alloc::vec;

const LIMITS: Limits = Limits {
    capsule_data_max: ADMIN_CAPSULE_DATA,
    data_max: 65_536,
    pda: 0,
};
const BOTH: Digests = Digests {
    header: true,
    data: true,
};

fn decoder(sender: Side, digests: Digests) -> Decoder {
    let mut decoder = Decoder::new(sender, LIMITS);
    decoder.set_digests(digests);
    decoder
}

/// One PDU as bytes.
fn wire(header: &Header, flags: u8, data: &[u8], digests: Digests) -> Vec<u8> {
    let mut bytes = encode(header, flags, data.len(), digests, 0).to_vec();
    bytes.extend_from_slice(data);
    if digests.data && !data.is_empty() && header.kind().has_data() {
        bytes.extend_from_slice(&data_digest(&[data]));
    }
    bytes
}

/// Feeds pieces of `size` bytes.
fn decode(decoder: &mut Decoder, bytes: &[u8], size: usize) -> Result<Vec<Pdu>, FatalError> {
    let mut pdus = Vec::new();
    for piece in bytes.chunks(size) {
        let mut rest = piece;
        while !rest.is_empty() {
            let progress = decoder.feed(rest)?;
            assert!(progress.taken > 0, "progress");
            rest = &rest[progress.taken..];
            pdus.extend(progress.pdu);
        }
    }
    Ok(pdus)
}

fn samples(sender: Side) -> Vec<(Header, Vec<u8>)> {
    let fatal = FatalError::new(FatalStatus::Sequence, 0, &[]);
    let sqe = Sqe::new(2, 9, 1);
    let all = [
        (Header::IcReq(IcReq::new(0, 3, 0)), vec![]),
        (Header::IcResp(IcResp::new(0, 3, 65_536)), vec![]),
        (Header::H2cTermReq((&fatal).into()), vec![]),
        (Header::C2hTermReq((&fatal).into()), vec![]),
        (Header::CapsuleCmd(sqe), vec![]),
        (Header::CapsuleCmd(sqe), vec![5; 4096]),
        (Header::CapsuleResp(Cqe::new(9, Status::Success, 1)), vec![]),
        (Header::H2cData(DataTransfer::new(9, 1, 0, 8)), vec![6; 8]),
        (Header::C2hData(DataTransfer::new(9, 0, 0, 3)), vec![7; 3]),
        (Header::R2t(R2t::new(9, 1, 0, 4096)), vec![]),
    ];
    let own = all
        .into_iter()
        .filter(|(header, _)| header.kind().sender() == sender);
    own.collect()
}

#[test]
fn golden_icreq() {
    let bytes = wire(
        &Header::IcReq(IcReq::new(0, 1, 0)),
        0,
        &[],
        Digests::default(),
    );
    assert_eq!(bytes.len(), 128);
    assert_eq!(bytes[..12], [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn golden_data_with_digests() {
    let header = Header::C2hData(DataTransfer::new(0x0102, 0, 4, 2));
    let bytes = wire(&header, flag::LAST, &[1, 2], BOTH);
    assert_eq!(bytes[..8], [7, 0b111, 24, 28, 34, 0, 0, 0]);
    assert_eq!(bytes[8..20], [2, 1, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[24..28], data_digest(&[&bytes[..24]]));
    assert_eq!(bytes[30..], data_digest(&[&[1, 2]]));
}

/// What was encoded is decoded, however the stream is cut.
#[test]
fn there_and_back() {
    for sender in [Side::Host, Side::Controller] {
        for digests in [Digests::default(), BOTH] {
            let samples = samples(sender);
            let stream: Vec<u8> = samples
                .iter()
                .flat_map(|(header, data)| wire(header, 0, data, digests))
                .collect();
            for size in [1, 3, 7, 8, 24, 100, stream.len()] {
                let mut decoder = decoder(sender, digests);
                let pdus = decode(&mut decoder, &stream, size).expect("a good stream");
                let found: Vec<_> = pdus.into_iter().map(|pdu| (pdu.header, pdu.data)).collect();
                assert_eq!(found, samples, "pieces of {size}");
                assert!(decoder.is_between());
            }
        }
    }
}

/// Payload may be received where it belongs; what comes behind it is told apart.
#[test]
fn payload_is_lent() {
    let mut bytes = wire(&Header::CapsuleCmd(Sqe::new(1, 1, 1)), 0, &[9; 512], BOTH);
    let mut decoder = decoder(Side::Host, BOTH);
    assert_eq!(decoder.missing(), 0);
    let first = decoder.feed(&bytes[..80]).expect("good");
    assert_eq!((first.taken, first.pdu), (80, None));
    assert_eq!(decoder.missing(), 508);
    let mut lent = decoder.lend();
    assert!(lent.len() == 4 && lent.capacity() >= 512);
    lent.extend_from_slice(&bytes[80..100]);
    assert!(decoder.give_back(lent).is_empty());
    assert_eq!(decoder.missing(), 488);
    let mut lent = decoder.lend();
    lent.extend_from_slice(&bytes[100..590]);
    let surplus = decoder.give_back(lent);
    assert_eq!((decoder.missing(), &surplus[..]), (0, &bytes[588..590]));
    let none = decoder.feed(&surplus).expect("good");
    assert_eq!((none.taken, none.pdu), (2, None));
    let last = decoder.feed(&bytes.split_off(590)).expect("good");
    let pdu = last.pdu.expect("whole");
    assert_eq!((pdu.digest, pdu.data), (DataDigest::Good, vec![9; 512]));
}

#[test]
fn digests_are_checked() {
    let mut bytes = wire(&Header::CapsuleCmd(Sqe::new(1, 1, 1)), 0, &[9; 512], BOTH);
    bytes[100] ^= 1;
    let pdus = decode(&mut decoder(Side::Host, BOTH), &bytes, 4096).expect("goes on");
    assert_eq!(pdus[0].digest, DataDigest::Bad);
    bytes[20] ^= 1;
    let error = decode(&mut decoder(Side::Host, BOTH), &bytes, 4096).expect_err("ends");
    let digest = u32::from_le_bytes([bytes[72], bytes[73], bytes[74], bytes[75]]);
    assert_eq!(
        (error.status, error.detail),
        (FatalStatus::HeaderDigest, digest)
    );
    assert_eq!(error.header, &bytes[..72]);
}

/// Each wrong byte of a common header, with the grade and offset that the TermReq will say.
#[test]
fn wrong_headers() {
    use FatalStatus::{InvalidField, LimitExceeded};
    let capsule = wire(
        &Header::CapsuleCmd(Sqe::new(1, 1, 1)),
        0,
        &[9; 512],
        Digests::default(),
    );
    let data = wire(
        &Header::H2cData(DataTransfer::new(1, 1, 0, 8)),
        0,
        &[9; 8],
        Digests::default(),
    );
    let icreq = wire(
        &Header::IcReq(IcReq::new(0, 0, 0)),
        0,
        &[],
        Digests::default(),
    );
    type Case<'a> = (&'a [u8], usize, &'a [u8], FatalStatus, u32);
    let cases: [Case<'_>; 14] = [
        (&capsule, 0, &[0x0a], InvalidField, 0),
        (&capsule, 0, &[0x08], InvalidField, 0),
        (&capsule, 0, &[0x05], InvalidField, 0),
        (&capsule, 1, &[flag::HDGST], InvalidField, 1),
        (&capsule, 1, &[flag::DDGST], InvalidField, 1),
        (&capsule, 2, &[71], InvalidField, 2),
        (&capsule, 3, &[71], InvalidField, 3),
        (&capsule, 3, &[74], InvalidField, 3),
        (&capsule, 4, &[71, 0, 0, 0], InvalidField, 4),
        (&capsule, 4, &[0xff, 0xff, 0xff, 0xff], InvalidField, 4),
        (&data, 4, &[0, 0, 2, 0], LimitExceeded, 0),
        (&data, 16, &[9], InvalidField, 16),
        (&data, 4, &[24, 0, 0, 0], InvalidField, 4),
        (&icreq, 4, &[129, 0, 0, 0], InvalidField, 4),
    ];
    for (base, at, change, status, detail) in cases {
        let mut bytes = base.to_vec();
        bytes[at..at + change.len()].copy_from_slice(change);
        let mut decoder = decoder(Side::Host, Digests::default());
        let error = decode(&mut decoder, &bytes, 4096).expect_err("refused");
        assert_eq!(
            (error.status, error.detail),
            (status, detail),
            "{at} {change:?}"
        );
        assert!(decoder.feed(&[0]).is_err(), "stays failed");
    }
}

/// Memory that is used again holds what was received, whatever lengths follow one another.
#[test]
fn recycled_memory() {
    let mut decoder = decoder(Side::Controller, BOTH);
    for (round, len) in [5000, 40, 5000, 9000, 4, 9000].into_iter().enumerate() {
        let data = vec![round as u8 + 1; len];
        let transfer = DataTransfer::new(1, 0, 0, len as u32);
        let bytes = wire(&Header::C2hData(transfer), 0, &data, BOTH);
        let mut found = None;
        for part in bytes.chunks(777) {
            let progress = decoder.feed(part).expect("a good PDU");
            found = found.or(progress.pdu);
        }
        let pdu = found.expect("a whole PDU");
        assert!(pdu.data == data && pdu.digest == DataDigest::Good);
        decoder.recycle(pdu.data);
    }
}
