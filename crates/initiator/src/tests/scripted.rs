//! A queue against a controller that is bytes written by hand.

use super::net::gather;
use crate::error::Loss;
use crate::flights::{Owner, Transfer};
use crate::payload::Payload;
use crate::queue::{Queue, Told};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;
use varve_nvme::Sqe;
use varve_nvme::tcp::{Digests, FatalStatus};
use varve_units::Nanos;

/// CID of the first command of a queue, and of the second.
const FIRST: u16 = 1 << 10;
const SECOND: u16 = 1 << 10 | 1;
const DATA: u32 = 3 * 4096;

/// A PDU without digests: type, flags, header behind the common one, data at `pdo`.
fn pdu(kind: u8, flags: u8, specific: &[u8], data: &[u8]) -> Vec<u8> {
    let hlen = 8 + specific.len();
    let pdo = if data.is_empty() { 0 } else { hlen };
    let plen = (hlen + data.len()) as u32;
    let mut bytes = vec![kind, flags, hlen as u8, pdo as u8];
    bytes.extend_from_slice(&plen.to_le_bytes());
    bytes.extend_from_slice(specific);
    bytes.extend_from_slice(data);
    bytes
}

fn icresp(pfv: u16, cpda: u8, dgst: u8, maxh2cdata: u32) -> Vec<u8> {
    let mut specific = [0; 120];
    specific[..2].copy_from_slice(&pfv.to_le_bytes());
    specific[2..4].copy_from_slice(&[cpda, dgst]);
    specific[4..8].copy_from_slice(&maxh2cdata.to_le_bytes());
    pdu(1, 0, &specific, &[])
}

fn response(cid: u16, status: u16) -> Vec<u8> {
    let mut specific = [0; 16];
    specific[12..14].copy_from_slice(&cid.to_le_bytes());
    specific[14..].copy_from_slice(&(status << 1).to_le_bytes());
    pdu(5, 0, &specific, &[])
}

/// The header of C2HData, H2CData and R2T.
fn transfer(cid: u16, tag: u16, offset: u32, length: u32) -> [u8; 16] {
    let mut specific = [0; 16];
    specific[..2].copy_from_slice(&cid.to_le_bytes());
    specific[2..4].copy_from_slice(&tag.to_le_bytes());
    specific[4..8].copy_from_slice(&offset.to_le_bytes());
    specific[8..12].copy_from_slice(&length.to_le_bytes());
    specific
}

fn c2hdata(cid: u16, flags: u8, offset: u32, length: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..length).map(|at| (offset as usize + at) as u8).collect();
    pdu(7, flags, &transfer(cid, 0, offset, length as u32), &data)
}

fn r2t(cid: u16, offset: u32, length: u32) -> Vec<u8> {
    pdu(9, 0, &transfer(cid, 0x77, offset, length), &[])
}

fn sent(queue: &mut Queue) -> Vec<u8> {
    let segments = queue.transmit();
    let bytes = segments.iter().flat_map(|one| one.as_ref().to_vec());
    bytes.collect()
}

fn feed(queue: &mut Queue, mut bytes: &[u8]) -> Result<(), Loss> {
    while !bytes.is_empty() {
        bytes = &bytes[queue.receive(bytes)?..];
    }
    Ok(())
}

/// A queue with a read, then a write of [`DATA`] bytes that does not fit a capsule.
fn busy(cpda: u8, maxh2cdata: u32) -> Queue {
    let mut queue = Queue::new(1, Digests::default(), DATA);
    queue.grow(8);
    assert_eq!(sent(&mut queue).len(), 128);
    let received = feed(&mut queue, &icresp(0, cpda, 0, maxh2cdata));
    assert_eq!(received, Ok(()));
    assert!(matches!(queue.told.pop_front(), Some(Told::Open)));
    let deadline = Some(Nanos(1));
    let (read, write) = (Sqe::new(2, 0, 1), Sqe::new(1, 0, 1));
    queue.submit(read, Transfer::ToHost(DATA), Owner::Dialogue, deadline);
    let payload = Payload::Gather(Rc::new(gather(1, 0, 3)), 0);
    let data = Transfer::ToController(payload, DATA);
    queue.submit(write, data, Owner::KeepAlive, deadline);
    queue
}

#[test]
fn golden_start() {
    let mut queue = Queue::new(0, Digests::from_bits(3), 4096);
    let icreq = sent(&mut queue);
    assert_eq!(
        icreq[..16],
        [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]
    );
    assert_eq!((icreq.len(), icreq[16..].iter().max()), (128, Some(&0)));
    let mut queue = busy(0, 8192);
    let bytes = sent(&mut queue);
    assert_eq!(bytes.len(), 144, "two capsules without data");
    assert_eq!(bytes[..12], [4, 0, 72, 0, 72, 0, 0, 0, 2, 0x40, 0, 4]);
    assert_eq!(bytes[40..48], [0, 0x30, 0, 0, 0, 0, 0, 0x5a]);
    assert_eq!(bytes[72..84], [4, 0, 72, 0, 72, 0, 0, 0, 1, 0x40, 1, 4]);
}

#[test]
fn small_data_goes_into_the_capsule() {
    let mut queue = busy(0, 8192);
    drop(sent(&mut queue));
    let payload = Payload::Gather(Rc::new(gather(1, 0, 2)), 4096);
    let data = Transfer::ToController(payload, 4096);
    queue.submit(Sqe::new(1, 0, 1), data, Owner::Dialogue, None);
    let bytes = sent(&mut queue);
    assert_eq!(bytes.len(), 72 + 4096);
    assert_eq!(bytes[..8], [4, 0, 72, 72, 0x48, 0x10, 0, 0]);
    assert_eq!(bytes[40..48], [0, 0x10, 0, 0, 0, 0, 0, 1]);
    assert!(bytes[72..] == super::net::content(1, 1));
    // It is not asked for any more.
    let third = 1 << 10 | 2;
    let Err(Loss::Protocol(error)) = feed(&mut queue, &r2t(third, 0, 4096)) else {
        panic!("a transfer of data that was sent");
    };
    assert_eq!(error.status, FatalStatus::InvalidField);
}

/// A transfer is cut at MAXH2CDATA, its data aligned as the controller asked.
#[test]
fn transfers_are_cut_and_aligned() {
    let mut queue = busy(31, 5003);
    drop(sent(&mut queue));
    assert_eq!(feed(&mut queue, &r2t(SECOND, 0, 8000)), Ok(()));
    let bytes = sent(&mut queue);
    // 5000 bytes: MAXH2CDATA, and a multiple of 4.
    assert_eq!(bytes[..8], [6, 0, 24, 128, 0x08, 0x14, 0, 0]);
    assert_eq!(bytes[8..24], transfer(SECOND, 0x77, 0, 5000));
    let next = &bytes[128 + 5000..];
    assert_eq!(next[..4], [6, 4, 24, 128], "LAST");
    assert_eq!(next[8..24], transfer(SECOND, 0x77, 5000, 3000));
    assert_eq!(next.len(), 128 + 3000);
    assert_eq!(feed(&mut queue, &r2t(SECOND, 8000, DATA - 8000)), Ok(()));
    let rest = sent(&mut queue);
    let data = [&bytes[128..5128], &next[128..], &rest[128..]].concat();
    let expected: Vec<u8> = (0..3).flat_map(|lba| super::net::content(1, lba)).collect();
    assert!(data == expected);
    assert_eq!(feed(&mut queue, &response(SECOND, 0)), Ok(()));
    let Some(Told::Done(done)) = queue.told.pop_front() else {
        panic!("not done");
    };
    assert!(done.owner == Owner::KeepAlive && done.status.is_success() && done.is_whole);
}

#[test]
fn success_needs_no_response() {
    let mut queue = busy(0, 8192);
    let half = DATA / 2;
    let mut bytes = c2hdata(FIRST, 0, 0, half as usize);
    bytes.extend(c2hdata(FIRST, 12, half, half as usize));
    assert_eq!(feed(&mut queue, &bytes), Ok(()));
    let told: Vec<_> = queue.told.drain(..).collect();
    assert_eq!(told.len(), 3);
    assert!(matches!(&told[1], Told::Data { offset, .. } if *offset == half));
    assert!(matches!(&told[2], Told::Done(done) if done.is_whole));
    assert!(
        feed(&mut queue, &response(FIRST, 0)).is_err(),
        "answered twice"
    );
}

#[test]
fn success_without_all_data_is_told() {
    let mut queue = busy(0, 8192);
    assert_eq!(feed(&mut queue, &c2hdata(FIRST, 4, 0, 4096)), Ok(()));
    assert_eq!(feed(&mut queue, &response(FIRST, 0)), Ok(()));
    let Some(Told::Done(done)) = queue.told.pop_back() else {
        panic!("not done");
    };
    assert!(done.status.is_success() && !done.is_whole);
}

/// Everything a controller may not send ends the connection with a TermReq that says why.
#[test]
fn what_a_controller_may_not_send() {
    use FatalStatus::{InvalidField, LimitExceeded, OutOfRange, Sequence};
    let after_last = [c2hdata(FIRST, 4, 0, 4096), c2hdata(FIRST, 4, 4096, 4096)].concat();
    let twice = [r2t(SECOND, 0, 4096), r2t(SECOND, 0, 4096)].concat();
    let table = [
        ("unknown command", response(0x0402, 0), InvalidField),
        ("command of another use", response(0x0800, 0), InvalidField),
        ("no such slot", response(0xffff, 0), InvalidField),
        (
            "data of an unknown command",
            c2hdata(9, 4, 0, 4),
            InvalidField,
        ),
        ("data of a write", c2hdata(SECOND, 4, 0, 4), InvalidField),
        (
            "data out of order",
            c2hdata(FIRST, 4, 4096, 4096),
            OutOfRange,
        ),
        (
            "data beyond the end",
            c2hdata(FIRST, 4, 0, DATA as usize + 1),
            LimitExceeded,
        ),
        ("data after the last", after_last, InvalidField),
        (
            "success before the last",
            c2hdata(FIRST, 8, 0, 4096),
            InvalidField,
        ),
        ("transfer of a read", r2t(FIRST, 0, 4096), InvalidField),
        (
            "transfer of an unknown command",
            r2t(7, 0, 4096),
            InvalidField,
        ),
        ("empty transfer", r2t(SECOND, 0, 0), OutOfRange),
        ("transfer out of order", r2t(SECOND, 4096, 4096), OutOfRange),
        (
            "transfer beyond the end",
            r2t(SECOND, 0, DATA + 1),
            OutOfRange,
        ),
        (
            "transfer that overflows",
            r2t(SECOND, 0, u32::MAX),
            OutOfRange,
        ),
        ("a transfer twice", twice, OutOfRange),
        ("a second ICResp", icresp(0, 0, 0, 8192), Sequence),
        (
            "a PDU of a host",
            pdu(6, 4, &transfer(FIRST, 0, 0, 4), &[0; 4]),
            InvalidField,
        ),
        ("an unknown PDU", pdu(8, 0, &[0; 16], &[]), InvalidField),
    ];
    for (what, bytes, status) in table {
        let mut queue = busy(0, 8192);
        check(what, &mut queue, &bytes, status);
    }
}

#[test]
fn what_a_controller_may_not_begin_with() {
    use FatalStatus::{InvalidField, Sequence, Unsupported};
    let table = [
        ("another format", icresp(1, 0, 0, 8192), Unsupported),
        ("an alignment of 32", icresp(0, 32, 0, 8192), InvalidField),
        (
            "digests nobody asked for",
            icresp(0, 0, 1, 8192),
            InvalidField,
        ),
        ("a MAXH2CDATA of 4095", icresp(0, 0, 0, 4095), InvalidField),
        ("a response before ICResp", response(FIRST, 0), Sequence),
    ];
    for (what, bytes, status) in table {
        let mut queue = Queue::new(1, Digests::default(), DATA);
        check(what, &mut queue, &bytes, status);
    }
}

fn check(what: &str, queue: &mut Queue, bytes: &[u8], status: FatalStatus) {
    drop(sent(queue));
    let Err(Loss::Protocol(error)) = feed(queue, bytes) else {
        panic!("{what} was taken");
    };
    assert_eq!(error.status, status, "{what}");
    let term: Vec<u8> = queue
        .transmit_last()
        .iter()
        .flat_map(|one| one.as_ref().to_vec())
        .collect();
    assert_eq!(term[..3], [2, 0, 24], "{what}: a TermReq");
    assert_eq!(term[8..10], (status as u16).to_le_bytes(), "{what}");
    // The header that is to blame is that of the last PDU.
    let blamed = &term[24..];
    assert!(
        bytes.windows(blamed.len()).any(|part| part == blamed),
        "{what}"
    );
}

#[test]
fn digests_that_were_asked_for_are_needed() {
    let mut queue = Queue::new(1, Digests::from_bits(3), DATA);
    let received = feed(&mut queue, &icresp(0, 0, 1, 8192));
    assert_eq!(received, Err(Loss::NoDigests));
}

#[test]
fn what_a_controller_says_when_it_ends() {
    let mut queue = busy(0, 8192);
    let mut specific = [0; 16];
    specific[..6].copy_from_slice(&[5, 0, 1, 2, 3, 0]);
    let received = feed(&mut queue, &pdu(3, 0, &specific, &[0; 24]));
    let (status, detail) = (5, 0x0003_0201);
    assert_eq!(received, Err(Loss::Terminated { status, detail }));
}
