//! A queue pair on its connection: ICReq, capsules, data PDUs.
//!
//! Commands in, PDUs out; PDUs in, data and completions out. What the peer sends is checked against
//! the commands in flight: data comes in order and within what was asked for, a transfer is asked
//! for in order, and a CID that names no command ends the connection.
//!
//! **Not here**: what the commands are for (`startup`, `requests`), when connections are made.

use crate::error::Loss;
use crate::flights::{Flight, Flights, Owner, Transfer};
use crate::outgoing::Outgoing;
use crate::payload::Segment;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use varve_nvme::cqe::Cqe;
use varve_nvme::status::StatusField;
use varve_nvme::tcp::{
    ADMIN_CAPSULE_DATA, DataDigest, DataTransfer, Decoder, Digests, FatalError, FatalStatus,
    Header, IcReq, IcResp, Limits, MAXH2CDATA_MIN, PFV, Pdu, R2t, Side, flag,
};
use varve_nvme::{Sgl, Sqe};
use varve_units::Nanos;

/// What a queue tells its association.
pub(crate) enum Told {
    /// Capsules can be sent.
    Open,
    /// Data of a command, from `offset` on.
    Data {
        owner: Owner,
        offset: u32,
        bytes: Vec<u8>,
    },
    /// A command ended.
    Done(Done),
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub owner: Owner,
    pub status: StatusField,
    pub result: u64,
    /// All data that was asked for came.
    pub is_whole: bool,
    /// Data was damaged on the way.
    pub is_bad: bool,
}

/// One queue pair.
pub(crate) struct Queue {
    /// 0 is the admin queue.
    pub qid: u16,
    pub told: VecDeque<Told>,
    is_open: bool,
    digests: Digests,
    decoder: Decoder,
    outgoing: Outgoing,
    flights: Flights,
    /// Bytes of data a capsule may have.
    pub capsule_data_max: u32,
    maxh2cdata: u32,
    /// A TermReq waits to be sent, and nothing else.
    has_blamed: bool,
}

impl Queue {
    /// A queue whose ICReq is to be sent. `data_max` bounds the data of its commands.
    pub fn new(qid: u16, digests: Digests, data_max: u32) -> Self {
        let limits = Limits {
            capsule_data_max: 0,
            data_max,
            pda: 0,
        };
        let mut outgoing = Outgoing::default();
        outgoing.header(&Header::IcReq(IcReq::new(0, digests.bits(), 0)));
        Self {
            qid,
            told: VecDeque::new(),
            is_open: false,
            digests,
            decoder: Decoder::new(Side::Controller, limits),
            outgoing,
            flights: Flights::new(1),
            capsule_data_max: ADMIN_CAPSULE_DATA,
            maxh2cdata: MAXH2CDATA_MIN,
            has_blamed: false,
        }
    }

    /// Makes room for `count` commands, once Connect succeeded.
    pub fn grow(&mut self, count: u16) {
        self.flights.grow(count);
    }

    pub fn has_room(&self) -> bool {
        self.is_open && self.flights.has_room()
    }

    /// Commands that are not answered.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    pub fn has_output(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// All that is to be sent, in order.
    pub fn transmit(&mut self) -> Vec<Segment> {
        self.outgoing.take()
    }

    /// What is still to be sent when the connection is given up: a TermReq. Commands that were not
    /// sent yet are not to be.
    pub fn transmit_last(&mut self) -> Vec<Segment> {
        match self.has_blamed {
            true => self.outgoing.take(),
            false => Vec::new(),
        }
    }

    /// When the first command is late.
    pub fn deadline(&mut self) -> Option<Nanos> {
        self.flights.deadline()
    }

    /// What was not answered.
    pub fn drain(&mut self) -> impl Iterator<Item = Flight> {
        self.flights.drain()
    }

    /// Sends a command; its CID and its SGL are filled in here.
    ///
    /// # Panics
    /// If there is no room, or capsules cannot be sent yet.
    pub fn submit(&mut self, sqe: Sqe, transfer: Transfer, owner: Owner, deadline: Option<Nanos>) {
        assert!(self.is_open, "capsules follow ICResp");
        let (sgl, in_capsule) = match &transfer {
            Transfer::None => (Sgl::Transport { length: 0 }, None),
            Transfer::ToController(payload, length) if *length <= self.capsule_data_max => {
                let (offset, length) = (0, *length);
                let sgl = Sgl::InCapsule { offset, length };
                (sgl, Some((payload.clone(), length)))
            }
            Transfer::ToHost(length) | Transfer::ToController(_, length) => {
                (Sgl::Transport { length: *length }, None)
            }
        };
        // Data in the capsule is not asked for any more.
        let kept = match &in_capsule {
            Some(_) => Transfer::None,
            None => transfer,
        };
        let mut sqe = sqe.with_sgl(sgl);
        sqe.cid = self.flights.insert(owner, kept, deadline).into();
        let header = Header::CapsuleCmd(sqe);
        match in_capsule {
            Some((payload, length)) => self.outgoing.with_data(&header, 0, (&payload, 0, length)),
            None => self.outgoing.header(&header),
        }
    }

    /// Bytes of the peer, up to the end of a PDU at most; gives how many were taken. What they told is
    /// to be looked at before the rest is given.
    ///
    /// # Errors
    /// The connection has to end; a TermReq may wait to be sent.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<usize, Loss> {
        let progress = self
            .decoder
            .feed(bytes)
            .map_err(|error| self.blame(error))?;
        if let Some(pdu) = progress.pdu {
            self.on_pdu(pdu)?;
        }
        Ok(progress.taken)
    }

    /// Memory of data that was told and looked at.
    pub fn recycle(&mut self, memory: Vec<u8>) {
        self.decoder.recycle(memory);
    }

    /// Tells the peer what it did wrong.
    fn blame(&mut self, error: FatalError) -> Loss {
        let unsent = self.outgoing.take();
        drop(unsent);
        self.has_blamed = true;
        self.outgoing
            .term(&Header::H2cTermReq((&error).into()), &error.header);
        Loss::Protocol(error)
    }

    fn on_pdu(&mut self, pdu: Pdu) -> Result<(), Loss> {
        let outcome = match (self.is_open, pdu.header) {
            (_, Header::C2hTermReq(request)) => {
                return Err(Loss::Terminated {
                    status: request.fes.get(),
                    detail: request.fei.get(),
                });
            }
            (false, Header::IcResp(response)) => return self.on_icresp(&pdu, response),
            (true, Header::CapsuleResp(cqe)) => self.on_response(&pdu, &cqe),
            (true, Header::C2hData(transfer)) => self.on_data(transfer, pdu),
            (true, Header::R2t(request)) => self.on_r2t(&pdu, request),
            _ => Err(pdu.fatal(FatalStatus::Sequence, 0)),
        };
        outcome.map_err(|error| self.blame(error))
    }

    /// spec: nvme-tcp 1.0 §3.6.2.3.
    fn on_icresp(&mut self, pdu: &Pdu, response: IcResp) -> Result<(), Loss> {
        let wrong = |status, at| Err(pdu.fatal(status, at));
        let digests = Digests::from_bits(response.dgst);
        let checked = if response.pfv.get() != PFV {
            wrong(FatalStatus::Unsupported, 8)
        } else if response.cpda > 31 {
            wrong(FatalStatus::InvalidField, 10)
        } else if response.dgst & !self.digests.bits() != 0 {
            wrong(FatalStatus::InvalidField, 11)
        } else if response.maxh2cdata.get() < MAXH2CDATA_MIN {
            wrong(FatalStatus::InvalidField, 12)
        } else {
            Ok(())
        };
        checked.map_err(|error| self.blame(error))?;
        if digests != self.digests {
            return Err(Loss::NoDigests);
        }
        self.decoder.set_digests(digests);
        self.outgoing.digests = digests;
        self.outgoing.pda = response.cpda;
        // Data is cut at multiples of 4 bytes.
        self.maxh2cdata = response.maxh2cdata.get() & !3;
        self.is_open = true;
        self.told.push_back(Told::Open);
        Ok(())
    }

    /// spec: nvme-tcp 1.0 §3.6.2.7.
    fn on_response(&mut self, pdu: &Pdu, cqe: &Cqe) -> Result<(), FatalError> {
        let Some(flight) = self.flights.remove(cqe.cid.get()) else {
            // Byte 12 of the CQE, behind the common header.
            return Err(pdu.fatal(FatalStatus::InvalidField, 20));
        };
        self.finish(&flight, cqe.status(), cqe.result());
        Ok(())
    }

    fn finish(&mut self, flight: &Flight, status: StatusField, result: u64) {
        let is_whole = match flight.transfer {
            Transfer::ToHost(length) => flight.moved == length,
            Transfer::None | Transfer::ToController(..) => true,
        };
        self.told.push_back(Told::Done(Done {
            owner: flight.owner,
            status,
            result,
            is_whole,
            is_bad: flight.is_bad,
        }));
    }

    /// spec: nvme-tcp 1.0 §3.6.2.10.
    fn on_data(&mut self, transfer: DataTransfer, pdu: Pdu) -> Result<(), FatalError> {
        let cid = transfer.cccid.get();
        let Some(flight) = self.flights.get_mut(cid) else {
            return Err(pdu.fatal(FatalStatus::InvalidField, 8));
        };
        let Transfer::ToHost(length) = flight.transfer else {
            return Err(pdu.fatal(FatalStatus::InvalidField, 8));
        };
        let (offset, count) = (transfer.datao.get(), transfer.datal.get());
        let until = offset.checked_add(count).filter(|until| *until <= length);
        let Some(until) = until.filter(|_| offset == flight.moved) else {
            return Err(pdu.fatal(FatalStatus::OutOfRange, 0));
        };
        let is_last = pdu.flags & flag::LAST != 0;
        let is_success = pdu.flags & flag::SUCCESS != 0;
        if flight.has_last || is_success && !is_last {
            return Err(pdu.fatal(FatalStatus::InvalidField, 1));
        }
        flight.moved = until;
        flight.has_last = is_last;
        if pdu.digest == DataDigest::Bad {
            flight.is_bad = true;
        } else {
            self.told.push_back(Told::Data {
                owner: flight.owner,
                offset,
                bytes: pdu.data,
            });
        }
        // All queues are without SQ flow control, so no response needs to follow.
        if is_success && let Some(flight) = self.flights.remove(cid) {
            self.finish(&flight, StatusField::default(), 0);
        }
        Ok(())
    }

    /// spec: nvme-tcp 1.0 §3.6.2.8.
    fn on_r2t(&mut self, pdu: &Pdu, request: R2t) -> Result<(), FatalError> {
        let cid = request.cccid.get();
        let flight = self.flights.get_mut(cid);
        let Some((flight, payload, length)) = flight.and_then(|flight| match &flight.transfer {
            Transfer::ToController(payload, length) => {
                let (payload, length) = (payload.clone(), *length);
                Some((flight, payload, length))
            }
            _ => None,
        }) else {
            return Err(pdu.fatal(FatalStatus::InvalidField, 8));
        };
        let (offset, count) = (request.r2to.get(), request.r2tl.get());
        let until = offset.checked_add(count).filter(|until| *until <= length);
        let Some(until) = until.filter(|_| count > 0 && offset == flight.moved) else {
            return Err(pdu.fatal(FatalStatus::OutOfRange, 0));
        };
        flight.moved = until;
        let tag = request.ttag.get();
        let mut at = offset;
        while at < until {
            let part = (until - at).min(self.maxh2cdata);
            let header = Header::H2cData(DataTransfer::new(cid, tag, at, part));
            let flags = if at + part == until { flag::LAST } else { 0 };
            self.outgoing
                .with_data(&header, flags, (&payload, at, part));
            at += part;
        }
        Ok(())
    }
}
