//! A connection: its transport, and the queue pair it carries once Connect succeeded.
//!
//! Bytes become PDUs, PDUs commands, commands slots, slots answers. What a host can make it hold is
//! bounded: commands by the queue's slots, data by [`DATA_BYTES_MAX`], output by not taking input
//! while [`OUTPUT_BYTES_ENTRY`] for each entry are not sent. Data of an H2CData has memory only if it
//! was asked for, so before Connect a connection holds a capsule and little output.

use crate::action::{Action, Completion, Failure, Tag};
use crate::admin::{self, Need, Outcome, Reply};
use crate::controller::Controller;
use crate::outgoing::Outgoing;
use crate::shared::{Effect, Shared};
use crate::slots::{Reading, Slot, Slots, State, Work};
use crate::{CAPSULE_DATA, QUEUE_ENTRIES_MAX, TRANSFER_BYTES_MAX, fabrics, io};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use varve_nvme::opcode::{self, admin as opcodes};
use varve_nvme::sqe::{Fuse, USES_SGL};
use varve_nvme::tcp::{
    DataDigest, DataTransfer, Decoder, Digests, FatalError, FatalStatus, Head, Header, IcReq,
    IcResp, Limits, PFV, Pdu, Side, flag,
};
use varve_nvme::{Sgl, Sqe, Status};
use varve_units::Nanos;

/// Names a connection; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnectionId(pub u64);

/// Data of reads and of writes by R2T that a connection holds at a time, in bytes. Arbitrary: eight
/// of the largest commands; further ones wait.
pub const DATA_BYTES_MAX: u64 = 8 * TRANSFER_BYTES_MAX as u64;
/// Answers of a queue that are not sent before input is left alone, in bytes for each of its entries:
/// twice the headers and digests of an answer with data, since what the kernel took counts until all of
/// it is sent. A host in good order awaits one answer for each entry. The answer to one command, a page
/// of a log say, may come on top, in what is being sent and behind it.
pub(crate) const OUTPUT_BYTES_ENTRY: usize = 128;
/// The same before Connect succeeded. Arbitrary: a host in good order awaits one answer.
pub(crate) const OUTPUT_BYTES_UNCONNECTED: usize = 4096;

/// Slots before Connect said how many: Connect itself.
const SLOTS_UNCONNECTED: u16 = 1;
/// SQSIZE + 1 of the smallest queue (spec: base 2.0 §3.3.3.1).
pub(crate) const QUEUE_ENTRIES_MIN: u16 = 2;

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// ICReq is awaited.
    Initial,
    /// Capsules are taken.
    Open,
    /// What is to be sent is sent, then it ends.
    Closing,
}

/// The queue pair of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub cntlid: u16,
    pub qid: u16,
    /// Entries.
    pub size: u16,
    pub flow_control: bool,
    pub sqhd: u16,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection<D> {
    pub id: ConnectionId,
    /// When it was accepted, in the time the caller ran; so are all times here and in `slots`.
    pub opened: Nanos,
    pub phase: Phase,
    pub queue: Option<Queue>,
    pub slots: Slots,
    pub outgoing: Outgoing<D>,
    pub decoder: Decoder,
    /// Commands that wait for budget, in order.
    pub parked: VecDeque<Tag>,
    /// Data at the backend or on its way here.
    pub data_bytes: u64,
    /// Data that the caller is sending.
    pub sending: u64,
    /// Headers and small data that it is sending.
    pub sending_small: usize,
    /// When a batch was last begun, or when there was first something for one behind nothing.
    pub unsent_since: Nanos,
    /// There was nothing to send when that was last looked at.
    pub was_sent: bool,
    /// What of it all counts against the bound of all connections.
    pub counted: u64,
    /// Whose data is coming in, and how many bytes of it are here at the end of its PDU.
    pub coming: Option<(Tag, usize)>,
    /// It is in line for room.
    pub is_in_line: bool,
    /// Its input is left alone until there is room.
    pub is_paused: bool,
    /// Its input may be given again.
    pub is_resumed: bool,
}

impl<D: AsRef<[u8]>> Connection<D> {
    pub fn new(id: ConnectionId, ran: Nanos) -> Self {
        let limits = Limits {
            capsule_data_max: CAPSULE_DATA,
            data_max: TRANSFER_BYTES_MAX,
            pda: 0,
        };
        Self {
            id,
            opened: ran,
            phase: Phase::Initial,
            queue: None,
            slots: Slots::new(SLOTS_UNCONNECTED),
            outgoing: Outgoing::new(),
            decoder: Decoder::new(Side::Host, limits).announcing(),
            parked: VecDeque::new(),
            data_bytes: 0,
            sending: 0,
            sending_small: 0,
            unsent_since: ran,
            was_sent: true,
            counted: 0,
            coming: None,
            is_in_line: false,
            is_paused: false,
            is_resumed: false,
        }
    }

    /// Takes bytes; fewer than given if answers have to be sent first.
    pub fn receive(&mut self, shared: &mut Shared, now: Nanos, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            if self.phase == Phase::Closing {
                return bytes.len();
            }
            // Only with something to send: then the caller knows what has to happen first.
            if self.outgoing.small_bytes() > 0 && self.unsent_small() > self.output_max() {
                break;
            }
            if self.is_too_much(shared) {
                self.is_paused = true;
                self.get_in_line(shared);
                break;
            }
            taken += self.feed(shared, now, &bytes[taken..]);
        }
        taken
    }

    /// Takes bytes up to the end of a PDU at most.
    fn feed(&mut self, shared: &mut Shared, now: Nanos, bytes: &[u8]) -> usize {
        let progress = match self.decoder.feed(bytes) {
            Ok(progress) => progress,
            Err(error) => {
                self.terminate(&error);
                return bytes.len();
            }
        };
        let mut done = progress.begun.map_or(Ok(()), |head| self.on_head(&head));
        if let (Ok(()), Some(pdu)) = (&done, progress.pdu) {
            done = self.on_pdu(shared, now, pdu);
        }
        if let Err(error) = done {
            self.terminate(&error);
        }
        self.note_progress(shared);
        progress.taken
    }

    /// Bytes of data being received that are not here yet.
    pub fn missing(&self) -> usize {
        match self.phase {
            Phase::Closing => 0,
            _ => self.decoder.missing(),
        }
    }

    /// The data being received, for who receives the rest of it there.
    pub fn lend(&mut self) -> Vec<u8> {
        self.decoder.lend()
    }

    /// Data that was lent; gives what lies beyond it.
    pub fn give_back(&mut self, shared: &mut Shared, now: Nanos, data: Vec<u8>) -> Vec<u8> {
        let surplus = self.decoder.give_back(data);
        if self.phase != Phase::Closing {
            self.feed(shared, now, &[]);
        }
        surplus
    }

    /// Ends with a TermReq.
    fn terminate(&mut self, error: &FatalError) {
        self.outgoing
            .term(&Header::C2hTermReq(error.into()), &error.header);
        self.phase = Phase::Closing;
    }

    fn on_pdu(&mut self, shared: &mut Shared, now: Nanos, pdu: Pdu) -> Result<(), FatalError> {
        match (self.phase, pdu.header) {
            (_, Header::H2cTermReq(_)) => self.phase = Phase::Closing,
            (Phase::Initial, Header::IcReq(request)) => self.on_icreq(&pdu, request)?,
            (Phase::Open, Header::CapsuleCmd(sqe)) => {
                self.on_capsule(shared, now, &sqe, pdu)?;
            }
            (Phase::Open, Header::H2cData(transfer)) => self.on_data(shared, now, transfer, pdu)?,
            _ => return Err(pdu.fatal(FatalStatus::Sequence, 0)),
        }
        Ok(())
    }

    /// spec: nvme-tcp 1.0 §3.6.2.2.
    fn on_icreq(&mut self, pdu: &Pdu, request: IcReq) -> Result<(), FatalError> {
        if request.pfv.get() != PFV {
            return Err(pdu.fatal(FatalStatus::Unsupported, 8));
        }
        if request.hpda > 31 {
            return Err(pdu.fatal(FatalStatus::InvalidField, 10));
        }
        let digests = Digests::from_bits(request.dgst);
        let response = IcResp::new(0, digests.bits(), TRANSFER_BYTES_MAX);
        self.outgoing.header(&Header::IcResp(response));
        self.outgoing.digests = digests;
        self.outgoing.pda = request.hpda;
        self.decoder.set_digests(digests);
        self.phase = Phase::Open;
        Ok(())
    }

    fn on_capsule(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        sqe: &Sqe,
        pdu: Pdu,
    ) -> Result<(), FatalError> {
        if let Some(queue) = &mut self.queue {
            queue.sqhd = (queue.sqhd + 1) % queue.size;
            if let Some(controller) = shared.controllers.get_mut(&queue.cntlid) {
                controller.hear(shared.clock, now);
            }
        }
        if self.slots.is_full() {
            // More commands than the queue has entries: the host lost count.
            return Err(pdu.fatal(FatalStatus::Sequence, 0));
        }
        if pdu.digest == DataDigest::Bad {
            self.fail(shared, sqe, Status::TransientTransport.into());
            return Ok(());
        }
        if let Err(reply) = self.begin(shared, now, sqe, pdu.data) {
            self.fail(shared, sqe, reply);
        }
        Ok(())
    }

    /// Checks a command, and executes it or asks for its data.
    fn begin(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        sqe: &Sqe,
        data: Vec<u8>,
    ) -> Result<(), Reply> {
        if sqe.flags & 0xc0 != USES_SGL || sqe.fuse()? != Fuse::Normal {
            return Err(Status::InvalidField.into());
        }
        match self.need(shared, sqe)? {
            Need::None => self.execute(shared, now, sqe, Vec::new()),
            Need::ToHost(bytes) => match sqe.data()? {
                Sgl::Transport { length } if length == bytes => {
                    self.execute(shared, now, sqe, Vec::new())
                }
                Sgl::Transport { .. } => Err(Status::InvalidSglLength.into()),
                Sgl::InCapsule { .. } => Err(Status::InvalidSglType.into()),
            },
            Need::FromHost(bytes) => match sqe.data()? {
                Sgl::InCapsule { offset, .. } if offset != 0 => {
                    Err(Status::InvalidSglOffset.into())
                }
                Sgl::InCapsule { length, .. } => {
                    if length != bytes || data.len() as u64 != u64::from(bytes) {
                        return Err(Status::InvalidSglLength.into());
                    }
                    self.execute(shared, now, sqe, data)
                }
                Sgl::Transport { length } if length == bytes => {
                    self.park(sqe, bytes, State::ParkedTransfer);
                    self.pump(shared);
                    Ok(())
                }
                Sgl::Transport { .. } => Err(Status::InvalidSglLength.into()),
            },
        }
    }

    /// Data a command has, if it may come now at all.
    fn need(&self, shared: &Shared, sqe: &Sqe) -> Result<Need, Reply> {
        let Some(queue) = self.queue else {
            return fabrics::need_unconnected(sqe);
        };
        if sqe.opcode == opcode::FABRICS {
            return fabrics::need_connected(queue.qid, sqe);
        }
        let controller = shared.controllers.get(&queue.cntlid);
        let controller = controller.filter(|controller| controller.is_ready());
        let controller = controller.ok_or(Status::SequenceError)?;
        let need = match queue.qid {
            0 => admin::need(controller.kind, sqe),
            _ => io::need(shared, sqe),
        };
        Ok(need?)
    }

    /// Executes a command whose data is here.
    fn execute(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        sqe: &Sqe,
        data: Vec<u8>,
    ) -> Result<(), Reply> {
        let outcome = match self.queue {
            None => fabrics::connect(self, shared, now, sqe, &data)?,
            Some(queue) if sqe.opcode == opcode::FABRICS => {
                fabrics::property(self, shared, queue, sqe)?
            }
            Some(Queue { qid: 0, cntlid, .. }) => match sqe.opcode {
                opcodes::ASYNC_EVENT => self.await_event(shared, cntlid, sqe)?,
                opcodes::ABORT => self.abort(shared, cntlid, sqe),
                _ => admin::execute(shared, cntlid, sqe, &data)?,
            },
            Some(_) => self.execute_io(shared, sqe, data)?,
        };
        match outcome {
            Outcome::Reply(result) => self.succeed(sqe, result),
            Outcome::Data(data) => self.succeed_with_bytes(sqe, &data),
            Outcome::Pending => {}
        }
        Ok(())
    }

    fn execute_io(
        &mut self,
        shared: &mut Shared,
        sqe: &Sqe,
        data: Vec<u8>,
    ) -> Result<Outcome, Reply> {
        let bytes = data.len() as u32;
        let Some((operation, work)) = io::operation(shared, sqe, data)? else {
            return Ok(Outcome::Reply(0));
        };
        match work {
            Work::Read | Work::Commit(Reading::Read) => {
                let bytes = sqe.range().count * crate::BLOCK_BYTES;
                self.park(sqe, bytes, State::ParkedRead);
                self.pump(shared);
            }
            Work::Plain | Work::Compare(_) | Work::Commit(_) | Work::Shutdown => {
                // What is compared is held beside what is read.
                let bytes = match work {
                    Work::Compare(_) | Work::Commit(_) => bytes * 2,
                    _ => bytes,
                };
                self.data_bytes += u64::from(bytes);
                let state = State::Backend(work);
                let tag = self.insert(sqe, bytes, state);
                self.act(shared, tag, sqe.namespace(), operation);
            }
        }
        Ok(Outcome::Pending)
    }

    /// Hands a command to the backend.
    pub fn act(
        &mut self,
        shared: &mut Shared,
        tag: Tag,
        nsid: Option<u32>,
        operation: crate::Operation,
    ) {
        shared.actions.push_back(Action {
            connection: self.id,
            tag,
            nsid,
            operation,
        });
    }

    /// Puts a command into a slot. There is one: it was looked for when the capsule came, or the
    /// command just left its own.
    pub fn insert(&mut self, sqe: &Sqe, bytes: u32, state: State) -> Tag {
        let slot = Slot {
            sqe: *sqe,
            bytes,
            state,
        };
        let inserted = self.slots.insert(slot);
        inserted.expect("a slot was free when the command was taken")
    }

    /// The header of a PDU with data: data that nobody asked for gets no memory.
    ///
    /// spec: nvme-tcp 1.0 §3.6.2.9.
    fn on_head(&mut self, head: &Head) -> Result<(), FatalError> {
        let transfer = match (self.phase, head.header) {
            (Phase::Open, Header::H2cData(transfer)) => transfer,
            (_, Header::H2cTermReq(_)) | (Phase::Open, Header::CapsuleCmd(_)) => return Ok(()),
            _ => return Err(head.fatal(FatalStatus::Sequence, 0)),
        };
        let Some(slot) = self.slots.get_mut(Tag(transfer.ttag.get())) else {
            return Err(head.fatal(FatalStatus::InvalidField, 10));
        };
        let State::Transfer { got, .. } = &slot.state else {
            return Err(head.fatal(FatalStatus::InvalidField, 10));
        };
        if transfer.cccid != slot.sqe.cid {
            return Err(head.fatal(FatalStatus::InvalidField, 8));
        }
        let until = *got + head.data_bytes;
        let bytes = slot.bytes as usize;
        if transfer.datao.get() as usize != *got || until > bytes {
            return Err(head.fatal(FatalStatus::OutOfRange, 0));
        }
        if head.flags & flag::LAST != 0 && until < bytes {
            return Err(head.fatal(FatalStatus::InvalidField, 1));
        }
        self.coming = Some((Tag(transfer.ttag.get()), until));
        Ok(())
    }

    /// Data that was asked for.
    fn on_data(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        transfer: DataTransfer,
        pdu: Pdu,
    ) -> Result<(), FatalError> {
        let tag = Tag(transfer.ttag.get());
        let Some(slot) = self.slots.get_mut(tag) else {
            return Err(pdu.fatal(FatalStatus::InvalidField, 10));
        };
        let bytes = slot.bytes as usize;
        let State::Transfer {
            data, got, is_bad, ..
        } = &mut slot.state
        else {
            return Err(pdu.fatal(FatalStatus::InvalidField, 10));
        };
        let until = *got + pdu.data.len();
        assert!(until <= bytes, "its header was let in");
        self.coming = None;
        *is_bad |= pdu.digest == DataDigest::Bad;
        if *got == 0 && until == bytes {
            *data = pdu.data;
        } else {
            data.reserve_exact(bytes - data.len());
            data.extend_from_slice(&pdu.data);
        }
        *got = until;
        self.slots.note_progress(tag, until, shared.clock.ran());
        if until == bytes {
            self.finish_transfer(shared, now, tag);
        }
        Ok(())
    }

    /// All data of a command is here.
    fn finish_transfer(&mut self, shared: &mut Shared, now: Nanos, tag: Tag) {
        let Some(slot) = self.take(tag) else { return };
        let State::Transfer { data, is_bad, .. } = slot.state else {
            return;
        };
        let done = if is_bad {
            Err(Status::TransientTransport.into())
        } else {
            self.execute(shared, now, &slot.sqe, data)
        };
        if let Err(reply) = done {
            self.fail(shared, &slot.sqe, reply);
        }
        self.pump(shared);
    }

    /// Removes a command that holds budget.
    fn take(&mut self, tag: Tag) -> Option<Slot> {
        let slot = self.slots.remove(tag)?;
        let held = match slot.state {
            State::Transfer { .. } | State::Backend(_) => u64::from(slot.bytes),
            _ => 0,
        };
        self.data_bytes -= held;
        Some(slot)
    }

    /// The backend's answer.
    pub fn complete(&mut self, shared: &mut Shared, tag: Tag, result: Completion<D>) {
        let slot = self.take(tag).expect("completed once");
        let Slot { sqe, state, bytes } = slot;
        let State::Backend(work) = state else {
            panic!("{state:?} was not at the backend");
        };
        if matches!(work, Work::Shutdown) {
            let is_shutdown = |slot: &Slot| matches!(slot.state, State::Backend(Work::Shutdown));
            if self.slots.find(is_shutdown).is_some() {
                // A reset came between; the shutdown after it has a flush of its own.
                return;
            }
            let cntlid = self.queue.map(|queue| queue.cntlid);
            let controller = cntlid.and_then(|cntlid| shared.controllers.get_mut(&cntlid));
            if let Some(controller) = controller {
                controller.finish_shutdown(result.is_ok());
            }
            return;
        }
        if self.phase == Phase::Closing {
            return;
        }
        match (work, result) {
            (Work::Commit(what), Ok(None)) => {
                // It holds what it held: the flush was its own.
                self.data_bytes += u64::from(bytes);
                let tag = self.insert(&sqe, bytes, State::Backend(what.work()));
                self.act(shared, tag, sqe.namespace(), io::read(&sqe));
            }
            (_, Err(failure)) => {
                shared.health.media_errors += u64::from(failure == Failure::Unreadable);
                self.fail(shared, &sqe, failure.status().into());
            }
            (work, Ok(data)) => self.answer(shared, &sqe, work, data),
        }
        self.pump(shared);
    }

    fn answer(&mut self, shared: &mut Shared, sqe: &Sqe, work: Work, data: Option<D>) {
        shared.health.count(sqe);
        let wanted = sqe.range().count as usize * crate::BLOCK_BYTES as usize;
        let bytes = data.as_ref().map_or(0, |data| data.as_ref().len());
        match (work, data) {
            (Work::Read, Some(data)) => {
                assert_eq!(bytes, wanted, "a read gives what was asked for");
                self.succeed_with_data(sqe, data);
            }
            (Work::Compare(expected), Some(data)) => {
                assert_eq!(bytes, wanted, "a read gives what was asked for");
                if data.as_ref() == expected {
                    self.succeed(sqe, 0);
                } else {
                    self.fail(shared, sqe, Status::CompareFailure.into());
                }
            }
            (Work::Plain, None) => self.succeed(sqe, 0),
            (work, data) => panic!("{work:?} with data {}", data.is_some()),
        }
    }

    /// spec: base 2.0 §5.2.
    fn await_event(
        &mut self,
        shared: &mut Shared,
        cntlid: u16,
        sqe: &Sqe,
    ) -> Result<Outcome, Reply> {
        let waiting = self
            .slots
            .count(|slot| matches!(slot.state, State::AsyncEvent));
        if waiting >= crate::ASYNC_EVENTS_MAX {
            return Err(Status::AsyncLimitExceeded.into());
        }
        self.insert(sqe, 0, State::AsyncEvent);
        shared.effects.push_back(Effect::Notify(cntlid));
        Ok(Outcome::Pending)
    }

    /// Reports events while there are requests for them.
    pub fn notify(&mut self, shared: &mut Shared) {
        let Some(queue) = self.queue else { return };
        while let Some(tag) = self
            .slots
            .find(|slot| matches!(slot.state, State::AsyncEvent))
        {
            let controller = shared.controllers.get_mut(&queue.cntlid);
            let Some(notice) = controller.and_then(Controller::next_notice) else {
                return;
            };
            if let Some(slot) = self.slots.remove(tag) {
                self.succeed(&slot.sqe, u64::from(notice.result()));
            }
        }
    }

    /// A reset: requests for events end without an answer (spec: base 2.0 §5.2).
    pub fn forget_events(&mut self) {
        while let Some(tag) = self
            .slots
            .find(|slot| matches!(slot.state, State::AsyncEvent))
        {
            self.slots.remove(tag);
        }
    }

    /// spec: base 2.0 §5.1. The answer comes when the other queue was looked at.
    fn abort(&mut self, shared: &mut Shared, cntlid: u16, sqe: &Sqe) -> Outcome {
        let word = sqe.cdw(10);
        shared.effects.push_back(Effect::Abort {
            cntlid,
            qid: (word & 0xffff) as u16,
            cid: (word >> 16) as u16,
            by: self.id,
            by_cid: sqe.cid.get(),
        });
        Outcome::Pending
    }

    /// Aborts a command that waits here for something; what is at the backend or whose data is on
    /// its way ends by itself. True if there was one.
    pub fn abort_waiting(&mut self, shared: &mut Shared, cid: u16) -> bool {
        let is_waiting = |slot: &Slot| {
            let waits = matches!(
                slot.state,
                State::AsyncEvent | State::ParkedTransfer | State::ParkedRead
            );
            waits && slot.sqe.cid.get() == cid
        };
        let Some(slot) = self.slots.find(is_waiting).and_then(|tag| {
            self.parked.retain(|parked| *parked != tag);
            self.slots.remove(tag)
        }) else {
            return false;
        };
        self.fail(shared, &slot.sqe, Status::AbortRequested.into());
        true
    }

    /// Makes room for a queue's commands: its entries, and the one that CC may need for a shutdown.
    pub fn open_queue(&mut self, queue: Queue) {
        assert!((QUEUE_ENTRIES_MIN..=QUEUE_ENTRIES_MAX).contains(&queue.size));
        self.slots = Slots::new(queue.size + 1);
        self.queue = Some(queue);
    }
}
