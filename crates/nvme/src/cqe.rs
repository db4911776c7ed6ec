//! The completion queue entry.

use crate::status::{Status, StatusField};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Completion queue entry, 16 bytes (spec: base 2.0 §3.3.3.1).
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
pub struct Cqe {
    /// Command specific result, low half.
    pub dw0: U32,
    /// Command specific result, high half.
    pub dw1: U32,
    /// Entries of the submission queue up to here may be used again.
    pub sqhd: U16,
    /// Reserved over fabrics.
    pub sqid: U16,
    /// The command this answers.
    pub cid: U16,
    /// Status field above the phase bit.
    pub status: U16,
}

const _: () = assert!(size_of::<Cqe>() == 16);

impl Cqe {
    /// An answer to command `cid`.
    #[must_use]
    pub fn new(cid: u16, status: Status, result: u64) -> Self {
        Self {
            dw0: U32::new((result & 0xffff_ffff) as u32),
            dw1: U32::new((result >> 32) as u32),
            sqhd: U16::ZERO,
            sqid: U16::ZERO,
            cid: U16::new(cid),
            status: U16::new(status.field().to_cqe()),
        }
    }

    /// The status field.
    #[must_use]
    pub fn status(&self) -> StatusField {
        StatusField::from_cqe(self.status.get())
    }

    /// Both result words.
    #[must_use]
    pub fn result(&self) -> u64 {
        u64::from(self.dw0.get()) | u64::from(self.dw1.get()) << 32
    }
}
