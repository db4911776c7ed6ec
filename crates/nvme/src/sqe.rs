//! The submission queue entry and the views of its command specific words.

use crate::NSID_ALL;
use crate::opcode::{self, Direction};
use crate::sgl::{RawSgl, Sgl};
use crate::status::Status;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// SGLs instead of PRPs, in the flags; required over fabrics (PSDT 01b).
pub const USES_SGL: u8 = 0x40;

/// Submission queue entry, 64 bytes (spec: base 2.0 §3.3.3.1).
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct Sqe {
    /// What to do.
    pub opcode: u8,
    /// FUSE in bits 1:0, PSDT in bits 7:6.
    pub flags: u8,
    /// The host's number for the command.
    pub cid: U16,
    /// Namespace; byte 4 is the type of a fabrics command.
    pub nsid: U32,
    /// Command specific.
    pub cdw2: U32,
    /// Command specific.
    pub cdw3: U32,
    /// Metadata; reserved over TCP.
    pub mptr: U64,
    /// Where the data is.
    pub sgl: RawSgl,
    /// Command specific words 10 to 15.
    pub cdw: [U32; 6],
}

const _: () = assert!(size_of::<Sqe>() == 64);

/// Place of a command in a fused pair (spec: base 2.0 §3.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fuse {
    /// Not fused.
    Normal,
    /// The first of two.
    First,
    /// The second of two.
    Second,
}

/// A range of blocks with what I/O commands say about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRange {
    /// First block, in the namespace's LBA format.
    pub slba: u64,
    /// Number of blocks, 1 to 65,536.
    pub count: u32,
}

/// Force Unit Access, word 12 of reads and writes.
const FUA: u32 = 1 << 30;
/// Deallocate, word 12 of Write Zeroes.
const DEAC: u32 = 1 << 25;

impl Sqe {
    /// A command without data or parameters.
    #[must_use]
    pub fn new(opcode: u8, cid: u16, nsid: u32) -> Self {
        let mut sqe = Self {
            opcode,
            flags: USES_SGL,
            cid: U16::new(cid),
            nsid: U32::new(nsid),
            ..Self::default()
        };
        sqe.sgl = Sgl::Transport { length: 0 }.into();
        sqe
    }

    /// The same with data at `sgl`.
    #[must_use]
    pub fn with_sgl(mut self, sgl: Sgl) -> Self {
        self.sgl = sgl.into();
        self
    }

    /// Command specific word `index`, 10 to 15.
    ///
    /// # Panics
    /// For other words.
    #[must_use]
    pub fn cdw(&self, index: usize) -> u32 {
        self.cdw[index - 10].get()
    }

    /// Changes word `index`, 10 to 15.
    ///
    /// # Panics
    /// For other words.
    pub fn set_cdw(&mut self, index: usize, value: u32) {
        self.cdw[index - 10] = U32::new(value);
    }

    /// Where the data is.
    ///
    /// # Errors
    /// Descriptors that NVMe/TCP does not have.
    pub fn data(&self) -> Result<Sgl, Status> {
        Sgl::try_from(self.sgl)
    }

    /// Which way the data goes.
    #[must_use]
    pub fn direction(&self) -> Direction {
        if self.opcode == opcode::FABRICS {
            opcode::direction(self.fctype())
        } else {
            opcode::direction(self.opcode)
        }
    }

    /// Type of a fabrics command, byte 4.
    #[must_use]
    pub fn fctype(&self) -> u8 {
        (self.nsid.get() & 0xff) as u8
    }

    /// The namespace, if it is not the broadcast id.
    #[must_use]
    pub fn namespace(&self) -> Option<u32> {
        Some(self.nsid.get()).filter(|nsid| *nsid != NSID_ALL && *nsid != 0)
    }

    /// Place in a fused pair.
    ///
    /// # Errors
    /// The reserved value.
    pub fn fuse(&self) -> Result<Fuse, Status> {
        match self.flags & 3 {
            0 => Ok(Fuse::Normal),
            1 => Ok(Fuse::First),
            2 => Ok(Fuse::Second),
            _ => Err(Status::InvalidField),
        }
    }

    /// Range of a read, write, compare or write zeroes (spec: nvm 1.0 §3.2).
    #[must_use]
    pub fn range(&self) -> BlockRange {
        BlockRange {
            slba: u64::from(self.cdw(10)) | u64::from(self.cdw(11)) << 32,
            count: (self.cdw(12) & 0xffff) + 1,
        }
    }

    /// Sets the range.
    ///
    /// # Panics
    /// For 0 or more than 65,536 blocks.
    pub fn set_range(&mut self, range: BlockRange) {
        assert!((1..=65_536).contains(&range.count), "{range:?}");
        self.set_cdw(10, (range.slba & 0xffff_ffff) as u32);
        self.set_cdw(11, (range.slba >> 32) as u32);
        self.set_cdw(12, self.cdw(12) & !0xffff | (range.count - 1));
    }

    /// Force Unit Access.
    #[must_use]
    pub fn fua(&self) -> bool {
        self.cdw(12) & FUA != 0
    }

    /// Asks for Force Unit Access.
    pub fn set_fua(&mut self) {
        self.set_cdw(12, self.cdw(12) | FUA);
    }

    /// Write Zeroes may deallocate.
    #[must_use]
    pub fn deallocate(&self) -> bool {
        self.cdw(12) & DEAC != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_read() {
        let mut sqe =
            Sqe::new(opcode::io::READ, 0x1234, 1).with_sgl(Sgl::Transport { length: 8192 });
        sqe.set_range(BlockRange {
            slba: 0x1_0000_0002,
            count: 2,
        });
        let mut bytes = [0u8; 64];
        bytes[..8].copy_from_slice(&[0x02, 0x40, 0x34, 0x12, 1, 0, 0, 0]);
        bytes[32..40].copy_from_slice(&[0, 0x20, 0, 0, 0, 0, 0, 0x5a]);
        bytes[40..52].copy_from_slice(&[2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(sqe.as_bytes(), bytes);
        assert_eq!(sqe.direction(), Direction::ToHost);
        assert!(!sqe.fua());
        sqe.set_fua();
        assert!(sqe.fua());
        assert_eq!(sqe.range().count, 2);
    }
}
