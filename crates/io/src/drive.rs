//! The drive.

use crate::buffer::{Blocks, Sectors};
use crate::command::{Command, Done, Gather, Handle, Target};
use crate::completion::{Completion, Outcome};
use crate::error::IoError;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// What a drive is, fixed while it is open but for the ways to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveInfo {
    /// Usable size in bytes, a multiple of `lba_bytes`.
    pub bytes: u64,
    /// Smallest unit of a transfer: 512 or 4096 bytes.
    pub lba_bytes: u32,
    /// True if a completed write can be lost with the power before a flush.
    pub volatile_cache: bool,
    /// Independent ways to read the same content, at least 1. An array has one more while a drive that it replaces
    /// is kept: what no other way gives may be there.
    pub copies: u8,
    /// Placement handles that writes can name, at least 1: what is written under one of them shares the units
    /// that are erased at once. A drive without placement has one; a zoned one that opens zones where they
    /// are written has as many as zones may be open.
    pub handles: u8,
    /// Blocks between two others that it costs less to read with them than to give each a command.
    pub gap_blocks: u8,
}

/// [`DriveInfo::gap_blocks`] of drives whose commands go to a kernel, a controller or a network. Measured:
/// where garbage collection reads victims that are two thirds live, 2 to 15 give modelled flash 5 % more
/// random writes than 0 (a page is sensed once, not once for each run). Files took less CPU with 1 to 6 too, but what
/// they collected fell meanwhile.
pub const GAP_BLOCKS: u8 = 6;

/// First of the ways to read that only what was written narrow has ([`LeftOut`]): the way of member `m` of an array is
/// this and `m`, and takes that member's strip for zeroes.
pub const NARROW_WAYS: u8 = 128;

/// What an array that lacks a member wants left out of a stripe, so that all that is written of it survives the loss
/// of one more: the missing member's strip is zeroes then, which need not be read. Blocks are counted from the
/// stripe's first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The member whose strip is zeroes.
    pub member: u8,
    /// The first block without data of the caller's.
    pub first: u32,
    /// Blocks without data of the caller's: as many in every stripe.
    pub count: u32,
    /// They are to hold what [`Drive::complete`] adds, and are the last of the stripe; else zeroes.
    pub is_sum: bool,
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

    /// What is to be left out of the stripe at byte `offset` now, if anything is. Who leaves it out writes the same
    /// stripe as ever; who does not has it written without redundancy.
    fn left_out(&self, _offset: u64) -> Option<LeftOut> {
        None
    }

    /// Adds what a stripe of which a sum is left out ends with to all that is before it.
    ///
    /// # Panics
    /// If the drive never asks for a sum, or that is not all.
    fn complete(&self, _before: Gather) -> Gather {
        unreachable!("this drive asks for no sum")
    }

    /// The ways ([`NARROW_WAYS`]) of members that are missing now.
    fn narrow_ways(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// The memory of a read of data.
///
/// # Errors
/// The read's.
pub fn blocks_of(outcome: Outcome) -> Result<Blocks, IoError> {
    match outcome? {
        Done::Read(Target::Data(blocks)) => Ok(blocks),
        Done::Read(Target::Meta(_)) | Done::Nothing => unreachable!("a read returns its memory"),
    }
}

impl dyn Drive + '_ {
    /// Reads blocks of data at byte `offset` by way `copy`.
    ///
    /// # Errors
    /// The drive's.
    pub async fn read_data(&self, offset: u64, into: Blocks, copy: u8) -> Result<Blocks, IoError> {
        let into = Target::Data(into);
        blocks_of(self.submit(Command::Read { offset, into, copy }).await)
    }

    /// Reads blocks of data at byte `offset` by the first of the ways that is in use; also which that is.
    /// `memory` as in [`Self::read_in_use`].
    pub async fn read_data_in_use(
        &self,
        offset: u64,
        mut memory: impl FnMut() -> Blocks,
    ) -> (Result<Blocks, IoError>, u8) {
        let (read, copy) = self.read_in_use(offset, || Target::Data(memory()));
        (blocks_of(read.await), copy)
    }

    /// Starts a read at byte `offset` by the first of the ways that is in use; also which that is. An
    /// array answers at once for a way through a member that it lost, and `memory` is asked for again.
    pub fn read_in_use(&self, offset: u64, mut memory: impl FnMut() -> Target) -> (Completion, u8) {
        let mut copy = 0;
        loop {
            let into = memory();
            let read = self.submit(Command::Read { offset, into, copy });
            if !read.is_gone() || copy + 1 == self.info().copies {
                return (read, copy);
            }
            copy += 1;
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

    fn left_out(&self, offset: u64) -> Option<LeftOut> {
        (**self).left_out(offset)
    }

    fn complete(&self, before: Gather) -> Gather {
        (**self).complete(before)
    }

    fn narrow_ways(&self) -> Vec<u8> {
        (**self).narrow_ways()
    }
}
