//! A flush on the ring.

use super::Disk;
use super::errno::{RETRIES_MAX, flush_error_of, is_passing};
use crate::ring::{Next, Operation};
use io_uring::{opcode, squeue, types};
use varve_io::{Done, Outcome, Sender};

/// A flush in flight.
pub(super) struct Sync {
    pub(super) disk: Disk,
    pub(super) retries: u32,
    pub(super) sender: Sender<Outcome>,
}

// SAFETY: names no memory; `disk` keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel works on the descriptor")]
unsafe impl Operation for Sync {
    fn entry(&mut self) -> squeue::Entry {
        let descriptor = types::Fd(self.disk.descriptor());
        opcode::Fsync::new(descriptor)
            .flags(types::FsyncFlags::DATASYNC)
            .build()
    }

    fn end(mut self: Box<Self>, result: i32) -> Next {
        if result >= 0 {
            self.sender.send(Ok(Done::Nothing));
        } else if is_passing(-result) && self.retries < RETRIES_MAX {
            self.retries += 1;
            return Next::Again(self);
        } else {
            self.sender.send(Err(flush_error_of(-result)));
        }
        Next::Over
    }
}
