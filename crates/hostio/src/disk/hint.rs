//! A discard on the ring: a hole in a file, an unmapped range of a device.

use super::Disk;
use super::errno::{error_of, is_passing};
use crate::ring::{Next, Operation};
use io_uring::{opcode, squeue, types};
use varve_io::{Done, IoError, Outcome, Sender};

/// A discard in flight.
pub(super) struct Hint {
    pub(super) disk: Disk,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) sender: Sender<Outcome>,
}

// SAFETY: names no memory; `disk` keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel works on the descriptor")]
unsafe impl Operation for Hint {
    fn entry(&mut self) -> squeue::Entry {
        let descriptor = types::Fd(self.disk.descriptor());
        // On a device the kernel unmaps the range if that is as good as zeroing it, and refuses
        // otherwise; it never writes zeroes for this.
        opcode::Fallocate::new(descriptor, self.length)
            .offset(self.offset)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build()
    }

    fn end(self: Box<Self>, result: i32) -> Next {
        let outcome = match -result {
            number if number <= 0 => Ok(Done::Nothing),
            libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::EPERM => {
                self.disk.refuse_discards();
                Ok(Done::Nothing)
            }
            // A hint that could not be taken now, for want of space for the file's own map say, is
            // no failure of the drive.
            number if is_passing(number) => Ok(Done::Nothing),
            number => match error_of(number) {
                IoError::Gone => Err(IoError::Gone),
                IoError::NoSpace | IoError::Timeout => Ok(Done::Nothing),
                error => Err(error),
            },
        };
        self.sender.send(outcome);
        Next::Over
    }
}
