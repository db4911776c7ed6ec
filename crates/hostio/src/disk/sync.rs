//! A flush on the ring: one of a disk at a time (see `gate`), for all who asked before it began.

use super::Disk;
use super::errno::{RETRIES_MAX, flush_error_of, is_passing};
use super::gate::{Seat, Stand};
use crate::ring::{Count, Next, Operation};
use io_uring::{opcode, squeue, types};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use varve_io::{Done, IoError, Outcome, Sender};

/// How long a reactor that could have no bell waits before it looks again. Arbitrary: a flush takes as long.
static PAUSE: types::Timespec = types::Timespec::new().nsec(1_000_000);

/// Those of one reactor who asked for a flush before it began.
pub(super) struct Round {
    seat: Arc<Seat>,
    senders: RefCell<Vec<Sender<Outcome>>>,
}

impl Round {
    pub(super) fn new(disk: &Disk, sender: Sender<Outcome>) -> Rc<Self> {
        let seat = disk.0.gate.enter();
        let senders = RefCell::new(vec![sender]);
        Rc::new(Self { seat, senders })
    }

    /// True if its flush has not begun.
    pub(super) fn is_open(&self, disk: &Disk) -> bool {
        disk.0.gate.waits(&self.seat)
    }

    pub(super) fn join(&self, sender: Sender<Outcome>) {
        self.senders.borrow_mut().push(sender);
    }

    fn tell(&self, outcome: Result<(), IoError>) {
        for sender in self.senders.take() {
            sender.send(outcome.map(|()| Done::Nothing));
        }
    }
}

/// What the kernel was asked last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// To tell when the seat's stand changes.
    Word,
    Flush,
}

/// A flush that is to come, is shared with another reactor's or is in flight.
pub(super) struct Sync {
    disk: Disk,
    round: Rc<Round>,
    asked: Asked,
    retries: u32,
    count: Count,
    is_over: bool,
}

impl Sync {
    pub(super) fn new(disk: Disk, round: Rc<Round>) -> Self {
        Self {
            disk,
            round,
            asked: Asked::Nothing,
            retries: 0,
            count: Box::new([0; 8]),
            is_over: false,
        }
    }

    /// It is nobody's turn any more: those who asked are told.
    fn tell(mut self, outcome: Result<(), IoError>) -> Next {
        self.is_over = true;
        self.round.tell(outcome);
        Next::Over
    }

    /// The flush that this one led has ended.
    fn flushed(self, result: i32) -> Next {
        let outcome = if result < 0 {
            // Before anybody else's turn: what comes after knows it.
            self.disk.condemn();
            Err(flush_error_of(-result))
        } else if self.disk.is_condemned() {
            // Since it was asked for, before it led.
            Err(IoError::Gone)
        } else {
            Ok(())
        };
        self.disk.0.gate.end(outcome);
        self.tell(outcome)
    }

    /// The seat's stand may have changed.
    fn heard(self: Box<Self>) -> Next {
        match self.round.seat.stand() {
            Stand::Ended(outcome) => self.tell(outcome),
            Stand::Leads if self.disk.is_condemned() => {
                self.disk.0.gate.end(Err(IoError::Gone));
                self.tell(Err(IoError::Gone))
            }
            Stand::Leads | Stand::Waits => Next::Again(self),
        }
    }
}

// SAFETY: names the count alone, which lies on the heap and is the operation's own; `disk` keeps the descriptor open,
// and `round` the bell.
#[expect(unsafe_code, reason = "the kernel works on the descriptor")]
unsafe impl Operation for Sync {
    fn entry(&mut self) -> squeue::Entry {
        let seat = &self.round.seat;
        if seat.stand() == Stand::Leads {
            self.asked = Asked::Flush;
            let descriptor = types::Fd(self.disk.descriptor());
            return opcode::Fsync::new(descriptor)
                .flags(types::FsyncFlags::DATASYNC)
                .build();
        }
        self.asked = Asked::Word;
        match seat.bell() {
            Some(bell) => bell.listening(&mut self.count),
            None => opcode::Timeout::new(&raw const PAUSE).build(),
        }
    }

    fn end(mut self: Box<Self>, result: i32) -> Next {
        match self.asked {
            Asked::Flush if is_passing(-result) && self.retries < RETRIES_MAX => {
                self.retries += 1;
                Next::Again(self)
            }
            Asked::Flush => self.flushed(result),
            // Whatever the kernel said of the bell.
            Asked::Word => self.heard(),
            // The reactor ends.
            Asked::Nothing => {
                self.round.tell(Err(IoError::Gone));
                Next::Over
            }
        }
    }
}

impl Drop for Sync {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.asked == Asked::Flush {
            // The reactor ends while its flush is in flight, and what the kernel says of it is lost, to the other
            // reactors as well.
            self.disk.condemn();
            self.disk.0.gate.end(Err(IoError::Gone));
        } else {
            self.disk.0.gate.leave(&self.round.seat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskOptions, Executor, FileDrive, Io};
    use std::rc::Rc;
    use varve_io::{Blocks, Drive, Gather, Receiver, Sectors, slot};

    /// A flush that is asked for, as far as the kernel's answer.
    fn begin(disk: &Disk) -> (Box<dyn Operation>, Receiver<Outcome>) {
        let (sender, receiver) = slot();
        let mut sync = Box::new(Sync::new(disk.clone(), Round::new(disk, sender)));
        sync.entry();
        (sync, receiver)
    }

    /// The kernel's answer to what it was asked last. What it is asked next, if it is.
    fn answer(operation: Box<dyn Operation>, result: i32) -> Option<Box<dyn Operation>> {
        match operation.end(result) {
            Next::Over => None,
            Next::Again(mut operation) => {
                operation.entry();
                Some(operation)
            }
        }
    }

    /// What the kernel has said of a flush, as the engine is told.
    fn ended(disk: &Disk, result: i32) -> Outcome {
        let (sync, mut receiver) = begin(disk);
        assert!(answer(sync, result).is_none());
        receiver.try_take().expect("an answer")
    }

    fn told(receiver: &mut Receiver<Outcome>) -> Option<Result<(), IoError>> {
        let outcome = receiver.try_take()?;
        Some(outcome.map(|_| ()))
    }

    fn new_disk(name: &str) -> (std::path::PathBuf, Disk) {
        let path = std::env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        let disk = Disk::create(&path, 1 << 20, &DiskOptions::default()).unwrap();
        (path, disk)
    }

    /// Two flows flush, and data were lost. The kernel tells one of them, and that one's reactor hears of it late: the
    /// other one has no good end before.
    #[test]
    fn a_flush_beside_one_that_fails_does_not_end_well() {
        let (path, disk) = new_disk("sync-beside");
        let (first, mut told_first) = begin(&disk);
        let (second, mut told_second) = begin(&disk);
        let (third, mut told_third) = begin(&disk);
        let second = answer(second, 0);
        let third = answer(third, 0);
        assert!(told(&mut told_second).is_none() && told(&mut told_third).is_none());
        assert!(answer(first, -libc::EIO).is_none());
        assert_eq!(told(&mut told_first), Some(Err(IoError::Gone)));
        assert!(second.and_then(|second| answer(second, 8)).is_none());
        assert_eq!(told(&mut told_second), Some(Err(IoError::Gone)));
        assert!(third.and_then(|third| answer(third, 8)).is_none());
        assert_eq!(told(&mut told_third), Some(Err(IoError::Gone)));
        std::fs::remove_file(&path).unwrap();
    }

    /// Whoever asked while a flush was in flight is told of one that began later.
    #[test]
    fn flushes_that_waited_share_the_next_one() {
        let (path, disk) = new_disk("sync-share");
        let (first, mut told_first) = begin(&disk);
        let (second, mut told_second) = begin(&disk);
        let (third, mut told_third) = begin(&disk);
        assert!(answer(first, 0).is_none());
        assert_eq!(told(&mut told_first), Some(Ok(())));
        let second = answer(second, 8).expect("its own flush");
        let third = answer(third, 0).expect("it waits on");
        assert!(told(&mut told_second).is_none() && told(&mut told_third).is_none());
        assert!(answer(second, 0).is_none());
        assert!(answer(third, 8).is_none());
        assert_eq!(told(&mut told_second), Some(Ok(())));
        assert_eq!(told(&mut told_third), Some(Ok(())));
        std::fs::remove_file(&path).unwrap();
    }

    /// A reactor that ends while it flushes does not take what the kernel had to say with it.
    #[test]
    fn a_flush_that_nobody_hears_of_condemns() {
        let (path, disk) = new_disk("sync-unheard");
        let (first, _) = begin(&disk);
        let (second, mut told_second) = begin(&disk);
        drop(first);
        assert!(answer(second, 8).is_none());
        assert_eq!(told(&mut told_second), Some(Err(IoError::Gone)));
        std::fs::remove_file(&path).unwrap();
    }

    /// Two flows have written, and one after the other flushes. The kernel tells the first one that data were lost, and the
    /// other one nothing: it must not take its own for durable, now or later.
    #[test]
    fn a_failed_flush_fails_all_others() {
        let (path, disk) = new_disk("sync");
        assert!(ended(&disk, 0).is_ok());
        for (number, told) in [(libc::EIO, IoError::Gone), (libc::ENOSPC, IoError::NoSpace)] {
            assert_eq!(ended(&disk, -number).err(), Some(told));
            assert_eq!(ended(&disk, 0).err(), Some(IoError::Gone));
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
