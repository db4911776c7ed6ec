//! One read or write on the ring, to its end.

use super::errno::{RETRIES_MAX, error_of, is_passing};
use super::memory::{Memory, filled};
use super::{Disk, Inner};
use crate::ring::{Next, Operation};
use crate::vectors::Vectors;
use io_uring::{opcode, squeue, types};
use varve_io::{Done, IoError, Outcome, Sender};

/// Bytes of one call at most; the kernel itself stops short of 2 GiB.
const CALL_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// A transfer in flight: owns memory and disk.
pub(super) struct Transfer {
    pub(super) disk: Disk,
    pub(super) direction: Direction,
    /// Of the next byte.
    pub(super) offset: u64,
    /// Bytes still to be moved, at least one LBA.
    pub(super) left: u64,
    pub(super) vectors: Vectors,
    pub(super) memory: Memory,
    pub(super) retries: u32,
    pub(super) sender: Sender<Outcome>,
}

// SAFETY: the pieces lie in `memory`, on the heap, which nobody else writes (a read owns its target, a
// write shares what nobody changes while it is shared); the list of pieces is on the heap; `disk`
// keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel works on the transfer's memory")]
unsafe impl Operation for Transfer {
    fn entry(&mut self) -> squeue::Entry {
        let descriptor = types::Fd(self.disk.descriptor());
        let (pieces, offset) = (self.vectors.pieces(), self.offset);
        if let [one] = pieces {
            let start: *mut u8 = one.iov_base.cast();
            let length = one.iov_len.min(CALL_BYTES_MAX) as u32;
            return match self.direction {
                Direction::Read => opcode::Read::new(descriptor, start, length)
                    .offset(offset)
                    .build(),
                Direction::Write => opcode::Write::new(descriptor, start, length)
                    .offset(offset)
                    .build(),
            };
        }
        let (list, count) = (pieces.as_ptr(), pieces.len() as u32);
        match self.direction {
            Direction::Read => opcode::Readv::new(descriptor, list, count)
                .offset(offset)
                .build(),
            Direction::Write => opcode::Writev::new(descriptor, list, count)
                .offset(offset)
                .build(),
        }
    }

    fn end(mut self: Box<Self>, result: i32) -> Next {
        match self.step(result) {
            Step::Again => Next::Again(self),
            Step::Failed(error) => {
                self.sender.send(Err(error));
                Next::Over
            }
            Step::Done => {
                let done = match self.memory {
                    Memory::Source { .. } => Done::Nothing,
                    Memory::Target { into, copy } => Done::Read(filled(into, copy.as_ref())),
                };
                self.sender.send(Ok(done));
                Next::Over
            }
        }
    }
}

enum Step {
    Again,
    Done,
    Failed(IoError),
}

impl Transfer {
    fn step(&mut self, result: i32) -> Step {
        if result < 0 {
            if is_passing(-result) && self.retries < RETRIES_MAX {
                self.retries += 1;
                return Step::Again;
            }
            return Step::Failed(error_of(-result));
        }
        // A call may stop anywhere; the next one begins at an LBA.
        let Inner { info, .. } = &*self.disk.0;
        let lba_bytes = u64::from(info.lba_bytes);
        let moved = (result as u64).min(self.left);
        let moved = if moved == self.left {
            moved
        } else {
            moved / lba_bytes * lba_bytes
        };
        if moved == 0 {
            // The end of a file that was cut off since it was opened.
            return Step::Failed(IoError::Media);
        }
        self.offset += moved;
        self.left -= moved;
        if self.left == 0 {
            return Step::Done;
        }
        self.vectors.advance(moved as usize);
        Step::Again
    }
}
