//! A host that does what a test says, over a real socket.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::net::SocketAddr;
use varve_hostio::{Endpoint, Io, Outgoing, Stream};
use varve_nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess};
use varve_nvme::opcode::{admin, io as opcodes};
use varve_nvme::property::{CC, Configuration};
use varve_nvme::sqe::BlockRange;
use varve_nvme::tcp::{
    DataDigest, DataTransfer, Decoder, Digests, Header, IcReq, Limits, Pdu, Side, data_digest,
    encode, flag,
};
use varve_nvme::{Cqe, Nqn, Sgl, Sqe};
use varve_units::BLOCK;
use zerocopy::IntoBytes;

pub const NQN: &str = "nqn.2026-11.io.varve:test";
/// Data that goes into a capsule, at most.
pub const CAPSULE: usize = 8192;

/// What a command came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub cid: u16,
    /// Status type and code; 0 for success.
    pub status: u16,
    pub result: u64,
    pub data: Vec<u8>,
}

/// One connection of a host.
pub struct Host {
    stream: Stream,
    decoder: Decoder,
    /// Received, not decoded.
    rest: Vec<u8>,
    digests: Digests,
    next_cid: u16,
    /// The subsystem it connects to.
    pub nqn: String,
    /// The namespace that reads, writes and flushes are of.
    pub nsid: u32,
    pub cntlid: u16,
}

/// A host's name.
pub fn host_nqn(number: u8) -> Nqn {
    let name = format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-{number:012}");
    Nqn::new(&name).expect("a name")
}

impl Host {
    /// Connects and exchanges ICReq and ICResp.
    pub async fn open(io: &Io, to: SocketAddr, has_digests: bool) -> Self {
        let stream = Stream::connect(io.clone(), &Endpoint::Tcp(to)).await;
        let limits = Limits {
            capsule_data_max: 0,
            data_max: 1 << 20,
            pda: 0,
        };
        let mut host = Self {
            stream: stream.expect("a listener"),
            decoder: Decoder::new(Side::Controller, limits),
            rest: Vec::new(),
            digests: Digests::default(),
            next_cid: 0,
            nqn: NQN.to_owned(),
            nsid: 1,
            cntlid: CNTLID_DYNAMIC,
        };
        let digests = Digests {
            header: has_digests,
            data: has_digests,
        };
        let request = Header::IcReq(IcReq::new(0, digests.bits(), 0));
        host.send(&encode(&request, 0, 0, Digests::default(), 0))
            .await;
        let answer = host.pdu().await.expect("an ICResp");
        assert!(matches!(answer.header, Header::IcResp(_)));
        host.decoder.set_digests(digests);
        host.digests = digests;
        host
    }

    /// An enabled controller's admin queue.
    pub async fn admin(io: &Io, to: SocketAddr, number: u8, kato_ms: u32, digests: bool) -> Self {
        let mut host = Self::open(io, to, digests).await;
        host.enable(number, kato_ms).await;
        host
    }

    /// An I/O queue beside an admin queue.
    pub async fn queue(&self, io: &Io, to: SocketAddr, number: u8, qid: u16) -> Self {
        let mut host = Self::open(io, to, self.digests.header).await;
        host.cntlid = self.cntlid;
        host.nqn.clone_from(&self.nqn);
        let answer = host.connect(number, qid, 127, 0).await;
        assert_eq!(answer.status, 0);
        host
    }

    /// An enabled controller of a subsystem with another name.
    pub async fn admin_of(io: &Io, to: SocketAddr, nqn: &str) -> Self {
        let mut host = Self::open(io, to, false).await;
        nqn.clone_into(&mut host.nqn);
        host.enable(1, 0).await;
        host
    }

    async fn enable(&mut self, number: u8, kato_ms: u32) {
        let answer = self.connect(number, 0, 31, kato_ms).await;
        assert_eq!(answer.status, 0);
        self.cntlid = (answer.result & 0xffff) as u16;
        let enable = PropertyAccess {
            offset: CC,
            is_wide: false,
            value: u64::from(Configuration::enabled(6).0),
        };
        assert_eq!(self.command(enable.set(0), &[]).await.status, 0);
    }

    /// Connect; the answer.
    pub async fn connect(&mut self, number: u8, qid: u16, sqsize: u16, kato_ms: u32) -> Answer {
        let connect = Connect {
            recfmt: 0,
            qid,
            sqsize,
            flow_control: true,
            kato_ms,
        };
        let subsystem = Nqn::new(&self.nqn).expect("a name");
        let data = ConnectData::new([number; 16], self.cntlid, &subsystem, &host_nqn(number));
        self.command(connect.to_sqe(0), data.as_bytes()).await
    }

    pub async fn send(&self, bytes: &[u8]) {
        let mut what = Outgoing::new();
        what.push(bytes);
        // A server that has gone shows in what is received.
        let _ = self.stream.send(what).await;
    }

    /// What is there; false at the end.
    async fn receive(&mut self) -> bool {
        let received = self.stream.receive(Vec::with_capacity(256 << 10)).await;
        let Ok((count, buffer)) = received else {
            return false;
        };
        self.rest.extend_from_slice(&buffer);
        count > 0
    }

    /// The next PDU; `None` if the connection ended.
    pub async fn pdu(&mut self) -> Option<Pdu> {
        loop {
            if !self.rest.is_empty() {
                let progress = self.decoder.feed(&self.rest).expect("a PDU");
                self.rest.drain(..progress.taken);
                if let Some(pdu) = progress.pdu {
                    assert_ne!(pdu.digest, DataDigest::Bad);
                    return Some(pdu);
                }
            }
            if !self.receive().await {
                return None;
            }
        }
    }

    /// A command capsule, not sent; gives its CID.
    pub fn capsule(&mut self, mut sqe: Sqe, data: &[u8], into: &mut Vec<u8>) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1) & 0x7fff;
        sqe.cid.set(self.next_cid);
        let header = Header::CapsuleCmd(sqe);
        into.extend_from_slice(&encode(&header, 0, data.len(), self.digests, 0));
        into.extend_from_slice(data);
        if self.digests.data && !data.is_empty() {
            into.extend_from_slice(&data_digest(&[data]));
        }
        self.next_cid
    }

    /// The next answer to any command; `data` goes out when it is asked for.
    pub async fn answer(&mut self, data: &[u8]) -> Option<Answer> {
        let mut received = Vec::new();
        loop {
            let pdu = self.pdu().await?;
            match pdu.header {
                Header::CapsuleResp(cqe) => return Some(answer(&cqe, received)),
                Header::C2hData(_) => received.extend_from_slice(&pdu.data),
                Header::R2t(r2t) => {
                    let (from, length) = (r2t.r2to.get() as usize, r2t.r2tl.get() as usize);
                    let part = &data[from..from + length];
                    let (cid, tag) = (r2t.cccid.get(), r2t.ttag.get());
                    let transfer = DataTransfer::new(cid, tag, from as u32, length as u32);
                    let header = Header::H2cData(transfer);
                    let mut bytes = encode(&header, flag::LAST, length, self.digests, 0).to_vec();
                    bytes.extend_from_slice(part);
                    if self.digests.data {
                        bytes.extend_from_slice(&data_digest(&[part]));
                    }
                    self.send(&bytes).await;
                }
                _ => return None,
            }
        }
    }

    /// A command and its answer.
    pub async fn command(&mut self, sqe: Sqe, data: &[u8]) -> Answer {
        let mut bytes = Vec::new();
        let in_capsule = if data.len() <= CAPSULE { data } else { &[] };
        let cid = self.capsule(sqe, in_capsule, &mut bytes);
        self.send(&bytes).await;
        let answer = self.answer(data).await.expect("an answer");
        assert_eq!(answer.cid, cid);
        answer
    }

    /// Identify data of a namespace (or 0).
    pub async fn identify(&mut self, cns: u32, nsid: u32) -> Answer {
        self.command(identify_sqe(cns, nsid), &[]).await
    }

    /// Asks for an event; it is answered when there is one.
    pub async fn ask_for_event(&mut self) -> u16 {
        let mut bytes = Vec::new();
        let cid = self.capsule(Sqe::new(admin::ASYNC_EVENT, 0, 0), &[], &mut bytes);
        self.send(&bytes).await;
        cid
    }

    /// Waits for the event of changed namespaces; gives those that the log names.
    pub async fn changed_namespaces(&mut self) -> Vec<u32> {
        let event = self.answer(&[]).await.expect("an event");
        // Notice, namespace attribute changed, log 4.
        assert_eq!((event.status, event.result), (0, 0x0004_0002));
        let mut log =
            Sqe::new(admin::GET_LOG_PAGE, 0, 0xffff_ffff).with_sgl(Sgl::Transport { length: 4096 });
        log.set_cdw(10, 1023 << 16 | 4);
        let log = self.command(log, &[]).await;
        let words = log.data.chunks_exact(4);
        let words = words.map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
        words.take_while(|nsid| *nsid != 0).collect()
    }

    /// Lets changes of namespaces be told.
    pub async fn enable_events(&mut self) {
        self.enable_event_bits(1 << 8).await;
    }

    /// Lets events be told by their bits of AEC.
    pub async fn enable_event_bits(&mut self, bits: u32) {
        let mut enable = Sqe::new(admin::SET_FEATURES, 0, 0);
        enable.set_cdw(10, 0x0b);
        enable.set_cdw(11, bits);
        assert_eq!(self.command(enable, &[]).await.status, 0);
    }

    /// An event that has been told: its request and what it is. It comes before the answer to what is asked now.
    pub async fn told_event(&mut self) -> (u16, u64) {
        let mut bytes = Vec::new();
        let last = self.capsule(Sqe::new(admin::KEEP_ALIVE, 0, 0), &[], &mut bytes);
        self.send(&bytes).await;
        let event = self.answer(&[]).await.expect("an answer");
        assert_ne!(event.cid, last, "no event was told");
        let answer = self.answer(&[]).await.expect("an answer");
        assert_eq!((answer.cid, answer.status), (last, 0));
        (event.cid, event.result)
    }

    /// Critical Warning, by the SMART log.
    pub async fn critical_warning(&mut self) -> u8 {
        let mut log =
            Sqe::new(admin::GET_LOG_PAGE, 0, 0xffff_ffff).with_sgl(Sgl::Transport { length: 512 });
        log.set_cdw(10, 127 << 16 | 2);
        self.command(log, &[]).await.data[0]
    }

    /// Reads blocks.
    pub async fn read(&mut self, lba: u64, blocks: u32) -> Answer {
        let mut sqe = read_sqe(lba, blocks);
        sqe.nsid.set(self.nsid);
        self.command(sqe, &[]).await
    }

    /// Writes blocks; the status.
    pub async fn write(&mut self, lba: u64, data: &[u8]) -> u16 {
        let mut sqe = write_sqe(lba, data.len());
        sqe.nsid.set(self.nsid);
        self.command(sqe, data).await.status
    }

    /// A command without data and parameters; the status.
    pub async fn simple(&mut self, opcode: u8) -> u16 {
        self.command(Sqe::new(opcode, 0, self.nsid), &[])
            .await
            .status
    }

    pub async fn flush(&mut self) -> u16 {
        self.simple(opcodes::FLUSH).await
    }

    pub async fn keep_alive(&mut self) -> u16 {
        self.command(Sqe::new(admin::KEEP_ALIVE, 0, 0), &[])
            .await
            .status
    }
}

fn answer(cqe: &Cqe, data: Vec<u8>) -> Answer {
    Answer {
        cid: cqe.cid.get(),
        status: cqe.status().code(),
        result: cqe.result(),
        data,
    }
}

pub fn identify_sqe(cns: u32, nsid: u32) -> Sqe {
    let mut sqe = Sqe::new(admin::IDENTIFY, 0, nsid).with_sgl(Sgl::Transport { length: 4096 });
    sqe.set_cdw(10, cns);
    sqe
}

pub fn read_sqe(lba: u64, blocks: u32) -> Sqe {
    let length = blocks * BLOCK as u32;
    let mut sqe = Sqe::new(opcodes::READ, 0, 1).with_sgl(Sgl::Transport { length });
    sqe.set_range(BlockRange {
        slba: lba,
        count: blocks,
    });
    sqe
}

pub fn write_sqe(lba: u64, bytes: usize) -> Sqe {
    let length = bytes as u32;
    let sgl = if bytes <= CAPSULE {
        Sgl::InCapsule { offset: 0, length }
    } else {
        Sgl::Transport { length }
    };
    let mut sqe = Sqe::new(opcodes::WRITE, 0, 1).with_sgl(sgl);
    sqe.set_range(BlockRange {
        slba: lba,
        count: length / BLOCK as u32,
    });
    sqe
}

/// Content that tells which block and version it is.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..bytes / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}
