//! A host against a controller of a few lines that is what a test wants: slow, silent, narrow.
//!
//! It keeps what it was sent. Bytes arrive at once; only waiting takes time.

use super::net::config;
use crate::{Action, Completion, Config, ConnectionId, Event, Host};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;
use varve_nvme::cqe::Cqe;
use varve_nvme::dsm::{Dsm, DsmRange};
use varve_nvme::fabrics::{Connect, FabricsType, PropertyAccess};
use varve_nvme::identify::{
    Cns, Identify, IdentifyController, IdentifyNamespace, LbaFormat, NvmController, namespace_list,
};
use varve_nvme::opcode::{FABRICS, admin, io};
use varve_nvme::property::{self, Capabilities, ControllerStatus};
use varve_nvme::tcp::{
    DataTransfer, Decoder, Digests, Header, IcResp, Limits, MAXH2CDATA_MIN, Side, encode, flag,
};
use varve_nvme::{IDENTIFY_BYTES, Sqe, Status};
use varve_units::Nanos;
use zerocopy::{FromBytes, IntoBytes};

/// The host's end of a connection is the machine's, this is the other one.
struct Peer {
    decoder: Decoder,
    qid: u16,
}

/// An I/O command.
pub struct Sent {
    pub at: Nanos,
    /// Of a Dataset Management.
    pub ranges: Vec<(u64, u32)>,
}

/// The controller and its host.
pub struct Script {
    pub host: Host,
    pub now: Nanos,
    pub controller: IdentifyController,
    pub command_set: NvmController,
    /// Blocks of the namespace.
    pub blocks: u64,
    /// CSTS says ready from then on.
    pub ready_at: Nanos,
    /// No I/O command is answered.
    pub is_silent: bool,
    /// It does not see that the host closes a connection.
    pub is_deaf: bool,
    /// Connects are refused.
    pub is_down: bool,
    /// I/O commands that came.
    pub commands: Vec<Sent>,
    pub keep_alives: Vec<Nanos>,
    pub events: Vec<Event>,
    pub completions: Vec<Completion>,
    peers: BTreeMap<ConnectionId, Peer>,
}

impl Script {
    pub fn new(times: crate::Times) -> Self {
        let now = Nanos::from_secs(100);
        let mut controller = IdentifyController::zeroed();
        controller.oncs = u16::MAX.into();
        // Capsules with room for a page of data.
        controller.ioccsz = ((64 + 4096) / 16).into();
        controller.kas = 10.into();
        Self {
            host: Host::new(now, Config { times, ..config() }),
            now,
            controller,
            command_set: NvmController::zeroed(),
            blocks: 1 << 40,
            ready_at: now,
            is_silent: false,
            is_deaf: false,
            is_down: false,
            commands: Vec::new(),
            keep_alives: Vec::new(),
            events: Vec::new(),
            completions: Vec::new(),
            peers: BTreeMap::new(),
        }
    }

    /// Lets everything happen until `is_done`, time included, for a while.
    ///
    /// # Panics
    /// If it does not come.
    pub fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let end = self.now + Nanos::from_secs(1200);
        loop {
            self.settle();
            if is_done(self) {
                return;
            }
            assert!(self.now < end, "{what}: {:?}", self.events);
            self.now = self.host.deadline().unwrap_or(end).max(self.now);
            self.host.tick(self.now);
        }
    }

    /// Does all that needs no time.
    fn settle(&mut self) {
        loop {
            if let Some(action) = self.host.next_action() {
                self.act(action);
            } else if let Some(id) = self.host.next_woken() {
                self.pass(id);
            } else {
                break;
            }
        }
        self.events
            .extend(core::iter::from_fn(|| self.host.next_event()));
        let completions = core::iter::from_fn(|| self.host.next_completion());
        self.completions.extend(completions);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect(id) if self.is_down => self.host.closed(self.now, id, true),
            Action::Connect(id) => {
                let limits = Limits {
                    capsule_data_max: 8192,
                    data_max: 0,
                    pda: 0,
                };
                let decoder = Decoder::new(Side::Host, limits);
                self.peers.insert(id, Peer { decoder, qid: 0 });
                self.host.connected(id);
            }
            Action::Close(_) if self.is_deaf => {}
            Action::Close(id) => {
                self.peers.remove(&id);
                self.host.closed(self.now, id, true);
            }
            Action::Drop(id) => {
                self.peers.remove(&id);
            }
        }
    }

    /// What the host sends on a connection, and the answers to it.
    fn pass(&mut self, id: ConnectionId) {
        for segment in self.host.transmit(self.now, id) {
            let mut rest = segment.as_ref();
            while !rest.is_empty() {
                let Some(peer) = self.peers.get_mut(&id) else {
                    return;
                };
                let progress = peer.decoder.feed(rest).expect("a host that behaves");
                rest = &rest[progress.taken..];
                let Some(pdu) = progress.pdu else { continue };
                let answer = match pdu.header {
                    Header::IcReq(_) => {
                        let response = IcResp::new(0, 0, MAXH2CDATA_MIN);
                        encoded(&Header::IcResp(response), 0, &[])
                    }
                    Header::CapsuleCmd(sqe) => self.answer(id, &sqe, &pdu.data),
                    other => panic!("{other:?}"),
                };
                self.host.receive(self.now, id, &answer);
            }
        }
    }

    fn answer(&mut self, id: ConnectionId, sqe: &Sqe, data: &[u8]) -> Vec<u8> {
        let peer = self.peers.get_mut(&id).expect("it sent something");
        if sqe.opcode == FABRICS && FabricsType::of(sqe) == Some(FabricsType::Connect) {
            peer.qid = Connect::from_sqe(sqe).qid;
            return done(sqe, 1);
        }
        if peer.qid > 0 {
            let (at, ranges) = (self.now, ranges(sqe, data));
            self.commands.push(Sent { at, ranges });
            return match self.is_silent {
                true => Vec::new(),
                false => done(sqe, 0),
            };
        }
        match sqe.opcode {
            FABRICS => done(sqe, self.property(sqe)),
            admin::IDENTIFY => {
                let identify = Identify::from_sqe(sqe).expect("a good one");
                let data = self.identify(identify.cns);
                let transfer = DataTransfer::new(sqe.cid.get(), 0, 0, data.len() as u32);
                let mut bytes = encoded(&Header::C2hData(transfer), flag::LAST, &data);
                bytes.extend(done(sqe, 0));
                bytes
            }
            admin::KEEP_ALIVE => {
                self.keep_alives.push(self.now);
                done(sqe, 0)
            }
            // One I/O queue.
            admin::SET_FEATURES => done(sqe, 0),
            other => panic!("admin command {other:#x}"),
        }
    }

    fn property(&self, sqe: &Sqe) -> u64 {
        let capabilities = Capabilities {
            mqes: 127,
            // Half a minute.
            timeout: 60,
        };
        let status = ControllerStatus {
            ready: self.now >= self.ready_at,
            ..ControllerStatus::default()
        };
        let access = PropertyAccess::from_sqe(sqe).expect("a good one");
        match access.offset {
            property::CAP => capabilities.to_bits(),
            property::CSTS => status.to_bits().into(),
            _ => 0,
        }
    }

    fn identify(&self, cns: Cns) -> Vec<u8> {
        match cns {
            Cns::Controller => self.controller.as_bytes().to_vec(),
            Cns::SetController => self.command_set.as_bytes().to_vec(),
            Cns::ActiveNamespaces => namespace_list([1].into_iter()),
            Cns::Namespace => {
                let mut id = IdentifyNamespace::zeroed();
                id.nsze = self.blocks.into();
                id.lbaf[0] = LbaFormat {
                    lbads: 12,
                    ms: 0.into(),
                    rp: 0,
                };
                id.as_bytes().to_vec()
            }
            _ => vec![0; IDENTIFY_BYTES],
        }
    }
}

fn encoded(header: &Header, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = encode(header, flags, data.len(), Digests::default(), 0).to_vec();
    bytes.extend_from_slice(data);
    bytes
}

fn done(sqe: &Sqe, result: u64) -> Vec<u8> {
    let cqe = Cqe::new(sqe.cid.get(), Status::Success, result);
    encoded(&Header::CapsuleResp(cqe), 0, &[])
}

/// Ranges of a Dataset Management.
fn ranges(sqe: &Sqe, data: &[u8]) -> Vec<(u64, u32)> {
    if sqe.opcode != io::DATASET_MANAGEMENT {
        return Vec::new();
    }
    let (ranges, rest) = <[DsmRange]>::ref_from_prefix_with_elems(data, Dsm::from_sqe(sqe).ranges)
        .expect("ranges in the capsule");
    assert!(rest.is_empty(), "as many ranges as it says");
    let ranges = ranges.iter();
    ranges.map(|one| (one.slba.get(), one.nlb.get())).collect()
}
