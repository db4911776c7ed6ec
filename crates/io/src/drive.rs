//! The drive.

use crate::buffer::{Blocks, Sectors};
use crate::command::{Command, Done, Gather, Handle, Target};
use crate::completion::Completion;
use crate::error::IoError;
use alloc::rc::Rc;

/// What a drive is, fixed while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveInfo {
    /// Usable size in bytes, a multiple of `lba_bytes`.
    pub bytes: u64,
    /// Smallest unit of a transfer: 512 or 4096 bytes.
    pub lba_bytes: u32,
    /// True if a completed write can be lost with the power before a flush.
    pub volatile_cache: bool,
    /// Independent ways to read the same content, at least 1.
    pub copies: u8,
    /// Placement handles that writes can name, at least 1: what is written under one of them shares the units
    /// that are erased at once. A drive without placement has one; a zoned one that opens zones where they
    /// are written has as many as zones may be open.
    pub handles: u8,
}

/// A drive, or an array that looks like one. Single-threaded; commands overlap freely and
/// complete in any order; overlapping writes of one range in flight have no defined order.
pub trait Drive {
    /// What this drive is.
    fn info(&self) -> DriveInfo;

    /// Starts a command at once; the returned future tells how it ended.
    ///
    /// # Panics
    /// On offsets and lengths that are misaligned or beyond the end: a programmer error.
    fn submit(&self, command: Command) -> Completion;
}

impl dyn Drive + '_ {
    /// Reads blocks of data at byte `offset` by way `copy`.
    ///
    /// # Errors
    /// The drive's.
    pub async fn read_data(&self, offset: u64, into: Blocks, copy: u8) -> Result<Blocks, IoError> {
        let into = Target::Data(into);
        match self.submit(Command::Read { offset, into, copy }).await? {
            Done::Read(Target::Data(blocks)) => Ok(blocks),
            Done::Read(Target::Meta(_)) | Done::Nothing => {
                unreachable!("a read returns its memory")
            }
        }
    }

    /// Reads sectors of metadata at byte `offset` by way `copy`.
    ///
    /// # Errors
    /// The drive's.
    pub async fn read_meta(
        &self,
        offset: u64,
        into: Sectors,
        copy: u8,
    ) -> Result<Sectors, IoError> {
        let into = Target::Meta(into);
        match self.submit(Command::Read { offset, into, copy }).await? {
            Done::Read(Target::Meta(sectors)) => Ok(sectors),
            Done::Read(Target::Data(_)) | Done::Nothing => {
                unreachable!("a read returns its memory")
            }
        }
    }

    /// Writes a gather at byte `offset`.
    ///
    /// # Errors
    /// The drive's.
    pub async fn write(&self, offset: u64, gather: Gather) -> Result<(), IoError> {
        self.write_under(Handle::default(), offset, gather).await
    }

    /// Writes a gather at byte `offset` under a placement handle.
    ///
    /// # Errors
    /// The drive's.
    pub async fn write_under(
        &self,
        handle: Handle,
        offset: u64,
        gather: Gather,
    ) -> Result<(), IoError> {
        let write = Command::Write {
            offset,
            gather,
            handle,
        };
        self.submit(write).await.map(|_| ())
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// The drive's.
    pub async fn flush(&self) -> Result<(), IoError> {
        self.submit(Command::Flush).await.map(|_| ())
    }
}

impl<D: Drive + ?Sized> Drive for Rc<D> {
    fn info(&self) -> DriveInfo {
        (**self).info()
    }

    fn submit(&self, command: Command) -> Completion {
        (**self).submit(command)
    }
}
