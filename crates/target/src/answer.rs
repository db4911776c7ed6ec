//! Answers of a connection: responses, data, errors.

use crate::admin::Reply;
use crate::connection::Connection;
use crate::shared::Shared;
use alloc::vec::Vec;
use varve_nvme::log::ErrorEntry;
use varve_nvme::opcode;
use varve_nvme::tcp::{DataTransfer, Header, flag};
use varve_nvme::{Cqe, Sqe, Status};
use zerocopy::FromZeros;

/// True of a failure that goes on for seconds or longer: who asks at once asks in vain.
const fn takes_time(status: Status) -> bool {
    matches!(
        status,
        Status::CommandInterrupted | Status::NamespaceNotReady
    )
}

impl<D: AsRef<[u8]>> Connection<D> {
    /// The next batch to be sent.
    pub fn transmit(&mut self, shared: &mut Shared) -> Vec<crate::Segment<D>> {
        // What was taken before is sent by now.
        let batch = self.outgoing.take();
        self.sending = batch.data_bytes as u64;
        self.sending_small = batch.small_bytes;
        self.unsent_since = shared.clock.ran();
        self.pump(shared);
        batch.segments
    }

    fn sqhd(&self) -> u16 {
        match self.queue {
            Some(queue) if queue.flow_control => queue.sqhd,
            // FFFFh: the host does without (spec: base 2.0 §6.3).
            Some(_) => 0xffff,
            None => 0,
        }
    }

    /// Answers with success and a result.
    pub fn succeed(&mut self, sqe: &Sqe, result: u64) {
        self.respond(Cqe::new(sqe.cid.get(), Status::Success, result));
    }

    fn respond(&mut self, mut cqe: Cqe) {
        cqe.sqhd = self.sqhd().into();
        self.outgoing.header(&Header::CapsuleResp(cqe));
    }

    /// Header and flags of data that goes to the host whole. Without SQ flow control nobody needs
    /// the response's SQHD, and SUCCESS stands for it (spec: nvme-tcp 1.0 §3.6.2.10).
    fn data_head(&self, sqe: &Sqe, bytes: usize) -> (Header, u8, bool) {
        let is_short = self.queue.is_some_and(|queue| !queue.flow_control);
        let header = Header::C2hData(DataTransfer::new(sqe.cid.get(), 0, 0, bytes as u32));
        let success = if is_short { flag::SUCCESS } else { 0 };
        (header, flag::LAST | success, is_short)
    }

    /// Answers with success and small data, which is copied.
    pub fn succeed_with_bytes(&mut self, sqe: &Sqe, data: &[u8]) {
        let (header, flags, is_short) = self.data_head(sqe, data.len());
        self.outgoing.with_bytes(&header, flags, data);
        if !is_short {
            self.succeed(sqe, 0);
        }
    }

    /// Answers with success and data of the backend.
    pub fn succeed_with_data(&mut self, sqe: &Sqe, data: D) {
        let (header, flags, is_short) = self.data_head(sqe, data.as_ref().len());
        self.outgoing.with_data(&header, flags, data);
        if !is_short {
            self.succeed(sqe, 0);
        }
    }

    /// Answers with an error and remembers it.
    pub fn fail(&mut self, shared: &mut Shared, sqe: &Sqe, reply: Reply) {
        let mut cqe = Cqe::new(sqe.cid.get(), reply.status, reply.result);
        if reply.may_retry {
            cqe.status = reply.status.field().retryable().to_cqe().into();
        }
        let controller = self.queue.and_then(|queue| {
            let controller = shared.controllers.get_mut(&queue.cntlid)?;
            Some((controller, queue.qid))
        });
        if let Some((controller, qid)) = controller {
            if takes_time(reply.status) && controller.features.waits_to_retry() {
                cqe.status = reply.status.field().delayed().to_cqe().into();
            }
            let mut entry = ErrorEntry::new_zeroed();
            entry.sqid = qid.into();
            entry.cid = sqe.cid;
            entry.status = cqe.status;
            entry.parameter = 0xffff.into();
            entry.trtype = varve_nvme::discovery::TRTYPE_TCP;
            entry.opcode = sqe.opcode;
            if sqe.opcode != opcode::FABRICS {
                entry.nsid = sqe.nsid;
            }
            if qid > 0 {
                entry.lba = sqe.range().slba.into();
            }
            controller.log_error(entry);
        }
        self.respond(cqe);
    }
}
