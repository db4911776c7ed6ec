//! A disk as one reactor has it.

use super::Disk;
use super::hint::Hint;
use super::memory::{Demand, Memory, source, target};
use super::sync::{Round, Sync};
use super::transfer::{Direction, Shortage, Transfer};
use crate::io::Io;
use crate::vectors::Vectors;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use varve_io::{Command, Completion, Done, Drive, DriveInfo, IoError, Outcome, Sender};

/// A file or block device, on the ring of one reactor.
pub struct FileDrive {
    io: Io,
    disk: Disk,
    /// The flush that was begun last; who asks while it waits for another reactor's shares it.
    round: RefCell<Weak<Round>>,
}

impl FileDrive {
    /// A drive over a disk that others may use as well.
    #[must_use]
    pub fn new(io: Io, disk: Disk) -> Self {
        let round = RefCell::default();
        Self { io, disk, round }
    }

    /// What is beneath.
    #[must_use]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    fn demand(&self) -> Demand {
        if !self.disk.0.is_direct {
            return Demand {
                align: 1,
                multiple: 1,
            };
        }
        Demand {
            align: self.disk.0.memory_align,
            multiple: self.disk.0.info.lba_bytes as usize,
        }
    }

    fn check(&self, offset: u64, length: u64) {
        let DriveInfo {
            bytes, lba_bytes, ..
        } = self.disk.info();
        let lba_bytes = u64::from(lba_bytes);
        assert!(
            offset.is_multiple_of(lba_bytes) && length.is_multiple_of(lba_bytes),
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset.checked_add(length).is_some_and(|end| end <= bytes),
            "range {offset}+{length} beyond the end"
        );
    }

    fn flush(&self, sender: Sender<Outcome>) {
        let last = self.round.borrow().upgrade();
        if let Some(round) = last.filter(|round| round.is_open(&self.disk)) {
            round.join(sender);
            return;
        }
        let round = Round::new(&self.disk, sender);
        *self.round.borrow_mut() = Rc::downgrade(&round);
        self.io.start(Box::new(Sync::new(self.disk.clone(), round)));
    }

    fn transfer(
        &self,
        direction: Direction,
        (offset, left): (u64, u64),
        (vectors, memory): (Vectors, Memory),
    ) -> Completion {
        let (sender, completion) = Completion::waiting();
        self.io.start(Box::new(Transfer {
            disk: self.disk.clone(),
            direction,
            offset,
            left,
            vectors,
            memory,
            retries: 0,
            shortage: Shortage::default(),
            sender,
        }));
        completion
    }
}

impl Drive for FileDrive {
    fn info(&self) -> DriveInfo {
        self.disk.info()
    }

    fn submit(&self, command: Command) -> Completion {
        match command {
            Command::Read { offset, into, copy } => {
                assert_eq!(copy, 0, "a plain drive has one copy");
                let length = into.bytes();
                self.check(offset, length);
                if length == 0 {
                    return Completion::ready(Ok(Done::Read(into)));
                }
                let memory = target(into, self.demand());
                self.transfer(Direction::Read, (offset, length), memory)
            }
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                let length = gather.bytes();
                self.check(offset, length);
                if self.disk.is_condemned() {
                    return Completion::ready(Err(IoError::Gone));
                }
                if length == 0 {
                    return Completion::ready(Ok(Done::Nothing));
                }
                let memory = source(gather, self.demand());
                self.transfer(Direction::Write, (offset, length), memory)
            }
            Command::Flush if self.disk.is_condemned() => Completion::ready(Err(IoError::Gone)),
            Command::Flush => {
                let (sender, completion) = Completion::waiting();
                self.flush(sender);
                completion
            }
            Command::Discard { offset, length } => {
                self.check(offset, length);
                if length == 0 || !self.disk.takes_discards() {
                    return Completion::ready(Ok(Done::Nothing));
                }
                let (sender, completion) = Completion::waiting();
                let disk = self.disk.clone();
                self.io.start(Box::new(Hint {
                    disk,
                    offset,
                    length,
                    sender,
                }));
                completion
            }
        }
    }
}
