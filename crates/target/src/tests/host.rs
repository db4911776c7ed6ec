//! The scripted host. It shares no code with the target's wire crate, digests included.

use crate::{
    Action, Completion, ConnectionId, Failure, Hosts, Listener, Namespace, Operation, Subsystem,
    Target,
};
use std::string::ToString;
use std::vec;
use std::vec::Vec;
use varve_nvme::Nqn;
use varve_units::Nanos;

pub const NQN: &str = "nqn.2026-11.io.varve:test";
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
pub const BLOCK: usize = 4096;
pub const DISK_BLOCKS: u64 = 512;

pub struct Bench {
    pub target: Target<Vec<u8>>,
    pub disk: Vec<u8>,
    pub now: Nanos,
    /// Actions are kept instead of executed.
    pub is_held: bool,
    pub held: Vec<Action>,
    /// What becomes of all actions, if they fail.
    pub failing: Option<Failure>,
    pub flushes: usize,
}

/// One connection of the host.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    pub id: ConnectionId,
    pub has_digests: bool,
    pub cntlid: u16,
}

pub fn namespace(blocks: u64) -> Namespace {
    Namespace {
        blocks,
        nguid: [7; 16],
        uuid: [9; 16],
        is_volatile: true,
        is_thin: true,
        atomic_blocks: 512,
    }
}

/// CRC-32C bit by bit.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    (!crc).to_le_bytes()
}

/// A PDU: type, flags without those of digests, header behind the common one, data.
pub fn pdu(kind: u8, flags: u8, specific: &[u8], data: &[u8], has_digests: bool) -> Vec<u8> {
    let hlen = 8 + specific.len();
    let has_digests = has_digests && kind > 3;
    let head = hlen + if has_digests { 4 } else { 0 };
    let tail = if has_digests && !data.is_empty() {
        4
    } else {
        0
    };
    let mut flags = flags;
    if has_digests {
        flags |= 1;
    }
    if tail > 0 {
        flags |= 2;
    }
    let pdo = if data.is_empty() { 0 } else { head };
    let plen = (head + data.len() + tail) as u32;
    let mut bytes = vec![kind, flags, hlen as u8, pdo as u8];
    bytes.extend_from_slice(&plen.to_le_bytes());
    bytes.extend_from_slice(specific);
    if has_digests {
        let digest = crc32c(&bytes);
        bytes.extend_from_slice(&digest);
    }
    bytes.extend_from_slice(data);
    if tail > 0 {
        bytes.extend_from_slice(&crc32c(data));
    }
    bytes
}

pub fn icreq(dgst: u8) -> Vec<u8> {
    let mut specific = vec![0; 120];
    specific[3] = dgst;
    pdu(0, 0, &specific, &[], false)
}

/// An SQE: opcode, cid, namespace, (SGL type, length), words 10 to 15.
pub fn sqe(opcode: u8, cid: u16, nsid: u32, sgl: (u8, u32), words: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[0] = opcode;
    bytes[1] = 0x40;
    bytes[2..4].copy_from_slice(&cid.to_le_bytes());
    bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
    bytes[32..36].copy_from_slice(&sgl.1.to_le_bytes());
    bytes[39] = sgl.0;
    for (index, word) in words.iter().enumerate() {
        let at = 40 + index * 4;
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

pub const IN_CAPSULE: u8 = 0x01;
pub const TRANSPORT: u8 = 0x5a;

pub fn connect_data(cntlid: u16, subsystem: &str, host: &str) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].fill(0x42);
    data[16..18].copy_from_slice(&cntlid.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    data
}

/// CATTR 4: without SQ flow control.
pub fn connect_sqe(qid: u16, sqsize: u16, cattr: u8, kato_ms: u32) -> Vec<u8> {
    let words = [
        u32::from(qid) << 16,
        u32::from(sqsize) | u32::from(cattr) << 16,
        kato_ms,
    ];
    sqe(0x7f, 1, 1, (IN_CAPSULE, 1024), &words)
}

/// What came back: type, flags, specific header, data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub kind: u8,
    pub flags: u8,
    pub specific: Vec<u8>,
    pub data: Vec<u8>,
}

impl Answer {
    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.specific[at], self.specific[at + 1]])
    }

    /// Command, status code, result: of a response capsule.
    pub fn response(&self) -> (u16, u16, u64) {
        assert_eq!(self.kind, 5, "a response capsule: {self:?}");
        let result = u64::from_le_bytes(self.specific[..8].try_into().expect("8 bytes"));
        (self.word(12), self.word(14) >> 1 & 0x7ff, result)
    }

    /// Fatal error status and information: of a TermReq.
    pub fn term(&self) -> (u16, u32) {
        assert_eq!(self.kind, 3, "a TermReq: {self:?}");
        let detail = self.specific[2..6].try_into().expect("4 bytes");
        (self.word(0), u32::from_le_bytes(detail))
    }
}

/// Cuts a stream into PDUs, digests checked.
pub fn cut(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let plen = u32::from_le_bytes(bytes[4..8].try_into().expect("4 bytes")) as usize;
        let (pdu, rest) = bytes.split_at(plen);
        bytes = rest;
        let (kind, flags, hlen, pdo) = (pdu[0], pdu[1], usize::from(pdu[2]), usize::from(pdu[3]));
        if flags & 1 != 0 {
            assert_eq!(pdu[hlen..hlen + 4], crc32c(&pdu[..hlen]), "header digest");
        }
        let end = plen - if flags & 2 != 0 { 4 } else { 0 };
        let start = match kind {
            3 => hlen,
            7 => pdo,
            _ => end,
        };
        let data = pdu[start..end].to_vec();
        if flags & 2 != 0 {
            assert_eq!(pdu[end..], crc32c(&data), "data digest");
        }
        answers.push(Answer {
            kind,
            flags,
            specific: pdu[8..hlen].to_vec(),
            data,
        });
    }
    answers
}

impl Bench {
    pub fn new() -> Self {
        Self::with_hosts(Hosts::Any)
    }

    pub fn with_hosts(hosts: Hosts) -> Self {
        let listener = |text: &str, is_discovery| Listener {
            advertise: text.parse().expect("an address"),
            is_discovery,
        };
        let listeners = vec![
            listener("192.0.2.1:4420", false),
            listener("192.0.2.1:8009", true),
        ];
        let nqn = Nqn::new(NQN).expect("a name");
        let serial = "VARVE0001".to_string();
        let subsystem = Subsystem::new(nqn, serial, "0.1".to_string(), hosts, listeners);
        let mut target = Target::new(subsystem);
        let added = target.put_namespace(1, namespace(DISK_BLOCKS));
        added.expect("a good namespace");
        Self {
            target,
            disk: vec![0; DISK_BLOCKS as usize * BLOCK],
            now: Nanos::from_secs(1),
            is_held: false,
            held: Vec::new(),
            failing: None,
            flushes: 0,
        }
    }

    /// Sends and executes; gives what came back.
    pub fn exchange(&mut self, wire: Wire, bytes: &[u8]) -> Vec<Answer> {
        let taken = self.target.receive(self.now, wire.id, bytes);
        assert_eq!(taken, bytes.len(), "no backlog in a dialogue");
        self.run();
        self.answers(wire)
    }

    pub fn answers(&mut self, wire: Wire) -> Vec<Answer> {
        let mut bytes = Vec::new();
        loop {
            let segments = self.target.transmit(wire.id);
            if segments.is_empty() {
                return cut(&bytes);
            }
            for segment in segments {
                bytes.extend_from_slice(segment.as_ref());
            }
            self.run();
        }
    }

    /// Time passes, as the target is told it.
    pub fn pass(&mut self, span: Nanos) {
        let until = self.now + span;
        while self.now < until {
            self.now = until.min(self.now + crate::TICK_MAX);
            self.target.tick(self.now, self.now);
        }
    }

    /// Executes what the target asks for.
    pub fn run(&mut self) {
        while let Some(action) = self.target.next_action() {
            if self.is_held {
                self.held.push(action);
            } else {
                self.execute(action);
            }
        }
    }

    pub fn execute(&mut self, action: Action) {
        let result = self.perform(action.operation);
        self.target.complete(action.connection, action.tag, result);
    }

    fn perform(&mut self, operation: Operation) -> Completion<Vec<u8>> {
        if let Some(failure) = self.failing {
            return Err(failure);
        }
        let bytes =
            |lba: u64, blocks: u32| lba as usize * BLOCK..(lba as usize + blocks as usize) * BLOCK;
        match operation {
            Operation::Read { lba, blocks } => {
                return Ok(Some(self.disk[bytes(lba, blocks)].to_vec()));
            }
            Operation::Write { lba, data, .. } => {
                let blocks = (data.len() / BLOCK) as u32;
                self.disk[bytes(lba, blocks)].copy_from_slice(&data);
            }
            Operation::Flush => self.flushes += 1,
            Operation::WriteZeroes { lba, blocks, .. } => self.disk[bytes(lba, blocks)].fill(0),
            Operation::Deallocate { ranges } => {
                for (lba, blocks) in ranges {
                    self.disk[bytes(lba, blocks)].fill(0);
                }
            }
        }
        Ok(None)
    }

    /// A connection after ICReq.
    pub fn open(&mut self, has_digests: bool) -> Wire {
        let id = self.target.accept(self.now).expect("room");
        let wire = Wire {
            id,
            has_digests,
            cntlid: 0xffff,
        };
        let answers = self.exchange(wire, &icreq(if has_digests { 3 } else { 0 }));
        assert_eq!((answers.len(), answers[0].kind), (1, 1));
        wire
    }

    /// A command without data or with data in the capsule; gives what came back.
    pub fn command(&mut self, wire: Wire, sqe: &[u8], data: &[u8]) -> Vec<Answer> {
        self.exchange(wire, &pdu(4, 0, sqe, data, wire.has_digests))
    }

    /// A command that is answered by a response alone: status and result.
    pub fn simple(&mut self, wire: Wire, sqe: &[u8], data: &[u8]) -> (u16, u64) {
        let answers = self.command(wire, sqe, data);
        assert_eq!(answers.len(), 1, "{answers:?}");
        let (cid, status, result) = answers[0].response();
        assert_eq!(cid.to_le_bytes(), sqe[2..4]);
        (status, result)
    }

    /// A command that gives data on a queue with flow control.
    pub fn fetch(&mut self, wire: Wire, sqe: &[u8]) -> Vec<u8> {
        let answers = self.command(wire, sqe, &[]);
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert_eq!(
            (answers[0].kind, answers[0].flags & 12),
            (7, 4),
            "LAST, not SUCCESS"
        );
        assert_eq!(answers[1].response().1, 0);
        answers[0].data.clone()
    }

    /// An admin queue, connected; the controller is not enabled.
    pub fn connect(&mut self, subsystem: &str, has_digests: bool, kato_ms: u32) -> Wire {
        let mut wire = self.open(has_digests);
        let data = connect_data(0xffff, subsystem, HOST);
        let (status, result) = self.simple(wire, &connect_sqe(0, 31, 0, kato_ms), &data);
        assert_eq!(status, 0);
        wire.cntlid = result as u16;
        wire
    }

    pub fn enable(&mut self, wire: Wire) {
        let set = sqe(0x7f, 2, 0, (TRANSPORT, 0), &[0, 0x14, 0x0046_0061]);
        assert_eq!(self.simple(wire, &set, &[]), (0, 0));
    }

    /// An admin queue with an enabled controller.
    pub fn admin(&mut self, has_digests: bool, kato_ms: u32) -> Wire {
        let wire = self.connect(NQN, has_digests, kato_ms);
        self.enable(wire);
        wire
    }

    pub fn small_queue(&mut self, admin: Wire, qid: u16, sqsize: u16) -> Wire {
        let mut wire = self.open(admin.has_digests);
        wire.cntlid = admin.cntlid;
        let data = connect_data(admin.cntlid, NQN, HOST);
        let answer = self.simple(wire, &connect_sqe(qid, sqsize, 0, 0), &data);
        assert_eq!(answer, (0, u64::from(admin.cntlid)));
        wire
    }

    /// An I/O queue of the same controller.
    pub fn queue(&mut self, admin: Wire, qid: u16, cattr: u8) -> Wire {
        let mut wire = self.open(admin.has_digests);
        wire.cntlid = admin.cntlid;
        let data = connect_data(admin.cntlid, NQN, HOST);
        let answer = self.simple(wire, &connect_sqe(qid, 127, cattr, 0), &data);
        assert_eq!(answer, (0, u64::from(admin.cntlid)));
        wire
    }

    /// A write by R2T, in pieces; gives the status.
    pub fn write_r2t(&mut self, wire: Wire, cid: u16, lba: u32, data: &[u8], piece: usize) -> u16 {
        let blocks = (data.len() / BLOCK) as u32;
        let sgl = (TRANSPORT, data.len() as u32);
        let answers = self.command(wire, &sqe(1, cid, 1, sgl, &[lba, 0, blocks - 1]), &[]);
        assert_eq!((answers.len(), answers[0].kind), (1, 9), "{answers:?}");
        let r2t = &answers[0].specific;
        assert_eq!(r2t[..2], cid.to_le_bytes());
        assert_eq!(r2t[4..8], [0; 4]);
        assert_eq!(r2t[8..12], (data.len() as u32).to_le_bytes());
        let mut last = Vec::new();
        for (index, part) in data.chunks(piece).enumerate() {
            assert!(last.is_empty(), "answered too early: {last:?}");
            let offset = index * piece;
            let is_last = offset + part.len() == data.len();
            let bytes = h2cdata(&r2t[..4], offset, part, is_last, wire.has_digests);
            last = self.exchange(wire, &bytes);
        }
        assert_eq!(last.len(), 1);
        last[0].response().1
    }
}

/// An H2CData for the command and tag of an R2T.
pub fn h2cdata(tags: &[u8], offset: usize, data: &[u8], is_last: bool, digests: bool) -> Vec<u8> {
    let mut specific = tags.to_vec();
    specific.extend_from_slice(&(offset as u32).to_le_bytes());
    specific.extend_from_slice(&(data.len() as u32).to_le_bytes());
    specific.extend_from_slice(&[0; 4]);
    pdu(6, if is_last { 4 } else { 0 }, &specific, data, digests)
}

/// Content of a block that tells which it is.
pub fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    let bytes = (0..blocks * BLOCK).map(|at| (at / 7) as u8 ^ seed.wrapping_mul(31));
    bytes.collect()
}
