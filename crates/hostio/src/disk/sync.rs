//! A flush on the ring.

use super::Disk;
use super::errno::{RETRIES_MAX, flush_error_of, is_passing};
use crate::ring::{Next, Operation};
use io_uring::{opcode, squeue, types};
use varve_io::{Done, IoError, Outcome, Sender};

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
        if is_passing(-result) && self.retries < RETRIES_MAX {
            self.retries += 1;
            return Next::Again(self);
        }
        let outcome = if result < 0 {
            self.disk.condemn();
            Err(flush_error_of(-result))
        } else if self.disk.is_condemned() {
            Err(IoError::Gone)
        } else {
            Ok(Done::Nothing)
        };
        self.sender.send(outcome);
        Next::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskOptions, Executor, FileDrive, Io};
    use std::rc::Rc;
    use varve_io::{Blocks, Drive, Gather, Sectors, slot};

    /// What the kernel has said of a flush, as the engine is told.
    fn ended(disk: &Disk, result: i32) -> Outcome {
        let (sender, mut receiver) = slot();
        let sync = Box::new(Sync {
            disk: disk.clone(),
            retries: 0,
            sender,
        });
        assert!(matches!(sync.end(result), Next::Over));
        receiver.try_take().expect("an answer")
    }

    /// Two flows have written and flush. The kernel tells one of them that data were lost, and the other one nothing: it
    /// must not take its own for durable, now or later.
    #[test]
    fn a_failed_flush_fails_all_others() {
        let path = std::env::temp_dir().join(format!("varve-sync-{}", std::process::id()));
        let disk = Disk::create(&path, 1 << 20, &DiskOptions::default()).unwrap();
        assert!(ended(&disk, 0).is_ok());
        for (number, told) in [(libc::EIO, IoError::Gone), (libc::ENOSPC, IoError::NoSpace)] {
            assert_eq!(ended(&disk, -number).err(), Some(told));
            assert_eq!(
                ended(&disk, 0).err(),
                Some(IoError::Gone),
                "in flight beside"
            );
        }
        let executor = Executor::new();
        let io = Io::of(&*executor.world()).unwrap();
        let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(io, disk.clone()));
        let outcome = executor.run(async move {
            let mut gather = Gather::new();
            gather.push_meta(Sectors::zeroed(8));
            let written = drive.write(0, gather).await;
            let read = drive.read_data(0, Blocks::zeroed(1), 0).await;
            (written, drive.flush().await, read.is_ok())
        });
        let gone = Err(IoError::Gone);
        assert_eq!(outcome, Ok((gone, gone, true)));
        drop((executor, disk));
        let disk = Disk::open(&path, &DiskOptions::default()).unwrap();
        assert!(ended(&disk, 0).is_ok(), "opened anew");
        std::fs::remove_file(&path).unwrap();
    }
}
