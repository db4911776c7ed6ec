//! One read or write on the ring, to its end.

use super::errno::{
    MEMORY_PAUSE, MEMORY_TRIES_MAX, RETRIES_MAX, error_of, is_passing, wants_memory,
};
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
    pub(super) shortage: Shortage,
    pub(super) sender: Sender<Outcome>,
}

/// What the kernel's want of memory did to a transfer.
#[derive(Default)]
pub(super) struct Shortage {
    /// What was asked of the kernel last is to wait a while.
    is_pausing: bool,
    pauses: u32,
}

// SAFETY: the pieces lie in `memory`, on the heap, which nobody else writes (a read owns its target, a
// write shares what nobody changes while it is shared); the list of pieces is on the heap; `disk`
// keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel works on the transfer's memory")]
unsafe impl Operation for Transfer {
    fn entry(&mut self) -> squeue::Entry {
        if self.shortage.is_pausing {
            return opcode::Timeout::new(&raw const MEMORY_PAUSE).build();
        }
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
        if std::mem::take(&mut self.shortage.is_pausing) {
            return Step::Again;
        }
        if result < 0 {
            if wants_memory(-result) && self.shortage.pauses < MEMORY_TRIES_MAX {
                self.shortage.pauses += 1;
                self.shortage.is_pausing = true;
                return Step::Again;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskOptions;
    use crate::disk::memory::{Demand, target};
    use varve_io::{Blocks, Receiver, Target, slot};

    fn read_of(disk: &Disk) -> (Box<dyn Operation>, Receiver<Outcome>) {
        let (sender, receiver) = slot();
        let demand = Demand {
            align: 1,
            multiple: 1,
        };
        let (vectors, memory) = target(Target::Data(Blocks::zeroed(1)), demand);
        let mut transfer = Box::new(Transfer {
            disk: disk.clone(),
            direction: Direction::Read,
            offset: 0,
            left: 4096,
            vectors,
            memory,
            retries: 0,
            shortage: Shortage::default(),
            sender,
        });
        transfer.entry();
        (transfer, receiver)
    }

    fn again(operation: Box<dyn Operation>, result: i32) -> Box<dyn Operation> {
        let Next::Again(mut operation) = operation.end(result) else {
            panic!("the kernel is asked again after {result}");
        };
        operation.entry();
        operation
    }

    /// The kernel lacks memory for a while: the transfer waits for it and ends well. Where it lacks it for long the
    /// drive does not answer now, which is no block that cannot be read.
    #[test]
    fn want_of_memory_is_waited_for_and_no_media_error() {
        let path = std::env::temp_dir().join(format!("varve-memory-{}", std::process::id()));
        let disk = Disk::create(&path, 1 << 20, &DiskOptions::default()).unwrap();
        let (mut read, mut ended) = read_of(&disk);
        for _ in 0..3 {
            let pause = again(read, -libc::ENOMEM);
            read = again(pause, -libc::ETIME);
        }
        assert!(matches!(read.end(4096), Next::Over));
        assert!(matches!(ended.try_take(), Some(Ok(Done::Read(_)))));
        let (mut read, mut ended) = read_of(&disk);
        for _ in 0..MEMORY_TRIES_MAX {
            let pause = again(read, -libc::ENOMEM);
            read = again(pause, -libc::ETIME);
        }
        assert!(matches!(read.end(-libc::ENOMEM), Next::Over));
        let outcome = ended.try_take().expect("an answer");
        assert_eq!(outcome.err(), Some(IoError::Timeout));
        std::fs::remove_file(&path).unwrap();
    }
}
